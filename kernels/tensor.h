/*
 * tensor.h - what a kernel sees of a tensor: a row-major matrix in a storage type.
 *
 * Shape letters used everywhere: T tokens of a micro-batch (rows), S tokens of a sample
 * (seq; T = samples x S, row r is position r % S of sample r / S), D model width, F ffn width,
 * V vocabulary, H query heads, G key/value heads, d width of a head.
 */
#ifndef SN_TENSOR_H
#define SN_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum sn_dtype { SN_F32, SN_BF16, SN_F16, SN_F64, SN_I32, SN_U8, SN_NDTYPES };

/* What operands of products in 8 bits share a power of two: nothing is in 8 bits; each matrix as a
 * whole; blocks and lines of 128 elements (fp8.h). */
enum sn_fp8_scaling { SN_FP8_OFF, SN_FP8_TENSORWISE, SN_FP8_BLOCKWISE };

/* May a library of the device's maker compute it, where it can? MUST: else the operation fails. */
enum sn_library_use { SN_LIBRARY_NEVER, SN_LIBRARY_MAY, SN_LIBRARY_MUST };

static inline size_t sn_dtype_size(enum sn_dtype t)
{
    static const size_t size[SN_NDTYPES] = {4, 2, 2, 8, 4, 1};
    return size[t];
}

static inline const char *sn_dtype_name(enum sn_dtype t)
{
    static const char *const name[SN_NDTYPES] = {"fp32", "bf16", "fp16", "fp64", "int32", "uint8"};
    return name[t];
}

/* rows x cols elements, row r at p + r * ld elements. Borrowed. p == NULL: an absent operand. */
struct sn_mat {
    void *p;
    enum sn_dtype dtype;
    int64_t rows, cols, ld;
};

#endif
