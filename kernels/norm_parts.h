/*
 * norm_parts.h - how a norm merges what is known of the slices of a row: the specification, shared
 * by CPU and CUDA code.
 *
 * Ranks that hold P slices of a row's features, all as long, give K numbers of each (NORM_PART,
 * NORM_DX_PART). Means over the row are averages over its slices; of the mean m_p and the variance
 * v_p of slice p,
 *
 *   m = 1/P sum_p m_p,   v = 1/P sum_p v_p + 1/P sum_p (m_p - m)^2
 *
 * which is exact, and no difference of large numbers: the merge of Chan, Golub and LeVeque
 * ("Updating formulae and a pairwise algorithm for computing sample variances", Stanford
 * STAN-CS-79-773, 1979), for P samples of one size at once. In double and in the order of slices:
 * ranks that merge the same parts have the same bits.
 *
 * parts[P T, K] f32: row p T + r is of slice p of row r.
 */
#ifndef SN_NORM_PARTS_H
#define SN_NORM_PARTS_H

#include "kernels/both.h"
#include "kernels/tensor.h"

/* The average over slices of number k of row r; there are `rows` of them in a slice. */
SN_BOTH double sn_parts_mean(const struct sn_mat *parts, int64_t rows, int64_t r, int k)
{
    double sum = 0.0;
    for (int64_t i = r; i < parts->rows; i += rows)
        sum += (double)((const float *)parts->p)[i * parts->ld + k];
    return sum / (double)(parts->rows / rows);
}

/* v of row r, whose m is `mean`. */
SN_BOTH double sn_parts_variance(const struct sn_mat *parts, int64_t rows, int64_t r, double mean)
{
    double sum = 0.0;
    for (int64_t i = r; i < parts->rows; i += rows) {
        const float *part = (const float *)parts->p + i * parts->ld;
        double off = (double)part[0] - mean;
        sum += (double)part[1] + off * off;
    }
    return sum / (double)(parts->rows / rows);
}

#endif
