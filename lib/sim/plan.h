/*
 * plan.h - what a layout needs, does and takes, from the compiled programs of its pipeline stages.
 */
#ifndef SN_PLAN_H
#define SN_PLAN_H

#include "lib/cost/price.h"
#include "lib/meaning/prove.h"
#include "lib/sim/sim.h"
#include "lib/sim/stages.h"

struct sn_plan {
    int ranks, micros;            /* micro-batches of a step */
    struct sn_memory_plan memory; /* of the stage that needs most */
    int64_t traffic[SN_NAXES];    /* bytes of one step, summed over ranks */
    int64_t snapshot_traffic;     /* of one exchange of checkpoint.snapshot_every, beside a step */
    /* --- what a machine tells; 0 without one --- */
    int64_t
        level_traffic[SN_MAX_LEVELS]; /* the same bytes, by the level of links that they cross */
    double step_time;                 /* seconds, simulated (sim.h) */
    double tokens_per_s, mfu;         /* model FLOPs (lib/model/model.h) over peak of all ranks */
    double mfu_uncausal;              /* the same by 6 N + 12 L C T: attention counted whole */
    double bubble;             /* idle over total time of all stages, communication included */
    int longest;               /* the stage that computes longest, */
    struct sn_sim_stage stage; /* and its time: busy + exposed + idle = step_time */
    double codecs;             /* of that stage's busy seconds: its encoding and decoding, */
    double again;              /* and what it computes once more (layout.recompute) */
    /* --- sn_plan_without_codecs; 0 where nothing is compressed --- */
    double plain_time;               /* a step of the same layout without codecs, */
    int64_t plain_traffic[SN_NAXES]; /* and what it sends */
    double rise;                     /* of the loss, relative (losses.h); below 0: not known */
    struct sn_proof proof;           /* the caller's; zero: not asked for */
    struct sn_meaning_proof meaning; /* likewise */
};

/* `p` prices for these stages; NULL: no machine, memory and traffic alone. */
enum sn_status sn_plan_make(struct sn_plan *out, const struct sn_stages *s,
                            const struct sn_pricer *p, struct sn_err *err);
/* In two steps: all but level_traffic, which takes as long as there are ranks; and that. */
enum sn_status sn_plan_make_ranked(struct sn_plan *out, const struct sn_stages *s,
                                   const struct sn_pricer *p, struct sn_err *err);
void sn_plan_add_levels(struct sn_plan *out, const struct sn_stages *s, const struct sn_pricer *p);
/* The same of steps with the k-th size of batch (lib/config/batch.h); the largest is set then. */
enum sn_status sn_plan_of_batch(struct sn_plan *out, struct sn_stages *s, const struct sn_pricer *p,
                                int k, struct sn_err *err);
/* What codecs change: for the layout of env->config, whose plan *p is. */
enum sn_status sn_plan_without_codecs(struct sn_plan *p, const struct sn_job_env *env,
                                      const struct sn_machine *m, const struct sn_software *s,
                                      struct sn_err *err);
/* What each pipeline stage needs and does: the plan has that of one of them. */
struct sn_plan_stage {
    struct sn_memory_plan memory;
    struct sn_sim_stage time;
    double codecs, again; /* of time.busy, as in struct sn_plan */
};
/* out[s->n] */
enum sn_status sn_plan_stages(struct sn_plan_stage *out, const struct sn_stages *s,
                              const struct sn_pricer *p, struct sn_err *err);
/* Its memory alone. */
void sn_plan_memory(struct sn_memory_plan *out, const struct sn_stages *s,
                    const struct sn_pricer *p);

#endif
