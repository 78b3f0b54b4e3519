/*
 * attention_wgmma_dkv.cuh - dk and dv of ATTENTION_DX on warpgroup products, sm_90a (see
 * attention_wgmma_backward.cuh); attention_wgmma_dkv_*.cu compile it for one type each, beside each
 * other.
 *
 * A warpgroup has 64 keys and walks tiles of queries, those of all heads that share its keys one
 * after the other. The next tile is on its way while one is computed with.
 */
#ifndef SN_CUDA_ATTENTION_WGMMA_DKV_CUH
#define SN_CUDA_ATTENTION_WGMMA_DKV_CUH

#include "kernels/cuda/attention_wgmma_backward.cuh"

/* Turned: rows are keys, columns queries of the tile from i0 on. */
template <enum sn_attn_kind K, int OTHER> struct key_pairs {
    const float *row; /* lse of the tile's queries, then their delta; from this thread's first on */
    int key[2];
    uint32_t seen[2], kept[2];

    static __device__ __forceinline__ void of_columns(const float *from, float x[4])
    {
        float2 two = *(const float2 *)from;
        x[0] = x[2] = two.x;
        x[1] = x[3] = two.y;
    }
    __device__ __forceinline__ void lse(int n, float x[4]) const
    {
        of_columns(row + n * 8, x);
    }
    __device__ __forceinline__ void delta(int n, float x[4]) const
    {
        of_columns(row + OTHER + n * 8, x);
    }
    __device__ __forceinline__ bool sees(int n, int e) const
    {
        return seen[e / 2] >> (n * 2 + e % 2) & 1;
    }
    /* Which of the queries from i0 on see the keys. */
    __device__ __forceinline__ void look(const struct sn_attn &t, int i0, const struct sn_lane &w)
    {
        seen[0] = seen[1] = 0;
#pragma unroll
        for (int i = 0; i < OTHER / 4; i++) {
            int at = i0 + i / 2 * 8 + w.t * 2 + i % 2,
                query = at < t.rows ? sn_place<K>(t.query, at) : -1;
#pragma unroll
            for (int h = 0; h < 2; h++)
                seen[h] |= (uint32_t)(key[h] <= query) << i;
        }
    }
};

/* A tile of queries of one of the heads that share the block's keys. */
struct tile {
    int head, i0;
};

/* To q, do, lse and delta, asynchronously. */
template <class E, int W, int OTHER>
static __device__ __forceinline__ void
load_queries(const struct sn_attn_part<E, W> &mine, unsigned char *q, float *row,
             const struct sn_args &a, const struct sn_attn &t, const struct sn_attn_row *known,
             int first, const struct tile &x)
{
    int col = x.head * t.d, from = first + x.i0, rows = t.rows - x.i0, r = (int)threadIdx.x;
    mine.load(q, OTHER, mine.from(a.in[SN_ATTENTION_DX_Q], from, col), a.in[SN_ATTENTION_DX_Q].ld,
              rows);
    mine.load(q + OTHER * W * 2, OTHER, mine.from(a.in[SN_ATTENTION_DX_DO], from, col),
              a.in[SN_ATTENTION_DX_DO].ld, rows);
    if (r < OTHER) {
        const struct sn_attn_row *of = known + x.head * t.all + (r < rows ? from + r : 0);
        sn_copy_async_4(row + r, &of->lse, r < rows);
        sn_copy_async_4(row + OTHER + r, &of->delta, r < rows);
    }
}

/*
 * One tile of queries: q_at, with do behind it; k_at, with v behind it. The exponentials are
 * computed while dp is on its way, ds while dv's sums are. (That p's products are begun before dp
 * is waited for also keeps ptxas from putting the exponentials behind that wait.)
 */
