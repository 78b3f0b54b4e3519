/*
 * device.cuh - what the kernels share: elements of any storage type as fp32, sums over warps and
 * rows, the walk over the elements of a matrix.
 *
 * A kernel is written once, for an access A of A::N elements at a time: sn_vec<E> moves 16 bytes of
 * a type known when compiled, sn_any one element of whatever type the matrix has. SN_BY_TYPE picks
 * (geometry.h, sn_common).
 */
#ifndef SN_CUDA_DEVICE_CUH
#define SN_CUDA_DEVICE_CUH

#include "kernels/cuda/launch.cuh"

typedef __nv_bfloat16 sn_bf16;
typedef __half sn_f16;

static __device__ __forceinline__ float sn_wide(float x)
{
    return x;
}
static __device__ __forceinline__ float sn_wide(sn_bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ float sn_wide(sn_f16 x)
{
    return __half2float(x);
}

/* To storage, rounded to nearest even. */
static __device__ __forceinline__ void sn_narrow(float *to, float x)
{
    *to = x;
}
static __device__ __forceinline__ void sn_narrow(sn_bf16 *to, float x)
{
    *to = __float2bfloat16_rn(x);
}
static __device__ __forceinline__ void sn_narrow(sn_f16 *to, float x)
{
    *to = __float2half_rn(x);
}

template <class E> struct sn_type;
template <> struct sn_type<float> {
    static const enum sn_dtype id = SN_F32;
};
template <> struct sn_type<sn_bf16> {
    static const enum sn_dtype id = SN_BF16;
};
template <> struct sn_type<sn_f16> {
    static const enum sn_dtype id = SN_F16;
};

template <class E> struct sn_vec {
    enum { N = 16 / sizeof(E) };
    union both {
        uint4 all;
        E each[N];
        __device__ both() : all()
        {
        }
    };
    /* load() in two steps: what lies in memory, and its elements. */
    typedef uint4 raw;
    static __device__ __forceinline__ raw fetch(const struct sn_mat &m, int64_t r, int64_t c)
    {
        return *(const uint4 *)((const E *)m.p + r * m.ld + c);
    }
    static __device__ __forceinline__ void widen(const struct sn_mat &, raw x, float out[N])
    {
        both v;
        v.all = x;
#pragma unroll
        for (int i = 0; i < N; i++)
            out[i] = sn_wide(v.each[i]);
    }
    static __device__ __forceinline__ void load(const struct sn_mat &m, int64_t r, int64_t c,
                                                float out[N])
    {
        widen(m, fetch(m, r, c), out);
    }
    static __device__ __forceinline__ void store(const struct sn_mat &m, int64_t r, int64_t c,
                                                 const float in[N])
    {
        both v;
#pragma unroll
        for (int i = 0; i < N; i++)
            sn_narrow(&v.each[i], in[i]);
        *(uint4 *)((E *)m.p + r * m.ld + c) = v.all;
    }
    /* As it is when it was stored and is loaded again. */
    static __device__ __forceinline__ void round(const struct sn_mat &, float x[N])
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            E rounded;
            sn_narrow(&rounded, x[i]);
            x[i] = sn_wide(rounded);
        }
    }
};

