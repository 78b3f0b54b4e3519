/*
 * attention.cu - ATTENTION and ATTENTION_DX: which kernels compute them on this device.
 */
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/attention_cudnn.cuh"
#include "kernels/cuda/ops.cuh"

/* Masks other than the causal one, caps, and values of another width than keys are those of the tile
 * kernels. */
static enum sn_attn_family family_of(const struct sn_cuda *cx, const struct sn_args *a,
                                     bool is_backward)
{
    int inputs = is_backward ? 5 : 3;
    enum sn_dtype t = a->in[SN_ATTENTION_DX_Q].dtype;
    bool aligned = true, same = true;
    for (int i = 0; i < inputs; i++) {
        if (i == 3) /* o is read once, by its own kernel */
            continue;
        same = same && a->in[i].dtype == t;
        aligned = aligned && sn_is_aligned(&a->in[i]);
    }
    if (!same)
        return SN_ATTN_SIMT;
    enum sn_attn_family f = sn_attn_family_of(cx->device.arch, cx->device.shared_per_block, t,
                                              a->attr.attention.head_dim, aligned);
    struct sn_attn_heads w = sn_attn_heads_of(a);
    if (f == SN_ATTN_MMA && (w.d != w.e || sn_attn_is_masked(a, is_backward)))
        return SN_ATTN_WMMA;
    return f;
}

SN_CUDA_OP(attention)
{
    int done;
    if (sn_attn_cudnn(cx, a, false, &done))
        return done;
    enum sn_attn_family f = family_of(cx, a, false);
    if (f == SN_ATTN_MMA)
        return sn_attn_wgmma_is_there(cx, a) ? sn_attn_wgmma_forward(cx, a)
                                             : sn_attn_mma_forward(cx, a);
    return sn_attn_tile_forward(cx, a, f);
}

/*
 * LANES lanes for a row of a head, A::N elements at a time; neighbours have the same head of
 * neighbouring rows, whose results lie side by side.
 */
template <class A, int LANES>
static __global__ void __launch_bounds__(SN_BLOCK)
    rows_of(const struct sn_args a, int heads, int d, struct sn_attn_row *to)
{
    const struct sn_mat &o = a.in[SN_ATTENTION_DX_O], &g = a.in[SN_ATTENTION_DX_DO],
                        &lse = a.in[SN_ATTENTION_DX_LSE];
    int lane = (int)threadIdx.x % LANES, at_once = (int)blockDim.x / LANES;
    int64_t blocks = (o.rows + at_once - 1) / at_once;
    for (int64_t n = blockIdx.x; n < blocks * heads; n += gridDim.x) {
        int64_t head = n % heads, r = n / heads * at_once + threadIdx.x / LANES;
        float sum = 0.0f, x[A::N], y[A::N];
        for (int c = lane * A::N; c < d && r < o.rows; c += LANES * A::N) {
            A::load(o, r, head * d + c, x);
            A::load(g, r, head * d + c, y);
#pragma unroll
            for (int i = 0; i < A::N; i++)
                sum += x[i] * y[i];
        }
#pragma unroll
        for (int i = LANES / 2; i > 0; i /= 2)
            sum += __shfl_xor_sync((unsigned)SN_ALL_LANES, sum, i);
        if (lane == 0 && r < o.rows) {
            struct sn_attn_row row = {sn_element(lse, r, head) * SN_LOG2E, sum};
            to[head * o.rows + r] = row;
        }
    }
}

template <class A>
static int put_rows(struct sn_cuda *cx, const struct sn_args *a, struct sn_attn_row *to)
{
    int heads = (int)a->attr.attention.heads, d = sn_attn_heads_of(a).e,
        lanes = d <= 8 * A::N ? 8 : SN_WARP;
    int64_t rows = a->in[SN_ATTENTION_DX_O].rows, at_once = SN_BLOCK / lanes;
    struct sn_shape g = sn_shape_line((rows + at_once - 1) / at_once * heads * SN_BLOCK);
    return lanes == 8 ? sn_launch(cx, rows_of<A, 8>, g, *a, heads, d, to)
                      : sn_launch(cx, rows_of<A, SN_WARP>, g, *a, heads, d, to);
}

