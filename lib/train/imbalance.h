/*
 * imbalance.h - how unevenly a step's tokens went to the experts.
 *
 * Of a layer whose expert e was chosen c_e times by the tokens of the step's global batch,
 *
 *   MaxVio = max_e c_e / mean_e c_e - 1
 *
 * (Wang et al., "Auxiliary-Loss-Free Load Balancing", arXiv 2408.15664, 4.1: of one batch): 0 when
 * all experts get the same, E / k - 1 when the same k get everything. Choices are counted, also
 * those that a capacity then leaves out; of a dense router c_e sums probabilities.
 */
#ifndef SN_IMBALANCE_H
#define SN_IMBALANCE_H

struct sn_imbalance {
    double mean, worst; /* MaxVio, over the layers with experts */
};

/* counts: layers x experts; a layer of which nothing was counted is in balance. */
struct sn_imbalance sn_imbalance_of(const double *counts, int layers, int experts);

#endif
