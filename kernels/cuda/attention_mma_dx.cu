/*
 * attention_mma_dx.cu - ATTENTION_DX on mma.sync, sm_80 and later (see attention_mma.cu).
 *
 * Two kernels, as in attention_tile.cu, so that no sum crosses blocks and none needs atomics. For
 * dq a warp has 16 queries: scores, ds, then ds k. For dk and dv it has 16 keys and computes the
 * scores turned, so that p^T and ds^T are in registers as the products p^T do and ds^T q want them.
 * Heads of up to 256 columns have no registers for dk and dv at once: there the second kernel runs
 * twice.
 *
 * In any order the second kernel alone does it all: ds^T of a tile goes through shared memory,
 * whence the warps read ds, and ds k is added to dq's sums in memory by atomics: five products, not
 * seven (Dao, FlashAttention-2, algorithm 2).
 */
#include "kernels/cuda/attention_mma.cuh"

/* p and ds of one pair, from its score, do.v (in `dp`) and the query's lse and delta. */
struct pair {
    float p, ds;
};

static __device__ __forceinline__ struct pair gradient(float score, float lse, float delta,
                                                       float dp, float factor)
{
    float prob = exp2f(score - lse);
    struct pair x = {prob * factor, prob * (factor * dp - delta)};
    return x;
}

/* --- dq -------------------------------------------------------------------------------------- */

template <int N>
static __device__ __forceinline__ void
query_gradients(const struct sn_attn &t, float s[N][4], const float dp[N][4], const int query[2],
                const float lse[2], const float delta[2], struct sn_attn_mask &mask, int j0,
                const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int h = i / 2, j = j0 + n * 8 + w.t * 2 + i % 2;
            bool sees = j < t.rows && sn_at(t.key, j) <= query[h];
            float factor = 1.0f;
            if (mask.drop > 0.0f && sees)
                factor = sn_attn_factor(mask, query[h], sn_at(t.key, j));
            struct pair x = gradient(s[n][i] * scale, lse[h], delta[h], dp[n][i], factor);
            s[n][i] = sees ? x.ds : 0.0f;
        }
}

template <class E, int W>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_q(const struct sn_args a, const struct sn_attn t, const float *deltas)
{
    enum { OTHER = W <= 64 ? 64 : 32, N = OTHER / 8 };
    SN_DYNAMIC_SHARED(shared);
    E *q = (E *)shared, *g = q + SN_ATTN_OWN * (W + 8);
    E *k = g + SN_ATTN_OWN * (W + 8), *v = k + OTHER * (W + 8);
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, b.head);
    int i0 = b.tile * SN_ATTN_OWN, rows = t.rows - i0 < SN_ATTN_OWN ? t.rows - i0 : SN_ATTN_OWN;
    int64_t first = b.sample * t.rows, col = (int64_t)(b.head / t.group) * t.d;
    int64_t q_col = (int64_t)b.head * t.d;
    int query[2], last = sn_at(t.query, i0 + rows - 1);
    float lse[2], delta[2], dq[W / 8][4];
    sn_tile_clear<W / 8>(dq);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = i0 + w.warp * 16 + w.g + h * 8;
        bool there = row < t.rows;
        query[h] = there ? sn_at(t.query, row) : -1;
        lse[h] = there ? ((const float *)a.in[5].p)[(first + row) * a.in[5].ld + b.head] * SN_LOG2E
                       : 0.0f;
        delta[h] = there ? deltas[(first + row) * t.heads + b.head] : 0.0f;
    }
    sn_tile_load<E, W>(q, SN_ATTN_OWN, a.in[0], first + i0, rows, q_col, t.d);
    sn_tile_load<E, W>(g, SN_ATTN_OWN, a.in[4], first + i0, rows, q_col, t.d);
    for (int j0 = 0; j0 < t.rows && sn_at(t.key, j0) <= last; j0 += OTHER) {
        float s[N][4], dp[N][4];
        sn_tile_clear<N>(s);
        sn_tile_clear<N>(dp);
        __syncthreads(); /* the last tile of keys has been read */
        sn_tile_load<E, W>(k, OTHER, a.in[1], first + j0, t.rows - j0, col, t.d);
        sn_tile_load<E, W>(v, OTHER, a.in[2], first + j0, t.rows - j0, col, t.d);
        sn_copy_commit();
        sn_copy_wait<0>();
        __syncthreads();
        sn_tile_scores<E, W, N>(s, q, w.warp * 16, k, w.lane);
        sn_tile_scores<E, W, N>(dp, g, w.warp * 16, v, w.lane);
        query_gradients<N>(t, s, dp, query, lse, delta, mask, j0, w);
        sn_tile_sums<E, W, N>(dq, s, k, w.lane);
    }
    sn_copy_commit(); /* of q and do, where no key was seen */
    sn_copy_wait<0>();
    bool paired = sn_is_paired<E>(a.out[0]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = i0 + w.warp * 16 + w.g + h * 8;
        if (row >= t.rows || (a.acc[0] == SN_ADD && sn_at(t.key, 0) > query[h]))
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            float y[2] = {dq[n][h * 2] * t.scale, dq[n][h * 2 + 1] * t.scale};
            if (c < t.d)
                sn_put_pair<E>(a.out[0], a.acc[0], paired, first + row, q_col + c, y);
        }
    }
}

