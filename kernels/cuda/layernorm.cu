/*
 * layernorm.cu - LAYERNORM and its gradients: formulas as in kernels/cpu/layernorm.c; sums as in
 * rmsnorm.cu. The variance is taken around the mean, in a second pass over the row's registers.
 */
#include "kernels/cuda/norm_dx.cuh"
#include "kernels/cuda/ops.cuh"

struct stats {
    float mean, scale;
};

static __device__ __forceinline__ struct stats stats_at(const struct sn_mat &m, int64_t r)
{
    const float *p = (const float *)m.p + r * m.ld;
    struct stats st = {p[0], p[1]};
    return st;
}

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) layernorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        double sum = 0, squares = 0;
        row.each(there, [&](int64_t, const float *v) {
            float part = 0;
#pragma unroll
            for (int i = 0; i < N; i++)
                part += v[i];
            sum += (double)part;
        });
        double mean = sn_row_sum(sum, room) / (double)x.cols;
        float high = (float)mean, low = (float)(mean - (double)high);
        row.each(there, [&](int64_t, const float *v) {
            float part = 0;
#pragma unroll
            for (int i = 0; i < N; i++) {
                float off = v[i] - high - low;
                part += off * off;
            }
            squares += (double)part;
        });
        squares = sn_row_sum(squares, room);
        struct stats st = {high,
                           (float)(1.0 / sqrt(squares / (double)x.cols + (double)a.attr.eps))};
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

/* m0, m1: the means that close() makes of sums along the row. */
struct layernorm_row {
    enum { OUTS = 2 };
    struct stats st;
    float m0, m1;
    __device__ __forceinline__ layernorm_row(const struct sn_mat &stats, int64_t r)
        : st(stats_at(stats, r)), m0(0), m1(0)
    {
    }
    __device__ __forceinline__ float at(float x) const
    {
        return (x - st.mean) * st.scale;
    }
    __device__ __forceinline__ float along(float x) const
    {
        return at(x);
    }
    __device__ __forceinline__ void close(const double sum[2], int64_t cols)
    {
        m0 = (float)(sum[0] / (double)cols);
        m1 = (float)(sum[1] / (double)cols);
    }
    __device__ __forceinline__ float dx(float u, float x) const
    {
        return st.scale * (u - m0 - at(x) * m1);
    }
};

template <class A> struct layernorm_dw {
    enum { N = A::N, OUTS = 2 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        float x[N];
        struct stats st = stats_at(a.in[SN_NORM_DW_STATS], r);
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
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, layernorm_row, layernorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(layernorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<layernorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}
