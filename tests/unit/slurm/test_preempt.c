/*
 * test_preempt.c - what scontrol says of preemption, how long a save takes, and what is warned of.
 */
#include "slurm/supervisor/preempt.h"
#include "slurm/supervisor/supervise.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char config[] = "Configuration data as of 2026-11-21T23:00:00\n"
                             "AccountingStorageBackupHost = (null)\n"
                             "JobRequeue              = 1\n"
                             "KillWait                = 30 sec\n"
                             "PreemptMode             = REQUEUE\n"
                             "PreemptType             = preempt/partition_prio\n"
                             "PreemptExemptTime       = 00:02:00\n"
                             "SlurmctldParameters     = (null)\n";
static const char partition[] =
    "PartitionName=low AllowGroups=ALL Default=YES DefaultTime=NONE GraceTime=10 Hidden=NO "
    "MaxNodes=UNLIMITED MaxTime=UNLIMITED OverTimeLimit=NONE PreemptMode=CANCEL State=UP\n";

static void scontrol_is_read(void)
{
    struct sn_preemption p;
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, config);
    tap_ok(p.mode == SN_PREEMPT_REQUEUE && p.kill_wait == 30 && p.exempt == 120 && p.grace == -1 &&
               !p.no_requeue && !p.user_signal,
           "the cluster");
    sn_preemption_read_partition(&p, partition);
    tap_ok(p.mode == SN_PREEMPT_CANCEL && p.grace == 10, "the partition goes before it");
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, "PreemptMode = GANG,SUSPEND\nPreemptType = preempt/qos\n"
                                  "KillWait=7\nJobRequeue=0\nPreemptExemptTime = 1-01:00:00\n"
                                  "SlurmctldParameters = a,preempt_send_user_signal\n");
    tap_ok(p.mode == SN_PREEMPT_SUSPEND && p.kill_wait == 7 && p.no_requeue && p.user_signal &&
               p.exempt == 90000,
           "another one");
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, "PreemptMode = REQUEUE\nPreemptType = preempt/none\n");
    sn_preemption_read_partition(&p, partition);
    tap_ok(p.mode == SN_PREEMPT_OFF, "no plugin, no preemption, whatever a partition says");
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, "");
    sn_preemption_read_partition(&p, "XPreemptMode=CANCEL GraceTime=many KillWait\n");
    tap_ok(p.mode == SN_PREEMPT_UNKNOWN && p.grace == -1 && p.kill_wait == -1,
           "what is not said stays unknown");
}

static void the_profile_fills_in(void)
{
    struct sn_preemption p;
    struct sn_site_queue part = {.preempt = SN_PREEMPT_REQUEUE, .grace = 20, .exempt = 60},
                         qos = {.preempt = SN_PREEMPT_CANCEL, .grace = 40};
    struct sn_batch b = {.partition = &part};
    sn_preemption_init(&p);
    sn_preemption_of_site(&p, &b);
    tap_ok(p.mode == SN_PREEMPT_REQUEUE && p.grace == 20 && p.exempt == 60, "of the partition");
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, config);
    sn_preemption_of_site(&p, &b);
    tap_ok(p.mode == SN_PREEMPT_REQUEUE && p.grace == -1 && p.exempt == 120,
           "not where scontrol has spoken");
    b.qos = &qos;
    sn_preemption_of_site(&p, &b);
    tap_ok(p.mode == SN_PREEMPT_CANCEL && p.grace == 40,
           "but of the qos, of which it says nothing");
}

static void in_words(void)
{
    struct sn_preemption p;
    struct sn_str out = {0};
    sn_preemption_init(&p);
    sn_preemption_read_config(&p, config);
    sn_preemption_read_partition(&p, partition);
    p.is_asked = true;
    sn_preemption_text(&out, &p);
    (void)tap_text(
        out.p,
        "preemption: cancel, 10 s of grace, not in the first 120 s, 30 s between SIGTERM "
        "and SIGKILL",
        "known");
    sn_str_fini(&out);
    sn_preemption_init(&p);
    (void)snprintf(p.why, sizeof(p.why), "scontrol is not on PATH");
    sn_preemption_text(&out, &p);
    (void)tap_text(out.p, "preemption: unknown (by the profile alone: scontrol is not on PATH)",
                   "unknown");
    sn_str_fini(&out);
}

/* --- times ------------------------------------------------------------------------------------ */

