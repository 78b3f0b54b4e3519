/*
 * stage_launcher.c - the launcher of a stage, and what its ranks leave in files.
 */
#include "lib/base/exit_code.h"
#include "tests/lib/stage_inner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- files ----------------------------------------------------------------------------------- */

void stage_path(char out[512], const struct stage *s, const char *name)
{
    (void)snprintf(out, 512, "%s/%s", s->output, name);
}

void stage_put(const char *path, const char *how, const char *text)
{
    FILE *f = fopen(path, how);
    if (f) {
        (void)fputs(text, f);
        (void)fclose(f);
    }
}

void stage_write(const struct stage *s, const char *name, const char *text)
{
    char path[512];
    stage_path(path, s, name);
    stage_put(path, "w", text);
}

static void write_step(struct stage *s, int step)
{
    char path[512], line[96];
    stage_path(path, s, "metrics.jsonl");
    (void)snprintf(line, sizeof(line), "{\"step\": %d, \"step_time_s\": 0.5}\n", step);
    stage_put(path, "a", line);
    s->child.step = step;
}

static void write_checkpoint(const struct stage *s, int step)
{
    char path[512], name[64];
    stage_path(path, s, "ckpt");
    (void)mkdir(path, 0755);
    (void)snprintf(name, sizeof(name), "ckpt/step-%08d", step);
    stage_path(path, s, name);
    (void)mkdir(path, 0755);
    (void)strncat(path, "/COMMIT", sizeof(path) - strlen(path) - 1);
    stage_put(path, "w", "");
}

static void write_record(const struct stage *s, int code, const char *cause)
{
    char name[64], text[1024];
    (void)snprintf(name, sizeof(name), "attempt-%d.json", s->child.number);
    (void)snprintf(text, sizeof(text), "{\"attempt\": %d, \"exit_code\": %d, \"cause\": \"%s\"}\n",
                   s->child.number, code, cause);
    stage_write(s, name, text);
}

/* ---- the launcher ---------------------------------------------------------------------------- */

/* The steps that it has made by now. */
void stage_go_on(struct stage *s)
{
    const struct stage_child *c = &s->child;
    double until = s->now;
    if (!c->runs || c->act->pace <= 0)
        return;
    if (c->act->still_at > 0 && until > c->began + c->act->still_at)
        until = c->began + c->act->still_at;
    int first = c->act->step < 0 ? 0 : c->act->step;
    while (first + (int)((until - c->began) / c->act->pace) > s->child.step)
        write_step(s, s->child.step + 1);
}

/* What scontrol shows of a node. */
static void lose_node(struct stage *s, const char *name)
{
    char *at = strstr(s->nodes, name), *end = at ? strchr(at, '\n') : NULL, rest[sizeof(s->nodes)];
    if (!end)
        return;
    (void)snprintf(rest, sizeof(rest), "%s", end);
    (void)snprintf(at, sizeof(s->nodes) - (size_t)(at - s->nodes), "%s Arch=x86_64 State=DOWN*%s",
                   name, rest);
}

void stage_end_child(struct stage *s, int code)
{
    struct stage_child *c = &s->child;
    stage_go_on(s);
    if (code == SN_EXIT_SAVED && c->is_asked && c->step > 0) {
        write_checkpoint(s, c->step);
        write_record(s, code, "asked to leave");
    } else if (code == 0) {
        write_record(s, code, "finished");
    } else if (c->act->says) {
        write_record(s, code, c->act->says);
    }
    if (c->act->died)
        lose_node(s, c->act->died);
    c->words = c->act->words;
    c->code = code;
    c->runs = false;
}

static enum sn_launcher mpirun(void *self)
{
    (void)self;
    return SN_LAUNCH_MPIRUN;
}

static void join(char *out, size_t room, char *const *word)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; word[i] && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? " " : "", word[i]);
}

static enum sn_status start(void *self, const struct sn_child_want *want, struct sn_err *err)
{
    static const struct stage_act none = {.code = 1, .saved = -1, .step = -1};
    struct stage *s = self;
    int i = s->launches++;
    if (i >= STAGE_LAUNCHES)
        return sn_fail(err, SN_EFAIL, "stage: more than %d launches", STAGE_LAUNCHES);
    s->launched[i] = s->now;
    join(s->command[i], sizeof(s->command[i]), want->argv);
    join(s->started_with, sizeof(s->started_with), want->environment);
    const struct stage_act *a = i < s->n_act ? &s->act[i] : &none;
    const char *number = strstr(s->command[i], "--attempt ");
    s->child = (struct stage_child){.runs = true,
                                    .act = a,
                                    .step = 0,
                                    .began = s->now,
                                    .number = number ? (int)strtol(number + 10, NULL, 10) : 0};
    if (a->code < STAGE_WAITS)
        s->child.ends = s->now + (a->seconds > 0 ? a->seconds : 1);
    if (a->step >= 0)
        write_step(s, a->step);
    if (a->saved >= 0)
        write_checkpoint(s, a->saved);
    return SN_OK;
}

static size_t read_words(void *self, char *bytes, size_t room)
{
    struct stage *s = self;
    const char *words = s->child.words;
    size_t n = words ? strlen(words) : 0;
    if (n == 0 || n + 1 > room)
        return 0;
    for (size_t i = 0; i < n; i++)
        bytes[i] = words[i] == '|' ? '\n' : words[i];
    bytes[n] = '\n';
    s->child.words = NULL;
    return n + 1;
}

static bool has_ended(void *self, int *code)
{
    struct stage *s = self;
    if (s->child.runs || !s->child.act)
        return false;
    *code = s->child.code;
    return true;
}

static void take_signal(void *self, int sig)
{
    struct stage *s = self;
    struct stage_child *c = &s->child;
    if (s->n_signals < STAGE_LAUNCHES * 4)
        s->signals[s->n_signals++] = sig;
    if (!c->runs)
        return;
    bool saves = sig == SIGUSR2 && c->act->code == STAGE_WAITS;
    c->is_asked = c->is_asked || saves;
    if (saves && c->act->still_at <= 0)
        c->ends = s->now + 0.5;
    else if (sig == SIGTERM)
        stage_end_child(s, 143);
}

static void kill_child(void *self)
{
    struct stage *s = self;
    s->kills++;
    if (s->child.runs)
        stage_end_child(s, 137);
}

static void kill_rank(void *self, const struct sn_flight_view *v)
{
    struct stage *s = self;
    s->ranks_killed += v->is_alive;
}

static void close_child(void *self)
{
    struct stage *s = self;
    s->child = (struct stage_child){0};
}

const struct sn_platform_launcher stage_launcher = {.mpirun = mpirun,
                                                    .start = start,
                                                    .read = read_words,
                                                    .ended = has_ended,
                                                    .signal = take_signal,
                                                    .kill = kill_child,
                                                    .kill_rank = kill_rank,
                                                    .close = close_child};
