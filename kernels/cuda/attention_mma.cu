/*
 * attention_mma.cu - ATTENTION on mma.sync, sm_80 and later: 16-bit operands, fp32 sums (Dao,
 * "FlashAttention-2", arXiv 2307.08691, with the order of loops of its algorithm 1).
 *
 * Four warps have 16 queries each and walk tiles of keys together. Scores, probabilities, o, m and
 * l stay in registers; k and v come by asynchronous copies: v's while the scores are computed, the
 * next k's during the softmax. Exponents are of two: m is in units of log2.
 */
#include "kernels/cuda/attention_forward.cuh"

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_THREADS)
    mma_forward(const struct sn_args a, const struct sn_attn t)
{
    enum { OTHER = W <= 128 ? 64 : 32, N = OTHER / 8 };
    SN_DYNAMIC_SHARED(shared);
    E *q = (E *)shared, *k = q + SN_ATTN_OWN * (W + 8), *v = k + OTHER * (W + 8);
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, b.head);
    int i0 = b.tile * SN_ATTN_OWN, rows = t.rows - i0 < SN_ATTN_OWN ? t.rows - i0 : SN_ATTN_OWN;
    int64_t first = b.sample * t.rows, col = (int64_t)(b.head / t.group) * t.d;
    int tiles = sn_attn_tiles_seen<K>(t, sn_place<K>(t.query, i0 + rows - 1), OTHER);
    int whole =
        rows == SN_ATTN_OWN ? sn_attn_tiles_whole<K>(t, sn_place<K>(t.query, i0), OTHER) : 0;
    struct sn_attn_state<W> s;
    sn_attn_start<K, W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
    if (tiles > 0) {
        sn_tile_load<E, W>(q, SN_ATTN_OWN, a.in[SN_ATTENTION_Q], first + i0, rows,
                           (int64_t)b.head * t.d, t.d);
        sn_tile_load<E, W>(k, OTHER, a.in[SN_ATTENTION_K], first, t.rows, col, t.d);
    }
    sn_copy_commit();
    for (int j = 0; j < tiles; j++) {
        int j0 = j * OTHER;
        float p[N][4];
        sn_tile_clear<N>(p);
        sn_tile_load<E, W>(v, OTHER, a.in[SN_ATTENTION_V], first + j0, t.rows - j0, col, t.d);
        sn_copy_commit();
        sn_copy_wait<1>(); /* q and k are here, v may not */
        __syncthreads();
        sn_tile_scores<E, W, N>(p, q, w.warp * 16, k, w.lane);
        __syncthreads();
        if (j + 1 < tiles)
            sn_tile_load<E, W>(k, OTHER, a.in[SN_ATTENTION_K], first + j0 + OTHER,
                               t.rows - j0 - OTHER, col, t.d);
        sn_copy_commit();
        if (j < whole)
            sn_attn_soften<K, true, W, N>(t, s, p, mask, j0, w);
        else
            sn_attn_soften<K, false, W, N>(t, s, p, mask, j0, w);
        sn_copy_wait<1>(); /* v is here, the next k may not */
        __syncthreads();
        sn_tile_sums<E, W, N>(s.o, p, v, w.lane);
        __syncthreads();
    }
    sn_copy_wait<0>();
    sn_attn_finish<E, W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
}

template <class E, int W> struct forwards {
    template <enum sn_attn_kind K> static int launch(struct sn_cuda *cx, const struct sn_args *a)
    {
        struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_FORWARD, SN_ATTN_OWN);
        struct sn_shape g = sn_attn_shape(&t, sn_attn_mma_shared(SN_ATTN_FORWARD, W));
        return sn_launch(cx, mma_forward<E, W, K>, g, *a, t);
    }
};

int sn_attn_mma_forward(struct sn_cuda *cx, const struct sn_args *a)
{
    return a->in[SN_ATTENTION_Q].dtype == SN_BF16 ? sn_by_width<forwards, sn_bf16>(cx, a)
                                                  : sn_by_width<forwards, sn_f16>(cx, a);
}
