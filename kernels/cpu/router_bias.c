/*
 * router_bias.c - ROUTER_BIAS: biases of routers after a step (Wang et al., "Auxiliary-Loss-Free Load
 * Balancing", arXiv 2408.15664, algorithm 1).
 *
 *   b_e += rate sign(mean count - count_e)
 *
 * Counts are whole numbers, so a sum over ranks has one value in any order, and so has the sign.
 */
#include "kernels/cpu/cpu.h"

SN_KERNEL(sn_router_bias)
{
    (void)threads; /* L x E numbers */
    const struct sn_mat *counts = &a->in[SN_ROUTER_BIAS_COUNTS];
    if (!a->scalars->ok)
        return 0;
    for (int64_t l = 0; l < counts->rows; l++) {
        const float *c = sn_mat_row(counts, l);
        float *b = sn_mat_row(&a->out[SN_ROUTER_BIAS_BIAS], l);
        double mean = 0;
        for (int64_t e = 0; e < counts->cols; e++)
            mean += (double)c[e];
        mean /= (double)counts->cols;
        for (int64_t e = 0; e < counts->cols; e++)
            b[e] += (double)c[e] < mean   ? a->attr.experts.rate
                    : (double)c[e] > mean ? -a->attr.experts.rate
                                          : 0.0f;
    }
    return 0;
}
