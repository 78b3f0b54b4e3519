/*
 * act.cu - ACT and ACT_DX, the two forms of GELU: formulas as in kernels/cpu/act.c. The sigmoid
 * keeps its relative accuracy at large negative x, where 1 + tanh cancels.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

#define TWO_ROOT_2_OVER_PI 1.5957691216057308f /* 2 sqrt(2/pi) */
#define CUBIC              0.044715f
#define INV_ROOT_2         0.7071067811865476f
#define INV_ROOT_2PI       0.3989422804014327f

static __device__ __forceinline__ float value(float x, enum sn_act act)
{
    if (act == SN_ACT_GELU_TANH)
        return x / (1.0f + expf(-(TWO_ROOT_2_OVER_PI * (x + CUBIC * x * x * x))));
    return 0.5f * x * (1.0f + erff(x * INV_ROOT_2));
}

static __device__ __forceinline__ float slope(float x, enum sn_act act)
{
    if (act == SN_ACT_GELU_ERF) {
        float cdf = 0.5f * (1.0f + erff(x * INV_ROOT_2));
        return cdf + x * (INV_ROOT_2PI * expf(-0.5f * x * x));
    }
    float x2 = x * x;
    float u2 = TWO_ROOT_2_OVER_PI * x * (1.0f + CUBIC * x2);
    float du2 = TWO_ROOT_2_OVER_PI * (1.0f + 3.0f * CUBIC * x2);
    float e = expf(-fabsf(u2)); /* <= 1: nothing overflows */
    float q = 1.0f / (1.0f + e);
    float sigmoid = u2 >= 0.0f ? q : e * q;
    return sigmoid + x * du2 * (e * q * q);
}

template <class A> struct act : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N];
        A::load(a.in[SN_ACT_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = value(x[i], a.attr.act);
        A::store(a.out[SN_ACT_Y], r, c, x);
    }
};

template <class A> struct act_dx : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float dy[N], x[N];
        A::load(a.in[SN_ACT_DX_DY], r, c, dy);
        A::load(a.in[SN_ACT_DX_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = dy[i] * slope(x[i], a.attr.act);
        A::store(a.out[SN_ACT_DX_DX], r, c, x);
    }
};

SN_CUDA_OP(act)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *m[] = {&flat.in[SN_ACT_X], &flat.out[SN_ACT_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<act<A>>(cx, &flat, flat.out[SN_ACT_Y].rows,
                                                            flat.out[SN_ACT_Y].cols))
    return 0;
}

SN_CUDA_OP(act_dx)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *m[] = {&flat.in[SN_ACT_DX_DY], &flat.in[SN_ACT_DX_X],
                                &flat.out[SN_ACT_DX_DX]};
    SN_BY_TYPE(sn_common(m, 3),
               return sn_plane_run<act_dx<A>>(cx, &flat, flat.out[SN_ACT_DX_DX].rows,
                                              flat.out[SN_ACT_DX_DX].cols))
    return 0;
}
