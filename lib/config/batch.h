/*
 * batch.h - how many sequences a step takes, and so which samples: the one place that says so.
 *
 * Steps count from 1, samples of a run from 0: a step takes those from the number that all steps
 * before it took. Functions of the run file alone, the same in every layout and after a resume.
 * With train.ramp the first steps take fewer than train.global_batch. And what of a sample attention sees.
 */
#ifndef SN_CONFIG_BATCH_H
#define SN_CONFIG_BATCH_H

#include "lib/config/config.h"

/* Which of the sizes below a step has; sequences of a step. */
int sn_batch_number(const struct sn_train_config *t, int64_t step);
int sn_batch_of(const struct sn_train_config *t, int64_t step);
/* Sequences of all steps before `step`: the run-wide number of its first sample. */
int64_t sn_samples_before(const struct sn_train_config *t, int64_t step);

/* Tokens of the pieces that a step's samples are cut into (data.curriculum), each sample from its first token
 * on; model.seq: they are whole. How many lengths there are, one after another, and the steps that have the
 * k-th one, as with sn_batch_size. */
int sn_length_of(const struct sn_config *c, int64_t step);
int sn_lengths(const struct sn_config *c);
int sn_length(const struct sn_config *c, int k, int64_t *first, int64_t *last);
/* Columns of attention's operand `starts` (kernels/mask.h); 0: there is none. */
int sn_starts_columns(const struct sn_config *c);

/* How many sizes batches have, one after another: 1 without a ramp. */
int sn_batch_sizes(const struct sn_train_config *t);
/* The k-th size, and the steps of the whole run that have it: *first .. *last (fewer than one where
 * train.steps ends before). */
int sn_batch_size(const struct sn_train_config *t, int k, int64_t *first, int64_t *last);
/* The greatest number that divides all sizes: what a layout must divide. */
int sn_batch_divisor(const struct sn_train_config *t);
/* The first size that is no multiple of `unit`; 0: all are. The key that names it. */
int sn_batch_misfit(const struct sn_train_config *t, int64_t unit);
const char *sn_batch_key(const struct sn_train_config *t, int size);
/* All steps take n sequences. */
void sn_batch_set(struct sn_train_config *t, int n);

#endif
