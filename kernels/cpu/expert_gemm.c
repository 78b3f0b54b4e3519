/*
 * expert_gemm.c - EXPERT_GEMM: one GEMM for each segment of rows, one after the other, each on all
 * threads.
 *
 * A row's result does not depend on the segment that it lies in: GEMM sums every element of C in
 * the same order whatever its size. Terms of exact sums begin where a segment does.
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
    const int32_t *bounds = a->in[SN_EXPERT_GEMM_BOUNDS].p;
    int64_t first = bounds[s], rows = bounds[s + 1] - first, e = s % a->attr.experts.count;
    const struct sn_mat *stack =
        a->attr.gemm.trans_a ? &a->out[SN_EXPERT_GEMM_C] : &a->in[SN_EXPERT_GEMM_B];
    struct sn_mat expert =
        part(stack, e * (stack->rows / a->attr.experts.count), stack->rows / a->attr.experts.count);
    struct sn_args g = {.scratch = a->scratch, .scalars = a->scalars};
    g.attr.gemm.trans_a = a->attr.gemm.trans_a;
    g.attr.gemm.trans_b = a->attr.gemm.trans_b;
    g.attr.exact = a->attr.exact;
    g.in[SN_GEMM_A] = part(&a->in[SN_EXPERT_GEMM_A], first, rows);
    g.in[SN_GEMM_B] = a->attr.gemm.trans_a ? part(&a->in[SN_EXPERT_GEMM_B], first, rows) : expert;
    g.out[SN_GEMM_C] = a->attr.gemm.trans_a ? expert : part(&a->out[SN_EXPERT_GEMM_C], first, rows);
    g.acc[SN_GEMM_C] = into ? SN_ADD : a->acc[SN_EXPERT_GEMM_C];
    return g;
}

SN_KERNEL(sn_expert_gemm)
{
    int64_t segments = a->in[SN_EXPERT_GEMM_BOUNDS].cols - 1;
    for (int64_t s = 0; s < segments; s++) {
        bool first = s < a->attr.experts.count; /* of its expert */
        struct sn_args g = product(a, s, a->attr.gemm.trans_a && !first);
        bool nothing = g.in[SN_GEMM_A].rows == 0 && !(a->attr.gemm.trans_a && first);
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
    int64_t rows =
        (a->attr.gemm.trans_a ? a->out[SN_EXPERT_GEMM_C].rows : a->in[SN_EXPERT_GEMM_B].rows) /
        a->attr.experts.count;
    if (a->attr.gemm.trans_a)
        g.out[SN_GEMM_C].rows = rows;
    else
        g.in[SN_GEMM_B].rows = rows;
    g.in[SN_GEMM_BIAS] = g.in[SN_GEMM_ADDEND] = (struct sn_mat){0};
    return SN_K(sn_gemm_scratch)(&g, threads);
}
