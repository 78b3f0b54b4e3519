/*
 * stage.h - a job on a stage: the platform of a supervisor (slurm/supervisor/platform.h) whose
 * clock jumps from one event to the next, whose launcher does what a script says, and whose
 * scheduler says what it is told to. Files lie in a directory of their own, as trainers write them.
 *
 * Texts of Slurm are parsed as those of scontrol are. Nothing sleeps and nothing is started.
 */
#ifndef TESTS_LIB_STAGE_H
#define TESTS_LIB_STAGE_H

#include "slurm/run/supervisor.h"

enum { STAGE_LAUNCHES = 8, STAGE_CUES = 8, STAGE_RANKS = 16, STAGE_COMMAND = 4096 };
enum { STAGE_DATE = 1800000000 }; /* seconds since 1970 when the clock begins */
enum {
    STAGE_WAITS = 1000, /* exit code: it goes on until it is asked to save, then 75 */
    STAGE_HANGS         /* it goes on until it is ended: 143 or 137 */
};

/* What a launch does. */
struct stage_act {
    int code;          /* that it ends with, or one of the above */
    int saved, step;   /* a checkpoint and the last step, there from the start; -1: none */
    const char *words; /* of the launcher at its end, '|' for an end of line; NULL: none */
    const char *says;  /* cause that the trainer writes down; NULL: it writes nothing unless it
                          saves or is done */
    const char *died;  /* a node that scontrol shows as "DOWN*" after it; NULL: none */
    double seconds;    /* that it takes; 0: one */
    double pace;       /* seconds of each further step; 0: there are none */
    double still_at;   /* seconds from the start after which nothing of it moves; 0: never */
};

/* What happens by itself: at a time, or with a question for the job. */
struct stage_cue {
    double at;       /* seconds since the clock began; 0: by question */
    int question;    /* 1, 2, ... */
    const char *job; /* what scontrol says of the job from then on; NULL: as before */
    unsigned asked;  /* of the supervisor, enum sn_asked */
    int64_t room;    /* free bytes from then on; 0: as before */
};

struct stage_child {
    bool runs, is_asked;
    const struct stage_act *act;
    const char *words; /* not read yet; NULL: none */
    int number, code, step;
    double began, ends; /* ends 0: not by itself */
};

struct stage {
    struct sn_platform platform;
    char dir[64], output[128], run_file[128];
    const char *slurm;       /* keys of the run file's section slurm, "preflight: false" */
    const char *layout;      /* of the run file */
    const char *run;         /* more keys of its section run, each with ", " before it */
    const char *hosts;       /* "n0,n1"; "": outside of a job */
    const char *environment; /* more of it: "NAME=VALUE NAME=VALUE"; NULL: nothing */
    int restart;
    double now;
    const struct stage_act *act;
    int n_act;
    const struct stage_cue *cue;
    int n_cue, cues; /* those that were met */
    char job[512], nodes[1024], config[256], partition[256];
    const char *queue;   /* another job of that name waits; NULL: none */
    const char *refused; /* why a requeue does not go; NULL: it does */
    const char *silent;  /* address of a node whose slurmd does not answer; NULL: none */
    bool has_scontrol;
    double step_gone; /* when the first step has left Slurm's books */
    int64_t room;
    struct sn_flight_view record[STAGE_RANKS]; /* n < 0: none */
    bool heartbeats[STAGE_RANKS];              /* its process is there */
    struct stage_child child;
    unsigned pending; /* asked of the supervisor with the next wait */
    /* what was done */
    int launches, questions, requeues, kills, ranks_killed;
    double launched[STAGE_LAUNCHES];
    int signals[STAGE_LAUNCHES * 4], n_signals;
    char command[STAGE_LAUNCHES][STAGE_COMMAND], started_with[STAGE_COMMAND * 4];
    char line[4096];
    struct sn_err err; /* why the supervisor failed */
};

/* A job on such hosts, in which all is well: 16 ranks of data 2 x tensor 4 x pipeline 2, 4 on a
 * node, 100 steps. Members may be changed before it is played. False: no directory. */
bool stage_open(struct stage *s, const char *hosts);
void stage_close(struct stage *s); /* removes what is in its directory */
/* `sennit-run exec`; returns its exit code. May be played again, as a requeued job is. */
int stage_play(struct stage *s, const struct stage_act *act, int n, bool fresh);

/* Cues for the next play. */
void stage_cues(struct stage *s, const struct stage_cue *cue, int n);
/* OUTPUT/NAME holds a text. */
void stage_write(const struct stage *s, const char *name, const char *text);
/* Lines of the journal that tell of an event: how many, and one of them, from the end where i is
 * negative; "" where there is none. */
int stage_count(const struct stage *s, const char *event);
const char *stage_event(struct stage *s, const char *event, int i);
/* What is in a file of the run directory. */
const char *stage_file(struct stage *s, const char *name);

#endif
