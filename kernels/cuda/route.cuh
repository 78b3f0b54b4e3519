/*
 * route.cuh - what ROUTE, ROUTE_DX and ROUTE_LOSS share: a warp has a row of logits; sums over
 * experts are in double. Formulas as in kernels/cpu/route.c and kernels/mixer.h.
 */
#ifndef SN_CUDA_ROUTE_CUH
#define SN_CUDA_ROUTE_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/mixer.h"
#include "kernels/position.h"

enum { SN_ROUTE_WARPS = SN_BLOCK / SN_WARP };

static __device__ __forceinline__ int64_t sn_warp_number(void)
{
    return (int64_t)blockIdx.x * SN_ROUTE_WARPS + threadIdx.x / SN_WARP;
}

static __device__ __forceinline__ const float *sn_floats(const struct sn_mat &m, int64_t r)
{
    return (const float *)m.p + r * m.ld;
}

static __device__ __forceinline__ const int32_t *sn_choices(const struct sn_mat &m, int64_t r)
{
    return (const int32_t *)m.p + r * m.ld;
}

/* log of the sum of exponentials, for all lanes. */
static __device__ inline double sn_lse_of(const float *x, int64_t n, int lane)
{
    float max = x[0];
    double sum = 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        max = x[e] > max ? x[e] : max;
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2) {
        float other = __shfl_xor_sync((unsigned)SN_ALL_LANES, max, d);
        max = other > max ? other : max;
    }
    for (int64_t e = lane; e < n; e += SN_WARP)
        sum += (double)expf(x[e] - max);
    return (double)max + log(sn_warp_sum(sum));
}

/* sum_e counts_e, for all lanes. */
static __device__ inline double sn_all_counts(const float *counts, int64_t n, int lane)
{
    double all = 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        all += (double)counts[e];
    return sn_warp_sum(all);
}

/* Of the tokens that row r is balanced with. */
static __device__ __forceinline__ const float *sn_counts_of(const struct sn_args &a, const struct sn_mat &counts,
                                                            int64_t r)
{
    return sn_floats(counts, a.attr.experts.by_sequence ? sn_row_sample(&a.attr.position, r) : 0);
}

/* log P_e - log p_e; 0 where P_e vanished. */
static __device__ __forceinline__ double sn_information(double count, double all, double log_p)
{
    return count > 0 ? log(count / all) - log_p : 0;
}

/* --- choices -------------------------------------------------------------------------------- */

/* Is (v, e) to be chosen rather than (w, f)? -1: none yet. Of equal ones the lower number. */
static __device__ __forceinline__ bool sn_beats(float v, int32_t e, float w, int32_t f)
{
    if (e < 0 || f < 0)
        return f < 0;
    return v > w || (v == w && e < f);
}

static __device__ __forceinline__ bool sn_is_taken(int32_t e, const int32_t *choice, int64_t j)
{
    bool taken = false;
    for (int64_t i = 0; i < j; i++)
        taken = taken || choice[i] == e;
    return taken;
}

static __device__ __forceinline__ float sn_sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp(-(double)x)));
}

/* Of all experts, for all lanes. */
static __device__ inline double sn_sum_of_sigmoids(const float *x, int64_t n, int lane)
{
    double sum = 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        sum += (double)sn_sigmoid(x[e]);
    return 1e-20 + sn_warp_sum(sum);
}

/* What weights are multiplied by. */
static __device__ __forceinline__ double sn_route_scale(const struct sn_args &a)
{
    return a.attr.experts.route_scale > 0 ? (double)a.attr.experts.route_scale : 1.0;
}

/* What the choice goes by: the logits, or with a bias the softmax of all of them plus it, or sigmoids;
 * of groups of `each` experts those of `open`, as bits. */
struct sn_scores {
    const float *x, *bias;
    double lse;
    bool sigmoid;
    uint64_t open;
    int64_t each;
    __device__ __forceinline__ float at(int64_t e) const
    {
        if (sigmoid)
            return sn_sigmoid(x[e]) + (bias ? bias[e] : 0.0f);
        return bias ? (float)exp((double)x[e] - lse) + bias[e] : x[e];
    }
    __device__ __forceinline__ bool may_be(int64_t e) const
    {
        return open >> e / each & 1;
    }
};

