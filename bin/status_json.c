/*
 * status_json.c - a run's history as one JSON object; what is not known is null.
 */
#include "bin/run_status.h"
#include "lib/base/jsonl.h"

#include <math.h>
#include <string.h>

static void whole(struct sn_str *out, const char *name, int64_t value, int64_t unknown)
{
    if (value == unknown)
        sn_jsonl_text(out, name, NULL);
    else
        sn_jsonl_int(out, name, value);
}

static void text(struct sn_str *out, const char *name, const char *value)
{
    sn_jsonl_text(out, name, value[0] ? value : NULL);
}

static void moment(struct sn_str *out, const char *name, double value)
{
    sn_jsonl_real(out, name, value > 0 ? value : NAN);
}

/* Take the members in `value` as an object. */
static void object(struct sn_str *out, const char *name, struct sn_str *value)
{
    sn_str_add(value, "%s", value->len ? "}" : "{}");
    out->failed = out->failed || value->failed;
    if (!value->failed)
        sn_jsonl_raw(out, name, value->p);
    sn_str_fini(value);
}

static void add_suspect(struct sn_str *out, const struct sn_history_suspect *s)
{
    struct sn_str o = {0};
    text(&o, "kind", s->kind);
    whole(&o, "rank", s->rank, -1);
    text(&o, "host", s->host);
    text(&o, "axis", s->axis);
    text(&o, "operation", s->operation);
    sn_jsonl_real(&o, "behind", s->behind);
    sn_jsonl_real(&o, "seconds", s->seconds);
    object(out, "suspect", &o);
}

static void add_attempt(struct sn_str *out, const struct sn_history_attempt *a)
{
    struct sn_str o = {0};
    sn_jsonl_int(&o, "attempt", a->number);
    text(&o, "job", a->job);
    sn_jsonl_int(&o, "restart", a->restart);
    moment(&o, "began", a->began);
    moment(&o, "ended", a->ended);
    moment(&o, "start_up_s", a->start_up);
    text(&o, "nodes", a->nodes);
    text(&o, "spares", a->spares);
    whole(&o, "ranks", a->ranks, 0);
    whole(&o, "threads", a->threads, 0);
    text(&o, "layout", a->layout);
    sn_jsonl_bool(&o, "relaid", a->relaid);
    whole(&o, "from_step", a->from_step, -1);
    whole(&o, "step", a->step, -1);
    whole(&o, "saved_step", a->saved, -1);
    whole(&o, "lost_steps", a->lost, -1);
    text(&o, "notices", a->notices);
    sn_jsonl_int(&o, "suspects", a->n_suspects);
    if (a->n_suspects > 0)
        add_suspect(&o, &a->suspect);
    if (a->n_incidents > 0) {
        char likely[SN_HISTORY_TEXT];
        bool departs = strcmp(a->incident.kind, "departs") == 0;
        sn_history_say_incident(likely, sizeof(likely), &a->incident);
        sn_jsonl_int(&o, "incidents", a->n_incidents);
        text(&o, departs ? "departed" : "likely_because", likely);
    }
    sn_jsonl_bool(&o, "has_end", a->has_end || a->record_ended);
    whole(&o, "exit_code", a->exit_code, -1);
    text(&o, "cause", a->cause);
    whole(&o, "rank", a->rank, -1);
    text(&o, "host", a->host);
    text(&o, "says", a->says);
    text(&o, "record", a->record);
    if (a->n_passed_over > 0) {
        sn_jsonl_int(&o, "passed_over", a->n_passed_over);
        whole(&o, "passed_over_step", a->passed_over, -1);
        text(&o, "passed_over_why", a->passed_why);
    }
    text(&o, "action", a->action);
    text(&o, "why", a->why);
    sn_str_add(&o, "}");
    out->failed = out->failed || o.failed;
    if (!o.failed)
        sn_str_add(out, "%s", o.p);
    sn_str_fini(&o);
}

static void add_attempts(struct sn_str *out, const struct sn_history *h)
{
    struct sn_str list = {0};
    sn_str_add(&list, "[");
    for (int i = 0; i < h->n_attempts; i++) {
        sn_str_add(&list, i ? ", " : "");
        add_attempt(&list, &h->attempt[i]);
    }
    sn_str_add(&list, "]");
    out->failed = out->failed || list.failed;
    if (!list.failed)
        sn_jsonl_raw(out, "attempts", list.p);
    sn_str_fini(&list);
}

