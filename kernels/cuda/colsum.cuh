/*
 * colsum.cuh - sums of columns, for COLSUM and the gradients of norms' weights.
 *
 * Two kernels: chunks of rows (geometry.h) into scratch, then the chunks of all outputs into them.
 * Inside a group of SN_SUM_ROWS / SN_SUM_Y rows sums are fp32, beyond it double, as on the CPU; all
 * in one order whatever the device. In any order (attr.any_order) the first kernel adds its chunks
 * to the output by atomics.
 *
 * Op::OUTS sums at once: Op::terms(a, r, c, t) gives the terms t[OUTS][N] of row r.
 */
#ifndef SN_CUDA_COLSUM_CUH
#define SN_CUDA_COLSUM_CUH

#include "kernels/cuda/device.cuh"

/* The rows of one group that a thread has, from `row` on; all of them where the group is whole. */
template <class Op, bool WHOLE>
static __device__ __forceinline__ void sn_sum_group(const struct sn_args &a, int64_t row,
                                                    int64_t end, int64_t c,
                                                    double sum[Op::OUTS][Op::N])
{
    enum { N = Op::N, OUTS = Op::OUTS, PER_GROUP = SN_SUM_ROWS / SN_SUM_Y };
    float sub[OUTS][N] = {{0}};
#pragma unroll
    for (int i = 0; i < PER_GROUP; i++) {
        float t[OUTS][N];
        if (!WHOLE && row + i * SN_SUM_Y >= end)
            break;
        Op::terms(a, row + i * SN_SUM_Y, c, t);
#pragma unroll
        for (int o = 0; o < OUTS; o++)
#pragma unroll
            for (int e = 0; e < N; e++)
                sub[o][e] += t[o][e];
    }
#pragma unroll
    for (int o = 0; o < OUTS; o++)
#pragma unroll
        for (int e = 0; e < N; e++)
            sum[o][e] += (double)sub[o][e];
}

/* The sums of a block's rows of threads, in order: of its item's element e by row e. */
template <class Op>
static __device__ __forceinline__ void sn_put_chunk(const struct sn_args &a, int64_t c,
                                                    int64_t cols, const double sum[Op::OUTS][Op::N],
                                                    double *partial)
{
    enum { N = Op::N, OUTS = Op::OUTS };
    static_assert((int)N <= (int)SN_SUM_Y, "each element has a row of threads");
    __shared__ double room[SN_SUM_Y][N][SN_SUM_X];
    int e = (int)threadIdx.y;
#pragma unroll
    for (int o = 0; o < OUTS; o++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < N; i++)
            room[threadIdx.y][i][threadIdx.x] = sum[o][i];
        __syncthreads();
        if (e >= N || c >= cols)
            continue;
        double all = 0;
#pragma unroll
        for (int y = 0; y < SN_SUM_Y; y++)
            all += room[y][e][threadIdx.x];
        if (!a.attr.any_order)
            partial[((int64_t)o * gridDim.y + blockIdx.y) * cols + c + e] = all;
        else if (a.out[o].p)
            (void)atomicAdd((float *)a.out[o].p + c + e, (float)all);
    }
}

template <class Op>
static __global__ void __launch_bounds__(SN_SUM_X *SN_SUM_Y)
    sn_sum_chunks_of(const struct sn_args a, int64_t rows, int64_t cols, double *partial)
{
    enum { N = Op::N, OUTS = Op::OUTS };
    int64_t chunk = (rows + gridDim.y - 1) / gridDim.y;
    chunk = (chunk + SN_SUM_ROWS - 1) / SN_SUM_ROWS * SN_SUM_ROWS;
    int64_t first = blockIdx.y * chunk, end = first + chunk < rows ? first + chunk : rows;
    int64_t strips = (cols / N + SN_SUM_X - 1) / SN_SUM_X;
    for (int64_t strip = blockIdx.x; strip < strips; strip += gridDim.x) {
        int64_t c = (strip * SN_SUM_X + threadIdx.x) * N;
        double sum[OUTS][N] = {{0}};
        for (int64_t group = first; group < end && c < cols; group += SN_SUM_ROWS)
            if (group + SN_SUM_ROWS <= end)
                sn_sum_group<Op, true>(a, group + threadIdx.y, end, c, sum);
            else
                sn_sum_group<Op, false>(a, group + threadIdx.y, end, c, sum);
        sn_put_chunk<Op>(a, c, cols, sum, partial);
    }
}

/* Each output (+)= its chunks' sums: chunks y, y + SN_SUM_AT_ONCE, ... by row y of threads, then
 * the rows in order. */
static __global__ void __launch_bounds__(SN_SUM_X *SN_SUM_AT_ONCE)
    sn_add_chunks(const struct sn_args a, const double *partial, int64_t chunks, int64_t cols)
{
    __shared__ double room[SN_SUM_AT_ONCE][SN_SUM_X];
    int o = (int)blockIdx.y;
    float *out = (float *)a.out[o].p;
    for (int64_t base = (int64_t)blockIdx.x * SN_SUM_X; base < cols && out;
         base += (int64_t)gridDim.x * SN_SUM_X) {
        int64_t c = base + threadIdx.x;
        double sum = 0;
#pragma unroll 4
        for (int64_t k = threadIdx.y; k < chunks && c < cols; k += SN_SUM_AT_ONCE)
            sum += partial[(o * chunks + k) * cols + c];
        __syncthreads();
        room[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y > 0 || c >= cols)
            continue;
        sum = a.acc[o] == SN_ADD ? (double)out[c] : 0.0;
#pragma unroll
        for (int y = 0; y < SN_SUM_AT_ONCE; y++)
            sum += room[y][threadIdx.x];
        out[c] = (float)sum;
    }
}

template <class Op>
static int sn_sum_columns(struct sn_cuda *cx, const struct sn_args *a, int64_t rows, int64_t cols)
{
    double *partial = (double *)a->scratch;
    bool any_order = a->attr.any_order;
    int rc = 0;
    for (int o = 0; o < Op::OUTS && rc == 0; o++)
        if (any_order && a->out[o].p && a->acc[o] == SN_WRITE)
            rc = sn_launched(
                cx, cudaMemsetAsync(a->out[o].p, 0, (size_t)cols * sizeof(float), cx->stream));
    rc = rc ? rc
            : sn_launch(cx, sn_sum_chunks_of<Op>, sn_shape_sums(rows, cols / Op::N), *a, rows, cols,
                        partial);
    return rc || any_order ? rc
                           : sn_launch(cx, sn_add_chunks, sn_shape_add_sums(cols, Op::OUTS), *a,
                                       partial, sn_sum_chunks(rows), cols);
}

#endif
