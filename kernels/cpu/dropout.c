/*
 * dropout.c - DROPOUT and JITTER; kernels/dropout.h specifies the factors.
 *
 * drop = 0 copies (or adds): with it the factor is 1 everywhere.
 */
#include "kernels/cpu/rows.h"
#include "kernels/dropout.h"
#include "kernels/position.h"

enum {
    GROUPS = SN_TILE_COLS / 4 + 1
}; /* a piece that starts inside a group of four touches one more */

/* factor[i] belongs to element first + i of the sample; returns a pointer into `room`. */
static const float *factors(const struct sn_args *a, int64_t sample, int64_t first, int64_t n,
                            float room[4 * GROUPS])
{
    const struct sn_noise noise = sn_noise_of(&a->attr, a->scalars);
    uint32_t site = a->attr.random.site;
    int64_t group = first / 4, groups = (first + n + 3) / 4 - group;
#pragma omp simd
    for (int64_t j = 0; j < groups; j++) {
        struct sn_philox w = sn_dropout_words(noise.key, site, sample, group + j);
        room[4 * j] = sn_noise_factor(w.v[0], &noise);
        room[4 * j + 1] = sn_noise_factor(w.v[1], &noise);
        room[4 * j + 2] = sn_noise_factor(w.v[2], &noise);
        room[4 * j + 3] = sn_noise_factor(w.v[3], &noise);
    }
    return room + first % 4;
}

static void tile(const struct sn_args *a, int64_t r, int64_t c, int64_t n)
{
    const struct sn_mat *x = &a->in[SN_NOISE_X], *g = &a->in[SN_NOISE_ADDEND],
                        *y = &a->out[SN_NOISE_Y];
    float room[4 * GROUPS], x_buf[SN_TILE_COLS], g_buf[SN_TILE_COLS], y_buf[SN_TILE_COLS];
    int64_t sample = a->scalars->first_sample + sn_row_sample(&a->attr.position, r);
    const float *f = factors(a, sample, sn_noise_element(&a->attr, x, r, c), n, room);
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
    sn_each_tile(a, threads, &a->out[SN_NOISE_Y], SN_TILE_COLS, tile);
    return 0;
}

/* attr.random.jitter says which factors. */
SN_KERNEL(sn_jitter)
{
    return SN_K(sn_dropout)(a, threads);
}
