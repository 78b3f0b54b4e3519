/*
 * optimizer.cu - optimizers, with the order of operations of kernels/cpu/optimizer.c: a rule for one
 * element each, and the pass that all share, bound by memory.
 *
 * What all elements share takes powers in double: one thread writes it to scratch before the pass.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

struct rates {
    float grad, b1, c1, b2, c2; /* c = 1 - b */
    float shrink, lr, step, root_scale, eps, momentum;
};

static __device__ struct rates rates_of(const struct sn_args &a)
{
    const struct sn_scalars *s = a.scalars;
    double b1 = (double)a.attr.optimizer.beta1, b2 = (double)a.attr.optimizer.beta2,
           t = (double)s->adam_count;
    float lr32 = s->lr * (a.attr.optimizer.rate > 0 ? a.attr.optimizer.rate : 1.0f);
    double lr = (double)lr32;
    struct rates k = {s->grad_scale,
                      (float)b1,
                      (float)(1.0 - b1),
                      (float)b2,
                      (float)(1.0 - b2),
                      (float)(1.0 - lr * (double)a.attr.optimizer.decay),
                      lr32,
                      (float)(lr / (1.0 - pow(b1, t))),
                      (float)(1.0 / sqrt(1.0 - pow(b2, t))),
                      a.attr.optimizer.eps,
                      a.attr.optimizer.momentum};
    return k;
}

static __global__ void __launch_bounds__(1) write_rates(const struct sn_args a, struct rates *k)
{
    if (a.scalars->ok)
        *k = rates_of(a);
}

/* Four numbers of 16 bits, 8 bytes at once. */
template <class E> static __device__ __forceinline__ void store_four(void *to, const float x[4])
{
    union four {
        uint2 all;
        E each[4];
        __device__ four() : all()
        {
        }
    } v;
#pragma unroll
    for (int e = 0; e < 4; e++)
        sn_narrow(&v.each[e], x[e]);
    *(uint2 *)to = v.all;
}

/* The weights as the program stores them; `copies`: aligned to what is stored at once. */
template <int N>
static __device__ __forceinline__ void store_copy(const struct sn_mat &w, int64_t i,
                                                  const float p[N], bool copies)
{
    if (N == 4 && copies && w.dtype == SN_BF16)
        store_four<sn_bf16>((sn_bf16 *)w.p + i, p);
    else if (N == 4 && copies && w.dtype == SN_F16)
        store_four<sn_f16>((sn_f16 *)w.p + i, p);
    else if (N == 4 && copies)
        sn_store_sums<N>((float *)w.p + i, p);
    else
#pragma unroll
        for (int e = 0; e < N; e++)
            sn_any::store(w, 0, i + e, p + e);
}

/* Elements i .. i + N - 1. */
template <class A, class Rule>
static __device__ __forceinline__ void piece(const struct sn_args &a, const struct rates &k,
                                             int64_t i, bool copies)
{
    enum { N = A::N };
    float g[N], p[N], m[N], v[N] = {};
    A::load(a.in[SN_UPDATE_G], 0, i, g);
    A::load(a.out[SN_UPDATE_P], 0, i, p);
    A::load(a.out[SN_UPDATE_M], 0, i, m);
    if (Rule::MOMENTS == 2)
        A::load(a.out[SN_UPDATE_V], 0, i, v);
#pragma unroll
    for (int e = 0; e < N; e++)
        Rule::step(k, g[e] * k.grad, &p[e], &m[e], &v[e]);
    A::store(a.out[SN_UPDATE_P], 0, i, p);
    A::store(a.out[SN_UPDATE_M], 0, i, m);
    if (Rule::MOMENTS == 2)
        A::store(a.out[SN_UPDATE_V], 0, i, v);
    if (a.out[SN_UPDATE_W].p)
        store_copy<N>(a.out[SN_UPDATE_W], i, p, copies);
}

template <class A, class Rule>
static __global__ void __launch_bounds__(SN_BLOCK)
    update(const struct sn_args a, const struct rates *shared_rates, bool copies)
{
    enum { N = A::N };
    int64_t n = a.in[SN_UPDATE_G].cols, whole = n / N;
    if (!a.scalars->ok)
        return;
    const struct rates k = *shared_rates;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = at; i < whole; i += (int64_t)gridDim.x * blockDim.x)
        piece<A, Rule>(a, k, i * N, copies);
    if (at < n - whole * N)
        piece<sn_any, Rule>(a, k, whole * N + at, false);
}

