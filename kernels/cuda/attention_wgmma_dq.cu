/*
 * attention_wgmma_dq.cu - dq of ATTENTION_DX on warpgroup products, sm_90a (see
 * attention_wgmma_backward.cuh).
 *
 * A warpgroup has 64 queries and walks tiles of keys: scores and dp, both operands in shared
 * memory, then ds k with ds from registers.
 */
#include "kernels/cuda/attention_wgmma_backward.cuh"

/* Rows are queries, columns keys of a tile. */
template <enum sn_attn_kind K, int OTHER> struct query_pairs {
    struct sn_attn_row row[2];
    int query[2]; /* positions; -1: no such row */
    uint32_t seen[2], kept[2];

    __device__ __forceinline__ void lse(int, float x[4]) const
    {
        x[0] = x[1] = row[0].lse;
        x[2] = x[3] = row[1].lse;
    }
    __device__ __forceinline__ void delta(int, float x[4]) const
    {
        x[0] = x[1] = row[0].delta;
        x[2] = x[3] = row[1].delta;
    }
    __device__ __forceinline__ bool sees(int n, int e) const
    {
        return seen[e / 2] >> (n * 2 + e % 2) & 1;
    }
    /* Which of the keys from j0 on. */
    __device__ __forceinline__ void look(const struct sn_attn &t, int j0, const struct sn_lane &w)
    {
        seen[0] = seen[1] = 0;
#pragma unroll
        for (int i = 0; i < OTHER / 4; i++) {
            int j = j0 + i / 2 * 8 + w.t * 2 + i % 2;
            int key = j < t.rows ? sn_place<K>(t.key, j) : INT_MAX;
#pragma unroll
            for (int h = 0; h < 2; h++)
                seen[h] |= (uint32_t)(key <= query[h]) << i;
        }
    }
};

/* One tile of keys: k_at, with v behind it; q_at, with do behind it. The tile's second half is
 * computed while the first half's sums are on their way. */
template <class E, int W, enum sn_attn_kind K, bool WHOLE, int OTHER>
static __device__ __forceinline__ void step(const struct query_pairs<K, OTHER> &pairs,
                                            const struct sn_attn_mask &mask, float scale,
                                            uint64_t q_at, uint64_t k_at, float (&dq)[W / 8][4])
{
    enum { N = OTHER / 8, HALF = N / 2, TILE = OTHER * W * 2 };
    float s[N][4], dp[N][4];
    uint32_t ds[2][HALF / 2][4];
    sn_wgmma_begin();
    sn_attn_scores<E, W>(s, q_at, k_at);
    sn_wgmma_commit();
    sn_attn_scores<E, W>(dp, sn_further(q_at, SN_ATTN_WG_OWN * W * 2), sn_further(k_at, TILE));
    sn_wgmma_commit();
    sn_wgmma_finish<1>(s);
    sn_attn_chances<WHOLE>(pairs, s, scale);
    sn_wgmma_finish(dp);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sn_attn_slopes<K, WHOLE, HALF>(pairs, mask, s, dp, h * HALF);
        sn_attn_pack_all<E, HALF / 2>(ds[h], dp, h * HALF);
        sn_wgmma_begin();
        sn_attn_sums<E, W, HALF / 2>(dq, ds[h], sn_attn_turned(k_at, OTHER), h * OTHER / 2);
        sn_wgmma_commit();
    }
    sn_wgmma_finish(dq);
}

