/*
 * swiglu.cu - SWIGLU and SWIGLU_DX: formulas as in kernels/cpu/swiglu.c. How many rows count is
 * read on the device (`bounds`).
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

#define TWO_ROOT_2_OVER_PI 1.5957691216057308f /* 2 sqrt(2/pi) */
#define CUBIC              0.044715f

/* Of what the gate's factor is the sigmoid, and the slope of it. */
static __device__ __forceinline__ float inside(float g, enum sn_gate gate)
{
    return gate == SN_GATE_SILU ? g : TWO_ROOT_2_OVER_PI * (g + CUBIC * g * g * g);
}

static __device__ __forceinline__ float slope(float g, enum sn_gate gate)
{
    return gate == SN_GATE_SILU ? 1.0f : TWO_ROOT_2_OVER_PI * (1.0f + 3.0f * CUBIC * g * g);
}

static __device__ __forceinline__ int64_t rows_within(const struct sn_mat &bounds, int64_t rows)
{
    return bounds.p ? ((const int32_t *)bounds.p)[bounds.cols - 1] : rows;
}

template <class A> struct swiglu {
    enum { N = A::N };
    static __device__ __forceinline__ int64_t rows(const struct sn_args &a, int64_t n)
    {
        return rows_within(a.in[SN_SWIGLU_BOUNDS], n);
    }
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float g[N], u[N];
        A::load(a.in[SN_SWIGLU_X], r, c, g);
        A::load(a.in[SN_SWIGLU_X], r, a.out[SN_SWIGLU_Y].cols + c, u);
#pragma unroll
        for (int i = 0; i < N; i++)
            g[i] = g[i] / (1.0f + expf(-inside(g[i], a.attr.gate))) * u[i];
        A::store(a.out[SN_SWIGLU_Y], r, c, g);
    }
};

template <class A> struct swiglu_dx {
    enum { N = A::N };
    static __device__ __forceinline__ int64_t rows(const struct sn_args &a, int64_t n)
    {
        return rows_within(a.in[SN_SWIGLU_DX_BOUNDS], n);
    }
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float dy[N], g[N], u[N];
        A::load(a.in[SN_SWIGLU_DX_DY], r, c, dy);
        A::load(a.in[SN_SWIGLU_DX_X], r, c, g);
        A::load(a.in[SN_SWIGLU_DX_X], r, a.in[SN_SWIGLU_DX_DY].cols + c, u);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float gi = g[i], d = dy[i], v = inside(gi, a.attr.gate);
            float e = expf(-fabsf(v)); /* <= 1: nothing overflows */
            float q = 1.0f / (1.0f + e);
            float s = v >= 0.0f ? q : e * q;
            g[i] = d * u[i] * (s + gi * slope(gi, a.attr.gate) * (e * q * q));
            u[i] = d * gi * s;
        }
        A::store(a.out[SN_SWIGLU_DX_DX], r, c, g);
        A::store(a.out[SN_SWIGLU_DX_DX], r, a.in[SN_SWIGLU_DX_DY].cols + c, u);
    }
};

/* Of x the halves must be aligned, so its narrower neighbour decides: that has half the columns. */
SN_CUDA_OP(swiglu)
{
    const struct sn_mat *m[] = {&a->in[SN_SWIGLU_X], &a->out[SN_SWIGLU_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<swiglu<A>>(cx, a, a->out[SN_SWIGLU_Y].rows,
                                                               a->out[SN_SWIGLU_Y].cols))
    return 0;
}

SN_CUDA_OP(swiglu_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_SWIGLU_DX_DY], &a->in[SN_SWIGLU_DX_X],
                                &a->out[SN_SWIGLU_DX_DX]};
    SN_BY_TYPE(sn_common(m, 3),
               return sn_plane_run<swiglu_dx<A>>(cx, a, a->in[SN_SWIGLU_DX_DY].rows,
                                                 a->in[SN_SWIGLU_DX_DY].cols))
    return 0;
}