template <class E, int W, enum sn_attn_kind K, bool WHOLE, int OTHER>
static __device__ __forceinline__ void
step(const struct key_pairs<K, OTHER> &pairs, const struct sn_attn_mask &mask, float scale,
     uint64_t k_at, uint64_t q_at, float (&dk)[W / 8][4], float (&dv)[W / 8][4])
{
    enum { N = OTHER / 8, L = N / 2, TILE = OTHER * W * 2 };
    uint64_t do_at = sn_further(q_at, TILE);
    float s[N][4], dp[N][4];
    sn_wgmma_begin();
    sn_attn_scores<E, W>(s, k_at, q_at);
    sn_wgmma_commit();
    sn_attn_scores<E, W>(dp, sn_further(k_at, SN_ATTN_WG_OWN * W * 2), do_at);
    sn_wgmma_commit();
    sn_wgmma_finish<1>(s);
    sn_attn_chances<WHOLE>(pairs, s, scale);
    if constexpr (K != SN_ATTN_DROPPED) {
        uint32_t p_packed[L][4], ds_packed[L][4];
        sn_attn_pack_all<E, L>(p_packed, s, 0);
        sn_wgmma_begin();
        sn_attn_sums<E, W, L>(dv, p_packed, sn_attn_turned(do_at, OTHER), 0);
        sn_wgmma_commit();
        sn_wgmma_finish<1>(dp);
        sn_attn_slopes<K, WHOLE, N>(pairs, mask, s, dp, 0);
        sn_attn_pack_all<E, L>(ds_packed, dp, 0);
        sn_wgmma_begin();
        sn_attn_sums<E, W, L>(dk, ds_packed, sn_attn_turned(q_at, OTHER), 0);
        sn_wgmma_commit();
    } else { /* for which that would be too many registers */
        uint32_t p_packed[2][L / 2][4], ds_packed[2][L / 2][4];
        sn_wgmma_finish(dp);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sn_attn_slopes<K, WHOLE, N / 2>(pairs, mask, s, dp, h * N / 2);
            sn_attn_pack_all<E, L / 2>(p_packed[h], s, h * N / 2);
            sn_attn_pack_all<E, L / 2>(ds_packed[h], dp, h * N / 2);
            sn_wgmma_begin();
            sn_attn_sums<E, W, L / 2>(dv, p_packed[h], sn_attn_turned(do_at, OTHER), h * OTHER / 2);
            sn_attn_sums<E, W, L / 2>(dk, ds_packed[h], sn_attn_turned(q_at, OTHER), h * OTHER / 2);
            sn_wgmma_commit();
        }
    }
    sn_wgmma_finish(dv);
    sn_wgmma_finish(dk);
}