/* --- dk and dv ------------------------------------------------------------------------------- */

/* Turned: rows are keys, columns queries from i0 on. s becomes p, dp becomes ds. */
template <int N>
static __device__ __forceinline__ void
key_gradients(const struct sn_attn &t, float s[N][4], float dp[N][4], const int key[2],
              const float *lse, const float *delta, struct sn_attn_mask &mask, int i0,
              const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int h = i / 2, at = n * 8 + w.t * 2 + i % 2, row = i0 + at;
            bool sees = row < t.rows && key[h] >= 0 && key[h] <= sn_at(t.query, row);
            float factor = 1.0f;
            if (mask.drop > 0.0f && sees)
                factor = sn_attn_factor(mask, sn_at(t.query, row), key[h]);
            struct pair x = gradient(s[n][i] * scale, lse[at], delta[at], dp[n][i], factor);
            s[n][i] = sees ? x.p : 0.0f;
            dp[n][i] = sees ? x.ds : 0.0f;
        }
}

template <class E, int W>
static __device__ __forceinline__ void put_keys(const struct sn_mat &y, enum sn_acc acc,
                                                const struct sn_attn &t, const float sum[W / 8][4],
                                                float scale, int64_t first, int row0, int64_t col,
                                                const struct sn_lane &w)
{
    bool paired = sn_is_paired<E>(y);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        if (row >= t.rows)
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            float x[2] = {sum[n][h * 2] * scale, sum[n][h * 2 + 1] * scale};
            if (c < t.d)
                sn_put_pair<E>(y, acc, paired, first + row, col + c, x);
        }
    }
}

/* ds^T of this warp's 16 keys, to rows of N x 8 queries and 8 more. */
template <class E, int N>
static __device__ __forceinline__ void keep_turned(E *room, const float ds[N][4],
                                                   const struct sn_lane &w)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            E *to = room + (w.warp * 16 + w.g + h * 8) * (N * 8 + 8) + n * 8 + w.t * 2;
            *(uint32_t *)to = sn_pack<E>(ds[n][h * 2], ds[n][h * 2 + 1]);
        }
}

/* dq[first + query, head] += ds k, ds of OTHER queries and the block's keys from keep_turned().
 * Each warp has 16 queries, and half of the columns where there are 32 queries for four warps. */
