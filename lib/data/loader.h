/*
 * loader.h - from steps to token batches in the program's batch buffers.
 *
 * Sample j of a global batch goes to micro-batch j / (ranks x sequences), and there to rank
 * (j / sequences) mod ranks: consecutive samples of a micro-batch are one rank's.
 */
#ifndef SN_LOADER_H
#define SN_LOADER_H

#include "kernels/position.h"
#include "lib/data/corpus.h"
#include "lib/data/sample.h"
#include "lib/exec/exec.h"

struct sn_loader {
    const struct sn_config *config;
    const struct sn_corpus *corpus;
    const struct sn_blend *blend; /* in which the steps take its sets; not for ranges */
    int rank, ranks;              /* of those that have samples of their own */
    int sequences;                /* of a micro-batch, on this rank */
    struct sn_position_attr
        place;      /* which positions of a sample are here: seq and the context members */
    int32_t *whole; /* room for the ids and targets of one sample, when only some are here, and behind
                     * them for what is read into `further` of it */
    int32_t *ids, *targets;
    int32_t *sets;   /* of each target here, which set it is of; NULL: nobody asks */
    int32_t *starts; /* of whole samples; NULL: documents are together */
    float *features; /* of whole samples: entries of the sets' features; NULL: nobody reads any */
    int32_t *further; /* as struct sn_job has it; NULL: no block predicts a token further on */
};

/* Micro-batches of a step on this rank. */
int sn_loader_micros(const struct sn_loader *l, int64_t step);
/* Numbers of a sample's features. */
int64_t sn_loader_features(const struct sn_loader *l);
/* Global number, inside the step, of the first sample of micro-batch m on this rank. */
int sn_loader_first(const struct sn_loader *l, int micro);
/* Fill ids, targets, sets, starts, features and further of all micro-batches of a step; first_sample[m] gets the run-global
 * number of the micro-batch's first sample, *count what the samples of all ranks have, by set too. */
enum sn_status sn_loader_step(const struct sn_loader *l, int64_t step, int micros,
                              int64_t *first_sample, struct sn_sample_count *count,
                              struct sn_err *err);
/* What the first n samples of a set have. */
struct sn_sample_count sn_loader_count(const struct sn_loader *l, int set, int64_t n);
/* Fill micro-batch 0 with the consecutive samples of a set from `first`, of which only those before
 * `end` count: the others have no targets (SN_NO_TARGET). There is at least one sample before `end`. */
enum sn_status sn_loader_range(const struct sn_loader *l, int set, int64_t first, int64_t end,
                               struct sn_err *err);
/* The sample in l->whole, S ids and S targets, becomes that of a row of the batch: what of it is here. */
void sn_loader_spread(const struct sn_loader *l, int64_t row);

#endif
