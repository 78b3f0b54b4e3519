/*
 * route.cu - ROUTE, ROUTE_DX and ROUTE_LOSS: formulas as in kernels/cpu/route.c and
 * kernels/mixer.h. A warp has a row; sums over experts are in double.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/mixer.h"

enum { WARPS = SN_BLOCK / SN_WARP };

static __device__ __forceinline__ int64_t warp_number(void)
{
    return (int64_t)blockIdx.x * WARPS + threadIdx.x / SN_WARP;
}

static __device__ __forceinline__ const float *floats(const struct sn_mat &m, int64_t r)
{
    return (const float *)m.p + r * m.ld;
}

static __device__ __forceinline__ const int32_t *choices(const struct sn_mat &m, int64_t r)
{
    return (const int32_t *)m.p + r * m.ld;
}

/* log of the sum of exponentials, for all lanes. */
static __device__ double lse_of(const float *x, int64_t n, int lane)
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

/* --- forward --------------------------------------------------------------------------------- */

/* Is (v, e) to be chosen rather than (w, f)? -1: none yet. Of equal ones the lower number. */
static __device__ __forceinline__ bool beats(float v, int32_t e, float w, int32_t f)
{
    if (e < 0 || f < 0)
        return f < 0;
    return v > w || (v == w && e < f);
}

static __device__ __forceinline__ bool is_taken(int32_t e, const int32_t *choice, int64_t j)
{
    bool taken = false;
    for (int64_t i = 0; i < j; i++)
        taken = taken || choice[i] == e;
    return taken;
}

/* What the choice goes by: the logits, or with a bias the softmax of all of them plus it. */
struct scores {
    const float *x, *bias;
    double lse;
    __device__ __forceinline__ float at(int64_t e) const
    {
        return bias ? (float)exp((double)x[e] - lse) + bias[e] : x[e];
    }
};

static __device__ struct scores scores_of(const struct sn_args &a, int64_t r, int lane)
{
    struct scores s = {floats(a.in[0], r), (const float *)a.in[1].p, 0};
    if (s.bias)
        s.lse = lse_of(s.x, a.in[0].cols, lane);
    return s;
}

