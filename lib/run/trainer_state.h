/*
 * trainer_state.h - the trainer's own struct, shared by trainer.c, resume.c, evaluate.c and
 * generate.c. Internal to lib/run.
 */
#ifndef SN_TRAINER_STATE_H
#define SN_TRAINER_STATE_H

#include "lib/run/loader.h"
#include "lib/run/metrics.h"
#include "lib/run/trainer.h"

struct sn_trainer {
    struct sn_trainer_env env;
    struct sn_model *model;
    struct sn_job *job;
    struct sn_exec *exec;
    struct sn_data *train_data, *valid_data;
    struct sn_loader train, valid;
    int64_t *first_sample; /* per micro-batch of a step */
    struct sn_state state;
    struct sn_str model_text;
    struct sn_metrics *metrics; /* rank 0 */
    double peak;                /* FLOP/s of all ranks */
    struct sn_memory_plan memory;
    int64_t traffic[SN_NAXES];      /* planned, summed over ranks */
    int64_t sent_by_rank[SN_NAXES]; /* planned, this rank */
    int32_t *sample;                /* room for ids and targets of one sample */
};

/* Steps have a limit of run.hang_timeout; loading and saving take the time that they take. */
static inline void sn_trainer_watch(const struct sn_trainer *t, bool is_stepping)
{
    sn_comm_set_watch(t->env.comm, t->env.ring, is_stepping ? t->env.config->run.hang_timeout : 0);
}

/* meet.c: groups; the ranks agree on what they have compiled, and learn the whole plan. */
enum sn_status sn_trainer_meet(struct sn_trainer *t, struct sn_err *err);
/* resume.c: weights and position from a checkpoint, from train.init_from, or at random. */
enum sn_status sn_trainer_restore(struct sn_trainer *t, bool fresh, struct sn_err *err);
/* Save step state.scalars.step; collective. */
enum sn_status sn_trainer_save(struct sn_trainer *t, struct sn_err *err);
/* evaluate.c: mean validation loss, on every rank. */
enum sn_status sn_trainer_evaluate(struct sn_trainer *t, double *loss, struct sn_err *err);

#endif
