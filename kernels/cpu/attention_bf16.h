/*
 * attention_bf16.h - attention's products on bf16 as it is stored: where q, k, v (and do) are bf16
 * and the instruction set multiplies it (bf16.h). Sums, softmax and gradients' sums are fp32.
 *
 * Rounded to bf16, beside the operands, which are: the probabilities p (after dropout) before
 * p v and p^T do, and ds before ds k and ds^T q, as flash attention does on GPUs. The row sums l
 * are of p unrounded. With u = 2^-9 that adds at most u sum_j p_j |v_j| to an element of o, and
 * u times the like sum of |p do|, scale |ds k|, scale |ds q| to one of dv, dq, dk; the tests allow
 * 4 u forward and 8 u backward for values of size 1 (tests/lib/kernel_slack.h). Scores are
 * scaled in fp32, after the product.
 *
 * On paper, for heads of d columns of q and k and e of v, with D = d rounded up to whole steps of the
 * depth and W = d rounded up to whole strips of columns, E and V of e likewise:
 *
 *   forward   packed: k and v once a kv head of a sample, by all threads together, 2 (D + V) bytes
 *             a key, which is all that scratch grows by with the rows; q once, 2 D.
 *             Multiplied: 2 (d + e) FLOP for each pair seen
 *   backward  packed: k twice and v once a kv head, 2 (D + W + E) bytes a key; q and do twice each
 *             and p and ds once a pair, 2 (D + W + E + V) bytes a query.
 *             Multiplied: 6 d + 4 e FLOP for each pair.
 *             Scratch of a thread: what it packs of a kv head, and dk and dv of it in fp32,
 *             4 (W + V + two vectors) bytes a key; of queries one block
 *
 * Scratch is that of the set at hand, exactly (attention.c, attention_dx_bf16.c: layout).
 *
 * Blocks are whole strips and whole steps of the set's tile, those of keys whole blocks of queries:
 * so a block's diagonal begins at one of its corners, as attention.h wants it.
 */
#ifndef SN_ATTENTION_BF16_H
#define SN_ATTENTION_BF16_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/bf16.h"

/* Heads of size d in blocks, for a set's products. */
struct sn_attn_bf16 {
    const struct sn_bf16_products *set; /* NULL: multiply in fp32 */
    int64_t deep, wide;                 /* d to whole steps; to whole strips of columns */
    int64_t deep_v, wide_v;             /* of v, o and do */
    int64_t queries, keys;              /* of a block */
};

static inline struct sn_attn_bf16 sn_attn_bf16_of(const struct sn_args *a, int bf16_inputs)
{
    struct sn_attn_bf16 f = {.set = SN_K(sn_bf16)};
    int64_t d = a->attr.attention.head_dim, e = sn_v_dim(&a->attr.attention);
    for (int i = 0; i < SN_MAX_IN; i++)
        if (bf16_inputs >> i & 1 && a->in[i].dtype != SN_BF16)
            f.set = NULL;
    if (!f.set)
        return f;
    f.deep = sn_bf16_depth(f.set, d);
    f.wide = sn_round_up(d, f.set->cols);
    f.deep_v = sn_bf16_depth(f.set, e);
    f.wide_v = sn_round_up(e, f.set->cols);
    f.queries = f.set->rows;
    while (f.queries < 48 || f.queries % f.set->step || f.queries % SN_STEP)
        f.queries += f.set->rows;
    f.keys = f.set->cols;
    while (f.keys < SN_BK || f.keys % f.queries)
        f.keys += f.set->cols;
    return f;
}

/* Rows of a head for one side of a product. On the left they are its rows, on the right its
 * columns; across: the head's columns are, and its rows the depth. Zeros fill whole strips and
 * whole steps. `line`: SN_BF16_LINES x deep elements. */
struct sn_attn_operand {
    const struct sn_head *head;
    bool right, across;
};

