/*
 * norm.cu - RMSNORM, LAYERNORM and their gradients: formulas as in kernels/cpu/rmsnorm.c and
 * layernorm.c. Sums along a row: norm.cuh.
 */
#include "kernels/cuda/norm_dx.cuh"
#include "kernels/cuda/ops.cuh"

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) rmsnorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X], &parts = a.in[SN_NORM_PARTS];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        double square = parts.p ? sn_parts_mean(&parts, x.rows, there ? r : 0, 0)
                                : sn_row_mean_square(row, there, room);
        float s = (float)(1.0 / sqrt(square + (double)a.attr.eps));
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
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, sn_rms_row, rmsnorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(rmsnorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<rmsnorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}

/* The moments of row r's parts. */
static __device__ __forceinline__ struct sn_moments merged(const struct sn_mat &parts, int64_t rows,
                                                           int64_t r)
{
    double mean = sn_parts_mean(&parts, rows, r, 0);
    struct sn_moments m = {mean, sn_parts_variance(&parts, rows, r, mean)};
    return m;
}

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) layernorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X], &parts = a.in[SN_NORM_PARTS];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        struct sn_moments m =
            parts.p ? merged(parts, x.rows, there ? r : 0) : sn_row_moments(row, there, room);
        struct sn_layer_stats st = {(float)m.mean,
                                    (float)(1.0 / sqrt(m.variance + (double)a.attr.eps))};
        if (there && threadIdx.x == 0) {
            float *to = (float *)a.out[SN_NORM_STATS].p + r * a.out[SN_NORM_STATS].ld;
            to[0] = st.mean;
            to[1] = st.scale;
        }
        row.each(there, [&](int64_t c, const float *v) {
            float w[N], b[N];
            A::load(a.in[SN_NORM_W], 0, c, w);
            A::load(a.in[SN_NORM_B], 0, c, b);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] = (v[i] - st.mean) * st.scale * w[i] + b[i];
            A::store(a.out[SN_NORM_Y], r, c, w);
        });
    }
}

SN_CUDA_OP(layernorm)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_X],      &a->in[SN_NORM_W],  &a->in[SN_NORM_B],
                                &a->in[SN_NORM_ADDEND], &a->out[SN_NORM_Y], &a->out[SN_NORM_SUM]};
    SN_BY_TYPE(sn_common(m, 6), return SN_LAUNCH_ROWS(layernorm, cx, a, a->in[SN_NORM_X].rows,
                                                      a->in[SN_NORM_X].cols))
    return 0;
}

template <class A> struct layernorm_dw {
    enum { N = A::N, OUTS = 2 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        float x[N];
        struct sn_layer_stats st = sn_layer_stats_at(a.in[SN_NORM_DW_STATS], r);
        A::load(a.in[SN_NORM_DW_DY], r, c, t[1]);
        A::load(a.in[SN_NORM_DW_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] = t[1][i] * ((x[i] - st.mean) * st.scale);
    }
};

SN_CUDA_OP(layernorm_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_DY], &a->in[SN_NORM_DX_X], &a->in[SN_NORM_DX_W],
                                &a->in[SN_NORM_DX_ADDEND], &a->out[SN_NORM_DX_DX]};
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, sn_layer_row, layernorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(layernorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<layernorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}
