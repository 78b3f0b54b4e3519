/*
 * attention_rows.cu - ATTENTION_ROWS: formulas as in kernels/cpu/attention_rows.c.
 *
 * A block takes one query of one head. Its warps take the keys in turn, lanes lie along the head: a
 * warp has a largest score, a sum and an output of its own (online softmax), and all are merged at the
 * end, in the order of the warps.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/mask.h"
#include "kernels/position.h"

/* s = q . k of one key, for all lanes. */
template <class A>
static __device__ __forceinline__ float score(const struct sn_args &a, const float *q, int64_t key,
                                              int64_t col)
{
    enum { N = A::N };
    const struct sn_attention_attr &t = a.attr.attention;
    float s = 0;
    for (int64_t c = (int64_t)threadIdx.x * N; c < t.head_dim; c += SN_WARP * N) {
        float k[N];
        A::load(a.in[SN_ATTENTION_ROWS_K], key, col + c, k);
#pragma unroll
        for (int i = 0; i < N; i++)
            s += q[c + i] * k[i];
    }
    s = sn_warp_sum(s);
    return t.cap > 0 ? t.cap * tanhf(s / t.cap) : s;
}

/* The outputs of all warps, of which each has its largest score m and its sum l. */
template <class A>
static __device__ __forceinline__ void merge(const struct sn_args &a, const float *o, const float *m,
                                             const float *l, int64_t r, int64_t col)
{
    int64_t e = sn_v_dim(&a.attr.attention);
    int warps = (int)blockDim.y;
    float most = m[0], sum = 0;
    for (int w = 1; w < warps; w++)
        most = sn_max(most, m[w]);
    for (int w = 0; w < warps; w++)
        sum += l[w] * expf(m[w] - most);
    for (int64_t c = (int64_t)threadIdx.y * SN_WARP + threadIdx.x; c < e; c += SN_WARP * warps) {
        float x[1] = {0};
        for (int w = 0; w < warps; w++)
            x[0] += o[w * e + c] * expf(m[w] - most);
        x[0] /= sum;
        sn_any::store(a.out[SN_ATTENTION_ROWS_O], r, col + c, x);
    }
}

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK) one_query(const struct sn_args a)
{
    enum { N = A::N };
    SN_DYNAMIC_SHARED(room);
    const struct sn_attention_attr &t = a.attr.attention;
    const struct sn_mask mask = {a.attr.position.seq, t.window, NULL, 0};
    int64_t d = t.head_dim, e = sn_v_dim(&t), queries = a.in[SN_ATTENTION_ROWS_Q].rows * t.heads;
    int warp = (int)threadIdx.y, warps = (int)blockDim.y;
    float *q = (float *)room, *all = q + d, *o = all + warp * e, *ms = all + warps * e,
          *ls = ms + warps;
    for (int64_t n = blockIdx.x; n < queries; n += gridDim.x) {
        int64_t r = n / t.heads, h = n % t.heads, kv = h / (t.heads / t.kv_heads);
        int64_t at = sn_row_position(&a.attr.position, r);
        float m = -INFINITY, l = 0;
        __syncthreads(); /* the last query is through */
        for (int64_t c = (int64_t)warp * SN_WARP + threadIdx.x; c < d; c += SN_WARP * warps)
            q[c] = t.scale * sn_element(a.in[SN_ATTENTION_ROWS_Q], r, h * d + c);
        for (int64_t c = (int64_t)threadIdx.x * N; c < e; c += SN_WARP * N)
#pragma unroll
            for (int i = 0; i < N; i++)
                o[c + i] = 0;
        __syncthreads();
        for (int64_t key = sn_mask_first(&mask, 0, at) + warp; key <= at; key += warps) {
            float s = score<A>(a, q, key, kv * d), top = sn_max(m, s);
            float shrink = expf(m - top), p = expf(s - top);
            for (int64_t c = (int64_t)threadIdx.x * N; c < e; c += SN_WARP * N) {
                float v[N];
                A::load(a.in[SN_ATTENTION_ROWS_V], key, kv * e + c, v);
#pragma unroll
                for (int i = 0; i < N; i++)
                    o[c + i] = o[c + i] * shrink + p * v[i];
            }
            l = l * shrink + p;
            m = top;
        }
        if (threadIdx.x == 0) {
            ms[warp] = m;
            ls[warp] = l;
        }
        __syncthreads();
        merge<A>(a, all, ms, ls, r, h * e);
    }
}

SN_CUDA_OP(attention_rows)
{
    const struct sn_mat *m[] = {&a->in[SN_ATTENTION_ROWS_K], &a->in[SN_ATTENTION_ROWS_V]};
    const struct sn_attention_attr *t = &a->attr.attention;
    int64_t d = t->head_dim, e = sn_v_dim(t), piece = 16 / (int64_t)sn_dtype_size(m[0]->dtype);
    enum sn_dtype how = d % piece || e % piece ? SN_NDTYPES : sn_common(m, 2);
    struct sn_shape g = sn_shape_attention_rows(a->in[SN_ATTENTION_ROWS_Q].rows * t->heads, d, e);
    SN_BY_TYPE(how, return sn_launch(cx, one_query<A>, g, *a))
    return 0;
}
