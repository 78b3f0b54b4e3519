#include "lib/base/exit_code.h"
#include "lib/layout/axes.h"
#include "slurm/supervisor/journal.h"
#include "slurm/supervisor/platform.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

void sn_journal_init(struct sn_journal *j, const char *output, const struct sn_allocation *a,
                     const struct sn_platform *platform)
{
    *j = (struct sn_journal){.restart = a->restarts, .platform = platform};
    (void)snprintf(j->path, sizeof(j->path), "%s/journal.jsonl", output);
    (void)snprintf(j->job, sizeof(j->job), "%s", a->job);
}

/* ---- writing --------------------------------------------------------------------------------- */

void sn_journal_line(const struct sn_journal *j, struct sn_str *line, const char *event)
{
    char seconds[32];
    (void)snprintf(seconds, sizeof(seconds), "%.3f", sn_platform_date(j->platform));
    *line = (struct sn_str){0};
    sn_jsonl_raw(line, "time", seconds);
    sn_jsonl_text(line, "event", event);
    sn_jsonl_text(line, "job", j->job);
    sn_jsonl_int(line, "restart", j->restart);
}

enum sn_status sn_journal_write(const struct sn_journal *j, struct sn_str *line, struct sn_err *err)
{
    return sn_jsonl_append(j->path, line, err);
}

static void add_layout(struct sn_str *line, const struct sn_layout_config *l)
{
    char text[256] = "{";
    size_t at = 1;
    int size[SN_NGRID_AXES];
    sn_axes_sizes(size, l);
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = sn_axis_told(i);
        if (sn_axis_is_told(a, size[a])) /* who reads it takes an axis that lacks for one rank */
            at += (size_t)snprintf(text + at, sizeof(text) - at, "\"%s\": %d, ", sn_axis_name(a),
                                   size[a]);
    }
    (void)snprintf(text + at, sizeof(text) - at,
                   "\"micro_batch\": %d, \"virtual_stages\": %d, \"zero\": %d}", l->micro_batch,
                   l->virtual_stages, l->zero);
    sn_jsonl_raw(line, "layout", text);
}

enum sn_status sn_journal_launch(const struct sn_journal *j, const struct sn_journal_launch *l,
                                 struct sn_err *err)
{
    struct sn_str line;
    sn_journal_line(j, &line, "launch");
    sn_jsonl_int(&line, "attempt", l->attempt);
    sn_jsonl_texts(&line, "nodes", l->nodes, l->n_nodes);
    sn_jsonl_texts(&line, "spares", l->spares, l->n_spares);
    sn_jsonl_int(&line, "ranks", l->ranks);
    sn_jsonl_int(&line, "threads", l->threads);
    add_layout(&line, l->layout);
    sn_jsonl_bool(&line, "relaid", l->relaid);
    sn_jsonl_int(&line, "from_step", l->from_step);
    sn_jsonl_texts(&line, "command", l->command, l->n_command);
    return sn_journal_write(j, &line, err);
}

enum sn_status sn_journal_end(const struct sn_journal *j, const struct sn_journal_end *e,
                              struct sn_err *err)
{
    struct sn_str line;
    sn_journal_line(j, &line, "end");
    sn_jsonl_int(&line, "attempt", e->attempt);
    sn_jsonl_int(&line, "exit_code", e->exit_code);
    sn_jsonl_text(&line, "cause", sn_cause_text(e->cause));
    sn_jsonl_real(&line, "seconds", e->seconds);
    sn_jsonl_int(&line, "step", e->step);
    sn_jsonl_int(&line, "saved_step", e->saved_step);
    sn_jsonl_int(&line, "snapshot_step", e->snapshot_step);
    sn_jsonl_int(&line, "rank", e->rank);
    sn_jsonl_text(&line, "host", e->host);
    sn_jsonl_text(&line, "says", e->says);
    return sn_journal_write(j, &line, err);
}

