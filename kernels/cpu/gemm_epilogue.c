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
    product.out[0] = a->out[1].p ? a->out[1] : a->out[0];
    y.in[0] = product.out[0];
    int rc = SN_K(sn_gemm_alone)(&product, threads);
    return rc ? rc : SN_R(sn_act)(&y, threads);
}

static int act_dx(const struct sn_args *a, int threads)
{
    struct sn_args dx = *a;
    dx.in[0] = a->out[0];
    dx.in[1] = a->in[4];
    int rc = SN_K(sn_gemm_alone)(a, threads);
    return rc ? rc : SN_R(sn_act_dx)(&dx, threads);
}

static int colsum(const struct sn_args *a, int threads)
{
    struct sn_args sums = *a;
    sums.out[0] = a->out[1];
    sums.acc[0] = a->acc[1];
    int rc = SN_K(sn_gemm_alone)(a, threads);
    return rc ? rc : SN_R(sn_colsum)(&sums, threads);
}

SN_KERNEL(sn_gemm)
{
    switch (a->attr.epilogue) {
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