template <class E, int W, enum sn_attn_kind K>
static __device__ __forceinline__ void backward_kv(const struct sn_args &a, const struct sn_attn &t,
                                                   const struct sn_attn_row *known,
                                                   unsigned char *shared)
{
    enum { OWN = SN_ATTN_WG_OWN, MINE = OWN * W * 2 };
    enum { OTHER = W <= 64 && K == SN_ATTN_PLAIN ? 128 : 64, TILE = OTHER * W * 2 };
    unsigned char *k = shared, *v = k + MINE, *tiles = v + MINE; /* q do, q do */
    float *all_rows = (float *)(tiles + 4 * TILE);
    struct sn_attn_block b = sn_attn_block_of(t, t.kv_heads, false);
    struct sn_lane w = sn_lane_of();
    int j0 = b.tile * OWN, keys = t.rows - j0 < OWN ? t.rows - j0 : (int)OWN;
    int first = (int)b.sample * t.rows, col = b.head * t.d; /* counts of rows and columns are int */
    int end = keys == OWN ? sn_place<K>(t.key, j0 + OWN - 1) : INT_MAX;
    int begin = sn_attn_first_seeing<K>(t, sn_place<K>(t.key, j0), OTHER);
    struct tile x = {b.head * t.group, begin};
    bool more = begin < t.rows;
    const struct sn_attn_part<E, W> mine(t.d, w);
    struct key_pairs<K, OTHER> pairs;
    float dk[W / 8][4], dv[W / 8][4];
    sn_tile_clear<W / 8>(dk);
    sn_tile_clear<W / 8>(dv);
#pragma unroll
    for (int h = 0; h < 2; h++) { /* a key that is not there is seen by nobody */
        int j = j0 + w.warp * 16 + w.g + h * 8;
        pairs.key[h] = j < t.rows ? sn_place<K>(t.key, j) : INT_MAX;
        pairs.seen[h] = pairs.kept[h] = 0;
    }
    if (more) {
        mine.load(k, OWN, mine.from(a.in[SN_ATTENTION_DX_K], first + j0, col),
                  a.in[SN_ATTENTION_DX_K].ld, keys);
        mine.load(v, OWN, mine.from(a.in[SN_ATTENTION_DX_V], first + j0, col),
                  a.in[SN_ATTENTION_DX_V].ld, keys);
        load_queries<E, W, OTHER>(mine, tiles, all_rows, a, t, known, first, x);
    }
    sn_copy_commit();
    uint64_t k_at = sn_attn_tile_at(k + w.warp / 4 * 64 * SN_ATTN_WG_ROW);
    uint64_t q_at = sn_attn_tile_at(tiles);
    for (int stage = 0; more; stage ^= 1) {
        struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, x.head);
        struct tile now = x;
        x.i0 += OTHER;
        if (x.i0 >= t.rows) {
            x.i0 = begin;
            x.head++;
        }
        more = x.head < (b.head + 1) * t.group;
        sn_copy_wait<0>();
        sn_wgmma_publish();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        if (more)
            load_queries<E, W, OTHER>(mine, tiles + (stage ^ 1) * 2 * TILE,
                                      all_rows + (stage ^ 1) * 2 * OTHER, a, t, known, first, x);
        sn_copy_commit();
        pairs.row = all_rows + stage * 2 * OTHER + w.t * 2;
        if constexpr (K == SN_ATTN_DROPPED)
            for (int h = 0; h < 2; h++)
                pairs.kept[h] =
                    sn_attn_kept<OTHER / 8, true>(mask, t.query, pairs.key[h], now.i0, w);
        float scale = t.scale * SN_LOG2E;
        uint64_t at = sn_further(q_at, stage * 2 * TILE);
        if (now.i0 + OTHER <= t.rows && end <= sn_place<K>(t.query, now.i0)) {
            step<E, W, K, true>(pairs, mask, scale, k_at, at, dk, dv);
        } else {
            pairs.look(t, now.i0, w);
            step<E, W, K, false>(pairs, mask, scale, k_at, at, dk, dv);
        }
    }
    sn_copy_wait<0>();
    b = sn_attn_block_of(t, t.kv_heads, false);
    w = sn_lane_of();
    j0 = b.tile * OWN;
    first = (int)b.sample * t.rows;
    col = b.head * t.d;
    const bool wanted[2] = {true, true};
    sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DK], a.acc[SN_ATTENTION_DX_DK], t, dk, t.scale,
                           first, j0 + w.warp * 16, col, wanted, w);
    sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DV], a.acc[SN_ATTENTION_DX_DV], t, dv, 1.0f, first,
                           j0 + w.warp * 16, col, wanted, w);
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_WG_BOUND, 1)
    wgmma_backward_kv(const struct sn_args a, const struct sn_attn t,
                      const struct sn_attn_row *known)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        backward_kv<E, W, K>(a, t, known, shared);
}

template <class E, int W> struct keys {
    template <enum sn_attn_kind K>
    static int launch(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known)
    {
        struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_DKV, SN_ATTN_WG_OWN);
        struct sn_shape g = sn_attn_shape(&t, sn_attn_wgmma_shared(SN_ATTN_DKV, W));
        g.bx = SN_ATTN_WG_THREADS;
        return sn_launch(cx, wgmma_backward_kv<E, W, K>, g, *a, t, known);
    }
};

/* *taken: whether it was for these kernels. */
template <class E>
static int keys_of(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known,
                   bool *taken)
{
    *taken = sn_attn_wgmma_has(cx, a, (const void *)wgmma_backward_kv<E, 128, SN_ATTN_PLAIN>);
    if (!*taken)
        return 0;
    return a->attr.attention.head_dim <= 64 ? sn_by_kind<keys<E, 64>>(cx, a, known)
                                            : sn_by_kind<keys<E, 128>>(cx, a, known);
}

#endif
