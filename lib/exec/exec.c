/*
 * exec.c - the executor: walks a program and hands each operation that is due to the backend.
 *
 * Nothing here depends on which backend that is: all of it goes through struct sn_exec_backend
 * (exec_inner.h).
 */
#include "lib/exec/exec_inner.h"

#include "lib/base/mem.h"

#include <string.h>

static int most_slots(const struct sn_program *p)
{
    int most = 1;
    for (int v = 0; v < p->vstages; v++)
        most = p->slots[v] > most ? p->slots[v] : most;
    return most;
}

/* Places for the requests of the train program, one for each number of an operation at least: the
 * others have fewer operations and one slot, but a number that a pass has taken out of this text
 * may be a communication of theirs. */
static bool requests_create(struct sn_exec *x, const struct sn_program *p)
{
    int slots = most_slots(p), n = 0;
    x->first_request = sn_alloc_n((size_t)p->next_id + 1, sizeof(int));
    if (!x->first_request)
        return false;
    for (int i = 0; i < p->n_ops; i++) /* how many each has */
        x->first_request[p->ops[i].id] = p->ops[i].per_slot ? slots : 1;
    for (int id = 0; id <= p->next_id; id++) {
        int count = x->first_request[id];
        x->first_request[id] = n;
        n += id == p->next_id ? 0 : count > 1 ? count : 1;
    }
    x->requests = sn_alloc_n((size_t)n + 1, sizeof(*x->requests));
    return x->requests != NULL;
}

/* Does it change weights, masters or moments? Gradients are none of them. What codecs lost of gradients changes at any time: no
 * save reads it beside a step. */
static bool updates_state(const struct sn_job *j, const struct sn_op *op)
{
    for (int o = 0; o < SN_MAX_OUT; o++) {
        int buf = op->out[o].buf;
        if (buf < 0 || buf >= j->train.n_state_bufs || j->train.bufs[buf].bucket < 0 ||
            j->train.bufs[buf].cls == SN_CLASS_GRAD)
            continue;
        if (sn_operand_is(&sn_op_row(op->kind)->out[o], SN_ROLE_UPDATED) &&
            buf != j->buckets[j->train.bufs[buf].bucket].feedback)
            return true;
    }
    return false;
}

/* The operation of the train program before which the state must have been copied: the first that
 * updates some of it; where the ranks agree before that, so that all are past the fence when one
 * updates, this agreement. */
static int find_fence(const struct sn_job *j)
{
    const struct sn_program *p = &j->train;
    int agreement = -1;
    for (int s = 0; s < p->n_sched; s++) {
        const struct sn_sched *c = &p->sched[s];
        struct sn_at at = {.micro = c->micro, .micros = p->micros};
        for (int i = c->first; i < c->first + c->n; i++) {
            if (!sn_exec_due(&p->ops[i], &at))
                continue;
            if (p->ops[i].kind == SN_OP_AGREE)
                agreement = i;
            if (updates_state(j, &p->ops[i]))
                return agreement >= 0 ? agreement : i;
        }
    }
    return agreement; /* nothing is trained */
}

bool sn_exec_is_fence(struct sn_exec *x, const struct sn_program *p, int i)
{
    bool is_fence = p == &x->job->train && i == x->fence_at && !x->is_past_fence;
    x->is_past_fence |= is_fence;
    return is_fence;
}

enum sn_status sn_exec_create_on(struct sn_exec **out, const struct sn_job *job,
                                 struct sn_comm *comm, struct sn_accelerator *a, struct sn_err *err)
{
    struct sn_exec *x = sn_alloc(sizeof(*x));
    if (!x)
        return sn_fail(err, SN_ENOMEM, "executor: no memory");
    x->job = job;
    x->comm = comm;
    x->fence_at = find_fence(job);
    x->backend = a ? sn_exec_backend_device() : sn_exec_backend_host();
    enum sn_status st = requests_create(x, &job->train)
                            ? x->backend->create(x, a, err)
                            : sn_fail(err, SN_ENOMEM, "executor: no memory");
    if (st != SN_OK) {
        sn_exec_destroy(x);
        return st;
    }
    *out = x;
    return SN_OK;
}