/* A tail that is no whole piece does not matter here: alignment alone decides. */
template <class Rule> static int run(struct sn_cuda *cx, const struct sn_args *a)
{
    static_assert(sizeof(struct rates) <= SN_UPDATE_SCRATCH, "the rates have room");
    const struct sn_mat *w = &a->out[SN_UPDATE_W];
    struct rates *k = (struct rates *)a->scratch;
    struct sn_shape one = {1, 1, 1, 1, 1, 0};
    bool aligned = (uintptr_t)a->in[SN_UPDATE_G].p % 16 == 0;
    bool copies = w->p && (uintptr_t)w->p % (4 * sn_dtype_size(w->dtype)) == 0;
    for (int o = 0; o <= Rule::MOMENTS; o++)
        aligned = aligned && (uintptr_t)a->out[o].p % 16 == 0;
    int64_t n = a->in[SN_UPDATE_G].cols;
    int rc = sn_launch(cx, write_rates, one, *a, k);
    if (rc)
        return rc;
    if (aligned)
        return sn_launch(cx, update<sn_vec<float>, Rule>, sn_shape_line(sn_ceil_div(n, 4)), *a, k,
                         copies);
    return sn_launch(cx, update<sn_any, Rule>, sn_shape_line(n), *a, k, copies);
}

struct adamw {
    enum { MOMENTS = 2 };
    static __device__ __forceinline__ void step(const struct rates &k, float g, float *p, float *m,
                                                float *v)
    {
        *m = k.b1 * *m + k.c1 * g;
        *v = k.b2 * *v + k.c2 * (g * g);
        *p = *p * k.shrink - k.step * *m / (sqrtf(*v) * k.root_scale + k.eps);
    }
};

SN_CUDA_OP(adamw)
{
    return run<adamw>(cx, a);
}

struct lion {
    enum { MOMENTS = 1 };
    static __device__ __forceinline__ void step(const struct rates &k, float g, float *p, float *m,
                                                float *v)
    {
        (void)v;
        float c = k.b1 * *m + k.c1 * g;
        *m = k.b2 * *m + k.c2 * g;
        *p = *p * k.shrink - (c > 0.0f ? k.lr : c < 0.0f ? -k.lr : 0.0f);
    }
};

SN_CUDA_OP(lion)
{
    return run<lion>(cx, a);
}

struct sgd {
    enum { MOMENTS = 1 };
    static __device__ __forceinline__ void step(const struct rates &k, float g, float *p, float *m,
                                                float *v)
    {
        (void)v;
        *m = k.momentum * *m + g;
        *p = *p * k.shrink - k.lr * *m;
    }
};

SN_CUDA_OP(sgd)
{
    return run<sgd>(cx, a);
}

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK) average(const struct sn_args a)
{
    enum { N = A::N };
    int64_t n = a.in[SN_AVERAGE_P].cols, whole = n / N;
    float c = (float)(1.0 - (double)a.attr.optimizer.beta1);
    bool begins = a.scalars->adam_count <= 1;
    if (!a.scalars->ok)
        return;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = at; i < whole; i += (int64_t)gridDim.x * blockDim.x) {
        float p[N], e[N];
        A::load(a.in[SN_AVERAGE_P], 0, i * N, p);
        A::load(a.out[SN_AVERAGE_E], 0, i * N, e);
#pragma unroll
        for (int k = 0; k < N; k++)
            e[k] = begins ? p[k] : e[k] + c * (p[k] - e[k]);
        A::store(a.out[SN_AVERAGE_E], 0, i * N, e);
    }
    if (at < n - whole * N) {
        const float *p = (const float *)a.in[SN_AVERAGE_P].p + whole * N + at;
        float *e = (float *)a.out[SN_AVERAGE_E].p + whole * N + at;
        *e = begins ? *p : *e + c * (*p - *e);
    }
}

SN_CUDA_OP(average)
{
    int64_t n = a->in[SN_AVERAGE_P].cols;
    bool aligned = (uintptr_t)a->in[SN_AVERAGE_P].p % 16 == 0 &&
                   (uintptr_t)a->out[SN_AVERAGE_E].p % 16 == 0;
    if (aligned)
        return sn_launch(cx, average<sn_vec<float>>, sn_shape_line(sn_ceil_div(n, 4)), *a);
    return sn_launch(cx, average<sn_any>, sn_shape_line(n), *a);
}

template <class W> /* words of a gradient's size: 0 is 0 in all of them */
static __global__ void __launch_bounds__(SN_BLOCK) prune(const struct sn_args a)
{
    const float *p = (const float *)a.in[SN_PRUNE_P].p;
    W *g = (W *)a.out[SN_PRUNE_G].p;
    int64_t n = a.out[SN_PRUNE_G].cols;
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = at; i < n; i += (int64_t)gridDim.x * blockDim.x)
        if (p[i] == 0.0f)
            g[i] = 0;
}

SN_CUDA_OP(prune)
{
    const struct sn_mat *g = &a->out[SN_PRUNE_G];
    switch (sn_dtype_size(g->dtype)) {
    case 2:
        return sn_launch(cx, prune<uint16_t>, sn_shape_line(g->cols), *a);
    case 4:
        return sn_launch(cx, prune<uint32_t>, sn_shape_line(g->cols), *a);
    default:
        return sn_launch(cx, prune<uint64_t>, sn_shape_line(g->cols), *a);
    }
}
