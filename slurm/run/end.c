#include "slurm/run/supervisor.h"

#include "lib/base/exit_code.h"
#include "lib/base/log.h"
#include "slurm/supervisor/vigil.h"

#include <stdio.h>
#include <string.h>

/* What is known of the end, gathered. */
struct findings {
    struct sn_rundir_record record;
    struct sn_culprit culprit;
    struct sn_journal_end end;
    const char *lost; /* node of the attempt that is dead or does not answer; NULL: none */
    char says[768];
};

/* ---- who ------------------------------------------------------------------------------------- */

/* Its record says where a rank was, the map where it was meant to be. */
static void find_host(struct sn_culprit *c, const struct sn_supervisor *x)
{
    char folder[SN_PATH_MAX + 16];
    struct sn_flight_view v;
    (void)snprintf(folder, sizeof(folder), "%s/ranks", x->rundir.output);
    if (c->rank >= 0 && x->platform->files->record(x->platform->self, &v, folder, c->rank, 0))
        (void)snprintf(c->host, sizeof(c->host), "%s", v.host);
    else if (c->rank >= 0)
        sn_rundir_host_of(c->host, sizeof(c->host), &x->rundir, c->rank);
}

/* srun and mpirun name a process of theirs. */
static bool find_by_words(struct sn_culprit *c, const struct sn_supervisor *x,
                          const struct sn_supervisor_attempt *s)
{
    if (!sn_culprit_from_words(c, s->end.words.text))
        return false;
    if (c->rank < 0)
        return true;
    int node = c->rank / x->shape.ranks_per_node; /* block distribution */
    if (!c->host[0] && node < s->names.n)
        (void)snprintf(c->host, sizeof(c->host), "%s", s->names.word[node]);
    c->rank = sn_rundir_rank_of(&x->rundir, c->rank);
    return true;
}

/* What the records do not say of a rank that stood still, the trainer's sentence may. */
static void add_operation(struct sn_culprit *c, const struct findings *f,
                          const struct sn_supervisor_attempt *s)
{
    struct sn_culprit reported;
    bool same = (sn_culprit_from_sentence(&reported, f->record.says) ||
                 sn_culprit_from_sentence(&reported, s->end.words.text)) &&
                reported.rank == c->rank;
    if (!same)
        return;
    c->seconds = c->seconds > 0 ? c->seconds : reported.seconds;
    if (c->operation[0])
        return;
    memcpy(c->axis, reported.axis, sizeof(c->axis));
    memcpy(c->operation, reported.operation, sizeof(c->operation));
    c->behind = reported.behind;
}

/* A record that stood still while others moved goes before what a rank could see; its sentence
 * before the launcher's words, which name whoever was ended first. */
static void find_culprit(struct findings *f, const struct sn_supervisor *x,
                         const struct sn_supervisor_attempt *s)
{
    struct sn_culprit *c = &f->culprit;
    *c = (struct sn_culprit){.rank = -1};
    if (s->end.culprit.is_still) {
        *c = s->end.culprit;
        add_operation(c, f, s);
    } else if (sn_culprit_from_sentence(c, f->record.says) ||
               sn_culprit_from_sentence(c, s->end.words.text)) {
        if (c->rank < 0 && s->end.culprit.rank >= 0)
            *c = s->end.culprit;
        else
            find_host(c, x);
    } else if (f->record.has_ended && f->record.exit_code != SN_EXIT_LOST &&
               sn_culprit_from_failure(c, f->record.says)) {
        return; /* who lost a peer is not to blame for it */
    } else if (s->end.culprit.rank >= 0) {
        *c = s->end.culprit;
    } else {
        (void)find_by_words(c, x, s);
    }
}

/* ---- why ------------------------------------------------------------------------------------- */

static bool is_finished(const struct findings *f, const struct sn_supervisor *x, int code,
                        const struct sn_supervisor_attempt *s)
{
    return code == 0 && ((f->record.has_ended && f->record.exit_code == 0) ||
                         s->end.progress.step >= x->config->train.steps);
}

/* The trainer's exit code is passed on by the launcher, but not by every launcher in every case:
 * where it is none of the trainer's, or may be made of several, the record's counts. */
static int exit_code_of(const struct findings *f, const struct sn_supervisor *x,
                        const struct sn_supervisor_attempt *s)
{
    static const int known[] = {SN_EXIT_DONE, SN_EXIT_INPUT,    SN_EXIT_SAVED, SN_EXIT_TERMINATED,
                                SN_EXIT_LOST, SN_EXIT_DIVERGED, SN_EXIT_STOP};
    bool is_mixed = sn_launcher_ways(x->shape.launcher)->mixes_codes;
    int code = s->end.exit_code;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !(is_mixed && code); i++)
        if (code == known[i])
            return code;
    if (f->record.has_ended)
        return f->record.exit_code;
    int signal = is_mixed ? sn_culprit_signal(s->end.words.text) : 0;
    return signal ? 128 + signal : code;
}

