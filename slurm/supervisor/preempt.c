#include "slurm/supervisor/preempt.h"

#include "lib/base/jsonl.h"
#include "lib/base/mem.h"
#include "slurm/scheduler/ask.h"
#include "slurm/scheduler/command.h"
#include "slurm/supervisor/supervise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE = 128, ASK_SECONDS = 10, NEWEST = 20, MOST_NOTICE = 65535 /* of --signal */ };

void sn_preemption_init(struct sn_preemption *out)
{
    *out = (struct sn_preemption){.grace = -1, .exempt = -1, .kill_wait = -1};
}

/* --- scontrol's texts ------------------------------------------------------------------------- */

/* "30", or "D-HH:MM:SS" with or without days, as versions print it. */
static bool find_seconds(const char *text, const char *name, int *seconds)
{
    enum { MOST = 1 << 24 };
    char value[VALUE], *end;
    long sum = 0;
    bool days = false;
    if (!sn_slurm_value(value, VALUE, text, name))
        return false;
    for (const char *at = value;; at = end + 1) {
        long part = strtol(at, &end, 10);
        if (end == at || part < 0 || part > MOST || sum > MOST)
            return false;
        sum = days ? sum * 24 + part : sum * 60 + part;
        days = *end == '-';
        if (!days && *end != ':')
            break;
    }
    *seconds = (int)(sum < MOST ? sum : MOST);
    return true;
}

