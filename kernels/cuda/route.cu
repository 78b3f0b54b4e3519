/*
 * route.cu - ROUTE: formulas as in kernels/cpu/route.c and kernels/mixer.h.
 */
#include "kernels/cuda/route.cuh"

static __device__ struct sn_scores scores_of(const struct sn_args &a, int64_t r, int lane)
{
    struct sn_scores s = {sn_floats(a.in[0], r), (const float *)a.in[1].p, 0};
    if (s.bias)
        s.lse = sn_lse_of(s.x, a.in[0].cols, lane);
    return s;
}

static __global__ void __launch_bounds__(SN_BLOCK) route(const struct sn_args a)
{
    const struct sn_mat &x = a.in[0];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[0].cols;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *row = sn_floats(x, r);
        struct sn_scores score = scores_of(a, r, lane);
        float *w = (float *)a.out[0].p + r * a.out[0].ld;
        int32_t *choice = (int32_t *)a.out[1].p + r * a.out[1].ld;
        for (int64_t j = 0; j < k; j++) {
            int32_t e = sn_best(score, x.cols, choice, j, lane);
            if (lane == 0)
                choice[j] = e;
            __syncwarp(); /* the next search reads it */
        }
        float max = sn_largest(row, choice, k);
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (double)expf(row[choice[j]] - max);
        for (int64_t j = lane; j < k; j += SN_WARP)
            w[j] = (float)((double)expf(row[choice[j]] - max) / sum);
    }
}

/* --- of a sparsemixer ------------------------------------------------------------------------ */

/* For all lanes: the first expert up to which probabilities are more than `unit`, at least the last
 * that has any. */
static __device__ int32_t drawn(const struct sn_turn &t, double unit, int lane)
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
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        int32_t *choice = (int32_t *)a.out[1].p + r * a.out[1].ld;
        struct sn_turn t = {sn_floats(x, r), x.cols, choice, 0, a.attr.range, 0, 0};
        for (int64_t j = 0; j < k; j++) {
            float factor = 1;
            sn_mix(t, j, lane);
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

/* --- dense -------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(SN_BLOCK) route_all(const struct sn_args a)
{
    const struct sn_mat &x = a.in[0];
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        double lse = sn_lse_of(sn_floats(x, r), x.cols, lane);
        float *w = (float *)a.out[0].p + r * a.out[0].ld;
        for (int64_t e = lane; e < x.cols; e += SN_WARP)
            w[e] = (float)exp((double)sn_floats(x, r)[e] - lse);
    }
}

/* Sums of each expert's weights; a warp for each. */
static __global__ void __launch_bounds__(SN_BLOCK) count_all(const struct sn_args a)
{
    const struct sn_mat &w = a.out[0], &counts = a.out[2];
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t e = sn_warp_number(); e < counts.cols; e += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        double n = 0;
        for (int64_t r = lane; r < w.rows; r += SN_WARP)
            n += (double)sn_floats(w, r)[e];
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
    for (int64_t e = sn_warp_number(); e < counts.cols; e += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        int32_t n = 0;
        for (int64_t i = lane; i < all; i += SN_WARP)
            n += sn_choices(choice, i / choice.cols)[i % choice.cols] == e;
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
