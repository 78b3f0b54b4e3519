/*
 * bf16.h - products of bf16 matrices by instructions that are made for them: one instruction adds
 * the products of neighbours along the depth to sums in fp32. GEMM uses them where the
 * instruction set has them; elsewhere bf16 is widened to fp32 while it is packed.
 *
 * Both operands are packed into strips of `rows` (of A), or `cols` (of B), lines, which lie
 * interleaved by groups of neighbours: element (line i, depth l) of a strip at
 * [l / group][i][l % group]. Depths are rounded up to whole steps with zeros, which add nothing.
 * With `reads_rows` A's rows may also lie as they are stored, one after the other.
 *
 * Which elements of the depth an instruction takes together is fixed by their place from the
 * beginning of a block, and blocks by the shape: the bits of C depend on neither the number of
 * threads nor the place of a tile. They are not those of another instruction set: pairs are added
 * in another order, and some instructions take denormal numbers for zeros.
 */
#ifndef SN_BF16_PRODUCTS_H
#define SN_BF16_PRODUCTS_H

#include "kernels/cpu/cpu.h"

#include <stdbool.h>

/*
 * C[rows, cols] (+)= A B. The rest of a whole tile may be written too, with anything. Sums begin
 * from `from`, if it is not NULL: a tile's sums of the depth before this, whole rows.
 */
struct sn_bf16_tile {
    int64_t depth; /* whole steps */
    const uint16_t *a, *b;
    int64_t a_row, a_step; /* elements between rows of A, and between groups of its depth */
    int64_t rows, cols;
    float *c;
    int64_t c_row;
    const float *from;
    bool add;     /* C += instead of C = */
    bool streams; /* C's whole lines may bypass the caches; not with add */
};

struct sn_bf16_products {
    int rows, cols;       /* of a tile */
    int a_group, b_group; /* neighbours that lie together; both divide step */
    int step;
    int near;            /* a strip of B so deep stays in L1 while tiles use it; 0: no matter */
    bool reads_rows;     /* then groups of A lie a_step apart, and its rows anywhere */
    bool streams;        /* tiles write C past the caches where they are asked to */
    void (*begin)(void); /* on each thread, before and after its tiles; NULL: nothing to do */
    void (*end)(void);
    void (*tile)(const struct sn_bf16_tile *t);
};

/* Those of this instruction set (a file in kernels/cpu/bf16, see the Makefile); NULL: none. */
extern const struct sn_bf16_products *const SN_K(sn_bf16);

static inline int64_t sn_bf16_depth(const struct sn_bf16_products *p, int64_t depth)
{
    return (depth + p->step - 1) / p->step * p->step;
}

/* Lines [line, line + lines) of a bf16 matrix, from element l of the depth on. */
struct sn_bf16_block {
    const struct sn_mat *x;
    bool across; /* the depth runs across stored rows: a line is a stored column */
    int64_t line, lines, l, depth;
    int64_t width, group; /* of a strip; a group may be the whole depth */
    int64_t whole;        /* the depth with its zeros */
};

enum { SN_BF16_LINES = 16 }; /* `line` of packing is scratch for so many lines of a block */

/* Lines beyond the last of a strip are zero. */
void SN_K(sn_bf16_pack)(const struct sn_bf16_block *b, uint16_t *line, uint16_t *out);

#endif
