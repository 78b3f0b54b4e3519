/*
 * attention_mma_dkv.cuh - dk and dv of ATTENTION_DX on mma.sync, sm_80 and later (see
 * attention_mma.cu); attention_mma_dkv_*.cu and attention_mma_once_*.cu compile it for one type
 * each, beside each other.
 *
 * A warp has 16 keys and computes the scores turned, so that p^T and ds^T are in registers as the
 * products p^T do and ds^T q want them. The next tile of queries is on its way while one is
 * computed with. Heads of up to 256 columns have no registers for dk and dv at once: there are two
 * kernels.
 *
 * In any order one kernel does all of the backward: ds^T of a tile goes through shared memory,
 * whence the warps read ds, and ds k is added to dq's sums in memory by atomics: five products, not
 * seven (Dao, FlashAttention-2, algorithm 2).
 */
#ifndef SN_CUDA_ATTENTION_MMA_DKV_CUH
#define SN_CUDA_ATTENTION_MMA_DKV_CUH

#include "kernels/cuda/attention_backward.cuh"

/* Turned: rows are keys of the tile at j0, columns queries from i0 on. s becomes p, dp becomes ds;
 * WHOLE: every query of the tile sees every key here. */
template <enum sn_attn_kind K, bool WHOLE, int N>
static __device__ __forceinline__ void
key_gradients(const struct sn_attn &t, float s[N][4], float dp[N][4], int j0,
              const struct sn_attn_row *row, struct sn_attn_mask &mask, int i0,
              const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
    uint32_t kept[2] = {0, 0};
    int key[2];
#pragma unroll
    for (int h = 0; h < 2; h++) { /* a key that is not there is seen by nobody */
        int j = j0 + w.warp * 16 + w.g + h * 8;
        key[h] = j < t.rows ? sn_place<K>(t.key, j) : INT_MAX;
    }
    if constexpr (K == SN_ATTN_DROPPED)
        for (int h = 0; h < 2; h++)
            kept[h] = sn_attn_kept<N, true>(mask, t.query, key[h], i0, w);
#pragma unroll
    for (int i = 0; i < 2 * N; i++) {
        int n = i / 2, at = n * 8 + w.t * 2 + i % 2;
        struct sn_attn_row r = row[at];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int e = h * 2 + i % 2;
            float factor = K == SN_ATTN_DROPPED ? sn_attn_kept_factor(mask, kept[h], i) : 1.0f;
            bool sees = WHOLE || (i0 + at < t.rows && key[h] <= sn_place<K>(t.query, i0 + at));
            struct sn_attn_pair x = sn_attn_pair_of<K>(s[n][e], scale, r, dp[n][e], factor);
            s[n][e] = sees ? x.p : 0.0f;
            dp[n][e] = sees ? x.ds : 0.0f;
        }
    }
}

/* ds^T of this warp's 16 keys and N x 8 queries, to rows that are `ld` apart. */
template <class E, int N>
static __device__ __forceinline__ void keep_turned(E *room, int ld, const float ds[N][4],
                                                   const struct sn_lane &w)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            E *to = room + (w.warp * 16 + w.g + h * 8) * ld + n * 8 + w.t * 2;
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

/* A tile of queries of one of the heads that share the block's keys. */
struct tile {
    int head, i0;
};

/* To q, do, and a row of two numbers for each query, asynchronously. */
template <class E, int W, int OTHER>
static __device__ __forceinline__ void
load_queries(E *q, struct sn_attn_row *row, const struct sn_args &a, const struct sn_attn &t,
             const struct sn_attn_row *known, int first, const struct tile &x)
{
    int col = x.head * t.d, from = first + x.i0;
    int rows = t.rows - x.i0, r = (int)threadIdx.x;
    sn_tile_load<E, W>(q, OTHER, a.in[SN_ATTENTION_DX_Q], from, rows, col, t.d);
    sn_tile_load<E, W>(q + OTHER * (W + 8), OTHER, a.in[SN_ATTENTION_DX_DO], from, rows, col, t.d);
    if (r < OTHER)
        sn_copy_async_8(row + r, known + x.head * t.all + (r < rows ? from + r : 0), r < rows);
}

/* The next queries, of this head or the first that see a key of the next one. */
template <int OTHER>
static __device__ __forceinline__ struct tile behind(struct tile x, int begin, int rows)
{
    x.i0 += OTHER;
    if (x.i0 < rows)
        return x;
    return {x.head + 1, begin};
}

