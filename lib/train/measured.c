#include "lib/train/measured.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/program/opinfo.h"
#include "lib/report/picture.h"
#include "lib/report/trace.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { PIECE = 256 }; /* events of each rank that are gathered at once */

/* What a rank says of its timeline, before the events. */
struct rank_report {
    struct sn_clock_notes notes;
    double begin, end, unsure;
    int64_t n, lost;
    int node_first;
};

/* What rank 0 keeps of each rank while it writes. */
struct rank {
    struct sn_trace_process process;
    struct sn_clock_offset offset;
    const struct sn_program *program;
    int stage;
};

struct writing {
    FILE *f;
    const struct sn_measured_env *env;
    struct rank_report *report; /* of all ranks, as everything below; NULL but on rank 0 */
    struct rank *rank;
    struct sn_timed *events; /* PIECE of each */
    double origin;           /* on the clock of rank 0 */
    struct sn_str text;
    enum sn_status status; /* the first failure, */
    struct sn_err err;     /* and why */
};

/* --- clocks ----------------------------------------------------------------------------------- */

void sn_clock_offset_find(struct sn_clock_offset *out, const struct sn_clock_notes *zero,
                          const struct sn_clock_notes *other)
{
    double least = -INFINITY, most = INFINITY;
    for (int i = 0; i < SN_CLOCK_ROUNDS; i++) {
        least = fmax(least, other->came[i] - zero->left[i]);
        most = fmin(most, other->left[i] - zero->came[i]);
    }
    out->seconds = (least + most) / 2;
    out->unsure = (most - least) / 2;
}

static enum sn_status note_clocks(struct sn_clock_notes *n, struct sn_comm *c, struct sn_err *err)
{
    for (int i = 0; i < SN_CLOCK_ROUNDS; i++) {
        n->came[i] = sn_clock();
        SN_TRY(c->ops->barrier(c, err));
        n->left[i] = sn_clock();
    }
    return SN_OK;
}

/* --- slices ----------------------------------------------------------------------------------- */

/* What the simulator calls a segment; false: it computes nothing. */
static bool kind_of(const struct sn_segment *c, enum sn_event_kind *out)
{
    switch (c->kind) {
    case SN_SEGMENT_FORWARD:
        *out = SN_EVENT_FORWARD;
        return true;
    case SN_SEGMENT_BACKWARD:
    case SN_SEGMENT_INPUT_GRAD:
        *out = SN_EVENT_BACKWARD;
        return true;
    case SN_SEGMENT_WEIGHT_GRAD:
        *out = SN_EVENT_WEIGHT;
        return true;
    case SN_SEGMENT_UPDATE:
        *out = SN_EVENT_UPDATE;
        return true;
    default:
        return false;
    }
}

static void add_segment(struct writing *w, const struct rank *r, const struct sn_segment *c,
                        struct sn_trace_slice *s)
{
    enum sn_event_kind kind;
    if (!kind_of(c, &kind) || s->end == s->begin)
        return;
    s->category = s->name = sn_event_name(kind);
    s->number = s->micro = kind == SN_EVENT_UPDATE ? -1 : s->micro;
    sn_trace_computing(&w->text, &r->process, s);
}

static void add_transfer(struct writing *w, struct rank *r, const struct sn_op *op,
                         enum sn_axis axis, struct sn_trace_slice *s)
{
    s->category = op->kind == SN_OP_RECV ? "receive" : sn_event_name(SN_EVENT_TRANSFER);
    s->name = op->label;
    s->axis = sn_axis_name(axis);
    s->bytes = sn_sim_bytes(w->env->stages->job[r->stage], op);
    s->carries = sn_carried_name(sn_op_carries(op));
    if (w->env->pricer && op->kind != SN_OP_RECV) /* its time is the sender's */
        s->planned = sn_price_comm(w->env->pricer, r->program, op);
    sn_trace_transfer(&w->text, &r->process, axis, s);
}

