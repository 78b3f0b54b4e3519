/*
 * attention_mma.cuh - what the mma kernels of attention share: tiles of 16-bit rows in shared
 * memory and their fragments (mma.cuh).
 */
#ifndef SN_CUDA_ATTENTION_MMA_CUH
#define SN_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

#define SN_LOG2E 1.4426950408889634f
#define SN_LN2   0.6931471805599453f

/* This thread within its warp's 16 rows: rows g and g + 8, columns 2t and 2t + 1 of each 8. */
struct sn_lane {
    int warp, lane, g, t;
};

static __device__ __forceinline__ struct sn_lane sn_lane_of(void)
{
    int lane = (int)threadIdx.x % SN_WARP;
    struct sn_lane w = {(int)threadIdx.x / SN_WARP, lane, lane / 4, lane % 4};
    return w;
}

template <class E> static __device__ __forceinline__ uint32_t sn_pack(float low, float high)
{
    union both {
        E e[2];
        uint32_t u;
        __device__ both() : u(0)
        {
        }
    } x;
    sn_narrow(&x.e[0], low);
    sn_narrow(&x.e[1], high);
    return x.u;
}

/* Rows of a head to a tile of n rows of W + 8 elements, asynchronously; zeros beyond the `rows`
 * that there are and the head's d columns. */
template <class E, int W>
static __device__ __forceinline__ void sn_tile_load(E *to, int n, const struct sn_mat &m,
                                                    int64_t row, int rows, int64_t col, int d)
{
    for (int i = (int)threadIdx.x; i < n * (W / 8); i += SN_ATTN_THREADS) {
        int r = i / (W / 8), c = i % (W / 8) * 8;
        bool there = r < rows && c < d;
        const E *from = (const E *)m.p + (there ? (row + r) * m.ld + col + c : 0);
        sn_copy_async(to + r * (W + 8) + c, from, there);
    }
}

/* A: 16 rows from row0 on, 16 columns from `col` on. */
template <class E, int W>
static __device__ __forceinline__ void sn_tile_a(uint32_t a[4], const E *tile, int row0, int col,
                                                 int lane)
{
    sn_ldmatrix(a, tile + (row0 + lane % 16) * (W + 8) + col + lane / 16 * 8);
}

/* B, twice: the tile's rows are columns of B. Rows row0 .. + 15, depth col .. + 15. */
template <class E, int W>
static __device__ __forceinline__ void sn_tile_b(uint32_t b[4], const E *tile, int row0, int col,
                                                 int lane)
{
    sn_ldmatrix(b, tile + (row0 + lane / 16 * 8 + lane % 8) * (W + 8) + col + lane / 8 % 2 * 8);
}

/* B, twice: the tile's rows are depth. Depth row0 .. + 15, columns col .. + 15. */
template <class E, int W>
static __device__ __forceinline__ void sn_tile_b_turned(uint32_t b[4], const E *tile, int row0,
                                                        int col, int lane)
{
    sn_ldmatrix_turned(b, tile + (row0 + lane % 16) * (W + 8) + col + lane / 16 * 8);
}

/* c[N][4] += A B^T: 16 rows of one tile from row0 on, N x 8 rows of the other, over W columns. */
template <class E, int W, int N>
static __device__ __forceinline__ void sn_tile_scores(float c[N][4], const E *rows, int row0,
                                                      const E *cols, int lane)
{
#pragma unroll
    for (int k = 0; k < W; k += 16) {
        uint32_t a[4], b[4];
        sn_tile_a<E, W>(a, rows, row0, k, lane);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            sn_tile_b<E, W>(b, cols, n * 8, k, lane);
            sn_mma(c[n], a, b, (const E *)0);
            sn_mma(c[n + 1], a, b + 2, (const E *)0);
        }
    }
}

/* sum[W / 8][4] += P B: 16 rows of P, as N tiles of scores, B's N x 8 rows of W columns. */
template <class E, int W, int N>
static __device__ __forceinline__ void sn_tile_sums(float sum[W / 8][4], const float p[N][4],
                                                    const E *tile, int lane)
{
#pragma unroll
    for (int k = 0; k < N; k += 2) {
        uint32_t a[4] = {sn_pack<E>(p[k][0], p[k][1]), sn_pack<E>(p[k][2], p[k][3]),
                         sn_pack<E>(p[k + 1][0], p[k + 1][1]),
                         sn_pack<E>(p[k + 1][2], p[k + 1][3])};
#pragma unroll
        for (int n = 0; n < W / 8; n += 2) {
            uint32_t b[4];
            sn_tile_b_turned<E, W>(b, tile, k * 8, n * 8, lane);
            sn_mma(sum[n], a, b, (const E *)0);
            sn_mma(sum[n + 1], a, b + 2, (const E *)0);
        }
    }
}

template <int N> static __device__ __forceinline__ void sn_tile_clear(float c[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            c[n][i] = 0.0f;
}

/* Over the four lanes that share a row. */
static __device__ __forceinline__ float sn_quad_max(float x)
{
    x = sn_max(x, __shfl_xor_sync((unsigned)SN_ALL_LANES, x, 1));
    return sn_max(x, __shfl_xor_sync((unsigned)SN_ALL_LANES, x, 2));
}

static __device__ __forceinline__ float sn_quad_sum(float x)
{
    x += __shfl_xor_sync((unsigned)SN_ALL_LANES, x, 1);
    return x + __shfl_xor_sync((unsigned)SN_ALL_LANES, x, 2);
}

/* Two neighbouring elements of y become, or grow by, x; `paired`: they are one aligned word of E.
 */
template <class E>
static __device__ __forceinline__ void sn_put_pair(const struct sn_mat &y, enum sn_acc acc,
                                                   bool paired, int64_t row, int64_t col,
                                                   const float x[2])
{
    if (paired && acc == SN_WRITE) {
        *(uint32_t *)((E *)y.p + row * y.ld + col) = sn_pack<E>(x[0], x[1]);
        return;
    }
    sn_attn_put(y, acc, row, col, x[0]);
    sn_attn_put(y, acc, row, col + 1, x[1]);
}

template <class E> static __device__ __forceinline__ bool sn_is_paired(const struct sn_mat &y)
{
    return y.dtype == sn_type<E>::id && (uintptr_t)y.p % 4 == 0 && y.ld % 2 == 0;
}

/* kernel<E, W>(a, t, ...) for the storage type and the head's width. */
#define SN_MMA_LAUNCH_WIDTHS(kernel, E, cx, width, shape, ...)                                     \
    ((width) == 32    ? sn_launch(cx, kernel<E, 32>, shape, __VA_ARGS__)                           \
     : (width) == 64  ? sn_launch(cx, kernel<E, 64>, shape, __VA_ARGS__)                           \
     : (width) == 128 ? sn_launch(cx, kernel<E, 128>, shape, __VA_ARGS__)                          \
                      : sn_launch(cx, kernel<E, 256>, shape, __VA_ARGS__))
#define SN_MMA_LAUNCH(kernel, cx, a, width, shape, ...)                                            \
    ((a)->in[0].dtype == SN_BF16                                                                   \
         ? SN_MMA_LAUNCH_WIDTHS(kernel, sn_bf16, cx, width, shape, __VA_ARGS__)                    \
         : SN_MMA_LAUNCH_WIDTHS(kernel, sn_f16, cx, width, shape, __VA_ARGS__))

#endif
