/*
 * exec.c - the executor.
 */
#include "lib/run/exec.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

struct sn_exec {
    const struct sn_job *job;
    struct sn_comm *comm;
    char *state, *scratch;
    sn_ticket *tickets; /* of posted operations, by operation index */
    struct sn_exec_time times[SN_NKINDS];
};

enum sn_status sn_exec_create(struct sn_exec **out, const struct sn_job *job, struct sn_comm *comm,
                              struct sn_err *err)
{
    struct sn_exec *x = sn_alloc(sizeof(*x));
    if (!x)
        return sn_fail(err, SN_ENOMEM, "executor: no memory");
    x->job = job;
    x->comm = comm;
    x->tickets = sn_alloc_n((size_t)job->train.n_ops + 1, sizeof(*x->tickets));
    x->state = sn_arena_map((size_t)job->state_bytes);
    x->scratch = sn_arena_map((size_t)job->scratch_bytes);
    if (!x->tickets || !x->state || !x->scratch) {
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
    sn_free(x->tickets);
    sn_free(x);
}

static char *base(const struct sn_exec *x, const struct sn_program *p, int buf, int slot)
{
    const struct sn_buffer *b = &p->bufs[buf];
    if (buf < p->n_state_bufs)
        return x->state + b->offset;
    if (b->cls == SN_CLASS_SLOT)
        return x->scratch + slot * p->slot_bytes + b->offset;
    return x->scratch + p->slots * p->slot_bytes + b->offset;
}

void *sn_exec_address(struct sn_exec *x, const struct sn_program *p, int buf)
{
    return base(x, p, buf, 0);
}

struct sn_scalars *sn_exec_scalars(struct sn_exec *x)
{
    return (struct sn_scalars *)(void *)base(x, &x->job->train, x->job->scalars, 0);
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
    char *address = base(x, p, v->buf, at->slot) + element * (int64_t)sn_dtype_size(t);
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
    for (int i = 0; i < SN_MAX_IN; i++)
        a.in[i] = resolve(x, p, &op->in[i], at);
    for (int i = 0; i < SN_MAX_OUT; i++) {
        a.out[i] = resolve(x, p, &op->out[i], at);
        a.acc[i] = acc_now(op->acc[i], at);
    }
    a.attr = op->attr;
    a.scalars = sn_exec_scalars(x);
    a.scratch = x->scratch + p->slots * p->slot_bytes + p->temp_bytes;
    int rc = x->job->ops->run[op->kind](&a, x->job->threads);
    if (rc != 0)
        return sn_fail(err, SN_EFAIL, "%s %s: the %s backend failed with code %d",
                       sn_op_name(op->kind), op->label, x->job->ops->name, rc);
    return SN_OK;
}

static enum sn_status run_agree(struct sn_exec *x, struct sn_err *err)
{
    struct sn_scalars *s = sn_exec_scalars(x);
    char *staging = base(x, &x->job->train, x->job->staging, 0);
    s->agree[0] = s->loss_sum;
    sn_ticket t = x->comm->ops->post_all_reduce(x->comm, s->agree, 4, SN_F64, staging);
    SN_TRY(x->comm->ops->wait(x->comm, t, err));
    s->loss_sum = s->agree[0];
    return SN_OK;
}

static enum sn_status run_op(struct sn_exec *x, const struct sn_program *p, int i,
                             const struct sn_at *at, struct sn_err *err)
{
    const struct sn_op *op = &p->ops[i];
    switch (op->kind) {
    case SN_OP_ALL_REDUCE: {
        struct sn_mat m = resolve(x, p, &op->in[0], at);
        char *staging = base(x, p, x->job->staging, 0);
        x->tickets[i] = x->comm->ops->post_all_reduce(x->comm, m.p, m.cols, m.dtype, staging);
        return SN_OK;
    }
    case SN_OP_WAIT:
        if (x->comm->ops->wait(x->comm, x->tickets[op->waits_for], err) != SN_OK)
            return sn_err_prefix(err, "%s", op->label);
        return SN_OK;
    case SN_OP_AGREE:
        return run_agree(x, err);
    default:
        return run_kernel(x, p, op, at, err);
    }
}

static bool due(enum sn_when when, const struct sn_at *at)
{
    return when == SN_EVERY || (when == SN_FIRST && at->micro == 0) ||
           (when == SN_LAST && at->micro == at->micros - 1);
}

enum sn_status sn_exec_chunk(struct sn_exec *x, const struct sn_program *p, int chunk,
                             struct sn_at at, struct sn_err *err)
{
    const struct sn_chunk *c = &p->chunks[chunk];
    double t0 = sn_clock();
    for (int i = c->first; i < c->first + c->n; i++) {
        const struct sn_op *op = &p->ops[i];
        if (!due(op->when, &at))
            continue;
        SN_TRY(run_op(x, p, i, &at, err));
        double t1 = sn_clock();
        struct sn_exec_time *t = &x->times[op->kind];
        t->seconds += t1 - t0;
        t->runs++;
        t->flops += sn_op_flops(op);
        t0 = t1;
    }
    return SN_OK;
}

enum sn_status sn_exec_run(struct sn_exec *x, const struct sn_program *p,
                           const int64_t *first_sample, struct sn_err *err)
{
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *s = &p->sched[i];
        struct sn_at at = {.micro = s->micro, .micros = p->micros, .slot = s->slot};
        sn_exec_scalars(x)->first_sample = first_sample[s->micro];
        SN_TRY(sn_exec_chunk(x, p, s->chunk, at, err));
    }
    return SN_OK;
}
