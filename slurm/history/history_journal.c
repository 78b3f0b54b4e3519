/*
 * history_journal.c - the texts of a run directory, line by line, believing nothing.
 */
#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "slurm/history/history.h"
#include "slurm/scheduler/hostlist.h"
#include "slurm/supervisor/journal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sn_history_init(struct sn_history *h)
{
    *h = (struct sn_history){.step = -1,
                             .steps = -1,
                             .tokens = -1,
                             .loss = NAN,
                             .grad_norm = NAN,
                             .max_vio = NAN,
                             .max_vio_worst = NAN,
                             .gpu_mhz = NAN,
                             .gpu_watts = NAN,
                             .gpu_celsius = NAN,
                             .tokens_per_s = NAN,
                             .mfu = NAN,
                             .step_time = NAN,
                             .eta = NAN,
                             .preflight_code = -1,
                             .snapshot = -1,
                             .saved = -1,
                             .saved_bytes = -1,
                             .state = SN_RUN_UNKNOWN};
}

void sn_history_fini(struct sn_history *h)
{
    sn_free(h->attempt);
    sn_free(h->bad);
    *h = (struct sn_history){0};
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Sentences and names end up on terminals. */
static void clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            *text = *text == '\n' || *text == '\t' ? ' ' : '?';
}

static void take_text(char *out, size_t room, struct sn_json object, const char *name)
{
    sn_json_get_text(object, name, out, room);
    clean(out);
}
#define TAKE(member, object, name) take_text(member, sizeof(member), object, name)

/* A number from 0 up, or `otherwise`. */
static int64_t count(struct sn_json object, const char *name, int64_t otherwise)
{
    int64_t v = sn_json_get_integer(object, name, otherwise);
    return v >= 0 && v < INT64_C(1) << 53 ? v : otherwise;
}

/* Seconds; 0 for what is none. */
static double seconds(struct sn_json object, const char *name)
{
    double v = sn_json_get_number(object, name, 0);
    return v > 0 && v < 1e12 ? v : 0;
}

static double number(struct sn_json object, const char *name)
{
    double v = sn_json_get_number(object, name, NAN);
    return isfinite(v) ? v : NAN;
}

/* Names of hosts, joined with commas; what no host's name has becomes '?'. */
static int64_t join_hosts(struct sn_str *out, struct sn_json list)
{
    struct sn_json none, item;
    char name[SN_HOST_NAME];
    int64_t n = 0;
    for (size_t at = 0; n < SN_HOSTLIST_MAX && sn_json_next(list, &at, &none, &item); n++) {
        if (!sn_json_text(item, name, sizeof(name)) || !name[0])
            (void)memcpy(name, "?", 2);
        for (char *c = name; *c; c++)
            if (*c == ',' || *c == '[' || *c == ']' || *c <= 0x20 || *c >= 0x7f)
                *c = '?';
        sn_str_add(out, "%s%s", n ? "," : "", name);
    }
    return n;
}

/* "n[0-3]", cut short with "..." */
static enum sn_status take_hosts(char out[SN_HISTORY_HOSTS], int64_t *n, struct sn_json list,
                                 struct sn_err *err)
{
    struct sn_str joined = {0}, short_form = {0};
    struct sn_hostlist hosts = {0};
    struct sn_err ignored;
    *n = join_hosts(&joined, list);
    if (*n > 0 && !joined.failed && sn_hostlist_parse(&hosts, joined.p, "nodes", &ignored) == SN_OK)
        sn_hostlist_format(&short_form, &hosts);
    bool failed = joined.failed || short_form.failed;
    const char *text = short_form.len ? short_form.p : joined.len ? joined.p : "";
    size_t len = strlen(text), room = SN_HISTORY_HOSTS;
    if (!failed) {
        memcpy(out, text, len < room ? len + 1 : room - 4);
        if (len >= room)
            memcpy(out + room - 4, "...", 4);
    }
    sn_hostlist_fini(&hosts);
    sn_str_fini(&short_form);
    sn_str_fini(&joined);
    return failed ? sn_fail(err, SN_ENOMEM, "journal: no memory for the names of nodes") : SN_OK;
}

/* ---- attempts and hosts ---------------------------------------------------------------------- */

