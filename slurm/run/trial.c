#include "slurm/run/trial.h"

#include "lib/base/directory.h"
#include "lib/base/jsonl.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/exec/threads.h"
#include "lib/search/planned.h"
#include "lib/search/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what a trial measured --------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sn_trial_step_seconds(const char *output)
{
    struct sn_jsonl f = {0};
    struct sn_json line;
    struct sn_err err;
    double *seconds = NULL, median = 0;
    int n = 0, room = 0;
    char *path = sn_format("%s/metrics.jsonl", output);
    bool open = path && sn_jsonl_open(&f, path, &err) == SN_OK;
    while (open && sn_jsonl_next(&f, &line)) {
        double s = sn_json_get_number(line, "step_time_s", 0);
        int64_t step = sn_json_get_integer(line, "step", 0);
        if (s > 0 && step > SN_TRIAL_PASSED_OVER &&
            sn_grow((void **)&seconds, n, &room, sizeof(*seconds)))
            seconds[n++] = s;
    }
    if (n > 0) {
        qsort(seconds, (size_t)n, sizeof(*seconds), by_value);
        median = (seconds[(n - 1) / 2] + seconds[n / 2]) / 2;
    }
    sn_jsonl_close(&f);
    sn_free(seconds);
    sn_free(path);
    return median;
}

/* --- one trial --------------------------------------------------------------------------------- */

/* OUTPUT/trial/K, and its run file beside it. */
static enum sn_status write_file(char path[SN_PATH_MAX], const struct sn_trial *t, int k,
                                 struct sn_err *err)
{
    const struct sn_config *of = t->config;
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a trial of it", of->path);
    *c = *of;
    c->layout = t->row[k].layout;
    c->layout_auto = false;
    int n = snprintf(c->run.output, sizeof(c->run.output), "%s/trial/%d", of->run.output, k + 1);
    int p = snprintf(path, SN_PATH_MAX, "%s/trial/%d.yaml", of->run.output, k + 1);
    int d = snprintf(c->checkpoint.dir, sizeof(c->checkpoint.dir), "%s/trial/%d/none",
                     of->run.output, k + 1);
    enum sn_status st = SN_OK;
    if (n >= (int)sizeof(c->run.output) || p >= SN_PATH_MAX || d >= (int)sizeof(c->checkpoint.dir))
        st = sn_fail(err, SN_EINPUT, "%s: run.output: too long for OUTPUT/trial/%d behind it",
                     of->path, k + 1);
    if (st == SN_OK)
        st = sn_directory_make(c->run.output, "run.output", err);
    if (st == SN_OK)
        st = sn_config_save(c, path, err);
    sn_free(c);
    return st;
}

/* The supervisor's record of an end says why in words. */
static enum sn_status attempt(struct sn_trial_row *row, bool *stopped, struct sn_supervisor *x,
                              struct sn_err *err)
{
    struct sn_supervisor_attempt s;
    enum sn_cause cause = SN_CAUSE_UNKNOWN;
    enum sn_status st = sn_supervisor_attempt(&s, x, err);
    if (st == SN_OK && !s.few)
        st = sn_supervisor_record(&cause, x, &s, err);
    if (st == SN_OK && s.few)
        (void)snprintf(row->why, sizeof(row->why), "too few nodes can be used");
    else if (st == SN_OK && cause != SN_CAUSE_FINISHED)
        (void)snprintf(row->why, sizeof(row->why), "%s; see %s", sn_cause_text(cause),
                       x->rundir.output);
    else if (st == SN_OK)
        row->measured = sn_trial_step_seconds(x->rundir.output);
    if (st == SN_OK && row->measured <= 0 && !row->why[0])
        (void)snprintf(row->why, sizeof(row->why), "%s has no step behind the first %d",
                       x->rundir.output, SN_TRIAL_PASSED_OVER);
    *stopped = cause == SN_CAUSE_SAVED || cause == SN_CAUSE_PREEMPTED ||
               cause == SN_CAUSE_CANCELLED || cause == SN_CAUSE_TIME_LIMIT || s.end.asked != 0;
    sn_supervisor_attempt_fini(&s);
    return st;
}