struct sn_any {
    enum { N = 1 };
    typedef float raw;
    static __device__ __forceinline__ raw fetch(const struct sn_mat &m, int64_t r, int64_t c)
    {
        float x[1];
        load(m, r, c, x);
        return x[0];
    }
    static __device__ __forceinline__ void widen(const struct sn_mat &, raw x, float out[1])
    {
        out[0] = x;
    }
    static __device__ __forceinline__ void load(const struct sn_mat &m, int64_t r, int64_t c,
                                                float out[1])
    {
        int64_t at = r * m.ld + c;
        if (m.dtype == SN_F32)
            out[0] = ((const float *)m.p)[at];
        else if (m.dtype == SN_BF16)
            out[0] = sn_wide(((const sn_bf16 *)m.p)[at]);
        else
            out[0] = sn_wide(((const sn_f16 *)m.p)[at]);
    }
    static __device__ __forceinline__ void store(const struct sn_mat &m, int64_t r, int64_t c,
                                                 const float in[1])
    {
        int64_t at = r * m.ld + c;
        if (m.dtype == SN_F32)
            ((float *)m.p)[at] = in[0];
        else if (m.dtype == SN_BF16)
            sn_narrow((sn_bf16 *)m.p + at, in[0]);
        else
            sn_narrow((sn_f16 *)m.p + at, in[0]);
    }
    static __device__ __forceinline__ void round(const struct sn_mat &m, float x[1])
    {
        sn_bf16 b;
        sn_f16 h;
        if (m.dtype == SN_BF16) {
            sn_narrow(&b, x[0]);
            x[0] = sn_wide(b);
        } else if (m.dtype == SN_F16) {
            sn_narrow(&h, x[0]);
            x[0] = sn_wide(h);
        }
    }
};

/* One element, whatever its small float type. */
static __device__ __forceinline__ float sn_element(const struct sn_mat &m, int64_t r, int64_t c)
{
    float x[1];
    sn_any::load(m, r, c, x);
    return x[0];
}

/* Two neighbouring sums in memory, at a multiple of 8 bytes, grow by x and y, in whatever order
 * blocks come: only where attr.any_order allows it. */
static __device__ __forceinline__ void sn_add_pair(float *to, float x, float y)
{
#if SN_DEVICE_ARCH >= 90
    (void)atomicAdd((float2 *)to, make_float2(x, y));
#else
    (void)atomicAdd(to, x);
    (void)atomicAdd(to + 1, y);
#endif
}

/* N neighbouring sums in fp32, 16 bytes at a time where N and their address allow it. */
template <int N> static __device__ __forceinline__ void sn_load_sums(const float *p, float x[N])
{
    bool aligned = N % 4 == 0 && (uintptr_t)p % 16 == 0;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        if (aligned) {
            float4 four = *(const float4 *)(p + i);
            x[i] = four.x, x[i + 1] = four.y, x[i + 2] = four.z, x[i + 3] = four.w;
        }
#pragma unroll
        for (int k = i; k < N && k < i + 4 && !aligned; k++)
            x[k] = p[k];
    }
}

template <int N> static __device__ __forceinline__ void sn_store_sums(float *p, const float x[N])
{
    bool aligned = N % 4 == 0 && (uintptr_t)p % 16 == 0;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        if (aligned) {
            float4 four = {x[i], x[i + 1], x[i + 2], x[i + 3]};
            *(float4 *)(p + i) = four;
        }
#pragma unroll
        for (int k = i; k < N && k < i + 4 && !aligned; k++)
            p[k] = x[k];
    }
}

/* Runs the statement with A the access for `how`. */
#define SN_BY_TYPE(how, ...)                                                                       \
    switch (how) {                                                                                 \
    case SN_F32: {                                                                                 \
        typedef sn_vec<float> A;                                                                   \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case SN_BF16: {                                                                                \
        typedef sn_vec<sn_bf16> A;                                                                 \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    case SN_F16: {                                                                                 \
        typedef sn_vec<sn_f16> A;                                                                  \
        __VA_ARGS__;                                                                               \
    } break;                                                                                       \
    default: {                                                                                     \
        typedef sn_any A;                                                                          \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    }

/* --- sums ------------------------------------------------------------------------------------ */

enum { SN_ALL_LANES = -1 };

template <class V> static __device__ __forceinline__ V sn_warp_sum(V x)
{
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2)
        x += __shfl_xor_sync((unsigned)SN_ALL_LANES, x, d);
    return x;
}

/* fmaxf would drop a NaN; here it stays. One instruction from sm_80 on. */
static __device__ __forceinline__ float sn_max(float a, float b)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#else
    return a > b || a != a ? a : b;
#endif
}

/*
 * 2^x by the device's own instruction, at most 2 ulp from the rounded result (PTX ISA, ex2); what
 * would be below the smallest normal value, 2^-126, is 0. NaN stays NaN, -inf gives 0, inf gives
 * inf. exp2f() has the same error and keeps subnormal results, for three instructions more.
 */
static __device__ __forceinline__ float sn_exp2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

static __device__ __forceinline__ float sn_warp_max(float x)
{
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2)
        x = sn_max(x, __shfl_xor_sync((unsigned)SN_ALL_LANES, x, d));
    return x;
}

