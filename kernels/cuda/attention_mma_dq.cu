/*
 * attention_mma_dq.cu - dq of ATTENTION_DX on mma.sync, sm_80 and later (see attention_mma.cu).
 *
 * As in attention_tile.cu dq has a kernel of its own, so that no sum crosses blocks and none needs
 * atomics. A warp has 16 queries: scores, ds, then ds k. The next tile of keys is on its way while
 * one is computed with.
 */
#include "kernels/cuda/attention_backward.cuh"

/* s becomes ds. WHOLE: every query here sees every key of the tile. */
template <enum sn_attn_kind K, bool WHOLE, int N>
static __device__ __forceinline__ void
query_gradients(const struct sn_attn &t, float s[N][4], const float dp[N][4], int i0,
                const struct sn_attn_row row[2], struct sn_attn_mask &mask, int j0,
                const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = i0 + w.warp * 16 + w.g + h * 8, query = i < t.rows ? sn_place<K>(t.query, i) : -1;
        uint32_t kept = 0;
        if constexpr (K == SN_ATTN_DROPPED)
            kept = sn_attn_kept<N, false>(mask, t.key, query, j0, w);
#pragma unroll
        for (int m = 0; m < 2 * N; m++) {
            int n = m / 2, e = h * 2 + m % 2, j = j0 + n * 8 + w.t * 2 + m % 2;
            float factor = K == SN_ATTN_DROPPED ? sn_attn_kept_factor(mask, kept, m) : 1.0f;
            bool sees = WHOLE || (j < t.rows && sn_place<K>(t.key, j) <= query);
            struct sn_attn_pair x = sn_attn_pair_of<K>(s[n][e], scale, row[h], dp[n][e], factor);
            s[n][e] = sees ? x.ds : 0.0f;
        }
    }
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_THREADS, sn_attn_blocks<W, K>())
    mma_backward_q(const struct sn_args a, const struct sn_attn t, const struct sn_attn_row *known)
{
    enum { OTHER = W <= 64 ? 64 : 32, N = OTHER / 8, TILE = OTHER * (W + 8) };
    SN_DYNAMIC_SHARED(shared);
    E *q = (E *)shared, *g = q + SN_ATTN_OWN * (W + 8), *kv = g + SN_ATTN_OWN * (W + 8);
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, b.head);
    int i0 = b.tile * SN_ATTN_OWN, rows = t.rows - i0 < SN_ATTN_OWN ? t.rows - i0 : SN_ATTN_OWN;
    int first = (int)b.sample * t.rows, col = b.head / t.group * t.d, q_col = b.head * t.d;
    int tiles = sn_attn_tiles_seen<K>(t, sn_place<K>(t.query, i0 + rows - 1), OTHER);
    int whole =
        rows == SN_ATTN_OWN ? sn_attn_tiles_whole<K>(t, sn_place<K>(t.query, i0), OTHER) : 0;
    struct sn_attn_row row[2];
    float dq[W / 8][4];
    sn_tile_clear<W / 8>(dq);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int r = i0 + w.warp * 16 + w.g + h * 8;
        row[h] = sn_attn_row_of(t, known, first + r, b.head, r < t.rows);
    }
    if (tiles > 0) {
        sn_tile_load<E, W>(q, SN_ATTN_OWN, a.in[SN_ATTENTION_DX_Q], first + i0, rows, q_col, t.d);
        sn_tile_load<E, W>(g, SN_ATTN_OWN, a.in[SN_ATTENTION_DX_DO], first + i0, rows, q_col, t.d);
        sn_tile_load<E, W>(kv, OTHER, a.in[SN_ATTENTION_DX_K], first, t.rows, col, t.d);
        sn_tile_load<E, W>(kv + TILE, OTHER, a.in[SN_ATTENTION_DX_V], first, t.rows, col, t.d);
    }
    sn_copy_commit();
    for (int j = 0; j < tiles; j++) {
        int j0 = j * OTHER, next = j0 + OTHER;
        E *k = kv + j % 2 * 2 * TILE, *v = k + TILE, *k_next = kv + (j + 1) % 2 * 2 * TILE;
        float s[N][4], dp[N][4];
        sn_tile_clear<N>(s);
        sn_tile_clear<N>(dp);
        sn_copy_wait<0>();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        if (j + 1 < tiles) {
            sn_tile_load<E, W>(k_next, OTHER, a.in[SN_ATTENTION_DX_K], first + next, t.rows - next,
                               col, t.d);
            sn_tile_load<E, W>(k_next + TILE, OTHER, a.in[SN_ATTENTION_DX_V], first + next,
                               t.rows - next, col, t.d);
        }
        sn_copy_commit();
        sn_tile_scores<E, W, N>(s, q, w.warp * 16, k, w.lane);
        sn_tile_scores<E, W, N>(dp, g, w.warp * 16, v, w.lane);
        if (j < whole)
            query_gradients<K, true, N>(t, s, dp, i0, row, mask, j0, w);
        else
            query_gradients<K, false, N>(t, s, dp, i0, row, mask, j0, w);
        sn_tile_sums<E, W, N>(dq, s, k, w.lane);
    }
    sn_copy_wait<0>();
    b = sn_attn_block_of(t, t.heads, true);
    i0 = b.tile * SN_ATTN_OWN;
    bool wanted[2]; /* one that sees no key: not even a zero is added */
    for (int h = 0; h < 2; h++)
        wanted[h] = a.acc[SN_ATTENTION_DX_DQ] != SN_ADD ||
                    sn_place<K>(t.key, 0) <= sn_place<K>(t.query, i0 + w.warp * 16 + w.g + h * 8);
    sn_attn_put_sums<E, W>(a.out[SN_ATTENTION_DX_DQ], a.acc[SN_ATTENTION_DX_DQ], t, dq, t.scale,
                           b.sample * t.rows, i0 + w.warp * 16, (int64_t)b.head * t.d, wanted, w);
}

template <class E, int W> struct queries {
    template <enum sn_attn_kind K>
    static int launch(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known)
    {
        struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_DQ, SN_ATTN_OWN);
        struct sn_shape g = sn_attn_shape(&t, sn_attn_mma_shared(SN_ATTN_DQ, W));
        return sn_launch(cx, mma_backward_q<E, W, K>, g, *a, t, known);
    }
};

int sn_attn_mma_dq(struct sn_cuda *cx, const struct sn_args *a, const struct sn_attn_row *known)
{
    return a->in[SN_ATTENTION_DX_Q].dtype == SN_BF16 ? sn_by_width<queries, sn_bf16>(cx, a, known)
                                                     : sn_by_width<queries, sn_f16>(cx, a, known);
}
