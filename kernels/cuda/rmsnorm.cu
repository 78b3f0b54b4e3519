/*
 * rmsnorm.cu - RMSNORM and its gradients: formulas as in kernels/cpu/rmsnorm.c.
 *
 * A thread adds its part of a row in fp32 over A::N elements and in double beyond, threads add up
 * in double: the price hides behind the loads where double has half or a quarter of the rate, and
 * is one addition in A::N elsewhere.
 */
#include "kernels/cuda/norm_dx.cuh"
#include "kernels/cuda/ops.cuh"

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) rmsnorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        double sum = 0;
        row.each(there, [&](int64_t, const float *v) {
            float part = 0;
#pragma unroll
            for (int i = 0; i < N; i++)
                part += v[i] * v[i];
            sum += (double)part;
        });
        sum = sn_row_sum(sum, room);
        float s = (float)(1.0 / sqrt(sum / (double)x.cols + (double)a.attr.eps));
        if (there && threadIdx.x == 0)
            ((float *)a.out[SN_NORM_STATS].p)[r * a.out[SN_NORM_STATS].ld] = s;
        row.each(there, [&](int64_t c, const float *v) {
            float w[N], y[N];
            A::load(a.in[SN_NORM_W], 0, c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                y[i] = v[i] * s * w[i];
            A::store(a.out[SN_NORM_Y], r, c, y);
        });
    }
}

SN_CUDA_OP(rmsnorm)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_X], &a->in[SN_NORM_W], &a->in[SN_NORM_ADDEND],
                                &a->out[SN_NORM_Y], &a->out[SN_NORM_SUM]};
    SN_BY_TYPE(sn_common(m, 5),
               return SN_LAUNCH_ROWS(rmsnorm, cx, a, a->in[SN_NORM_X].rows, a->in[SN_NORM_X].cols))
    return 0;
}

/* k: s^3 mean_j(w_j dy_j x_j), which close() makes of the sum along the row. */
struct rmsnorm_row {
    enum { OUTS = 1 };
    float s, k;
    __device__ __forceinline__ rmsnorm_row(const struct sn_mat &stats, int64_t r)
        : s(((const float *)stats.p)[r * stats.ld]), k(0)
    {
    }
    __device__ __forceinline__ float at(float x) const
    {
        return x * s;
    }
    __device__ __forceinline__ float along(float x) const
    {
        return x;
    }
    __device__ __forceinline__ void close(const double sum[2], int64_t cols)
    {
        k = (float)((double)s * (double)s * (double)s * sum[1] / (double)cols);
    }
    __device__ __forceinline__ float dx(float u, float x) const
    {
        return s * u - k * x;
    }
};

template <class A> struct rmsnorm_dw {
    enum { N = A::N, OUTS = 1 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        float x[N], s = ((const float *)a.in[SN_NORM_DW_STATS].p)[r * a.in[SN_NORM_DW_STATS].ld];
        A::load(a.in[SN_NORM_DW_DY], r, c, t[0]);
        A::load(a.in[SN_NORM_DW_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] *= x[i] * s;
    }
};

SN_CUDA_OP(rmsnorm_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_DY], &a->in[SN_NORM_DX_X], &a->in[SN_NORM_DX_W],
                                &a->in[SN_NORM_DX_ADDEND], &a->out[SN_NORM_DX_DX]};
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, rmsnorm_row, rmsnorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(rmsnorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<rmsnorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}
