/*
 * record_step.c - what the operations of a step gave, kept as fingerprints (run.fingerprints).
 */
#include "lib/train/trainer_state.h"

#include "lib/base/mem.h"

static bool is_recorded(const struct sn_trainer *t, int64_t step)
{
    return t->recording.of && (t->recording.every == 0 || step % t->recording.every == 0);
}

/* A rank's failure is its own. */
static enum sn_status create(struct sn_trainer *t, struct sn_err *err)
{
    SN_TRY(sn_recording_create(&t->recording.of, t->job, err));
    return sn_results_create(&t->recording.results, t->exec, sn_recording_take, t->recording.of,
                             err);
}

enum sn_status sn_trainer_record_open(struct sn_trainer *t, int64_t every, struct sn_err *err)
{
    if (!sn_exec_has_results(t->exec))
        return sn_fail(err, SN_EINPUT,
                       "run.fingerprints: operations of devices leave none yet; set run.backend: "
                       "cpu, or fingerprints: 0");
    t->recording.every = every;
    return create(t, err);
}

enum sn_status sn_trainer_record_again(struct sn_trainer *t, struct sn_err *err)
{
    if (!t->recording.of)
        return SN_OK;
    int64_t every = t->recording.every;
    sn_trainer_record_close(t);
    t->recording.every = every;
    return create(t, err);
}

void sn_trainer_record_begin(struct sn_trainer *t, int64_t step)
{
    if (!is_recorded(t, step))
        return;
    sn_recording_begin(t->recording.of, t->exec, t->job, step);
    sn_exec_set_results(t->exec, t->recording.results);
}

enum sn_status sn_trainer_record_end(struct sn_trainer *t, int64_t step, struct sn_err *err)
{
    if (!is_recorded(t, step))
        return SN_OK;
    sn_exec_set_results(t->exec, NULL);
    if (t->recording.every == 0)
        return SN_OK;
    return sn_recording_save(t->recording.of, t->env.config->run.output, t->recording.every, err);
}

void sn_trainer_record_close(struct sn_trainer *t)
{
    sn_results_destroy(t->recording.results);
    sn_recording_destroy(t->recording.of);
    t->recording = (struct sn_record_step){0};
}