static void add_attempt(struct sn_history *h, int at, int64_t n)
{
    memmove(&h->attempt[at + 1], &h->attempt[at],
            (size_t)(h->n_attempts - at) * sizeof(*h->attempt));
    h->attempt[at] = (struct sn_history_attempt){.number = n,
                                                 .from_step = -1,
                                                 .step = -1,
                                                 .saved = -1,
                                                 .lost = -1,
                                                 .exit_code = -1,
                                                 .rank = -1};
    h->n_attempts++;
}

/* The attempt of this number, made where it lacks; *out NULL: there are too many, or it is no
 * number. */
static enum sn_status attempt_of(struct sn_history_attempt **out, struct sn_history *h, int64_t n,
                                 struct sn_err *err)
{
    int at = h->n_attempts;
    *out = NULL;
    while (at > 0 && h->attempt[at - 1].number > n)
        at--;
    if (at > 0 && h->attempt[at - 1].number == n) {
        *out = &h->attempt[at - 1];
        return SN_OK;
    }
    if (n < 1 || n > INT32_MAX || h->n_attempts == SN_HISTORY_ATTEMPTS)
        return SN_OK;
    if (!sn_grow((void **)&h->attempt, h->n_attempts, &h->room, sizeof(*h->attempt)))
        return sn_fail(err, SN_ENOMEM, "no memory for %d attempts", h->n_attempts + 1);
    add_attempt(h, at, n);
    *out = &h->attempt[at];
    return SN_OK;
}

enum sn_status sn_history_take_bad(struct sn_history *h, const char *host, const char *why,
                                   double until, struct sn_err *err)
{
    struct sn_history_bad bad = {.until = until};
    (void)snprintf(bad.host, sizeof(bad.host), "%s", host);
    (void)snprintf(bad.why, sizeof(bad.why), "%s", why);
    clean(bad.host);
    clean(bad.why);
    int at = 0;
    while (at < h->n_bad && strcmp(h->bad[at].host, bad.host) != 0)
        at++;
    if (!bad.host[0] || at == SN_HISTORY_ATTEMPTS)
        return SN_OK;
    if (!sn_grow((void **)&h->bad, at, &h->room_bad, sizeof(*h->bad)))
        return sn_fail(err, SN_ENOMEM, "no memory for %d hosts", at + 1);
    h->bad[at] = bad;
    h->n_bad = at == h->n_bad ? at + 1 : h->n_bad;
    return SN_OK;
}

static enum sn_status take_bad_node(struct sn_history *h, struct sn_json line, struct sn_err *err)
{
    char host[256], why[256];
    TAKE(host, line, "host");
    TAKE(why, line, "why");
    return sn_history_take_bad(h, host, why, seconds(line, "until"), err);
}

/* ---- the journal ----------------------------------------------------------------------------- */

static void take_begin(struct sn_history *h, struct sn_json line)
{
    TAKE(h->run_file, line, "run_file");
    TAKE(h->scheduler, line, "scheduler");
    TAKE(h->host, line, "host");
    TAKE(h->version, line, "version");
    TAKE(h->job, line, "job");
    h->restart = count(line, "restart", 0);
    h->pid = count(line, "pid", 0);
    h->deadline = seconds(line, "deadline");
    h->preflight_code = -1;
}

static enum sn_status take_launch(struct sn_history_attempt *a, const char *host,
                                  struct sn_json line, struct sn_err *err)
{
    bool relaid = false;
    TAKE(a->job, line, "job");
    a->restart = count(line, "restart", 0);
    a->began = seconds(line, "time");
    a->ranks = count(line, "ranks", 0);
    a->threads = count(line, "threads", 0);
    a->from_step = sn_json_get_integer(line, "from_step", -2) == -1 /* no checkpoint */
                       ? 0
                       : count(line, "from_step", -1);
    (void)sn_json_bool(sn_json_get(line, "relaid"), &relaid);
    a->relaid = relaid;
    sn_journal_layout(a->layout, line);
    SN_TRY(take_hosts(a->nodes, &a->n_nodes, sn_json_get(line, "nodes"), err));
    if (a->n_nodes == 0 && host[0]) { /* outside of a job: where the supervisor is */
        (void)snprintf(a->nodes, sizeof(a->nodes), "%s", host);
        a->n_nodes = 1;
    }
    return take_hosts(a->spares, &a->n_spares, sn_json_get(line, "spares"), err);
}

static void take_notice(struct sn_history_attempt *a, struct sn_json line)
{
    char what[32];
    size_t at = strlen(a->notices);
    TAKE(what, line, "what");
    if (what[0] && !strstr(a->notices, what))
        (void)snprintf(a->notices + at, sizeof(a->notices) - at, "%s%s", at ? ", " : "", what);
}

