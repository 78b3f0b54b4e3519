#include "lib/exec/meter.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/exec/exec_inner.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of a path's longest transfer, what one takes that is watched at least. */
static const double long_enough = 0.5;
enum { NO_WORK = SN_NWORKS };

/* An operation in an entry of the schedule. */
struct place {
    int sched, op;
};

struct sn_meter {
    const struct sn_program *program;
    struct sn_monitor_plan plan;
    unsigned char *work;       /* by entry of the schedule: enum sn_work, or NO_WORK */
    unsigned char *is_counted; /* by operation id */
    int *first;                /* by entry, of by_place; and the end */
    struct place sampled[SN_MONITOR_SAMPLES];
    int by_place[SN_MONITOR_SAMPLES]; /* samples in the order of the schedule */
    struct sn_transfer_times times[SN_MONITOR_SAMPLES];
    double took[SN_NWORKS + 1];
    double began, left, ran;
    int sched;  /* entry under way */
    bool is_on; /* a run of the program is under way */
};

bool sn_exec_has_times(const struct sn_exec *x)
{
    return !x->backend->has_idle;
}

void sn_exec_set_meter(struct sn_exec *x, struct sn_meter *m)
{
    x->meter = m;
}

/* --- the plan --------------------------------------------------------------------------------- */

static int work_of(enum sn_segment_kind k)
{
    switch (k) {
    case SN_SEGMENT_FORWARD:
        return SN_WORK_FORWARD;
    case SN_SEGMENT_BACKWARD:
    case SN_SEGMENT_INPUT_GRAD:
        return SN_WORK_BACKWARD;
    case SN_SEGMENT_WEIGHT_GRAD:
        return SN_WORK_WEIGHT_GRAD;
    case SN_SEGMENT_UPDATE:
        return SN_WORK_UPDATE;
    default:
        return NO_WORK;
    }
}

/* Does it compute what the text says, whatever the tokens are? */
static bool is_counted(const struct sn_op *op)
{
    return op->kind < SN_NKERNELS && op->attr.experts.count == 0 && !op->extra;
}

static void plan_work(struct sn_meter *m, const struct sn_exec *x, const struct sn_pricer *pricer)
{
    const struct sn_program *p = m->program;
    for (int i = 0; i < p->n_ops; i++)
        m->is_counted[p->ops[i].id] = is_counted(&p->ops[i]);
    for (int s = 0; s < p->n_sched; s++) {
        const struct sn_sched *c = &p->sched[s];
        const struct sn_at at = {.micro = c->micro, .micros = p->micros};
        int work = work_of(p->segments[c->segment].kind);
        m->work[s] = (unsigned char)work;
        for (int i = c->first; i < c->first + c->n && work != NO_WORK; i++) {
            const struct sn_op *op = &p->ops[i];
            bool runs = sn_exec_due(op, &at) && (!op->only || sn_exec_is_first(x, op->only));
            if (runs && is_counted(op))
                m->plan.work[work] += sn_price_op(pricer, p, op);
        }
    }
}

/* A transfer that may be watched. */
struct candidate {
    struct sn_path path;
    int tag, number; /* in the order of posting */
    struct place at;
    double seconds;
};

static struct sn_path path_of(const struct sn_exec *x, const struct sn_op *op)
{
    const struct sn_grid *g = &x->job->grid;
    int rank = x->comm->rank;
    int peer = sn_op_is_transfer(op) && op->kind != SN_OP_SHIFT
                   ? sn_group_member(g, rank, op->group, op->peer)
                   : -1;
    if (op->kind == SN_OP_SEND)
        return (struct sn_path){(int32_t)op->group, rank, peer};
    if (op->kind == SN_OP_RECV)
        return (struct sn_path){(int32_t)op->group, peer, rank};
    return (struct sn_path){(int32_t)op->group, sn_group_member(g, rank, op->group, 0), -1};
}

/* Both ends price a message alike. A machine without links has no price: bytes compare transfers, at
 * a rate that is anybody's guess, which goes with what is learned. */
