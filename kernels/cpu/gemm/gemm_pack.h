/*
 * gemm_pack.h - copies blocks of A and B into the order in which the tile product reads them, as
 * fp32 whatever the storage type, and transposes on the way where the operand needs it.
 */
#ifndef SN_GEMM_PACK_H
#define SN_GEMM_PACK_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/tile.h"

#include <stdbool.h>

enum {
    SN_MR = SN_REGISTERS >= 32 ? 8 : 4, /* rows of a tile */
    SN_NV = SN_REGISTERS >= 64 ? 4 : 3, /* vectors in a row of a tile */
    SN_NR = SN_NV * SN_VL,
};

/* Rows [row, row + rows) and columns [col, col + cols) of op(X). */
struct sn_block {
    const struct sn_mat *x;
    bool trans;
    int64_t row, rows, col, cols;
};

/*
 * A: strips of SN_MR rows; element (i, l) of a strip at [i][l] when A is stored that way, at [l][i]
 * when it is transposed or tiles take it by steps. Rows beyond the block are zero. `line` is
 * scratch for 16 lines of a block.
 */
void SN_K(sn_gemm_pack_a)(const struct sn_block *a, float *line, float *out);
/* B: panels of SN_NR columns, element (l, j) of a panel at [l][j]. Columns beyond are zero. */
void SN_K(sn_gemm_pack_b)(const struct sn_block *b, float *line, float *out);

/* What multiplies packed blocks of fp32 (a file in kernels/cpu/fp32, or one of kernels/cpu/bf16
 * that has both; see the Makefile): a tile of `cols` columns. The rest of a whole tile may be
 * written too, with anything. */
void SN_K(sn_gemm_tile)(const struct sn_tile *t, int64_t cols);
extern const bool SN_K(sn_gemm_by_steps); /* of A it wants SN_MR rows of a step of k side by side */

#endif
