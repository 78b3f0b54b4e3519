/*
 * trainer.h - the step loop: load a batch, run the compiled step, report, save, leave on request.
 */
#ifndef SN_TRAINER_H
#define SN_TRAINER_H

#include "lib/base/exit_code.h"
#include "lib/comm/comm.h"
#include "lib/exec/exec.h"
#include "lib/rundir/attempt.h"
#include "lib/rundir/signals.h"
#include "lib/state/state.h"

struct sn_timeline; /* lib/exec/timeline.h */

/* Which step of a start is timed: those before it make plans and graphs. */
enum { SN_TIMED_STEP = 4 };

struct sn_trainer_options {
    bool fresh;         /* do not continue from a checkpoint */
    bool trial;         /* keep nothing but metrics: evaluate nothing, save nothing */
    int64_t stop_after; /* leave after this step; 0: at train.steps */
    /* Called by all ranks, once, after this start's fourth step, or its last if it has fewer, with
     * when each of its operations ran; NULL: no step is timed. A failure ends the run. */
    enum sn_status (*timed)(void *self, const struct sn_timeline *t, int64_t step,
                            struct sn_err *err);
    void *self;
};

struct sn_trainer;

/* Compile the job for `comm`, map the arenas, load or make the weights. Collective. Everything
 * passed in is borrowed. */
struct sn_trainer_env {
    const struct sn_config *config; /* resolved for comm->size ranks */
    struct sn_comm *comm;
    const struct sn_ops *ops;
    struct sn_accelerator *accelerator; /* NULL: `ops` run here; else they are its own */
    const struct sn_saver *saver;
    struct sn_signals *signals;          /* NULL: none are listened to */
    struct sn_flight_recorder *recorder; /* where comm records what it does; NULL: nowhere */
    uint64_t certificate;       /* that the programs have to have (sn_certificate); 0: any */
    struct sn_attempt *attempt; /* is told where it goes on, what is passed over; NULL: none is */
    int threads;
    bool scores;                   /* sn_trainer_score will follow */
    bool generates;                /* sn_trainer_generate will follow */
    bool keeps_past;               /* and keeps keys and values: a token is one row */
    const struct sn_machine *pace; /* NULL: compute; else see sn_exec_set_pace: nothing is learnt */
    /* Ends the process, when a rank of several is stuck and this one's own thread does not come
     * back (struct sn_solo_env); NULL: abort(), as in tests. */
    void (*give_up)(void *self, const struct sn_err *why);
    void *self;
    const char *switches;      /* above this host, from the top, by dots; "" or NULL: not known */
    const char *memory, *host; /* test hooks: of sn_snapshot_env; NULL: /dev/shm, this host */
};
enum sn_status sn_trainer_create(struct sn_trainer **out, const struct sn_trainer_env *env,
                                 struct sn_err *err);
void sn_trainer_destroy(struct sn_trainer *t); /* NULL is allowed */

/* Train to the end. *exit_code is 0 or one of the codes above; agreed by all ranks. */
enum sn_status sn_trainer_run(struct sn_trainer *t, const struct sn_trainer_options *o,
                              int *exit_code, struct sn_err *err);

/* One step from where the run stands, of which nothing is kept: no metrics, no checkpoint, and what
 * it computes may be wrong (struct sn_device_options, tune). The trainer is good for no other. */
enum sn_status sn_trainer_rehearse(struct sn_trainer *t, struct sn_err *err);

/* Steps of the run again, from the newest checkpoint before `step` on, until one differs from what
 * the run has left in run.output: its losses, and fingerprints (run.fingerprints) where there are
 * some. Changes nothing there. Collective. */
struct sn_replay_options {
    int64_t step; /* 1 .. */
    int rank;     /* of the recorded run, whose fingerprints are compared; -1: all ranks' */
    const struct sn_config *recorded;           /* its resolved configuration; NULL: this one */
    void (*say)(void *self, const char *lines); /* on rank 0 */
    void *self;
};
enum sn_status sn_trainer_replay(struct sn_trainer *t, const struct sn_replay_options *o,
                                 bool *differs, struct sn_err *err);

const struct sn_job *sn_trainer_job(const struct sn_trainer *t);
/* When the first step began, in seconds since 1970; 0: none has. */
double sn_trainer_stepping(const struct sn_trainer *t);
struct sn_exec *sn_trainer_exec(struct sn_trainer *t);

/* Before sn_trainer_generate or sn_trainer_score: load the newest checkpoint. `tokenizer` is
 * that of the run's data, or, where it has no file, becomes the checkpoint's; another one there is SN_EINPUT.
 * Collective; only rank 0's tokenizer is asked for. */
enum sn_status sn_trainer_generate_open(struct sn_trainer *t, struct sn_tokenizer_id *tokenizer,
                                        struct sn_err *err);
/* Sampling from it (generate.c), in a layout of tensor and pipeline ranks alone whose rows are whole.
 * Collective; the options are rank 0's. Tokens go to its `emit` one by one. */
struct sn_generate_options {
    const int32_t *prompt; /* copied before the first token is given */
    int n_prompt;          /* 1 ..; 0 .. behind what train.prompt fills */
    const float *features; /* one entry of finite numbers, where train.prompt reads some; copied as well */
    int tokens;            /* how many to add */
    double temperature;    /* 0: the most likely token */
    int top_k;             /* 0: all */
    double top_p;          /* the fewest tokens that are likely together; 1: all */
    const char *option;    /* what asked for it, of sentences */
    int32_t stop;          /* ends the text, and is not given; -1: nothing does */
    uint64_t seed;         /* the same: the same text */
    bool (*emit)(void *self, int32_t token); /* false: it ends the text */
    void *self;
};
/* Rank 0 alone does this work, however long it takes, and the others wait; its status on all. Collective. */
enum sn_status sn_trainer_alone(struct sn_trainer *t, const char *what,
                                enum sn_status (*work)(void *self, struct sn_err *err), void *self,
                                struct sn_err *err);
/* SN_EINPUT: the model knows no such prompt. Not collective. */
enum sn_status sn_trainer_check_prompt(const struct sn_trainer *t,
                                       const struct sn_generate_options *o, struct sn_err *err);
/* Tokens at the begin of a prompt of n that are not seen when the first one behind it is drawn: it is too long. */
int64_t sn_trainer_left_out(const struct sn_trainer *t, int64_t n);
enum sn_status sn_trainer_generate(struct sn_trainer *t, const struct sn_generate_options *o,
                                   struct sn_err *err);

/* How likely continuations are (score.c), in a layout whose evaluation sees documents apart. All calls are
 * on rank 0 alone: what is asked, of which the memory is borrowed from read until give has returned; where
 * train.prompt reads some, the features of a request; and the answers, one for each request. Collective. */
struct sn_score_set; /* lib/data/score.h */
struct sn_score {
    double logprob; /* sum over its tokens */
    bool greedy;    /* each was the likeliest, the smallest of such */
};
struct sn_score_options {
    enum sn_status (*read)(void *self, struct sn_score_set *out, struct sn_err *err);
    enum sn_status (*features)(void *self, int request, float *out, struct sn_err *err);
    enum sn_status (*give)(void *self, const struct sn_score_set *s, const struct sn_score *scores,
                           struct sn_err *err);
    void *self;
};
enum sn_status sn_trainer_score(struct sn_trainer *t, const struct sn_score_options *o,
                                struct sn_err *err);

#endif
