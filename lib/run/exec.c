/*
 * exec.c - the executor.
 */
#include "lib/run/exec.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/run/pace.h"

#include <string.h>

/* Tickets of one posted operation in one slot; a shift has two. */
struct posted {
    sn_ticket ticket[2];
    struct sn_exchange exchange;
};

struct sn_exec {
    const struct sn_job *job;
    struct sn_comm *comm;
    char *state, *scratch;
    struct posted *posted; /* of an operation: one, or one for each slot where those are apart */
    int *first_posted;     /* by operation id, and the end */
    struct sn_exec_time times[SN_NKINDS];
    struct sn_pace pace;
    struct sn_routed routed;
    void (*fence)(void *arg);
    void *fence_arg;
    int fenced; /* the operation of the train program that it stands before; -1 */
    sn_exec_tell *tell;
    void *tell_arg;
};

static int most_slots(const struct sn_program *p)
{
    int most = 1;
    for (int v = 0; v < p->parts; v++)
        most = p->slots[v] > most ? p->slots[v] : most;
    return most;
}

/* Places for the tickets of the train program; the others have fewer operations, and one slot. */
static bool tickets_create(struct sn_exec *x, const struct sn_program *p)
{
    int slots = most_slots(p), n = 0;
    x->first_posted = sn_alloc_n((size_t)p->next_id + 1, sizeof(int));
    if (!x->first_posted)
        return false;
    for (int i = 0; i < p->n_ops; i++) /* how many each has */
        x->first_posted[p->ops[i].id] = p->ops[i].per_slot ? slots : 1;
    for (int id = 0; id <= p->next_id; id++) {
        int count = id < p->next_id ? x->first_posted[id] : 0;
        x->first_posted[id] = n;
        n += count;
    }
    x->posted = sn_alloc_n((size_t)n + 1, sizeof(*x->posted));
    return x->posted != NULL;
}

/* The ranks agree on the end of the step (lib/program/update.c) before anything that writes weights
 * or optimizer state; -1 in no program that trains. */
static int last_agreement(const struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == SN_OP_AGREE)
            return i;
    return -1;
}

enum sn_status sn_exec_create(struct sn_exec **out, const struct sn_job *job, struct sn_comm *comm,
                              struct sn_err *err)
{
    struct sn_exec *x = sn_alloc(sizeof(*x));
    if (!x)
        return sn_fail(err, SN_ENOMEM, "executor: no memory");
    x->job = job;
    x->comm = comm;
    x->fenced = last_agreement(&job->train);
    bool has_tickets = tickets_create(x, &job->train);
    x->state = sn_arena_map((size_t)job->state_bytes);
    x->scratch = sn_arena_map((size_t)job->scratch_bytes);
    if (!has_tickets || !x->state || !x->scratch) {
        char size[16];
        int64_t bytes = job->state_bytes + job->scratch_bytes;
        sn_exec_destroy(x);
        return sn_fail(err, SN_ENOMEM,
                       "executor: this rank cannot map the %s that the plan asks for; lower "
                       "layout.micro_batch or use more ranks",
                       sn_str_bytes(size, bytes));
    }
    *out = x;
    return SN_OK;
}