enum sn_status sn_exec_create(struct sn_exec **out, const struct sn_job *job, struct sn_comm *comm,
                              struct sn_err *err)
{
    return sn_exec_create_on(out, job, comm, NULL, err);
}

void sn_exec_destroy(struct sn_exec *x)
{
    if (!x)
        return;
    x->backend->destroy(x);
    sn_free(x->requests);
    sn_free(x->first_request);
    sn_free(x);
}

enum sn_status sn_exec_connect(struct sn_exec *x, struct sn_err *err)
{
    return x->backend->connect(x, err);
}

void sn_exec_set_pace(struct sn_exec *x, const struct sn_machine *machine)
{
    sn_pace_begin(&x->pace, machine, x->job);
}

void sn_exec_set_fence(struct sn_exec *x, void (*fence)(void *arg), void *arg)
{
    x->fence = fence;
    x->fence_arg = arg;
}

bool sn_exec_has_idle(const struct sn_exec *x)
{
    return x->backend->has_idle;
}

void sn_exec_set_idle(struct sn_exec *x, void (*idle)(void *arg), void *arg)
{
    x->idle = idle;
    x->idle_arg = arg;
}

enum sn_status sn_exec_set_report(struct sn_exec *x, sn_exec_report *report, void *arg,
                                  struct sn_err *err)
{
    x->report = report;
    x->report_arg = arg;
    return x->backend->make_clocks(x, err);
}

void sn_exec_set_timed(struct sn_exec *x)
{
    x->is_timed = true;
}

static char *base(const struct sn_exec *x, const struct sn_program *p, int buf,
                  const struct sn_at *at)
{
    return sn_exec_there(x, sn_buffer_address(p, buf, at->slot, at->late));
}

void *sn_exec_address(struct sn_exec *x, const struct sn_program *p, int buf)
{
    return sn_exec_here(x, sn_buffer_address(p, buf, 0, 0));
}

struct sn_scalars *sn_exec_scalars(struct sn_exec *x)
{
    return (struct sn_scalars *)(void *)sn_exec_address(x, &x->job->train, x->job->scalars);
}

const double *sn_exec_load(struct sn_exec *x)
{
    return (const double *)sn_exec_address(x, &x->job->train, x->job->agreed) + SN_NAGREE;
}

const struct sn_exec_time *sn_exec_times(const struct sn_exec *x)
{
    return x->times;
}

int64_t sn_exec_arena_bytes(const struct sn_exec *x)
{
    return sn_job_arena_bytes(x->job);
}

struct sn_mat sn_exec_resolve(const struct sn_exec *x, const struct sn_program *p,
                              const struct sn_view *v, const struct sn_at *at)
{
    if (v->buf < 0)
        return (struct sn_mat){0};
    enum sn_dtype t = p->bufs[v->buf].dtype;
    int64_t element = v->offset;
    if (v->index == SN_AT_MICRO)
        element += at->micro * v->stride;
    else if (v->index == SN_AT_ROW)
        element += at->row * v->ld;
    else if (v->index == SN_AT_SLICE)
        element +=
            x->job->group_index[x->job->buckets[p->bufs[v->buf].bucket].sliced_over] * v->stride;
    char *address = base(x, p, v->buf, at) + element * (int64_t)sn_dtype_size(t);
    return (struct sn_mat){address, t, v->rows, v->cols, v->ld};
}

enum sn_acc sn_exec_acc(enum sn_acc_rule r, const struct sn_at *at)
{
    if (r == SN_ACC_FIRST_WRITES)
        return at->micro == 0 ? SN_WRITE : SN_ADD;
    return r == SN_ACC_ADD ? SN_ADD : SN_WRITE;
}

bool sn_exec_is_first(const struct sn_exec *x, unsigned groups)
{
    return sn_job_is_first(x->job, groups);
}

