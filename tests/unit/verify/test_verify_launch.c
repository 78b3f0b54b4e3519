/*
 * test_verify_launch.c - compiled programs on devices whose transfers begin in the order of the
 * calls (kernels/cuda/nccl.c asks NCCL for it).
 *
 * The traces of all ranks are played as lib/exec/exec_device.c enqueues them. A transfer begins
 * when the kernels have come to it, when the one before it on its stream is over, and when all
 * before it on the rank have begun; it is over when it has begun at all its members. That is
 * stricter than what lib/verify/verify.c plays in one way: whoever waits for a stream holds up the
 * streams of later calls.
 */
#include "lib/base/mem.h"
#include "lib/verify/verify_trace.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/layouts.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { RANKS_MAX = 64, PAIRS = 4, STREAMS = SN_NAXES + PAIRS, HOST = -1 };

/* When may a transfer begin, as far as others of the rank are concerned? */
enum order { BEGUN_BEFORE, OVER_BEFORE }; /* all earlier ones have begun; are over */

struct rank {
    struct sn_job *job;
    struct sn_trace trace;
    int at, made, next; /* event; posts that the kernels have come to, and that have begun */
    int *number;        /* of a post among its group's collectives */
    bool *has_begun;
    int last[STREAMS], last_of_all; /* posts that began last; -1 */
    int begun_of_group[SN_NGROUPS];
    int *begun_of_port;
};

struct world {
    struct sn_model *model;
    const struct sn_grid *grid;
    int ranks;
    struct rank rank[RANKS_MAX];
};

/* --- the world -------------------------------------------------------------------------------- */

static bool load_rank(struct world *w, const struct sn_config *c, int number, struct sn_err *err)
{
    struct rank *r = &w->rank[number];
    struct sn_job_env env = {
        .config = c, .model = w->model, .ops = sn_ops_cpu(), .threads = 1, .rank = number};
    int numbers[SN_NGROUPS] = {0};
    if (sn_job_create(&r->job, &env, err) != SN_OK)
        return false;
    w->grid = &r->job->grid;
    struct sn_trace_of of = {w->grid, r->job, &r->job->train, number};
    if (sn_trace_init(&r->trace, &of, err) != SN_OK)
        return false;
    r->number = sn_alloc_n((size_t)r->trace.n_posts + 1, sizeof(*r->number));
    r->has_begun = sn_alloc_n((size_t)r->trace.n_posts + 1, sizeof(*r->has_begun));
    r->begun_of_port = sn_alloc_n((size_t)r->trace.n_ports + 1, sizeof(*r->begun_of_port));
    for (int p = 0; p < r->trace.n_posts; p++)
        if (r->trace.posts[p].port < 0)
            r->number[p] = numbers[sn_trace_wire(&r->trace, p).group]++;
    return true;
}

static bool load(struct world *w, const struct sn_config *c)
{
    struct sn_err err = {0};
    memset(w, 0, sizeof(*w));
    w->ranks = layout_ranks(c);
    bool good =
        w->ranks <= RANKS_MAX && sn_model_create(&w->model, &c->model, &c->train, &err) == SN_OK;
    for (int i = 0; good && i < w->ranks; i++)
        good = load_rank(w, c, i, &err);
    if (!good)
        tap_ok(false, "a world of %d ranks: %s", w->ranks, err.text);
    return good;
}

static void unload(struct world *w)
{
    for (int i = 0; i < w->ranks; i++) {
        struct rank *r = &w->rank[i];
        sn_free(r->number);
        sn_free(r->has_begun);
        sn_free(r->begun_of_port);
        sn_trace_fini(&r->trace);
        sn_job_destroy(r->job);
    }
    sn_model_destroy(w->model);
}

static void rewind_all(struct world *w)
{
    for (int i = 0; i < w->ranks; i++) {
        struct rank *r = &w->rank[i];
        r->at = r->made = r->next = 0;
        r->last_of_all = -1;
        memset(r->has_begun, 0, (size_t)r->trace.n_posts * sizeof(*r->has_begun));
        memset(r->begun_of_port, 0, (size_t)r->trace.n_ports * sizeof(*r->begun_of_port));
        memset(r->begun_of_group, 0, sizeof(r->begun_of_group));
        for (int s = 0; s < STREAMS; s++)
            r->last[s] = -1;
    }
}

