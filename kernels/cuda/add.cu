/*
 * add.cu - ADD, as kernels/cpu/add.c.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

template <class A> struct add : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N], z[N];
        A::load(a.in[0], r, c, x);
        A::load(a.in[1], r, c, z);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] += z[i];
        A::store(a.out[0], r, c, x);
    }
};

SN_CUDA_OP(add)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *m[] = {&flat.in[0], &flat.in[1], &flat.out[0]};
    SN_BY_TYPE(sn_common(m, 3),
               return sn_plane_run<add<A>>(cx, &flat, flat.out[0].rows, flat.out[0].cols))
    return 0;
}
