/*
 * supervise.h - what to do about an attempt that runs: a state machine without a clock or a file.
 *
 * Told once a second or so what there is to see, it answers with one duty at a time:
 *
 *   SAVE   ask the trainer to save and leave: somebody asked the supervisor to, or the end of the
 *          job's time comes near. The trainer does it at the next step boundary.
 *   LOOK   nothing has moved for run.hang_timeout: read the flight recorders and write down who
 *          stands still. The trainer names a hang itself at that time; this is for when it cannot.
 *   HANG   nothing has moved for twice as long: end the step.
 *   LOST   nothing moves and a node of it is dead: end the step.
 *   STOP   asked twice by a person at the keyboard, or it takes longer than it may, or its ranks
 *          have given up and the launcher stays, or there is nothing to save: end it now.
 *   KILL   it was to end and has not: nothing gentle is left.
 *
 * A job that was suspended as a whole has not hung: the supervisor stood still with it, so a gap in
 * its own looking moves all limits by as much. Loading and saving take the time that they take:
 * before the first step and while a checkpoint is being written the limits are six times as long,
 * two minutes at least.
 */
#ifndef SN_SUPERVISE_H
#define SN_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

enum sn_duty {
    SN_DUTY_NONE,
    SN_DUTY_SAVE,
    SN_DUTY_LOOK,
    SN_DUTY_HANG,
    SN_DUTY_LOST,
    SN_DUTY_STOP,
    SN_DUTY_KILL
};

/* Who asked for a save: bits. */
enum sn_asked {
    SN_ASKED_TERM = 1,
    SN_ASKED_USR1 = 2,
    SN_ASKED_USR2 = 4,
    SN_ASKED_INT = 8,
    SN_ASKED_INT_AGAIN = 16,
    SN_ASKED_DEADLINE = 32
};

struct sn_supervise_limits {
    int64_t deadline;   /* end of the job's time, seconds since 1970; 0: none known */
    int hang_timeout;   /* run.hang_timeout, seconds; 0: never */
    int margin;         /* seconds before it at which a save is asked for; 0: computed */
    int most_seconds;   /* that it may take in all; 0: any */
    bool has_recorders; /* without them a long step of one rank looks like a hang */
    bool saves_nothing; /* who asks for a save ends it: a preflight */
};

struct sn_seen {
    double now;                        /* seconds of a clock that never goes back */
    int64_t wall;                      /* seconds since 1970 */
    unsigned asked;                    /* signals since the last look, enum sn_asked */
    int64_t step;                      /* last in the metrics; -1: none */
    double step_seconds, save_seconds; /* 0: unknown */
    uint64_t motion;                   /* another number whenever anything moved */
    bool is_saving;
    bool lost_node;    /* a node of it is dead */
    bool has_given_up; /* the trainer's record says that a peer was lost (77) */
};

struct sn_supervision {
    struct sn_supervise_limits limits;
    double began, last_look, moved; /* of sn_seen.now */
    int64_t began_wall;
    int64_t first_step; /* in the metrics when it began */
    uint64_t motion;
    unsigned asked;            /* all so far */
    double asked_at, ended_at; /* last request, last order to end; 0: none */
    double gave_up_at;         /* when it was seen first; 0: not yet */
    bool has_looked, has_hung, has_lost;
};

void sn_supervise_begin(struct sn_supervision *s, const struct sn_supervise_limits *limits,
                        const struct sn_seen *first);
/* The most urgent duty. Call it again after fulfilling it, with asked = 0,
 * until it answers NONE. */
enum sn_duty sn_supervise_look(struct sn_supervision *s, const struct sn_seen *seen);

/* Seconds before an end at which a save has to be asked for: two steps, two saves and a minute
 * (Slurm's signals come up to a minute early, never late), at most `most`. */
double sn_save_margin(double step_seconds, double save_seconds, double most);
/* The supervisor's own: in a job that has `whole` seconds in all at most a quarter of them. */
double sn_supervise_margin(double step_seconds, double save_seconds, double whole);
/* How long nothing has moved, suspensions left out. */
double sn_supervise_still(const struct sn_supervision *s, double now);
/* After how long it is time to ask what has become of the nodes: well before a hang is one, and
 * later than a step takes. */
double sn_supervise_asks_after(const struct sn_supervision *s, const struct sn_seen *seen);

#endif