/* --- transfers -------------------------------------------------------------------------------- */

static const struct sn_op *op_of(const struct rank *r, int post)
{
    return &r->trace.program->ops[r->trace.posts[post].op];
}

/* As lib/exec/exec_channels.c has it; HOST: it goes through the processes. */
static int stream_of(const struct rank *r, int post)
{
    const struct sn_op *op = op_of(r, post);
    int n = r->job->group_size[SN_GROUP_PIPELINE], me = r->job->group_index[SN_GROUP_PIPELINE];
    if (op->kind == SN_OP_AGREE || op->kind == SN_OP_GATHER_ROWS)
        return HOST;
    if (op->kind != SN_OP_SEND && op->kind != SN_OP_RECV)
        return (int)sn_group_axis(op->group);
    bool sends = op->kind == SN_OP_SEND;
    if (op->peer == (me + 1) % n && sends)
        return SN_NAXES;
    if (op->peer == (me - 1 + n) % n)
        return SN_NAXES + (sends ? 1 : 2);
    return SN_NAXES + 3;
}

static int peer_of(const struct world *w, int rank, const struct sn_trace_port *q)
{
    int size = sn_group_size(w->grid, rank, q->group);
    int member = q->ring ? sn_group_index(w->grid, rank, q->group) + q->peer : q->peer;
    return sn_group_member(w->grid, rank, q->group, (member + size) % size);
}

static int begun_at_peer(const struct world *w, int rank, const struct sn_trace_port *q)
{
    int peer = peer_of(w, rank, q);
    const struct rank *r = &w->rank[peer];
    for (int i = 0; i < r->trace.n_ports; i++) {
        const struct sn_trace_port *o = &r->trace.ports[i];
        if (o->sends != q->sends && o->group == q->group && o->tag == q->tag &&
            o->ring == q->ring && peer_of(w, peer, o) == rank)
            return r->begun_of_port[i];
    }
    return 0;
}

static bool is_over(const struct world *w, int rank, int post)
{
    const struct rank *r = &w->rank[rank];
    const struct sn_trace_post *p = &r->trace.posts[post];
    if (!r->has_begun[post])
        return false;
    if (p->port >= 0)
        return begun_at_peer(w, rank, &r->trace.ports[p->port]) > p->seq;
    enum sn_group q = sn_trace_wire(&r->trace, post).group;
    for (int i = 0; i < sn_group_size(w->grid, rank, q); i++)
        if (w->rank[sn_group_member(w->grid, rank, q, i)].begun_of_group[q] <= r->number[post])
            return false;
    return true;
}

/* Both halves of a SHIFT are one call. */
static bool lets_begin(const struct world *w, int rank, int before, int post)
{
    const struct sn_trace_post *p = w->rank[rank].trace.posts;
    return before < 0 || (before == post - 1 && p[before].op == p[post].op) ||
           is_over(w, rank, before);
}

static void begin(struct rank *r, int post)
{
    int port = r->trace.posts[post].port;
    r->has_begun[post] = true;
    if (port >= 0)
        r->begun_of_port[port]++;
    else
        r->begun_of_group[sn_trace_wire(&r->trace, post).group]++;
}

/* --- the play --------------------------------------------------------------------------------- */

static bool may_pass(const struct world *w, int rank, int event)
{
    const struct rank *r = &w->rank[rank];
    if (event < 0)
        return is_over(w, rank, -event - 1);
    for (int p = 0; event == 0 && p < r->made; p++)
        if (!is_over(w, rank, p))
            return false;
    return true;
}

/* What the kernels have come to, in the order of the calls. Does anything begin? */
static bool begin_some(struct world *w, int rank, enum order order)
{
    struct rank *r = &w->rank[rank];
    int first = r->next;
    for (; r->next < r->made; r->next++) {
        int post = r->next, stream = stream_of(r, post);
        if (stream != HOST) {
            if (!lets_begin(w, rank, r->last[stream], post) ||
                (order == OVER_BEFORE && !lets_begin(w, rank, r->last_of_all, post)))
                break;
            begin(r, post);
            r->last[stream] = r->last_of_all = post;
        }
    }
    return r->next > first;
}

