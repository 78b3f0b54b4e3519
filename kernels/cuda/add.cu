/*
 * add.cu - ADD, SCALE, GATE and GATE_DX, as kernels/cpu/add.c and scale.c.
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

/* --- rows times the sigmoid of a number of each -------------------------------------------------- */

static __device__ __forceinline__ float gate_of(const struct sn_mat &z, int64_t r)
{
    float v = ((const float *)z.p)[r * z.ld], e = expf(-fabsf(v)); /* <= 1: nothing overflows */
    return v >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

template <class A> struct gate : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N], s = gate_of(a.in[SN_GATE_Z], r);
        A::load(a.in[SN_GATE_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] *= s;
        A::store(a.out[SN_GATE_Y], r, c, x);
    }
};

SN_CUDA_OP(gate)
{
    const struct sn_mat *m[] = {&a->in[SN_GATE_X], &a->out[SN_GATE_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<gate<A>>(cx, a, a->out[SN_GATE_Y].rows,
                                                             a->out[SN_GATE_Y].cols))
    return 0;
}

static __device__ __forceinline__ void store(const struct sn_mat &m, int64_t r, float x)
{
    sn_any::store(m, r, 0, &x);
}

/* Threads along x share a row; the sum is in double. dx may lie where dy or x does. */
template <class A>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) gate_dx(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &dy = a.in[SN_GATE_DX_DY], &dx = a.out[SN_GATE_DX_DX],
                        &dz = a.out[SN_GATE_DX_DZ];
    for (int64_t base = sn_first_row(); base < dy.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        float s = r < dy.rows ? gate_of(a.in[SN_GATE_DX_Z], r) : 0.0f;
        double sum = 0;
        for (int64_t c = (int64_t)threadIdx.x * N; r < dy.rows && c < dy.cols;
             c += (int64_t)blockDim.x * N) {
            float d[N], x[N];
            A::load(dy, r, c, d);
            A::load(a.in[SN_GATE_DX_X], r, c, x);
#pragma unroll
            for (int i = 0; i < N; i++) {
                sum += (double)d[i] * (double)x[i];
                d[i] *= s;
            }
            if (dx.p)
                A::store(dx, r, c, d);
        }
        sum = sn_row_sum(sum, room);
        if (threadIdx.x == 0 && r < dy.rows && dz.p)
            store(dz, r, (float)(sum * (double)s * (1.0 - (double)s)));
    }
}

SN_CUDA_OP(gate_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_GATE_DX_DY], &a->in[SN_GATE_DX_X],
                                &a->out[SN_GATE_DX_DX]};
    SN_BY_TYPE(sn_common(m, a->out[SN_GATE_DX_DX].p ? 3 : 2),
               return sn_launch(cx, gate_dx<A>,
                                sn_shape_rows(a->in[SN_GATE_DX_DY].rows,
                                              a->in[SN_GATE_DX_DY].cols / A::N),
                                *a))
    return 0;
}