/*
 * The sum over the threads of a row (those of blockDim.x: a warp, or all of a block that has one
 * row), for all of them. `room` is shared, of SN_WARP values; all threads of the block call this.
 * One order whatever the device.
 */
template <class V> static __device__ __forceinline__ V sn_row_sum(V x, V *room)
{
    x = sn_warp_sum(x);
    if (blockDim.x == SN_WARP)
        return x;
    int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
    __syncthreads(); /* the last reader of `room` is through */
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = lane < (int)blockDim.x / SN_WARP ? room[lane] : V(0);
    return sn_warp_sum(x);
}

static __device__ __forceinline__ float sn_row_max(float x, float *room)
{
    x = sn_warp_max(x);
    if (blockDim.x == SN_WARP)
        return x;
    int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    x = lane < (int)blockDim.x / SN_WARP ? room[lane] : -INFINITY;
    return sn_warp_max(x);
}

/* --- walks ----------------------------------------------------------------------------------- */

/* The rows of this thread's row of threads: for (r = first; r < rows; r += step). All threads of a
 * block make the same number of turns: those beyond the end take part in sums, and store nothing.
 */
static __device__ __forceinline__ int64_t sn_first_row(void)
{
    return (int64_t)blockIdx.x * blockDim.y;
}

static __device__ __forceinline__ int64_t sn_row_step(void)
{
    return (int64_t)gridDim.x * blockDim.y;
}

/*
 * Op::at(a, r, c) for every A::N elements of rows x cols. Op::rows() may shorten it by what only
 * the device knows.
 */
template <class Op>
static __global__ void __launch_bounds__(SN_BLOCK)
    sn_plane(const struct sn_args a, int64_t rows, int64_t cols)
{
    int64_t width = cols / Op::N;
    rows = Op::rows(a, rows);
    for (int64_t r = sn_first_row() + threadIdx.y; r < rows; r += sn_row_step())
        for (int64_t v = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; v < width;
             v += (int64_t)gridDim.y * blockDim.x)
            Op::at(a, r, v * Op::N);
}

template <class Op>
static int sn_plane_run(struct sn_cuda *cx, const struct sn_args *a, int64_t rows, int64_t cols)
{
    return sn_launch(cx, sn_plane<Op>, sn_shape_plane(rows, cols / Op::N), *a, rows, cols);
}

struct sn_all_rows {
    static __device__ __forceinline__ int64_t rows(const struct sn_args &, int64_t n)
    {
        return n;
    }
};

/* The operands with every matrix as one row, if none has gaps:
 * narrow ones then fill whole blocks. */
static inline struct sn_args sn_flat(const struct sn_args *a)
{
    struct sn_args flat = *a;
    struct sn_mat *m[SN_MAX_IN + SN_MAX_OUT];
    for (int i = 0; i < SN_MAX_IN; i++)
        m[i] = &flat.in[i];
    for (int i = 0; i < SN_MAX_OUT; i++)
        m[SN_MAX_IN + i] = &flat.out[i];
    for (int i = 0; i < SN_MAX_IN + SN_MAX_OUT; i++)
        if (m[i]->p && m[i]->rows > 1 && m[i]->ld != m[i]->cols)
            return *a;
    for (int i = 0; i < SN_MAX_IN + SN_MAX_OUT; i++) {
        m[i]->cols *= m[i]->rows;
        m[i]->ld = m[i]->cols;
        m[i]->rows = 1;
    }
    return flat;
}

#endif