template <class E, int W, int OTHER>
static __device__ __forceinline__ void add_queries(float *dq, const struct sn_attn &t, const E *ds,
                                                   const E *k, int64_t first, int rows, int head,
                                                   const struct sn_lane &w)
{
    enum { COLS = W * OTHER / SN_ATTN_OWN };
    int row0 = w.warp % (OTHER / 16) * 16, col0 = w.warp / (OTHER / 16) * COLS;
    float sum[COLS / 8][4];
    sn_tile_clear<COLS / 8>(sum);
#pragma unroll
    for (int j = 0; j < SN_ATTN_OWN; j += 16) {
        uint32_t x[4], b[4];
        int row = j + w.lane / 16 * 8 + w.lane % 8, col = row0 + w.lane / 8 % 2 * 8;
        sn_ldmatrix_turned(x, ds + row * (OTHER + 8) + col);
#pragma unroll
        for (int n = 0; n < COLS / 8; n += 2) {
            sn_tile_b_turned<E, W>(b, k, j, col0 + n * 8, w.lane);
            sn_mma(sum[n], x, b, (const E *)0);
            sn_mma(sum[n + 1], x, b + 2, (const E *)0);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        if (row >= rows)
            continue;
        float *to = dq + ((first + row) * t.heads + head) * t.d;
#pragma unroll
        for (int n = 0; n < COLS / 8; n++) {
            int c = col0 + n * 8 + w.t * 2;
            if (c < t.d)
                sn_add_pair(to + c, sum[n][h * 2], sum[n][h * 2 + 1]);
        }
    }
}

/* DK and DV: which of the two are wanted; DQ: that too, with DK. */
template <class E, int W, bool DK, bool DV, bool DQ>
static __device__ __forceinline__ void backward_kv(const struct sn_args &a, const struct sn_attn &t,
                                                   const float *deltas, float *dq,
                                                   unsigned char *shared)
{
    enum { OTHER = W <= 64 ? 64 : 32, N = OTHER / 8 };
    E *k = (E *)shared, *v = k + SN_ATTN_OWN * (W + 8);
    E *q = v + SN_ATTN_OWN * (W + 8), *g = q + OTHER * (W + 8);
    float *lse = (float *)(g + OTHER * (W + 8)), *delta = lse + OTHER;
    E *turned = (E *)(delta + OTHER);
    struct sn_attn_block b = sn_attn_block_of(t, t.kv_heads, false);
    struct sn_lane w = sn_lane_of();
    int j0 = b.tile * SN_ATTN_OWN, keys = t.rows - j0 < SN_ATTN_OWN ? t.rows - j0 : SN_ATTN_OWN;
    int64_t first = b.sample * t.rows, col = (int64_t)b.head * t.d;
    int key[2], own = w.warp * 16;
    float dk[DK ? W / 8 : 1][4], dv[DV ? W / 8 : 1][4];
    sn_tile_clear<DK ? W / 8 : 1>(dk);
    sn_tile_clear<DV ? W / 8 : 1>(dv);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = j0 + own + w.g + h * 8;
        key[h] = row < t.rows ? sn_at(t.key, row) : -1;
    }
    sn_tile_load<E, W>(k, SN_ATTN_OWN, a.in[1], first + j0, keys, col, t.d);
    sn_tile_load<E, W>(v, SN_ATTN_OWN, a.in[2], first + j0, keys, col, t.d);
    for (int head = b.head * t.group; head < (b.head + 1) * t.group; head++) {
        struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, head);
        int64_t q_col = (int64_t)head * t.d;
        for (int i0 = 0; i0 < t.rows; i0 += OTHER) {
            int rows = t.rows - i0 < OTHER ? t.rows - i0 : OTHER;
            if (sn_at(t.query, i0 + rows - 1) < sn_at(t.key, j0))
                continue;
            float s[N][4], dp[N][4];
            sn_tile_clear<N>(s);
            sn_tile_clear<N>(dp);
            __syncthreads(); /* the last tile of queries has been read */
            sn_tile_load<E, W>(q, OTHER, a.in[0], first + i0, rows, q_col, t.d);
            sn_tile_load<E, W>(g, OTHER, a.in[4], first + i0, rows, q_col, t.d);
            sn_copy_commit();
            for (int r = (int)threadIdx.x; r < OTHER; r += SN_ATTN_THREADS) {
                int64_t row = first + i0 + r;
                bool there = r < rows;
                lse[r] =
                    there ? ((const float *)a.in[5].p)[row * a.in[5].ld + head] * SN_LOG2E : 0.0f;
                delta[r] = there ? deltas[row * t.heads + head] : 0.0f;
            }
            sn_copy_wait<0>();
            __syncthreads();
            sn_tile_scores<E, W, N>(s, k, own, q, w.lane);
            if constexpr (DK)
                sn_tile_scores<E, W, N>(dp, v, own, g, w.lane);
            key_gradients<N>(t, s, dp, key, lse, delta, mask, i0, w);
            if constexpr (DV)
                sn_tile_sums<E, W, N>(dv, s, g, w.lane);
            if constexpr (DK)
                sn_tile_sums<E, W, N>(dk, dp, q, w.lane);
            if constexpr (DQ) {
                keep_turned<E, N>(turned, dp, w);
                __syncthreads();
                add_queries<E, W, OTHER>(dq, t, turned, k, first + i0, rows, head, w);
            }
        }
    }
    sn_copy_commit(); /* of k and v, where no query saw them */
    sn_copy_wait<0>();
    if constexpr (DK)
        put_keys<E, W>(a.out[1], a.acc[1], t, dk, t.scale, first, j0 + own, col, w);
    if constexpr (DV)
        put_keys<E, W>(a.out[2], a.acc[2], t, dv, 1.0f, first, j0 + own, col, w);
}

template <class E, int W>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_kv(const struct sn_args a, const struct sn_attn t, const float *deltas)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, W, true, W <= 128, false>(a, t, deltas, NULL, shared);
}

template <class E, int W>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_v(const struct sn_args a, const struct sn_attn t, const float *deltas)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, W, false, true, false>(a, t, deltas, NULL, shared);
}

template <class E, int W>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_once(const struct sn_args a, const struct sn_attn t, const float *deltas,
                      float *dq)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, W, true, W <= 128, true>(a, t, deltas, dq, shared);
}

int sn_attn_mma_backward(struct sn_cuda *cx, const struct sn_args *a, const float *delta, float *dq)
{
    int rc, width = sn_attn_mma_width(a->attr.head_dim);
    struct sn_attn t = sn_attn_of(a, SN_ATTN_OWN);
    struct sn_shape q = sn_attn_shape(&t, t.heads, sn_attn_mma_shared(SN_ATTN_DQ, width));
    struct sn_shape kv = sn_attn_shape(&t, t.kv_heads, sn_attn_mma_shared(SN_ATTN_DKV, width));
    struct sn_shape once = sn_attn_shape(&t, t.kv_heads, sn_attn_mma_shared(SN_ATTN_ONCE, width));
    if (dq) {
        rc = SN_MMA_LAUNCH(mma_backward_once, cx, a, width, once, *a, t, delta, dq);
    } else {
        rc = SN_MMA_LAUNCH(mma_backward_q, cx, a, width, q, *a, t, delta);
        rc = rc ? rc : SN_MMA_LAUNCH(mma_backward_kv, cx, a, width, kv, *a, t, delta);
    }
    if (rc || width != 256)
        return rc;
    if (a->in[0].dtype == SN_BF16)
        return sn_launch(cx, mma_backward_v<sn_bf16, 256>, kv, *a, t, delta);
    return sn_launch(cx, mma_backward_v<sn_f16, 256>, kv, *a, t, delta);
}