/* Did the end leave nothing to be asked of the nodes? */
static bool was_orderly(const struct findings *f, const struct sn_supervisor *x, int code,
                        const struct sn_supervisor_attempt *s)
{
    return is_finished(f, x, code, s) || code == SN_EXIT_DONE || code == SN_EXIT_INPUT ||
           code == SN_EXIT_SAVED || code == SN_EXIT_TERMINATED || code == SN_EXIT_DIVERGED ||
           code == SN_EXIT_STOP;
}

/* The node that is why, if one is: the launcher knows it before the controller does, and the node
 * itself before both. */
static void find_lost_node(struct findings *f, struct sn_supervisor *x,
                           const struct sn_supervisor_attempt *s, int code)
{
    struct sn_culprit reported;
    if (x->allocation.host.n == 0 || was_orderly(f, x, code, s))
        return;
    if (sn_culprit_from_words(&reported, s->end.words.text) && reported.host_died)
        sn_supervisor_node_died(x, reported.host);
    sn_supervisor_look_at_nodes(x, true);
    f->lost = sn_supervisor_lost_node(x, &s->names);
}

static enum sn_cause find_cause(const struct findings *f, const struct sn_supervisor *x,
                                const struct sn_supervisor_attempt *s, int code)
{
    unsigned asked = s->end.asked;
    struct sn_end end = {.exit_code = code,
                         .fate = x->fate,
                         .save = sn_launcher_ways(x->shape.launcher)->save,
                         .got_int = asked & (SN_ASKED_INT | SN_ASKED_INT_AGAIN),
                         .got_term = asked & SN_ASKED_TERM,
                         .was_asked = asked != 0,
                         .has_hung = s->end.has_hung,
                         .has_culprit = f->culprit.kind == SN_SUSPECT_HANG,
                         .lost_node = f->lost != NULL,
                         .finished = is_finished(f, x, code, s),
                         .words = s->end.words.text,
                         .says = f->record.has_ended ? f->record.says : NULL};
    return sn_classify(&end);
}

/* ---- what it says about nodes ---------------------------------------------------------------- */

enum sn_status sn_supervisor_blame(struct sn_supervisor *x, const char *host,
                                   enum sn_ledger_grade grade, const char *why, struct sn_err *err)
{
    struct sn_str line;
    int64_t now = sn_supervisor_date(x);
    bool doubtful = grade == SN_NODE_DOUBTFUL;
    struct sn_ledger_entry e = {
        .grade = grade,
        .until = now + (doubtful ? SN_LEDGER_DOUBTFUL_SECONDS : SN_LEDGER_BAD_SECONDS)};
    (void)snprintf(e.host, sizeof(e.host), "%s", host);
    (void)snprintf(e.why, sizeof(e.why), "%s", why);
    SN_TRY(sn_ledger_add(&x->ledger, x->shape.ledger, &e, x->allocation.job, now, err));
    sn_journal_line(&x->journal, &line, "bad-node");
    sn_jsonl_text(&line, "host", host);
    sn_jsonl_text(&line, "why", why);
    sn_jsonl_int(&line, "until", e.until);
    sn_log(SN_LOG_WARN, "%s: %s; it is %s", host, why,
           doubtful ? "used only when there is no other" : "not used any more");
    return sn_journal_write(&x->journal, &line, err);
}

/* What the end says about node i. A rank that died says little, unless it is the same node twice in
 * a row. */
static enum sn_ledger_grade grade_of(const struct sn_supervisor *x, const struct findings *f,
                                     const char *name)
{
    enum sn_cause cause = f->end.cause;
    if (sn_supervisor_is_lost(x, name))
        return SN_NODE_DIED;
    if (!sn_host_is(name, f->culprit.host))
        return SN_NODE_GOOD;
    bool again = cause == SN_CAUSE_PEER && strcmp(name, x->last_host) == 0;
    return cause == SN_CAUSE_HANG || again ? SN_NODE_DOUBTFUL : SN_NODE_GOOD;
}

static enum sn_status blame_nodes(struct sn_supervisor *x, const struct findings *f,
                                  struct sn_err *err)
{
    const struct sn_hostlist *host = &x->allocation.host;
    for (int i = 0; i < host->n; i++) {
        const char *name = sn_hostlist_name(host, i);
        const struct sn_ledger_entry *known = sn_ledger_find(&x->ledger, name);
        enum sn_ledger_grade grade = grade_of(x, f, name);
        bool is_lost = grade == SN_NODE_DIED;
        if (grade > (known ? known->grade : SN_NODE_GOOD))
            SN_TRY(sn_supervisor_blame(x, name, grade,
                                       sn_cause_text(is_lost ? SN_CAUSE_NODE : f->end.cause), err));
    }
    (void)snprintf(x->last_host, sizeof(x->last_host), "%s",
                   f->end.cause == SN_CAUSE_PEER ? f->culprit.host : "");
    return SN_OK;
}

/* ---- the record ------------------------------------------------------------------------------ */

