/*
 * act.c - ACT and ACT_DX: the two forms of GELU.
 *
 *   tanh form: y = x/2 (1 + tanh u) = x sigmoid(2u),  u = sqrt(2/pi) (x + 0.044715 x^3)
 *              dy/dx = sigmoid(2u) + x sigmoid'(2u) 2u'
 *   erf form:  y = x P(x),  dy/dx = P(x) + x p(x),  P(x) = (1 + erf(x / sqrt 2)) / 2,
 *              p(x) = exp(-x^2/2) / sqrt(2 pi)
 *
 * The sigmoid keeps its relative accuracy at large negative x, where 1 + tanh cancels.
 */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

static const float two_root_2_over_pi = 1.5957691216057308f; /* 2 sqrt(2/pi) */
static const float cubic = 0.044715f;
static const float inv_root_2 = 0.7071067811865476f;
static const float inv_root_2pi = 0.3989422804014327f;

static void act_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    const float *x = sn_get(&a->in[SN_ACT_X], r, c, n, x_buf);
    float *y = sn_dst(&a->out[SN_ACT_Y], r, c, y_buf);
    if (a->attr.act == SN_ACT_GELU_TANH) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float u2 = two_root_2_over_pi * (x[i] + cubic * x[i] * x[i] * x[i]);
            y[i] = x[i] / (1.0f + sn_expf(-u2));
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = 0.5f * x[i] * (1.0f + sn_erff(x[i] * inv_root_2));
    }
    sn_put(&a->out[SN_ACT_Y], r, c, n, y);
}

SN_KERNEL(sn_act)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[SN_ACT_Y], SN_TILE_COLS, act_tile);
    return 0;
}

static void act_dx_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], dx_buf[SN_TILE_COLS];
    const float *dy = sn_get(&a->in[SN_ACT_DX_DY], r, c, n, dy_buf);
    const float *x = sn_get(&a->in[SN_ACT_DX_X], r, c, n, x_buf);
    float *dx = sn_dst(&a->out[SN_ACT_DX_DX], r, c, dx_buf);
    if (a->attr.act == SN_ACT_GELU_TANH) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float x2 = x[i] * x[i];
            float u2 = two_root_2_over_pi * x[i] * (1.0f + cubic * x2);
            float slope = two_root_2_over_pi * (1.0f + 3.0f * cubic * x2);
            float e = sn_expf(-fabsf(u2)); /* <= 1: nothing overflows */
            float q = 1.0f / (1.0f + e);
            float sigmoid = u2 >= 0.0f ? q : e * q;
            dx[i] = dy[i] * (sigmoid + x[i] * slope * (e * q * q));
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float cdf = 0.5f * (1.0f + sn_erff(x[i] * inv_root_2));
            float pdf = inv_root_2pi * sn_expf(-0.5f * x[i] * x[i]);
            dx[i] = dy[i] * (cdf + x[i] * pdf);
        }
    }
    sn_put(&a->out[SN_ACT_DX_DX], r, c, n, dx);
}

SN_KERNEL(sn_act_dx)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[SN_ACT_DX_DX], SN_TILE_COLS, act_dx_tile);
    return 0;
}
