/*
 * zero_copy.cu - ZERO, and COPY with its casts, as kernels/cpu/zero_copy.c: between fp32, bf16 and
 * fp16 a value is rounded once, to nearest even; other pairs pass through double; a cast to an
 * integer truncates and saturates, and makes 0 of a NaN.
 *
 * Bytes that do not change are the copy engine's (a memset or copy node of a graph).
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

SN_CUDA_OP(zero)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *y = &flat.out[SN_ZERO_X];
    size_t size = sn_dtype_size(y->dtype), row = (size_t)y->cols * size;
    if (y->rows == 0 || y->cols == 0)
        return 0;
    if (y->rows == 1)
        return sn_launched(cx, cudaMemsetAsync(y->p, 0, row, cx->stream));
    return sn_launched(
        cx, cudaMemset2DAsync(y->p, (size_t)y->ld * size, 0, row, (size_t)y->rows, cx->stream));
}

static __device__ __forceinline__ double saturate(double x, double lowest, double highest)
{
    if (!(x > lowest)) /* NaN too */
        return x <= lowest ? lowest : 0.0;
    return x < highest ? x : highest;
}

static __device__ double get_double(const struct sn_mat &m, int64_t r, int64_t c)
{
    int64_t at = r * m.ld + c;
    if (m.dtype == SN_F64)
        return ((const double *)m.p)[at];
    if (m.dtype == SN_I32)
        return ((const int32_t *)m.p)[at];
    if (m.dtype == SN_U8)
        return ((const uint8_t *)m.p)[at];
    return (double)sn_element(m, r, c);
}

static __device__ void set_double(const struct sn_mat &m, int64_t r, int64_t c, double x)
{
    int64_t at = r * m.ld + c;
    float narrow[1] = {(float)x};
    if (m.dtype == SN_F64)
        ((double *)m.p)[at] = x;
    else if (m.dtype == SN_I32)
        ((int32_t *)m.p)[at] = (int32_t)saturate(x, INT32_MIN, INT32_MAX);
    else if (m.dtype == SN_U8)
        ((uint8_t *)m.p)[at] = (uint8_t)saturate(x, 0, UINT8_MAX);
    else
        sn_any::store(m, r, c, narrow);
}

struct through_double : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        double x = get_double(a.in[SN_COPY_X], r, c);
        if (a.acc[SN_COPY_Y] == SN_ADD)
            x += get_double(a.out[SN_COPY_Y], r, c);
        set_double(a.out[SN_COPY_Y], r, c, x);
    }
};

/* Eight elements of any two small float types, or one. */
template <class X, class Y, int n> struct cast : sn_all_rows {
    enum { N = n };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[n], old[n];
#pragma unroll
        for (int i = 0; i < n; i += X::N)
            X::load(a.in[SN_COPY_X], r, c + i, x + i);
        if (a.acc[SN_COPY_Y] == SN_ADD) {
#pragma unroll
            for (int i = 0; i < n; i += Y::N)
                Y::load(a.out[SN_COPY_Y], r, c + i, old + i);
#pragma unroll
            for (int i = 0; i < n; i++)
                x[i] = old[i] + x[i];
        }
#pragma unroll
        for (int i = 0; i < n; i += Y::N)
            Y::store(a.out[SN_COPY_Y], r, c + i, x + i);
    }
};

template <class X> static int cast_from(struct sn_cuda *cx, const struct sn_args *a)
{
    int64_t rows = a->out[SN_COPY_Y].rows, cols = a->out[SN_COPY_Y].cols;
    switch (a->out[SN_COPY_Y].dtype) {
    case SN_F32:
        return sn_plane_run<cast<X, sn_vec<float>, 8>>(cx, a, rows, cols);
    case SN_BF16:
        return sn_plane_run<cast<X, sn_vec<sn_bf16>, 8>>(cx, a, rows, cols);
    default:
        return sn_plane_run<cast<X, sn_vec<sn_f16>, 8>>(cx, a, rows, cols);
    }
}

static int copy_bytes(struct sn_cuda *cx, const struct sn_args *a)
{
    const struct sn_mat *x = &a->in[SN_COPY_X], *y = &a->out[SN_COPY_Y];
    size_t size = sn_dtype_size(x->dtype), row = (size_t)x->cols * size;
    if (x->rows == 1) /* of any length: the pitch of a rectangle is limited */
        return sn_launched(cx,
                           cudaMemcpyAsync(y->p, x->p, row, cudaMemcpyDeviceToDevice, cx->stream));
    return sn_launched(cx, cudaMemcpy2DAsync(y->p, (size_t)y->ld * size, x->p, (size_t)x->ld * size,
                                             row, (size_t)x->rows, cudaMemcpyDeviceToDevice,
                                             cx->stream));
}

SN_CUDA_OP(copy)
{
    struct sn_args flat = sn_flat(a);
    const struct sn_mat *x = &flat.in[SN_COPY_X], *y = &flat.out[SN_COPY_Y];
    if (y->rows == 0 || y->cols == 0)
        return 0;
    if (x->dtype == y->dtype && a->acc[SN_COPY_Y] == SN_WRITE)
        return copy_bytes(cx, &flat);
    if (!sn_is_small_float(x->dtype) || !sn_is_small_float(y->dtype))
        return sn_plane_run<through_double>(cx, &flat, y->rows, y->cols);
    if (!sn_is_aligned(x) || !sn_is_aligned(y) || y->cols % 8)
        return sn_plane_run<cast<sn_any, sn_any, 1>>(cx, &flat, y->rows, y->cols);
    switch (x->dtype) {
    case SN_F32:
        return cast_from<sn_vec<float>>(cx, &flat);
    case SN_BF16:
        return cast_from<sn_vec<sn_bf16>>(cx, &flat);
    default:
        return cast_from<sn_vec<sn_f16>>(cx, &flat);
    }
}
