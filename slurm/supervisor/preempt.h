/*
 * preempt.h - can a job save before it is ended? What Slurm does at a time limit and at a
 * preemption, read from scontrol or else from the site's profile, against the time that a save
 * takes.
 *
 * Slurm asks the tasks by --signal, ends a job at its time limit with SIGTERM and KillWait seconds
 * later with SIGKILL, and a preempted one after GraceTime (man slurm.conf).
 */
#ifndef SN_PREEMPT_H
#define SN_PREEMPT_H

#include "slurm/scheduler/command.h"
#include "slurm/site/batch.h"

struct sn_preemption {
    bool is_asked;            /* scontrol answered; else only the profile speaks */
    char why[SN_COMMAND_WHY]; /* why it did not */
    enum sn_preempt_mode mode;
    int grace;        /* seconds of warning; -1: unknown */
    int exempt;       /* seconds that a job has for certain; -1: unknown */
    int kill_wait;    /* seconds between SIGTERM and SIGKILL; -1: unknown */
    bool no_requeue;  /* JobRequeue=0: jobs are put back only if they ask for it */
    bool user_signal; /* preempted jobs get --signal's instead of SIGTERM */
};

void sn_preemption_init(struct sn_preemption *out); /* everything unknown */
/* What `scontrol show config` and `scontrol show partition -o NAME` say, of 22.05 to 26.05; what
 * they do not say stays as it is. The partition goes before the cluster. */
void sn_preemption_read_config(struct sn_preemption *out, const char *text);
void sn_preemption_read_partition(struct sn_preemption *out, const char *text);
/* Ask scontrol for both, once; "" is the default partition. Absent or silent: is_asked stays false.
 * SN_ENOMEM and SN_EIO alone. */
enum sn_status sn_preemption_ask(struct sn_preemption *out, const char *partition,
                                 struct sn_err *err);
/* Where nobody else has said: the profile. Its qos goes before anything, since scontrol shows none
 * of a qos' own rules. */
void sn_preemption_of_site(struct sn_preemption *out, const struct sn_batch *b);
/* All of it in one line, without an end of line. */
void sn_preemption_text(struct sn_str *out, const struct sn_preemption *p);

/* Seconds. */
struct sn_save_time {
    double step, save; /* 0: not known */
    double typical;    /* a step: planned, or the mean of those of which `step` is the longest */
    bool is_measured;  /* by this run, before; else planned */
    bool is_assumed;   /* planned with a storage rate that nobody said */
    double every;      /* between two checkpoints; 0: none, or not known */
};
/* Of OUTPUT/metrics.jsonl and OUTPUT/checkpoints.jsonl: the longest of the last 20 lines of each,
 * since a save that comes a little late is lost. False if there was nothing to read. */
bool sn_save_time_read(struct sn_save_time *out, const char *output);
/* Whole seconds before the limit at which a job has to be told: sn_save_margin, bounded by half of
 * `limit` where that is not 0, and by what --signal takes. */
int sn_save_notice(const struct sn_save_time *t, int64_t limit);

/* One line each, "; " and advice at its end, of what would lose work: preemption that gives no
 * time, a requeue that does nothing, a signal too late. Nothing where all is well. */
void sn_preemption_warn(struct sn_str *out, const struct sn_preemption *p, const struct sn_batch *b,
                        const struct sn_save_time *t);

#endif
