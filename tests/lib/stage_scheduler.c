/*
 * stage_scheduler.c - Slurm on a stage.
 */
#include "tests/lib/stage_inner.h"

#include <stdio.h>
#include <string.h>

static void ask_job(void *self, struct sn_job_facts *out, const char *job, bool shortly)
{
    struct stage *s = self;
    (void)job;
    (void)shortly;
    s->questions++;
    if (s->cues < s->n_cue && s->cue[s->cues].question == s->questions)
        s->pending |= stage_meet(s);
    *out = (struct sn_job_facts){.restarts = -1, .may_requeue = true};
    if (s->has_scontrol && !sn_job_parse(out, s->job))
        out->is_down = true;
}

static bool ask_chained(void *self, const char *job, const char *name)
{
    (void)job;
    return name && ((struct stage *)self)->queue;
}

static bool ask_nodes(void *self, enum sn_node_health *health, const struct sn_hostlist *host,
                      const char *job, double seconds, struct sn_str *text)
{
    const struct stage *s = self;
    (void)job;
    (void)seconds;
    if (!s->has_scontrol)
        return false;
    for (int i = 0; i < host->n; i++)
        health[i] = SN_HEALTH_GOOD;
    (void)sn_nodes_parse(health, host, s->nodes);
    *text = (struct sn_str){0};
    sn_str_add(text, "%s", s->nodes);
    return sn_job_nodes_parse(health, host, s->job, NULL) == SN_OK;
}

static bool ask_config(void *self, struct sn_str *out)
{
    const struct stage *s = self;
    *out = (struct sn_str){0};
    sn_str_add(out, "%s", s->config);
    return s->has_scontrol;
}

static void reach(void *self, struct sn_reach *r, int n, double seconds)
{
    struct stage *s = self;
    s->now += seconds;
    for (int i = 0; i < n; i++)
        r[i].answers = !s->silent || strcmp(r[i].address, s->silent) != 0;
}

static int ask_steps(void *self, const char *job)
{
    const struct stage *s = self;
    (void)job;
    return s->launches > 0 && s->now < s->step_gone;
}

static enum sn_status requeue(void *self, const char *job, struct sn_err *err)
{
    struct stage *s = self;
    (void)job;
    if (!s->has_scontrol)
        return sn_fail(err, SN_EFAIL, "scontrol: cannot be started: No such file or directory");
    s->requeues++;
    if (s->refused)
        return sn_fail(err, SN_EFAIL, "%s", s->refused);
    s->pending |= SN_ASKED_TERM; /* slurmctld ends the job */
    return SN_OK;
}

static int version(void *self)
{
    (void)self;
    return 2205;
}

static enum sn_status ask_preemption(void *self, struct sn_preemption *out, const char *partition,
                                     struct sn_err *err)
{
    const struct stage *s = self;
    (void)partition;
    (void)err;
    out->is_asked = s->has_scontrol;
    if (!s->has_scontrol)
        return SN_OK;
    sn_preemption_read_config(out, s->config);
    sn_preemption_read_partition(out, s->partition);
    return SN_OK;
}

const struct sn_platform_scheduler stage_scheduler = {.job = ask_job,
                                                      .chained = ask_chained,
                                                      .nodes = ask_nodes,
                                                      .config = ask_config,
                                                      .reach = reach,
                                                      .steps = ask_steps,
                                                      .requeue = requeue,
                                                      .version = version,
                                                      .preemption = ask_preemption};
