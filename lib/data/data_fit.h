/*
 * data_fit.h - have the token files what the run file asks of them?
 *
 * The same answers wherever a run is looked at: by the planner, at submission, before step 1. It
 * knows neither ranks nor layouts: any number of sequences can be evaluated (evaluate.c).
 */
#ifndef SN_DATA_FIT_H
#define SN_DATA_FIT_H

#include "lib/base/str.h"
#include "lib/data/data.h"

/* Bytes of a token file that are looked at for tokens outside the vocabulary: all of a smaller one,
 * blocks spread evenly over a larger one. */
#define SN_DATA_SCAN_BYTES ((int64_t)256 << 20)

struct sn_data_fit {
    bool has_train, has_valid; /* the run file names it, and it is on this host */
    bool train_is_absent, valid_is_absent;
    int64_t train_tokens, train_samples, valid_tokens, valid_samples;
    int64_t eval_sequences; /* of one evaluation; 0: there is none */
};

/* Sequences of one evaluation: train.eval_sequences, or all of the file if it has fewer. */
int64_t sn_data_eval_sequences(const struct sn_config *c, int64_t samples);

/* SN_EINPUT, which says what would work: a file without a single sequence. `train` is what the run
 * trains on where `d` validates, or NULL where that is not known. */
enum sn_status sn_data_fit_train(const struct sn_data *d, const struct sn_config *c,
                                 struct sn_err *err);
enum sn_status sn_data_fit_valid(const struct sn_data *d, const struct sn_data *train,
                                 const struct sn_config *c, struct sn_err *err);

/* Open, and close again, all that the run file names. A file that is not on this host is no error
 * but said in *out: a plan may be made elsewhere. */
enum sn_status sn_data_fit_find(struct sn_data_fit *out, const struct sn_config *c,
                                struct sn_err *err);

/* What works otherwise than somebody might think, a line each; "" where there is nothing. */
void sn_data_fit_warn(struct sn_str *out, const struct sn_data_fit *f, const struct sn_config *c);

#endif
