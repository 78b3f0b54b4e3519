/*
 * attention.cuh - what the kernels of ATTENTION and ATTENTION_DX share: where rows lie, what the
 * mask hides, dropout.
 *
 * Rows of a sample on one context rank are one or two runs of consecutive positions, increasing
 * (kernels/position.h): a key is hidden when its position is beyond the last that the query sees
 * (kernels/mask.h), so of tiles in order the first one that is wholly hidden ends the walk.
 */
#ifndef SN_CUDA_ATTENTION_CUH
#define SN_CUDA_ATTENTION_CUH

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device.cuh"
#include "kernels/dropout.h"
#include "kernels/mask.h"
#include "kernels/position.h"

#define SN_LOG2E 1.4426950408889634f
#define SN_LN2   0.6931471805599453f

/* Position of row i of a sample: i + (i < split ? low : high). */
struct sn_key_span {
    int split, low, high;
};

static inline struct sn_key_span sn_span_of(const struct sn_attr *a, int rank)
{
    struct sn_key_span s = {0, 0, 0};
    int64_t rows = sn_rows_per_sample(&a->position), half = rows / 2;
    if (a->position.context <= 1)
        return s;
    s.split = (int)(a->position.zigzag ? half : rows);
    s.low = (int)sn_position(&a->position, rank, 0);
    s.high = a->position.zigzag ? (int)(sn_position(&a->position, rank, half) - half) : 0;
    return s;
}

static __device__ __forceinline__ int sn_at(const struct sn_key_span &s, int i)
{
    return i + (i < s.split ? s.low : s.high);
}

/*
 * What the inner loops of the mma and warpgroup kernels have to ask about a pair of query and key;
 * a template parameter of theirs, so that the usual case asks nothing and has a loop of its own.
 */
enum sn_attn_kind {
    SN_ATTN_PLAIN,  /* a row's position is its index (one context rank), no dropout, SN_WRITE */
    SN_ATTN_PLACED, /* positions are those of spans, no dropout */
    SN_ATTN_DROPPED /* positions are those of spans, dropout */
};

static inline enum sn_attn_kind sn_attn_kind_of(const struct sn_args *a)
{
    if (a->attr.random.drop > 0.0f)
        return SN_ATTN_DROPPED;
    return a->attr.position.context <= 1 && a->acc[SN_ATTENTION_O] == SN_WRITE ? SN_ATTN_PLAIN
                                                                               : SN_ATTN_PLACED;
}

template <enum sn_attn_kind K>
static __device__ __forceinline__ int sn_place(const struct sn_key_span &s, int i)
{
    return K == SN_ATTN_PLAIN ? i : sn_at(s, i);
}

/* One ATTENTION or ATTENTION_DX, in numbers that a kernel reads. */
struct sn_attn {
    int rows; /* of a sample here, queries and keys alike */
    int heads, kv_heads, group, d;
    int e; /* columns of a head of v and o */
    struct sn_attn_walk walk;
    int64_t all; /* rows of all samples */
    struct sn_key_span query, key;
    float scale, drop, cap;
    struct sn_mask mask;
};

/* The operand that says where documents begin; it may be absent. */
static inline const struct sn_mat *sn_attn_starts(const struct sn_args *a, bool is_backward)
{
    return is_backward ? &a->in[SN_ATTENTION_DX_STARTS] : &a->in[SN_ATTENTION_STARTS];
}

/* Is there more to ask of a pair than whether the key is beyond the query, or of a score? */
static inline bool sn_attn_is_masked(const struct sn_args *a, bool is_backward)
{
    return a->attr.attention.window > 0 || a->attr.attention.cap > 0.0f ||
           sn_attn_starts(a, is_backward)->rows > 0;
}

/* For a pass whose blocks have tiles of so many rows. */
static inline struct sn_attn sn_attn_of(const struct sn_cuda *cx, const struct sn_args *a,
                                        enum sn_attn_pass pass, int tile)
{
    bool queries = pass == SN_ATTN_FORWARD || pass == SN_ATTN_DQ;
    struct sn_attn t;
    t.rows = (int)sn_rows_per_sample(&a->attr.position);
    t.heads = a->attr.attention.heads;
    t.kv_heads = a->attr.attention.kv_heads;
    t.group = t.heads / t.kv_heads;
    struct sn_attn_heads w = sn_attn_heads_of(a);
    t.d = w.d;
    t.e = w.e;
    t.all = a->in[SN_ATTENTION_Q].rows;
    int64_t samples = t.rows ? t.all / t.rows : 0;
    size_t walked =
        sn_attn_walked(pass, t.rows, w, t.group, sn_dtype_size(a->in[SN_ATTENTION_Q].dtype));
    t.walk = sn_attn_walk_of(cx->device.l2_bytes, walked, sn_ceil_div(t.rows, tile),
                             samples * t.kv_heads, queries ? t.group : 1);
    t.query = sn_span_of(&a->attr, a->attr.position.context_rank);
    t.key = sn_span_of(&a->attr, a->attr.position.key_rank);
    t.scale = a->attr.attention.scale;
    t.drop = a->attr.random.drop;
    t.cap = a->attr.attention.cap;
    t.mask = sn_mask_of(&a->attr, sn_attn_starts(a, pass != SN_ATTN_FORWARD));
    return t;
}

/* `heads` of a sample: kv heads for dk and dv. The tiles with most work are the last ones of
 * queries, which see most keys, and the first ones of keys. */
