/*
 * ask.h - what the supervisor asks Slurm: its job, its nodes, its version; and to requeue.
 * How a job is preempted, slurm/preempt.h asks.
 *
 * By scontrol and squeue (slurm/command.h), rarely, and never from a rank. Where they do not exist
 * or do not answer, everything is unknown and the supervisor goes on by what it knows itself. The
 * parsers are pure, for texts of any version from 22.05 on.
 */
#ifndef SN_ASK_H
#define SN_ASK_H

#include "slurm/hostlist.h"

#include <stdbool.h>

struct sn_job_facts {
    bool is_known;
    char state[32];   /* "RUNNING", "COMPLETING", ... */
    int64_t restarts; /* requeues so far: grows the moment that a requeue is decided; -1: unknown */
    bool may_requeue; /* Requeue=1 */
    bool is_spared;   /* PreemptTime=None: nobody preempts it; false where that is not said */
    int64_t end_time; /* seconds since 1970; 0: unknown or none */
};
/* One line of `scontrol show job -o`. False if it is none. */
bool sn_job_parse(struct sn_job_facts *out, const char *text);
/* Asks scontrol, and squeue for the end alone where scontrol has no answer. */
void sn_ask_job(struct sn_job_facts *out, const char *job);
/* The end of its time alone, seconds since 1970; 0: unknown or none. Waits 4 seconds at most. */
int64_t sn_ask_end(const char *job);

/* Does a job of the same name and user wait (a chain by dependency=singleton)? */
bool sn_ask_chained(const char *job, const char *name);

/* The value of NAME in scontrol's texts: words "NAME=value" or lines "NAME = value". False, and "",
 * where it is not there; what does not fit is cut off. */
bool sn_slurm_value(char *out, size_t room, const char *text, const char *name);
/* "2026-11-21T23:10:11" of this host's time zone, or seconds since 1970; 0: neither. */
int64_t sn_slurm_time(const char *text);

/* dead[i] becomes true for the nodes of `host` that are down, failing or do not answer, by the
 * lines of `scontrol show node -o`; others stay as they are. Returns how many lines spoke of one of
 * them. */
int sn_nodes_parse(bool *dead, const struct sn_hostlist *host, const char *text);
/* False: nobody answered. */
bool sn_ask_nodes(bool *dead, const struct sn_hostlist *host);

/* Steps of the job that are still there, besides those of its script. 0 where nobody answers. */
int sn_ask_steps(const char *job);
int sn_steps_parse(const char *text);

/* Put the job back into the queue. SN_EFAIL with Slurm's own words. */
enum sn_status sn_ask_requeue(const char *job, struct sn_err *err);
/* 2205 for "slurm-wlm 22.05.8"; 0: unknown. */
int sn_slurm_version(const char *text);
int sn_ask_version(void);

#endif
