/*
 * journal.h - OUTPUT/journal.jsonl: what sennit-run exec did and saw, one synced line an event.
 *
 * The run directory alone must tell afterwards what happened (`sennit-run status`, `why`), so every
 * line is there before what it speaks of goes on. Members that all lines have: time (seconds since
 * 1970), event, job ("" outside of a job), restart (requeues of the job so far). Then by event:
 *
 *   begin     run_file, scheduler, host, nodes [], pid, deadline (0: unknown), version
 *   preflight exit_code, seconds, says ("" if it passed; its notices are of attempt 0)
 *   launch    attempt, nodes [], spares [], ranks, threads (0: the trainer decides), layout {},
 *             relaid, from_step (-1: no checkpoint), command []
 *   running   attempt, step, seconds (from the launch to the first finished step)
 *   notice    attempt, what: SIGTERM SIGUSR1 SIGUSR2 SIGINT deadline trigger
 *   suspect   attempt, kind (hang, straggler, silent), rank, host, axis, operation, behind,
 *             seconds (straggler: that the others wait for it, of each second)
 *   end       attempt, exit_code, cause, seconds, step, saved_step, snapshot_step, rank (-1), host
 *             (""), says
 *   bad-node  host, why, until
 *   decision  attempt, action, why, exit_code, pause (seconds, where there is one)
 *   leave     exit_code
 */
#ifndef SN_JOURNAL_H
#define SN_JOURNAL_H

#include "lib/base/json.h"
#include "lib/base/jsonl.h"
#include "lib/config/config.h"
#include "slurm/scheduler/allocation.h"
#include "slurm/supervisor/culprit.h"
#include "slurm/supervisor/decide.h"

struct sn_platform;

struct sn_journal {
    char path[SN_PATH_MAX + 64];
    char job[32];
    int64_t restart;
    const struct sn_platform *platform; /* whose date its lines bear */
};

/* For a run directory that exists already. */
void sn_journal_init(struct sn_journal *j, const char *output, const struct sn_allocation *a,
                     const struct sn_platform *platform);

/* Begin a line of an event; the caller adds members (lib/base/jsonl.h) and writes it. */
void sn_journal_line(const struct sn_journal *j, struct sn_str *line, const char *event);
enum sn_status sn_journal_write(const struct sn_journal *j, struct sn_str *line,
                                struct sn_err *err);

struct sn_journal_launch {
    int attempt;
    const char *const *nodes, *const *spares;
    int n_nodes, n_spares, ranks, threads;
    const struct sn_layout_config *layout;
    bool relaid;
    int64_t from_step;
    const char *const *command;
    int n_command;
};
enum sn_status sn_journal_launch(const struct sn_journal *j, const struct sn_journal_launch *l,
                                 struct sn_err *err);

/* The axes of a launch's layout that have several ranks: "data 2 x tensor 4"; "data 1" where none
 * has; "" where nothing is said. */
enum { SN_JOURNAL_LAYOUT = 128 };
void sn_journal_layout(char out[SN_JOURNAL_LAYOUT], struct sn_json launch);

struct sn_journal_end {
    int attempt, exit_code;
    enum sn_cause cause;
    double seconds;
    int64_t step, saved_step, snapshot_step; /* -1: none */
    int rank;                                /* who is to blame; -1: nobody known */
    const char *host;                        /* "" */
    const char *says;                        /* the sentence of whoever knew */
};
enum sn_status sn_journal_end(const struct sn_journal *j, const struct sn_journal_end *e,
                              struct sn_err *err);

enum sn_status sn_journal_suspect(const struct sn_journal *j, int attempt,
                                  const struct sn_culprit *c, struct sn_err *err);

/* What earlier attempts mean for the bounds of sn_decide. Counted anew after a `leave` that nobody
 * was to follow (0 or 93), and outside of jobs at every `begin`: a person has looked at it. */
enum { SN_JOURNAL_STILLBORN = 10 };
struct sn_journal_past {
    int failures; /* ends of attempts that nobody had asked to leave */
    int idle;     /* the last ends that left no newer checkpoint or snapshot than there was; those
                     by preemption and by a full disk are not counted */
    int equal;    /* the last ends without a newer one that had the same cause and words */
    int64_t disk_since; /* time of the first of these, if a full disk was the cause; else 0 */
    int stillborn; /* the last ends before a step could begin: up to SN_JOURNAL_STILLBORN of them
                      are not idle, since starting a large job fails by chance */
    bool has_run;  /* the last attempt has finished a step */
    int attempts;  /* the highest number in the file, of any time */
    int64_t best_step;         /* the newest checkpoint seen at an end; -1: none */
    char cause[64], says[128]; /* of the last end */
};
enum sn_status sn_journal_past_load(struct sn_journal_past *out, const char *path,
                                    struct sn_err *err);

#endif