template <class E, int W, enum sn_attn_kind K>
static __device__ __forceinline__ void backward_q(const struct sn_args &a, const struct sn_attn &t,
                                                  const struct sn_attn_row *known,
                                                  unsigned char *shared)
{
    enum { OWN = SN_ATTN_WG_OWN, MINE = OWN * W * 2 };
    enum { OTHER = K == SN_ATTN_DROPPED ? 64 : 128, TILE = OTHER * W * 2 };
    unsigned char *q = shared, *kv = q + 2 * MINE; /* k v, k v */
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, b.head);
    int i0 = b.tile * OWN, rows = t.rows - i0 < OWN ? t.rows - i0 : (int)OWN;
    int64_t first = b.sample * t.rows, col = b.head / t.group * t.d, q_col = b.head * t.d;
    int tiles = sn_attn_tiles_seen<K>(t, sn_place<K>(t.query, i0 + rows - 1), OTHER);
    int whole = rows == OWN ? sn_attn_tiles_whole<K>(t, sn_place<K>(t.query, i0), OTHER) : 0;
    const struct sn_attn_part<E, W> mine(t.d, w);
    const E *k_from = mine.from(a.in[SN_ATTENTION_DX_K], first, col),
            *v_from = mine.from(a.in[SN_ATTENTION_DX_V], first, col);
    struct query_pairs<K, OTHER> pairs = {
    };
    float dq[W / 8][4], scale = t.scale * SN_LOG2E;
    sn_tile_clear<W / 8>(dq);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int r = i0 + w.warp * 16 + w.g + h * 8;
        pairs.row[h] = sn_attn_row_of(t, known, first + r, b.head, r < t.rows);
        pairs.query[h] = r < t.rows ? sn_place<K>(t.query, r) : -1;
    }
    if (tiles > 0) {
        mine.load(q, OWN, mine.from(a.in[SN_ATTENTION_DX_Q], first + i0, q_col),
                  a.in[SN_ATTENTION_DX_Q].ld, rows);
        mine.load(q + MINE, OWN, mine.from(a.in[SN_ATTENTION_DX_DO], first + i0, q_col),
                  a.in[SN_ATTENTION_DX_DO].ld, rows);
        mine.load(kv, OTHER, k_from, a.in[SN_ATTENTION_DX_K].ld, t.rows);
        mine.load(kv + TILE, OTHER, v_from, a.in[SN_ATTENTION_DX_V].ld, t.rows);
    }
    sn_copy_commit();
    uint64_t q_at = sn_attn_tile_at(q + w.warp / 4 * 64 * SN_ATTN_WG_ROW);
    uint64_t k_at = sn_attn_tile_at(kv);
    int at = 0; /* of the tile's k, in bytes */
    for (int j = 0; j < tiles; j++, at ^= 2 * TILE) {
        int j0 = j * OTHER, left = t.rows - j0 - OTHER;
        unsigned char *k_next = kv + (at ^ 2 * TILE);
        sn_copy_wait<0>();
        sn_wgmma_publish();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        k_from += OTHER * a.in[SN_ATTENTION_DX_K].ld;
        v_from += OTHER * a.in[SN_ATTENTION_DX_V].ld;
        if (j + 1 < tiles) {
            mine.load(k_next, OTHER, k_from, a.in[SN_ATTENTION_DX_K].ld, left);
            mine.load(k_next + TILE, OTHER, v_from, a.in[SN_ATTENTION_DX_V].ld, left);
        }
        sn_copy_commit();
        if constexpr (K == SN_ATTN_DROPPED)
            for (int h = 0; h < 2; h++)
                pairs.kept[h] = sn_attn_kept<OTHER / 8, false>(mask, t.key, pairs.query[h], j0, w);
        if (j < whole) {
            step<E, W, K, true>(pairs, mask, scale, q_at, sn_further(k_at, at), dq);
        } else {
            pairs.look(t, j0, w);
            step<E, W, K, false>(pairs, mask, scale, q_at, sn_further(k_at, at), dq);
        }
    }
    sn_copy_wait<0>();
    b = sn_attn_block_of(t, t.heads, true);
    w = sn_lane_of();
    i0 = b.tile * OWN + w.warp * 16;
    bool wanted[2]; /* one that sees no key: not even a zero is added */
    for (int h = 0; h < 2; h++)
        wanted[h] = a.acc[SN_ATTENTION_DX_DQ] != SN_ADD ||
                    sn_place<K>(t.key, 0) <= sn_place<K>(t.query, i0 + w.g + h * 8);
    sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DQ], a.acc[SN_ATTENTION_DX_DQ], t, dq, t.scale,
                           b.sample * t.rows, i0, (int64_t)b.head * t.d, wanted, w);
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_WG_BOUND, 1)
    wgmma_backward_q(const struct sn_args a, const struct sn_attn t,
                     const struct sn_attn_row *known)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        backward_q<E, W, K>(a, t, known, shared);
}

template <class E, int W> struct queries {
    template <enum sn_attn_kind K>
    static int launch(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known)
    {
        struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_DQ, SN_ATTN_WG_OWN);
        struct sn_shape g = sn_attn_shape(&t, sn_attn_wgmma_shared(SN_ATTN_DQ, W));
        g.bx = SN_ATTN_WG_THREADS;
        return sn_launch(cx, wgmma_backward_q<E, W, K>, g, *a, t, known);
    }
};

int sn_attn_wgmma_dq(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known,
                     bool *taken)
{
    bool narrow = a->attr.attention.head_dim <= 64;
    *taken = sn_attn_wgmma_has(cx, a, (const void *)wgmma_backward_q<sn_bf16, 128, SN_ATTN_PLAIN>);
    if (!*taken)
        return 0;
    if (a->in[SN_ATTENTION_DX_Q].dtype == SN_BF16)
        return narrow ? sn_by_kind<queries<sn_bf16, 64>>(cx, a, known)
                      : sn_by_kind<queries<sn_bf16, 128>>(cx, a, known);
    return narrow ? sn_by_kind<queries<sn_f16, 64>>(cx, a, known)
                  : sn_by_kind<queries<sn_f16, 128>>(cx, a, known);
}
