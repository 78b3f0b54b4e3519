/*
 * attention.h - which kernels an ATTENTION takes, their tiles and their shared memory.
 *
 * Four families, from simple to fast:
 *   SIMT  attention_tile.cu, fp32 fused multiply-adds; any type, any head widths that fit
 *   WMMA  the same kernels on the warp matrix functions: fp16 from sm_70 on (Volta, Turing); from sm_80
 *         on what MMA's do not know: windows, documents, prefixes, caps, values of another width, bf16 too
 *   MMA   attention_mma*.cu, mma.sync with operands in registers: fp16 and bf16 from sm_80 on
 *   WGMMA attention_wgmma*.cu, warpgroup products on sm_90 (Hopper), in place of MMA for heads of up
 *         to 128 columns; a backward whose order of sums is free stays with MMA
 */
#ifndef SN_CUDA_ATTENTION_H
#define SN_CUDA_ATTENTION_H

#include "kernels/cuda/geometry.h"
#include "kernels/ops.h"

enum sn_attn_family { SN_ATTN_NONE, SN_ATTN_SIMT, SN_ATTN_WMMA, SN_ATTN_MMA };
enum sn_attn_pass {
    SN_ATTN_FORWARD,
    SN_ATTN_DQ,
    SN_ATTN_DKV,
    SN_ATTN_ONCE /* dk and dv, and dq by atomic sums: the backward in any order */
};

enum { SN_ATTN_THREADS = 128 }; /* of the tile and mma kernels */

/* Columns of a head: of q and k; of v, o and do. The tile kernels alone have two. */
struct sn_attn_heads {
    int d, e;
};

static inline struct sn_attn_heads sn_attn_heads_of(const struct sn_args *a)
{
    struct sn_attn_heads w = {a->attr.attention.head_dim, (int)sn_v_dim(&a->attr.attention)};
    return w;
}

/*
 * Tiles of the SIMT and WMMA kernels: t x t scores; rows of t in the order below, each piece at a
 * multiple of 128 bytes:
 *   operands   forward q k v, backward q k v do        t rows of sn_attn_ld() elements, of d or e
 *   scores     forward s, backward s dp                t rows of t + 4 floats
 *   narrow     p, dq: ds, dkv: p ds (WMMA; SIMT reads the scores)  t rows of t + 8 elements
 *   sums       forward o, dq dq, dkv dk dv             t rows of sn_attn_width() + 4 floats
 *   row        m l, or lse delta                       t floats each
 */
struct sn_attn_tile {
    enum sn_attn_family family;
    int t;
    size_t shared;
};

/* Columns of a head, with zeros up to whole 16. */
SN_BOTH int sn_attn_width(int d)
{
    return (d + 15) / 16 * 16;
}

/* Elements between rows of an operand: 16 bytes beyond, so that rows begin in other banks. */
SN_BOTH int sn_attn_ld(int d, int element)
{
    return sn_attn_width(d) + 16 / element;
}

SN_BOTH size_t sn_attn_piece(size_t bytes)
{
    return (bytes + 127) / 128 * 128;
}

static inline size_t sn_attn_tile_shared(enum sn_attn_family f, enum sn_attn_pass pass, int t,
                                         struct sn_attn_heads w)
{
    size_t element = f == SN_ATTN_WMMA ? 2 : 4, rows = (size_t)t;
    size_t q = sn_attn_piece(rows * (size_t)sn_attn_ld(w.d, (int)element) * element);
    size_t v = sn_attn_piece(rows * (size_t)sn_attn_ld(w.e, (int)element) * element);
    size_t score = sn_attn_piece(rows * (rows + 4) * 4);
    size_t narrow = f == SN_ATTN_WMMA ? sn_attn_piece(rows * (rows + 8) * element) : 0;
    size_t sum_q = sn_attn_piece(rows * (size_t)(sn_attn_width(w.d) + 4) * 4);
    size_t sum_v = sn_attn_piece(rows * (size_t)(sn_attn_width(w.e) + 4) * 4);
    size_t row = sn_attn_piece(rows * 4);
    switch (pass) {
    case SN_ATTN_FORWARD:
        return 2 * q + v + score + narrow + sum_v + 2 * row;
    case SN_ATTN_DQ:
        return 2 * q + 2 * v + 2 * score + narrow + sum_q + 2 * row;
    default:
        return 2 * q + 2 * v + 2 * score + 2 * narrow + sum_q + sum_v + 2 * row;
    }
}