void sn_exec_destroy(struct sn_exec *x)
{
    if (!x)
        return;
    sn_arena_unmap(x->state, (size_t)x->job->state_bytes);
    sn_arena_unmap(x->scratch, (size_t)x->job->scratch_bytes);
    sn_free(x->posted);
    sn_free(x->first_posted);
    sn_free(x);
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

void sn_exec_set_tell(struct sn_exec *x, sn_exec_tell *tell, void *arg)
{
    x->tell = tell;
    x->tell_arg = arg;
}

static char *base(const struct sn_exec *x, const struct sn_program *p, int buf,
                  const struct sn_at *at)
{
    if (buf < p->n_state_bufs)
        return x->state + p->bufs[buf].offset;
    return x->scratch + sn_scratch_offset(p, buf, at->slot, at->late);
}

void *sn_exec_address(struct sn_exec *x, const struct sn_program *p, int buf)
{
    return base(x, p, buf, &(struct sn_at){0});
}

struct sn_scalars *sn_exec_scalars(struct sn_exec *x)
{
    return (struct sn_scalars *)(void *)sn_exec_address(x, &x->job->train, x->job->scalars);
}

const struct sn_exec_time *sn_exec_times(const struct sn_exec *x)
{
    return x->times;
}

int64_t sn_exec_arena_bytes(const struct sn_exec *x)
{
    return x->job->state_bytes + x->job->scratch_bytes;
}

static struct sn_mat resolve(const struct sn_exec *x, const struct sn_program *p,
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
    else if (v->index == SN_AT_REPLICA)
        element +=
            x->job->group_index[x->job->buckets[p->bufs[v->buf].bucket].replicas] * v->stride;
    char *address = base(x, p, v->buf, at) + element * (int64_t)sn_dtype_size(t);
    return (struct sn_mat){address, t, v->rows, v->cols, v->ld};
}

static enum sn_acc acc_now(enum sn_acc_rule r, const struct sn_at *at)
{
    if (r == SN_ACC_FIRST_WRITES)
        return at->micro == 0 ? SN_WRITE : SN_ADD;
    return r == SN_ACC_ADD ? SN_ADD : SN_WRITE;
}

static enum sn_status run_kernel(struct sn_exec *x, const struct sn_program *p,
                                 const struct sn_op *op, const struct sn_at *at, struct sn_err *err)
{
    struct sn_args a;
    for (int i = 0; i < SN_MAX_IN; i++) {
        bool absent = op->in_first >> i & 1u && x->job->group_index[SN_GROUP_TENSOR] != 0;
        a.in[i] = absent ? (struct sn_mat){0} : resolve(x, p, &op->in[i], at);
    }
    for (int i = 0; i < SN_MAX_OUT; i++) {
        a.out[i] = resolve(x, p, &op->out[i], at);
        a.acc[i] = acc_now(op->acc[i], at);
    }
    a.attr = op->attr;
    a.attr.round = at->round;
    a.scalars = sn_exec_scalars(x);
    a.scratch = x->scratch + p->slots_bytes + p->temp_bytes;
    int rc = x->job->ops->run[op->kind](&a, x->job->threads);
    if (rc != 0)
        return sn_fail(err, SN_EFAIL, "%s %s: the %s backend failed with code %d",
                       sn_op_name(op->kind), op->label, x->job->ops->name, rc);
    return SN_OK;
}

/* --- communication -----------------------------------------------------------------------------
 */

static struct posted *posted_of(const struct sn_exec *x, const struct sn_op *op, int id, int slot)
{
    return &x->posted[x->first_posted[id] + (op->per_slot ? slot : 0)];
}

static struct sn_transfer transfer_of(struct sn_exec *x, const struct sn_program *p,
                                      const struct sn_op *op, const struct sn_at *at)
{
    struct sn_mat in = resolve(x, p, &op->in[0], at), out = resolve(x, p, &op->out[0], at);
    struct sn_transfer t = {.group = op->group,
                            .dtype = in.p ? in.dtype : out.dtype,
                            .in = in.p,
                            .out = out.p,
                            .add = acc_now(op->acc[0], at) == SN_ADD,
                            .peer = op->peer,
                            .tag = op->tag,
                            .staging = sn_exec_address(x, &x->job->train, x->job->staging),
                            .label = op->label};
    (void)sn_op_collective(op, &t.kind, &t.n);
    return t;
}

/* Who sends how many rows to whom. */
static struct sn_exchange exchange_of(const struct sn_exec *x, const struct sn_program *p,
                                      const struct sn_op *op, const struct sn_at *at)
{
    bool balanced = x->pace.on; /* nothing was computed */
    return (struct sn_exchange){
        .bounds = balanced ? NULL : resolve(x, p, &op->in[1], at).p,
        .rows = op->attr.rows,
        .members = x->job->group_size[SN_GROUP_EXPERT],
        .index = x->job->group_index[SN_GROUP_EXPERT],
        .experts = op->attr.experts,
        .capacity = op->attr.capacity,
        .round = at->round,
        .back = op->attr.inverse,
        .shares = (int)op->attr.blocks_b,
        .share = op->attr.blocks_b > 1 ? x->job->group_index[SN_GROUP_TENSOR] : 0};
}

static void take_rows(struct sn_exec *x, struct sn_transfer *t, struct posted *tickets)
{
    int64_t row = t->n * (int64_t)sn_dtype_size(t->dtype);
    t->exchange = &tickets->exchange;
    if (t->kind == SN_ALL_TO_ALL)
        x->routed.exchanged += sn_exchange_sent(t->exchange) * row;
    else
        x->routed.gathered += sn_exchange_sent_within(t->exchange) * row;
}

/* Both halves of a step of a ring. */
static void post_shift(struct sn_exec *x, const struct sn_op *op, const struct sn_transfer *t,
                       struct posted *tickets)
{
    int size = x->job->group_size[op->group], mine = x->job->group_index[op->group];
    struct sn_transfer half = *t;
    half.kind = SN_RECV;
    half.peer = (mine - 1 + size) % size;
    tickets->ticket[0] = x->comm->ops->post(x->comm, &half);
    half.kind = SN_SEND;
    half.peer = (mine + 1) % size;
    tickets->ticket[1] = x->comm->ops->post(x->comm, &half);
}

static void post(struct sn_exec *x, const struct sn_program *p, const struct sn_op *op,
                 const struct sn_at *at)
{
    struct sn_transfer t = transfer_of(x, p, op, at);
    struct posted *tickets = posted_of(x, op, op->id, at->slot);
    *tickets = (struct posted){.ticket = {0, 0}};
    if (op->kind == SN_OP_EXCHANGE || op->kind == SN_OP_GATHER_ROWS) {
        tickets->exchange = exchange_of(x, p, op, at);
        t.n = op->in[0].cols;
        take_rows(x, &t, tickets);
    }
    if (op->kind == SN_OP_ALL_REDUCE) { /* the input may be gone before the wait (comm_text.c) */
        if (t.in != t.out)
            memcpy(t.out, t.in, (size_t)t.n * sn_dtype_size(t.dtype));
        t.in = NULL;
    }
    if (op->kind == SN_OP_SHIFT)
        post_shift(x, op, &t, tickets);
    else
        tickets->ticket[0] = x->comm->ops->post(x->comm, &t);
}

static enum sn_status wait(struct sn_exec *x, const struct sn_op *op, const struct sn_at *at,
                           struct sn_err *err)
{
    const struct posted *tickets = posted_of(x, op, op->waits_for, at->slot);
    for (int i = 0; i < 2; i++)
        if (tickets->ticket[i] && x->comm->ops->wait(x->comm, tickets->ticket[i], err) != SN_OK)
            return sn_err_prefix(err, "%s", op->label);
    return SN_OK;
}

static enum sn_status run_agree(struct sn_exec *x, const struct sn_op *op, struct sn_err *err)
{
    struct sn_scalars *s = sn_exec_scalars(x);
    bool counts = x->job->group_index[SN_GROUP_TENSOR] == 0; /* the others have the same loss */
    s->agree[SN_AGREE_LOSS] = counts ? s->loss_sum : 0;
    s->agree[SN_AGREE_SQ_NORM] = s->sq_norm;
    s->agree[SN_AGREE_NONFINITE] = (double)s->nonfinite;
    s->agree[SN_AGREE_BALANCE] = s->balance_sum;
    s->agree[SN_AGREE_Z] = s->z_sum;
    s->agree[SN_AGREE_ROUTED] = (double)x->routed.exchanged;
    s->agree[SN_AGREE_GATHERED] = (double)x->routed.gathered;
    struct sn_transfer all = {.kind = SN_ALL_REDUCE,
                              .group = SN_GROUP_WORLD,
                              .dtype = SN_F64,
                              .n = sn_agree_words(op),
                              .out = s->agree,
                              .staging = sn_exec_address(x, &x->job->train, x->job->staging),
                              .label = "step_end"};
    sn_ticket t = x->comm->ops->post(x->comm, &all);
    SN_TRY(x->comm->ops->wait(x->comm, t, err));
    s->loss_sum = s->agree[SN_AGREE_LOSS];
    s->sq_norm = s->agree[SN_AGREE_SQ_NORM];
    s->nonfinite = (int64_t)s->agree[SN_AGREE_NONFINITE];
    s->balance_sum = s->agree[SN_AGREE_BALANCE];
    s->z_sum = s->agree[SN_AGREE_Z];
    return SN_OK;
}

static enum sn_status run_op(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    switch (op->kind) {
    case SN_OP_WAIT:
        return wait(x, op, at, err);
    case SN_OP_ENTER:
        return SN_OK; /* place.c has put the output where the input is */
    case SN_OP_AGREE:
        return run_agree(x, op, err);
    default:
        if (op->kind < SN_NKERNELS)
            return run_kernel(x, p, op, at, err);
        post(x, p, op, at);
        return SN_OK;
    }
}

/* Communicate for real, or sleep. */
static enum sn_status pace_op(struct sn_exec *x, const struct sn_program *p, int i,
                              const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    double began = sn_clock();
    if (op->kind < SN_NKERNELS) {
        sn_pace_spend(&x->pace, sn_price_op(&x->pace.pricer, p, op));
        return SN_OK;
    }
    SN_TRY(run_op(x, p, i, at, err));
    sn_pace_communicated(&x->pace, began);
    return SN_OK;
}

/* Is this rank member 0 of every group of the mask? */
static bool is_first(const struct sn_exec *x, unsigned groups)
{
    for (int q = 0; q < SN_NGROUPS; q++)
        if (groups >> q & 1u && x->job->group_index[q] != 0)
            return false;
    return true;
}

static bool due(enum sn_when when, const struct sn_at *at)
{
    return when == SN_EVERY || (when == SN_FIRST && at->micro == 0) ||
           (when == SN_LAST && at->micro == at->micros - 1);
}

/* Returns when it ended: the wait is not the next operation's time. */
static double pass_fence(struct sn_exec *x)
{
    double began = sn_clock();
    x->fence(x->fence_arg);
    if (x->pace.on)
        sn_pace_communicated(&x->pace, began);
    return sn_clock();
}

struct sn_routed sn_exec_take_routed(struct sn_exec *x)
{
    struct sn_routed bytes = x->routed;
    x->routed = (struct sn_routed){0, 0};
    return bytes;
}

/* Operations first .. end - 1, in one round. */
static enum sn_status run_ops(struct sn_exec *x, const struct sn_program *p, const int range[2],
                              struct sn_at at, struct sn_err *err)
{
    double t0 = sn_clock();
    for (int i = range[0]; i < range[1]; i++) {
        const struct sn_op *op = &p->ops[i];
        if (!due(op->when, &at) || (op->only && !is_first(x, op->only)))
            continue;
        if (i == x->fenced && x->fence && p == &x->job->train)
            t0 = pass_fence(x);
        SN_TRY(x->pace.on ? pace_op(x, p, i, &at, err) : run_op(x, p, i, &at, err));
        double t1 = sn_clock();
        struct sn_exec_time *t = &x->times[op->kind];
        t->seconds += t1 - t0;
        t->runs++;
        t->flops += sn_op_flops(op);
        if (x->tell)
            x->tell(x->tell_arg, op, t1 - t0);
        t0 = t1;
    }
    return SN_OK;
}

/* Rows beyond the experts' window, a window in each further round. */
static enum sn_status run_extra(struct sn_exec *x, const struct sn_program *p, const int range[2],
                                struct sn_at at, struct sn_err *err)
{
    int first = range[0];
    while (first < range[1] && p->ops[first].kind != SN_OP_EXCHANGE)
        first++;
    if (first == range[1])
        return SN_OK;
    struct sn_exchange e = exchange_of(x, p, &p->ops[first], &at);
    int rounds = sn_exchange_rounds(&e);
    for (at.round = 1; at.round < rounds; at.round++)
        SN_TRY(run_ops(x, p, range, at, err));
    return SN_OK;
}

enum sn_status sn_exec_chunk(struct sn_exec *x, const struct sn_program *p, int chunk,
                             struct sn_at at, struct sn_err *err)
{
    int end = p->chunks[chunk].first + p->chunks[chunk].n;
    for (int i = p->chunks[chunk].first, next; i < end; i = next) {
        bool extra = p->ops[i].extra;
        for (next = i + 1; next < end && p->ops[next].extra == extra; next++)
            continue;
        const int range[] = {i, next};
        SN_TRY(extra ? run_extra(x, p, range, at, err) : run_ops(x, p, range, at, err));
    }
    return SN_OK;
}

enum sn_status sn_exec_run(struct sn_exec *x, const struct sn_program *p,
                           const int64_t *first_sample, struct sn_err *err)
{
    sn_pace_restart(&x->pace);
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *s = &p->sched[i];
        struct sn_at at = {
            .micro = s->micro, .micros = p->micros, .slot = s->slot, .late = s->late};
        sn_exec_scalars(x)->first_sample = first_sample[s->micro];
        SN_TRY(sn_exec_chunk(x, p, s->chunk, at, err));
    }
    SN_TRY(x->comm->ops->drain(x->comm, err)); /* the next program uses the same memory */
    int places = x->first_posted[x->job->train.next_id];
    memset(x->posted, 0, (size_t)places * sizeof(*x->posted));
    return SN_OK;
}