/* What ends in bad input ends a row, not the trials. */
static enum sn_status try_one(struct sn_trial *t, int k, const struct sn_trial_want *w,
                              const struct sn_platform *platform, struct sn_err *err)
{
    char path[SN_PATH_MAX];
    struct sn_supervisor x;
    struct sn_trial_row *row = &t->row[k];
    SN_TRY(write_file(path, t, k, err));
    struct sn_supervisor_line line = w->line;
    line.run_file = path;
    line.ranks = t->ranks;
    line.stop_after = w->steps;
    line.fresh = line.trial = true;
    enum sn_status st = sn_supervisor_open(&x, &line, platform, err);
    if (st == SN_OK)
        st = attempt(row, &t->was_stopped, &x, err);
    sn_supervisor_close(&x);
    if (st != SN_EINPUT)
        return st;
    (void)snprintf(row->why, sizeof(row->why), "%s", err->text);
    *err = (struct sn_err){0};
    return SN_OK;
}

/* --- all ---------------------------------------------------------------------------------------- */

/* Ranks and machine are those that a run of the file would have here. */
static enum sn_status look(struct sn_trial *t, char machine[SN_NAME_MAX],
                           const struct sn_trial_want *w, const struct sn_platform *platform,
                           struct sn_err *err)
{
    struct sn_supervisor x;
    struct sn_supervisor_line line = w->line;
    line.only_counts = true;
    enum sn_status st = sn_supervisor_read(&x, &line, platform, err);
    if (st == SN_OK) {
        t->ranks = x.shape.ranks;
        (void)snprintf(machine, SN_NAME_MAX, "%s", sn_site_machine(&x.site, x.config));
    }
    sn_supervisor_close(&x);
    return st;
}

static enum sn_status find_layouts(struct sn_trial *t, const char *machine, int top,
                                   struct sn_err *err)
{
    struct sn_accelerator plugin;
    struct sn_search s = {0};
    struct sn_search_auto_want w = {.ops = sn_planned_ops(&plugin, t->config),
                                    .ranks = t->ranks,
                                    .threads = sn_threads(t->config, t->ranks),
                                    .host_limit = sn_host_limit(t->ranks),
                                    .machine = machine};
    sn_planned_say(&plugin);
    enum sn_status st = sn_search_best(&s, t->config, &w, top, err);
    for (int i = 0; i < s.n && st == SN_OK; i++)
        t->row[t->n++] = (struct sn_trial_row){.layout = s.found[i].layout,
                                               .planned = s.found[i].plan.step_time};
    sn_search_fini(&s);
    sn_accelerator_close(&plugin);
    return st;
}

static enum sn_status run(struct sn_trial *t, const struct sn_trial_want *w,
                          const struct sn_platform *platform, struct sn_err *err)
{
    char machine[SN_NAME_MAX] = "", axes[SN_AXES_SIZE];
    SN_TRY(look(t, machine, w, platform, err));
    SN_TRY(sn_config_load(t->config, w->line.run_file, NULL, err));
    SN_TRY(find_layouts(t, machine, w->top, err));
    for (int k = 0; k < t->n && !t->was_stopped; k++) {
        struct sn_trial_row *row = &t->row[k];
        sn_log(SN_LOG_INFO, "trial %d of %d: %s, planned %.4g s a step", k + 1, t->n,
               sn_config_axes(axes, &row->layout), row->planned);
        SN_TRY(try_one(t, k, w, platform, err));
        bool faster =
            row->measured > 0 && (t->best < 0 || row->measured < t->row[t->best].measured);
        t->best = faster ? k : t->best;
    }
    for (int k = 0; k < t->n; k++)
        if (t->row[k].measured <= 0 && !t->row[k].why[0])
            (void)snprintf(t->row[k].why, sizeof(t->row[k].why), "not tried: asked to leave");
    if (t->best >= 0) {
        t->config->layout = t->row[t->best].layout;
        t->config->layout_auto = false;
    }
    return SN_OK;
}

enum sn_status sn_trial_run(struct sn_trial *out, const struct sn_trial_want *w,
                            const struct sn_platform *platform, struct sn_err *err)
{
    memset(out, 0, sizeof(*out));
    out->best = -1;
    out->config = sn_alloc(sizeof(*out->config)); /* large for a stack */
    if (!out->config)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for it", w->line.run_file);
    return run(out, w, platform, err);
}

void sn_trial_fini(struct sn_trial *t)
{
    sn_free(t->config);
    t->config = NULL;
}
