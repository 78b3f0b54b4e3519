/*
 * attention_tile.cu - attention on tiles in shared memory: the plain form, for every storage type,
 * and with the warp matrix functions for fp16, and from sm_80 on for bf16.
 *
 * Formulas and meaning of SN_ADD as in kernels/cpu/attention.c and attention_dx.c. A block has a
 * tile of queries (forward, dq) or of keys (dk and dv) of one head and walks the tiles of the other
 * that see or are seen, in order; nothing is added by two blocks, so all is deterministic. dk and
 * dv of a kv head are one block's, over its query heads. The backward computes the probabilities
 * twice: seven products instead of five, and no sum across blocks.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/tile.cuh"

/* The next piece of a block's shared memory, in the order that attention.h names. */
template <class V> static __device__ __forceinline__ V *take(unsigned char **at, int n)
{
    V *p = (V *)*at;
    *at += sn_attn_piece((size_t)n * sizeof(V));
    return p;
}

/* rows x d elements of head `head` of x from a row on, to a tile of `tile` rows; zeros beyond. */
template <class E>
static __device__ void load(E *to, int d, const struct sn_mat &x, int64_t row, int rows, int head,
                            int tile)
{
    int width = sn_attn_width(d), ld = sn_attn_ld(d, (int)sizeof(E));
    int64_t col = (int64_t)head * d;
    for (int i = (int)threadIdx.x; i < tile * width; i += (int)blockDim.x) {
        int r = i / width, c = i % width;
        bool there = r < rows && c < d;
        sn_narrow(to + r * ld + c, there ? sn_element(x, row + r, col + c) : 0.0f);
    }
}

static __device__ void clear(float *p, int n)
{
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        p[i] = 0.0f;
}

/* --- forward --------------------------------------------------------------------------------- */

template <class E> struct forward_room {
    E *q, *k, *v;
    float *s;
    E *p; /* may be s */
    int ldp;
    float *o, *m, *l;
};

template <class Engine>
static __device__ struct forward_room<typename Engine::element>
forward_take(unsigned char *at, const struct sn_attn &t, int tile) {
    typedef typename Engine::element E;
    struct forward_room<E> w;
    int operand = tile * sn_attn_ld(t.d, (int)sizeof(E));
    w.q = take<E>(&at, operand);
    w.k = take<E>(&at, operand);
    w.v = take<E>(&at, tile *sn_attn_ld(t.e, (int)sizeof(E)));
    w.s = take<float>(&at, tile *(tile + 4));
    w.ldp = Engine::TENSOR ? tile + 8 : tile + 4;
    w.p = Engine::TENSOR ? take<E>(&at, tile *w.ldp) : (E *)w.s;
    w.o = take<float>(&at, tile *(sn_attn_width(t.e) + 4));
    w.m = take<float>(&at, tile);
    w.l = take<float>(&at, tile);
    return w;
}

/* q, and what earlier keys gave: o and m = lse with l = 1, or nothing with l = 0. */
template <class E>
static __device__ void forward_start(const struct sn_args &a, const struct sn_attn &t,
                                     const struct forward_room<E> &w, int64_t row, int rows,
                                     int head, int tile)
{
    int width = sn_attn_width(t.e), ldo = width + 4;
    bool add = a.acc[SN_ATTENTION_O] == SN_ADD;
    load(w.q, t.d, a.in[SN_ATTENTION_Q], row, rows, head, tile);
    for (int i = (int)threadIdx.x; i < tile * width; i += (int)blockDim.x) {
        int r = i / width, c = i % width;
        bool there = add && r < rows && c < t.e;
        w.o[r * ldo + c] =
            there ? sn_element(a.out[SN_ATTENTION_O], row + r, (int64_t)head * t.e + c) : 0.0f;
    }
    for (int r = (int)threadIdx.x; r < tile; r += (int)blockDim.x) {
        const float *lse = (const float *)a.out[SN_ATTENTION_LSE].p +
                           (row + r) * a.out[SN_ATTENTION_LSE].ld + head;
        float m = add && r < rows ? *lse : -INFINITY;
        w.m[r] = m;
        w.l[r] = m == -INFINITY ? 0.0f : 1.0f;
    }
}

/* A query, by its position and those of the first key that it sees and the last; none of a row beyond
 * the last. */