/* For all lanes: the largest score of a group, or the sum of its two largest. */
static __device__ inline float sn_score_of_group(const struct sn_scores &x, int64_t begin, int lane)
{
    float first = -INFINITY, second = -INFINITY;
    for (int64_t e = begin + lane; e < begin + x.each; e += SN_WARP) {
        float s = x.at(e);
        second = s > first ? first : s > second ? s : second;
        first = s > first ? s : first;
    }
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2) {
        float f = __shfl_xor_sync((unsigned)SN_ALL_LANES, first, d);
        float s = __shfl_xor_sync((unsigned)SN_ALL_LANES, second, d);
        float low = first < f ? first : f;
        first = first < f ? f : first;
        second = s > second ? s : second;
        second = low > second ? low : second;
    }
    return x.sigmoid && x.each > 1 ? first + second : first;
}

/* For all lanes: which groups are open. Lane i has the scores of groups i and i + 32. */
static __device__ inline uint64_t sn_open_groups(const struct sn_scores &x, int groups, int top,
                                                 int lane)
{
    float own[2] = {0, 0};
    uint64_t open = 0;
    for (int g = 0; g < groups; g++) {
        float s = sn_score_of_group(x, g * x.each, lane);
        if (g % SN_WARP == lane)
            own[g / SN_WARP] = s;
    }
    for (int k = 0; k < top; k++) {
        int32_t found = -1;
        float most = 0;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int32_t g = lane + i * SN_WARP;
            if (g < groups && !(open >> g & 1) && sn_beats(own[i], g, most, found)) {
                most = own[i];
                found = g;
            }
        }
#pragma unroll
        for (int d = SN_WARP / 2; d > 0; d /= 2) {
            float v = __shfl_xor_sync((unsigned)SN_ALL_LANES, most, d);
            int32_t g = __shfl_xor_sync((unsigned)SN_ALL_LANES, found, d);
            if (sn_beats(v, g, most, found)) {
                most = v;
                found = g;
            }
        }
        open |= (uint64_t)1 << found;
    }
    return open;
}

/* The largest chosen logit. */
static __device__ __forceinline__ float sn_largest(const float *x, const int32_t *choice, int64_t k)
{
    float max = x[choice[0]];
    for (int64_t j = 1; j < k; j++)
        max = x[choice[j]] > max ? x[choice[j]] : max;
    return max;
}

/*
 * The largest score that is not among the first j choices. As on the CPU, which walks the experts
 * from the first free one: a NaN is chosen if it is that one, and passed by otherwise.
 */
static __device__ inline int32_t sn_best(const struct sn_scores &x, int64_t n,
                                         const int32_t *choice, int64_t j, int lane)
{
    int32_t found = -1, first = INT32_MAX;
    float top = 0;
    for (int32_t e = lane; e < n; e += SN_WARP) {
        if (!x.may_be(e) || sn_is_taken(e, choice, j))
            continue;
        first = e < first ? e : first;
        float own = x.at(e);
        if (own == own && sn_beats(own, e, top, found)) {
            top = own;
            found = e;
        }
    }
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2) {
        float v = __shfl_xor_sync((unsigned)SN_ALL_LANES, top, d);
        int32_t e = __shfl_xor_sync((unsigned)SN_ALL_LANES, found, d);
        int32_t f = __shfl_xor_sync((unsigned)SN_ALL_LANES, first, d);
        first = f < first ? f : first;
        if (sn_beats(v, e, top, found)) {
            top = v;
            found = e;
        }
    }
    return x.at(first) != x.at(first) ? first : found;
}

/* --- choices of a sparsemixer ---------------------------------------------------------------- */

/* Choice j of a token with the logits x[n], the largest of those that are left, and the sum that
 * makes probabilities. */
struct sn_turn {
    const float *x;
    int64_t n;
    const int32_t *choice;
    int64_t j;
    float range;
    int32_t top;
    double sum;
    __device__ __forceinline__ float weight(int32_t e) const
    {
        bool near = !sn_is_taken(e, choice, j) && sn_mixer_is_near(x[e], x[top], range);
        return near ? expf(x[e] - x[top]) : 0;
    }
    __device__ __forceinline__ float p(int32_t e) const
    {
        return (float)((double)weight(e) / sum);
    }
};

static __device__ inline void sn_mix(struct sn_turn &t, int64_t j, int lane)
{
    const struct sn_scores all = {t.x, NULL, 0, false, 1, t.n};
    double sum = 0;
    t.j = j;
    t.top = sn_best(all, t.n, t.choice, j, lane);
    for (int32_t e = lane; e < t.n; e += SN_WARP)
        sum += (double)t.weight(e);
    t.sum = sn_warp_sum(sum);
}

#endif