static void add_bad(struct sn_str *out, const struct sn_history *h)
{
    struct sn_str list = {0};
    sn_str_add(&list, "[");
    for (int i = 0; i < h->n_bad; i++) {
        sn_str_add(&list, "%s{\"host\": ", i ? ", " : "");
        sn_str_add_json(&list, h->bad[i].host);
        sn_str_add(&list, ", \"why\": ");
        sn_str_add_json(&list, h->bad[i].why);
        sn_str_add(&list, ", \"until\": %.3f}", h->bad[i].until);
    }
    sn_str_add(&list, "]");
    out->failed = out->failed || list.failed;
    if (!list.failed)
        sn_jsonl_raw(out, "avoided", list.p);
    sn_str_fini(&list);
}

static void add_departs(struct sn_str *out, const struct sn_history *h)
{
    const char *says[SN_HISTORY_DEPARTS];
    int n = 0;
    for (; n < h->n_departs && n < SN_HISTORY_DEPARTS; n++)
        says[n] = h->departs[n];
    if (n > 0)
        sn_jsonl_texts(out, "departs", says, n);
}

static void add_sets(struct sn_str *out, const struct sn_history *h)
{
    struct sn_str sets = {0};
    for (int64_t i = 0; i < h->n_sets && i < SN_HISTORY_SETS; i++) {
        struct sn_str one = {0};
        sn_jsonl_real(&one, "share", h->set[i].share);
        sn_jsonl_real(&one, "epochs", h->set[i].epochs);
        object(&sets, h->set[i].name, &one);
    }
    if (h->n_sets > 0)
        object(out, "sets", &sets);
}

static void add_progress(struct sn_str *out, const struct sn_history *h, double now)
{
    whole(out, "step", h->step, -1);
    whole(out, "steps", h->steps, -1);
    sn_jsonl_real(out, "loss", h->loss);
    sn_jsonl_real(out, "grad_norm", h->grad_norm);
    if (isfinite(h->max_vio)) {
        sn_jsonl_real(out, "max_vio", h->max_vio);
        sn_jsonl_real(out, "max_vio_worst", h->max_vio_worst);
    }
    if (isfinite(h->gpu_mhz) || isfinite(h->gpu_watts) || isfinite(h->gpu_celsius)) {
        sn_jsonl_real(out, "gpu_sm_mhz", h->gpu_mhz);
        sn_jsonl_real(out, "gpu_power_w", h->gpu_watts);
        sn_jsonl_real(out, "gpu_temperature_c", h->gpu_celsius);
        text(out, "gpu_throttle", h->gpu_throttle);
    }
    add_departs(out, h);
    add_sets(out, h);
    whole(out, "tokens", h->tokens, -1);
    sn_jsonl_real(out, "tokens_per_s", h->tokens_per_s);
    sn_jsonl_real(out, "mfu", h->mfu);
    sn_jsonl_real(out, "step_time_s", h->step_time);
    sn_jsonl_real(out, "left_s", h->eta);
    whole(out, "snapshot_step", h->snapshot, -1);
    whole(out, "saved_step", h->saved, -1);
    sn_jsonl_real(out, "saved_age_s", h->saved_at > 0 ? now - h->saved_at : NAN);
    whole(out, "saved_bytes", h->saved_bytes, -1);
}

void sn_status_json(struct sn_str *out, const struct sn_history *h, double now, bool attempts)
{
    const struct sn_history_attempt *a = h->n_attempts ? &h->attempt[h->n_attempts - 1] : NULL;
    text(out, "state", sn_run_state_name(h->state));
    text(out, "state_why", h->state_why);
    text(out, "run_file", h->run_file);
    text(out, "scheduler", h->scheduler);
    text(out, "host", h->host);
    text(out, "version", h->version);
    text(out, "job", h->job);
    sn_jsonl_int(out, "restart", h->restart);
    whole(out, "preflight_exit_code", h->preflight_code, -1);
    moment(out, "preflight_s", h->preflight_seconds);
    whole(out, "attempt", a ? a->number : -1, -1);
    text(out, "nodes", a ? a->nodes : "");
    text(out, "spares", a ? a->spares : "");
    text(out, "layout", a ? a->layout : "");
    moment(out, "deadline", h->deadline);
    add_progress(out, h, now);
    add_bad(out, h);
    sn_jsonl_int(out, "damaged", h->damaged);
    if (attempts)
        add_attempts(out, h);
    sn_str_add(out, "}\n");
}