static double price_of(const struct sn_program *p, const struct sn_op *op,
                       const struct sn_pricer *pricer)
{
    static const double guess = 1e9;
    enum sn_collective kind;
    int64_t n;
    int buf = op->kind == SN_OP_RECV ? op->out[SN_MOVE_TO].buf : op->in[SN_MOVE_FROM].buf;
    if (buf < 0 || !sn_op_collective(op, &kind, &n))
        return 0;
    bool is_message = op->kind == SN_OP_RECV || op->kind == SN_OP_SEND;
    enum sn_dtype dtype = p->bufs[buf].dtype;
    double seconds = is_message ? sn_price_collective(pricer, SN_SEND, n, dtype, op->group)
                                : sn_price_comm(pricer, p, op);
    return seconds > 0 ? seconds : (double)(n * (int64_t)sn_dtype_size(dtype)) / guess;
}

static bool is_watchable(const struct sn_exec *x, const struct sn_op *op, const struct sn_at *at)
{
    return sn_exec_due(op, at) && (!op->only || sn_exec_is_first(x, op->only)) && !op->extra &&
           sn_op_is_posted(op) && sn_op_meets_others(x->job, op) &&
           !sn_op_row(op->kind)->counts_rows;
}

/* Those of a step; with out NULL they are counted. */
static int collect(struct candidate *out, const struct sn_exec *x, const struct sn_pricer *pricer)
{
    const struct sn_program *p = &x->job->train;
    int n = 0;
    for (int s = 0; s < p->n_sched; s++) {
        const struct sn_sched *c = &p->sched[s];
        const struct sn_at at = {.micro = c->micro, .micros = p->micros};
        for (int i = c->first; i < c->first + c->n; i++) {
            const struct sn_op *op = &p->ops[i];
            if (!is_watchable(x, op, &at))
                continue;
            if (out)
                out[n] = (struct candidate){
                    path_of(x, op), op->tag, n, {s, op->id}, price_of(p, op, pricer)};
            n++;
        }
    }
    return n;
}

/* Messages of one pair and tag match in the order of posting. */
static int order(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    const int of_x[] = {x->path.group, x->path.from, x->path.to, x->tag, x->number};
    const int of_y[] = {y->path.group, y->path.from, y->path.to, y->tag, y->number};
    for (int i = 0; i < 5; i++)
        if (of_x[i] != of_y[i])
            return of_x[i] < of_y[i] ? -1 : 1;
    return 0;
}

/* Candidates of one path, of which those that take long enough are put first. */
static void take_path(struct sn_meter *m, const struct sn_exec *x, struct candidate *c, int n)
{
    double longest = 0;
    int long_ones = 0;
    for (int i = 0; i < n; i++)
        longest = fmax(longest, c[i].seconds);
    for (int i = 0; i < n; i++)
        if (c[i].seconds > 0 && c[i].seconds >= long_enough * longest)
            c[long_ones++] = c[i];
    int watched = long_ones < SN_MONITOR_OF_PATH ? long_ones : SN_MONITOR_OF_PATH;
    if (m->plan.n + watched > SN_MONITOR_SAMPLES)
        return; /* of a path all ends or none: the monitor leaves it out */
    for (int k = 0; k < watched; k++) {
        const struct candidate *from = &c[(int64_t)k * long_ones / watched];
        m->sampled[m->plan.n] = from->at;
        m->plan.sample[m->plan.n++] = (struct sn_monitor_sample){
            .path = from->path,
            .members = from->path.to >= 0 ? 2 : x->job->group_size[from->path.group],
            .seconds = (float)from->seconds};
    }
}

static void take_paths(struct sn_meter *m, const struct sn_exec *x, struct candidate *c, int n)
{
    qsort(c, (size_t)n, sizeof(*c), order);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && sn_path_is(&c[end].path, &c[i].path); end++)
            continue;
        take_path(m, x, c + i, end - i);
    }
}

static void sort_places(struct sn_meter *m)
{
    int n = 0;
    for (int s = 0; s < m->program->n_sched; s++) {
        m->first[s] = n;
        for (int i = 0; i < m->plan.n; i++)
            if (m->sampled[i].sched == s)
                m->by_place[n++] = i;
    }
    m->first[m->program->n_sched] = n;
}

