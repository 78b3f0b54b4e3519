/*
 * scale.c - SCALE, and GATE and GATE_DX: rows times a factor of each.
 */
#include "kernels/cpu/rows.h"

struct place {
    int64_t r, c, n;
};

static void times(const struct sn_mat *in, const struct sn_mat *out, struct place p, float factor)
{
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    const float *x = sn_get(in, p.r, p.c, p.n, x_buf);
    float *y = sn_dst(out, p.r, p.c, y_buf);
#pragma omp simd
    for (int64_t i = 0; i < p.n; i++)
        y[i] = factor * x[i];
    sn_put(out, p.r, p.c, p.n, y);
}

static void tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    times(&a->in[SN_SCALE_X], &a->out[SN_SCALE_Y], (struct place){r, c, n}, a->attr.scale);
}

SN_KERNEL(sn_scale)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[SN_SCALE_Y], SN_TILE_COLS, tile);
    return 0;
}

/* --- a factor of each row --------------------------------------------------------------------- */

static float gate_of(const struct sn_mat *z, int64_t r)
{
    float v = *(const float *)sn_at(z, r, 0), e = expf(-fabsf(v)); /* <= 1: nothing overflows */
    return v >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

static void gate_tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    float gate = gate_of(&a->in[SN_GATE_Z], r);
    times(&a->in[SN_GATE_X], &a->out[SN_GATE_Y], (struct place){r, c, n}, gate);
}

SN_KERNEL(sn_gate)
{
    sn_each_tile(a, threads, &a->out[SN_GATE_Y], SN_TILE_COLS, gate_tile);
    return 0;
}

/* dx may lie where dy or x does: a piece of both is read before it is written. */
static void gate_dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dy = &a->in[SN_GATE_DX_DY], *x = &a->in[SN_GATE_DX_X],
                        *dx = &a->out[SN_GATE_DX_DX], *dz = &a->out[SN_GATE_DX_DZ];
    float dy_buf[SN_TILE_COLS], x_buf[SN_TILE_COLS], dx_buf[SN_TILE_COLS];
    float s = gate_of(&a->in[SN_GATE_DX_Z], r);
    double sum = 0;
    for (int64_t c = 0; c < dy->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(dy->cols, c);
        const float *d = sn_get(dy, r, c, n, dy_buf), *v = sn_get(x, r, c, n, x_buf);
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += (double)d[i] * (double)v[i];
        if (!dx->p)
            continue;
        float *out = sn_dst(dx, r, c, dx_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = s * d[i];
        sn_put(dx, r, c, n, out);
    }
    float slope = (float)(sum * (double)s * (1.0 - (double)s));
    if (dz->p)
        sn_row_store(sn_at(dz, r, 0), dz->dtype, &slope, 1);
}

SN_KERNEL(sn_gate_dx)
{
    sn_each_row(a, threads, a->in[SN_GATE_DX_DY].rows, a->in[SN_GATE_DX_DY].cols, gate_dx_row);
    return 0;
}
