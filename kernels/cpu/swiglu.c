/*
 * swiglu.c - SWIGLU and SWIGLU_DX.
 *
 *   y = g s u,  s = sigmoid(v), with g = x[:, :F] and u = x[:, F:]
 *   dg = dy u (s + g s (1 - s) v'),  du = dy g s
 *
 * where v = g, v' = 1 (silu), or v = 2 sqrt(2/pi) (g + 0.044715 g^3) (GELU, as in act.c).
 */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

static const float two_root_2_over_pi = 1.5957691216057308f; /* 2 sqrt(2/pi) */
static const float cubic = 0.044715f;

static void forward_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_SWIGLU_X], *y = &a->out[SN_SWIGLU_Y];
    float g_buf[SN_TILE_COLS], u_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    const float *g = sn_get(x, r, c, n, g_buf), *u = sn_get(x, r, y->cols + c, n, u_buf);
    float *yp = sn_dst(y, r, c, y_buf);
    if (a->attr.gate == SN_GATE_SILU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            yp[i] = g[i] / (1.0f + sn_expf(-g[i])) * u[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = two_root_2_over_pi * (g[i] + cubic * g[i] * g[i] * g[i]);
            yp[i] = g[i] / (1.0f + sn_expf(-v)) * u[i];
        }
    }
    sn_put(y, r, c, n, yp);
}

/* The rows of m that count. */
static struct sn_mat rows_within(const struct sn_mat *m, const struct sn_mat *bounds)
{
    struct sn_mat x = *m;
    if (bounds->p)
        x.rows = ((const int32_t *)bounds->p)[bounds->cols - 1];
    return x;
}

SN_KERNEL(sn_swiglu)
{
    struct sn_mat y = rows_within(&a->out[SN_SWIGLU_Y], &a->in[SN_SWIGLU_BOUNDS]);
    sn_each_tile(a, threads, &y, SN_TILE_COLS, forward_tile);
    return 0;
}

static void dx_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *dy = &a->in[SN_SWIGLU_DX_DY], *x = &a->in[SN_SWIGLU_DX_X],
                        *dx = &a->out[SN_SWIGLU_DX_DX];
    float dy_buf[SN_TILE_COLS], g_buf[SN_TILE_COLS], u_buf[SN_TILE_COLS], dg_buf[SN_TILE_COLS],
        du_buf[SN_TILE_COLS];
    const float *d = sn_get(dy, r, c, n, dy_buf);
    const float *g = sn_get(x, r, c, n, g_buf), *u = sn_get(x, r, dy->cols + c, n, u_buf);
    float *dg = sn_dst(dx, r, c, dg_buf), *du = sn_dst(dx, r, dy->cols + c, du_buf);
    if (a->attr.gate == SN_GATE_SILU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float gi = g[i], di = d[i];
            float e = sn_expf(-fabsf(gi)); /* <= 1: nothing overflows */
            float q = 1.0f / (1.0f + e);
            float s = gi >= 0.0f ? q : e * q;
            dg[i] = di * u[i] * (s + gi * (e * q * q));
            du[i] = di * gi * s;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float gi = g[i], di = d[i], g2 = gi * gi;
            float v = two_root_2_over_pi * gi * (1.0f + cubic * g2);
            float slope = two_root_2_over_pi * (1.0f + 3.0f * cubic * g2);
            float e = sn_expf(-fabsf(v));
            float q = 1.0f / (1.0f + e);
            float s = v >= 0.0f ? q : e * q;
            dg[i] = di * u[i] * (s + gi * slope * (e * q * q));
            du[i] = di * gi * s;
        }
    }
    sn_put(dx, r, c, n, dg);
    sn_put(dx, r, dy->cols + c, n, du);
}

SN_KERNEL(sn_swiglu_dx)
{
    struct sn_mat dy = rows_within(&a->in[SN_SWIGLU_DX_DY], &a->in[SN_SWIGLU_DX_BOUNDS]);
    sn_each_tile(a, threads, &dy, SN_TILE_COLS, dx_tile);
    return 0;
}
