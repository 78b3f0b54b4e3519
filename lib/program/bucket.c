/*
 * bucket.c - data parallelism: gradient buckets, reduced while backward still runs.
 *
 * Gradients lie in memory in the order in which backward finishes them, so that a bucket is one
 * contiguous range. As soon as the last gradient of a bucket is final (on the last micro-batch) its
 * sum over the data axis is posted; the update chunk waits for all of them. Li et al., "PyTorch
 * Distributed" (arXiv 2006.15704, 3.2.3), describe the scheme.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

struct final_op {
    int buf, op; /* a gradient buffer and the operation that writes it last */
};

static int by_op(const void *a, const void *b)
{
    const struct final_op *x = a, *y = b;
    if (x->op != y->op)
        return x->op < y->op ? -1 : 1;
    return (x->buf > y->buf) - (x->buf < y->buf);
}

/* List the gradient buffers with their final operations, in order. Returns how many. */
static int finals(const struct sn_program *p, struct final_op *f)
{
    int n = 0;
    for (int b = 0; b < p->n_state_bufs; b++) {
        if (p->bufs[b].cls != SN_CLASS_GRAD)
            continue;
        f[n] = (struct final_op){.buf = b, .op = -1};
        for (int i = 0; i < p->n_ops; i++)
            for (int o = 0; o < SN_MAX_OUT; o++)
                if (p->ops[i].out[o].buf == b)
                    f[n].op = i;
        n++;
    }
    qsort(f, (size_t)n, sizeof(*f), by_op);
    return n;
}

static struct sn_op reduce_op(const struct sn_program *p, const struct final_op *f, int n,
                              int number)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += p->bufs[f[i].buf].bytes;
    struct sn_op op = {
        .kind = SN_OP_ALL_REDUCE, .when = SN_LAST, .axis = SN_AXIS_DATA, .waits_for = -1};
    for (int i = 0; i < SN_MAX_IN; i++)
        op.in[i] = sn_no_view;
    for (int i = 0; i < SN_MAX_OUT; i++)
        op.out[i] = sn_no_view;
    int64_t elements = bytes / 4;
    op.in[0] = (struct sn_view){.buf = f[0].buf, .rows = 1, .cols = elements, .ld = elements};
    (void)snprintf(op.label, sizeof(op.label), "bucket%d", number);
    return op;
}

/* Insert `op` after operation `at`; later operations move up by one. All chunks before the last are
 * complete, so only the last chunk grows (it is open). */
static void insert_after(struct sn_program *p, int at, const struct sn_op *op)
{
    (void)sn_op_add(p, op->kind, "%s", op->label); /* make room */
    if (p->failed)
        return;
    for (int i = p->n_ops - 1; i > at + 1; i--)
        p->ops[i] = p->ops[i - 1];
    p->ops[at + 1] = *op;
}

static void post_buckets(struct sn_job *j, struct sn_program *p, const struct final_op *f, int n)
{
    int first = 0, inserted = 0;
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        bytes += p->bufs[f[i].buf].bytes;
        if (bytes < j->config->layout.bucket && i + 1 < n)
            continue;
        struct sn_op op = reduce_op(p, f + first, i + 1 - first, inserted);
        int at = f[i].op + inserted; /* operations before have moved by the earlier insertions */
        int backward = p->chunks[p->n_chunks - 1].first;
        insert_after(p, at < backward ? backward - 1 : at, &op);
        inserted++;
        first = i + 1;
        bytes = 0;
    }
}

void sn_pass_buckets(struct sn_job *j, struct sn_program *p)
{
    struct final_op *f = sn_alloc_n((size_t)p->n_state_bufs, sizeof(*f));
    if (!f) {
        p->failed = true;
        return;
    }
    int n = finals(p, f);
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        p->bufs[f[i].buf].offset = offset;
        offset += p->bufs[f[i].buf].bytes;
    }
    j->class_bytes[SN_CLASS_GRAD] = offset;
    j->first_grad = n ? f[0].buf : -1;
    if (j->ranks > 1 && n)
        post_buckets(j, p, f, n);
    sn_free(f);
}
