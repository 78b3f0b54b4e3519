/*
 * corpus.h - the sets of token files that a run trains on, or validates on, open; and in which order the
 * run takes samples of those that it trains on.
 */
#ifndef SN_CORPUS_H
#define SN_CORPUS_H

#include "lib/data/blend.h"
#include "lib/data/data.h"

struct sn_corpus {
    int n;
    struct sn_data *set[SN_SETS_MAX];
};

/* The sets of data.train, or those that are validated (sn_valid_set). `checks`: their indices whole, and
 * their tokens as sn_data_scan looks at them; else another rank does that. `files` as for
 * sn_data_open_shared. The caller closes, also after a failure. */
enum sn_status sn_corpus_open_train(struct sn_corpus *out, const struct sn_config *c, bool checks,
                                    struct sn_open_files *files, struct sn_err *err);
enum sn_status sn_corpus_open_valid(struct sn_corpus *out, const struct sn_config *c, bool checks,
                                    struct sn_open_files *files, struct sn_err *err);
/* Where data.loss: mask asks for one, the mask of a set whose path is this; SN_EINPUT also for one by
 * which no token counts. */
enum sn_status sn_corpus_open_mask(struct sn_data *d, const char *path, const struct sn_config *c,
                                   struct sn_open_files *files, struct sn_err *err);
/* For train.prompt, where it reads them the features of a set; with `checks` SN_EINPUT, too, where a document
 * of it is not one sample. */
enum sn_status sn_corpus_open_prompt(struct sn_data *d, const struct sn_config *c, bool checks,
                                     struct sn_open_files *files, struct sn_err *err);
void sn_corpus_close(struct sn_corpus *c); /* a zeroed one too */

/* Samples of sets, in the order of data.train, into the blend of all of the run's steps. SN_EINPUT: a
 * share is too small, or a set is used up before the last step (epochs). */
enum sn_status sn_blend_of_run(struct sn_blend *out, const struct sn_config *c,
                               const int64_t samples[], struct sn_err *err);
/* What a run's samples before `number` were taken from: equal where sets of the same names and sizes
 * gave the same counts; 0: the first set alone gave all, as one set does. */
uint64_t sn_blend_past(const struct sn_blend *b, const struct sn_data_sets *sets, int64_t number);
/* SN_EINPUT: of the run up to `step` a checkpoint has another past. */
enum sn_status sn_blend_goes_on(const struct sn_blend *b, const struct sn_config *c, int64_t step,
                                uint64_t past, struct sn_err *err);

#endif