/* The largest tile that fits `most` bytes; family NONE when none does. */
static inline struct sn_attn_tile sn_attn_tile_of(enum sn_attn_family f, enum sn_attn_pass pass,
                                                  struct sn_attn_heads w, size_t most)
{
    struct sn_attn_tile g = {f, 64, 0};
    int least = f == SN_ATTN_WMMA ? 16 : 8;
    for (; g.t >= least; g.t /= 2) {
        g.shared = sn_attn_tile_shared(f, pass, g.t, w);
        if (g.shared <= most)
            return g;
    }
    g.family = SN_ATTN_NONE;
    g.t = 0;
    g.shared = 0;
    return g;
}

/* The mma kernels: head widths are padded to these; wider heads take SIMT. */
static inline int sn_attn_mma_width(int d)
{
    return d <= 32 ? 32 : d <= 64 ? 64 : d <= 128 ? 128 : d <= 256 ? 256 : 0;
}

/*
 * Tiles of the mma kernels: each of four warps has 16 rows of its block's own tile (queries; for dk
 * and dv keys) and walks the other tile, whose rows are few where registers or shared memory are:
 * rows of 16-bit elements, 16 bytes beyond the width.
 */
enum { SN_ATTN_OWN = 64 };

SN_BOTH int sn_attn_mma_other(enum sn_attn_pass pass, int width)
{
    return width <= 64 ? 64 : pass == SN_ATTN_FORWARD && width <= 128 ? 64 : 32;
}

static inline size_t sn_attn_mma_shared(enum sn_attn_pass pass, int width)
{
    size_t row = (size_t)(width + 8) * 2, other = (size_t)sn_attn_mma_other(pass, width);
    switch (pass) {
    case SN_ATTN_FORWARD: /* q; k v */
        return row * (SN_ATTN_OWN + 2 * other);
    case SN_ATTN_DQ: /* q do; k v twice */
        return row * 2 * (SN_ATTN_OWN + 2 * other);
    case SN_ATTN_DKV: /* k v; q do, struct sn_attn_row, twice */
        return row * 2 * (SN_ATTN_OWN + 2 * other) + 2 * other * 8;
    default: /* the same, and ds: a row for each key */
        return sn_attn_mma_shared(SN_ATTN_DKV, width) + SN_ATTN_OWN * (other + 8) * 2;
    }
}

/* Warpgroups: two of 64 rows of the own tile each; the other tiles, whose rows are few where
 * registers are, twice each; no bytes between rows, which are swizzled instead. */
enum { SN_ATTN_WG_OWN = 128, SN_ATTN_WG_THREADS = 256 };

SN_BOTH int sn_attn_wgmma_other(enum sn_attn_pass pass, int width)
{
    return pass == SN_ATTN_DKV && width > 64 ? 64 : 128;
}

static inline size_t sn_attn_wgmma_shared(enum sn_attn_pass pass, int width)
{
    size_t row = (size_t)width * 2, other = (size_t)sn_attn_wgmma_other(pass, width);
    switch (pass) {
    case SN_ATTN_FORWARD: /* q; k v twice */
        return row * (SN_ATTN_WG_OWN + 4 * other);
    case SN_ATTN_DQ: /* q do; k v twice */
        return row * (2 * SN_ATTN_WG_OWN + 4 * other);
    default: /* k v; q do, struct sn_attn_row, twice */
        return row * (2 * SN_ATTN_WG_OWN + 4 * other) + 2 * other * 8;
    }
}

/* Do all passes of a width fit? */
static inline bool sn_attn_mma_fits(int width, size_t most)
{
    return sn_attn_mma_shared(SN_ATTN_FORWARD, width) <= most &&
           sn_attn_mma_shared(SN_ATTN_DQ, width) <= most &&
           sn_attn_mma_shared(SN_ATTN_ONCE, width) <= most;
}

/* The family for storage `t` of heads of width d, all operands of rows that are `aligned` to 16
 * bytes (q, k, v, do; results are written by element). */
