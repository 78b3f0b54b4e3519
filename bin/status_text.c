/*
 * status_text.c - a run's history for people. Times of day are UTC, so that login nodes agree.
 */
#include "bin/run_status.h"
#include "lib/base/exit_code.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* "2:03:04"; days are hours. */
static const char *span(char buf[24], double seconds)
{
    unsigned s = seconds > 0 && seconds < 4e9 ? (unsigned)(seconds + 0.5) : 0;
    (void)snprintf(buf, 24, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

static const char *moment(char buf[24], double seconds)
{
    time_t t = seconds > 0 && seconds < 2.5e11 ? (time_t)seconds : 0;
    struct tm tm;
    if (!gmtime_r(&t, &tm) || strftime(buf, 24, "%Y-%m-%d %H:%M:%S", &tm) == 0)
        (void)snprintf(buf, 24, "?");
    return buf;
}

static void name(struct sn_str *out, const char *what)
{
    sn_str_add(out, "%-11s ", what);
}

static void add_hosts(struct sn_str *out, const struct sn_history_attempt *a)
{
    if (a->nodes[0])
        sn_str_add(out, "%s (%" PRId64 " node%s", a->nodes, a->n_nodes, a->n_nodes == 1 ? "" : "s");
    if (a->nodes[0] && a->ranks > 0)
        sn_str_add(out, ", %" PRId64 " ranks", a->ranks);
    if (a->nodes[0])
        sn_str_add(out, ")");
    if (a->spares[0])
        sn_str_add(out, ", spare %s", a->spares);
}

static void say_sets(struct sn_str *out, const struct sn_history *h)
{
    enum { SHOWN = 6 };
    if (h->n_sets == 0)
        return;
    name(out, "data");
    for (int64_t i = 0; i < h->n_sets && i < SHOWN; i++)
        sn_str_add(out, "%s%s %.1f %% (%.3g epochs)", i ? ", " : "", h->set[i].name,
                   100 * h->set[i].share, h->set[i].epochs);
    if (h->n_sets > SHOWN)
        sn_str_add(out, ", and %" PRId64 " more", h->n_sets - SHOWN);
    sn_str_add(out, ", up to step %" PRId64 "\n", h->sets_step);
}

static void say_progress(struct sn_str *out, const struct sn_history *h)
{
    char buf[24];
    if (h->step < 0) {
        name(out, "step");
        sn_str_add(out, "none has ended yet\n");
        return;
    }
    name(out, "step");
    sn_str_add(out, "%" PRId64, h->step);
    if (h->steps > 0)
        sn_str_add(out, " of %" PRId64 " (%.1f %%)", h->steps,
                   100 * (double)h->step / (double)h->steps);
    if (isfinite(h->loss))
        sn_str_add(out, ", loss %.4f", h->loss);
    if (isfinite(h->grad_norm))
        sn_str_add(out, ", gradient norm %.3f", h->grad_norm);
    sn_str_add(out, "\n");
    say_sets(out, h);
    if (isfinite(h->max_vio)) {
        name(out, "experts");
        sn_str_add(out, "MaxVio %.3f, of the worst layer %.3f\n", h->max_vio, h->max_vio_worst);
    }
    if (isfinite(h->step_time)) {
        name(out, "speed");
        sn_str_add(out, "%.3f s a step", h->step_time);
        if (isfinite(h->tokens_per_s))
            sn_str_add(out, ", %.0f tokens/s", h->tokens_per_s);
        if (isfinite(h->mfu))
            sn_str_add(out, ", mfu %.3f", h->mfu);
        sn_str_add(out, "\n");
    }
    if (isfinite(h->gpu_mhz) || isfinite(h->gpu_watts) || isfinite(h->gpu_celsius)) {
        name(out, "device 0");
        sn_str_add(out, "%.0f MHz, %.0f W, %.0f C%s%s\n", h->gpu_mhz, h->gpu_watts, h->gpu_celsius,
                   h->gpu_throttle[0] ? ", slowed: " : "", h->gpu_throttle);
    }
    for (int64_t i = 0; i < h->n_departs && i < SN_HISTORY_DEPARTS; i++) {
        name(out, i ? "" : "departs");
        sn_str_add(out, "%s\n", h->departs[i]);
    }
    if (h->n_departs > SN_HISTORY_DEPARTS) {
        name(out, "");
        sn_str_add(out, "and %" PRId64 " more\n", h->n_departs - SN_HISTORY_DEPARTS);
    }
    if (isfinite(h->eta)) {
        name(out, "left");
        sn_str_add(out, "%s\n", span(buf, h->eta));
    }
}

static void say_saved(struct sn_str *out, const struct sn_history *h, double now)
{
    char buf[24];
    name(out, "checkpoint");
    if (h->saved >= 0)
        sn_str_add(out, "step %" PRId64, h->saved);
    else
        sn_str_add(out, "none");
    if (h->saved >= 0 && h->saved_at > 0)
        sn_str_add(out, ", %s old", span(buf, now - h->saved_at));
    if (h->saved >= 0 && h->step > h->saved)
        sn_str_add(out, ", %" PRId64 " steps behind", h->step - h->saved);
    if (h->snapshot >= 0)
        sn_str_add(out, "; in memory step %" PRId64, h->snapshot);
    sn_str_add(out, "\n");
}

/* What the attempt did not go on from. */
static void say_passed_over(struct sn_str *out, const char *label,
                            const struct sn_history_attempt *a)
{
    if (a->n_passed_over == 0)
        return;
    name(out, label);
    sn_str_add(out, "passed over: the damaged checkpoint of step %" PRId64, a->passed_over);
    if (a->n_passed_over > 1)
        sn_str_add(out, " and %" PRId64 " more before it", a->n_passed_over - 1);
    sn_str_add(out, ": %s\n", a->passed_why);
}

static void say_bad(struct sn_str *out, const struct sn_history *h)
{
    char buf[24];
    for (int i = 0; i < h->n_bad; i++) {
        const struct sn_history_bad *b = &h->bad[i];
        name(out, i ? "" : "avoided");
        sn_str_add(out, "%s", b->host);
        if (b->until > 0)
            sn_str_add(out, " until %s", moment(buf, b->until));
        sn_str_add(out, "%s%s\n", b->why[0] ? ": " : "", b->why);
    }
}

static void say_job(struct sn_str *out, const struct sn_history *h)
{
    if (h->run_file[0]) {
        name(out, "run file");
        sn_str_add(out, "%s\n", h->run_file);
    }
    if (h->job[0]) {
        name(out, "job");
        sn_str_add(out, "%s", h->job);
        if (h->restart > 0)
            sn_str_add(out, ", requeued %" PRId64 " time%s", h->restart,
                       h->restart == 1 ? "" : "s");
        sn_str_add(out, "\n");
    }
}

static void say_preflight(struct sn_str *out, const struct sn_history *h)
{
    if (h->preflight_code < 0)
        return;
    name(out, "preflight");
    if (h->preflight_code == SN_EXIT_DONE)
        sn_str_add(out, "all nodes passed");
    else if (h->preflight_code == SN_EXIT_LOST)
        sn_str_add(out, "a node failed");
    else
        sn_str_add(out, "ended with %" PRId64, h->preflight_code);
    sn_str_add(out, ", %.1f s%s%s\n", h->preflight_seconds, h->preflight_says[0] ? ": " : "",
               h->preflight_says);
}

static void say_state(struct sn_str *out, const struct sn_history *h)
{
    name(out, "state");
    sn_str_add(out, "%s: %s\n", sn_run_state_name(h->state), h->state_why);
    if (h->damaged > 0) {
        name(out, "damaged");
        sn_str_add(out, "%d line%s or file%s could not be read\n", h->damaged,
                   h->damaged == 1 ? "" : "s", h->damaged == 1 ? "" : "s");
    }
}

void sn_status_text(struct sn_str *out, const struct sn_history *h, double now)
{
    char buf[24];
    const struct sn_history_attempt *a = h->n_attempts ? &h->attempt[h->n_attempts - 1] : NULL;
    say_state(out, h);
    say_job(out, h);
    say_preflight(out, h);
    if (a) {
        name(out, "attempt");
        sn_str_add(out, "%" PRId64 "\n", a->number);
    }
    say_progress(out, h);
    say_saved(out, h, now);
    if (a)
        say_passed_over(out, "", a);
    bool goes_on = h->state == SN_RUN_RUNNING || h->state == SN_RUN_STARTING;
    if (h->deadline > 0 && goes_on) {
        name(out, "deadline");
        sn_str_add(out, "%s%s\n", h->deadline > now ? "in " : "over since ",
                   span(buf, h->deadline > now ? h->deadline - now : now - h->deadline));
    }
    if (a && a->nodes[0]) {
        name(out, "nodes");
        add_hosts(out, a);
        sn_str_add(out, "\n");
    }
    if (a && a->layout[0]) {
        name(out, "layout");
        sn_str_add(out, "%s%s\n", a->layout, a->relaid ? " (replanned)" : "");
    }
    say_bad(out, h);
}

/* ---- why ------------------------------------------------------------------------------------- */

static void say_begin(struct sn_str *out, const struct sn_history_attempt *a)
{
    char at[24], took[24];
    sn_str_add(out, "attempt %-3" PRId64 " ", a->number);
    sn_str_add(out, "%s", a->began > 0 ? moment(at, a->began) : "began at an unknown time");
    if (a->began > 0 && a->ended > a->began)
        sn_str_add(out, ", %s long", span(took, a->ended - a->began));
    if (a->job[0])
        sn_str_add(out, ", job %s", a->job);
    if (a->job[0] && a->restart > 0)
        sn_str_add(out, " requeued %" PRId64 " time%s", a->restart, a->restart == 1 ? "" : "s");
    sn_str_add(out, "\n");
    if (a->nodes[0]) {
        name(out, "");
        sn_str_add(out, "on ");
        add_hosts(out, a);
        if (a->layout[0])
            sn_str_add(out, ", %s%s", a->layout, a->relaid ? " (replanned)" : "");
        sn_str_add(out, "\n");
    }
}

static void say_steps(struct sn_str *out, const struct sn_history_attempt *a)
{
    if (a->from_step < 0 && a->step < 0)
        return;
    name(out, "");
    sn_str_add(out, "from step %" PRId64, a->from_step < 0 ? 0 : a->from_step);
    if (a->step >= 0)
        sn_str_add(out, " to %" PRId64, a->step);
    if (a->saved >= 0)
        sn_str_add(out, ", saved %" PRId64, a->saved);
    if (a->lost >= 0)
        sn_str_add(out, ", %" PRId64 " lost", a->lost);
    if (a->start_up > 0)
        sn_str_add(out, "; first step after %.1f s", a->start_up);
    sn_str_add(out, "\n");
}

static void say_suspect(struct sn_str *out, const struct sn_history_attempt *a)
{
    const struct sn_history_suspect *s = &a->suspect;
    if (a->n_suspects == 0)
        return;
    name(out, "");
    if (s->rank >= 0)
        sn_str_add(out, "suspected (%s): rank %" PRId64 " on %s", s->kind, s->rank, s->host);
    else
        sn_str_add(out, "suspected (%s): no rank alone%s%s", s->kind, s->host[0] ? ", host " : "",
                   s->host);
    if (s->operation[0])
        sn_str_add(out, ", in %s%s%s", s->axis, s->axis[0] ? " " : "", s->operation);
    if (s->behind > 0)
        sn_str_add(out, ", %.6g behind", s->behind);
    if (s->seconds > 0)
        sn_str_add(out, ", for %.1f s", s->seconds);
    if (a->n_suspects > 1)
        sn_str_add(out, " (the last of %" PRId64 " suspicions)", a->n_suspects);
    sn_str_add(out, "\n");
}

static void say_incident(struct sn_str *out, const struct sn_history_attempt *a)
{
    char text[SN_HISTORY_TEXT];
    if (a->n_incidents == 0)
        return;
    sn_history_say_incident(text, sizeof(text), &a->incident);
    name(out, "");
    bool departs = strcmp(a->incident.kind, "departs") == 0; /* it slows, and ends nothing */
    sn_str_add(out, "%s %s", departs ? "departed from the plan:" : "likely because", text);
    if (a->n_incidents > 1)
        sn_str_add(out, " (the gravest of %" PRId64 " such reports)", a->n_incidents);
    sn_str_add(out, "\n");
}

static void say_end(struct sn_str *out, const struct sn_history_attempt *a)
{
    name(out, "");
    if (!a->has_end && !a->record_ended) {
        sn_str_add(out, "no end is recorded\n");
        return;
    }
    sn_str_add(out, "%s", a->cause[0] ? a->cause : a->record[0] ? a->record : "ended");
    if (a->exit_code >= 0)
        sn_str_add(out, " (exit code %" PRId64 ")", a->exit_code);
    if (a->rank >= 0)
        sn_str_add(out, ": rank %" PRId64, a->rank);
    if (a->host[0])
        sn_str_add(out, "%s%s", a->rank >= 0 ? " on " : ": host ", a->host);
    sn_str_add(out, "\n");
    if (a->says[0]) {
        name(out, "");
        sn_str_add(out, "said: %s\n", a->says);
    }
    if (a->cause[0] && a->record[0] && a->record_ended && strcmp(a->record, a->says) != 0) {
        name(out, "");
        sn_str_add(out, "wrote down: %s\n", a->record);
    }
}

static void say_attempt(struct sn_str *out, const struct sn_history_attempt *a)
{
    say_begin(out, a);
    say_passed_over(out, "", a);
    say_steps(out, a);
    if (a->notices[0]) {
        name(out, "");
        sn_str_add(out, "asked to leave: %s\n", a->notices);
    }
    say_suspect(out, a);
    say_end(out, a);
    say_incident(out, a);
    if (a->action[0]) {
        name(out, "");
        sn_str_add(out, "decided: %s: %s\n", a->action, a->why);
    }
}

void sn_status_why_text(struct sn_str *out, const struct sn_history *h, double now)
{
    (void)now;
    for (int i = 0; i < h->n_attempts; i++)
        say_attempt(out, &h->attempt[i]);
    say_state(out, h);
    say_bad(out, h);
}
