/*
 * history.h - what a run directory says of its run: where it stands, and what ended each attempt.
 *
 * From files alone, on any host that sees them, while the run goes on or years later: no daemon, no
 * scheduler. The supervisor's journal.jsonl says most; attempt-N.json, metrics.jsonl, the
 * checkpoints and the records of the ranks (ranks/rank-N.ring) say the rest, and all there is when
 * a run was started without a supervisor. Files may be missing, cut or damaged: what can be read is
 * taken, what cannot is counted in `damaged`. Texts hold printable ASCII only, so that a hostile
 * file does not reach a terminal.
 */
#ifndef SN_HISTORY_H
#define SN_HISTORY_H

#include "lib/base/err.h"
#include "lib/base/json.h"
#include "lib/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sn_run_state {
    SN_RUN_STARTING, /* an attempt is being prepared or has not begun to step */
    SN_RUN_RUNNING,
    SN_RUN_WAITING, /* the scheduler or the next job of a chain goes on */
    SN_RUN_ENDED,   /* nobody goes on by himself */
    SN_RUN_UNKNOWN  /* it stopped without a word */
};
const char *sn_run_state_name(enum sn_run_state s); /* "waiting" */

enum {
    SN_HISTORY_TEXT = 512,
    SN_HISTORY_HOSTS = 256,
    SN_HISTORY_ATTEMPTS = 4096,
    SN_HISTORY_PATH = 4200,
    SN_HISTORY_DEPARTS = 4,
    SN_HISTORY_SETS = SN_SETS_MAX
};

/* Whom the supervisor suspected. */
struct sn_history_suspect {
    char kind[16]; /* "hang", "straggler", "silent"; "stopped" by its process' state */
    int64_t rank;  /* -1: unknown */
    char host[64], axis[32], operation[64];
    double behind, seconds;
};

/* What a device said of itself, or how a rank or link departed from the plan (lib/train/health.h). */
struct sn_history_incident {
    char kind[16], what[24]; /* "throttled", "ecc", "xid"; a reason. "departs" */
    int64_t rank, step;
    char host[64];
    double value;               /* degrees, errors, the driver's number */
    char says[SN_HISTORY_TEXT]; /* of what departs, a sentence */
};

struct sn_history_attempt {
    int64_t number;
    char job[32];        /* "": outside of a job */
    int64_t restart;     /* requeues of the job before it */
    double began, ended; /* seconds since 1970; 0: unknown */
    double start_up;     /* seconds from launch to the first finished step; 0: unknown */
    int64_t n_nodes, n_spares, ranks, threads;              /* 0: unknown */
    char nodes[SN_HISTORY_HOSTS], spares[SN_HISTORY_HOSTS]; /* "n[0-3]" */
    char layout[128];                                       /* "data 2 x tensor 4"; "" unknown */
    bool relaid;         /* replanned for another number of nodes */
    int64_t from_step;   /* that it began from: as its trainer wrote down, else the newest
                            checkpoint that there was when it was launched; -1: unknown */
    int64_t step, saved; /* last finished and last saved step; -1: unknown */
    int64_t lost;        /* steps that had to be done again; -1: unknown */
    char notices[128];   /* "SIGTERM, deadline" */
    int64_t n_suspects;
    struct sn_history_suspect suspect;   /* the last one */
    int64_t n_incidents;                 /* of its devices; */
    struct sn_history_incident incident; /* the gravest, of those the first */
    bool has_end;                        /* the supervisor saw it end */
    int64_t exit_code;                   /* -1: unknown */
    char cause[64];                      /* enum sn_cause in words; "" unknown */
    int64_t rank;                        /* culprit, -1: none known */
    char host[64];
    char says[SN_HISTORY_TEXT];   /* the launcher's or trainer's last words */
    char record[SN_HISTORY_TEXT]; /* the cause that the trainer wrote down */
    bool has_record, record_ended;
    int64_t n_passed_over,
        passed_over; /* damaged checkpoints, and the step of the newest of them */
    char passed_why[SN_HISTORY_TEXT];
    char action[16], why[200]; /* what was decided then, and the reason */
};

/* A host that is to be avoided. */
struct sn_history_bad {
    char host[64], why[128];
    double until; /* seconds since 1970; 0: for ever */
};

/* What a set of a blend has given. */
struct sn_history_set {
    char name[SN_SET_NAME_MAX];
    double share, epochs; /* of all tokens so far; NAN: unknown */
};