struct sn_attn_block {
    int tile, head;
    int64_t sample;
};

/* Computed anew at each call: what is read at a kernel's begin and end needs no
 * registers between. */
static __device__ __forceinline__ struct sn_attn_block sn_attn_block_of(const struct sn_attn &t,
                                                                        int heads, bool last_first)
{
    struct sn_attn_block b;
    unsigned block = blockIdx.x;
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(block));
#endif
    struct sn_attn_step s = sn_attn_step_of(t.walk, block);
    b.head = (int)(s.head % (unsigned)heads);
    int sample = (int)(s.head / (unsigned)heads);
    b.tile = (int)(last_first ? t.walk.tiles - 1 - s.tile : s.tile);
#ifdef __CUDA_ARCH__ /* the divisions are over: nothing of them stays in a register */
    asm volatile("" : "+r"(b.head), "+r"(b.tile), "+r"(sample));
#endif
    b.sample = sample;
    return b;
}

static inline struct sn_shape sn_attn_shape(const struct sn_attn *t, size_t shared)
{
    struct sn_shape g = {t->walk.tiles * t->walk.heads, 1, 1, SN_ATTN_THREADS, 1, shared};
    return g;
}

/* The mask of dropout (dropout.h), for element after element of one head. */
struct sn_attn_mask {
    uint64_t key;
    int64_t sample, group;
    uint32_t site;
    float drop, scale;
    int64_t head, seq; /* in the whole model; of the whole sample */
    struct sn_philox words;
};

static __device__ __forceinline__ struct sn_attn_mask sn_attn_mask_of(const struct sn_args &a,
                                                                      int64_t sample, int head)
{
    struct sn_attn_mask m;
    m.drop = a.attr.random.drop;
    if (m.drop > 0.0f) {
        m.key = sn_dropout_key(a.scalars->seed, a.scalars->step);
        m.sample = a.scalars->first_sample + sample;
        m.group = -1;
        m.site = a.attr.random.site;
        m.scale = 1.0f / (1.0f - m.drop);
        m.head = a.attr.attention.head0 + head;
        m.seq = a.attr.position.seq;
    }
    return m;
}

/* The same for kernels of one kind: nothing is read where nothing is dropped. */
template <enum sn_attn_kind K>
static __device__ __forceinline__ struct sn_attn_mask sn_attn_mask_of(const struct sn_args &a,
                                                                      int64_t sample, int head)
{
    struct sn_attn_mask none = {};
    if constexpr (K == SN_ATTN_DROPPED)
        return sn_attn_mask_of(a, sample, head);
    return none;
}

/* What a probability is multiplied with. */
static __device__ __forceinline__ float sn_attn_factor(struct sn_attn_mask &m, int query, int key)
{
    int64_t e = (m.head * m.seq + query) * m.seq + key;
    if (e / 4 != m.group) {
        m.group = e / 4;
        m.words = sn_dropout_words(m.key, m.site, m.sample, m.group);
    }
    int i = (int)(e % 4);
    uint32_t word = i == 0   ? m.words.v[0]
                    : i == 1 ? m.words.v[1]
                    : i == 2 ? m.words.v[2]
                             : m.words.v[3];
    return sn_dropout_factor(word, m.drop, m.scale);
}

/* y[row, c] becomes, or grows by, x. */
static __device__ __forceinline__ void sn_attn_put(const struct sn_mat &m, enum sn_acc acc,
                                                   int64_t row, int64_t c, float x)
{
    float y[1] = {x};
    if (acc == SN_ADD)
        y[0] += sn_element(m, row, c);
    sn_any::store(m, row, c, y);
}

/*
 * The families; each launches all that it needs. `known` has a struct sn_attn_row for each head and
 * row, head after head. With `dq`, sums [row, head, column] in memory that begin at zero, dq
 * without its scale is added there by atomics and scores are computed once (any order); without, dq
 * is written as dk and dv are.
 */
int sn_attn_tile_forward(struct sn_cuda *cx, const struct sn_args *a, enum sn_attn_family f);
int sn_attn_tile_backward(struct sn_cuda *cx, const struct sn_args *a, enum sn_attn_family f,
                          const struct sn_attn_row *known, float *dq);
int sn_attn_mma_forward(struct sn_cuda *cx, const struct sn_args *a);
bool sn_attn_wgmma_is_there(const struct sn_cuda *cx, const struct sn_args *a);
int sn_attn_wgmma_forward(struct sn_cuda *cx, const struct sn_args *a);
int sn_attn_mma_dq(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known);
/* dk and dv; once: dq too. One function for each type, in a file of its own. */
typedef int sn_attn_keys(struct sn_cuda *cx, const struct sn_args *a,
                         const struct sn_attn_row *known, float *dq);
sn_attn_keys sn_attn_mma_dkv_bf16, sn_attn_mma_dkv_f16, sn_attn_mma_once_bf16, sn_attn_mma_once_f16;
/* A pass of the backward on warpgroup products. *taken: whether it was for it; if not, mma's is. */
typedef int sn_attn_wgmma(struct sn_cuda *cx, const struct sn_args *a,
                          const struct sn_attn_row *known, bool *taken);
sn_attn_wgmma sn_attn_wgmma_dq, sn_attn_wgmma_dkv_bf16, sn_attn_wgmma_dkv_f16;

#endif
