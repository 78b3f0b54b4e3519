/*
 * attention_wgmma.cu - ATTENTION on warpgroup products, sm_90a (Hopper): heads of up to 128
 * columns.
 *
 * Two warpgroups have 64 queries each and walk tiles of 128 keys; while one is in its softmax the
 * other keeps the tensor cores busy (Shah et al., "FlashAttention-3", arXiv 2407.08608, 3.1,
 * without its producer warp). The tile after the one that is computed is on its way into the other
 * half of shared memory. Everything else is as in attention_mma.cu.
 *
 * Where the file was compiled for another target its kernel is a stub that is bounded to one warp,
 * which sn_attn_wgmma_is_there() sees: then mma does the work.
 */
#include "kernels/cuda/attention_forward.cuh"
#include "kernels/cuda/wgmma.cuh"

enum { OWN = SN_ATTN_WG_OWN, OTHER = SN_ATTN_WG_OTHER, N = OTHER / 8, ROW = 128 /* bytes */ };
enum { THREADS = SN_ATTN_WG_THREADS, BOUND = SN_HAS_WGMMA ? (int)THREADS : (int)SN_WARP };

/* n rows of a head as tiles of 64 columns side by side, swizzled; zeros beyond what there is. */
template <class E, int W>
static __device__ __forceinline__ void load_swizzled(unsigned char *to, int n,
                                                     const struct sn_mat &m, int64_t row, int rows,
                                                     int64_t col, int d)
{
    for (int i = (int)threadIdx.x; i < n * (W / 8); i += THREADS) {
        int r = i / (W / 8), c = i % (W / 8);
        bool there = r < rows && c * 8 < d;
        const E *from = (const E *)m.p + (there ? (row + r) * m.ld + col + c * 8 : 0);
        sn_copy_async(to + c / 8 * n * ROW + r * ROW + ((c % 8) ^ (r % 8)) * 16, from, there);
    }
}

template <class E, int W>
static __device__ __forceinline__ void scores(float p[N][4], const unsigned char *q,
                                              const unsigned char *k, int group)
{
#pragma unroll
    for (int l = 0; l < W / 16; l++) {
        const unsigned char *a = q + l / 4 * OWN * ROW + group * 64 * ROW + l % 4 * 32;
        const unsigned char *b = k + l / 4 * OTHER * ROW + l % 4 * 32;
        sn_wgmma(p, sn_wgmma_descriptor(a, 8 * ROW, 16), sn_wgmma_descriptor(b, 8 * ROW, 16),
                 (const E *)0);
    }
}

template <class E, int W>
static __device__ __forceinline__ void sums(float (&o)[W / 8][4], const uint32_t p[N / 2][4],
                                            const unsigned char *v)
{
#pragma unroll
    for (int l = 0; l < OTHER / 16; l++)
        sn_wgmma_turned(o, p[l], sn_wgmma_descriptor(v + l * 16 * ROW, 8 * ROW, OTHER * ROW),
                        (const E *)0);
}

