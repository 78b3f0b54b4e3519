/*
 * attention_wgmma.cu - ATTENTION on warpgroup products, sm_90a (Hopper): heads of up to 128
 * columns.
 *
 * Two warpgroups have 64 queries each and walk tiles of 128 keys; while one is in its softmax the
 * other keeps the tensor cores busy (Shah et al., "FlashAttention-3", arXiv 2407.08608, 3.1,
 * without its producer warp). The tile after the one that is computed is on its way into the other
 * half of shared memory. Everything else is as in attention_mma.cu.
 *
 * Where the file was compiled for another target its kernel is a stub, which
 * sn_attn_wgmma_is_there() sees: then mma does the work.
 */
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/attention_wgmma.cuh"

enum { OWN = SN_ATTN_WG_OWN, OTHER = 128, N = OTHER / 8 };

/* As sn_further(), in 64 bits, and sums that begin at zero: here that is 25 instructions less. */
static __device__ __forceinline__ uint64_t further(uint64_t descriptor, int bytes)
{
    return descriptor + (uint64_t)(bytes / 16);
}

template <class E, int W>
static __device__ __forceinline__ void scores(float p[N][4], uint64_t q, uint64_t k)
{
#pragma unroll
    for (int l = 0; l < W / 16; l++)
        sn_wgmma(p, further(q, l / 4 * OWN * SN_ATTN_WG_ROW + l % 4 * 32),
                 further(k, l / 4 * OTHER * SN_ATTN_WG_ROW + l % 4 * 32), (const E *)0);
}

template <class E, int W>
static __device__ __forceinline__ void sums(float (&o)[W / 8][4], const uint32_t p[N / 2][4],
                                            uint64_t v)
{
#pragma unroll
    for (int l = 0; l < OTHER / 16; l++)
        sn_wgmma_turned(o, p[l], further(v, l * 16 * SN_ATTN_WG_ROW), (const E *)0);
}

template <class E, int W, enum sn_attn_kind K>
static __device__ __forceinline__ void forward(const struct sn_args &a, const struct sn_attn &t,
                                               unsigned char *shared)
{
    enum { TILE = OTHER * W * 2 };
    unsigned char *q = shared, *kv = shared + OWN * W * 2; /* k v, k v */
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of<K>(a, b.sample, b.head);
    int i0 = b.tile * OWN, rows = t.rows - i0 < OWN ? t.rows - i0 : OWN;
    int64_t first = b.sample * t.rows, col = (int64_t)(b.head / t.group) * t.d;
    int tiles = sn_attn_tiles_seen<K>(t, sn_place<K>(t.query, i0 + rows - 1), OTHER);
    int whole = rows == OWN ? sn_attn_tiles_whole<K>(t, sn_place<K>(t.query, i0), OTHER) : 0;
    const struct sn_attn_part<E, W> mine(t.d, w);
    const E *k_from = mine.from(a.in[SN_ATTENTION_K], first, col),
            *v_from = mine.from(a.in[SN_ATTENTION_V], first, col);
    uint64_t q_at = sn_attn_tile_at(q + w.warp / 4 * 64 * SN_ATTN_WG_ROW);
    uint64_t k_at = sn_attn_tile_at(kv);
    uint64_t v_at = sn_attn_turned(sn_attn_tile_at(kv + TILE), OTHER);
    struct sn_attn_state<W> s;
    sn_attn_start<K, W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
    if (tiles > 0) {
        mine.load(q, OWN, mine.from(a.in[SN_ATTENTION_Q], first + i0, (int64_t)b.head * t.d),
                  a.in[SN_ATTENTION_Q].ld, rows);
        mine.load(kv, OTHER, k_from, a.in[SN_ATTENTION_K].ld, t.rows);
        mine.load(kv + TILE, OTHER, v_from, a.in[SN_ATTENTION_V].ld, t.rows);
    }
    sn_copy_commit();
    int at = 0; /* of the tile's k, in bytes */
    int left = t.rows;
    for (int j = 0; j < tiles; j++, at ^= 2 * TILE) {
        int j0 = j * OTHER;
        unsigned char *k_next = kv + (at ^ 2 * TILE);
        float p[N][4];
        uint32_t packed[N / 2][4];
        sn_tile_clear<N>(p);
        sn_copy_wait<0>();
        sn_wgmma_publish();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        k_from += OTHER * a.in[SN_ATTENTION_K].ld;
        v_from += OTHER * a.in[SN_ATTENTION_V].ld;
        left -= OTHER;
        if (j + 1 < tiles) {
            mine.load(k_next, OTHER, k_from, a.in[SN_ATTENTION_K].ld, left);
            mine.load(k_next + TILE, OTHER, v_from, a.in[SN_ATTENTION_V].ld, left);
        }
        sn_copy_commit();
        sn_wgmma_begin();
        scores<E, W>(p, q_at, sn_further(k_at, at));
        sn_wgmma_end(p);
        if (j < whole)
            sn_attn_soften<K, true, W, N>(t, s, p, mask, j0, w);
        else
            sn_attn_soften<K, false, W, N>(t, s, p, mask, j0, w);
#pragma unroll
        for (int l = 0; l < N / 2; l++)
            sn_attn_pack<E>(packed[l], p + 2 * l);
        sn_wgmma_begin();
        sums<E, W>(s.o, packed, sn_further(v_at, at));
        sn_wgmma_end(s.o);
    }
    sn_copy_wait<0>();
    sn_attn_finish<E, W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
}

template <class E, int W, enum sn_attn_kind K>
static __global__ void __launch_bounds__(SN_ATTN_WG_BOUND, 1)
    wgmma_forward(const struct sn_args a, const struct sn_attn t)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        forward<E, W, K>(a, t, shared);
}

bool sn_attn_wgmma_is_there(const struct sn_cuda *cx, const struct sn_args *a)
{
    return sn_attn_wgmma_has(cx, a, (const void *)wgmma_forward<sn_bf16, 128, SN_ATTN_PLAIN>);
}

template <class E, int W> struct forwards {
    template <enum sn_attn_kind K>
    static int launch(struct sn_cuda *cx, const struct sn_args *a, struct sn_shape g,
                      const struct sn_attn &t)
    {
        return sn_launch(cx, wgmma_forward<E, W, K>, g, *a, t);
    }
};

int sn_attn_wgmma_forward(struct sn_cuda *cx, const struct sn_args *a)
{
    int width = a->attr.attention.head_dim <= 64 ? 64 : 128;
    struct sn_attn t = sn_attn_of(cx, a, SN_ATTN_FORWARD, OWN);
    struct sn_shape g = sn_attn_shape(&t, sn_attn_wgmma_shared(SN_ATTN_FORWARD, width));
    g.bx = SN_ATTN_WG_THREADS;
    if (a->in[SN_ATTENTION_Q].dtype == SN_BF16)
        return width == 64 ? sn_by_kind<forwards<sn_bf16, 64>>(cx, a, g, t)
                           : sn_by_kind<forwards<sn_bf16, 128>>(cx, a, g, t);
    return width == 64 ? sn_by_kind<forwards<sn_f16, 64>>(cx, a, g, t)
                       : sn_by_kind<forwards<sn_f16, 128>>(cx, a, g, t);
}
