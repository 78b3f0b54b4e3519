/*
 * blend.h - which of several sets a sample of a run comes from, and which of that set's it is.
 *
 * Shares are whole numbers that add up to 2^32, so each set has an interval of 0 .. 2^32. Sample n of a
 * phase belongs to the set in whose interval the low 32 bits of n lie when they are read backwards (van
 * der Corput's sequence): any stretch of samples has each set's share of them, but for a few. How many
 * a set has given before n is a sum over the bits of n: no table, whatever the sizes.
 */
#ifndef SN_BLEND_H
#define SN_BLEND_H

#include "lib/config/data_sets.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_blend_phase {
    int64_t first; /* the run-wide number of its first sample; those end with the next */
    uint64_t end[SN_SETS_MAX];  /* of each set's interval, which begins where the one before ends */
    int64_t given[SN_SETS_MAX]; /* by each set before `first` */
};

struct sn_blend {
    int n, n_phases;              /* sets; phases, of which the first begins with sample 0 */
    int64_t samples[SN_SETS_MAX]; /* of each set, in one epoch */
    struct sn_blend_phase phase[SN_PHASES_MAX + 1];
};

/* A sample of a set: the set's `number`-th of the run, from 0 (sn_data_sample_of). */
struct sn_blend_pick {
    int set;
    int64_t number;
};

/* The sets' shares of 2^32, of weights from 0 on of which some are more. False: a share is less than
 * one half, and its weight is not 0. */
bool sn_blend_shares(uint64_t share[], const double weight[], int n);
/* From sample `first` on, behind all phases that there are, these shares. */
void sn_blend_add_phase(struct sn_blend *b, int64_t first, const uint64_t share[]);

struct sn_blend_pick sn_blend_pick(const struct sn_blend *b, int64_t number);
/* Samples of a set among those of the run before `number`. */
int64_t sn_blend_given(const struct sn_blend *b, int set, int64_t number);
/* The least number of samples of the run with more than `limit` of the set's among them; -1: none up to
 * `end` has. */
int64_t sn_blend_exceeds(const struct sn_blend *b, int set, int64_t limit, int64_t end);

#endif
