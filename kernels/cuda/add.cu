/*
 * add.cu - ADD and SCALE, as kernels/cpu/add.c and scale.c.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

template <class A> struct add : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N], z[N];
        A::load(a.in[SN_ADD_A], r, c, x);
        A::load(a.in[SN_ADD_B], r, c, z);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] += z[i];
        A::store(a.out[SN_ADD_Y], r, c, x);
    }
};

template <class A> struct scale : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N];
        A::load(a.in[SN_SCALE_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] *= a.attr.scale;
        A::store(a.out[SN_SCALE_Y], r, c, x);
    }
};

SN_CUDA_OP(add)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *m[] = {&flat.in[SN_ADD_A], &flat.in[SN_ADD_B], &flat.out[SN_ADD_Y]};
    SN_BY_TYPE(sn_common(m, 3), return sn_plane_run<add<A>>(cx, &flat, flat.out[SN_ADD_Y].rows,
                                                            flat.out[SN_ADD_Y].cols))
    return 0;
}

SN_CUDA_OP(scale)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *m[] = {&flat.in[SN_SCALE_X], &flat.out[SN_SCALE_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<scale<A>>(cx, &flat, flat.out[SN_SCALE_Y].rows,
                                                              flat.out[SN_SCALE_Y].cols))
    return 0;
}