template <class E, int W>
static __device__ __forceinline__ void forward(const struct sn_args &a, const struct sn_attn &t,
                                               unsigned char *shared)
{
    enum { TILE = OTHER * W * 2 };
    unsigned char *q = shared, *kv = shared + OWN * W * 2; /* k v, k v */
    struct sn_attn_block b = sn_attn_block_of(t, t.heads, true);
    struct sn_lane w = sn_lane_of();
    struct sn_attn_mask mask = sn_attn_mask_of(a, b.sample, b.head);
    int i0 = b.tile * OWN, rows = t.rows - i0 < OWN ? t.rows - i0 : OWN;
    int64_t first = b.sample * t.rows, col = (int64_t)(b.head / t.group) * t.d;
    int tiles = sn_attn_tiles_seen(t, sn_at(t.query, i0 + rows - 1), OTHER);
    int begin = sn_at(t.query, i0);
    struct sn_attn_state<W> s;
    sn_attn_start<W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
    if (tiles > 0) {
        load_swizzled<E, W>(q, OWN, a.in[0], first + i0, rows, (int64_t)b.head * t.d, t.d);
        load_swizzled<E, W>(kv, OTHER, a.in[1], first, t.rows, col, t.d);
        load_swizzled<E, W>(kv + TILE, OTHER, a.in[2], first, t.rows, col, t.d);
    }
    sn_copy_commit();
    for (int j = 0; j < tiles; j++) {
        int j0 = j * OTHER, next = j0 + OTHER;
        unsigned char *k = kv + j % 2 * 2 * TILE, *v = k + TILE,
                      *k_next = kv + (j + 1) % 2 * 2 * TILE;
        float p[N][4];
        uint32_t packed[N / 2][4];
        sn_tile_clear<N>(p);
        sn_copy_wait<0>();
        sn_wgmma_publish();
        __syncthreads(); /* this tile is here, and all are through with the last one */
        if (j + 1 < tiles) {
            load_swizzled<E, W>(k_next, OTHER, a.in[1], first + next, t.rows - next, col, t.d);
            load_swizzled<E, W>(k_next + TILE, OTHER, a.in[2], first + next, t.rows - next, col,
                                t.d);
        }
        sn_copy_commit();
        sn_wgmma_begin();
        scores<E, W>(p, q, k, w.warp / 4);
        sn_wgmma_end(p);
        bool whole = next <= t.rows && rows == OWN && sn_at(t.key, next - 1) <= begin;
        sn_attn_soften<W, N>(t, s, p, mask, j0, whole, w);
#pragma unroll
        for (int l = 0; l < N / 2; l++) {
            packed[l][0] = sn_pack<E>(p[2 * l][0], p[2 * l][1]);
            packed[l][1] = sn_pack<E>(p[2 * l][2], p[2 * l][3]);
            packed[l][2] = sn_pack<E>(p[2 * l + 1][0], p[2 * l + 1][1]);
            packed[l][3] = sn_pack<E>(p[2 * l + 1][2], p[2 * l + 1][3]);
        }
        sn_wgmma_begin();
        sums<E, W>(s.o, packed, v);
        sn_wgmma_end(s.o);
    }
    sn_copy_wait<0>();
    sn_attn_finish<E, W>(a, t, s, first, i0 + w.warp * 16, b.head, w);
}

template <class E, int W>
static __global__ void __launch_bounds__(BOUND, 1)
    wgmma_forward(const struct sn_args a, const struct sn_attn t)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        forward<E, W>(a, t, shared);
}

bool sn_attn_wgmma_is_there(const struct sn_cuda *cx, const struct sn_args *a)
{
    struct cudaFuncAttributes f;
    if (cx->device.arch != 90 || a->attr.head_dim > 128)
        return false;
    if (cudaFuncGetAttributes(&f, (const void *)wgmma_forward<sn_bf16, 128>) != cudaSuccess) {
        (void)cudaGetLastError(); /* it was not an error of ours */
        return false;
    }
    return f.maxThreadsPerBlock >= THREADS;
}

int sn_attn_wgmma_forward(struct sn_cuda *cx, const struct sn_args *a)
{
    int width = a->attr.head_dim <= 64 ? 64 : 128;
    struct sn_attn t = sn_attn_of(a, OWN);
    struct sn_shape g = sn_attn_shape(&t, t.heads, sn_attn_wgmma_shared(width));
    g.bx = THREADS;
    if (a->in[0].dtype == SN_BF16)
        return width == 64 ? sn_launch(cx, wgmma_forward<sn_bf16, 64>, g, *a, t)
                           : sn_launch(cx, wgmma_forward<sn_bf16, 128>, g, *a, t);
    return width == 64 ? sn_launch(cx, wgmma_forward<sn_f16, 64>, g, *a, t)
                       : sn_launch(cx, wgmma_forward<sn_f16, 128>, g, *a, t);
}
