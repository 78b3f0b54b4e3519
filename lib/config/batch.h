/*
 * batch.h - how many sequences a step takes, and so which samples: the one place that says so.
 *
 * Steps count from 1, samples of a run from 0: a step takes those from the number that all steps
 * before it took. Functions of the run file alone, the same in every layout and after a resume.
 */
#ifndef SN_BATCH_H
#define SN_BATCH_H

#include "lib/config/config.h"

/* Sequences of a step. */
int sn_batch_of(const struct sn_train_config *t, int64_t step);
/* Sequences of all steps before `step`: the run-wide number of its first sample. */
int64_t sn_samples_before(const struct sn_train_config *t, int64_t step);

#endif
