/*
 * dropout.c - DROPOUT; kernels/dropout.h specifies the mask.
 *
 * drop = 0 copies (or adds): with it the factor is 1 everywhere.
 */
#include "kernels/cpu/dropout_row.h"
#include "kernels/cpu/rows.h"

_Static_assert(SN_CHUNK <= SN_DROP_MOST, "a piece fits a row of factors");

static void tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[0], *g = &a->in[1], *y = &a->out[0];
    float room[SN_DROP_ROOM], x_buf[SN_CHUNK], g_buf[SN_CHUNK], y_buf[SN_CHUNK];
    int64_t sample = a->scalars->first_sample + r / a->attr.seq;
    struct sn_dropout_mask mask = {sn_dropout_key(a->scalars->seed, a->scalars->step), a->attr.site,
                                   a->attr.drop, 1.0f / (1.0f - a->attr.drop)};
    const float *f = sn_dropout_row(&mask, sample, r % a->attr.seq * x->cols + c, n, room);
    const float *from = sn_get(x, r, c, n, x_buf);
    float *to = sn_dst(y, r, c, y_buf);
    if (g->p) {
        const float *gp = sn_get(g, r, c, n, g_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] * f[i] + gp[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] * f[i];
    }
    sn_put(y, r, c, n, to);
}

SN_KERNEL(sn_dropout)
{
    sn_each_tile(a, threads, &a->out[0], SN_CHUNK, tile);
    return 0;
}