void sn_exec_args(const struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                  const struct sn_at *at, struct sn_args *a)
{
    for (int i = 0; i < SN_MAX_IN; i++) {
        bool absent = op->in_first >> i & 1u && !sn_exec_is_first(x, op->first_of);
        a->in[i] = absent ? (struct sn_mat){0} : sn_exec_resolve(x, p, &op->in[i], at);
    }
    for (int i = 0; i < SN_MAX_OUT; i++) {
        a->out[i] = sn_exec_resolve(x, p, &op->out[i], at);
        a->acc[i] = sn_exec_acc(op->acc[i], at);
    }
    a->attr = op->attr;
    a->attr.experts.round = at->round;
    if (op->at_row)
        a->attr.position.row0 = at->row;
    a->scalars = (void *)base(x, p, x->job->scalars, at);
    a->scratch = x->arena[sn_class_row(SN_CLASS_WORKSPACE)->arena] + p->slots_bytes + p->temp_bytes;
}

bool sn_exec_due(const struct sn_op *op, const struct sn_at *at)
{
    return op->when == SN_EVERY || (op->when == SN_FIRST && at->micro == 0) ||
           (op->when == SN_LAST && at->micro == at->micros - 1);
}

struct sn_routed sn_exec_take_routed(struct sn_exec *x)
{
    struct sn_routed bytes = x->routed;
    x->routed = (struct sn_routed){0, 0};
    return bytes;
}

void sn_exec_take_time(struct sn_exec *x, const struct sn_op *op, double seconds)
{
    struct sn_exec_time *t = &x->times[op->kind];
    t->seconds += seconds;
    t->runs++;
    t->flops += sn_op_flops(op);
    if (x->meter)
        sn_meter_took(x->meter, op, seconds);
    if (x->report)
        x->report(x->report_arg, op, seconds);
}

/* Operations first .. end - 1, in one round. */
static enum sn_status run_ops(struct sn_exec *x, const struct sn_program *p, const int range[2],
                              struct sn_at at, struct sn_err *err)
{
    for (int i = range[0]; i < range[1]; i++) {
        const struct sn_op *op = &p->ops[i];
        if (!sn_exec_due(op, &at) || (op->only && !sn_exec_is_first(x, op->only)))
            continue;
        SN_TRY(x->backend->op(x, p, i, &at, err));
    }
    return SN_OK;
}

/* Rows beyond the experts' window, a window in each further round. */
static enum sn_status run_extra(struct sn_exec *x, const struct sn_program *p, const int range[2],
                                struct sn_at at, struct sn_err *err)
{
    int first = range[0], rounds;
    while (first < range[1] && p->ops[first].kind != SN_OP_EXCHANGE)
        first++;
    if (first == range[1])
        return SN_OK;
    SN_TRY(x->backend->rounds(x, p, first, &at, &rounds, err));
    for (at.round = 1; at.round < rounds; at.round++)
        SN_TRY(run_ops(x, p, range, at, err));
    x->backend->rounds_end(x);
    return SN_OK;
}

/* Run what is due of operations first .. end - 1: of a segment, or a piece of it. */
static enum sn_status walk(struct sn_exec *x, const struct sn_program *p, const int all[2],
                           struct sn_at at, struct sn_err *err)
{
    int end = all[1];
    for (int i = all[0], next; i < end; i = next) {
        bool extra = p->ops[i].extra;
        for (next = i + 1; next < end && p->ops[next].extra == extra; next++)
            continue;
        const int range[] = {i, next};
        SN_TRY(extra ? run_extra(x, p, range, at, err) : run_ops(x, p, range, at, err));
    }
    return SN_OK;
}

enum sn_status sn_exec_segment(struct sn_exec *x, const struct sn_program *p, int segment,
                               struct sn_at at, struct sn_err *err)
{
    const struct sn_segment *c = &p->segments[segment];
    x->is_past_fence = false;
    SN_TRY(x->backend->begin(x, p, false, err));
    SN_TRY(walk(x, p, (const int[]){c->first, c->first + c->n}, at, err));
    return x->backend->end(x, false, err);
}

