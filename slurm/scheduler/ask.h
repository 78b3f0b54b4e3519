/*
 * ask.h - what the supervisor asks Slurm: its job, its nodes, its version; and to requeue.
 * How a job is preempted, slurm/supervisor/preempt.h asks.
 *
 * By scontrol and squeue (slurm/scheduler/command.h), rarely, and never from a rank. Where they do not exist
 * or do not answer, everything is unknown and the supervisor goes on by what it knows itself. The
 * parsers are pure, for texts of any version from 22.05 on.
 */
#ifndef SN_ASK_H
#define SN_ASK_H

#include "lib/base/str.h"
#include "slurm/scheduler/hostlist.h"

#include <stdbool.h>

struct sn_job_facts {
    bool is_known;
    bool is_down;         /* the controller does not answer now, and may do so later */
    char state[32];       /* "RUNNING", "COMPLETING", ... */
    char reason[32];      /* "None", "TimeLimit", ... */
    int64_t restarts;     /* requeues so far: grows when a requeue is decided; -1: unknown */
    bool may_requeue;     /* Requeue=1 */
    bool is_spared;       /* PreemptTime=None: nobody preempts it; false where that is not said */
    int64_t preempt_time; /* when its preemption began, seconds since 1970; 0: it is not */
    int64_t end_time;     /* seconds since 1970; 0: unknown or none */
};
/* One line of `scontrol show job -o`. False if it is none. */
bool sn_job_parse(struct sn_job_facts *out, const char *text);
/* Asks scontrol, and squeue for the end alone where scontrol has no answer. */
void sn_ask_job(struct sn_job_facts *out, const char *job);
/* The same, waiting 4 seconds at most: while something else is watched. */
void sn_ask_job_shortly(struct sn_job_facts *out, const char *job);

/* Does a job of the same name and user wait (a chain by dependency=singleton)? */
bool sn_ask_chained(const char *job, const char *name);

/* The value of NAME in scontrol's texts: words "NAME=value" or lines "NAME = value". False, and "",
 * where it is not there; what does not fit is cut off. */
bool sn_slurm_value(char *out, size_t room, const char *text, const char *name);
/* "2026-11-21T23:10:11" of this host's time zone, or seconds since 1970; 0: neither. */
int64_t sn_slurm_time(const char *text);

/* What the controller thinks of a node. */
enum sn_node_health {
    SN_HEALTH_GOOD,
    SN_HEALTH_LEAVING, /* drained, failing or to be rebooted: what runs there may end there */
    SN_HEALTH_SILENT,  /* does not answer: srun would wait for it */
    SN_HEALTH_DEAD     /* down, or no more of this job */
};

/* The states of the nodes of `host`, by the lines of `scontrol show node -o`; the worst of that and
 * what health[i] was. Returns how many lines spoke of one of them. */
int sn_nodes_parse(enum sn_node_health *health, const struct sn_hostlist *host, const char *text);
/* DEAD are the nodes that a job with --no-kill had and has no more, by its line of `scontrol show
 * job -o`; nothing of a job that does not run. SN_EINPUT, SN_ENOMEM. */
enum sn_status sn_job_nodes_parse(enum sn_node_health *health, const struct sn_hostlist *host,
                                  const char *text, struct sn_err *err);
/* Both, from nothing; `seconds` for each of two questions. False, and *health untouched: nobody
 * answered. *nodes, if not NULL, is what scontrol said of the nodes, for the caller to free. */
bool sn_ask_nodes(enum sn_node_health *health, const struct sn_hostlist *host, const char *job,
                  double seconds, struct sn_str *nodes);
/* `scontrol show config`, for the caller to free. False: nobody answered. */
bool sn_ask_config(struct sn_str *out);

/* Steps of the job that are still there, besides those of its script. 0 where nobody answers. */
int sn_ask_steps(const char *job);
int sn_steps_parse(const char *text);

/* Put the job back into the queue. SN_EFAIL with Slurm's own words. */
enum sn_status sn_ask_requeue(const char *job, struct sn_err *err);
/* 2205 for "slurm-wlm 22.05.8"; 0: unknown. */
int sn_slurm_version(const char *text);
int sn_ask_version(void);

#endif
