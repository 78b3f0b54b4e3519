/*
 * attention_mma.cuh - what the mma kernels of attention share: tiles of 16-bit rows in shared
 * memory and their fragments (mma.cuh).
 */
#ifndef SN_CUDA_ATTENTION_MMA_CUH
#define SN_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

/* This thread within its warp's 16 rows: rows g and g + 8, columns 2t and 2t + 1 of each 8. */
struct sn_lane {
    int warp, lane, g, t;
};

/* Anew at each call: what a loop does not need must not stay in a register through it. */
static __device__ __forceinline__ struct sn_lane sn_lane_of(void)
{
    int thread = (int)threadIdx.x;
#ifdef __CUDA_ARCH__
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
#endif
    int lane = thread % SN_WARP;
    struct sn_lane w = {thread / SN_WARP, lane, lane / 4, lane % 4};
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
 * that there are and the head's d columns. A thread has one column of pieces, and rows at one
 * distance. */
template <class E, int W>
static __device__ __forceinline__ void sn_tile_load(E *to, int n, const struct sn_mat &m,
                                                    int64_t row, int rows, int64_t col, int d)
{
    enum { PIECES = W / 8, AT_ONCE = SN_ATTN_THREADS / PIECES };
    int r = (int)threadIdx.x / PIECES, c = (int)threadIdx.x % PIECES * 8;
    int there = c < d ? rows - r : 0;
    const E *from = (const E *)m.p + (row + r) * m.ld + col + c;
    to += r * (W + 8) + c;
#pragma unroll
    for (int i = 0; i < n; i += AT_ONCE)
        sn_copy_async(to + i * (W + 8), from + i * m.ld, i < there);
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

/* Two neighbouring elements of y become, or grow by, x; `paired`:
 * they are one aligned word of E. */
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

/* How many tiles of keys a position sees any of. */
template <enum sn_attn_kind K>
static __device__ __forceinline__ int sn_attn_tiles_seen(const struct sn_attn &t, int last,
                                                         int tile)
{
    if (K == SN_ATTN_PLAIN)
        return last / tile + 1;
    int n = 0;
    while (n * tile < t.rows && sn_at(t.key, n * tile) <= last)
        n++;
    return n;
}

/* How many tiles of keys, from the first on, a position sees all of. */
template <enum sn_attn_kind K>
static __device__ __forceinline__ int sn_attn_tiles_whole(const struct sn_attn &t, int first,
                                                          int tile)
{
    if (K == SN_ATTN_PLAIN)
        return (first + 1) / tile;
    int n = 0;
    while ((n + 1) * tile <= t.rows && sn_at(t.key, (n + 1) * tile - 1) <= first)
        n++;
    return n;
}

/*
 * Which of a thread's 2 N pairs with `row`, a position, dropout keeps: bit 2 n + e is column c0 + 8
 * n + 2 t + e of a row of scores. TURNED: the row is a key and columns are queries. A loop that is
 * not unrolled: random words are half of a page of instructions.
 */
template <int N, bool TURNED>
static __device__ __forceinline__ uint32_t sn_attn_kept(struct sn_attn_mask &mask,
                                                        const struct sn_key_span &columns, int row,
                                                        int c0, const struct sn_lane &w)
{
    uint32_t kept = 0;
#pragma unroll 1
    for (int i = 0; i < 2 * N; i++) {
        int c = sn_at(columns, c0 + i / 2 * 8 + w.t * 2 + i % 2);
        if (sn_attn_factor(mask, TURNED ? c : row, TURNED ? row : c) != 0.0f)
            kept |= 1u << i;
    }
    return kept;
}

/* What pair i of those is multiplied with. */
static __device__ __forceinline__ float sn_attn_kept_factor(const struct sn_attn_mask &mask,
                                                            uint32_t kept, int i)
{
    return kept >> i & 1 ? mask.scale : 0.0f;
}

/* Op::launch<K>(cx, a, ...) for what the operation's loops have to ask. */
template <class Op, class... P>
static int sn_by_kind(struct sn_cuda *cx, const struct sn_args *a, P... p)
{
    switch (sn_attn_kind_of(a)) {
    case SN_ATTN_PLAIN:
        return Op::template launch<SN_ATTN_PLAIN>(cx, a, p...);
    case SN_ATTN_PLACED:
        return Op::template launch<SN_ATTN_PLACED>(cx, a, p...);
    default:
        return Op::template launch<SN_ATTN_DROPPED>(cx, a, p...);
    }
}

/* The same of Op<E, W>, for the storage type and the width that heads are padded to. */
template <template <class, int> class Op, class E, class... P>
static int sn_by_width(struct sn_cuda *cx, const struct sn_args *a, P... p)
{
    switch (sn_attn_mma_width(a->attr.attention.head_dim)) {
    case 32:
        return sn_by_kind<Op<E, 32>>(cx, a, p...);
    case 64:
        return sn_by_kind<Op<E, 64>>(cx, a, p...);
    case 128:
        return sn_by_kind<Op<E, 128>>(cx, a, p...);
    default:
        return sn_by_kind<Op<E, 256>>(cx, a, p...);
    }
}

#endif
