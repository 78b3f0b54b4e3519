#include "slurm/supervisor/watch.h"

#include "lib/base/exit_code.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SCORED = 1024 }; /* ranks whose records are read now and then: 8 KiB each */

/* ---- one attempt ----------------------------------------------------------------------------- */

struct watch {
    const struct sn_watch_want *want;
    struct sn_watch_end *end;
    struct sn_supervision state;
    int log; /* OUTPUT/attempts/N/launcher.err */
    double began, next_look, next_recorders;
    int64_t began_wall;
    int64_t lowest;      /* step in the metrics since the launch: they are cut back on resume */
    uint64_t recorders;  /* what the ranks' records added up to, */
    double recorders_at; /* when they were looked at last, */
    uint64_t recorders_moved; /* and how often that was another number */
    double next_score;
    bool has_trigger;    /* the file save-and-exit was seen */
    int64_t scored;      /* step */
    int straggler, seen; /* a rank, and how much oftener it was found than not */
    bool is_scored;      /* it is written down once */
    struct sn_vigil vigil;
    double recorders_every; /* seconds between two looks at the records while nothing moves */
};

/* The launcher's words: into the attempt's file, and the last lines kept. */
static void pass_on_words(struct watch *w)
{
    const struct sn_platform *platform = w->want->platform;
    char bytes[4096];
    for (size_t n; (n = platform->launcher->read(platform->self, bytes, sizeof(bytes))) > 0;) {
        ssize_t kept = w->log >= 0 ? write(w->log, bytes, n) : 0;
        (void)kept; /* where it cannot be kept, the tail still has it */
        sn_tail_add(&w->end->words, bytes, n);
    }
}

static double now_of(const struct watch *w)
{
    return sn_platform_now(w->want->platform);
}

/* The record of a rank of this attempt, not of one before. */
static bool read_record(const struct watch *w, struct sn_flight_view *out, int rank)
{
    const struct sn_platform *platform = w->want->platform;
    char folder[SN_PATH_MAX + 16];
    (void)snprintf(folder, sizeof(folder), "%s/ranks", w->want->rundir->output);
    return platform->files->record(platform->self, out, folder, rank, w->began_wall);
}

/* What the records add up to: another number when any rank has communicated. */
static uint64_t recorders_now(struct watch *w)
{
    struct sn_flight_view v;
    uint64_t sum = 0;
    sn_vigil_look(&w->vigil, now_of(w));
    for (int rank = 0; rank < w->want->ranks; rank++) {
        if (!read_record(w, &v, rank))
            continue;
        sn_vigil_see(&w->vigil, rank, &v);
        for (int i = 0; i < v.n; i++)
            sum += v.event[i].id * 4 + (uint64_t)v.event[i].state;
        sum = sum * 31 + (uint64_t)v.n;
    }
    return sum;
}

/* The records of all ranks; NULL without memory. */
static struct sn_flight_view *read_recorders(const struct watch *w)
{
    int ranks = w->want->ranks;
    struct sn_flight_view *v = sn_alloc_n((size_t)ranks, sizeof(*v));
    for (int rank = 0; v && rank < ranks; rank++)
        if (!read_record(w, &v[rank], rank))
            v[rank] = (struct sn_flight_view){.rank = rank, .n = -1};
    return v;
}

/* Seconds after which a record stands still: several looks at it. */
static double silence(const struct watch *w)
{
    return 3 * w->recorders_every > 3 ? 3 * w->recorders_every : 3;
}

/* When all have ended, that a process is gone says nothing. */
static void name_culprit(struct watch *w, bool have_ended)
{
    int ranks = w->want->ranks;
    struct sn_flight_view *v = read_recorders(w);
    bool *still = sn_alloc_n((size_t)ranks + 1, sizeof(*still));
    for (int i = 0; v && have_ended && i < ranks; i++)
        v[i].is_here = false;
    for (int i = 0; still && i < ranks; i++)
        still[i] = sn_vigil_is_silent(&w->vigil, i, silence(w));
    if (v)
        (void)sn_culprit_find(&w->end->culprit, v, ranks, w->want->grid, still, now_of(w));
    sn_free(still);
    sn_free(v);
}

