/*
 * gemm.h - sizes of GEMM and EXPERT_GEMM that their kernels and tests share.
 */
#ifndef SN_CUDA_GEMM_H
#define SN_CUDA_GEMM_H

#include "kernels/cuda/geometry.h"
#include "kernels/fp8.h"
#include "kernels/ops.h"

/* cuBLASLt's workspace: what NVIDIA recommends for sm_90; older devices do with less. */
enum { SN_GEMM_WORKSPACE = 32 * 1024 * 1024 };

/* With attr.gemm.fp8, behind the workspace: magnitudes and scales of whole operands, then for each the
 * larger of its two copies (gemm_fp8.cu) and the scales of its parts, at multiples of 256 bytes. */
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

/*
 * Scales of parts as cuBLASLt wants them (its manual, "128-element 1D and 128x128 2D Block Scaling
 * For FP8 Data Types"), with L = ceil(depth / 128) and R rows of the operand across the depth:
 * lines [L, R]; blocks [ceil(R / 128), L filled up to whole 4].
 */
SN_BOTH int64_t sn_fp8_across(int64_t depth, bool block)
{
    int64_t parts = sn_ceil_div(depth, SN_FP8_PART);
    return block ? sn_ceil_div(parts, 4) * 4 : parts;
}

static inline size_t sn_fp8_scales(const struct sn_mat *x, bool turned, struct sn_fp8_parts p)
{
    int64_t rows = turned ? x->cols : x->rows, depth = turned ? x->rows : x->cols;
    bool block = p.rows == p.cols;
    if (p.rows == 0)
        return 0;
    size_t n =
        (size_t)((block ? sn_ceil_div(rows, SN_FP8_PART) : rows) * sn_fp8_across(depth, block));
    return (n * sizeof(float) + 255) / 256 * 256;
}

/*
 * Does cuBLASLt have a product with this epilogue, of operands of these shapes? (gemm_epilogue.cu;
 * the rules are those of cublasLt.h, and those below that are our own.) The function of GELU is the
 * one with tanh. What the activation reads is of C's type, lies as C does, and its rows are
 * multiples of 8 elements apart. Sums of columns are of C's type, which must be fp32.
 * Ours: operands of 16 bits, because products of fp32 gain little, and none of 8 bits, whose sums
 * of columns would be of rounded values.
 */
static inline bool sn_gemm_joins(const struct sn_args *a)
{
    const struct sn_mat *c = &a->out[SN_GEMM_C];
    bool forward = a->attr.gemm.epilogue == SN_EPILOGUE_ACT;
    const struct sn_mat *x = forward ? &a->out[SN_GEMM_BESIDE] : &a->in[SN_GEMM_SLOPE_OF];
    enum sn_dtype t = a->in[SN_GEMM_A].dtype;
    if ((t != SN_BF16 && t != SN_F16) || a->in[SN_GEMM_B].dtype != t || a->attr.gemm.fp8)
        return false;
    if (a->attr.gemm.epilogue == SN_EPILOGUE_COLSUM)
        return a->attr.gemm.trans_a && c->dtype == SN_F32 && a->out[SN_GEMM_BESIDE].dtype == SN_F32;
    return a->attr.gemm.epilogue != SN_EPILOGUE_NONE && a->attr.act == SN_ACT_GELU_TANH &&
           c->dtype == t && a->acc[SN_GEMM_C] == SN_WRITE && a->in[SN_GEMM_ADDEND].rows == 0 &&
           (forward || a->in[SN_GEMM_BIAS].rows == 0) &&
           (x->rows == 0 ? forward : x->dtype == t && x->ld == c->ld && x->ld % 8 == 0);
}

/* Without one in cuBLASLt, or beside it: sums of columns go to a row behind the workspace where
 * they are to be added, and COLSUM's own kernel has all of the room when the product is done. */
static inline size_t sn_gemm_epilogue_room(const struct sn_args *a)
{
    if (a->attr.gemm.epilogue != SN_EPILOGUE_COLSUM)
        return 0;
    size_t row = ((size_t)a->out[SN_GEMM_BESIDE].cols * sizeof(float) + 255) / 256 * 256;
    size_t sums = sn_sum_scratch(a->in[SN_GEMM_A].rows, a->in[SN_GEMM_A].cols, 1);
    size_t beyond = sums > SN_GEMM_WORKSPACE ? sums - SN_GEMM_WORKSPACE : 0;
    return row > beyond ? row : beyond;
}

static inline size_t sn_gemm_room(const struct sn_args *a)
{
    const bool turned[2] = {a->attr.gemm.trans_a, !a->attr.gemm.trans_b};
    size_t bytes = SN_GEMM_WORKSPACE;
    if (!a->attr.gemm.fp8)
        return bytes + sn_gemm_epilogue_room(a);
    bytes += SN_FP8_HEAD + sn_gemm_epilogue_room(a);
    for (int i = 0; i < 2; i++)
        bytes +=
            sn_fp8_room(&a->in[i], turned[i]) +
            sn_fp8_scales(&a->in[i], turned[i], sn_fp8_parts_of(a->attr.gemm.fp8, i, turned[i]));
    return bytes;
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