/* The largest chosen logit. */
static __device__ __forceinline__ float largest(const float *x, const int32_t *choice, int64_t k)
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
static __device__ int32_t best(const struct scores &x, int64_t n, const int32_t *choice, int64_t j,
                               int lane)
{
    int32_t found = -1, first = INT32_MAX;
    float top = 0;
    for (int32_t e = lane; e < n; e += SN_WARP) {
        if (is_taken(e, choice, j))
            continue;
        first = e < first ? e : first;
        float own = x.at(e);
        if (own == own && beats(own, e, top, found)) {
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
        if (beats(v, e, top, found)) {
            top = v;
            found = e;
        }
    }
    return x.at(first) != x.at(first) ? first : found;
}

static __global__ void __launch_bounds__(SN_BLOCK) route(const struct sn_args a)
{
    const struct sn_mat &x = a.in[0];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[0].cols;
    for (int64_t r = warp_number(); r < x.rows; r += (int64_t)gridDim.x * WARPS) {
        const float *row = floats(x, r);
        struct scores score = scores_of(a, r, lane);
        float *w = (float *)a.out[0].p + r * a.out[0].ld;
        int32_t *choice = (int32_t *)a.out[1].p + r * a.out[1].ld;
        for (int64_t j = 0; j < k; j++) {
            int32_t e = best(score, x.cols, choice, j, lane);
            if (lane == 0)
                choice[j] = e;
            __syncwarp(); /* the next search reads it */
        }
        float max = largest(row, choice, k);
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (double)expf(row[choice[j]] - max);
        for (int64_t j = lane; j < k; j += SN_WARP)
            w[j] = (float)((double)expf(row[choice[j]] - max) / sum);
    }
}

/* --- forward, of a sparsemixer --------------------------------------------------------------- */

/* Choice j of a token with the logits x[n], the largest of those that are left, and the sum that
 * makes probabilities. */
struct turn {
    const float *x;
    int64_t n;
    const int32_t *choice;
    int64_t j;
    float range;
    int32_t top;
    double sum;
    __device__ __forceinline__ float weight(int32_t e) const
    {
        bool near = !is_taken(e, choice, j) && sn_mixer_is_near(x[e], x[top], range);
        return near ? expf(x[e] - x[top]) : 0;
    }
    __device__ __forceinline__ float p(int32_t e) const
    {
        return (float)((double)weight(e) / sum);
    }
};

static __device__ void mix(struct turn &t, int64_t j, int lane)
{
    const struct scores all = {t.x, NULL, 0};
    double sum = 0;
    t.j = j;
    t.top = best(all, t.n, t.choice, j, lane);
    for (int32_t e = lane; e < t.n; e += SN_WARP)
        sum += (double)t.weight(e);
    t.sum = sn_warp_sum(sum);
}

/* For all lanes: the first expert up to which probabilities are more than `unit`, at least the last
 * that has any. */
static __device__ int32_t drawn(const struct turn &t, double unit, int lane)
{
    int32_t found = t.top; /* of NaNs */
    double before = 0;
    for (int32_t base = 0; base < t.n && before <= unit; base += SN_WARP) {
        int32_t e = base + lane;
        float p = e < t.n ? t.p(e) : 0;
        double up_to = (double)p;
        for (int d = 1; d < SN_WARP; d *= 2) {
            double less = __shfl_up_sync((unsigned)SN_ALL_LANES, up_to, (unsigned)d);
            up_to += lane >= d ? less : 0;
        }
        up_to += before;
        unsigned may = __ballot_sync((unsigned)SN_ALL_LANES, p > 0 && up_to - (double)p <= unit);
        found = may ? base + SN_WARP - 1 - __clz((int)may) : found;
        before = __shfl_sync((unsigned)SN_ALL_LANES, up_to, SN_WARP - 1);
    }
    return found;
}

static __global__ void __launch_bounds__(SN_BLOCK) route_mixed(const struct sn_args a)
{
    const struct sn_mat &x = a.in[0];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[0].cols;
    for (int64_t r = warp_number(); r < x.rows; r += (int64_t)gridDim.x * WARPS) {
        int32_t *choice = (int32_t *)a.out[1].p + r * a.out[1].ld;
        struct turn t = {floats(x, r), x.cols, choice, 0, a.attr.range, 0, 0};
        for (int64_t j = 0; j < k; j++) {
            float factor = 1;
            mix(t, j, lane);
            int32_t found = t.top;
            if (a.attr.draws) {
                struct sn_mixer_draw d = sn_mixer_draw(&a.attr, a.scalars, r, k, j);
                found = drawn(t, d.unit, lane);
                factor = sn_mixer_factor(found == t.top, &d);
            }
            float p = t.p(found);
            if (lane == 0) {
                choice[j] = found;
                ((float *)a.out[0].p)[r * a.out[0].ld + j] = factor * p;
                if (a.out[3].p)
                    ((float *)a.out[3].p)[r * a.out[3].ld + j] = p;
            }
            __syncwarp(); /* the next search reads it */
        }
    }
}

/* --- forward, dense -------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(SN_BLOCK) route_all(const struct sn_args a)
{
    const struct sn_mat &x = a.in[0];
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t r = warp_number(); r < x.rows; r += (int64_t)gridDim.x * WARPS) {
        double lse = lse_of(floats(x, r), x.cols, lane);
        float *w = (float *)a.out[0].p + r * a.out[0].ld;
        for (int64_t e = lane; e < x.cols; e += SN_WARP)
            w[e] = (float)exp((double)floats(x, r)[e] - lse);
    }
}

/* Sums of each expert's weights; a warp for each. */
static __global__ void __launch_bounds__(SN_BLOCK) count_all(const struct sn_args a)
{
    const struct sn_mat &w = a.out[0], &counts = a.out[2];
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t e = warp_number(); e < counts.cols; e += (int64_t)gridDim.x * WARPS) {
        double n = 0;
        for (int64_t r = lane; r < w.rows; r += SN_WARP)
            n += (double)floats(w, r)[e];
        n = sn_warp_sum(n);
        if (lane == 0)
            ((float *)counts.p)[e] = (float)n;
    }
}

/* How often each expert is chosen; a warp for each. */
static __global__ void __launch_bounds__(SN_BLOCK) count(const struct sn_args a)
{
    const struct sn_mat &choice = a.out[1], &counts = a.out[2];
    int64_t all = choice.rows * choice.cols;
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t e = warp_number(); e < counts.cols; e += (int64_t)gridDim.x * WARPS) {
        int32_t n = 0;
        for (int64_t i = lane; i < all; i += SN_WARP)
            n += choices(choice, i / choice.cols)[i % choice.cols] == e;
        n = sn_warp_sum(n);
        if (lane == 0)
            ((float *)counts.p)[e] = (float)n;
    }
}