static void add_operation(struct writing *w, const struct rank *r, const struct sn_op *op,
                          struct sn_trace_slice *s)
{
    char name[160];
    (void)snprintf(name, sizeof(name), "%s %s", sn_op_name(op->kind), op->label);
    s->category = sn_op_name(op->kind);
    s->name = name;
    if (op->kind == SN_OP_WAIT) {
        s->axis = sn_axis_name(sn_group_axis(op->group));
        (void)snprintf(name, sizeof(name), "%s %s", sn_event_name(SN_EVENT_WAIT), s->axis);
        s->waiting = op->label;
        s->carries = sn_carried_name(
            sn_op_carries(&r->program->ops[r->program->op_of_id[op->waits_for]]));
    } else if (w->env->pricer && op->kind < SN_NKERNELS) {
        s->planned = sn_price_op(w->env->pricer, r->program, op);
    }
    sn_trace_computing(&w->text, &r->process, s);
}

static void add_event(struct writing *w, struct rank *r, const struct sn_timed *e)
{
    const struct sn_sched *sched = &r->program->sched[e->sched];
    const struct sn_segment *segment = &r->program->segments[sched->segment];
    double shift = r->offset.seconds + w->origin;
    struct sn_trace_slice s = sn_slice("", "", e->at.begin - shift, e->at.end - shift);
    s.micro = sched->micro;
    s.vstage = r->program->vstages > 1 ? segment->scope.virtual_stage : -1;
    s.slot = sched->slot;
    if (e->op == SN_TIMED_SEGMENT)
        add_segment(w, r, segment, &s);
    else if (e->axis == SN_TIMED_COMPUTING)
        add_operation(w, r, &r->program->ops[e->op], &s);
    else
        add_transfer(w, r, &r->program->ops[e->op], (enum sn_axis)e->axis, &s);
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static void failed(struct writing *w, enum sn_status st)
{
    if (w->status == SN_OK)
        w->status = st;
}

static void flush(struct writing *w)
{
    if (w->status == SN_OK && w->text.failed)
        failed(w, sn_fail(&w->err, SN_ENOMEM, "trace: no memory for the text"));
    if (w->status == SN_OK && w->text.len && fwrite(w->text.p, 1, w->text.len, w->f) != w->text.len)
        failed(w, sn_fail(&w->err, SN_EIO, "%s", strerror(errno)));
    sn_str_fini(&w->text);
    w->text = (struct sn_str){0};
}

static void open_ranks(struct writing *w, const struct sn_comm *c)
{
    const struct sn_stages *stages = w->env->stages;
    w->origin = INFINITY;
    for (int i = 0; i < c->size; i++) {
        struct rank *r = &w->rank[i];
        r->stage = sn_grid_coord(&stages->job[0]->grid, i, SN_AXIS_PIPELINE);
        r->program = &stages->job[r->stage]->train;
        r->process.pid = w->env->first_pid + i;
        if (w->report[i].node_first != w->report[0].node_first)
            sn_clock_offset_find(&r->offset, &w->report[0].notes, &w->report[i].notes);
        w->origin = fmin(w->origin, w->report[i].begin - r->offset.seconds);
    }
}

static void add_piece(struct writing *w, int rank, int64_t first)
{
    struct rank *r = &w->rank[rank];
    int64_t n = w->report[rank].n - first;
    for (int64_t i = 0; i < n && i < PIECE && w->status == SN_OK; i++) {
        const struct sn_timed *e = &w->events[rank * PIECE + i];
        if (e->sched < 0 || e->sched >= r->program->n_sched || e->op >= r->program->n_ops)
            failed(w, sn_fail(&w->err, SN_EFAIL,
                              "trace: rank %d has another program than its stage; this is a defect "
                              "of sennit",
                              rank));
        else
            add_event(w, r, e);
    }
    flush(w);
}

/* Processes stand under the planned one of their stage. */
static void add_names(struct writing *w, const struct sn_comm *c)
{
    char name[160], unsure[24];
    for (int i = 0; i < c->size; i++) {
        const struct rank *r = &w->rank[i];
        const struct rank_report *t = &w->report[i];
        int n = snprintf(name, sizeof(name), "measured: rank %d, stage %d", i, r->stage);
        double off = r->offset.unsure + t->unsure;
        if (off > 0)
            n += snprintf(name + n, sizeof(name) - (size_t)n, ", clock within %s",
                          sn_picture_time(unsure, off));
        if (t->lost)
            (void)snprintf(name + n, sizeof(name) - (size_t)n, ", %lld operations left out",
                           (long long)t->lost);
        sn_trace_names(&w->text, &r->process, name, r->stage * (c->size + 1) + 1 + i);
    }
    flush(w);
}

/* --- all ranks -------------------------------------------------------------------------------- */

static enum sn_status gather_reports(struct writing *w, const struct sn_timeline *t,
                                     struct sn_comm *c, int64_t *most, struct sn_err *err)
{
    struct rank_report mine = {.begin = t->begin,
                               .end = t->end,
                               .unsure = t->unsure,
                               .n = t->n,
                               .lost = t->lost,
                               .node_first = c->node_first};
    SN_TRY(note_clocks(&mine.notes, c, err));
    SN_TRY(c->ops->gather(c, &mine, (int64_t)sizeof(mine), w->report, 0, err));
    for (int i = 0; w->report && i < c->size; i++)
        *most = w->report[i].n > *most ? w->report[i].n : *most;
    return c->ops->broadcast(c, most, (int64_t)sizeof(*most), 0, err);
}

static enum sn_status gather_events(struct writing *w, const struct sn_timeline *t,
                                    struct sn_comm *c, int64_t most, struct sn_err *err)
{
    struct sn_timed mine[PIECE];
    for (int64_t first = 0; first < most; first += PIECE) {
        int64_t n = t->n - first < PIECE ? t->n - first : PIECE;
        memset(mine, 0, sizeof(mine));
        if (n > 0)
            memcpy(mine, t->event + first, (size_t)n * sizeof(*mine));
        SN_TRY(c->ops->gather(c, mine, (int64_t)sizeof(mine), w->events, 0, err));
        for (int i = 0; w->rank && i < c->size; i++)
            add_piece(w, i, first);
    }
    return SN_OK;
}

static enum sn_status write_all(struct writing *w, const struct sn_timeline *t, struct sn_comm *c,
                                struct sn_err *err)
{
    int64_t most = 0;
    SN_TRY(gather_reports(w, t, c, &most, err));
    if (w->rank)
        open_ranks(w, c);
    SN_TRY(gather_events(w, t, c, most, err));
    if (w->rank)
        add_names(w, c);
    return SN_OK;
}

enum sn_status sn_measured_write(FILE *f, const struct sn_measured_env *env,
                                 const struct sn_timeline *t, struct sn_comm *comm,
                                 struct sn_err *err)
{
    struct writing w = {.f = f, .env = env};
    enum sn_status st = SN_OK;
    size_t n = (size_t)comm->size;
    if (comm->rank == 0) {
        w.report = sn_alloc_n(n, sizeof(*w.report));
        w.events = sn_alloc_n(n, PIECE * sizeof(*w.events));
        w.rank = sn_alloc_n(n, sizeof(*w.rank));
        if (!w.report || !w.events || !w.rank)
            st = sn_fail(err, SN_ENOMEM, "trace: no memory for %d ranks", comm->size);
    }
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = write_all(&w, t, comm, err);
    if (st == SN_OK && w.status != SN_OK) {
        st = w.status;
        *err = w.err;
    }
    sn_str_fini(&w.text);
    sn_free(w.report);
    sn_free(w.events);
    sn_free(w.rank);
    return st;
}
