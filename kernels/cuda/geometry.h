/*
 * geometry.h - launch shapes and shared memory of the CUDA kernels, as plain C: a test on a machine
 * without a GPU checks them over sizes, up to the limits of a device.
 *
 * Every kernel walks what exceeds its grid in strides, so a grid is never a promise of one thread
 * for each element; it is capped at SN_GRID_CAP blocks, some 60 times what a large device holds at
 * once.
 */
#ifndef SN_CUDA_GEOMETRY_H
#define SN_CUDA_GEOMETRY_H

#include "kernels/both.h"
#include "kernels/tensor.h"

#include <stdbool.h>

/* Limits of every device from sm_70 on. */
enum {
    SN_WARP = 32,
    SN_BLOCK_MOST = 1024,
    SN_GRID_Y_MOST = 65535,
    SN_GRID_CAP = 65535,
    SN_SHARED_PLAIN = 48 * 1024, /* beyond, a kernel has to ask for it */
    SN_BLOCK = 256               /* threads, unless a kernel says otherwise */
};

struct sn_shape {
    uint32_t x, y, z; /* blocks; none: nothing is launched */
    uint32_t bx, by;  /* threads of a block */
    size_t shared;    /* dynamic, bytes */
};

SN_BOTH int64_t sn_ceil_div(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

SN_BOTH uint32_t sn_cap(int64_t blocks, int64_t most)
{
    return (uint32_t)(blocks < most ? blocks : most);
}

/* The smallest power of two that is at least n, within [least, most] (powers of two themselves). */
SN_BOTH uint32_t sn_power(int64_t n, uint32_t least, uint32_t most)
{
    uint32_t p = least;
    while (p < most && (int64_t)p < n)
        p *= 2;
    return p;
}

/* n items, a thread for each. */
static inline struct sn_shape sn_shape_line(int64_t n)
{
    struct sn_shape g = {sn_cap(sn_ceil_div(n, SN_BLOCK), SN_GRID_CAP), 1, 1, SN_BLOCK, 1, 0};
    return g;
}

/* rows x width items: blocks as wide as a row is, up to SN_BLOCK; rows lie along x of the grid,
 * because there may be more of them than y allows. */
static inline struct sn_shape sn_shape_plane(int64_t rows, int64_t width)
{
    uint32_t bx = sn_power(width, 1, SN_BLOCK), by = SN_BLOCK / bx;
    uint32_t y = sn_cap(sn_ceil_div(width, bx), 1024);
    struct sn_shape g = {y ? sn_cap(sn_ceil_div(rows, by), SN_GRID_CAP) : 0, y, 1, bx, by, 0};
    return g;
}

/*
 * Rows that are summed along: a warp for each row of up to 32 SN_ROW_KEPT items, eight of them in a
 * block; else a block of up to SN_BLOCK_MOST threads. Up to SN_ROW_KEPT items stay in registers.
 */
enum { SN_ROW_KEPT = 4 };

static inline struct sn_shape sn_shape_rows(int64_t rows, int64_t width)
{
    uint32_t bx = sn_power(sn_ceil_div(width, SN_ROW_KEPT), SN_WARP, SN_BLOCK_MOST);
    uint32_t by = bx == SN_WARP ? 8 : 1;
    struct sn_shape g = {sn_cap(sn_ceil_div(rows, by), SN_GRID_CAP), 1, 1, bx, by, 0};
    return g;
}

static inline bool sn_row_is_kept(int64_t width)
{
    return width <= (int64_t)SN_BLOCK_MOST * SN_ROW_KEPT;
}

/*
 * Sums of columns: chunks of rows x strips of columns; a chunk is whole groups of SN_SUM_ROWS rows
 * and there are at most SN_SUM_CHUNKS: with 65,536 rows of 768 bf16 three strips of them are 768
 * blocks, more than four for each of 132 multiprocessors. They depend on the rows alone, so that
 * columns that are cut over ranks are summed as whole ones. Each chunk's sums, in double, are
 * scratch.
 */
enum { SN_SUM_ROWS = 64, SN_SUM_CHUNKS = 256, SN_SUM_X = 32, SN_SUM_Y = 8, SN_SUM_AT_ONCE = 16 };

static inline int64_t sn_sum_chunk(int64_t rows)
{
    int64_t groups = sn_ceil_div(rows, SN_SUM_ROWS);
    return SN_SUM_ROWS * (groups ? sn_ceil_div(groups, SN_SUM_CHUNKS) : 1);
}

static inline int64_t sn_sum_chunks(int64_t rows)
{
    return sn_ceil_div(rows, sn_sum_chunk(rows));
}

static inline size_t sn_sum_scratch(int64_t rows, int64_t cols, int outputs)
{
    return (size_t)(sn_sum_chunks(rows) * cols * outputs) * sizeof(double);
}

static inline struct sn_shape sn_shape_sums(int64_t rows, int64_t width)
{
    struct sn_shape g = {sn_cap(sn_ceil_div(width, SN_SUM_X), SN_GRID_CAP),
                         (uint32_t)sn_sum_chunks(rows),
                         1,
                         SN_SUM_X,
                         SN_SUM_Y,
                         0};
    return g;
}

static inline struct sn_shape sn_shape_add_sums(int64_t cols, int outputs)
{
    struct sn_shape g = {sn_cap(sn_ceil_div(cols, SN_SUM_X), SN_GRID_CAP),
                         (uint32_t)outputs,
                         1,
                         SN_SUM_X,
                         SN_SUM_AT_ONCE,
                         0};
    return g;
}

/*
 * EMBED_GRAD: rows of a word that are added up at once; tiles of rows in which they are sorted,
 * each with a count of every word, and as many blocks that walk the words.
 */
enum { SN_EMBED_SEGMENT = 64, SN_EMBED_TILES = 64, SN_EMBED_BLOCKS = 1024 };

static inline int64_t sn_embed_tile(int64_t rows)
{
    int64_t whole = sn_ceil_div(rows, SN_BLOCK_MOST);
    return SN_BLOCK_MOST * (whole ? sn_ceil_div(whole, SN_EMBED_TILES) : 1);
}

static inline size_t sn_embed_scratch(int64_t rows, int64_t cols, int64_t words)
{
    int64_t tiles = sn_ceil_div(rows, sn_embed_tile(rows));
    return (size_t)(sn_ceil_div(rows, SN_EMBED_SEGMENT) * cols + 2 * rows + words + 1 +
                    SN_EMBED_BLOCKS + tiles * words) *
           sizeof(int32_t);
}

/*
 * Gradients of norms (norm_dx.cuh): chunks of rows, a block each, of SN_BLOCK threads: a warp or
 * more for a row. Some SN_NORM_CHUNKS blocks, four for each of 132 multiprocessors, but none whose
 * threads have more than SN_NORM_RUN rows. Each chunk's sums are scratch, in fp32.
 */
enum { SN_NORM_CHUNKS = 528, SN_NORM_RUN = 256, SN_NORM_THREADS = 16 };

/* Items of a row in a thread's registers, with as many sums: more of them spill. */
#define SN_NORM_KEPT(outputs) ((outputs) > 1 ? 3 : 4)

static inline bool sn_norm_is_kept(int64_t width, int outputs)
{
    return width <= (int64_t)SN_BLOCK * SN_NORM_KEPT(outputs);
}

static inline uint32_t sn_norm_threads(int64_t width, int outputs)
{
    return sn_power(sn_ceil_div(width, SN_NORM_KEPT(outputs)), SN_WARP, SN_BLOCK);
}

static inline int64_t sn_norm_chunk_rows(int64_t rows, int64_t width, int outputs)
{
    int64_t by = SN_BLOCK / sn_norm_threads(width, outputs);
    int64_t turns = sn_ceil_div(rows, SN_NORM_CHUNKS * by), most = SN_NORM_RUN;
    turns = turns < most ? turns : most;
    return by * (turns > 0 ? turns : 1);
}

static inline struct sn_shape sn_shape_norm_dx(int64_t rows, int64_t width, int outputs)
{
    uint32_t bx = sn_norm_threads(width, outputs);
    int64_t chunks = sn_ceil_div(rows, sn_norm_chunk_rows(rows, width, outputs));
    struct sn_shape g = {(uint32_t)chunks, 1, 1, bx, SN_BLOCK / bx, 0};
    return g;
}

static inline struct sn_shape sn_shape_norm_sums(int64_t cols, int outputs)
{
    struct sn_shape g = {
        (uint32_t)sn_ceil_div(cols, SN_WARP), (uint32_t)outputs, 1, SN_WARP, SN_NORM_THREADS, 0};
    return g;
}

/* For operands of any alignment: chunks of items of 16 bytes or of single elements, or sums of
 * columns where such rows are too wide. */
static inline size_t sn_norm_scratch(int64_t rows, int64_t cols, enum sn_dtype t, int outputs)
{
    int64_t width[2] = {cols * (int64_t)sn_dtype_size(t) / 16, cols};
    size_t most = 0;
    for (int i = 0; i < 2; i++) {
        bool kept = sn_norm_is_kept(width[i], outputs);
        size_t chunks = kept ? sn_shape_norm_dx(rows, width[i], outputs).x : 0;
        size_t n = kept ? chunks * (size_t)(cols * outputs) * sizeof(float)
                        : sn_sum_scratch(rows, cols, outputs);
        most = n > most ? n : most;
    }
    return most;
}

/* SQ_NORM: elements whose squares are one sum, as on the CPU; they are added up in pieces. */
enum { SN_NORM_ELEMENTS = 65536, SN_SQUARES_PIECE = 8192 };

enum { SN_UPDATE_SCRATCH = 64 }; /* bytes: what all elements share */

/* ROPE: entries of its table of angles; the grid's z are ranges of heads, more where there are few
 * rows. */
enum { SN_ROPE_FINE = 64, SN_ROPE_FILL = 1024 /* blocks that keep a device busy */ };

SN_BOTH int64_t sn_rope_entries(int64_t seq)
{
    return SN_ROPE_FINE + seq / SN_ROPE_FINE + 1;
}

static inline struct sn_shape sn_shape_rope(int64_t rows, int64_t width, int64_t heads)
{
    struct sn_shape g = sn_shape_plane(rows, width);
    int64_t blocks = (int64_t)g.x * g.y, want = blocks ? sn_ceil_div(SN_ROPE_FILL, blocks) : 1;
    g.z = (uint32_t)(want < heads ? want : heads);
    return g;
}

static inline int64_t sn_rope_heads(int64_t heads, uint32_t ranges)
{
    return sn_ceil_div(heads, ranges);
}

/* ATTENTION_ROWS: a block for each query of a head; as many warps as their outputs find room for, where
 * heads are no wider than some 10,000 columns. */
static inline struct sn_shape sn_shape_attention_rows(int64_t queries, int64_t d, int64_t e)
{
    struct sn_shape g = {sn_cap(queries, SN_GRID_CAP), 1, 1, SN_WARP, SN_BLOCK / SN_WARP, 0};
    for (;; g.by /= 2) {
        g.shared = queries > 0 ? (size_t)(d + g.by * (e + 2)) * sizeof(float) : 0;
        if (g.by == 1 || g.shared <= SN_SHARED_PLAIN)
            return g;
    }
}

/* ROUTE_LOSS: a sum of each block is scratch. */
enum { SN_ROUTE_BLOCKS = 128 };

static inline struct sn_shape sn_shape_route_loss(int64_t rows)
{
    struct sn_shape g = {
        sn_cap(sn_ceil_div(rows, SN_BLOCK / SN_WARP), SN_ROUTE_BLOCKS), 1, 1, SN_BLOCK, 1, 0};
    return g;
}

/* --- 16-byte accesses ------------------------------------------------------------------------ */

static inline bool sn_is_small_float(enum sn_dtype t)
{
    return t == SN_F32 || t == SN_BF16 || t == SN_F16;
}

/* Is every row of m whole 16-byte pieces at addresses that allow them? */
static inline bool sn_is_aligned(const struct sn_mat *m)
{
    size_t size = sn_dtype_size(m->dtype);
    return (uintptr_t)m->p % 16 == 0 && (size_t)m->cols * size % 16 == 0 &&
           (m->rows <= 1 || (size_t)m->ld * size % 16 == 0);
}

/*
 * The storage type that all operands have, if 16-byte accesses are possible on all of them;
 * SN_NDTYPES if not: then a kernel takes one element of any type at a time. Absent ones count not.
 */
static inline enum sn_dtype sn_common(const struct sn_mat *const *m, int n)
{
    enum sn_dtype t = SN_NDTYPES;
    for (int i = 0; i < n; i++) {
        if (!m[i]->p)
            continue;
        if (t == SN_NDTYPES)
            t = m[i]->dtype;
        if (m[i]->dtype != t || !sn_is_small_float(t) || !sn_is_aligned(m[i]))
            return SN_NDTYPES;
    }
    return t;
}

#endif