static void take_suspect(struct sn_history_attempt *a, struct sn_json line)
{
    struct sn_history_suspect *s = &a->suspect;
    a->n_suspects++;
    TAKE(s->kind, line, "kind");
    TAKE(s->host, line, "host");
    TAKE(s->axis, line, "axis");
    TAKE(s->operation, line, "operation");
    s->rank = count(line, "rank", -1);
    s->behind = number(line, "behind");
    s->seconds = number(line, "seconds");
}

static void take_end(struct sn_history_attempt *a, struct sn_json line)
{
    a->has_end = true;
    a->ended = seconds(line, "time");
    a->exit_code = count(line, "exit_code", -1);
    a->step = count(line, "step", -1);
    a->saved = count(line, "saved_step", -1);
    a->rank = count(line, "rank", -1);
    TAKE(a->cause, line, "cause");
    TAKE(a->host, line, "host");
    TAKE(a->says, line, "says");
}

/* Events of an attempt; false: of none. */
static bool is_of_attempt(const char *event, enum sn_history_event *e)
{
    static const struct {
        const char *name;
        enum sn_history_event event;
    } row[] = {{"launch", SN_EVENT_LAUNCH}, {"running", SN_EVENT_RUNNING},
               {"notice", SN_EVENT_NOTICE}, {"suspect", SN_EVENT_SUSPECT},
               {"end", SN_EVENT_END},       {"decision", SN_EVENT_DECISION}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        if (strcmp(event, row[i].name) != 0)
            continue;
        *e = row[i].event;
        return true;
    }
    return false;
}

static enum sn_status take_event(const struct sn_history *h, struct sn_history_attempt *a,
                                 enum sn_history_event e, struct sn_json line, struct sn_err *err)
{
    if (a->began <= 0)
        a->began = seconds(line, "time");
    if (e == SN_EVENT_LAUNCH)
        return take_launch(a, h->host, line, err);
    if (e == SN_EVENT_RUNNING)
        a->start_up = seconds(line, "seconds");
    else if (e == SN_EVENT_NOTICE)
        take_notice(a, line);
    else if (e == SN_EVENT_SUSPECT)
        take_suspect(a, line);
    else if (e == SN_EVENT_END)
        take_end(a, line);
    if (e == SN_EVENT_DECISION) {
        TAKE(a->action, line, "action");
        TAKE(a->why, line, "why");
    }
    return SN_OK;
}

static enum sn_status take_line(struct sn_history *h, struct sn_evidence *e, struct sn_json line,
                                struct sn_err *err)
{
    char event[16];
    enum sn_history_event of_attempt;
    struct sn_history_attempt *a = NULL;
    TAKE(event, line, "event");
    if (strcmp(event, "begin") == 0) {
        take_begin(h, line);
        e->last = SN_EVENT_BEGIN;
    } else if (strcmp(event, "leave") == 0) {
        e->leave_code = count(line, "exit_code", -1);
        e->last = SN_EVENT_LEAVE;
    } else if (strcmp(event, "preflight") == 0) {
        h->preflight_code = count(line, "exit_code", -1);
        h->preflight_seconds = seconds(line, "seconds");
        TAKE(h->preflight_says, line, "says");
    } else if (strcmp(event, "deadline") == 0) {
        h->deadline = seconds(line, "deadline");
    } else if (strcmp(event, "bad-node") == 0) {
        return take_bad_node(h, line, err);
    } else if (is_of_attempt(event, &of_attempt)) {
        int64_t number = count(line, "attempt", -1);
        if (of_attempt == SN_EVENT_DECISION) {
            TAKE(h->action, line, "action");
            TAKE(h->why, line, "why");
        }
        SN_TRY(attempt_of(&a, h, number, err));
        h->damaged += a == NULL && number != 0; /* 0: the preflight */
        e->last = a || of_attempt == SN_EVENT_DECISION ? of_attempt : e->last;
        return a ? take_event(h, a, of_attempt, line, err) : SN_OK;
    }
    return SN_OK; /* other events may come with later versions */
}

/* The text as lines, without a last one that is cut. It is borrowed. */
static struct sn_jsonl lines_of(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] != '\n')
        len--;
    return (struct sn_jsonl){.text = (char *)(uintptr_t)text, .len = len};
}

