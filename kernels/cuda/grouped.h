/*
 * grouped.h - sizes of the grouped product (grouped.cuh), as plain C.
 *
 * A block of two warpgroups computes tiles of C, SN_GROUPED_M x n, one after the other, in steps
 * of SN_GROUPED_K deep; pieces of A and B wait in a ring of stages in shared memory, as rows of 128
 * bytes.
 */
#ifndef SN_CUDA_GROUPED_H
#define SN_CUDA_GROUPED_H

#include "kernels/cuda/geometry.h"

enum {
    SN_GROUPED_M = 128,
    SN_GROUPED_NARROW = 128, /* n */
    SN_GROUPED_WIDE = 256,
    SN_GROUPED_K = 64, /* 16-bit elements of a row of 128 bytes */
    SN_GROUPED_THREADS = 256,
    SN_GROUPED_BAND = 16,     /* rows of tiles that share a column of tiles while it is in L2 */
    SN_GROUPED_SEGMENTS = 512 /* beyond, product.cuh */
};

/* Bytes of a stage. */
static inline size_t sn_grouped_stage(int n)
{
    return (size_t)(SN_GROUPED_M + n) * SN_GROUPED_K * 2;
}

/* Stages, and tiles that begin before each segment. */
static inline size_t sn_grouped_shared(int n, int stages)
{
    return sn_grouped_stage(n) * (size_t)stages + (SN_GROUPED_SEGMENTS + 1) * sizeof(int32_t);
}

/* n for a result of so many columns, in a ring of so many stages; 0: there is no room. Wide tiles
 * read less; narrow ones where wide ones would be empty by half, or do not fit. */
static inline int sn_grouped_columns(int64_t cols, int stages, size_t shared)
{
    int64_t rest = cols % SN_GROUPED_WIDE;
    bool half_empty = rest > 0 && rest <= SN_GROUPED_NARROW && cols < 8 * SN_GROUPED_WIDE;
    if (!half_empty && sn_grouped_shared(SN_GROUPED_WIDE, stages) <= shared)
        return SN_GROUPED_WIDE;
    return sn_grouped_shared(SN_GROUPED_NARROW, stages) <= shared ? SN_GROUPED_NARROW : 0;
}

/* Tiles that a result may have at most: `matrices` results of so many rows each, or `segments` that
 * may each end in a part of a tile. */
static inline int64_t sn_grouped_tiles(int64_t rows, int64_t cols, int64_t segments,
                                       int64_t matrices, int n)
{
    return (sn_ceil_div(rows, SN_GROUPED_M) + segments) * matrices * sn_ceil_div(cols, n);
}

/* As many blocks as are there at once: one on each multiprocessor. */
static inline struct sn_shape sn_shape_grouped(int64_t tiles, int multiprocessors, int n,
                                               int stages)
{
    struct sn_shape g = {sn_cap(tiles, multiprocessors), 1, 1, SN_GROUPED_THREADS, 1,
                         sn_grouped_shared(n, stages)};
    return g;
}

/* A tile among rows x cols of them: bands of rows, each from column to column. */
struct sn_grouped_spot {
    int32_t row, col;
};

SN_BOTH struct sn_grouped_spot sn_grouped_spot(int32_t tile, int32_t rows, int32_t cols)
{
    int32_t band = tile / (SN_GROUPED_BAND * cols), first = band * SN_GROUPED_BAND;
    int32_t high = rows - first < SN_GROUPED_BAND ? rows - first : SN_GROUPED_BAND;
    int32_t in_band = tile - first * cols;
    struct sn_grouped_spot s = {first + in_band % high, in_band / high};
    return s;
}

#endif