SN_CUDA_OP(route)
{
    if (a->attr.dense) {
        int failed = sn_launch(cx, route_all, sn_shape_line(a->in[0].rows * SN_WARP), *a);
        return failed ? failed
                      : sn_launch(cx, count_all, sn_shape_line(a->out[2].cols * SN_WARP), *a);
    }
    int rc = sn_launch(cx, a->attr.sparsemixer ? route_mixed : route,
                       sn_shape_line(a->in[0].rows * SN_WARP), *a);
    return rc ? rc : sn_launch(cx, count, sn_shape_line(a->out[2].cols * SN_WARP), *a);
}

/* --- losses ---------------------------------------------------------------------------------- */

struct losses {
    double balance, z;
};

/* sum_e counts_e, for all lanes. */
static __device__ double all_counts(const float *counts, int64_t n, int lane)
{
    double all = 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        all += (double)counts[e];
    return sn_warp_sum(all);
}

/* log P_e - log p_e; 0 where P_e vanished. */
static __device__ __forceinline__ double information(double count, double all, double log_p)
{
    return count > 0 ? log(count / all) - log_p : 0;
}

/* part[b]: of the rows of block b, in order within each warp, then over its warps. */
static __global__ void __launch_bounds__(SN_BLOCK)
    route_losses(const struct sn_args a, struct losses *part)
{
    __shared__ struct losses room[WARPS];
    const struct sn_mat &x = a.in[0];
    const float *counts = (const float *)a.in[1].p;
    int lane = (int)threadIdx.x % SN_WARP, warp = (int)threadIdx.x / SN_WARP;
    struct losses mine = {0, 0};
    double all = a.attr.dense ? all_counts(counts, x.cols, lane) : 1;
    for (int64_t r = warp_number(); r < x.rows; r += (int64_t)gridDim.x * WARPS) {
        double lse = lse_of(floats(x, r), x.cols, lane), dot = 0;
        for (int64_t e = lane; e < x.cols; e += SN_WARP) {
            double log_p = (double)floats(x, r)[e] - lse, count = (double)counts[e];
            dot += exp(log_p) * (a.attr.dense ? information(count, all, log_p) : count);
        }
        mine.balance += sn_warp_sum(dot);
        mine.z += lse * lse;
    }
    if (lane == 0)
        room[warp] = mine;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < WARPS; i++) {
        mine.balance += room[i].balance;
        mine.z += room[i].z;
    }
    part[blockIdx.x] = mine;
}

static __global__ void __launch_bounds__(SN_WARP)
    add_route_losses(const struct sn_args a, const struct losses *part, int64_t blocks)
{
    int64_t n = a.in[0].cols;
    double all = all_counts((const float *)a.in[1].p, n, (int)threadIdx.x), balance = 0, z = 0;
    for (int64_t b = 0; b < blocks; b++) {
        balance += part[b].balance;
        z += part[b].z;
    }
    if (threadIdx.x != 0)
        return;
    double factor = a.attr.dense ? 1 : all > 0 ? (double)n / all : 0;
    a.scalars->balance_sum += factor * balance;
    a.scalars->z_sum += z;
}

SN_CUDA_OP(route_loss)
{
    struct losses *part = (struct losses *)a->scratch;
    struct sn_shape many = sn_shape_route_loss(a->in[0].rows),
                    one = {many.x > 0, 1, 1, SN_WARP, 1, 0};
    int rc = sn_launch(cx, route_losses, many, *a, part);
    return rc ? rc : sn_launch(cx, add_route_losses, one, *a, part, (int64_t)many.x);
}

/* --- backward -------------------------------------------------------------------------------- */

struct loss_terms {
    double lse, each, mean, z;
};

/* What the two losses need of a row. */
static __device__ struct loss_terms loss_terms_of(const struct sn_args &a, const float *x, int lane)
{
    const float *counts = (const float *)a.in[3].p;
    int64_t n = a.out[0].cols;
    struct loss_terms t;
    double scale = (double)a.scalars->loss_scale / a.scalars->tokens_in_step;
    double all = all_counts(counts, n, lane), mean = 0;
    t.lse = lse_of(x, n, lane);
    t.z = 2 * scale * (double)a.attr.z_loss * t.lse;
    t.each = all > 0 && !a.attr.dense ? scale * (double)a.attr.aux_loss * (double)n / all : 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        mean += exp((double)x[e] - t.lse) * t.each * (double)counts[e];
    t.mean = sn_warp_sum(mean);
    return t;
}

/* What the losses add for expert e. */
static __device__ __forceinline__ float loss_term(const struct sn_args &a, const float *x,
                                                  int64_t e, const struct loss_terms &t)
{
    return (float)(exp((double)x[e] - t.lse) *
                   (t.each * (double)((const float *)a.in[3].p)[e] - t.mean + t.z));
}

