/*
 * attention.cu - ATTENTION and ATTENTION_DX: which kernels compute them on this device.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/ops.cuh"

static enum sn_attn_family family_of(const struct sn_cuda *cx, const struct sn_args *a, int inputs)
{
    enum sn_dtype t = a->in[0].dtype;
    bool aligned = true, same = true;
    for (int i = 0; i < inputs; i++) {
        if (i == 3) /* o is read once, by its own kernel */
            continue;
        same = same && a->in[i].dtype == t;
        aligned = aligned && sn_is_aligned(&a->in[i]);
    }
    if (!same)
        return SN_ATTN_SIMT;
    return sn_attn_family_of(cx->device.arch, cx->device.shared_per_block, t, a->attr.head_dim,
                             aligned);
}

SN_CUDA_OP(attention)
{
    enum sn_attn_family f = family_of(cx, a, 3);
    if (f == SN_ATTN_MMA)
        return sn_attn_wgmma_is_there(cx, a) ? sn_attn_wgmma_forward(cx, a)
                                             : sn_attn_mma_forward(cx, a);
    return sn_attn_tile_forward(cx, a, f);
}

/* A warp for each row and head. */
static __global__ void __launch_bounds__(SN_BLOCK)
    delta_of(const struct sn_args a, int heads, int d, float *delta)
{
    const struct sn_mat &o = a.in[3], &g = a.in[4];
    int lane = (int)threadIdx.x % SN_WARP, warps = (int)blockDim.x / SN_WARP;
    int64_t all = o.rows * heads;
    for (int64_t n = (int64_t)blockIdx.x * warps + threadIdx.x / SN_WARP; n < all;
         n += (int64_t)gridDim.x * warps) {
        int64_t r = n / heads, col = n % heads * d;
        float sum = 0;
        for (int c = lane; c < d; c += SN_WARP)
            sum += sn_element(o, r, col + c) * sn_element(g, r, col + c);
        sum = sn_warp_sum(sum);
        if (lane == 0)
            delta[n] = sum;
    }
}

/* dq from sums in fp32 that lack their scale: in 0 and out 0 here. */
template <class A> struct scaled : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const float *x = (const float *)a.in[0].p + r * a.in[0].ld + c;
        float y[N] = {0};
        if (a.acc[0] == SN_ADD) {
            if (sn_position(&a.attr, a.attr.key_rank, 0) > sn_row_position(&a.attr, r))
                return; /* it sees no key: not even a zero is added */
            A::load(a.out[0], r, c, y);
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] += x[i] * a.attr.scale;
        A::store(a.out[0], r, c, y);
    }
};

static int put_queries(struct sn_cuda *cx, const struct sn_args *a, float *dq)
{
    int64_t rows = a->out[0].rows, cols = a->out[0].cols;
    struct sn_args b = *a;
    const struct sn_mat *m[] = {&a->out[0]};
    b.in[0].p = dq;
    b.in[0].dtype = SN_F32;
    b.in[0].ld = cols;
    SN_BY_TYPE(sn_common(m, 1), return sn_plane_run<scaled<A>>(cx, &b, rows, cols))
    return 0;
}

SN_CUDA_OP(attention_dx)
{
    enum sn_attn_family f = family_of(cx, a, 5);
    float *delta = (float *)a->scratch, *dq = NULL;
    size_t sums = sn_attention_dx_scratch(a) - sn_attention_delta(a);
    int rc = sn_launch(cx, delta_of, sn_shape_line(a->in[3].rows * a->attr.heads * SN_WARP), *a,
                       (int)a->attr.heads, (int)a->attr.head_dim, delta);
    if (rc == 0 && a->attr.any_order) {
        dq = (float *)((char *)a->scratch + sn_attention_delta(a));
        rc = sn_launched(cx, cudaMemsetAsync(dq, 0, sums, cx->stream));
    }
    if (rc == 0)
        rc = f == SN_ATTN_MMA ? sn_attn_mma_backward(cx, a, delta, dq)
                              : sn_attn_tile_backward(cx, a, f, delta, dq);
    return rc || !dq ? rc : put_queries(cx, a, dq);
}