struct asking {
    int query, first, last;
};

/* Position of the last key that row i of a sample sees, and so of the rows before it. */
static __device__ int last_of(const struct sn_attn &t, int64_t sample, int i)
{
    return (int)sn_mask_last(&t.mask, sample, sn_at(t.query, i));
}

static __device__ struct asking asking_of(const struct sn_attn &t, int64_t sample, int i,
                                          bool there)
{
    struct asking a = {-1, 0, -1};
    if (there) {
        a.query = sn_at(t.query, i);
        a.first = (int)sn_mask_first(&t.mask, sample, a.query);
        a.last = last_of(t, sample, i);
    }
    return a;
}

static __device__ bool sees(const struct asking &a, int key)
{
    return key <= a.last && key >= a.first;
}

/* Are all keys of a tile before those that the queries from row i on see? */
static __device__ bool are_past(const struct sn_attn &t, int64_t sample, int i, int last_key)
{
    return sn_at(t.key, last_key) < sn_mask_first(&t.mask, sample, sn_at(t.query, i));
}

static __device__ float capped(const struct sn_attn &t, float score)
{
    return t.cap > 0.0f ? t.cap * tanhf(score / t.cap) : score;
}

/* One row of scores to probabilities by one warp; m, l and o follow. */
template <class E>
static __device__ void soften(const struct sn_attn &t, const struct forward_room<E> &w,
                              struct sn_attn_mask &mask, int r, const struct asking &ask, int j0,
                              int keys, int tile)
{
    int lane = (int)threadIdx.x % SN_WARP, width = sn_attn_width(t.e);
    float x[2], old = w.m[r], l = w.l[r], top = old, sum = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int j = lane + i * SN_WARP;
        bool there = j < keys && sees(ask, sn_at(t.key, j0 + j));
        x[i] = there ? capped(t, w.s[r * (tile + 4) + j] * t.scale) : -INFINITY;
        top = sn_max(top, x[i]);
    }
    top = sn_warp_max(top);
    float base = top == -INFINITY ? 0.0f : top, shrink = expf(old - base);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int j = lane + i * SN_WARP;
        float p = expf(x[i] - base);
        sum += p;
        if (mask.drop > 0.0f && p != 0.0f)
            p *= sn_attn_factor(mask, ask.query, sn_at(t.key, j0 + j));
        if (j < tile)
            sn_narrow(w.p + r * w.ldp + j, p);
    }
    sum = sn_warp_sum(sum);
    if (top != old)
        for (int c = lane; c < width; c += SN_WARP)
            w.o[r * (width + 4) + c] *= shrink;
    if (lane == 0) {
        w.m[r] = top;
        w.l[r] = l * shrink + sum;
    }
}

template <class E>
static __device__ void forward_finish(const struct sn_args &a, const struct sn_attn &t,
                                      const struct forward_room<E> &w, int64_t sample, int i0,
                                      int rows, int head)
{
    int ldo = sn_attn_width(t.e) + 4;
    int64_t row = sample * t.rows + i0;
    for (int i = (int)threadIdx.x; i < rows * t.e; i += (int)blockDim.x) {
        int r = i / t.e, c = i % t.e;
        bool blind = sn_at(t.key, 0) > last_of(t, sample, i0 + r);
        if (blind && a.acc[SN_ATTENTION_O] == SN_ADD)
            continue;
        float l = w.l[r], y[1] = {w.o[r * ldo + c] * (l == 0.0f ? 0.0f : 1.0f / l)};
        sn_any::store(a.out[SN_ATTENTION_O], row + r, (int64_t)head * t.e + c, y);
        if (c == 0)
            ((float *)a.out[SN_ATTENTION_LSE].p)[(row + r) * a.out[SN_ATTENTION_LSE].ld + head] =
                l == 0.0f ? -INFINITY : w.m[r] + logf(l);
    }
}