static void put(const char *dir, const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static void a_run_tells_what_a_save_takes(void)
{
    char dir[] = "/tmp/sennit-preempt-XXXXXX", path[128];
    struct sn_save_time t = {0};
    tap_ok(mkdtemp(dir) != NULL && !sn_save_time_read(&t, dir), "nothing was measured yet");
    put(dir, "metrics.jsonl",
        "{\"step\": 1, \"step_time_s\": 2.5}\n{\"step\": 2, \"val_loss\": 1}\n"
        "{\"step\": 2, \"step_time_s\": 1.5}\n{\"step\": 3, \"step_t");
    tap_ok(!sn_save_time_read(&t, dir), "steps alone are not enough");
    put(dir, "checkpoints.jsonl",
        "{\"step\": 1, \"bytes\": 9, \"layout_s\": 1, \"copy_s\": 2, \"stall_s\": 7, \"write_s\": "
        "3, "
        "\"commit_s\": 4}\n{\"step\": 2, \"layout_s\": 1, \"copy_s\": 1, \"write_s\": 1}\n");
    tap_ok(sn_save_time_read(&t, dir) && t.step == 2.5 && t.typical == 2 && t.save == 10 &&
               t.is_measured,
           "the longest of both, and what a step takes: %g, %g", t.step, t.save);
    static const char *const names[] = {"metrics.jsonl", "checkpoints.jsonl"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
}

static void notice_is_two_of_each_and_a_minute(void)
{
    struct sn_save_time t = {.step = 5, .save = 30};
    tap_ok(sn_save_notice(&t, 0) == 130 && sn_save_notice(&t, 3600) == 130, "of a long job");
    tap_ok(sn_save_notice(&t, 100) == 50, "half of a short one");
    tap_ok(sn_save_notice(&t, 1) == 1, "never 0");
    tap_ok(sn_save_margin(5, 30, 1e6) == 130 && sn_save_margin(5, 30, 100) == 100,
           "of which the supervisor's is another part");
    t.save = 1e9;
    tap_ok(sn_save_notice(&t, 0) == 65535, "as much as Slurm takes");
}

/* --- warnings --------------------------------------------------------------------------------- */

struct case_ {
    struct sn_config c;
    struct sn_site s;
    struct sn_batch b;
    struct sn_preemption p;
    struct sn_save_time t;
};

static void usual(struct case_ *x)
{
    memset(x, 0, sizeof(*x));
    (void)snprintf(x->s.name, sizeof(x->s.name), "here");
    x->c.slurm.chain = 1;
    x->b = (struct sn_batch){.config = &x->c, .site = &x->s, .requeue = true, .signal_before = 200};
    sn_preemption_init(&x->p);
    x->p.mode = SN_PREEMPT_REQUEUE;
    x->p.grace = 120;
    x->p.kill_wait = 30;
    x->t = (struct sn_save_time){.step = 5, .save = 60, .is_measured = true};
}

static void check(const struct case_ *x, const char *want)
{
    struct sn_str out = {0};
    sn_preemption_warn(&out, &x->p, &x->b, &x->t);
    (void)tap_text(out.p ? out.p : "", want, *want ? "is warned of" : "all is well");
    sn_str_fini(&out);
}

static void what_loses_work_is_warned_of(void)
{
    static struct case_ x;
    usual(&x);
    check(&x, "");
    x.p.mode = SN_PREEMPT_CANCEL;
    check(&x, "PreemptMode is CANCEL: a preempted job is not put back, whatever --requeue says; "
              "submit with --chain, so that another job goes on\n");
    x.c.slurm.chain = 2;
    check(&x, "");
    usual(&x);
    x.p.grace = 0;
    check(&x,
          "GraceTime is 0: a preempted job has 30 s (KillWait), a step and a save take 65 s (as "
          "this run measured): what was learnt since the last checkpoint is lost then; lower "
          "checkpoint.every\n");
    x.t.save = 20;
    check(&x, "");
    usual(&x);
    x.p.grace = 10;
    x.t.is_measured = false;
    check(&x, "GraceTime is 10 s, a step and a save take 65 s (planned): what was learnt since the "
              "last checkpoint is lost at a preemption; lower checkpoint.every\n");
    x.p.mode = SN_PREEMPT_OFF;
    check(&x, "");
    usual(&x);
    x.b.requeue = false;
    check(&x, "here puts no job back into the queue: at the time limit or a preemption the run "
              "stands still; submit with --chain\n");
    usual(&x);
    x.c.slurm.signal_before = x.b.signal_before = 30;
    x.t.is_measured = false;
    x.t.is_assumed = true;
    check(&x,
          "slurm.signal_before is 30 s, a step and a save take 65 s (planned, storage assumed): "
          "too late to save; want 190\n");
    usual(&x);
    x.c.slurm.seconds = 100;
    (void)snprintf(x.c.slurm.time, sizeof(x.c.slurm.time), "1:40");
    x.b.signal_before = 50;
    check(&x, "slurm.time is 1:40, a step and a save take 65 s (as this run measured): most of it "
              "would be spent on saving; want a longer time\n");
    usual(&x);
    x.p.exempt = 600;
    x.t.every = 700;
    check(&x, "a job is safe for 600 s, the first checkpoint comes after 700 s (as this run "
              "measured); lower checkpoint.every\n");
    usual(&x);
    x.p.mode = SN_PREEMPT_SUSPEND;
    check(&x,
          "PreemptMode is SUSPEND: a preempted job stands still and keeps its memory; it is not "
          "taken for a hang\n");
}

int main(void)
{
    scontrol_is_read();
    the_profile_fills_in();
    in_words();
    a_run_tells_what_a_save_takes();
    notice_is_two_of_each_and_a_minute();
    what_loses_work_is_warned_of();
    return tap_done();
}
