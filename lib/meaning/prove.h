/*
 * prove.h - does a run, in its layout, train what one rank would train?
 */
#ifndef SN_PROVE_H
#define SN_PROVE_H

#include "lib/program/program.h"

struct sn_meaning_proof {
    bool is_asked, holds;
    const char *gap;      /* why it was not looked into; NULL: it was */
    int ranks;            /* that were played, */
    int micros;           /* with so many micro-batches each */
    unsigned approximate; /* bit c: messages of enum sn_coded c lose something on their way */
    uint64_t certificate; /* of the programs that were asked about, once they are proven */
    struct sn_err fault;
};

/* Compile the programs of all ranks, and play them (meaning.h). Of more than 2 replicas on the data
 * axis 2 stand for all, since they have the same text and differ in their tokens and slices; of more
 * micro-batches than fill the pipeline twice, so many. env->rank is not read. A refuted layout is a
 * result, not a failure. */
enum sn_status sn_meaning_prove(struct sn_meaning_proof *out, const struct sn_job_env *env,
                                struct sn_err *err);

#endif
