/*
 * scale.c - SCALE.
 */
#include "kernels/cpu/rows.h"

static void tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    float x_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS], scale = a->attr.scale;
    const float *x = sn_get(&a->in[SN_SCALE_X], r, c, n, x_buf);
    float *y = sn_dst(&a->out[SN_SCALE_Y], r, c, y_buf);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = scale * x[i];
    sn_put(&a->out[SN_SCALE_Y], r, c, n, y);
}

SN_KERNEL(sn_scale)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[SN_SCALE_Y], SN_TILE_COLS, tile);
    return 0;
}
