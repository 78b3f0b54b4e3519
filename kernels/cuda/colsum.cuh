/*
 * colsum.cuh - sums of columns, for COLSUM and the gradients of norms' weights.
 *
 * Two kernels: chunks of rows (geometry.h) into scratch, then chunk after chunk into the output.
 * Inside a group of SN_SUM_ROWS / SN_SUM_Y rows sums are fp32, beyond it double, as on the CPU; all
 * in one order whatever the device. In any order (attr.any_order) the first kernel adds its chunks
 * to the output by atomics.
 *
 * Op::OUTS sums at once: Op::terms(a, r, c, t) gives the terms t[OUTS][N] of row r.
 */
#ifndef SN_CUDA_COLSUM_CUH
#define SN_CUDA_COLSUM_CUH

#include "kernels/cuda/device.cuh"

template <class Op>
static __global__ void __launch_bounds__(SN_SUM_X *SN_SUM_Y)
    sn_sum_chunks_of(const struct sn_args a, int64_t rows, int64_t cols, double *partial)
{
    enum { N = Op::N, OUTS = Op::OUTS, PER_GROUP = SN_SUM_ROWS / SN_SUM_Y };
    __shared__ double room[SN_SUM_Y][SN_SUM_X];
    int64_t chunk = (rows + gridDim.y - 1) / gridDim.y;
    chunk = (chunk + SN_SUM_ROWS - 1) / SN_SUM_ROWS * SN_SUM_ROWS;
    int64_t first = blockIdx.y * chunk, end = first + chunk < rows ? first + chunk : rows;
    int64_t strips = (cols / N + SN_SUM_X - 1) / SN_SUM_X;
    for (int64_t strip = blockIdx.x; strip < strips; strip += gridDim.x) {
        int64_t c = (strip * SN_SUM_X + threadIdx.x) * N;
        double sum[OUTS][N] = {{0}};
        for (int64_t group = first + threadIdx.y; group < end && c < cols; group += SN_SUM_ROWS) {
            float sub[OUTS][N] = {{0}}, t[OUTS][N];
            for (int i = 0; i < PER_GROUP && group + i * SN_SUM_Y < end; i++) {
                Op::terms(a, group + i * SN_SUM_Y, c, t);
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
#pragma unroll
        for (int o = 0; o < OUTS; o++)
#pragma unroll
            for (int e = 0; e < N; e++) {
                __syncthreads();
                room[threadIdx.y][threadIdx.x] = sum[o][e];
                __syncthreads();
                if (threadIdx.y != 0 || c >= cols)
                    continue;
                double all = 0;
                for (int y = 0; y < SN_SUM_Y; y++)
                    all += room[y][threadIdx.x];
                if (!a.attr.any_order)
                    partial[((int64_t)o * gridDim.y + blockIdx.y) * cols + c + e] = all;
                else if (a.out[o].p)
                    (void)atomicAdd((float *)a.out[o].p + c + e, (float)all);
            }
    }
}

/* out (+)= the chunks' sums, in order. */
static __global__ void __launch_bounds__(SN_BLOCK)
    sn_add_chunks(const double *partial, int64_t chunks, const struct sn_mat out, bool add)
{
    float *y = (float *)out.p;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; c < out.cols; c += step) {
        double sum = 0;
        for (int64_t k = 0; k < chunks; k++)
            sum += partial[k * out.cols + c];
        y[c] = (float)(add ? (double)y[c] + sum : sum);
    }
}

template <class Op>
static int sn_sum_columns(struct sn_cuda *cx, const struct sn_args *a, int64_t rows, int64_t cols)
{
    double *partial = (double *)a->scratch;
    int64_t chunks = sn_sum_chunks(rows);
    bool any_order = a->attr.any_order;
    int rc = 0;
    for (int o = 0; o < Op::OUTS && rc == 0; o++)
        if (any_order && a->out[o].p && a->acc[o] == SN_WRITE)
            rc = sn_launched(
                cx, cudaMemsetAsync(a->out[o].p, 0, (size_t)cols * sizeof(float), cx->stream));
    rc = rc ? rc
            : sn_launch(cx, sn_sum_chunks_of<Op>, sn_shape_sums(rows, cols / Op::N), *a, rows, cols,
                        partial);
    for (int o = 0; o < Op::OUTS && rc == 0; o++)
        if (!any_order && a->out[o].p)
            rc = sn_launch(cx, sn_add_chunks, sn_shape_line(cols), partial + o * chunks * cols,
                           chunks, a->out[o], a->acc[o] == SN_ADD);
    return rc;
}

#endif
