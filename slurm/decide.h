/*
 * decide.h - an attempt has ended: what now? A pure function, so that every case is a row of a
 * test.
 *
 *   cause of the end          what was known                          what to do
 *   finished                  exit 0, all steps done                  stop, done
 *   time limit, preempted,    saved (75, 76) or not                   requeue, chain, or resubmit
 * by asked to leave                                                  hand: by what the site allows
 *   a node or a peer died     77, signal, NODE FAILURE                retry here without the node;
 * if too few are left, requeue a rank hung               77 with a culprit the same, culprit's host
 * out out of memory             OOM killer                              stop: it would happen again
 *   diverged, do not restart  79, 93                                  stop
 *   bad input                 2, 78                                   stop
 *   anything else             1, a signal of its own                  retry, while there is
 * progress
 *
 * Bounds: attempts in all, attempts without progress (no newer checkpoint), and too little time
 * left in the allocation for another attempt. Slurm itself bounds none of these (facts of its
 * changelogs: MaxBatchRequeue counts launch failures alone).
 */
#ifndef SN_DECIDE_H
#define SN_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sn_cause {
    SN_CAUSE_FINISHED,
    SN_CAUSE_SAVED,      /* asked to leave (75): USR2, deadline, trigger file */
    SN_CAUSE_PREEMPTED,  /* SIGTERM, or the scheduler said so */
    SN_CAUSE_TIME_LIMIT, /* killed at the limit, without a word before */
    SN_CAUSE_NODE,       /* a node died */
    SN_CAUSE_PEER,       /* a rank died or was lost, its node may be well */
    SN_CAUSE_HANG,       /* a rank stood still */
    SN_CAUSE_MEMORY,     /* the kernel's out-of-memory killer */
    SN_CAUSE_DISK,       /* no space or a failing file system */
    SN_CAUSE_DIVERGED,
    SN_CAUSE_REFUSED,   /* 93: do not restart */
    SN_CAUSE_INPUT,     /* 2: usage or input */
    SN_CAUSE_CANCELLED, /* scancel, or an interrupt from the keyboard */
    SN_CAUSE_UNKNOWN,
    SN_NCAUSES
};
const char *sn_cause_text(enum sn_cause c); /* "a node died" */

/* What the end of a step looks like from the batch script. */
struct sn_end {
    int exit_code;           /* of the launcher; 128 + n for signal n */
    bool got_term, got_usr2; /* the supervisor itself was signalled meanwhile */
    const char *words; /* last lines of the step's stderr: Slurm says why it kills; NULL: none */
    bool has_culprit;  /* a hang or a lost peer was named */
    bool finished;     /* the run directory says that all steps are done */
};
enum sn_cause sn_classify(const struct sn_end *e);

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
    int idle_attempts;            /* the last ones of them that made no progress */
    int nodes_wanted, nodes_good; /* of the layout, and of the allocation now */
    int nodes_least;        /* with fewer no layout fits; nodes_wanted if it must not shrink */
    int64_t seconds_left;   /* of the allocation; -1: no limit known */
    int64_t seconds_needed; /* for start, one step and a save */
};

struct sn_bounds {
    int attempts;      /* in all; 0: no bound */
    int idle_attempts; /* without progress */
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
    char why[200]; /* one sentence for the log and for `sennit-run why` */
};
void sn_decide(struct sn_decision *out, const struct sn_situation *s, const struct sn_bounds *b);

#endif
