/*
 * norm_dx.cuh - the gradients of a norm in one pass: dx, and the sums over rows dw and db.
 *
 * A block walks a chunk of rows. A row of dy and x is read once, as the 16 bytes that were loaded,
 * and stays in registers until dx is written. A thread has the same columns of every row, so it
 * adds up their terms of dw and db in registers. At the end of a chunk the block's sums go to
 * scratch, and a second kernel adds the chunks in their order: the result depends on shapes alone.
 * In any order (attr.any_order) the blocks add to the outputs by atomics.
 *
 * Sums: fp32 over the rows of one thread (SN_NORM_RUN at most), fp32 for a chunk, double beyond.
 * Rows wider than registers go twice through memory (norm.cuh, colsum.cuh).
 * Norm is what norm.cuh says; of a row of which x is a slice, the means are those of its parts.
 */
#ifndef SN_CUDA_NORM_DX_CUH
#define SN_CUDA_NORM_DX_CUH

#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/norm.cuh"

/* Sums of both values over the threads of a row, for all of them; a block has several rows. */
static __device__ __forceinline__ void sn_norm_row_sums(double v[2],
                                                        double room[2][SN_BLOCK / SN_WARP])
{
    v[0] = sn_warp_sum(v[0]);
    v[1] = sn_warp_sum(v[1]);
    if (blockDim.x == SN_WARP)
        return;
    int warps = (int)blockDim.x / SN_WARP, first = (int)threadIdx.y * warps;
    __syncthreads(); /* the last reader of `room` is through */
    if (threadIdx.x % SN_WARP == 0)
        for (int k = 0; k < 2; k++)
            room[k][first + (int)threadIdx.x / SN_WARP] = v[k];
    __syncthreads();
    for (int k = 0; k < 2; k++) {
        v[k] = 0;
        for (int w = 0; w < warps; w++)
            v[k] += room[k][first + w];
    }
}

/* The block's sums of its rows' terms: to its part of `partial`, or added to the outputs. */
template <class A, int OUTS>
static __device__ __forceinline__ void sn_norm_put(const struct sn_args &a,
                                                   const float sum[OUTS][SN_NORM_KEPT(OUTS)][A::N],
                                                   float *partial)
{
    enum { N = A::N, KEPT = SN_NORM_KEPT(OUTS) };
    __shared__ float room[SN_BLOCK * A::N];
    int threads = (int)(blockDim.x * blockDim.y), own = (int)blockDim.x * N;
    int t = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    int64_t cols = a.in[SN_NORM_DX_X].cols;
#pragma unroll
    for (int o = 0; o < OUTS; o++)
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            __syncthreads();
#pragma unroll
            for (int e = 0; e < N; e++)
                room[t * N + e] = sum[o][i][e];
            __syncthreads();
            for (int e = t; e < own; e += threads) {
                int64_t c = (int64_t)i * own + e;
                double all = 0;
                for (int y = 0; y < (int)blockDim.y; y++)
                    all += (double)room[y * own + e];
                if (c >= cols)
                    continue;
                if (!a.attr.any_order)
                    partial[((int64_t)o * gridDim.x + blockIdx.x) * cols + c] = (float)all;
                else if (a.out[1 + o].p)
                    (void)atomicAdd((float *)a.out[1 + o].p + c, (float)all);
            }
        }
}

