/*
 * add.c - ADD.
 */
#include "kernels/cpu/rows.h"

static void tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    float x_buf[SN_CHUNK], z_buf[SN_CHUNK], y_buf[SN_CHUNK];
    const float *x = sn_get(&a->in[0], r, c, n, x_buf), *z = sn_get(&a->in[1], r, c, n, z_buf);
    float *y = sn_dst(&a->out[0], r, c, y_buf);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] + z[i];
    sn_put(&a->out[0], r, c, n, y);
}

SN_KERNEL(sn_add)
{
    struct sn_args flat = sn_flatten(a);
    sn_each_tile(&flat, threads, &flat.out[0], SN_CHUNK, tile);
    return 0;
}
