/*
 * plan.h - what a layout needs and does, from the compiled programs of its pipeline stages.
 *
 * Ranks of a stage have the same text, so that one job per stage says everything, however many
 * ranks there are.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include "lib/program/program.h"

/* One compiled job per pipeline stage: that of the stage's first rank. */
struct sn_stages {
    struct sn_job **job;
    int n;
};

/* Compile them; env->rank is not read. Borrowed as in sn_job_create. Caller runs sn_stages_fini. */
enum sn_status sn_stages_create(struct sn_stages *out, const struct sn_job_env *env,
                                struct sn_err *err);
void sn_stages_fini(struct sn_stages *s); /* a zeroed one is allowed */

struct sn_plan {
    int ranks, micros;            /* micro-batches of a step */
    struct sn_memory_plan memory; /* of the stage that needs most */
    int64_t traffic[SN_NAXES];    /* bytes of one step, summed over ranks */
    double bubble;                /* idle over total time of all stages (bubble.h) */
    bool verify, verified;        /* was a proof asked for, and did it succeed? */
    int played;                   /* ranks that the proof played */
    struct sn_err fault;          /* why not */
};

enum sn_status sn_plan_make(struct sn_plan *out, const struct sn_stages *s, struct sn_err *err);
/* Prove that no rank waits for ever (lib/program/verify.h): fills verified, played and fault. A
 * refuted layout is a result, not a failure. */
enum sn_status sn_plan_verify(struct sn_plan *p, const struct sn_stages *s, struct sn_err *err);

#endif
