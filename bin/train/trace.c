#include "bin/train/trace.h"

#include "lib/base/log.h"
#include "lib/config/batch.h"
#include "lib/report/picture.h"
#include "lib/report/trace.h"
#include "lib/train/measured.h"

#include <errno.h>
#include <string.h>

/* --- what is planned -------------------------------------------------------------------------- */

/* The text of all stages, and their step on the run's machine. */
static enum sn_status plan(struct sn_train_trace *t, const struct sn_job *job,
                           const struct sn_machine *machine, struct sn_err *err)
{
    struct sn_job_env env = {
        .config = job->config, .model = job->model, .ops = job->ops, .threads = job->threads};
    SN_TRY(sn_stages_create_text(&t->stages, &env, err));
    if (!machine) {
        SN_TRY(sn_machine_of(&t->machine, job->config, NULL, err));
        machine = &t->machine;
    }
    SN_TRY(sn_software_of(&t->software, job->config, NULL, err));
    sn_pricer_init(&t->pricer, machine, &t->software, t->stages.job[0]);
    return sn_sim_run(&t->sim, &t->stages, &t->pricer, true, err);
}

/* The same of a step with another size of batch than the largest. */
static enum sn_status plan_step(struct sn_train_trace *t, int64_t step, struct sn_err *err)
{
    int k = sn_batch_number(&t->config->train, step);
    if (k == sn_batch_sizes(&t->config->train) - 1)
        return SN_OK;
    sn_stages_set_batch(&t->stages, k);
    sn_sim_fini(&t->sim);
    return sn_sim_run(&t->sim, &t->stages, &t->pricer, true, err);
}

static enum sn_status begin(struct sn_train_trace *t, const struct sn_job *job,
                            const struct sn_machine *machine, struct sn_err *err)
{
    SN_TRY(plan(t, job, machine, err));
    t->f = fopen(t->path, "w");
    return t->f ? SN_OK : sn_fail(err, SN_EINPUT, "--trace %s: %s", t->path, strerror(errno));
}

static enum sn_status open_all(struct sn_train_trace *t, const struct sn_job *job,
                               const struct sn_machine *machine, struct sn_err *err)
{
    t->config = job->config;
    enum sn_status st = t->comm->rank == 0 ? begin(t, job, machine, err) : SN_OK;
    return t->comm->ops->agree(t->comm, st, err);
}

/* --- the file --------------------------------------------------------------------------------- */

static enum sn_status put(struct sn_train_trace *t, struct sn_str *text, struct sn_err *err)
{
    if (text->failed)
        return sn_fail(err, SN_ENOMEM, "no memory for the text");
    if (fwrite(text->p, 1, text->len, t->f) != text->len)
        return sn_fail(err, SN_EIO, "%s", strerror(errno));
    return SN_OK;
}

static enum sn_status put_plan(struct sn_train_trace *t, int64_t step, struct sn_err *err)
{
    struct sn_str text = {0};
    char title[256];
    const struct sn_picture picture = {.title = title,
                                       .sim = &t->sim,
                                       .micros = t->stages.job[0]->train.micros,
                                       .vstages = t->stages.job[0]->train.vstages};
    (void)snprintf(title, sizeof(title), "%s: step %lld as planned for %s%s, and as measured",
                   t->config->run.name, (long long)step, t->pricer.machine->name,
                   t->machine.name[0] && !sn_names_machine(t->config) ? " (no machine is named)"
                                                                      : "");
    sn_trace_open(&text, title);
    enum sn_status st = sn_picture_events(&text, &picture, "planned: ", t->comm->size + 1, err);
    st = st == SN_OK ? put(t, &text, err) : st;
    sn_str_fini(&text);
    return st;
}

static enum sn_status put_end(struct sn_train_trace *t, struct sn_err *err)
{
    struct sn_str text = {0};
    sn_trace_close(&text);
    enum sn_status st = put(t, &text, err);
    sn_str_fini(&text);
    int rc = fclose(t->f);
    t->f = NULL;
    return st == SN_OK && rc != 0 ? sn_fail(err, SN_EIO, "%s", strerror(errno)) : st;
}

/* struct sn_trainer_options.timed */
static enum sn_status write_all(void *self, const struct sn_timeline *timeline, int64_t step,
                                struct sn_err *err)
{
    struct sn_train_trace *t = self;
    struct sn_measured_env env = {&t->stages, &t->pricer, t->stages.n};
    bool writes = t->comm->rank == 0;
    struct sn_err why = {0};
    enum sn_status st = writes ? plan_step(t, step, &why) : SN_OK;
    if (writes && st == SN_OK)
        st = put_plan(t, step, &why);
    enum sn_status gathered = sn_measured_write(t->f, writes ? &env : NULL, timeline, t->comm, err);
    t->is_written = true;
    if (gathered != SN_OK && gathered != SN_EIO)
        return gathered;
    if (gathered != SN_OK && st == SN_OK)
        why = *err;
    st = st == SN_OK ? gathered : st;
    if (writes && st == SN_OK)
        st = put_end(t, &why);
    if (writes && st == SN_OK)
        sn_log(SN_LOG_INFO,
               "step %lld is drawn in %s, beside the planned one; ui.perfetto.dev opens "
               "it",
               (long long)step, t->path);
    else if (writes)
        sn_log(SN_LOG_ERROR, "--trace %s: %s; the run goes on", t->path, why.text);
    return SN_OK;
}

static void close_all(struct sn_train_trace *t)
{
    if (t->f)
        (void)fclose(t->f); /* it was written to no end, which has been said */
    sn_sim_fini(&t->sim);
    sn_machine_fini(&t->machine);
    sn_stages_fini(&t->stages);
}

enum sn_status sn_train_traced(struct sn_trainer *trainer, struct sn_trainer_options *o,
                               struct sn_train_trace *t, const struct sn_machine *machine,
                               int *exit_code, struct sn_err *err)
{
    if (!t->path)
        return sn_trainer_run(trainer, o, exit_code, err);
    o->timed = write_all;
    o->self = t;
    enum sn_status st = open_all(t, sn_trainer_job(trainer), machine, err);
    if (st == SN_OK)
        st = sn_trainer_run(trainer, o, exit_code, err);
    if (st == SN_OK && t->comm->rank == 0 && !t->is_written)
        sn_log(SN_LOG_WARN, "--trace %s: no step was made that could be drawn", t->path);
    close_all(t);
    return st;
}
