/*
 * expert_gemm.c - EXPERT_GEMM: one GEMM for each segment of rows, one after the other, each on all
 * threads.
 *
 * A row's result does not depend on the segment that it lies in: GEMM sums every element of C in
 * the same order whatever its size.
 */
#include "kernels/cpu/cpu.h"

/* Rows first .. first + rows - 1. */
static struct sn_mat part(const struct sn_mat *m, int64_t first, int64_t rows)
{
    struct sn_mat x = *m;
    x.p = sn_mat_row(m, first);
    x.rows = rows;
    return x;
}

/* The operands of a segment's product; `into` says whether W_e has its gradient yet. */
static struct sn_args product(const struct sn_args *a, int64_t s, bool into)
{
    const int32_t *bounds = a->in[2].p;
    int64_t first = bounds[s], rows = bounds[s + 1] - first, e = s % a->attr.experts;
    const struct sn_mat *stack = a->attr.trans_a ? &a->out[0] : &a->in[1];
    struct sn_mat expert =
        part(stack, e * (stack->rows / a->attr.experts), stack->rows / a->attr.experts);
    struct sn_args g = {.scratch = a->scratch, .scalars = a->scalars};
    g.attr.trans_a = a->attr.trans_a;
    g.attr.trans_b = a->attr.trans_b;
    g.in[0] = part(&a->in[0], first, rows);
    g.in[1] = a->attr.trans_a ? part(&a->in[1], first, rows) : expert;
    g.out[0] = a->attr.trans_a ? expert : part(&a->out[0], first, rows);
    g.acc[0] = into ? SN_ADD : a->acc[0];
    return g;
}

SN_KERNEL(sn_expert_gemm)
{
    int64_t segments = a->in[2].cols - 1;
    for (int64_t s = 0; s < segments; s++) {
        bool first = s < a->attr.experts; /* of its expert */
        struct sn_args g = product(a, s, a->attr.trans_a && !first);
        bool nothing = g.in[0].rows == 0 && !(a->attr.trans_a && first);
        int rc = nothing ? 0 : SN_K(sn_gemm)(&g, threads);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* What the largest product would need: all rows one segment. */
size_t SN_K(sn_expert_gemm_scratch)(const struct sn_args *a, int threads)
{
    struct sn_args g = *a;
    int64_t rows = (a->attr.trans_a ? a->out[0].rows : a->in[1].rows) / a->attr.experts;
    if (a->attr.trans_a)
        g.out[0].rows = rows;
    else
        g.in[1].rows = rows;
    g.in[2] = g.in[3] = (struct sn_mat){0};
    return SN_K(sn_gemm_scratch)(&g, threads);
}