/* dq from sums in fp32 that lack their scale, which lie in the place of q here. */
template <class A> struct scaled : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const float *x =
            (const float *)a.in[SN_ATTENTION_DX_Q].p + r * a.in[SN_ATTENTION_DX_Q].ld + c;
        float y[N] = {0};
        if (a.acc[SN_ATTENTION_DX_DQ] == SN_ADD) {
            const struct sn_mask mask = sn_mask_of(&a.attr, &a.in[SN_ATTENTION_DX_STARTS]);
            int64_t sample = sn_row_sample(&a.attr.position, r);
            if (sn_position(&a.attr.position, a.attr.position.key_rank, 0) >
                sn_mask_last(&mask, sample, sn_row_position(&a.attr.position, r)))
                return; /* it sees no key: not even a zero is added */
            A::load(a.out[SN_ATTENTION_DX_DQ], r, c, y);
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            y[i] += x[i] * a.attr.attention.scale;
        A::store(a.out[SN_ATTENTION_DX_DQ], r, c, y);
    }
};

static int put_queries(struct sn_cuda *cx, const struct sn_args *a, float *dq)
{
    int64_t rows = a->out[SN_ATTENTION_DX_DQ].rows, cols = a->out[SN_ATTENTION_DX_DQ].cols;
    struct sn_args b = *a;
    const struct sn_mat *m[] = {&a->out[SN_ATTENTION_DX_DQ]};
    b.in[SN_ATTENTION_DX_Q].p = dq;
    b.in[SN_ATTENTION_DX_Q].dtype = SN_F32;
    b.in[SN_ATTENTION_DX_Q].ld = cols;
    SN_BY_TYPE(sn_common(m, 1), return sn_plane_run<scaled<A>>(cx, &b, rows, cols))
    return 0;
}

static int mma_backward(struct sn_cuda *cx, const struct sn_args *a,
                        const struct sn_attn_row *known, float *dq)
{
    bool bf16 = a->in[SN_ATTENTION_DX_Q].dtype == SN_BF16, taken = false;
    if (dq)
        return (bf16 ? sn_attn_mma_once_bf16 : sn_attn_mma_once_f16)(cx, a, known, dq);
    int rc = sn_attn_wgmma_dq(cx, a, known, &taken);
    rc = rc || taken ? rc : sn_attn_mma_dq(cx, a, known);
    rc = rc ? rc : (bf16 ? sn_attn_wgmma_dkv_bf16 : sn_attn_wgmma_dkv_f16)(cx, a, known, &taken);
    return rc || taken ? rc : (bf16 ? sn_attn_mma_dkv_bf16 : sn_attn_mma_dkv_f16)(cx, a, known, dq);
}

SN_CUDA_OP(attention_dx)
{
    int done;
    if (sn_attn_cudnn(cx, a, true, &done))
        return done;
    enum sn_attn_family f = family_of(cx, a, true);
    struct sn_attn_row *known = (struct sn_attn_row *)a->scratch;
    float *dq = NULL;
    size_t sums = sn_attention_dx_scratch(a) - sn_attention_rows(a);
    const struct sn_mat *m[] = {&a->in[SN_ATTENTION_DX_O], &a->in[SN_ATTENTION_DX_DO]};
    enum sn_dtype how = sn_common(m, 2);
    int rc = 0;
    if (how != SN_NDTYPES && sn_attn_heads_of(a).e % (how == SN_F32 ? 4 : 8))
        how = SN_NDTYPES; /* a head begins between multiples of 16 bytes */
    SN_BY_TYPE(how, rc = put_rows<A>(cx, a, known))
    if (rc == 0 && a->attr.any_order) {
        dq = (float *)((char *)a->scratch + sn_attention_rows(a));
        rc = sn_launched(cx, cudaMemsetAsync(dq, 0, sums, cx->stream));
    }
    if (rc == 0 && f != SN_ATTN_MMA)
        rc = sn_attn_tile_backward(cx, a, f, known, dq);
    if (rc == 0 && f == SN_ATTN_MMA)
        rc = mma_backward(cx, a, known, dq);
    return rc || !dq ? rc : put_queries(cx, a, dq);
}
