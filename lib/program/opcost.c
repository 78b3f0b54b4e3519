/*
 * opcost.c - bytes of one operation, from its text alone.
 */
#include "lib/program/program.h"

#include "kernels/codec.h"

static int64_t view_bytes(const struct sn_program *p, const struct sn_view *v)
{
    return v->buf < 0 ? 0 : v->rows * v->cols * (int64_t)sn_dtype_size(p->bufs[v->buf].dtype);
}

/* Is output o read, too? Where the first micro-batch writes and the others add, the price is that
 * of the others, so that all micro-batches cost the same. */
static bool updates(const struct sn_program *p, const struct sn_op *op, int o)
{
    if (op->kind == SN_OP_ADAMW)
        return o < 3; /* master weights and moments; the storage copy is only written */
    if (op->kind == SN_OP_ENCODE)
        return o == 1; /* what was lost before, and what is now */
    return op->acc[o] == SN_ACC_ADD || (op->acc[o] == SN_ACC_FIRST_WRITES && p->micros > 1);
}

/* A lookup touches as many rows of its tables as there are tokens. */
static int64_t lookup_bytes(const struct sn_program *p, const struct sn_op *op)
{
    bool gradient = op->kind == SN_OP_EMBED_GRAD;
    const struct sn_view *table = gradient ? &op->out[0] : &op->in[1];
    const struct sn_view *rows = gradient ? &op->in[1] : &op->out[0];
    int64_t width = (int64_t)sn_dtype_size(p->bufs[table->buf].dtype);
    int64_t tables = gradient ? 2 : op->in[2].buf >= 0 ? 2 : 1; /* adds to one, or reads two */
    return view_bytes(p, &op->in[0]) + view_bytes(p, rows) +
           tables * rows->rows * rows->cols * width;
}

/* Streams are as long as they are likely to be, not as the room they have. */
static int64_t streams_bytes(const struct sn_op *op)
{
    const struct sn_attr *a = &op->attr;
    return a->blocks_a * sn_coded_likely(&a->codec[0], a->coded_type, a->share);
}

/* Columns that are made one after the other, each from those before it: time on one thread
 * (measured 14 + 0.6 C ns an element of C columns), as bytes of memory at 10 GB/s. */
static int64_t orthogonalise_bytes(const struct sn_view *x)
{
    return x->rows * x->cols * (140 + 6 * x->cols);
}

int64_t sn_op_bytes(const struct sn_program *p, const struct sn_op *op)
{
    if (op->kind == SN_OP_ORTHOGONALISE)
        return orthogonalise_bytes(&op->in[0]);
    if (op->kind == SN_OP_EMBED || op->kind == SN_OP_EMBED_GRAD)
        return lookup_bytes(p, op);
    bool encodes = op->kind == SN_OP_ENCODE, decodes = op->kind == SN_OP_DECODE;
    int64_t bytes = encodes || decodes ? streams_bytes(op) : 0;
    for (int i = decodes; i < SN_MAX_IN; i++)
        bytes += view_bytes(p, &op->in[i]);
    for (int o = encodes; o < SN_MAX_OUT; o++)
        bytes += view_bytes(p, &op->out[o]) * (updates(p, op, o) ? 2 : 1);
    return bytes;
}