/* DK and DV: which of the two are wanted; DQ: that too, with DK. */
template <class E, int W, enum sn_attn_kind K, bool DK, bool DV, bool DQ>
static __device__ __forceinline__ void backward_kv(const struct sn_args &a, const struct sn_attn &t,
                                                   const struct sn_attn_row *known, float *dq,
                                                   unsigned char *shared)
{
    enum { OTHER = W <= 64 ? 64 : 32, PART = 32, N = PART / 8, TILE = OTHER * (W + 8) };
    E *k = (E *)shared, *v = k + SN_ATTN_OWN * (W + 8), *tiles = v + SN_ATTN_OWN * (W + 8);
    struct sn_attn_row *all_rows = (struct sn_attn_row *)(tiles + 4 * TILE);
    E *turned = (E *)(all_rows + 2 * OTHER);
    struct sn_attn_block b = sn_attn_block_of(t, t.kv_heads, false);
    struct sn_lane w = sn_lane_of();
    int j0 = b.tile * SN_ATTN_OWN, keys = t.rows - j0 < SN_ATTN_OWN ? t.rows - j0 : SN_ATTN_OWN;
    int first = (int)b.sample * t.rows, col = b.head * t.d; /* counts of rows and columns are int */
    int own = w.warp * 16,
        end = keys == SN_ATTN_OWN ? sn_place<K>(t.key, j0 + SN_ATTN_OWN - 1) : INT_MAX;
    int begin = sn_attn_first_seeing<K>(t, sn_place<K>(t.key, j0), OTHER);
    struct tile x = {b.head * t.group, begin};
    bool more = begin < t.rows;
    float dk[DK ? W / 8 : 1][4], dv[DV ? W / 8 : 1][4];
    sn_tile_clear<DK ? W / 8 : 1>(dk);
    sn_tile_clear<DV ? W / 8 : 1>(dv);
    if (more) {
        sn_tile_load<E, W>(k, SN_ATTN_OWN, a.in[SN_ATTENTION_DX_K], first + j0, keys, col, t.d);
        sn_tile_load<E, W>(v, SN_ATTN_OWN, a.in[SN_ATTENTION_DX_V], first + j0, keys, col, t.d);
        load_queries<E, W, OTHER>(tiles, all_rows, a, t, known, first, x);
    }
    sn_copy_commit();
    for (int stage = 0; more; stage ^= 1) {
        E *q = tiles + stage * 2 * TILE, *g = q + TILE;
        const struct sn_attn_row *row = all_rows + stage * OTHER;
        struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, x.head);
        struct tile now = x;
        x = behind<OTHER>(x, begin, t.rows);
        more = x.head < (b.head + 1) * t.group;
        sn_copy_wait<0>();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        if (more)
            load_queries<E, W, OTHER>(tiles + (stage ^ 1) * 2 * TILE,
                                      all_rows + (stage ^ 1) * OTHER, a, t, known, first, x);
        sn_copy_commit();
        bool whole = now.i0 + OTHER <= t.rows && end <= sn_place<K>(t.query, now.i0);
#pragma unroll
        for (int i = 0; i < OTHER; i += PART) { /* more scores at once would cost a block */
            float s[N][4], dp[N][4];
            sn_tile_clear<N>(s);
            sn_tile_clear<N>(dp);
            sn_tile_scores<E, W, N>(s, k, own, q + i * (W + 8), w.lane);
            if constexpr (DK)
                sn_tile_scores<E, W, N>(dp, v, own, g + i * (W + 8), w.lane);
            if (whole)
                key_gradients<K, true, N>(t, s, dp, j0, row + i, mask, now.i0 + i, w);
            else
                key_gradients<K, false, N>(t, s, dp, j0, row + i, mask, now.i0 + i, w);
            if constexpr (DV)
                sn_tile_sums<E, W, N>(dv, s, g + i * (W + 8), w.lane);
            if constexpr (DK)
                sn_tile_sums<E, W, N>(dk, dp, q + i * (W + 8), w.lane);
            if constexpr (DQ)
                keep_turned<E, N>(turned + i, OTHER + 8, dp, w);
        }
        if constexpr (DQ) {
            __syncthreads();
            add_queries<E, W, OTHER>(dq, t, turned, k, first + now.i0, t.rows - now.i0, now.head,
                                     w);
        }
    }
    sn_copy_wait<0>();
    b = sn_attn_block_of(t, t.kv_heads, false);
    w = sn_lane_of();
    own = w.warp * 16;
    j0 = b.tile * SN_ATTN_OWN;
    first = (int)b.sample * t.rows;
    col = b.head * t.d;
    const bool wanted[2] = {true, true};
    if constexpr (DK)
        sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DK], a.acc[SN_ATTENTION_DX_DK], t, dk, t.scale,
                               first, j0 + own, col, wanted, w);
    if constexpr (DV)
        sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DV], a.acc[SN_ATTENTION_DX_DV], t, dv, 1.0f,
                               first, j0 + own, col, wanted, w);
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_THREADS, sn_attn_blocks<W, K>())
    mma_backward_kv(const struct sn_args a, const struct sn_attn t, const struct sn_attn_row *known)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, W, K, true, W <= 128, false>(a, t, known, NULL, shared);
}

template <class E, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_v(const struct sn_args a, const struct sn_attn t, const struct sn_attn_row *known)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, 256, K, false, true, false>(a, t, known, NULL, shared);
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_backward_once(const struct sn_args a, const struct sn_attn t,
                      const struct sn_attn_row *known, float *dq)
{
    SN_DYNAMIC_SHARED(shared);
    backward_kv<E, W, K, true, W <= 128, true>(a, t, known, dq, shared);
}

/* dk and dv; with ONCE dq too. */
template <class E, int W, bool ONCE> struct keys {
    template <enum sn_attn_kind K>
    static int launch(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known,
                      float *dq)
    {
        int rc;
        enum sn_attn_pass pass = ONCE ? SN_ATTN_ONCE : SN_ATTN_DKV;
        struct sn_attn t = sn_attn_of(cx, a, pass, SN_ATTN_OWN);
        struct sn_shape g = sn_attn_shape(&t, sn_attn_mma_shared(pass, W));
        if constexpr (ONCE)
            rc = sn_launch(cx, mma_backward_once<E, W, K>, g, *a, t, known, dq);
        else
            rc = sn_launch(cx, mma_backward_kv<E, W, K>, g, *a, t, known);
        g.shared = sn_attn_mma_shared(SN_ATTN_DKV, W);
        if constexpr (W == 256)
            rc = rc ? rc : sn_launch(cx, mma_backward_v<E, K>, g, *a, t, known);
        return rc;
    }
};
template <class E, int W> using keys_alone = keys<E, W, false>;
template <class E, int W> using keys_and_queries = keys<E, W, true>;

#endif
