/*
 * gemm_epilogue.c - GEMM, and what its epilogue adds: the product, then the other operation on what
 * the product has rounded to storage. So a fused program has the bits of one whose operations are
 * apart; what a device saves of memory traffic is not to be had of caches.
 */
#include "kernels/cpu/cpu.h"

/* The activation of what the product has left in out 1, or in C where nobody wants that. */
static int act(const struct sn_args *a, int threads)
{
    struct sn_args product = *a, y = *a;
    product.out[SN_GEMM_C] = a->out[SN_GEMM_BESIDE].p ? a->out[SN_GEMM_BESIDE] : a->out[SN_GEMM_C];
    y.in[SN_ACT_X] = product.out[SN_GEMM_C];
    int rc = SN_K(sn_gemm_alone)(&product, threads);
    return rc ? rc : SN_R(sn_act)(&y, threads);
}

static int act_dx(const struct sn_args *a, int threads)
{
    struct sn_args dx = *a;
    dx.in[SN_ACT_DX_DY] = a->out[SN_GEMM_C];
    dx.in[SN_ACT_DX_X] = a->in[SN_GEMM_SLOPE_OF];
    int rc = SN_K(sn_gemm_alone)(a, threads);
    return rc ? rc : SN_R(sn_act_dx)(&dx, threads);
}

static int colsum(const struct sn_args *a, int threads)
{
    struct sn_args sums = *a;
    sums.out[SN_COLSUM_DB] = a->out[SN_GEMM_BESIDE];
    sums.acc[SN_COLSUM_DB] = a->acc[SN_GEMM_BESIDE];
    int rc = SN_K(sn_gemm_alone)(a, threads);
    return rc ? rc : SN_R(sn_colsum)(&sums, threads);
}

SN_KERNEL(sn_gemm)
{
    switch (a->attr.gemm.epilogue) {
    case SN_EPILOGUE_ACT:
        return act(a, threads);
    case SN_EPILOGUE_ACT_DX:
        return act_dx(a, threads);
    case SN_EPILOGUE_COLSUM:
        return colsum(a, threads);
    default:
        return SN_K(sn_gemm_alone)(a, threads);
    }
}