/* One row's dx, and its terms added to `sum`. */
template <class A, class Norm, int OUTS>
static __device__ __forceinline__ void
sn_norm_row(const struct sn_args &a, int64_t r, bool there, double room[2][SN_BLOCK / SN_WARP],
            float sum[OUTS ? OUTS : 1][SN_NORM_KEPT(Norm::OUTS)][A::N])
{
    enum { N = A::N, KEPT = SN_NORM_KEPT(Norm::OUTS) };
    typename A::raw raw_x[KEPT], raw_dy[KEPT];
    float x[N], dy[N], w[N];
    int cols = (int)a.in[SN_NORM_DX_X].cols, first = (int)threadIdx.x * N,
        step = (int)blockDim.x * N;
    Norm norm(a.in[SN_NORM_DX_STATS], there ? r : 0);
    double along[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (there && first + i * step < cols) {
            raw_dy[i] = A::fetch(a.in[SN_NORM_DX_DY], r, first + i * step);
            raw_x[i] = A::fetch(a.in[SN_NORM_DX_X], r, first + i * step);
        }
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (there && first + i * step < cols) {
            float plain = 0, dot = 0;
            A::widen(a.in[SN_NORM_DX_DY], raw_dy[i], dy);
            A::widen(a.in[SN_NORM_DX_X], raw_x[i], x);
            A::load(a.in[SN_NORM_DX_W], 0, first + i * step, w);
#pragma unroll
            for (int e = 0; e < N; e++) {
                w[e] += a.attr.shift;
                plain += dy[e] * w[e];
                dot += dy[e] * w[e] * norm.along(x[e]);
                if (OUTS > 0)
                    sum[0][i][e] += dy[e] * norm.at(x[e]);
                if (OUTS > 1)
                    sum[OUTS > 1][i][e] += dy[e];
            }
            along[0] += (double)plain;
            along[1] += (double)dot;
        }
    if (a.in[SN_NORM_DX_PARTS].p) {
        sn_parts_means<Norm>(a, there ? r : 0, along);
    } else {
        sn_norm_row_sums(along, room);
        along[0] /= (double)cols;
        along[1] /= (double)cols;
    }
    norm.close(along);
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (there && first + i * step < cols) {
            float g[N];
            A::widen(a.in[SN_NORM_DX_DY], raw_dy[i], dy);
            A::widen(a.in[SN_NORM_DX_X], raw_x[i], x);
            A::load(a.in[SN_NORM_DX_W], 0, first + i * step, w);
            if (a.in[SN_NORM_DX_ADDEND].p)
                A::load(a.in[SN_NORM_DX_ADDEND], r, first + i * step, g);
#pragma unroll
            for (int e = 0; e < N; e++) {
                float dx = norm.dx(dy[e] * (a.attr.shift + w[e]), x[e]);
                w[e] = a.in[SN_NORM_DX_ADDEND].p ? g[e] + dx : dx;
            }
            A::store(a.out[SN_NORM_DX_DX], r, first + i * step, w);
        }
}

template <class A, class Norm, int OUTS>
static __global__ void __launch_bounds__(SN_BLOCK, 2)
    sn_norm_chunk(const struct sn_args a, int64_t chunk, float *partial)
{
    __shared__ double room[2][SN_BLOCK / SN_WARP];
    float sum[OUTS ? OUTS : 1][SN_NORM_KEPT(Norm::OUTS)][A::N] = {{{0}}};
    int64_t first = (int64_t)blockIdx.x * chunk, rows = a.in[SN_NORM_DX_X].rows;
    int64_t end = first + chunk < rows ? first + chunk : rows;
    for (int64_t base = first; base < end; base += blockDim.y) {
        int64_t r = base + threadIdx.y;
        sn_norm_row<A, Norm, OUTS>(a, r, r < end, room, sum);
    }
    if constexpr (OUTS > 0)
        sn_norm_put<A, OUTS>(a, sum, partial);
}

/* out[1 + y of the grid] (+)= the chunks' sums: a column's are added by SN_NORM_THREADS threads, each
 * every SN_NORM_THREADS-th chunk, and then in the order of the threads. */
static __global__ void __launch_bounds__(SN_WARP *SN_NORM_THREADS)
    sn_norm_sums(const struct sn_args a, int64_t chunks, const float *partial)
{
    __shared__ double room[SN_NORM_THREADS][SN_WARP];
    int o = (int)blockIdx.y;
    int64_t cols = a.in[SN_NORM_DX_X].cols, c = (int64_t)blockIdx.x * SN_WARP + threadIdx.x;
    float *y = (float *)a.out[1 + o].p;
    double sum = 0;
    if (!y)
        return;
    for (int64_t k = threadIdx.y; k < chunks && c < cols; k += SN_NORM_THREADS)
        sum += (double)partial[(o * chunks + k) * cols + c];
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || c >= cols)
        return;
    for (int k = 1; k < SN_NORM_THREADS; k++)
        sum += room[k][threadIdx.x];
    y[c] = (float)(a.acc[1 + o] == SN_ADD ? (double)y[c] + sum : sum);
}