template <class Engine>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    forward(const struct sn_args a, const struct sn_attn t, int tile)
{
    typedef typename Engine::element E;
    SN_DYNAMIC_SHARED(shared);
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct forward_room<E> w = forward_take<Engine>(shared, t, tile);
    struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, b.head);
    int i0 = b.tile * tile, rows = t.rows - i0 < tile ? t.rows - i0 : tile;
    int width = sn_attn_width(t.e), ld = sn_attn_ld(t.d, (int)sizeof(E));
    int kv_head = b.head / t.group;
    int64_t first = b.sample * t.rows;
    forward_start(a, t, w, first + i0, rows, b.head, tile);
    int last = last_of(t, b.sample, i0 + rows - 1);
    for (int j0 = 0; j0 < t.rows && sn_at(t.key, j0) <= last; j0 += tile) {
        int keys = t.rows - j0 < tile ? t.rows - j0 : tile;
        if (are_past(t, b.sample, i0, j0 + keys - 1))
            continue;
        __syncthreads();
        load(w.k, t.d, a.in[SN_ATTENTION_K], first + j0, keys, kv_head, tile);
        load(w.v, t.e, a.in[SN_ATTENTION_V], first + j0, keys, kv_head, tile);
        __syncthreads();
        sn_operand<E> q = {w.q, ld, false}, k = {w.k, ld, true};
        sn_operand<E> v = {w.v, sn_attn_ld(t.e, (int)sizeof(E)), false};
        Engine::product(w.s, tile + 4, tile, tile, sn_attn_width(t.d), q, k, false);
        __syncthreads();
        for (int r = (int)threadIdx.x / SN_WARP; r < tile; r += SN_ATTN_THREADS / SN_WARP)
            soften(t, w, mask, r, asking_of(t, b.sample, i0 + r, r < rows), j0, keys, tile);
        __syncthreads();
        sn_operand<E> p = {w.p, w.ldp, false};
        Engine::product(w.o, width + 4, tile, width, tile, p, v, true);
    }
    __syncthreads();
    forward_finish(a, t, w, b.sample, i0, rows, b.head);
}

/* --- backward -------------------------------------------------------------------------------- */

template <class E> struct backward_room {
    E *q, *k, *v, *g; /* g is do */
    float *s, *dp;
    E *p, *ds; /* may be s and dp; dq needs no p of its own */
    int ldp;
    float *sum[2]; /* dq; or dk and dv */
    float *lse, *delta;
};

template <class Engine>
static __device__ struct backward_room<typename Engine::element>
backward_take(unsigned char *at, const struct sn_attn &t, int tile, bool keys) {
    typedef typename Engine::element E;
    struct backward_room<E> w;
    int of_q = tile * sn_attn_ld(t.d, (int)sizeof(E));
    int of_v = tile * sn_attn_ld(t.e, (int)sizeof(E));
    w.q = take<E>(&at, of_q);
    w.k = take<E>(&at, of_q);
    w.v = take<E>(&at, of_v);
    w.g = take<E>(&at, of_v);
    w.s = take<float>(&at, tile *(tile + 4));
    w.dp = take<float>(&at, tile *(tile + 4));
    w.ldp = Engine::TENSOR ? tile + 8 : tile + 4;
    w.ds = Engine::TENSOR ? take<E>(&at, tile *w.ldp) : (E *)w.dp;
    w.p = !Engine::TENSOR ? (E *)w.s : keys ? take<E>(&at, tile *w.ldp) : NULL;
    w.sum[0] = take<float>(&at, tile *(sn_attn_width(t.d) + 4));
    w.sum[1] = keys ? take<float>(&at, tile *(sn_attn_width(t.e) + 4)) : NULL;
    w.lse = take<float>(&at, tile);
    w.delta = take<float>(&at, tile);
    return w;
}

/* Queries of a tile: q, do, lse and delta. */
template <class E>
static __device__ void
load_queries(const struct sn_args &a, const struct sn_attn &t, const struct backward_room<E> &w,
             const struct sn_attn_row *known, int64_t row, int rows, int head, int tile)
{
    load(w.q, t.d, a.in[SN_ATTENTION_DX_Q], row, rows, head, tile);
    load(w.g, t.e, a.in[SN_ATTENTION_DX_DO], row, rows, head, tile);
    for (int r = (int)threadIdx.x; r < tile; r += (int)blockDim.x) {
        w.lse[r] = r < rows ? ((const float *)a.in[SN_ATTENTION_DX_LSE]
                                   .p)[(row + r) * a.in[SN_ATTENTION_DX_LSE].ld + head]
                            : 0.0f;
        w.delta[r] = r < rows ? known[head * t.all + row + r].delta : 0.0f;
    }
}

