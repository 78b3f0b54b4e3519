/*
 * dispatch.cu - DISPATCH, COMBINE and COMBINE_DW, as kernels/cpu/dispatch.c: a token's experts in
 * the order of choice.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

static __device__ __forceinline__ int32_t place_of(const struct sn_mat &place, int64_t t, int64_t j)
{
    return ((const int32_t *)place.p)[t * place.ld + j];
}

static __device__ __forceinline__ float weight_of(const struct sn_mat &w, int64_t t, int64_t j)
{
    return w.p ? ((const float *)w.p)[t * w.ld + j] : 1.0f;
}

template <class A> struct dispatch : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t t, int64_t c)
    {
        float x[N], y[N];
        A::load(a.in[SN_DISPATCH_X], t, c, x);
        for (int64_t j = 0; j < a.in[SN_DISPATCH_PLACE].cols; j++) {
            int32_t to = place_of(a.in[SN_DISPATCH_PLACE], t, j);
            if (to < 0)
                continue;
            float weight = weight_of(a.in[SN_DISPATCH_W], t, j);
#pragma unroll
            for (int i = 0; i < N; i++)
                y[i] = weight * x[i];
            A::store(a.out[SN_DISPATCH_Y], to, c, y);
        }
    }
};

SN_CUDA_OP(dispatch)
{
    const struct sn_mat *m[] = {&a->in[SN_DISPATCH_X], &a->out[SN_DISPATCH_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<dispatch<A>>(cx, a, a->in[SN_DISPATCH_X].rows,
                                                                 a->in[SN_DISPATCH_X].cols))
    return 0;
}

template <class A> struct combine : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t t, int64_t c)
    {
        float sum[N] = {0}, x[N];
        for (int64_t j = 0; j < a.in[SN_COMBINE_PLACE].cols; j++) {
            int32_t from = place_of(a.in[SN_COMBINE_PLACE], t, j);
            if (from < 0)
                continue;
            float weight = weight_of(a.in[SN_COMBINE_W], t, j);
            A::load(a.in[SN_COMBINE_X], from, c, x);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += weight * x[i];
        }
        if (a.in[SN_COMBINE_ADDEND].p) {
            A::load(a.in[SN_COMBINE_ADDEND], t, c, x);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += x[i];
        }
        A::store(a.out[SN_COMBINE_Y], t, c, sum);
    }
};

SN_CUDA_OP(combine)
{
    const struct sn_mat *m[] = {&a->in[SN_COMBINE_X], &a->in[SN_COMBINE_ADDEND],
                                &a->out[SN_COMBINE_Y]};
    SN_BY_TYPE(sn_common(m, 3), return sn_plane_run<combine<A>>(cx, a, a->out[SN_COMBINE_Y].rows,
                                                                a->out[SN_COMBINE_Y].cols))
    return 0;
}

/* A block for each choice of each token; the sum is in double. */
template <class A>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) combine_dw(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &dy = a.in[SN_COMBINE_DW_DY], &x = a.in[SN_COMBINE_DW_X],
                        &dw = a.out[SN_COMBINE_DW_DW];
    int64_t k = a.in[SN_COMBINE_DW_PLACE].cols, all = a.in[SN_COMBINE_DW_PLACE].rows * k;
    for (int64_t base = sn_first_row(); base < all; base += sn_row_step()) {
        int64_t n = base + threadIdx.y, t = n / k, j = n % k;
        int32_t from = n < all ? place_of(a.in[SN_COMBINE_DW_PLACE], t, j) : -1;
        double sum = 0;
        for (int64_t c = (int64_t)threadIdx.x * N; from >= 0 && c < dy.cols;
             c += (int64_t)blockDim.x * N) {
            float u[N], v[N];
            A::load(dy, t, c, u);
            A::load(x, from, c, v);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum += (double)u[i] * (double)v[i];
        }
        sum = sn_row_sum(sum, room);
        if (threadIdx.x == 0 && n < all)
            ((float *)dw.p)[t * dw.ld + j] = (float)sum;
    }
}

SN_CUDA_OP(combine_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_COMBINE_DW_DY], &a->in[SN_COMBINE_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_launch(cx, combine_dw<A>,
                                                 sn_shape_rows(a->in[SN_COMBINE_DW_PLACE].rows *
                                                                   a->in[SN_COMBINE_DW_PLACE].cols,
                                                               a->in[SN_COMBINE_DW_DY].cols / A::N),
                                                 *a))
    return 0;
}