template <class A, class Norm>
static int sn_norm_one_pass(struct sn_cuda *cx, const struct sn_args *a)
{
    int64_t rows = a->in[SN_NORM_DX_X].rows, cols = a->in[SN_NORM_DX_X].cols, width = cols / A::N;
    int64_t chunk = sn_norm_chunk_rows(rows, width, Norm::OUTS), chunks = sn_ceil_div(rows, chunk);
    float *partial = (float *)a->scratch;
    struct sn_shape g = sn_shape_norm_dx(rows, width, Norm::OUTS);
    int rc = 0;
    if (!a->out[SN_NORM_DX_DW].p && !a->out[SN_NORM_DX_DB].p)
        return sn_launch(cx, sn_norm_chunk<A, Norm, 0>, g, *a, chunk, partial);
    for (int o = 1; o <= Norm::OUTS && rc == 0; o++)
        if (a->attr.any_order && a->out[o].p && a->acc[o] == SN_WRITE)
            rc = sn_launched(
                cx, cudaMemsetAsync(a->out[o].p, 0, (size_t)cols * sizeof(float), cx->stream));
    rc = rc ? rc : sn_launch(cx, sn_norm_chunk<A, Norm, Norm::OUTS>, g, *a, chunk, partial);
    if (rc || a->attr.any_order)
        return rc;
    return sn_launch(cx, sn_norm_sums, sn_shape_norm_sums(cols, Norm::OUTS), *a, chunks, partial);
}

/* The operands of _DW among those of _DX. */
static inline struct sn_args sn_norm_dw_of(const struct sn_args *a)
{
    struct sn_args b = *a;
    b.in[SN_NORM_DW_STATS] = a->in[SN_NORM_DX_STATS];
    for (int o = 0; o < 2; o++) {
        b.out[o] = a->out[1 + o];
        b.acc[o] = a->acc[1 + o];
    }
    return b;
}

/* A row that no block keeps in its registers. dw first: dx may take the place of dy. */
template <class A, class Norm>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) sn_norm_dx_wide(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_DX_X];
    for (int64_t r = sn_first_row(); r < x.rows; r += sn_row_step()) {
        Norm norm(a.in[SN_NORM_DX_STATS], r);
        sn_row<A, false> row(x, r, true);
        double mean[2];
        if (a.in[SN_NORM_DX_PARTS].p)
            sn_parts_means<Norm>(a, r, mean);
        else
            sn_weighted_means(a, row, true, norm, room, mean);
        norm.close(mean);
        row.each(true, [&](int64_t c, const float *v) {
            float dy[N], w[N], g[N];
            A::load(a.in[SN_NORM_DX_DY], r, c, dy);
            A::load(a.in[SN_NORM_DX_W], 0, c, w);
            if (a.in[SN_NORM_DX_ADDEND].p)
                A::load(a.in[SN_NORM_DX_ADDEND], r, c, g);
#pragma unroll
            for (int e = 0; e < N; e++) {
                float dx = norm.dx(dy[e] * (a.attr.shift + w[e]), v[e]);
                w[e] = a.in[SN_NORM_DX_ADDEND].p ? g[e] + dx : dx;
            }
            A::store(a.out[SN_NORM_DX_DX], r, c, w);
        });
    }
}

/* Dw: the terms of _DW, as colsum.cuh has them. */
template <class A, class Norm, class Dw>
static int sn_norm_dx(struct sn_cuda *cx, const struct sn_args *a)
{
    int64_t rows = a->in[SN_NORM_DX_X].rows, cols = a->in[SN_NORM_DX_X].cols, width = cols / A::N;
    if (sn_norm_is_kept(width, Norm::OUTS))
        return sn_norm_one_pass<A, Norm>(cx, a);
    int rc = 0;
    if (a->out[SN_NORM_DX_DW].p || a->out[SN_NORM_DX_DB].p) {
        struct sn_args b = sn_norm_dw_of(a);
        rc = sn_sum_columns<Dw>(cx, &b, rows, cols);
    }
    return rc ? rc : sn_launch(cx, sn_norm_dx_wide<A, Norm>, sn_shape_rows(rows, width), *a);
}

#endif
