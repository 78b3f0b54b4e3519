/*
 * product.cuh - a GEMM of our own, C (+)= op(A) op(B) + bias + addend: for experts, whose segments
 * of rows only the device knows, and for what cuBLASLt refuses.
 *
 * A block computes a tile of C, SN_PRODUCT_M x SN_PRODUCT_N, walking depth in steps; pieces of A
 * and B lie in shared memory as they lie in memory, rows as rows. Engines: fp32 multiply-adds on
 * any storage types, or warp matrix functions (fp16 from sm_70, bf16 from sm_80). While a step is
 * multiplied, the next one is on its way into registers.
 */
#ifndef SN_CUDA_PRODUCT_CUH
#define SN_CUDA_PRODUCT_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"

struct sn_product {
    struct sn_mat a, b, c, bias, addend;
    bool trans_a, trans_b, add; /* add: to what C holds */
    const int32_t *bounds;      /* of segments, on the device; NULL: one of everything */
    int32_t segments, experts;
    int64_t expert_rows; /* of the weights: of B, or of C when trans_a */
};

/* All sizes follow from the operands. */
int sn_product_run(struct sn_cuda *cx, const struct sn_product *p);

#endif
