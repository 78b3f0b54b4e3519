/*
 * gemm.h - sizes of GEMM and EXPERT_GEMM that their kernels and tests share.
 */
#ifndef SN_CUDA_GEMM_H
#define SN_CUDA_GEMM_H

#include "kernels/cuda/geometry.h"
#include "kernels/ops.h"

/* cuBLASLt's workspace: what NVIDIA recommends for sm_90; older devices do with less. */
enum { SN_GEMM_WORKSPACE = 32 * 1024 * 1024 };

/* With attr.fp8, behind the workspace: magnitudes and scales, then for each operand the larger of
 * its two copies (gemm_fp8.cu), at multiples of 256 bytes. */
enum { SN_FP8_HEAD = 256 };

static inline int64_t sn_fp8_depth(int64_t k)
{
    return (k + 15) / 16 * 16;
}

static inline size_t sn_fp8_room(const struct sn_mat *x, bool turned)
{
    int64_t rows = turned ? x->cols : x->rows, depth = sn_fp8_depth(turned ? x->rows : x->cols);
    size_t codes = (size_t)(rows * depth), values = (size_t)(x->rows * x->cols) * 2;
    return ((codes > values ? codes : values) + 255) / 256 * 256;
}

static inline size_t sn_gemm_room(const struct sn_args *a)
{
    if (!a->attr.fp8)
        return SN_GEMM_WORKSPACE;
    return SN_GEMM_WORKSPACE + SN_FP8_HEAD + sn_fp8_room(&a->in[0], a->attr.trans_a) +
           sn_fp8_room(&a->in[1], !a->attr.trans_b);
}

/* Our own product: tiles of C, steps of depth. */
enum { SN_PRODUCT_M = 128, SN_PRODUCT_N = 128, SN_PRODUCT_K = 32, SN_PRODUCT_THREADS = 256 };

/* Blocks for a result of rows x cols. With segments, `rows` is what all of them may have and each
 * may end in a part of a tile; `matrices`: results of that size, one for each expert. */
static inline struct sn_shape sn_shape_product(int64_t rows, int64_t cols, int64_t segments,
                                               int64_t matrices)
{
    struct sn_shape g = {
        (uint32_t)(sn_ceil_div(rows, SN_PRODUCT_M) + (segments > 1 ? segments : 0)),
        (uint32_t)sn_ceil_div(cols, SN_PRODUCT_N),
        (uint32_t)matrices,
        SN_PRODUCT_THREADS,
        1,
        0};
    return g;
}

/* Is that a grid that a device takes? */
static inline bool sn_product_fits(int64_t rows, int64_t cols, int64_t segments, int64_t matrices)
{
    return sn_ceil_div(rows, SN_PRODUCT_M) + segments <= 0x7fffffff &&
           sn_ceil_div(cols, SN_PRODUCT_N) <= SN_GRID_Y_MOST && matrices <= SN_GRID_Y_MOST;
}

#endif