/* What p_e, whose logarithm is log_p, is multiplied by in the loss: dw, and the information. */
struct dense_terms {
    double aux, all;
    __device__ __forceinline__ double at(const struct sn_args &a, int64_t r, int64_t e,
                                         double log_p) const
    {
        double g = (double)floats(a.in[0], r)[e];
        const float *counts = (const float *)a.in[3].p;
        return counts ? g + aux * information((double)counts[e], all, log_p) : g;
    }
};

static __global__ void __launch_bounds__(SN_BLOCK) route_all_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[0];
    int lane = (int)threadIdx.x % SN_WARP;
    double scale = (double)a.scalars->loss_scale / a.scalars->tokens_in_step;
    for (int64_t r = warp_number(); r < dx.rows; r += (int64_t)gridDim.x * WARPS) {
        const float *x = floats(a.in[1], r);
        double lse = lse_of(x, dx.cols, lane), mean = 0;
        struct loss_terms l = {0, 0, 0, 0};
        struct dense_terms t = {scale * (double)a.attr.aux_loss, 1};
        if (a.in[3].p) {
            l = loss_terms_of(a, x, lane);
            t.all = all_counts((const float *)a.in[3].p, dx.cols, lane);
        }
        for (int64_t e = lane; e < dx.cols; e += SN_WARP)
            mean += exp((double)x[e] - lse) * t.at(a, r, e, (double)x[e] - lse);
        mean = sn_warp_sum(mean);
        for (int64_t e = lane; e < dx.cols; e += SN_WARP) {
            double log_p = (double)x[e] - lse;
            float d[1] = {(float)(exp(log_p) * (t.at(a, r, e, log_p) - mean))};
            if (a.in[3].p)
                d[0] += loss_term(a, x, e, l);
            sn_any::store(dx, r, e, d);
        }
    }
}

static __global__ void __launch_bounds__(SN_BLOCK) route_mixed_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[0];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.in[0].cols;
    for (int64_t r = warp_number(); r < dx.rows; r += (int64_t)gridDim.x * WARPS) {
        const float *dw = floats(a.in[0], r), *x = floats(a.in[1], r);
        struct turn t = {x, dx.cols, choices(a.in[2], r), 0, a.attr.range, 0, 0};
        struct loss_terms l = {0, 0, 0, 0};
        if (a.in[3].p)
            l = loss_terms_of(a, x, lane);
        for (int64_t base = 0; base < dx.cols; base += SN_WARP) {
            int32_t e = (int32_t)(base + lane);
            float d[1] = {0};
            for (int64_t j = 0; j < k; j++) { /* of few choices, most often among 32 experts */
                mix(t, j, lane);
                int32_t own = t.choice[j];
                if (e < dx.cols)
                    d[0] += dw[j] * t.p(own) * ((float)(e == own) - t.p(e));
            }
            if (e >= dx.cols)
                continue;
            if (a.in[3].p)
                d[0] += loss_term(a, x, e, l);
            sn_any::store(dx, r, e, d);
        }
    }
}

static __global__ void __launch_bounds__(SN_BLOCK) route_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[0];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.in[0].cols;
    for (int64_t r = warp_number(); r < dx.rows; r += (int64_t)gridDim.x * WARPS) {
        const float *dw = floats(a.in[0], r), *x = floats(a.in[1], r);
        const int32_t *choice = choices(a.in[2], r);
        struct loss_terms t = {0, 0, 0, 0};
        float max = largest(x, choice, k);
        double sum = 0, mean = 0;
        if (a.in[3].p)
            t = loss_terms_of(a, x, lane);
        for (int64_t j = 0; j < k; j++)
            sum += (double)expf(x[choice[j]] - max);
        for (int64_t j = 0; j < k; j++)
            mean += (double)expf(x[choice[j]] - max) / sum * (double)dw[j];
        for (int64_t e = lane; e < dx.cols; e += SN_WARP) {
            float d[1] = {0};
            for (int64_t j = 0; j < k; j++)
                if (choice[j] == e)
                    d[0] = (float)((double)expf(x[e] - max) / sum * ((double)dw[j] - mean));
            if (a.in[3].p)
                d[0] += loss_term(a, x, e, t);
            sn_any::store(dx, r, e, d);
        }
    }
}

SN_CUDA_OP(route_dx)
{
    return sn_launch(cx,
                     a->attr.dense         ? route_all_dx
                     : a->attr.sparsemixer ? route_mixed_dx
                                           : route_dx,
                     sn_shape_line(a->out[0].rows * SN_WARP), *a);
}
