/*
 * stages.h - the compiled jobs of a layout's pipeline stages.
 *
 * Ranks of a stage have the same text, so that one job per stage says everything, however many
 * ranks there are.
 */
#ifndef SN_STAGES_H
#define SN_STAGES_H

#include "lib/program/program.h"

/* One compiled job per pipeline stage: that of the stage's first rank. */
struct sn_stages {
    struct sn_job **job;
    int n;
};

/* Compile them; env->rank is not read. Borrowed as in sn_job_create. Caller runs sn_stages_fini. */
enum sn_status sn_stages_create(struct sn_stages *out, const struct sn_job_env *env,
                                struct sn_err *err);
/* The same from sn_job_create_text: what is sent can be read, memory is not placed. */
enum sn_status sn_stages_create_text(struct sn_stages *out, const struct sn_job_env *env,
                                     struct sn_err *err);
/* Do no ranks wait for ever (lib/verify/verify.h)? */
struct sn_proof {
    bool is_asked, holds;
    int played;          /* ranks that were played */
    struct sn_err fault; /* why not */
};

/* A refuted layout is a result, not a failure. Steps of the size of batch that is set. */
enum sn_status sn_stages_prove(struct sn_proof *out, const struct sn_stages *s, struct sn_err *err);
/* Of all sizes; the largest is set then. */
enum sn_status sn_stages_prove_all(struct sn_proof *out, struct sn_stages *s, struct sn_err *err);
/* sn_certificate of their programs. */
enum sn_status sn_stages_certificate(uint64_t *out, const struct sn_stages *s, struct sn_err *err);
/* sn_job_set_batch of each. */
void sn_stages_set_batch(struct sn_stages *s, int k);
void sn_stages_fini(struct sn_stages *s); /* a zeroed one is allowed */

#endif
