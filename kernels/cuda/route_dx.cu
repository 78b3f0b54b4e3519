/*
 * route_dx.cu - ROUTE_DX: formulas as in kernels/cpu/route.c and kernels/mixer.h.
 */
#include "kernels/cuda/route.cuh"

struct loss_terms {
    double lse, each, mean, z;
    double parts; /* the sum of sigmoids; 0: of a softmax */
    const float *counts;
};

/* What the two losses need of row r. */
static __device__ struct loss_terms loss_terms_of(const struct sn_args &a, int64_t r, int lane)
{
    const float *x = sn_floats(a.in[SN_ROUTE_DX_LOGITS], r);
    int64_t n = a.out[SN_ROUTE_DX_DLOGITS].cols;
    struct loss_terms t;
    double scale = (double)a.scalars->loss_scale / a.scalars->tokens_in_step;
    t.counts = sn_counts_of(a, a.in[SN_ROUTE_DX_COUNTS], r);
    double all = sn_all_counts(t.counts, n, lane), mean = 0;
    t.lse = sn_lse_of(x, n, lane);
    t.parts = a.attr.experts.sigmoid ? sn_sum_of_sigmoids(x, n, lane) : 0;
    t.z = 2 * scale * (double)a.attr.experts.z_loss * t.lse;
    t.each = all > 0 && !a.attr.experts.dense
                 ? scale * (double)a.attr.experts.aux_loss * (double)n / all
                 : 0;
    for (int64_t e = lane; e < n; e += SN_WARP)
        mean += (t.parts > 0 ? (double)sn_sigmoid(x[e]) / t.parts : exp((double)x[e] - t.lse)) * t.each *
                (double)t.counts[e];
    t.mean = sn_warp_sum(mean);
    return t;
}

/* What the losses add for expert e. */
static __device__ __forceinline__ float loss_term(const float *x, int64_t e, const struct loss_terms &t)
{
    double p = exp((double)x[e] - t.lse), own = t.each * (double)t.counts[e] - t.mean;
    if (t.parts <= 0)
        return (float)(p * (own + t.z));
    double q = (double)sn_sigmoid(x[e]);
    return (float)(q / t.parts * (1 - q) * own + p * t.z);
}

/* What p_e, whose logarithm is log_p, is multiplied by in the loss: dw, and the information. */
struct dense_terms {
    double aux, all;
    __device__ __forceinline__ double at(const struct sn_args &a, int64_t r, int64_t e,
                                         double log_p) const
    {
        double g = (double)sn_floats(a.in[SN_ROUTE_DX_DW], r)[e];
        const float *counts = (const float *)a.in[SN_ROUTE_DX_COUNTS].p;
        return counts ? g + aux * sn_information((double)counts[e], all, log_p) : g;
    }
};

static __global__ void __launch_bounds__(SN_BLOCK) route_all_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[SN_ROUTE_DX_DLOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    double scale = (double)a.scalars->loss_scale / a.scalars->tokens_in_step;
    for (int64_t r = sn_warp_number(); r < dx.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *x = sn_floats(a.in[SN_ROUTE_DX_LOGITS], r);
        double lse = sn_lse_of(x, dx.cols, lane), mean = 0;
        struct loss_terms l = {};
        struct dense_terms t = {scale * (double)a.attr.experts.aux_loss, 1};
        if (a.in[SN_ROUTE_DX_COUNTS].p) {
            l = loss_terms_of(a, r, lane);
            t.all = sn_all_counts((const float *)a.in[SN_ROUTE_DX_COUNTS].p, dx.cols, lane);
        }
        for (int64_t e = lane; e < dx.cols; e += SN_WARP)
            mean += exp((double)x[e] - lse) * t.at(a, r, e, (double)x[e] - lse);
        mean = sn_warp_sum(mean);
        for (int64_t e = lane; e < dx.cols; e += SN_WARP) {
            double log_p = (double)x[e] - lse;
            float d[1] = {(float)(exp(log_p) * (t.at(a, r, e, log_p) - mean))};
            if (a.in[SN_ROUTE_DX_COUNTS].p)
                d[0] += loss_term(x, e, l);
            sn_any::store(dx, r, e, d);
        }
    }
}