/* s and dp of a tile to ds, and p if there is room for it. */
template <class E>
static __device__ void gradients(const struct sn_attn &t, const struct backward_room<E> &w,
                                 struct sn_attn_mask &mask, int64_t sample, int i0, int rows,
                                 int j0, int keys, int tile)
{
    for (int i = (int)threadIdx.x; i < tile * tile; i += (int)blockDim.x) {
        int r = i / tile, j = i % tile, at = r * (tile + 4) + j;
        struct asking ask = asking_of(t, sample, i0 + r, r < rows);
        float p = 0, ds = 0;
        if (j < keys && sees(ask, sn_at(t.key, j0 + j))) {
            float dp = w.dp[at], score = capped(t, w.s[at] * t.scale);
            float prob = expf(score - w.lse[r]), factor = 1.0f;
            float slope = t.cap > 0.0f ? 1.0f - score / t.cap * (score / t.cap) : 1.0f;
            if (mask.drop > 0.0f)
                factor = sn_attn_factor(mask, ask.query, sn_at(t.key, j0 + j));
            p = prob * factor;
            ds = prob * (factor * dp - w.delta[r]) * slope;
        }
        sn_narrow(w.ds + r * w.ldp + j, ds);
        if (w.p)
            sn_narrow(w.p + r * w.ldp + j, p);
    }
}

/* Scores and do.v of the tiles that are loaded, then ds and p; begins and ends with a barrier. */
template <class Engine>
static __device__ void
scores(const struct sn_attn &t, const struct backward_room<typename Engine::element> &w,
       struct sn_attn_mask &mask, int64_t sample, int i0, int rows, int j0, int keys, int tile)
{
    typedef typename Engine::element E;
    int ld = sn_attn_ld(t.d, (int)sizeof(E)), ldv = sn_attn_ld(t.e, (int)sizeof(E));
    sn_operand<E> q = {w.q, ld, false}, g = {w.g, ldv, false};
    sn_operand<E> k = {w.k, ld, true}, v = {w.v, ldv, true};
    __syncthreads();
    Engine::product(w.s, tile + 4, tile, tile, sn_attn_width(t.d), q, k, false);
    Engine::product(w.dp, tile + 4, tile, tile, sn_attn_width(t.e), g, v, false);
    __syncthreads();
    gradients(t, w, mask, sample, i0, rows, j0, keys, tile);
    __syncthreads();
}

template <class Engine>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    backward_q(const struct sn_args a, const struct sn_attn t, const struct sn_attn_row *known,
               int tile)
{
    typedef typename Engine::element E;
    SN_DYNAMIC_SHARED(shared);
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct backward_room<E> w = backward_take<Engine>(shared, t, tile, false);
    struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, b.head);
    int i0 = b.tile * tile, rows = t.rows - i0 < tile ? t.rows - i0 : tile;
    int width = sn_attn_width(t.d), ld = sn_attn_ld(t.d, (int)sizeof(E));
    int kv_head = b.head / t.group;
    int64_t first = b.sample * t.rows;
    load_queries(a, t, w, known, first + i0, rows, b.head, tile);
    clear(w.sum[0], tile * (width + 4));
    int last = last_of(t, b.sample, i0 + rows - 1);
    for (int j0 = 0; j0 < t.rows && sn_at(t.key, j0) <= last; j0 += tile) {
        int keys = t.rows - j0 < tile ? t.rows - j0 : tile;
        if (are_past(t, b.sample, i0, j0 + keys - 1))
            continue;
        __syncthreads();
        load(w.k, t.d, a.in[SN_ATTENTION_DX_K], first + j0, keys, kv_head, tile);
        load(w.v, t.e, a.in[SN_ATTENTION_DX_V], first + j0, keys, kv_head, tile);
        scores<Engine>(t, w, mask, b.sample, i0, rows, j0, keys, tile);
        sn_operand<E> ds = {w.ds, w.ldp, false}, k = {w.k, ld, false};
        Engine::product(w.sum[0], width + 4, tile, width, tile, ds, k, true);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < rows * t.d; i += (int)blockDim.x) {
        int r = i / t.d, c = i % t.d;
        if (a.acc[SN_ATTENTION_DX_DQ] == SN_ADD && sn_at(t.key, 0) > last_of(t, b.sample, i0 + r))
            continue;
        sn_attn_put(a.out[SN_ATTENTION_DX_DQ], a.acc[SN_ATTENTION_DX_DQ], first + i0 + r,
                    (int64_t)b.head * t.d + c, w.sum[0][r * (width + 4) + c] * t.scale);
    }
}

