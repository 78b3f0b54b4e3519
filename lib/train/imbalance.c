#include "lib/train/imbalance.h"

static double violation(const double *counts, int experts)
{
    double all = 0, most = 0;
    for (int e = 0; e < experts; e++) {
        all += counts[e];
        most = counts[e] > most ? counts[e] : most;
    }
    return all > 0 ? most * experts / all - 1 : 0;
}

struct sn_imbalance sn_imbalance_of(const double *counts, int layers, int experts)
{
    struct sn_imbalance l = {0, 0};
    for (int i = 0; i < layers; i++) {
        double v = violation(counts + (long)i * experts, experts);
        l.mean += v / layers;
        l.worst = v > l.worst ? v : l.worst;
    }
    return l;
}