static __global__ void __launch_bounds__(SN_BLOCK) route_mixed_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[SN_ROUTE_DX_DLOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.in[SN_ROUTE_DX_DW].cols;
    for (int64_t r = sn_warp_number(); r < dx.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *dw = sn_floats(a.in[SN_ROUTE_DX_DW], r),
                    *x = sn_floats(a.in[SN_ROUTE_DX_LOGITS], r);
        struct sn_turn t = {
            x, dx.cols, sn_choices(a.in[SN_ROUTE_DX_CHOICE], r), 0, a.attr.experts.range, 0, 0};
        struct loss_terms l = {};
        if (a.in[SN_ROUTE_DX_COUNTS].p)
            l = loss_terms_of(a, r, lane);
        for (int64_t base = 0; base < dx.cols; base += SN_WARP) {
            int32_t e = (int32_t)(base + lane);
            float d[1] = {0};
            for (int64_t j = 0; j < k; j++) { /* of few choices, most often among 32 experts */
                sn_mix(t, j, lane);
                int32_t own = t.choice[j];
                if (e < dx.cols)
                    d[0] += dw[j] * t.p(own) * ((float)(e == own) - t.p(e));
            }
            if (e >= dx.cols)
                continue;
            if (a.in[SN_ROUTE_DX_COUNTS].p)
                d[0] += loss_term(x, e, l);
            sn_any::store(dx, r, e, d);
        }
    }
}

static __global__ void __launch_bounds__(SN_BLOCK) route_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[SN_ROUTE_DX_DLOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.in[SN_ROUTE_DX_DW].cols;
    for (int64_t r = sn_warp_number(); r < dx.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *dw = sn_floats(a.in[SN_ROUTE_DX_DW], r),
                    *x = sn_floats(a.in[SN_ROUTE_DX_LOGITS], r);
        const int32_t *choice = sn_choices(a.in[SN_ROUTE_DX_CHOICE], r);
        struct loss_terms t = {};
        float max = sn_largest(x, choice, k);
        double sum = 0, mean = 0;
        if (a.in[SN_ROUTE_DX_COUNTS].p)
            t = loss_terms_of(a, r, lane);
        for (int64_t j = 0; j < k; j++)
            sum += (double)expf(x[choice[j]] - max);
        if (a.attr.experts.of_all)
            sum = exp(sn_lse_of(x, dx.cols, lane) - (double)max);
        for (int64_t j = 0; j < k; j++)
            mean += (double)expf(x[choice[j]] - max) / sum * (double)dw[j];
        for (int64_t e = lane; e < dx.cols; e += SN_WARP) {
            float d[1] = {0};
            if (a.attr.experts.of_all)
                d[0] = (float)(sn_route_scale(a) * (-(double)expf(x[e] - max) / sum * mean));
            for (int64_t j = 0; j < k; j++)
                if (choice[j] == e)
                    d[0] = (float)(sn_route_scale(a) *
                                   ((double)expf(x[e] - max) / sum * ((double)dw[j] - mean)));
            if (a.in[SN_ROUTE_DX_COUNTS].p)
                d[0] += loss_term(x, e, t);
            sn_any::store(dx, r, e, d);
        }
    }
}

/* Of weights by sigmoids, each alone or over their sum. */
static __global__ void __launch_bounds__(SN_BLOCK) route_sigmoid_dx(const struct sn_args a)
{
    const struct sn_mat &dx = a.out[SN_ROUTE_DX_DLOGITS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t k = a.in[SN_ROUTE_DX_DW].cols;
    for (int64_t r = sn_warp_number(); r < dx.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *dw = sn_floats(a.in[SN_ROUTE_DX_DW], r),
                    *x = sn_floats(a.in[SN_ROUTE_DX_LOGITS], r);
        const int32_t *choice = sn_choices(a.in[SN_ROUTE_DX_CHOICE], r);
        double sum = 0, mean = 0;
        for (int64_t j = 0; j < k && !a.attr.experts.of_all; j++)
            sum += (double)sn_sigmoid(x[choice[j]]);
        for (int64_t j = 0; j < k && !a.attr.experts.of_all; j++)
            mean += (double)sn_sigmoid(x[choice[j]]) / sum * (double)dw[j];
        double each = sn_route_scale(a) / (a.attr.experts.of_all ? 1 : sum);
        struct loss_terms t = {};
        if (a.in[SN_ROUTE_DX_COUNTS].p)
            t = loss_terms_of(a, r, lane);
        for (int64_t e = lane; e < dx.cols; e += SN_WARP) {
            float d[1] = {0};
            double s = 1.0 / (1.0 + exp(-(double)x[e]));
            for (int64_t j = 0; j < k; j++)
                if (choice[j] == e)
                    d[0] = (float)(each * s * (1 - s) * ((double)dw[j] - mean));
            if (a.in[SN_ROUTE_DX_COUNTS].p)
                d[0] += loss_term(x, e, t);
            sn_any::store(dx, r, e, d);
        }
    }
}

SN_CUDA_OP(route_dx)
{
    return sn_launch(cx,
                     a->attr.experts.dense         ? route_all_dx
                     : a->attr.experts.sparsemixer ? route_mixed_dx
                     : a->attr.experts.sigmoid     ? route_sigmoid_dx
                                                   : route_dx,
                     sn_shape_line(a->out[SN_ROUTE_DX_DLOGITS].rows * SN_WARP), *a);
}
