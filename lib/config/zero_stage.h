/*
 * zero_stage.h - what the ranks that hold the same weights (replicas) divide among themselves: one
 * row for each stage of ZeRO (Rajbhandari et al., arXiv 1910.02054).
 *
 * Of weights, gradients and optimizer state a rank holds all, its slice, or nothing. Who checks,
 * compiles, counts or prices them asks what is held, and never which stage it is.
 */
#ifndef SN_ZERO_STAGE_H
#define SN_ZERO_STAGE_H

#include <stdbool.h>

struct sn_config;

enum sn_hold { SN_HOLD_ALL, SN_HOLD_SLICE, SN_HOLD_NOTHING };

/* What a rank holds between two micro-batches. */
struct sn_holding {
    enum sn_hold weights, gradients;
    enum sn_hold optimizer; /* masters and moments */
};

const struct sn_holding *sn_zero_holding(int stage);
/* Of a resolved layout: with one replica nothing is divided. */
const struct sn_holding *sn_config_holding(const struct sn_config *c);

/* Those of one micro-batch are whole. Where less is held of their sum they are a temporary: they
 * are reduced when they are complete, and not at the end of the step. */
static inline bool sn_gradients_are_temporary(const struct sn_holding *h)
{
    return h->gradients != SN_HOLD_ALL;
}

/* They are gathered where they are read. */
static inline bool sn_weights_are_slices(const struct sn_holding *h)
{
    return h->weights == SN_HOLD_SLICE;
}

/* Each replica updates its slice. */
static inline bool sn_updates_are_slices(const struct sn_holding *h)
{
    return h->optimizer == SN_HOLD_SLICE;
}

/* And gathers those of the others, to hold all weights. */
static inline bool sn_updates_are_gathered(const struct sn_holding *h)
{
    return sn_updates_are_slices(h) && !sn_weights_are_slices(h);
}

#endif
