/*
 * expert_gemm.cu - EXPERT_GEMM: all segments in one launch, whose tiles find their segment from the
 * bounds on the device; nothing waits for the host.
 *
 * 16-bit floats at multiples of 16 bytes take the grouped product (grouped.cuh): on sm_90 by
 * warpgroups, from sm_80 on by mma.sync. Everything else, and older devices, take product.cuh.
 * cuBLASLt 13.1 has no grouped products: its descriptors have one size for all matrices of a batch,
 * which the host must know.
 *
 * A row's result does not depend on the segment that it lies in.
 */
#include "kernels/cuda/grouped.cuh"
#include "kernels/cuda/ops.cuh"

#include <string.h>

SN_CUDA_OP(expert_gemm)
{
    struct sn_product p;
    memset(&p, 0, sizeof(p));
    p.a = a->in[SN_EXPERT_GEMM_A];
    p.b = a->in[SN_EXPERT_GEMM_B];
    p.c = a->out[SN_EXPERT_GEMM_C];
    p.trans_a = a->attr.gemm.trans_a;
    p.trans_b = a->attr.gemm.trans_b;
    p.add = a->acc[SN_EXPERT_GEMM_C] == SN_ADD;
    p.bounds = (const int32_t *)a->in[SN_EXPERT_GEMM_BOUNDS].p;
    p.segments = (int32_t)(a->in[SN_EXPERT_GEMM_BOUNDS].cols - 1);
    p.experts = a->attr.experts.count;
    p.expert_rows = (p.trans_a ? p.c.rows : p.b.rows) / p.experts;
    bool taken;
    int rc = sn_grouped_wgmma(cx, &p, &taken);
    if (!taken)
        rc = sn_grouped_mma(cx, &p, &taken);
    return taken ? rc : sn_product_run(cx, &p);
}
