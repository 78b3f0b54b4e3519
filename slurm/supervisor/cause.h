/*
 * cause.h - why an attempt ended: from all that is known of its end, in the order of what counts
 * more. A pure function, so that every case is a row of a test.
 *
 *   1  the run directory says that all steps are done           finished
 *   2  Ctrl-C, or the scheduler says: cancelled                 a person ended it
 *   3  exit codes 2, 78, 79, 93                                 what would come again
 *   4  the scheduler says: preempted or requeued, time over,    that
 *      a node failed
 *   5  a node of the attempt is dead, or nothing moved          that node, a hang
 *   6  the other exit codes of the trainer                      75 saved, 76 told by SIGTERM,
 *                                                               77 lost
 *   7  what the launcher or the file system said                memory, disk, node, time limit
 *   8  a signal to the supervisor or to the launcher            saved, preempted; else unknown
 *
 * A signal comes last: by itself it does not tell who sent it.
 */
#ifndef SN_CAUSE_H
#define SN_CAUSE_H

#include "slurm/supervisor/fate.h"

enum sn_cause {
    SN_CAUSE_FINISHED,
    SN_CAUSE_SAVED,      /* asked to leave (75): USR2, deadline, trigger file */
    SN_CAUSE_PREEMPTED,  /* others get its nodes, or it is back in the queue */
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

/* What the end of an attempt looks like from the batch script. */
struct sn_end {
    int exit_code;     /* of the launcher, or of the trainer's record; 128 + n for signal n */
    enum sn_fate fate; /* of the job, asked after the end */
    int save;          /* the signal that asks the launcher's ranks to save */
    bool got_int;      /* Ctrl-C */
    bool got_term;     /* SIGTERM or SIGHUP to the supervisor itself */
    bool was_asked;    /* to save and leave, by any signal or by the end of the job's time */
    bool has_hung;     /* the supervisor ended it because nothing moved */
    bool has_culprit;  /* the trainer named a rank that stood still */
    bool lost_node;    /* a node on which it ran is dead */
    bool finished;     /* the run directory says that all steps are done */
    const char *words; /* last lines of the launcher's stderr; NULL: none */
    const char *says;  /* the trainer's own sentence; NULL: none */
};
enum sn_cause sn_classify(const struct sn_end *e);

#endif