static bool go_on(struct world *w, int rank, enum order order)
{
    struct rank *r = &w->rank[rank];
    int first = r->at;
    for (; r->at < r->trace.n_events; r->at++) {
        int event = r->trace.events[r->at];
        if (!may_pass(w, rank, event))
            break;
        if (event <= 0)
            continue;
        r->made = event;
        if (stream_of(r, event - 1) == HOST)
            begin(r, event - 1);
    }
    bool moved = begin_some(w, rank, order);
    return moved || r->at > first;
}

/* Do all ranks come to their end? */
static bool ends(struct world *w, enum order order)
{
    rewind_all(w);
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < w->ranks; i++)
            moved |= go_on(w, i, order);
    }
    for (int i = 0; i < w->ranks; i++)
        if (w->rank[i].at < w->rank[i].trace.n_events)
            return false;
    return true;
}

static bool config_ends(const struct sn_config *c, enum order order)
{
    struct world w;
    bool good = load(&w, c) && ends(&w, order);
    unload(&w);
    return good;
}

/* --- what is found ---------------------------------------------------------------------------- */

static void pipelines_of_the_matrix_end(void)
{
    struct sn_err err = {0};
    struct layouts_line line;
    int more = -1, ended = 0;
    FILE *f = fopen("tests/equiv/layouts", "r");
    while (f && (more = layouts_next(f, &line, &err)) > 0) {
        if (line.config.layout.pipeline == 1)
            continue;
        bool good = config_ends(&line.config, BEGUN_BEFORE);
        if (!good)
            tap_ok(false, "%s comes to its end", line.name);
        ended += good;
    }
    tap_ok(more == 0 && ended > 40, "%d pipelines come to their end %s", ended, err.text);
    if (f)
        (void)fclose(f);
}

static struct sn_config pipeline(enum sn_family family, int stages, enum sn_schedule s, int vstages)
{
    struct sn_config c = layout_config(family);
    c.layout.pipeline = stages;
    c.layout.schedule = s;
    c.layout.virtual_stages = vstages;
    c.layout.tensor = 2;
    c.layout.expert_buffer = 2;
    c.model.layers = stages * vstages;
    c.model.tied_embeddings = true;
    if (family == SN_MIXTRAL) {
        c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
        c.layout.data = c.layout.expert = 2;
    }
    c.train.global_batch = 3 * stages * c.layout.data;
    return c;
}

static void long_pipelines_end(void)
{
    static const struct {
        enum sn_schedule schedule;
        int vstages;
    } s[] = {
        {SN_GPIPE, 1}, {SN_1F1B, 1}, {SN_ZERO_BUBBLE, 1}, {SN_INTERLEAVED, 2}, {SN_INTERLEAVED, 3}};
    static const enum sn_family families[] = {SN_LLAMA, SN_MIXTRAL};
    for (int f = 0; f < 2; f++)
        for (int stages = 3; stages <= 8; stages++) {
            int ended = 0;
            for (size_t i = 0; i < sizeof(s) / sizeof(s[0]); i++) {
                struct sn_config c = pipeline(families[f], stages, s[i].schedule, s[i].vstages);
                ended += config_ends(&c, BEGUN_BEFORE);
            }
            tap_ok(ended == 5, "%s: %d of 5 schedules on %d stages come to their end",
                   f ? "experts" : "dense", ended, stages);
        }
}

/* Why nothing more than the order of beginnings may be asked of NCCL. */
static void one_after_another_would_hang(void)
{
    struct sn_config zero_bubble = pipeline(SN_LLAMA, 2, SN_ZERO_BUBBLE, 1),
                     alone = pipeline(SN_MIXTRAL, 1, SN_1F1B, 1);
    tap_ok(!config_ends(&zero_bubble, OVER_BEFORE),
           "one transfer after another: a pipeline that receives early hangs");
    tap_ok(config_ends(&alone, OVER_BEFORE), "one after another: without a pipeline it ends");
}

int main(void)
{
    pipelines_of_the_matrix_end();
    long_pipelines_end();
    one_after_another_would_hang();
    return tap_done();
}