static enum sn_preempt_mode mode_of(const char *value)
{
    static const struct {
        const char *word;
        enum sn_preempt_mode mode;
    } row[] = {{"SUSPEND", SN_PREEMPT_SUSPEND},
               {"REQUEUE", SN_PREEMPT_REQUEUE},
               {"CANCEL", SN_PREEMPT_CANCEL},
               {"OFF", SN_PREEMPT_OFF}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        if (strstr(value, row[i].word)) /* "GANG,SUSPEND" too */
            return row[i].mode;
    return SN_PREEMPT_UNKNOWN;
}

void sn_preemption_read_config(struct sn_preemption *out, const char *text)
{
    char value[VALUE];
    if (sn_slurm_value(value, VALUE, text, "PreemptMode") && mode_of(value))
        out->mode = mode_of(value);
    if (sn_slurm_value(value, VALUE, text, "PreemptType") && strstr(value, "none"))
        out->mode = SN_PREEMPT_OFF;
    if (sn_slurm_value(value, VALUE, text, "JobRequeue"))
        out->no_requeue = strcmp(value, "0") == 0;
    (void)find_seconds(text, "KillWait", &out->kill_wait);
    (void)find_seconds(text, "PreemptExemptTime", &out->exempt);
    out->user_signal |= (sn_slurm_value(value, VALUE, text, "SlurmctldParameters") &&
                         strstr(value, "preempt_send_user_signal")) ||
                        (sn_slurm_value(value, VALUE, text, "PreemptParameters") &&
                         strstr(value, "send_user_signal"));
}

void sn_preemption_read_partition(struct sn_preemption *out, const char *text)
{
    char value[VALUE];
    if (out->mode != SN_PREEMPT_OFF && sn_slurm_value(value, VALUE, text, "PreemptMode") &&
        mode_of(value))
        out->mode = mode_of(value);
    (void)find_seconds(text, "GraceTime", &out->grace);
}

/* The line of the default partition among all. */
static const char *default_line(const char *text)
{
    const char *at = strstr(text, " Default=YES");
    while (at && at > text && at[-1] != '\n')
        at--;
    return at ? at : "";
}

static enum sn_status ask_partition(struct sn_preemption *out, const char *partition,
                                    struct sn_err *err)
{
    const char *argv[] = {"scontrol", "-o", "show", "partition", partition[0] ? partition : NULL,
                          NULL};
    struct sn_str text;
    enum sn_status st = sn_command_ask(&text, out->why, argv, ASK_SECONDS, err);
    if (st == SN_OK && text.p) {
        char *line = sn_format("%s", partition[0] ? text.p : default_line(text.p));
        if (line) {
            line[strcspn(line, "\n")] = '\0';
            sn_preemption_read_partition(out, line);
        } else {
            st = sn_fail(err, SN_ENOMEM, "scontrol: no memory for what it printed");
        }
        sn_free(line);
    }
    sn_str_fini(&text);
    return st;
}

enum sn_status sn_preemption_ask(struct sn_preemption *out, const char *partition,
                                 struct sn_err *err)
{
    static const char *const argv[] = {"scontrol", "show", "config", NULL};
    struct sn_str text;
    enum sn_status st = sn_command_ask(&text, out->why, argv, ASK_SECONDS, err);
    if (st == SN_OK && text.p) {
        out->is_asked = true;
        sn_preemption_read_config(out, text.p);
        st = ask_partition(out, partition, err);
    }
    sn_str_fini(&text);
    return st;
}

void sn_preemption_of_site(struct sn_preemption *out, const struct sn_batch *b)
{
    if (b->qos && b->qos->preempt != SN_PREEMPT_UNKNOWN) {
        out->mode = b->qos->preempt;
        out->grace = b->qos->grace ? b->qos->grace : out->grace;
        out->exempt = b->qos->exempt ? b->qos->exempt : out->exempt;
    }
    if (!b->partition || b->partition->preempt == SN_PREEMPT_UNKNOWN ||
        out->mode != SN_PREEMPT_UNKNOWN)
        return;
    out->mode = b->partition->preempt;
    out->grace = out->grace < 0 && b->partition->grace ? b->partition->grace : out->grace;
    out->exempt = out->exempt < 0 && b->partition->exempt ? b->partition->exempt : out->exempt;
}

/* --- how long a save takes -------------------------------------------------------------------- */

struct spread {
    double most, mean;
    int n; /* lines that have any */
};

/* Of the newest sums of some members. */
static struct spread newest_of(const char *output, const char *name, const char *const *members)
{
    struct spread s = {0};
    struct sn_jsonl f = {0};
    struct sn_json object;
    struct sn_err err;
    double newest[NEWEST] = {0};
    char *path = sn_format("%s/%s", output, name);
    if (!path || sn_jsonl_open(&f, path, &err) != SN_OK) {
        sn_free(path); /* what cannot be read says nothing: the plan does then */
        return s;
    }
    while (sn_jsonl_next(&f, &object)) {
        double sum = 0;
        for (const char *const *m = members; *m; m++)
            sum += sn_json_get_number(object, *m, 0);
        if (sum > 0)
            newest[s.n++ % NEWEST] = sum;
    }
    for (int i = 0; i < NEWEST && i < s.n; i++) {
        s.most = newest[i] > s.most ? newest[i] : s.most;
        s.mean += newest[i] / (s.n < NEWEST ? s.n : NEWEST);
    }
    sn_jsonl_close(&f);
    sn_free(path);
    return s;
}

bool sn_save_time_read(struct sn_save_time *out, const char *output)
{
    static const char *const step[] = {"step_time_s", NULL}, *const save[] = {"layout_s", "copy_s",
                                                                              "write_s", "commit_s",
                                                                              NULL};
    struct spread steps = newest_of(output, "metrics.jsonl", step);
    struct spread saves = newest_of(output, "checkpoints.jsonl", save);
    if (!steps.n || !saves.n)
        return false;
    out->step = steps.most;
    out->typical = steps.mean;
    out->save = saves.most;
    out->is_measured = true;
    out->is_assumed = false;
    return true;
}

int sn_save_notice(const struct sn_save_time *t, int64_t limit)
{
    double most = limit ? (double)limit / 2 : MOST_NOTICE;
    double want = sn_save_margin(t->step, t->save, most < MOST_NOTICE ? most : MOST_NOTICE);
    return want < 1 ? 1 : (int)ceil(want);
}

/* --- warnings --------------------------------------------------------------------------------- */

/* Who speaks: "planned" or "measured". */
static const char *how(const struct sn_save_time *t)
{
    return t->is_measured  ? "as this run measured"
           : t->is_assumed ? "planned, storage assumed"
                           : "planned";
}

static void warn_of_requeue(struct sn_str *out, const struct sn_preemption *p,
                            const struct sn_batch *b)
{
    bool chained = b->config->slurm.chain > 1;
    if (p->mode == SN_PREEMPT_CANCEL && !chained)
        sn_str_add(out,
                   "PreemptMode is CANCEL: a preempted job is not put back, whatever --requeue "
                   "says; submit with --chain, so that another job goes on\n");
    if (!b->requeue && !chained)
        sn_str_add(out,
                   "%s puts no job back into the queue: at the time limit or a preemption the run "
                   "stands still; submit with --chain\n",
                   b->site->name);
}

static void warn_of_grace(struct sn_str *out, const struct sn_preemption *p,
                          const struct sn_save_time *t)
{
    int wait = p->kill_wait >= 0 ? p->kill_wait : 30;
    int left = p->grace > 0 ? p->grace : wait;
    double want = t->step + t->save;
    bool can = p->mode == SN_PREEMPT_CANCEL || p->mode == SN_PREEMPT_REQUEUE;
    if (!can || p->grace < 0 || want <= left)
        return;
    if (p->grace == 0)
        sn_str_add(out,
                   "GraceTime is 0: a preempted job has %d s (KillWait), a step and a save take "
                   "%.0f s (%s): what was learnt since the last checkpoint is lost then; lower "
                   "checkpoint.every%s\n",
                   wait, want, how(t),
                   p->mode == SN_PREEMPT_CANCEL ? ", or take another partition" : "");
    else
        sn_str_add(out,
                   "GraceTime is %d s, a step and a save take %.0f s (%s): what was learnt since "
                   "the last checkpoint is lost at a preemption; lower checkpoint.every\n",
                   p->grace, want, how(t));
}

static void warn_of_limit(struct sn_str *out, const struct sn_preemption *p,
                          const struct sn_batch *b, const struct sn_save_time *t)
{
    const struct sn_slurm_config *l = &b->config->slurm;
    double want = t->step + t->save;
    int notice = b->signal_before;
    if (l->signal_before && want > l->signal_before)
        sn_str_add(out,
                   "slurm.signal_before is %d s, a step and a save take %.0f s (%s): too late to "
                   "save; want %d\n",
                   l->signal_before, want, how(t), sn_save_notice(t, 0));
    else if (l->seconds && want > notice)
        sn_str_add(
            out,
            "slurm.time is %s, a step and a save take %.0f s (%s): most of it would be spent "
            "on saving; want a longer time\n",
            l->time, want, how(t));
    if (p->exempt > 0 && t->every > p->exempt)
        sn_str_add(out,
                   "a job is safe for %d s, the first checkpoint comes after %.0f s (%s); lower "
                   "checkpoint.every\n",
                   p->exempt, t->every, how(t));
}

void sn_preemption_warn(struct sn_str *out, const struct sn_preemption *p, const struct sn_batch *b,
                        const struct sn_save_time *t)
{
    warn_of_requeue(out, p, b);
    warn_of_limit(out, p, b, t);
    if (p->mode == SN_PREEMPT_SUSPEND)
        sn_str_add(out,
                   "PreemptMode is SUSPEND: a preempted job stands still and keeps its memory; "
                   "it is not taken for a hang\n");
    warn_of_grace(out, p, t);
}

void sn_preemption_text(struct sn_str *out, const struct sn_preemption *p)
{
    sn_str_add(out, "preemption: %s", sn_preempt_mode_name(p->mode));
    if (p->grace >= 0)
        sn_str_add(out, ", %d s of grace", p->grace);
    if (p->exempt > 0)
        sn_str_add(out, ", not in the first %d s", p->exempt);
    if (p->kill_wait >= 0)
        sn_str_add(out, ", %d s between SIGTERM and SIGKILL", p->kill_wait);
    if (p->no_requeue)
        sn_str_add(out, ", jobs are put back only if they ask for it");
    if (p->user_signal)
        sn_str_add(out, ", told by --signal's signal");
    if (!p->is_asked)
        sn_str_add(out, " (by the profile alone: %s)", p->why);
}