struct sn_history {
    char run_file[SN_HISTORY_TEXT], scheduler[16], host[64], version[32], job[32];
    int64_t restart, pid;   /* of the supervisor; pid 0: there is no journal */
    double deadline;        /* seconds since 1970; 0: unknown */
    int64_t preflight_code; /* its exit code in this allocation: 0 all well, 77 a node fails; -1:
                               there was none */
    double preflight_seconds;
    char preflight_says[SN_HISTORY_TEXT]; /* its sentence, where it did not pass; "" */
    bool has_journal;
    int n_attempts, room;
    struct sn_history_attempt *attempt; /* by number */
    char action[16], why[200];          /* the last decision, of an attempt or before the first */
    int n_bad, room_bad;
    struct sn_history_bad *bad; /* once a host, the latest word */
    /* progress; NAN or -1: unknown */
    int64_t step, steps, tokens;
    double loss, grad_norm;
    double max_vio, max_vio_worst; /* of experts' load (lib/train/imbalance.h); NAN: no experts */
    double tokens_per_s, mfu, step_time;    /* medians of the last steps */
    double eta;                             /* seconds */
    double gpu_mhz, gpu_watts, gpu_celsius; /* of rank 0's device, last; NAN: unknown */
    char gpu_throttle[96];                  /* why it is slower than it could be; "" */
    int64_t n_departs;                      /* ranks and links, from the plan (lib/monitor), now; */
    char departs[SN_HISTORY_DEPARTS][SN_HISTORY_TEXT]; /* the first of them, in words */
    int64_t n_sets, sets_step;                         /* 0: one set; of this step: */
    struct sn_history_set set[SN_HISTORY_SETS];        /* by their order */
    char checkpoints[SN_HISTORY_PATH];                 /* their directory */
    int64_t snapshot;    /* step that partners hold in memory; -1: none known */
    int64_t saved;       /* step of the newest checkpoint; -1: none */
    double saved_at;     /* seconds since 1970; 0: unknown */
    int64_t saved_bytes; /* -1: unknown */
    enum sn_run_state state;
    char state_why[200]; /* a sentence */
    int damaged;         /* lines and files that could not be read */
};

/* Read the directory `dir` as of `now` (seconds since 1970). How many steps there are to be and
 * where checkpoints lie is asked of DIR/run.resolved.yaml, else of the journal's run file, where it
 * can be read. SN_EINPUT if `dir` is no directory or nothing in it is of a run. The caller ends
 * with sn_history_fini. */
enum sn_status sn_history_read(struct sn_history *out, const char *dir, double now,
                               struct sn_err *err);
void sn_history_init(struct sn_history *h); /* of a run of which nothing is known */
void sn_history_fini(struct sn_history *h); /* a zeroed one is allowed */

/* ---- its parts, for tests -------------------------------------------------------------------- */

/* The last thing that the journal says. */
enum sn_history_event {
    SN_EVENT_NONE,
    SN_EVENT_BEGIN,
    SN_EVENT_LAUNCH,
    SN_EVENT_RUNNING,
    SN_EVENT_NOTICE, /* asked to leave: still running */
    SN_EVENT_SUSPECT,
    SN_EVENT_END,
    SN_EVENT_DECISION,
    SN_EVENT_LEAVE
};

/* What decides in which state a run is. */
struct sn_evidence {
    enum sn_history_event last;
    int64_t leave_code;
    bool supervisor_here, supervisor_alive;       /* its process, if it is of this host */
    int ranks_here, ranks_alive, ranks_elsewhere; /* by their records */
    double still;                                 /* seconds since anything moved; < 0: unknown */
    double patience;                              /* seconds after which that is too long */
};
/* Fills out->state and out->state_why from its attempts and the evidence. */
void sn_history_judge(struct sn_history *out, const struct sn_evidence *e);

/* Add what a journal says; its last line may be cut. SN_ENOMEM only. */
enum sn_status sn_history_take_journal(struct sn_history *h, struct sn_evidence *e,
                                       const char *text, size_t len, struct sn_err *err);
/* Add what attempt-NUMBER.json says. */
enum sn_status sn_history_take_record(struct sn_history *h, int64_t number, const char *text,
                                      size_t len, struct sn_err *err);
/* Add what the last lines of metrics.jsonl say; the first and last line may be cut. */
void sn_history_take_metrics(struct sn_history *h, const char *text, size_t len);
/* Add what a rank has written of devices and of the plan, to the attempts that ran then. */
void sn_history_take_health(struct sn_history *h, const char *text, size_t len);
/* The member "gpu" of a line of metrics.jsonl; none: nothing changes. */
void sn_history_take_gpu(struct sn_history *h, struct sn_json gpu);
/* The member "sets" of a line of metrics.jsonl, of a step; none: nothing changes. */
void sn_history_take_sets(struct sn_history *h, struct sn_json sets, int64_t step);
/* The member "departs" of a line of metrics.jsonl; none: nothing departs. */
void sn_history_take_departs(struct sn_history *h, struct sn_json departs);
/* As words that stand alone: "the device of rank 3 (n1) had 2 uncorrected memory errors at step
 * 120". */
void sn_history_say_incident(char *out, size_t room, const struct sn_history_incident *i);
/* Add what the last lines of checkpoints.jsonl say. */
void sn_history_take_saves(struct sn_history *h, const char *text, size_t len);
/* Add a host to those that are avoided; of several words about one the last counts. SN_ENOMEM. */
enum sn_status sn_history_take_bad(struct sn_history *h, const char *host, const char *why,
                                   double until, struct sn_err *err);
/* Whom the ranks wait for by their records in `dir`, as the suspect of a last attempt without an
 * end; where all its processes have ended too, nobody. SN_ENOMEM. */
enum sn_status sn_history_take_recorders(struct sn_history *h, const char *dir,
                                         const struct sn_config *c, struct sn_err *err);
/* Look for the newest committed checkpoint in h->checkpoints, whose word counts more than that of
 * checkpoints.jsonl. False, and nothing changed: there is no such directory. */
bool sn_history_take_checkpoints(struct sn_history *h);
/* Steps lost between attempts, and what else follows from all of them together. */
void sn_history_conclude(struct sn_history *h);

#endif