enum sn_status sn_journal_suspect(const struct sn_journal *j, int attempt,
                                  const struct sn_culprit *c, struct sn_err *err)
{
    struct sn_str line;
    sn_journal_line(j, &line, "suspect");
    sn_jsonl_int(&line, "attempt", attempt);
    sn_jsonl_text(&line, "kind", sn_suspicion_name(c->kind));
    sn_jsonl_int(&line, "rank", c->rank);
    sn_jsonl_text(&line, "host", c->host);
    sn_jsonl_text(&line, "axis", c->axis);
    sn_jsonl_text(&line, "operation", c->operation);
    sn_jsonl_int(&line, "behind", c->behind);
    sn_jsonl_real(&line, "seconds", c->seconds);
    return sn_journal_write(j, &line, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

void sn_journal_layout(char out[SN_JOURNAL_LAYOUT], struct sn_json launch)
{
    struct sn_json layout = sn_json_get(launch, "layout");
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < SN_NGRID_AXES && at < SN_JOURNAL_LAYOUT; i++) {
        int64_t v = sn_json_get_integer(layout, sn_axis_name(sn_axis_told(i)), 1);
        if (v > 1 && v < INT32_MAX)
            at += (size_t)snprintf(out + at, SN_JOURNAL_LAYOUT - at, "%s%s %d", at ? " x " : "",
                                   sn_axis_name(sn_axis_told(i)), (int)v);
    }
    if (at == 0 && sn_json_get_integer(layout, sn_axis_name(sn_axis_told(0)), 0) == 1)
        (void)snprintf(out, SN_JOURNAL_LAYOUT, "%s 1", sn_axis_name(sn_axis_told(0)));
}

/* Was the attempt asked to leave? Such an end is no failure. */
static bool is_asked(const char *cause)
{
    return !strcmp(cause, sn_cause_text(SN_CAUSE_FINISHED)) ||
           !strcmp(cause, sn_cause_text(SN_CAUSE_SAVED)) ||
           !strcmp(cause, sn_cause_text(SN_CAUSE_PREEMPTED)) ||
           !strcmp(cause, sn_cause_text(SN_CAUSE_TIME_LIMIT)) ||
           !strcmp(cause, sn_cause_text(SN_CAUSE_CANCELLED));
}

static void forget(struct sn_journal_past *p)
{
    p->failures = p->idle = p->stillborn = p->equal = 0;
    p->disk_since = 0;
    p->best_step = -1;
}

/* Did it end before it began? By a race of MPI's start, or because Slurm had no room for the step
 * yet. */
static bool is_stillborn(struct sn_json line)
{
    char says[256];
    sn_json_get_text(line, "says", says, sizeof(says));
    return sn_json_get_integer(line, "exit_code", 0) == 128 + SIGSEGV ||
           strstr(says, "Unable to create step") || strstr(says, "Step creation");
}

/* The same end as the one before? Then it will come again, if nobody does anything about it. */
static void compare_end(struct sn_journal_past *p, struct sn_json line, bool has_progress)
{
    char cause[sizeof(p->cause)], says[sizeof(p->says)];
    sn_json_get_text(line, "cause", cause, sizeof(cause));
    sn_json_get_text(line, "says", says, sizeof(says));
    bool is_disk = strcmp(cause, sn_cause_text(SN_CAUSE_DISK)) == 0;
    bool is_same = strcmp(cause, p->cause) == 0 && (is_disk || strcmp(says, p->says) == 0);
    p->equal = is_same && !has_progress ? p->equal + 1 : 1;
    if (!is_disk)
        p->disk_since = 0;
    else if (p->equal == 1)
        p->disk_since = (int64_t)sn_json_get_number(line, "time", 0);
    memcpy(p->cause, cause, sizeof(cause));
    memcpy(p->says, says, sizeof(says));
}

static void count_end(struct sn_journal_past *p, struct sn_json line)
{
    char cause[64];
    int64_t saved = sn_json_get_integer(line, "saved_step", -1);
    int64_t snapshot = sn_json_get_integer(line, "snapshot_step", -1);
    saved = snapshot > saved ? snapshot : saved;
    sn_json_get_text(line, "cause", cause, sizeof(cause));
    bool crashed = !p->has_run && is_stillborn(line);
    bool is_disk = strcmp(cause, sn_cause_text(SN_CAUSE_DISK)) == 0;
    bool is_free = is_disk || strcmp(cause, sn_cause_text(SN_CAUSE_PREEMPTED)) == 0;
    p->failures += !is_asked(cause) && !is_disk;
    compare_end(p, line, saved > p->best_step);
    p->stillborn = crashed ? p->stillborn + 1 : 0;
    if (saved > p->best_step)
        p->idle = 0;
    else if (!is_free && (!crashed || p->stillborn > SN_JOURNAL_STILLBORN))
        p->idle++;
    if (saved > p->best_step)
        p->best_step = saved;
}

/* What is there when it begins is no progress of its own;
 * a run that begins anew has nothing yet. */
static void count_launch(struct sn_journal_past *p, struct sn_json line)
{
    int64_t from = sn_json_get_integer(line, "from_step", -1);
    if (from < 0 || from > p->best_step)
        p->best_step = from;
    p->has_run = false;
}

static void count_line(struct sn_journal_past *p, struct sn_json line)
{
    char event[16], job[32];
    sn_json_get_text(line, "event", event, sizeof(event));
    sn_json_get_text(line, "job", job, sizeof(job));
    int64_t attempt = sn_json_get_integer(line, "attempt", 0);
    if (attempt > p->attempts && attempt <= INT32_MAX)
        p->attempts = (int)attempt;
    if (!strcmp(event, "launch"))
        count_launch(p, line);
    if (!strcmp(event, "running"))
        p->has_run = true;
    if (!strcmp(event, "end"))
        count_end(p, line);
    int64_t code = sn_json_get_integer(line, "exit_code", -1);
    if ((!strcmp(event, "leave") && (code == SN_EXIT_DONE || code == SN_EXIT_STOP)) ||
        (!strcmp(event, "begin") && !*job))
        forget(p);
}

enum sn_status sn_journal_past_load(struct sn_journal_past *out, const char *path,
                                    struct sn_err *err)
{
    struct sn_jsonl file;
    struct sn_json line;
    struct sn_journal_past past = {.best_step = -1};
    SN_TRY(sn_jsonl_open(&file, path, err));
    while (sn_jsonl_next(&file, &line))
        count_line(&past, line);
    sn_jsonl_close(&file);
    *out = past;
    return SN_OK;
}
