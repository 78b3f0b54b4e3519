/*
 * attention_wgmma.cuh - what the kernels of attention on warpgroup products share (sm_90a,
 * wgmma.cuh): copies to tiles in shared memory, products of tiles, whether a kernel is there.
 *
 * A block has two warpgroups. Each has 64 rows of the block's own tile of 128, and both walk the
 * other tiles, which come by asynchronous copies. Tiles are rows of W columns: 64 columns are 128
 * bytes, swizzled, and 128 columns are two such tiles, one behind the other.
 */
#ifndef SN_CUDA_ATTENTION_WGMMA_CUH
#define SN_CUDA_ATTENTION_WGMMA_CUH

#include "kernels/cuda/attention_mma.cuh"
#include "kernels/cuda/wgmma_shared.cuh"

enum { SN_ATTN_WG_ROW = 128 /* bytes */ };
/* Where the file was compiled for another target a kernel is a stub that is bounded to one warp. */
enum { SN_ATTN_WG_BOUND = SN_HAS_WGMMA ? (int)SN_ATTN_WG_THREADS : (int)SN_WARP };

/* Is this kernel more than a stub, on this device and for heads of this width? */
static inline bool sn_attn_wgmma_has(const struct sn_cuda *cx, const struct sn_args *a,
                                     const void *kernel)
{
    struct cudaFuncAttributes f;
    if (cx->device.arch != 90 || a->attr.attention.head_dim > 128)
        return false;
    if (cudaFuncGetAttributes(&f, kernel) != cudaSuccess) {
        (void)cudaGetLastError(); /* it was not an error of ours */
        return false;
    }
    return f.maxThreadsPerBlock >= SN_ATTN_WG_THREADS;
}

/* This thread's part of a tile of rows of W columns: one column of pieces of 16 bytes, and rows at
 * a distance that is a multiple of 8. */
template <class E, int W> struct sn_attn_part {
    enum { PIECES = W / 8, AT_ONCE = SN_ATTN_WG_THREADS / PIECES, NEVER = 1 << 30 };
    int r, c, hidden; /* hidden: so many rows must there be before the first one is this thread's */

    __device__ sn_attn_part(int d, const struct sn_lane &w)
        : r((w.warp * SN_WARP + w.lane) / PIECES), c((w.warp * SN_WARP + w.lane) % PIECES),
          hidden(c * 8 < d ? r : (int)NEVER)
    {
    }
    __device__ const E *from(const struct sn_mat &m, int64_t row, int64_t col) const
    {
        return (const E *)m.p + (row + r) * m.ld + col + c * 8;
    }
    /* n rows as tiles of 64 columns side by side, swizzled; zeros beyond the `rows` and columns
     * that there are. */
    __device__ void load(unsigned char *to, int n, const E *from, int64_t ld, int rows) const
    {
        int there = rows - hidden;
        to += c / 8 * n * SN_ATTN_WG_ROW + r * SN_ATTN_WG_ROW + ((c % 8) ^ (r % 8)) * 16;
#pragma unroll
        for (int i = 0; i < n; i += AT_ONCE)
            sn_copy_async(to + i * SN_ATTN_WG_ROW, from + i * ld, i < there);
    }
};

/* A tile whose rows are rows of A or columns of B; the same of so many rows,
 * which are depth of B. */
static __device__ __forceinline__ uint64_t sn_attn_tile_at(const unsigned char *tile)
{
    return sn_wgmma_descriptor(tile, 8 * SN_ATTN_WG_ROW, 16);
}
static __device__ __forceinline__ uint64_t sn_attn_turned(uint64_t tile, int rows)
{
    return tile + ((uint64_t)((rows * SN_ATTN_WG_ROW - 16) >> 4) << 16);
}

/* A descriptor of what lies so many bytes further on;
 * addresses do not carry into its upper half. */
static __device__ __forceinline__ uint64_t sn_further(uint64_t descriptor, int bytes)
{
    return descriptor >> 32 << 32 | ((uint32_t)descriptor + (uint32_t)bytes / 16);
}

/* s = A B^T over W columns: 64 rows of the block's own tile, all N x 8 rows of the other. */
template <class E, int W, int N>
static __device__ __forceinline__ void sn_attn_scores(float (&s)[N][4], uint64_t own,
                                                      uint64_t other)
{
    sn_wgmma_shared<0, 0, 0>(s, own, other, (const E *)0);
#pragma unroll
    for (int l = 1; l < W / 16; l++)
        sn_wgmma_shared<0, 0>(
            s, sn_further(own, l / 4 * SN_ATTN_WG_OWN * SN_ATTN_WG_ROW + l % 4 * 32),
            sn_further(other, l / 4 * N * 8 * SN_ATTN_WG_ROW + l % 4 * 32), (const E *)0);
}

/* sum += P B of L x 16 rows of the other tile, turned, from its row `first` on. */
template <class E, int W, int L>
static __device__ __forceinline__ void sn_attn_sums(float (&sum)[W / 8][4], const uint32_t p[L][4],
                                                    uint64_t other, int first)
{
#pragma unroll
    for (int l = 0; l < L; l++)
        sn_wgmma_turned(sum, p[l], sn_further(other, (first + l * 16) * SN_ATTN_WG_ROW),
                        (const E *)0);
}

/* The A fragment of 16 columns, from two fragments of sums. */
template <class E>
static __device__ __forceinline__ void sn_attn_pack(uint32_t a[4], const float p[2][4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        a[i] = sn_pack<E>(p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]);
}

#endif
