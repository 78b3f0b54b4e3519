/*
 * sample.h - what data.documents, data.loss, data.prefix and data.curriculum make of a sample: which of its
 * tokens are to be predicted, and which its queries see.
 *
 * Sample i of S tokens has inputs i S .. i S + S - 1 of its file, and each one's target is the token
 * behind it. A target counts unless the file's mask leaves it out or, where documents are apart, it
 * is the first token of a document: what is before it is of another one; or unless it is one of the first
 * tokens of a sample, which train.prompt fills. A sample is cut into pieces
 * of `length` tokens (sn_length_of), from its first token on; queries see nothing before their piece. The
 * target of a piece's last token is the first one of the next, as it is for samples. The prefix of a document is
 * what comes before its first target that counts, cut by samples and pieces as the document is: nothing in it is
 * a target that counts, so no query sees what it is to predict.
 *
 * Knows nothing of ranks, as lib/data/data.h does not.
 */
#ifndef SN_SAMPLE_H
#define SN_SAMPLE_H

#include "lib/data/data.h"

/* Sums over samples. */
struct sn_sample_count {
    int64_t targets;             /* that count */
    int64_t of_set[SN_SETS_MAX]; /* of them, those of a step's samples of each set */
    double keys, window_keys; /* that queries see without a window, and with model.sliding_window;
                               * each query's own is half of one (kernels/mask.h) */
};

/* Of all samples alike: is nothing left out, and does no document begin anew? */
bool sn_samples_are_plain(const struct sn_config *c);
/* What n samples have that are plain. */
struct sn_sample_count sn_plain_count(const struct sn_config *c, int length, int64_t n);
/* Add what sample i has. */
void sn_sample_count(const struct sn_config *c, const struct sn_data *d, int64_t i, int length,
                     struct sn_sample_count *sum);
/* Targets of sample i that do not count become SN_NO_TARGET. */
void sn_sample_targets(const struct sn_config *c, const struct sn_data *d, int64_t i,
                       int32_t *targets);
/* What blocks of model.mtp read of a sample, of which all targets are there: for depth k = 1 .. D ids of the tokens k further on (behind the last of them: it), S each, and behind those
 * of all depths the targets, the tokens k + 1 further on. One counts where it is of the query's piece, or the token
 * behind it, the mask does not leave it out and, where documents are apart, it is of the query's document. */
struct sn_raw_sample {
    int64_t number;
    int length;                   /* of pieces */
    const int32_t *ids, *targets; /* S each */
};
void sn_sample_further(const struct sn_config *c, const struct sn_data *d,
                       const struct sn_raw_sample *s, int32_t *further);
/* The position of the first token that each of the S queries sees: that of its piece or, where documents
 * are apart, of its document's first token there; with prefixes that of the last one beside it
 * (sn_starts_columns, kernels/mask.h). */
void sn_sample_starts(const struct sn_config *c, const struct sn_data *d, int64_t i, int length,
                      int32_t *starts);

#endif
