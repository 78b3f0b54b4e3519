/*
 * data_fit.h - have the token files what the run file asks of them?
 *
 * The same answers wherever a run is looked at: by the planner, at submission, before step 1. It
 * knows neither ranks nor layouts: any number of sequences can be evaluated (evaluate.c).
 */
#ifndef SN_DATA_FIT_H
#define SN_DATA_FIT_H

#include "lib/base/str.h"
#include "lib/base/tokenizer_id.h"
#include "lib/data/corpus.h"

/* Bytes of a token file that are looked at for tokens outside the vocabulary: all of a smaller one,
 * blocks spread evenly over a larger one. */
#define SN_DATA_SCAN_BYTES ((int64_t)256 << 20)

struct sn_set_fit {
    const char *name, *path; /* of the run file; the name of a single prefix is "" */
    bool is_here;            /* on this host, which is all that the rest is about */
    bool has_idle_mask;      /* that data.loss does not ask for */
    int64_t tokens, samples;
};

struct sn_data_fit {
    int n_train, n_valid;      /* sets that the run file names, and that are evaluated */
    bool has_train, has_valid; /* there are some, and all are here */
    struct sn_set_fit train[SN_SETS_MAX], valid[SN_SETS_MAX];
    struct sn_tokenizer_id tokenizer;
    struct sn_blend blend; /* has_train: of all steps */
};

/* Sequences of one evaluation of a set: train.eval_sequences, or all of it if it has fewer. */
int64_t sn_data_eval_sequences(const struct sn_config *c, int64_t samples);
/* Those whose files are not on this host. */
int sn_data_fit_absent(const struct sn_data_fit *f);

/* Open, and close again, all that the run file names. A file that is not on this host is no error
 * but said in *out: a plan may be made elsewhere. SN_EINPUT, which says what would work: a set without
 * a single sequence, tokens outside the vocabulary, and what sn_blend_of_run says. */
enum sn_status sn_data_fit_find(struct sn_data_fit *out, const struct sn_config *c,
                                struct sn_err *err);
/* The same of sets that are open; `valid` may have none. */
enum sn_status sn_data_fit_of(struct sn_data_fit *out, const struct sn_config *c,
                              const struct sn_corpus *train, const struct sn_corpus *valid,
                              struct sn_err *err);

/* What works otherwise than somebody might think, a line each; "" where there is nothing. */
void sn_data_fit_warn(struct sn_str *out, const struct sn_data_fit *f, const struct sn_config *c);

#endif