enum sn_status sn_history_take_journal(struct sn_history *h, struct sn_evidence *e,
                                       const char *text, size_t len, struct sn_err *err)
{
    struct sn_jsonl lines = lines_of(text, len);
    struct sn_json line;
    enum sn_status st = SN_OK;
    h->has_journal = true;
    while (st == SN_OK && sn_jsonl_next(&lines, &line))
        st = take_line(h, e, line, err);
    h->damaged += (int)(lines.damaged < INT32_MAX / 2 ? lines.damaged : INT32_MAX / 2);
    return st;
}

/* ---- what the trainer writes ----------------------------------------------------------------- */

/* Newest first. */
static void take_passed_over(struct sn_history_attempt *a, struct sn_json list)
{
    struct sn_json none, item;
    a->n_passed_over = 0;
    for (size_t at = 0; sn_json_next(list, &at, &none, &item);)
        if (a->n_passed_over++ == 0) {
            a->passed_over = count(item, "step", -1);
            TAKE(a->passed_why, item, "why");
        }
}

enum sn_status sn_history_take_record(struct sn_history *h, int64_t n, const char *text, size_t len,
                                      struct sn_err *err)
{
    struct sn_history_attempt *a;
    struct sn_json o;
    SN_TRY(attempt_of(&a, h, n, err));
    if (!a || !sn_json_parse(&o, text, len) || *o.at != '{') {
        h->damaged++;
        return SN_OK;
    }
    int64_t code = count(o, "exit_code", -1);
    a->has_record = true;
    a->record_ended = code >= 0;
    a->from_step = count(o, "from_step", a->from_step);
    TAKE(a->record, o, "cause");
    take_passed_over(a, sn_json_get(o, "passed_over"));
    if (a->began <= 0)
        a->began = seconds(o, "started");
    if (a->ended <= 0 && code >= 0)
        a->ended = seconds(o, "ended");
    if (!a->has_end)
        a->exit_code = code;
    return SN_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the last ones that are numbers, sorted in place. */
enum { KEPT = 32 };
struct lately {
    double v[KEPT];
    int n;
};

static void add_lately(struct lately *l, double v)
{
    if (!isnan(v))
        l->v[l->n++ % KEPT] = v;
}

static double median(struct lately *l)
{
    int kept = l->n < KEPT ? l->n : KEPT;
    if (kept == 0)
        return NAN;
    qsort(l->v, (size_t)kept, sizeof(l->v[0]), ascending);
    return l->v[kept / 2];
}

void sn_history_take_metrics(struct sn_history *h, const char *text, size_t len)
{
    struct sn_jsonl lines = lines_of(text, len);
    struct sn_json line;
    struct lately took = {0}, rate = {0}, mfu = {0};
    while (sn_jsonl_next(&lines, &line)) {
        double t = number(line, "step_time_s");
        sn_history_take_sets(h, sn_json_get(line, "sets"), count(line, "step", -1));
        if (!(t > 0)) /* an evaluation, or sets */
            continue;
        add_lately(&took, t);
        add_lately(&rate, number(line, "tokens_per_s"));
        add_lately(&mfu, number(line, "mfu"));
        h->step = count(line, "step", -1);
        h->tokens = count(line, "tokens", -1);
        h->loss = number(line, "loss");
        h->grad_norm = number(line, "grad_norm");
        h->max_vio = number(line, "max_vio");
        h->max_vio_worst = number(line, "max_vio_worst");
        h->snapshot = count(line, "snapshot_step", h->snapshot);
        sn_history_take_gpu(h, sn_json_get(line, "gpu"));
        sn_history_take_departs(h, sn_json_get(line, "departs"));
    }
    h->step_time = median(&took);
    h->tokens_per_s = median(&rate);
    h->mfu = median(&mfu);
    h->damaged += (int)(lines.damaged < INT32_MAX / 2 ? lines.damaged : INT32_MAX / 2);
}

void sn_history_take_saves(struct sn_history *h, const char *text, size_t len)
{
    struct sn_jsonl lines = lines_of(text, len);
    struct sn_json line;
    while (sn_jsonl_next(&lines, &line)) {
        h->saved = count(line, "step", h->saved);
        h->saved_bytes = count(line, "bytes", -1);
    }
    h->damaged += (int)(lines.damaged < INT32_MAX / 2 ? lines.damaged : INT32_MAX / 2);
}