static inline void sn_attn_pack(const struct sn_attn_bf16 *f, const struct sn_attn_operand *x,
                                uint16_t *line, uint16_t *out)
{
    const struct sn_head *h = x->head;
    const struct sn_bf16_products *set = f->set;
    int64_t depth = x->across ? h->rows : h->d, whole = sn_bf16_depth(set, depth);
    int64_t left = set->reads_rows && !x->across ? whole : set->a_group;
    struct sn_bf16_block b = {.x = h->x,
                              .across = x->across,
                              .line = x->across ? h->first_col : h->first_row,
                              .lines = x->across ? h->d : h->rows,
                              .l = x->across ? h->first_row : h->first_col,
                              .depth = depth,
                              .whole = whole,
                              .width = x->right ? set->cols : set->rows,
                              .group = x->right ? set->b_group : left};
    SN_K(sn_bf16_pack)(&b, line, out);
}

/* The left of a product in memory: distances of rows, of groups of the depth, of strips. */
struct sn_attn_left {
    const uint16_t *p;
    int64_t row, step, strip;
};

static inline struct sn_attn_left sn_attn_rows(const struct sn_attn_bf16 *f, const uint16_t *p,
                                               int64_t stride)
{
    return (struct sn_attn_left){p, stride, f->set->a_group, f->set->rows * stride};
}

static inline struct sn_attn_left sn_attn_strips(const struct sn_attn_bf16 *f, const uint16_t *p,
                                                 int64_t whole)
{
    int64_t group = f->set->a_group;
    return (struct sn_attn_left){p, group, group * f->set->rows, f->set->rows * whole};
}

/* What sn_attn_pack() made of rows that are not across. */
static inline struct sn_attn_left sn_attn_packed(const struct sn_attn_bf16 *f, const uint16_t *p,
                                                 int64_t whole)
{
    return f->set->reads_rows ? sn_attn_rows(f, p, whole) : sn_attn_strips(f, p, whole);
}

/* C[rows, cols] (+)= A B, as struct sn_product; whole tiles of C may be written. */
struct sn_product_bf16 {
    int64_t rows, cols, depth;
    struct sn_attn_left a;
    const uint16_t *b; /* packed to whole steps of `depth` */
    float *c;
    int64_t c_row;
    bool add;
    enum sn_visible visible;
    int64_t diag;
};
void SN_K(sn_product_bf16)(const struct sn_attn_bf16 *f, const struct sn_product_bf16 *p);

/* A row of p or ds, zero from `visible` to a whole SN_STEP, to bf16;
 * zeros from there to `whole`. */
static inline void sn_attn_round(const float *row, int64_t visible, int64_t whole, uint16_t *out)
{
    int64_t n = sn_round_up(visible, SN_STEP);
    sn_row_store(out, SN_BF16, row, n);
    if (whole > n)
        memset(out + n, 0, (size_t)(whole - n) * sizeof(*out));
}

/* Rows [n, a whole strip) of a block of such rows: tiles read them. */
static inline void sn_attn_zero_rows(const struct sn_attn_bf16 *f, int64_t n, uint16_t *block)
{
    int64_t rows = sn_round_up(n, f->set->rows) - n;
    memset(block + n * f->keys, 0, (size_t)(rows * f->keys) * sizeof(*block));
}

/* As sn_take(), of bf16. */
static inline uint16_t *sn_take_bf16(float *base, int64_t *used, int64_t n)
{
    return (uint16_t *)(void *)sn_take(base, used, (n + 1) / 2);
}

/* Row stride of fp32 sums of so many columns: whole tiles, off the powers of two. */
static inline int64_t sn_attn_stride(int64_t wide)
{
    return wide + SN_VL;
}

/* ATTENTION_DX where sn_attn_bf16_of() has a set. */
SN_KERNEL(sn_attention_dx_bf16);
size_t SN_K(sn_attention_dx_bf16_scratch)(const struct sn_args *a, int threads);

enum { SN_FORWARD_BF16 = 1 | 2 | 4, SN_BACKWARD_BF16 = 1 | 2 | 4 | 16 }; /* inputs, as bits */

#endif