/* dq[first + query, head] += ds k, in any order. `room` is that of the scores, which are no more
 * needed: columns of k come by in as many parts as that takes. */
template <class Engine>
static __device__ void add_queries(const struct sn_attn &t,
                                   const struct backward_room<typename Engine::element> &w,
                                   float *dq, int64_t first, int rows, int head, int tile)
{
    typedef typename Engine::element E;
    int width = sn_attn_width(t.d), ld = sn_attn_ld(t.d, (int)sizeof(E));
    for (int c0 = 0; c0 < width; c0 += tile) {
        int cols = width - c0 < tile ? width - c0 : tile;
        sn_operand<E> ds = {w.ds, w.ldp, false}, k = {w.k + c0, ld, false};
        __syncthreads();
        Engine::product(w.s, tile + 4, tile, cols, tile, ds, k, false);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < rows * cols; i += (int)blockDim.x) {
            int r = i / cols, c = i % cols;
            if (c0 + c < t.d)
                (void)atomicAdd(dq + ((first + r) * t.heads + head) * t.d + c0 + c,
                                w.s[r * (tile + 4) + c]);
        }
    }
}

/* ONCE: dq too. */
template <class Engine, bool ONCE>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    backward_kv(const struct sn_args a, const struct sn_attn t, const struct sn_attn_row *known,
                int tile, float *dq)
{
    typedef typename Engine::element E;
    SN_DYNAMIC_SHARED(shared);
    struct sn_attn_block b = sn_attn_block_of(t, t.kv_heads, false);
    struct backward_room<E> w = backward_take<Engine>(shared, t, tile, true);
    int j0 = b.tile * tile, keys = t.rows - j0 < tile ? t.rows - j0 : tile;
    int width = sn_attn_width(t.d), ld = sn_attn_ld(t.d, (int)sizeof(E));
    int width_v = sn_attn_width(t.e), ldv = sn_attn_ld(t.e, (int)sizeof(E));
    int64_t first = b.sample * t.rows;
    load(w.k, t.d, a.in[SN_ATTENTION_DX_K], first + j0, keys, b.head, tile);
    load(w.v, t.e, a.in[SN_ATTENTION_DX_V], first + j0, keys, b.head, tile);
    clear(w.sum[0], tile * (width + 4));
    clear(w.sum[1], tile * (width_v + 4));
    for (int head = b.head * t.group; head < (b.head + 1) * t.group; head++) {
        struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, head);
        for (int i0 = 0; i0 < t.rows; i0 += tile) {
            int rows = t.rows - i0 < tile ? t.rows - i0 : tile;
            if (last_of(t, b.sample, i0 + rows - 1) < sn_at(t.key, j0) ||
                are_past(t, b.sample, i0, j0 + keys - 1))
                continue;
            __syncthreads();
            load_queries(a, t, w, known, first + i0, rows, head, tile);
            scores<Engine>(t, w, mask, b.sample, i0, rows, j0, keys, tile);
            sn_operand<E> ds = {w.ds, w.ldp, true}, q = {w.q, ld, false};
            sn_operand<E> p = {w.p, w.ldp, true}, g = {w.g, ldv, false};
            Engine::product(w.sum[0], width + 4, tile, width, tile, ds, q, true);
            Engine::product(w.sum[1], width_v + 4, tile, width_v, tile, p, g, true);
            if constexpr (ONCE)
                add_queries<Engine>(t, w, dq, first + i0, rows, head, tile);
        }
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < keys * t.d; i += (int)blockDim.x) {
        int r = i / t.d, c = i % t.d;
        sn_attn_put(a.out[SN_ATTENTION_DX_DK], a.acc[SN_ATTENTION_DX_DK], first + j0 + r,
                    (int64_t)b.head * t.d + c, w.sum[0][r * (width + 4) + c] * t.scale);
    }
    for (int i = (int)threadIdx.x; i < keys * t.e; i += (int)blockDim.x) {
        int r = i / t.e, c = i % t.e;
        sn_attn_put(a.out[SN_ATTENTION_DX_DV], a.acc[SN_ATTENTION_DX_DV], first + j0 + r,
                    (int64_t)b.head * t.e + c, w.sum[1][r * (width_v + 4) + c]);
    }
}