static void journal_suspect(struct watch *w)
{
    struct sn_culprit *c = &w->end->culprit;
    struct sn_err err;
    if (c->kind == SN_SUSPECT_NONE)
        return;
    c->seconds = sn_supervise_still(&w->state, now_of(w));
    if (sn_journal_suspect(w->want->journal, w->want->attempt, c, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    char who[300];
    sn_culprit_say(who, sizeof(who), c);
    sn_log(SN_LOG_WARN, "nothing has moved for %.0f s; %s", c->seconds, who);
}

/* Now and then: is there a rank for which the others wait all the time? Three times oftener than
 * not is no chance; then it is written down. */
static void score(struct watch *w, int64_t step, double step_seconds)
{
    struct sn_culprit c;
    struct sn_err err;
    double now = now_of(w), every = 10 * step_seconds;
    if (!w->want->limits.has_recorders || w->want->ranks > SCORED || now < w->next_score ||
        step == w->scored)
        return; /* nothing new to be learnt */
    w->scored = step;
    w->next_score = now + (every < 5 ? 5 : every > 60 ? 60 : every);
    struct sn_flight_view *v = read_recorders(w);
    sn_vigil_look(&w->vigil, now);
    for (int i = 0; v && i < w->want->ranks; i++)
        if (v[i].n >= 0)
            sn_vigil_see(&w->vigil, i, &v[i]);
    bool found = v && sn_straggler_find(&c, v, w->want->ranks, w->want->grid);
    sn_free(v);
    if (w->seen == 0 && found)
        w->straggler = c.rank;
    bool same = found && c.rank == w->straggler;
    w->seen += same ? 1 : w->seen > 0 ? -1 : 0;
    if (w->seen < 3 || !same || w->is_scored)
        return;
    w->is_scored = true;
    if (sn_journal_suspect(w->want->journal, w->want->attempt, &c, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    sn_log(SN_LOG_WARN, "rank %d (%s) is slow: others wait for it %.0f %% of the time", c.rank,
           c.host, 100 * c.seconds);
}

static void journal_what(struct watch *w, const char *what)
{
    struct sn_str line;
    struct sn_err err;
    sn_journal_line(w->want->journal, &line, "notice");
    sn_jsonl_int(&line, "attempt", w->want->attempt);
    sn_jsonl_text(&line, "what", what);
    if (sn_journal_write(w->want->journal, &line, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
    sn_log(SN_LOG_INFO, "%s: attempt %d is asked to save and leave", what, w->want->attempt);
}

/* The trainer meets the file by itself, and removes it; that it was there is written down. */
static void look_for_trigger(struct watch *w)
{
    char path[SN_PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/save-and-exit", w->want->rundir->output);
    if (w->has_trigger || access(path, F_OK) != 0)
        return;
    w->has_trigger = true;
    journal_what(w, "trigger");
}

static void journal_notice(struct watch *w, unsigned asked)
{
    static const struct {
        unsigned bit;
        const char *name;
    } row[] = {{SN_ASKED_TERM, "SIGTERM"},     {SN_ASKED_USR1, "SIGUSR1"},
               {SN_ASKED_USR2, "SIGUSR2"},     {SN_ASKED_INT, "SIGINT"},
               {SN_ASKED_INT_AGAIN, "SIGINT"}, {SN_ASKED_DEADLINE, "deadline"}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (asked & row[i].bit)
            journal_what(w, row[i].name);
}

static void journal_running(struct watch *w, int64_t step)
{
    struct sn_str line;
    struct sn_err err;
    w->end->start_seconds = now_of(w) - w->began;
    sn_journal_line(w->want->journal, &line, "running");
    sn_jsonl_int(&line, "attempt", w->want->attempt);
    sn_jsonl_int(&line, "step", step);
    sn_jsonl_real(&line, "seconds", w->end->start_seconds);
    if (sn_journal_write(w->want->journal, &line, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

/* Ranks that mpirun left on this host when it was killed. */
static void kill_ranks(const struct watch *w)
{
    const struct sn_platform *platform = w->want->platform;
    struct sn_flight_view v;
    for (int rank = 0; w->want->on_this_host && rank < w->want->ranks; rank++)
        if (read_record(w, &v, rank))
            platform->launcher->kill_rank(platform->self, &v);
}

static void send_signal(const struct watch *w, int sig)
{
    w->want->platform->launcher->signal(w->want->platform->self, sig);
}

/* A launcher that is killed leaves its ranks to helpers, which need a moment. */
static void end_step(const struct watch *w)
{
    if (w->want->ways->end == SIGKILL)
        kill_ranks(w);
    send_signal(w, w->want->ways->end);
}

static void fulfil(struct watch *w, enum sn_duty duty)
{
    switch (duty) {
    case SN_DUTY_SAVE:
        send_signal(w, w->want->ways->save);
        return;
    case SN_DUTY_LOOK:
        name_culprit(w, false);
        journal_suspect(w);
        return;
    case SN_DUTY_HANG:
        w->end->has_hung = true;
        name_culprit(w, false);
        journal_suspect(w);
        end_step(w);
        return;
    case SN_DUTY_LOST:
        w->end->has_lost = true;
        end_step(w);
        return;
    case SN_DUTY_STOP:
        end_step(w);
        return;
    case SN_DUTY_KILL:
        kill_ranks(w);
        w->want->platform->launcher->kill(w->want->platform->self);
        return;
    case SN_DUTY_NONE:
        return;
    }
}

/* Thousands of small files: not read while the metrics grow. What the first look after that finds
 * is no motion yet: it may be from before. */
static void follow_recorders(struct watch *w, double now, double soon)
{
    double hang = w->want->limits.hang_timeout, still = sn_supervise_still(&w->state, now);
    double after = hang / 4 < soon ? hang / 4 : soon;
    if (!w->want->limits.has_recorders || still < after || now < w->next_recorders)
        return;
    uint64_t recorders = recorders_now(w);
    if (w->recorders_at > w->state.moved && recorders != w->recorders)
        w->recorders_moved++;
    w->recorders = recorders;
    w->recorders_at = now;
    w->next_recorders = now + w->recorders_every;
}

static bool has_given_up(const struct watch *w)
{
    struct sn_rundir_record r;
    sn_rundir_record(&r, w->want->rundir, w->want->attempt);
    return r.has_ended && r.exit_code == SN_EXIT_LOST;
}

static void see(struct watch *w, struct sn_seen *seen, unsigned asked)
{
    struct sn_rundir_progress *p = &w->end->progress;
    double now = now_of(w);
    sn_rundir_progress(p, w->want->rundir);
    *seen = (struct sn_seen){.now = now,
                             .wall = (int64_t)sn_platform_date(w->want->platform),
                             .asked = asked,
                             .step = p->step,
                             .step_seconds = p->step_seconds,
                             .save_seconds = p->save_seconds,
                             .has_given_up = w->want->limits.has_recorders && has_given_up(w)};
    double still = sn_supervise_still(&w->state, now);
    double soon = sn_supervise_asks_after(&w->state, seen);
    follow_recorders(w, now, soon);
    seen->motion = p->motion + w->recorders_moved * 1000003u;
    if (still > w->want->limits.hang_timeout / 2.0)
        seen->is_saving = sn_rundir_is_saving(w->want->rundir);
    if (still > soon && seen->motion == w->state.motion && w->want->has_lost_node)
        seen->lost_node = w->want->has_lost_node(w->want->self, &w->vigil);
}

static void look(struct watch *w, unsigned asked)
{
    struct sn_seen seen;
    unsigned before = w->state.asked;
    if (w->want->meanwhile)
        w->want->meanwhile(w->want->self, &w->state.limits.deadline);
    see(w, &seen, asked);
    look_for_trigger(w);
    if (seen.step < w->lowest)
        w->lowest = seen.step;
    if (w->end->start_seconds == 0 && seen.step > w->lowest)
        journal_running(w, seen.step);
    if (w->end->start_seconds > 0)
        score(w, seen.step, seen.step_seconds);
    for (enum sn_duty duty; (duty = sn_supervise_look(&w->state, &seen)) != SN_DUTY_NONE;) {
        fulfil(w, duty);
        seen.asked = 0;
    }
    journal_notice(w, w->state.asked & ~before);
}

static void follow(struct watch *w)
{
    const struct sn_platform *platform = w->want->platform;
    bool ended = false;
    while (!ended) {
        unsigned asked = sn_platform_wait(platform, w->next_look - now_of(w));
        ended = platform->launcher->ended(platform->self, &w->end->exit_code);
        pass_on_words(w);
        if (ended && !asked)
            break;
        if (!asked && now_of(w) < w->next_look)
            continue;
        look(w, asked);
        w->next_look = now_of(w) + (w->end->start_seconds > 0 ? 1.0 : 0.1);
    }
}

static void begin(struct watch *w)
{
    struct sn_seen first;
    char path[SN_PATH_MAX + 64];
    sn_rundir_path(path, sizeof(path), w->want->rundir, w->want->attempt, "launcher.err");
    w->log = sn_output_open(path, O_WRONLY | O_TRUNC, 0666);
    if (w->log < 0)
        sn_log(SN_LOG_WARN, "%s: cannot be written: %s", path, sn_output_why(errno));
    w->began_wall = (int64_t)sn_platform_date(w->want->platform);
    w->began = now_of(w);
    w->state.moved = w->began;
    see(w, &first, 0);
    w->lowest = first.step;
    sn_supervise_begin(&w->state, &w->want->limits, &first);
}

enum sn_status sn_watch_run(struct sn_watch_end *out, const struct sn_watch_want *want,
                            struct sn_err *err)
{
    enum { MANY = 200 }; /* records that are read in a second without being felt */
    double hang = want->limits.hang_timeout / 10.0, many = want->ranks / (double)MANY;
    const struct sn_platform *platform = want->platform;
    struct watch w = {.want = want, .end = out};
    *out = (struct sn_watch_end){.culprit.rank = -1};
    SN_TRY(sn_vigil_init(&w.vigil, want->ranks, err));
    w.recorders_every = hang < 0.5 ? 0.5 : hang > 5 ? 5 : hang;
    w.recorders_every = w.recorders_every < many ? many : w.recorders_every;
    begin(&w);
    const struct sn_child_want child = {.argv = want->command->word,
                                        .environment = want->environment->word,
                                        .orphaned = want->ways->save,
                                        .joined = want->ways->says_on_stdout};
    enum sn_status st = platform->launcher->start(platform->self, &child, err);
    if (st == SN_OK) {
        follow(&w);
        platform->launcher->close(platform->self);
        sn_rundir_progress(&out->progress, want->rundir);
        out->asked = w.state.asked;
        out->seconds = now_of(&w) - w.began;
        if (out->start_seconds == 0 && out->progress.step > w.lowest)
            journal_running(&w, out->progress.step); /* so fast that no look was between */
        if (out->exit_code != 0 && out->culprit.kind == SN_SUSPECT_NONE && w.vigil.first > 0 &&
            !want->ways->ends_at_once)
            name_culprit(&w, true); /* by what was seen before the ranks gave up */
    }
    sn_vigil_fini(&w.vigil);
    if (w.log >= 0)
        (void)close(w.log);
    return st;
}