static enum sn_status plan_samples(struct sn_meter *m, const struct sn_exec *x,
                                   const struct sn_pricer *pricer, struct sn_err *err)
{
    int n = collect(NULL, x, pricer);
    struct candidate *c = sn_alloc_n((size_t)n + 1, sizeof(*c));
    if (!c)
        return sn_fail(err, SN_ENOMEM, "meter: no memory for %d transfers", n);
    take_paths(m, x, c, collect(c, x, pricer));
    sn_free(c);
    sort_places(m);
    return SN_OK;
}

enum sn_status sn_meter_create(struct sn_meter **out, struct sn_exec *x,
                               const struct sn_pricer *pricer, struct sn_err *err)
{
    const struct sn_program *p = &x->job->train;
    struct sn_meter *m = sn_alloc(sizeof(*m));
    enum sn_status st = SN_OK;
    if (m) {
        m->program = p;
        m->plan.text = sn_program_hash(p);
        m->work = sn_alloc_n((size_t)p->n_sched + 1, 1);
        m->is_counted = sn_alloc_n((size_t)p->next_id + 1, 1);
        m->first = sn_alloc_n((size_t)p->n_sched + 1, sizeof(*m->first));
    }
    if (!m || !m->work || !m->is_counted || !m->first)
        st = sn_fail(err, SN_ENOMEM, "meter: no memory");
    if (st == SN_OK) {
        plan_work(m, x, pricer);
        st = plan_samples(m, x, pricer, err);
    }
    if (st != SN_OK) {
        sn_meter_destroy(m);
        return st;
    }
    *out = m;
    return SN_OK;
}

void sn_meter_destroy(struct sn_meter *m)
{
    if (!m)
        return;
    sn_free(m->work);
    sn_free(m->is_counted);
    sn_free(m->first);
    sn_free(m);
}

void sn_meter_plan(const struct sn_meter *m, struct sn_monitor_plan *out)
{
    *out = m->plan;
}

/* --- a run ------------------------------------------------------------------------------------ */

static double seconds_of_core(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* Linux has it */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void sn_meter_start(struct sn_exec *x, const struct sn_program *p)
{
    struct sn_meter *m = x->meter;
    if (!m || p != m->program)
        return;
    m->is_on = true;
    memset(m->times, 0, sizeof(m->times));
    memset(m->took, 0, sizeof(m->took));
    m->left = 0;
    m->ran = seconds_of_core();
    m->began = sn_clock();
}

void sn_meter_entry(struct sn_exec *x, int sched)
{
    if (x->meter)
        x->meter->sched = sched;
}

void sn_meter_finish(struct sn_exec *x)
{
    struct sn_meter *m = x->meter;
    if (!m || !m->is_on)
        return;
    m->ran = seconds_of_core() - m->ran;
    m->is_on = false;
}

void sn_meter_took(struct sn_meter *m, const struct sn_op *op, double seconds)
{
    if (m->is_on && m->is_counted[op->id])
        m->took[m->work[m->sched]] += seconds;
}

void sn_meter_agreed(struct sn_exec *x)
{
    if (x->meter && x->meter->is_on)
        x->meter->left = sn_clock();
}

struct sn_transfer_times *sn_meter_moves(struct sn_exec *x, const struct sn_op *op)
{
    struct sn_meter *m = x->meter;
    if (!m || !m->is_on || op->extra)
        return NULL;
    for (int i = m->first[m->sched]; i < m->first[m->sched + 1]; i++)
        if (m->sampled[m->by_place[i]].op == op->id)
            return &m->times[m->by_place[i]];
    return NULL;
}

void sn_meter_read(const struct sn_meter *m, struct sn_monitor_record *out)
{
    *out = (struct sn_monitor_record){
        .began = m->began, .left = m->left, .ran = m->ran, .core = sched_getcpu()};
    for (int w = 0; w < SN_NWORKS; w++)
        out->work[w] = (float)m->took[w];
    for (int i = 0; i < m->plan.n; i++) {
        const struct sn_transfer_times *t = &m->times[i];
        if (t->end <= 0)
            continue;
        out->sample[i].begin = (float)(t->begin - m->began);
        out->sample[i].end = (float)(t->end - m->began);
        out->sample[i].last = t->last;
    }
}