/* --- launching ------------------------------------------------------------------------------- */

static int too_wide(struct sn_cuda *cx)
{
    cx->fault.code = 1;
    cx->fault.what = "a head is too wide for this device's shared memory; 256 columns always fit";
    return 1;
}

/* WMMA where its tiles fit, else SIMT, whose tiles may be smaller. */
static struct sn_attn_tile pick(struct sn_cuda *cx, enum sn_attn_family f, enum sn_attn_pass pass,
                                struct sn_attn_heads w)
{
    struct sn_attn_tile g = sn_attn_tile_of(f, pass, w, cx->device.shared_per_block);
    if (g.family == SN_ATTN_NONE)
        g = sn_attn_tile_of(SN_ATTN_SIMT, pass, w, cx->device.shared_per_block);
    return g;
}

int sn_attn_tile_forward(struct sn_cuda *cx, const struct sn_args *a, enum sn_attn_family f)
{
    struct sn_attn_tile g = pick(cx, f, SN_ATTN_FORWARD, sn_attn_heads_of(a));
    if (g.family == SN_ATTN_NONE)
        return too_wide(cx);
    struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_FORWARD, g.t);
    struct sn_shape shape = sn_attn_shape(&t, g.shared);
    if (g.family != SN_ATTN_WMMA)
        return sn_launch(cx, forward<sn_simt>, shape, *a, t, g.t);
    return a->in[SN_ATTENTION_Q].dtype == SN_BF16
               ? sn_launch(cx, forward<sn_wmma<sn_bf16>>, shape, *a, t, g.t)
               : sn_launch(cx, forward<sn_wmma<sn_f16>>, shape, *a, t, g.t);
}

template <class Engine>
static int backward(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known,
                    float *dq, const struct sn_attn_tile *kv)
{
    struct sn_attn t = sn_attn_of(cx, a, dq ? SN_ATTN_ONCE : SN_ATTN_DKV, kv->t);
    struct sn_shape shape = sn_attn_shape(&t, kv->shared);
    return dq ? sn_launch(cx, backward_kv<Engine, true>, shape, *a, t, known, kv->t, dq)
              : sn_launch(cx, backward_kv<Engine, false>, shape, *a, t, known, kv->t, dq);
}

int sn_attn_tile_backward(struct sn_cuda *cx, const struct sn_args *a, enum sn_attn_family f,
                          const struct sn_attn_row *known, float *dq)
{
    int rc = 0;
    struct sn_attn_heads w = sn_attn_heads_of(a);
    struct sn_attn_tile q = pick(cx, f, SN_ATTN_DQ, w), kv = pick(cx, f, SN_ATTN_DKV, w);
    if (q.family == SN_ATTN_NONE || kv.family == SN_ATTN_NONE)
        return too_wide(cx);
    struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_DQ, q.t);
    struct sn_shape shape = sn_attn_shape(&t, q.shared);
    bool bf16 = a->in[SN_ATTENTION_DX_Q].dtype == SN_BF16;
    if (!dq)
        rc = q.family != SN_ATTN_WMMA
                 ? sn_launch(cx, backward_q<sn_simt>, shape, *a, t, known, q.t)
             : bf16 ? sn_launch(cx, backward_q<sn_wmma<sn_bf16>>, shape, *a, t, known, q.t)
                    : sn_launch(cx, backward_q<sn_wmma<sn_f16>>, shape, *a, t, known, q.t);
    if (rc)
        return rc;
    return kv.family != SN_ATTN_WMMA ? backward<sn_simt>(cx, a, known, dq, &kv)
           : bf16                    ? backward<sn_wmma<sn_bf16>>(cx, a, known, dq, &kv)
                                     : backward<sn_wmma<sn_f16>>(cx, a, known, dq, &kv);
}
