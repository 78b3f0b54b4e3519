/*
 * route.cu - ROUTE: formulas as in kernels/cpu/route.c and kernels/mixer.h.
 */
#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/route.cuh"
#include "kernels/cuda/tally.cuh"

static __device__ struct sn_scores scores_of(const struct sn_args &a, int64_t r, const float *bias, int lane)
{
    const struct sn_experts_attr &x = a.attr.experts;
    int64_t n = a.in[SN_ROUTE_LOGITS].cols;
    struct sn_scores s = {sn_floats(a.in[SN_ROUTE_LOGITS], r), bias, 0, x.sigmoid, 1, n};
    if (s.bias && !s.sigmoid)
        s.lse = sn_lse_of(s.x, n, lane);
    if (x.groups > 1) {
        s.each = n / x.groups;
        s.open = sn_open_groups(s, x.groups, x.top_groups, lane);
    }
    return s;
}

/* For all lanes: the choice of row r. */
static __device__ const int32_t *choose(const struct sn_args &a, int64_t r, const float *bias,
                                        const struct sn_mat &to, int lane)
{
    struct sn_scores score = scores_of(a, r, bias, lane);
    int32_t *choice = (int32_t *)to.p + r * to.ld;
    for (int64_t j = 0; j < to.cols; j++) {
        int32_t e = sn_best(score, a.in[SN_ROUTE_LOGITS].cols, choice, j, lane);
        if (lane == 0)
            choice[j] = e;
        __syncwarp(); /* the next search reads it */
    }
    return choice;
}

static __global__ void __launch_bounds__(SN_BLOCK) route(const struct sn_args a)
{
    const struct sn_mat &x = a.in[SN_ROUTE_LOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.out[SN_ROUTE_W].cols;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *row = sn_floats(x, r);
        float *w = (float *)a.out[SN_ROUTE_W].p + r * a.out[SN_ROUTE_W].ld;
        const int32_t *choice =
            choose(a, r, (const float *)a.in[SN_ROUTE_BIAS].p, a.out[SN_ROUTE_CHOICE], lane);
        if (a.out[SN_ROUTE_OWN].p)
            choose(a, r, NULL, a.out[SN_ROUTE_OWN], lane);
        bool sigmoids = a.attr.experts.sigmoid;
        float max = sn_largest(row, choice, k);
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += (double)(sigmoids ? sn_sigmoid(row[choice[j]]) : expf(row[choice[j]] - max));
        if (a.attr.experts.of_all && !sigmoids)
            sum = exp(sn_lse_of(row, x.cols, lane) - (double)max);
        else if (sigmoids)
            sum = a.attr.experts.of_all ? 1 : sum + 1e-20;
        for (int64_t j = lane; j < k; j += SN_WARP)
            w[j] = (float)(sn_route_scale(a) *
                           ((double)(sigmoids ? sn_sigmoid(row[choice[j]])
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

/* Group g is sample g, whose rows may be on other ranks. */
struct chosen_of_sequence {
    static __device__ __forceinline__ int32_t expert(const struct sn_args &a, int64_t g, int64_t i)
    {
        const struct sn_mat &choice = a.out[a.out[SN_ROUTE_OWN].p ? SN_ROUTE_OWN : SN_ROUTE_CHOICE];
        int64_t r = g * sn_rows_per_sample(&a.attr.position) + i / choice.cols - a.attr.position.row0;
        return r < 0 || r >= choice.rows ? -1 : sn_choices(choice, r)[i % choice.cols];
    }
};

static __global__ void __launch_bounds__(SN_BLOCK) give_counts(const struct sn_mat to, const int32_t *sums)
{
    int64_t step = (int64_t)gridDim.x * SN_BLOCK;
    for (int64_t i = (int64_t)blockIdx.x * SN_BLOCK + threadIdx.x; i < to.rows * to.cols; i += step)
        ((float *)to.p)[i / to.cols * to.ld + i % to.cols] = (float)sums[i];
}

template <class Items>
static int count_choices(struct sn_cuda *cx, const struct sn_args *a, const struct sn_tally &t,
                         const struct sn_mat &to)
{
    int32_t *sums;
    int rc = sn_tally_run<Items>(cx, a, t, &sums);
    return rc ? rc : sn_launch(cx, give_counts, sn_shape_line(to.rows * to.cols), to, (const int32_t *)sums);
}

static int count_all(struct sn_cuda *cx, const struct sn_args *a)
{
    int rc = count_choices<chosen>(cx, a, sn_tally_route(a), a->out[SN_ROUTE_COUNTS]);
    return rc || !a->out[SN_ROUTE_SEQUENCES].p
               ? rc
               : count_choices<chosen_of_sequence>(cx, a, sn_tally_sequences(a), a->out[SN_ROUTE_SEQUENCES]);
}

SN_CUDA_OP(route)
{
    struct sn_shape rows = sn_shape_line(a->in[SN_ROUTE_LOGITS].rows * SN_WARP);
    int rc = sn_launch(cx,
                       a->attr.experts.dense         ? route_all
                       : a->attr.experts.sparsemixer ? route_mixed
                                                     : route,
                       rows, *a);
    return rc ? rc : a->attr.experts.dense ? sum_weights(cx, a) : count_all(cx, a);
}