static inline enum sn_attn_family sn_attn_family_of(int arch, size_t shared, enum sn_dtype t, int d,
                                                    bool aligned)
{
    int width = sn_attn_mma_width(d);
    if (t == SN_F16 && arch >= 70 && arch < 80)
        return SN_ATTN_WMMA;
    if ((t == SN_F16 || t == SN_BF16) && arch >= 80 && aligned && d % 8 == 0 && width &&
        sn_attn_mma_fits(width, shared))
        return SN_ATTN_MMA;
    return t == SN_F16 && arch >= 70 ? SN_ATTN_WMMA : SN_ATTN_SIMT;
}

/* What the backward reads of a query and head: log2(e) lse, and delta = sum_c do_c o_c. */
struct sn_attn_row {
    float lse, delta;
};

/* Scratch of ATTENTION_DX: such a row for each; in any order dq too, in fp32. */
static inline size_t sn_attention_rows(const struct sn_args *a)
{
    return sn_attn_piece((size_t)(a->in[SN_ATTENTION_DX_Q].rows * a->attr.attention.heads) *
                         sizeof(struct sn_attn_row));
}

static inline size_t sn_attention_dx_scratch(const struct sn_args *a)
{
    size_t dq = (size_t)(a->in[SN_ATTENTION_DX_Q].rows * a->attr.attention.heads *
                         a->attr.attention.head_dim) *
                sizeof(float);
    return sn_attention_rows(a) + (a->attr.any_order ? dq : 0);
}

/*
 * The order of blocks. A block is a tile of one head of one sample, and walks what the head's other
 * tiles walk too: k and v, or for dk and dv q and do. So that these are read from L2 and not from
 * memory, heads are walked in groups for which they take at most half of L2; the other half is for
 * what is read or written once. In a group the first tiles of all its heads come first, those with
 * most work, and short ones fill its end. (So does FlashAttention-3: hopper/tile_scheduler.hpp in
 * github.com/Dao-AILab/flash-attention.)
 */
enum { SN_ATTN_L2 = 4 << 20 }; /* bytes, where they are not known: those of a small device */

/* `head` counts those of all samples, sample after sample. */
struct sn_attn_walk {
    uint32_t tiles, heads;
    uint32_t group; /* heads of a group; the last one may have fewer */
};

struct sn_attn_step {
    uint32_t tile, head;
};

/* Bytes that the tiles of a kv head of one sample, and of the `heads` that share it, walk. */
static inline size_t sn_attn_walked(enum sn_attn_pass pass, int64_t rows, struct sn_attn_heads w,
                                    int heads, size_t element)
{
    size_t row = (size_t)(w.d + w.e) * element, sums = (size_t)w.d * sizeof(float);
    if (pass == SN_ATTN_DKV || pass == SN_ATTN_ONCE)
        row = (size_t)heads * (row + sizeof(struct sn_attn_row));
    if (pass == SN_ATTN_ONCE) /* dq's sums are added to in L2 */
        row += (size_t)heads * sums;
    return (size_t)rows * row;
}

/* `kv_heads` of all samples; `each`: heads of the walk that share one of them. Groups are as equal
 * as whole kv heads allow. */
static inline struct sn_attn_walk sn_attn_walk_of(size_t l2, size_t walked, int64_t tiles,
                                                  int64_t kv_heads, int each)
{
    size_t half = (l2 ? l2 : (size_t)SN_ATTN_L2) / 2;
    int64_t fit = walked && half / walked > 1 ? (int64_t)(half / walked) : 1;
    int64_t some = kv_heads > 0 ? kv_heads : 1, groups = sn_ceil_div(some, fit);
    struct sn_attn_walk w = {(uint32_t)tiles, (uint32_t)(kv_heads * each),
                             (uint32_t)(sn_ceil_div(some, groups) * each)};
    return w;
}

/* Where block n of tiles x heads is. */
SN_BOTH struct sn_attn_step sn_attn_step_of(struct sn_attn_walk w, uint32_t n)
{
    uint32_t blocks = w.group * w.tiles, first = n / blocks * w.group, rest = n % blocks;
    uint32_t heads = w.heads - first < w.group ? w.heads - first : w.group;
    struct sn_attn_step s = {rest / heads, first + rest % heads};
    return s;
}

#endif
