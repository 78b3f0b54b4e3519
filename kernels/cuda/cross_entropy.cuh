/*
 * cross_entropy.cuh - what CROSS_ENTROPY and CE_PART share: which columns are words, and the
 * running (max, sum) of a row over the threads of its block.
 */
#ifndef SN_CUDA_CROSS_ENTROPY_CUH
#define SN_CUDA_CROSS_ENTROPY_CUH

#include "kernels/cuda/device.cuh"

static __device__ __forceinline__ int64_t sn_ce_words(const struct sn_args &a)
{
    int64_t cols = a.in[SN_CROSS_ENTROPY_LOGITS].cols,
            left = a.attr.vocab.words - a.attr.vocab.first;
    if (a.attr.vocab.words == 0)
        return cols;
    return left < 0 ? 0 : left < cols ? left : cols;
}

static __device__ __forceinline__ int32_t sn_ce_target(const struct sn_args &a, int64_t r)
{
    return (
        (const int32_t *)a.in[SN_CROSS_ENTROPY_TARGETS].p)[r * a.in[SN_CROSS_ENTROPY_TARGETS].ld];
}

/* The column of row r's target, -1 when it is another rank's word or none. */
static __device__ __forceinline__ int64_t sn_ce_column(const struct sn_args &a, int64_t r)
{
    int64_t c = sn_ce_target(a, r) - a.attr.vocab.first;
    return c >= 0 && c < sn_ce_words(a) ? c : -1;
}

/* What stands for a logit. */
static __device__ __forceinline__ float sn_ce_capped(float z, float cap)
{
    return cap > 0 ? cap * tanhf(z / cap) : z;
}

struct sn_ce_sum {
    float max;
    double sum; /* of e^(x - max) */
};

/*
 * Over the columns of row r that are words; (-infinity, 0) when there are none. Each thread keeps a
 * running maximum of its own and adds in fp32 over one access, in double beyond. One row a block;
 * all threads call this and get the result.
 */
template <class A>
static __device__ struct sn_ce_sum sn_ce_row(const struct sn_args &a, int64_t r, float *max_room,
                                             double *sum_room)
{
    enum { N = A::N };
    const struct sn_mat &x = a.in[SN_CROSS_ENTROPY_LOGITS];
    int64_t words = sn_ce_words(a);
    float max = -INFINITY, cap = a.attr.vocab.cap;
    double sum = 0;
    for (int64_t c = (int64_t)threadIdx.x * N; c < words; c += (int64_t)blockDim.x * N) {
        float v[N], top = max, part = 0;
        A::load(x, r, c, v);
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] = c + i < words ? sn_ce_capped(v[i], cap) : -INFINITY; /* what is no word may be anything */
            top = sn_max(top, v[i]);
        }
        float base = top == -INFINITY ? 0.0f : top; /* nothing but -infinity yet */
#pragma unroll
        for (int i = 0; i < N; i++)
            part += expf(v[i] - base);
        if (top > max)
            sum *= exp((double)max - (double)top);
        sum += (double)part;
        max = top;
    }
    struct sn_ce_sum all;
    all.max = sn_row_max(max, max_room);
    double shrink = all.max == max     ? 1.0
                    : max == -INFINITY ? 0.0
                                       : exp((double)max - (double)all.max);
    all.sum = sn_row_sum(sum * shrink, sum_room);
    return all;
}

/* A row is a block, of SN_BLOCK_MOST threads for a vocabulary and fewer for less. */
static inline struct sn_shape sn_shape_ce(int64_t rows, int64_t width)
{
    struct sn_shape g = {sn_cap(rows, SN_GRID_CAP), 1, 1, sn_power(width, 64, SN_BLOCK_MOST), 1, 0};
    return g;
}

#endif
