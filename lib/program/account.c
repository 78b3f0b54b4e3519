/*
 * account.c - what the compiled programs occupy and send. Exact: the executor maps these arenas,
 * and the communicator's counters must give these bytes.
 */
#include "lib/program/program.h"

#include "lib/layout/collective.h"

void sn_job_memory(const struct sn_job *j, struct sn_memory_plan *out)
{
    const struct sn_program *set[] = {&j->train, &j->evaluate, &j->generate};
    *out = (struct sn_memory_plan){0};
    out->params = j->class_bytes[SN_CLASS_PARAM];
    out->grads = j->class_bytes[SN_CLASS_GRAD];
    out->optimizer = j->class_bytes[SN_CLASS_OPTIM];
    out->comm = j->class_bytes[SN_CLASS_COMM];
    /* The scratch arena is as large as the largest program needs; its workspace counts apart. */
    for (int i = 0; i < 3; i++)
        if (set[i]->workspace_bytes > out->workspace)
            out->workspace = set[i]->workspace_bytes;
    out->activations = j->scratch_bytes - out->workspace;
    out->total = j->state_bytes + j->scratch_bytes;
    /* Token ids, targets, scalars and page rounding of the classes belong to activations too. */
    out->activations += j->state_bytes - out->params - out->grads - out->optimizer - out->comm;
    out->library = SN_LIBRARY_BYTES;
    out->total += out->library;
}

void sn_job_traffic(const struct sn_job *j, int rank, int64_t bytes[SN_NAXES])
{
    const struct sn_program *p = &j->train;
    for (int a = 0; a < SN_NAXES; a++)
        bytes[a] = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        if (op->kind == SN_OP_ALL_REDUCE)
            bytes[op->axis] +=
                sn_collective_all_reduce_bytes(op->in[0].cols, SN_F32, j->ranks, rank);
        else if (op->kind == SN_OP_AGREE)
            bytes[op->axis] += sn_collective_all_reduce_bytes(4, SN_F64, j->ranks, rank);
    }
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 0x100000001b3ull;
    return h;
}

static uint64_t mix_view(uint64_t h, const struct sn_view *v)
{
    int64_t x[] = {v->buf, v->offset, v->rows, v->cols, v->ld, (int64_t)v->index, v->stride};
    return v->buf < 0 ? mix(h, x, sizeof(x[0])) : mix(h, x, sizeof(x));
}

uint64_t sn_program_hash(const struct sn_program *p)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        int64_t x[] = {op->kind, (int64_t)op->when, (int64_t)op->axis, op->waits_for};
        h = mix(h, x, sizeof(x));
        for (int k = 0; k < SN_MAX_IN; k++)
            h = mix_view(h, &op->in[k]);
        for (int k = 0; k < SN_MAX_OUT; k++)
            h = mix_view(h, &op->out[k]);
    }
    for (int b = 0; b < p->n_bufs; b++) {
        int64_t x[] = {p->bufs[b].offset, p->bufs[b].bytes, (int64_t)p->bufs[b].cls};
        h = mix(h, x, sizeof(x));
    }
    return h;
}
