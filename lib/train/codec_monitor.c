/*
 * guard.c - what codecs lose, and milder ones where it is too much.
 *
 * In each layout.compress.sample-th step every ENCODE adds up the squares of what it loses and of
 * what it gets; the ranks sum them at the step's end, so that all of them know the relative error
 * of each kind of message,
 *
 *   sqrt(sum of squares lost / sum of squares encoded)
 *
 * (not of tokens: rows that are not sent are encoded too, and may hold anything) and draw the same
 * conclusion: above layout.compress.guard the next codec of the operation's list
 * takes over from the next step on, for good. Its buffers have room for all of them. What follows
 * from a step is decided before the step is saved: levels are state.
 */
#include "lib/train/trainer_state.h"

#include "kernels/codec.h"
#include "lib/base/log.h"

#include <math.h>
#include <string.h>

static bool is_sampled(const struct sn_trainer *t, int64_t step)
{
    const struct sn_config *c = t->env.config;
    return c->layout.compress.sample > 0 && sn_config_compresses(c) && !t->env.pace &&
           step % c->layout.compress.sample == 0;
}

void sn_codec_monitor_begin(struct sn_trainer *t, int64_t step)
{
    struct sn_scalars *s = sn_exec_scalars(t->exec);
    memset(s->codec_error, 0, sizeof(s->codec_error));
    s->codec_sample = is_sampled(t, step);
}

/* NaN: nothing was coded, or not measured. A block that was not finite counts as lost. */
static double error_of(const struct sn_scalars *s, int kind)
{
    const double *sum = s->codec_error[kind];
    return kind == SN_CODED_EXPERT || sum[1] == 0 ? NAN
           : isfinite(sum[0] / sum[1])            ? sqrt(sum[0] / sum[1])
                                                  : HUGE_VAL;
}

void sn_codec_monitor_report(const struct sn_trainer *t, struct sn_step_report *r)
{
    const struct sn_scalars *s = sn_exec_scalars(t->exec);
    if (!sn_job_agrees_on_codecs(t->job))
        return;
    r->off_plan = s->agree + SN_NAGREE + SN_AGREE_OFF_PLAN;
    r->has_codec_error = s->codec_sample != 0;
    for (int i = 0; i < SN_NCODED; i++)
        r->codec_error[i] = error_of(s, i);
}

static void judge(struct sn_trainer *t, struct sn_scalars *s, int kind)
{
    const struct sn_config *c = t->env.config;
    double error = error_of(s, kind), limit = c->layout.compress.guard;
    struct sn_codec codec[SN_CODEC_LEVELS];
    char now[SN_CODEC_NAME], next[SN_CODEC_NAME];
    int levels = sn_coding_levels(c, (enum sn_coded)kind, codec), level = s->codec_level[kind];
    if (!(error > limit) || limit <= 0 || level + 1 >= levels)
        return;
    s->codec_level[kind] = level + 1;
    if (t->env.comm->rank != 0)
        return;
    sn_codec_format(&codec[level], now);
    sn_codec_format(&codec[level + 1], next);
    sn_log(SN_LOG_WARN,
           "step %lld: %s has a relative error of %.3g in %s messages, above layout.compress.guard "
           "(%g): they are %s from now on",
           (long long)s->step, now, error, sn_coded_name((enum sn_coded)kind), limit, next);
}

void sn_codec_monitor_end(struct sn_trainer *t)
{
    struct sn_scalars *s = sn_exec_scalars(t->exec);
    for (int i = 0; i < SN_NCODED && s->codec_sample; i++)
        judge(t, s, i);
}
