/*
 * route.cu - ROUTE: formulas as in kernels/cpu/route.c and kernels/mixer.h.
 */
#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/route.cuh"
#include "kernels/cuda/tally.cuh"

static __device__ struct sn_scores scores_of(const struct sn_args &a, int64_t r, int lane)
{
    const struct sn_experts_attr &x = a.attr.experts;
    int64_t n = a.in[SN_ROUTE_LOGITS].cols;
    struct sn_scores s = {sn_floats(a.in[SN_ROUTE_LOGITS], r), (const float *)a.in[SN_ROUTE_BIAS].p,
                          0, x.sigmoid, 1, n};
    if (s.bias && !s.sigmoid)
        s.lse = sn_lse_of(s.x, n, lane);
    if (x.groups > 1) {
        s.each = n / x.groups;
        s.open = sn_open_groups(s, x.groups, x.top_groups, lane);
    }
    return s;
}

static __global__ void __launch_bounds__(SN_BLOCK) route(const struct sn_args a)
{
    const struct sn_mat &x = a.in[SN_ROUTE_LOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[SN_ROUTE_W].cols;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *row = sn_floats(x, r);
        struct sn_scores score = scores_of(a, r, lane);
        float *w = (float *)a.out[SN_ROUTE_W].p + r * a.out[SN_ROUTE_W].ld;
        int32_t *choice = (int32_t *)a.out[SN_ROUTE_CHOICE].p + r * a.out[SN_ROUTE_CHOICE].ld;
        for (int64_t j = 0; j < k; j++) {
            int32_t e = sn_best(score, x.cols, choice, j, lane);
            if (lane == 0)
                choice[j] = e;
            __syncwarp(); /* the next search reads it */
        }
        float max = sn_largest(row, choice, k);
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (double)(score.sigmoid ? sn_sigmoid(row[choice[j]]) : expf(row[choice[j]] - max));
        if (a.attr.experts.of_all && !score.sigmoid)
            sum = exp(sn_lse_of(row, x.cols, lane) - (double)max);
        else if (score.sigmoid)
            sum = a.attr.experts.of_all ? 1 : sum + 1e-20;
        for (int64_t j = lane; j < k; j += SN_WARP)
            w[j] = (float)(sn_route_scale(a) *
                           ((double)(score.sigmoid ? sn_sigmoid(row[choice[j]])
                                                   : expf(row[choice[j]] - max)) /
                            sum));
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
    const struct sn_mat &x = a.in[SN_ROUTE_LOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[SN_ROUTE_W].cols;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        int32_t *choice = (int32_t *)a.out[SN_ROUTE_CHOICE].p + r * a.out[SN_ROUTE_CHOICE].ld;
        struct sn_turn t = {sn_floats(x, r), x.cols, choice, 0, a.attr.experts.range, 0, 0};
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
                ((float *)a.out[SN_ROUTE_W].p)[r * a.out[SN_ROUTE_W].ld + j] = factor * p;
                if (a.out[SN_ROUTE_P].p)
                    ((float *)a.out[SN_ROUTE_P].p)[r * a.out[SN_ROUTE_P].ld + j] = p;
            }
            __syncwarp(); /* the next search reads it */
        }
    }
}

/* --- dense -------------------------------------------------------------------------- */

static __global__ void __launch_bounds__(SN_BLOCK) route_all(const struct sn_args a)
{
    const struct sn_mat &x = a.in[SN_ROUTE_LOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        double lse = sn_lse_of(sn_floats(x, r), x.cols, lane);
        float *w = (float *)a.out[SN_ROUTE_W].p + r * a.out[SN_ROUTE_W].ld;
        for (int64_t e = lane; e < x.cols; e += SN_WARP)
            w[e] = (float)exp((double)sn_floats(x, r)[e] - lse);
    }
}

/* Sums of each expert's weights. */
struct weights {
    enum { N = 1, OUTS = 1 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t e,
                                                 float t[OUTS][N])
    {
        t[0][0] = sn_floats(a.in[SN_ROUTE_LOGITS], r)[e];
    }
};

static int sum_weights(struct sn_cuda *cx, const struct sn_args *a)
{
    struct sn_args sums = {};
    sums.in[0] = a->out[SN_ROUTE_W];
    sums.out[0] = a->out[SN_ROUTE_COUNTS];
    sums.scratch = a->scratch;
    return sn_sum_columns<weights>(cx, &sums, a->out[SN_ROUTE_W].rows, a->out[SN_ROUTE_W].cols);
}

/* --- how often each expert is chosen --------------------------------------------------------- */

struct chosen {
    static __device__ __forceinline__ int32_t expert(const struct sn_args &a, int64_t, int64_t i)
    {
        return sn_choices(a.out[SN_ROUTE_CHOICE],
                          i / a.out[SN_ROUTE_CHOICE].cols)[i % a.out[SN_ROUTE_CHOICE].cols];
    }
};

static __global__ void __launch_bounds__(SN_BLOCK)
    give_counts(const struct sn_args a, const int32_t *sums)
{
    int64_t step = (int64_t)gridDim.x * SN_BLOCK;
    for (int64_t e = (int64_t)blockIdx.x * SN_BLOCK + threadIdx.x; e < a.out[SN_ROUTE_COUNTS].cols;
         e += step)
        ((float *)a.out[SN_ROUTE_COUNTS].p)[e] = (float)sums[e];
}

static int count_choices(struct sn_cuda *cx, const struct sn_args *a)
{
    int32_t *sums;
    int rc = sn_tally_run<chosen>(cx, a, sn_tally_route(a), &sums);
    return rc ? rc
              : sn_launch(cx, give_counts, sn_shape_line(a->out[SN_ROUTE_COUNTS].cols), *a,
                          (const int32_t *)sums);
}

SN_CUDA_OP(route)
{
    struct sn_shape rows = sn_shape_line(a->in[SN_ROUTE_LOGITS].rows * SN_WARP);
    int rc = sn_launch(cx,
                       a->attr.experts.dense         ? route_all
                       : a->attr.experts.sparsemixer ? route_mixed
                                                     : route,
                       rows, *a);
    return rc ? rc : a->attr.experts.dense ? sum_weights(cx, a) : count_choices(cx, a);
}