/* The line of the launcher's that says most. "Unable" is why no step began at all. */
static const char *telling_line(const char *text)
{
    static const char *const mark[] = {"Unable to create step",  "DUE TO",        "Node failure on",
                                       " failed on node ",       "oom",           "process rank ",
                                       "Process name:",          "srun: error: ", "slurmstepd: ",
                                       "WITH THE EXIT STRING: ", "error"};
    for (size_t i = 0; i < sizeof(mark) / sizeof(mark[0]); i++) {
        const char *p = strstr(text, mark[i]);
        while (p && p > text && p[-1] != '\n')
            p--;
        if (p)
            return p;
    }
    return sn_tail_last_line(text);
}

static void find_words(struct findings *f, const struct sn_supervisor_attempt *s)
{
    const char *last = telling_line(s->end.words.text);
    char who[300];
    if (f->end.cause == SN_CAUSE_NODE && f->lost) {
        (void)snprintf(f->says, sizeof(f->says), "%s is dead or does not answer", f->lost);
    } else if (f->record.has_ended) {
        (void)snprintf(f->says, sizeof(f->says), "%s", f->record.says);
    } else if (f->end.cause == SN_CAUSE_HANG) { /* the rank that keeps the record could not */
        sn_culprit_say(who, sizeof(who), &f->culprit);
        (void)snprintf(f->says, sizeof(f->says), "nothing moved any more: %s", who);
    } else if (last) {
        (void)snprintf(f->says, sizeof(f->says), "%.*s", (int)strcspn(last, "\n"), last);
    }
}

/* Did one rank or node bring it about? A launcher names one for every end that is not 0. */
static bool is_somebodys(enum sn_cause c)
{
    return c == SN_CAUSE_NODE || c == SN_CAUSE_PEER || c == SN_CAUSE_HANG || c == SN_CAUSE_MEMORY ||
           c == SN_CAUSE_UNKNOWN;
}

static void settle_culprit(struct findings *f)
{
    enum sn_cause cause = f->end.cause;
    if (!is_somebodys(cause))
        f->culprit = (struct sn_culprit){.rank = -1};
    if (cause != SN_CAUSE_NODE || !f->lost)
        return;
    f->culprit = (struct sn_culprit){.kind = SN_SUSPECT_SILENT, .rank = -1};
    (void)snprintf(f->culprit.host, sizeof(f->culprit.host), "%s", f->lost);
}

static enum sn_status record_end(struct findings *f, struct sn_supervisor *x,
                                 struct sn_supervisor_attempt *s, struct sn_err *err)
{
    sn_rundir_record(&f->record, &x->rundir, s->number);
    int code = exit_code_of(f, x, s);
    find_culprit(f, x, s);
    find_lost_node(f, x, s, code);
    f->end = (struct sn_journal_end){.attempt = s->number,
                                     .exit_code = code,
                                     .cause = find_cause(f, x, s, code),
                                     .seconds = s->end.seconds,
                                     .step = s->end.progress.step,
                                     .saved_step = sn_rundir_saved_step(&x->rundir),
                                     .snapshot_step = s->end.progress.snapshot_step};
    settle_culprit(f);
    find_words(f, s);
    if (f->end.cause == SN_CAUSE_HANG && !s->end.has_hung)
        SN_TRY(sn_journal_suspect(&x->journal, s->number, &f->culprit, err));
    f->end.rank = f->culprit.rank;
    f->end.host = f->culprit.host;
    f->end.says = f->says;
    sn_log(SN_LOG_INFO, "attempt %d ended after %.1f s, exit code %d: %s", s->number,
           s->end.seconds, code, sn_cause_text(f->end.cause));
    SN_TRY(sn_journal_end(&x->journal, &f->end, err));
    x->has_lost_node = f->lost != NULL;
    return blame_nodes(x, f, err);
}

/* Nothing was started: that is an end, too, so that the bounds count it. */
static enum sn_status record_few(struct findings *f, struct sn_supervisor *x,
                                 const struct sn_supervisor_attempt *s, struct sn_err *err)
{
    (void)snprintf(f->says, sizeof(f->says), "%d of %d nodes are good, the layout wants %d%s",
                   sn_supervisor_good_nodes(x), x->allocation.host.n, x->shape.nodes,
                   x->config->slurm.shrink ? ", and none fits on fewer" : "");
    f->end = (struct sn_journal_end){.attempt = s->number,
                                     .exit_code = 1,
                                     .cause = SN_CAUSE_NODE,
                                     .step = -1,
                                     .saved_step = s->from_step,
                                     .snapshot_step = -1,
                                     .rank = -1,
                                     .host = "",
                                     .says = f->says};
    sn_log(SN_LOG_WARN, "attempt %d: %s", s->number, f->says);
    return sn_journal_end(&x->journal, &f->end, err);
}

enum sn_status sn_supervisor_record(enum sn_cause *out, struct sn_supervisor *x,
                                    struct sn_supervisor_attempt *s, struct sn_err *err)
{
    struct findings f = {0};
    SN_TRY(s->few ? record_few(&f, x, s, err) : record_end(&f, x, s, err));
    *out = f.end.cause;
    return SN_OK;
}
