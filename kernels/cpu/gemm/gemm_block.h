/*
 * gemm_block.h - what the files of GEMM share: a product, the block of it on which a thread works,
 * and where a tile of C goes. gemm.c divides C into blocks; gemm_fp32.c and gemm_bf16.c multiply
 * one; gemm_target.c takes tiles to C.
 */
#ifndef SN_GEMM_BLOCK_H
#define SN_GEMM_BLOCK_H

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm/gemm_pack.h"

enum {
    SN_GEMM_MC = 512,                  /* rows of A's block, at most */
    SN_GEMM_WIDEST = 64,               /* columns of a tile, at most */
    SN_GEMM_LARGEST = 1024,            /* and its elements */
    SN_GEMM_GROUP = 512,               /* columns of a group of panels of bf16, at most */
    SN_GEMM_NEAR = 32 * SN_GEMM_GROUP, /* floats that keep a row of tiles of them */
};

struct sn_gemm_job {
    const struct sn_args *a;
    const struct sn_mat *c, *bias, *addend;
    int64_t m, n, k;
    int64_t kc;                          /* depth of a block of k */
    int64_t mc, nc;                      /* rows of A's block, columns of B's */
    const struct sn_bf16_products *bf16; /* what multiplies; NULL: tiles of fp32 */
    int64_t mr, nr;                      /* rows and columns of a tile */
    bool accumulates;                    /* C += */
    bool wide_sums;                      /* C is not fp32 and k has several blocks */
    bool exact;   /* sums of blocks of k are (exact.h), in fp64: C's, or the scratch's */
    double shift; /* of such */
    bool streams; /* C's tiles may bypass the caches: it is larger than they are */
};

/* What one thread works on: its rectangle of C, its scratch. */
struct sn_gemm_work {
    int64_t row, rows, col, cols; /* current block of C */
    int64_t l, depth;             /* current block of k */
    float *packed_a, *packed_b, *line;
    float *near;      /* sums of a row of bf16 tiles, one tile after the other */
    float *sums;      /* for wide sums only; exact ones: doubles */
    int64_t sums_row; /* elements */
};

/* Rows [row, row + rows) of the current block against all of B's, which the first rows pack. */
void SN_K(sn_gemm_rows_fp32)(const struct sn_gemm_job *j, const struct sn_gemm_work *w, int64_t row,
                             int64_t rows);
void SN_K(sn_gemm_rows_bf16)(const struct sn_gemm_job *j, const struct sn_gemm_work *w, int64_t row,
                             int64_t rows);

/* Where a tile's product goes: C itself, the wide sums, or a buffer and from there to C. */
struct sn_gemm_target {
    int64_t at[2], rows, cols; /* of C */
    float *c;
    int64_t c_row;
    bool add, is_buffer;
    bool streams; /* nothing is added, and C may bypass the caches */
};

/* `buffer` has room for a whole tile. */
struct sn_gemm_target SN_K(sn_gemm_target)(const struct sn_gemm_job *j,
                                           const struct sn_gemm_work *w, const int64_t at[2],
                                           float *buffer);
/* Once the product is there: what lies in the buffer goes to C. */
void SN_K(sn_gemm_finish)(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                          const struct sn_gemm_target *t);
/* Exact sums (gemm_exact.c): n values of the product over `depth` of k as terms of `sum`, which the
 * first of them begin; and the sum of a tile's terms in a block of k, whole rows, to C. */
void SN_K(sn_gemm_terms)(double *sum, const float *product, int64_t n, double shift, bool first);
void SN_K(sn_gemm_finish_exact)(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                                const int64_t at[2], double *terms);
/* A product of depth 0: bias, addend and the old C alone. */
void SN_K(sn_gemm_without_product)(const struct sn_gemm_job *j);

#endif