static enum sn_status run_schedule(struct sn_exec *x, const struct sn_program *p,
                                   const int64_t *first_sample, struct sn_err *err)
{
    for (int i = 0, done; i < p->n_sched; i += done ? done : 1) {
        const struct sn_sched *s = &p->sched[i];
        struct sn_at at = {
            .micro = s->micro, .micros = p->micros, .slot = s->slot, .late = s->late};
        x->entry = i;
        if (x->timeline)
            x->timeline->sched = i;
        sn_meter_entry(x, i);
        SN_TRY(x->backend->entry(x, i, first_sample[s->micro], &done, err));
        if (done == 0)
            SN_TRY(walk(x, p, (const int[]){s->first, s->first + s->n}, at, err));
    }
    return SN_OK;
}

static enum sn_status settle(struct sn_exec *x, struct sn_err *err)
{
    SN_TRY(x->comm->ops->drain(x->comm, err)); /* the next program uses the same memory */
    int places = x->first_request[x->job->train.next_id];
    memset(x->requests, 0, (size_t)places * sizeof(*x->requests));
    return SN_OK;
}

enum sn_status sn_exec_segments(struct sn_exec *x, const struct sn_program *p, struct sn_at at,
                                struct sn_err *err)
{
    x->is_past_fence = false;
    SN_TRY(x->backend->begin(x, p, false, err));
    for (int s = 0; s < p->n_segments; s++) {
        const struct sn_segment *c = &p->segments[s];
        SN_TRY(walk(x, p, (const int[]){c->first, c->first + c->n}, at, err));
    }
    SN_TRY(x->backend->end(x, false, err));
    return settle(x, err);
}

enum sn_status sn_exec_run(struct sn_exec *x, const struct sn_program *p,
                           const int64_t *first_sample, struct sn_err *err)
{
    sn_timeline_start(x);
    sn_meter_start(x, p);
    x->is_past_fence = false;
    SN_TRY(x->backend->begin(x, p, true, err));
    SN_TRY(run_schedule(x, p, first_sample, err));
    SN_TRY(x->backend->end(x, true, err));
    SN_TRY(settle(x, err));
    sn_timeline_finish(x);
    sn_meter_finish(x);
    return SN_OK;
}

/* --- what the rest of the process sees of the state ------------------------------------------- */

void sn_exec_take_sent(struct sn_exec *x, int64_t bytes[SN_NAXES])
{
    x->comm->ops->take_sent_bytes(x->comm, bytes);
    x->backend->take_sent(x, bytes);
}

bool sn_exec_has_mirror(const struct sn_exec *x)
{
    bool shares = false; /* some arena with where operations work */
    for (int a = 0; a < SN_NARENAS; a++)
        shares = shares || (x->here[a] && x->here[a] == x->arena[a]);
    return !shares;
}

enum sn_status sn_exec_pull_begin(struct sn_exec *x, struct sn_err *err)
{
    return x->backend->pull_begin(x, err);
}

enum sn_status sn_exec_pull_wait(struct sn_exec *x, struct sn_err *err)
{
    return x->backend->pull_wait(x, err);
}

enum sn_status sn_exec_pull(struct sn_exec *x, struct sn_err *err)
{
    SN_TRY(sn_exec_pull_begin(x, err));
    return sn_exec_pull_wait(x, err);
}

enum sn_status sn_exec_push(struct sn_exec *x, struct sn_err *err)
{
    return x->backend->push(x, err);
}

enum sn_status sn_exec_fetch(struct sn_exec *x, const struct sn_program *p, int buf,
                             const void **out, struct sn_err *err)
{
    const char *at = base(x, p, buf, &(struct sn_at){0});
    return x->backend->fetch(x, at, p->bufs[buf].bytes, out, err);
}
