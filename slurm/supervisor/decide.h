/*
 * decide.h - an attempt has ended: what now? A pure function, so that every case is a row of a
 * test.
 *
 *   cause (slurm/supervisor/cause.h)                    what to do
 *   finished                                 stop, done
 *   saved, preempted, time over              requeue, chain, or leave it to a person: by what the
 *                                            site allows
 *   a node died, a rank hung or was lost     retry here on the good nodes; on fewer, in another
 *                                            layout; requeue if too few are left
 *   the file system is full or failing       retry after rests, for slurm.disk_wait in all
 *   out of memory, diverged, refused, input  stop: it would come again
 *   a person ended it                        stop
 *   unknown                                  retry, while there is progress
 *
 * Ends that are alike are not repeated at once: the second one in a row is followed by a rest of
 * half a minute, and each further one by a longer one. A disk that is full is waited for.
 *
 * Bounds: attempts in all, attempts without progress (no newer checkpoint), and too little time
 * left in the allocation for another attempt. Slurm itself bounds none of these (facts of its
 * changelogs: MaxBatchRequeue counts launch failures alone).
 */
#ifndef SN_DECIDE_H
#define SN_DECIDE_H

#include "slurm/supervisor/cause.h"

enum sn_requeue_mode {
    SN_REQUEUE_SELF,   /* the supervisor calls scontrol requeue */
    SN_REQUEUE_SYSTEM, /* the scheduler requeues preempted jobs; two requeues would race */
    SN_REQUEUE_NEVER   /* --no-requeue, PreemptMode=CANCEL: only a chained job goes on */
};

struct sn_situation {
    enum sn_cause cause;
    enum sn_requeue_mode requeue;
    bool chained;                 /* another job waits for this one (dependency=singleton) */
    int attempts;                 /* ended so far, this one included, over all requeues */
    int idle_attempts;            /* the last ones of them that made no progress, */
    int equal_ends;               /* and the last ones of these that ended alike */
    int64_t disk_seconds;         /* since the first of these that found no room on a disk */
    int nodes_wanted, nodes_good; /* of the layout, and of the allocation now */
    int nodes_least;        /* with fewer no layout fits; nodes_wanted if it must not shrink */
    int64_t seconds_left;   /* of the allocation; -1: no limit known */
    int64_t seconds_needed; /* for start, one step and a save */
};

struct sn_bounds {
    int attempts;      /* in all; 0: no bound */
    int idle_attempts; /* without progress */
    int disk_seconds;  /* for which a full disk is waited for; 0: not at all */
};

enum sn_action {
    SN_DO_DONE,
    SN_DO_RETRY,  /* in this allocation, on the good nodes */
    SN_DO_SHRINK, /* the same with fewer nodes, replanned */
    SN_DO_REQUEUE,
    SN_DO_WAIT,  /* stay alive until the scheduler requeues: leaving would end the job */
    SN_DO_CHAIN, /* leave: the next job of the chain goes on */
    SN_DO_STOP
};
const char *sn_action_name(enum sn_action a);

struct sn_decision {
    enum sn_action action;
    int exit_code; /* of the batch script: 0 done, 75 somebody goes on, 93 nobody should */
    int pause;     /* seconds before another attempt: an end that was there before is not repeated
                      at once */
    char why[200]; /* one sentence for the log and for `sennit-run why` */
};
void sn_decide(struct sn_decision *out, const struct sn_situation *s, const struct sn_bounds *b);

#endif
