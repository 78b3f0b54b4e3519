/*
 * norm_part.c - NORM_PART and NORM_DX_PART: what a slice of a row's features contributes to its
 * norm, and to the norm's gradient.
 *
 *   part    = mean(x^2), or (m, mean((x - m)^2)) with m = mean(x)
 *   dx part = mean_j(w_j dy_j x_j), or (mean_j(w_j dy_j), mean_j(w_j dy_j h_j)), h as in layernorm.c
 *
 * of the slice's columns, the first for RMSNORM, the second for LAYERNORM. These merge the parts of
 * all slices (norm_parts.h).
 */
#include "kernels/cpu/norm.h"

static void part_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *x = &a->in[SN_NORM_PART_X], *out = &a->out[SN_NORM_PART_PART];
    float *part = sn_at(out, r, 0);
    if (out->cols == 1) {
        part[0] = (float)sn_row_mean_square(x, r);
        return;
    }
    struct sn_moments m = sn_row_moments(x, r);
    part[0] = (float)m.mean;
    part[1] = (float)m.variance;
}

SN_KERNEL(sn_norm_part)
{
    sn_each_row(a, threads, a->in[SN_NORM_PART_X].rows, a->in[SN_NORM_PART_X].cols, part_row);
    return 0;
}

static void dx_part_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *out = &a->out[SN_NORM_DX_PART_PART];
    float *part = sn_at(out, r, 0);
    if (out->cols == 1) {
        part[0] = (float)sn_weighted_mean(a, r);
        return;
    }
    double mean[2];
    sn_weighted_means(a, r, sn_layer_stats_at(&a->in[SN_NORM_DX_PART_STATS], r), mean);
    part[0] = (float)mean[0];
    part[1] = (float)mean[1];
}

SN_KERNEL(sn_norm_dx_part)
{
    sn_each_row(a, threads, a->in[SN_NORM_DX_PART_X].rows, a->in[SN_NORM_DX_PART_X].cols,
                dx_part_row);
    return 0;
}
