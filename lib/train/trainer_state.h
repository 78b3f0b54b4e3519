/*
 * trainer_state.h - the trainer's own struct, shared by trainer.c, resume.c, save.c,
 * evaluate.c and generate.c. Internal to lib/train.
 */
#ifndef SN_TRAINER_STATE_H
#define SN_TRAINER_STATE_H

#include "lib/comm/solo.h"
#include "lib/data/ahead.h"
#include "lib/data/data_fit.h"
#include "lib/data/loader.h"
#include "lib/exec/meter.h"
#include "lib/exec/timeline.h"
#include "lib/monitor/monitor.h"
#include "lib/replay/recording.h"
#include "lib/snapshot/snapshot.h"
#include "lib/state/replica_check.h"
#include "lib/train/health.h"
#include "lib/train/metrics.h"
#include "lib/train/trainer.h"

/* The save under way, if there is one. */
struct sn_saving {
    bool is_under_way;
    bool is_pulling; /* the device still copies what is then written */
    enum sn_save_phase phase;
    struct sn_state state; /* that it began with; the step loop has gone on since */
    bool is_compared;      /* with the copies of other ranks */
    bool has_ended;        /* the phase, on this rank (at once where it has no part in it) */
    enum sn_status status; /* how it ended, and why */
    struct sn_err err;
    uint64_t marks; /* of its progress, as they were last seen, */
    double moved;   /* and when they had changed */
    double stall;   /* seconds that the step loop stood still for it */
};

/* Copies of the state in memory; without checkpoint.snapshot_every there are none. */
struct sn_snapping {
    struct sn_snapshot *snapshot;
    char host[64];
    bool is_resumed;       /* the state comes from one */
    bool in_step;          /* one was exchanged beside the step that is made now */
    enum sn_status status; /* of the wait at the fence, and why */
    struct sn_err err;
};

/* The step of which it is kept when its operations ran. */
struct sn_timing {
    struct sn_timeline *timeline; /* NULL: nobody asks */
    int64_t step;
};

/* Who departs from the plan (lib/monitor). */
struct sn_watching {
    bool is_on;
    struct sn_meter *meter;
    int64_t look, steps;           /* steps of a record, 0: not chosen yet; those so far */
    struct sn_monitor_record mine; /* of the last ones */
    bool has_record, is_posted;    /* it is whole; on its way to rank 0 */
    struct sn_monitor_record *all; /* on rank 0, */
    struct sn_monitor *monitor;    /* the same */
};

/* What the operations of some steps give. */
struct sn_record_step {
    struct sn_recording *of; /* NULL: nobody asks */
    struct sn_results *results;
    int64_t every; /* steps; 0: each, and none goes to a file */
};

/* What a rank says of itself before step 1. */
struct sn_rank_summary {
    uint64_t program, config;
    int64_t traffic[SN_NAXES];
    struct sn_memory_plan memory;
};

struct sn_trainer {
    struct sn_trainer_env env;
    struct sn_solo *solo; /* where ranks work without each other, and may take their time */
    bool is_lost;         /* a rank is gone or stuck; here, too, threads may be at work for good */
    struct sn_model *model;
    struct sn_job *job;
    struct sn_exec *exec;
    struct sn_corpus train_data, valid_data; /* valid_data.n 0: nothing is evaluated */
    struct sn_data_fit fit;
    struct sn_loader train, valid;
    bool said_no_targets;  /* of a step */
    bool said_how;         /* texts are written */
    int batch;             /* which size of batch the job's train program is set to */
    struct sn_ahead ahead; /* on a device */
    int64_t *first_sample; /* per micro-batch of a step */
    struct sn_state state;
    struct sn_str model_text, layout_text;
    bool is_loaded; /* from a checkpoint or a snapshot, not begun */
    struct sn_saving saving;
    struct sn_snapping snapping;
    struct sn_replica_check *copies;
    struct sn_metrics *metrics, *saves; /* rank 0 */
    double peak;                        /* FLOP/s of all ranks */
    double stepping;                    /* when the first step began, since 1970; 0: none has */
    struct sn_memory_plan memory;
    int64_t traffic[SN_NAXES];         /* planned, summed over ranks */
    int64_t sent_by_rank[SN_NAXES];    /* planned, this rank */
    struct sn_rank_summary *summaries; /* of all ranks; rank 0 */
    int32_t *sample;                   /* room for ids and targets of one sample, and sn_job_further() */
    struct sn_timing timed;
    struct sn_health health;
    struct sn_watching watching;
    struct sn_record_step recording;
    float loss_scale;   /* that the step is done with */
    int skipped_in_row; /* steps without an update before the next one */
};

/* handshake.c: groups; the ranks agree on what they have compiled, and learn the whole plan. */
enum sn_status sn_trainer_handshake(struct sn_trainer *t, struct sn_err *err);
/* What a step sends, by this rank and by all. Collective. */
enum sn_status sn_trainer_count_traffic(struct sn_trainer *t, struct sn_err *err);
/* batch_step.c: the train program becomes that of the step's size of batch. Collective. */
enum sn_status sn_trainer_set_batch(struct sn_trainer *t, int64_t step, struct sn_err *err);
/* resume.c: weights and position from a checkpoint, from train.init_from, or at random. `st` is
 * how this rank has fared so far; collective. */
enum sn_status sn_trainer_restore(struct sn_trainer *t, bool fresh, enum sn_status st,
                                  struct sn_err *err);
/* The same from the newest checkpoint before step `before`; the run's begin where there is none. */
enum sn_status sn_trainer_restore_before(struct sn_trainer *t, int64_t before, enum sn_status st,
                                         struct sn_err *err);
/* What its samples so far were taken from, by the run file (sn_blend_past). */
uint64_t sn_trainer_past(const struct sn_trainer *t);
/* sparse.c: do they have the zeros of train.sparse? Collective. */
enum sn_status sn_trainer_check_sparse(struct sn_trainer *t, struct sn_err *err);
/* Afterwards: the weights to whoever computes with them. A failure is this rank's alone. */
enum sn_status sn_trainer_publish(struct sn_trainer *t, struct sn_err *err);
/* save.c. Before step 1: room for asynchronous saves, and the file that they are reported in. */
enum sn_status sn_trainer_save_open(struct sn_trainer *t, struct sn_err *err);
/* Save step state.scalars.step, or with checkpoint.async begin to; collective. */
enum sn_status sn_trainer_save(struct sn_trainer *t, struct sn_err *err);
/* Until the save under way has ended; collective. */
enum sn_status sn_trainer_save_wait(struct sn_trainer *t, struct sn_err *err);
/* Around a step: how a save goes here into the words that the ranks add up at its end, and what
 * follows from them. A failure anywhere is one on all ranks. */
void sn_trainer_save_report(struct sn_trainer *t, double *agree);
enum sn_status sn_trainer_save_follow(struct sn_trainer *t, struct sn_err *err);
/* Before the state goes, also after a failure: nobody reads it any more. */
void sn_trainer_save_close(struct sn_trainer *t);
/* What a save still reads must not change from now on: it is waited for. */
void sn_trainer_save_fence(struct sn_trainer *t);
/* The same on a device, whose copies need not end then: writing begins. */
void sn_trainer_save_pulled(struct sn_trainer *t);
/* The scalars of the step just done, into `state`. */
void sn_trainer_take_scalars(struct sn_trainer *t);

/* report_step.c. So many tokens of the step's batch are to be predicted. */
void sn_trainer_set_targets(struct sn_trainer *t, int64_t step, int64_t targets);
/* SN_EFAIL: this rank has sent other bytes in the step than the plan says. */
enum sn_status sn_trainer_check_traffic(struct sn_trainer *t, int64_t step, struct sn_err *err);
/* Into the report of a step, of a model with experts. */
void sn_trainer_report_routers(struct sn_trainer *t, struct sn_step_report *r);
void sn_trainer_report_set_losses(struct sn_trainer *t, const struct sn_sample_count *count,
                                  struct sn_step_report *r);
/* Once, after the first step: the FLOP/s of all ranks. */
enum sn_status sn_trainer_find_peak(struct sn_trainer *t, struct sn_err *err);
/* What the sets of a blend have given so far, into metrics.jsonl. */
enum sn_status sn_trainer_report_sets(struct sn_trainer *t, struct sn_err *err);

/* overflow.c: steps of fp16 whose gradients overflow update nothing; rank 0 says each. After a
 * step: have so many followed each other under a loss scale that does not adapt that none will
 * learn? */
enum { SN_SKIPPED_MOST = 10 }; /* named in the key table, too */
bool sn_trainer_is_stuck(struct sn_trainer *t);

/* guard.c: what codecs lose (layout.compress.sample), and what follows from it (.guard). Before a
 * step; into its report; after it, before the state is saved: levels are part of it. */
void sn_codec_monitor_begin(struct sn_trainer *t, int64_t step);
void sn_codec_monitor_report(const struct sn_trainer *t, struct sn_step_report *r);
void sn_codec_monitor_end(struct sn_trainer *t);

/* snapshot_step.c: nothing without checkpoint.snapshot_every. Collective, but fence, sent and
 * close. Before the state is loaded: fill it from memory if there is a step after `after` there. */
enum sn_status sn_trainer_snapshot_find(struct sn_trainer *t, bool fresh, int64_t after,
                                        bool *loaded, struct sn_err *err);
/* Before step 1: the memory of snapshots. */
enum sn_status sn_trainer_snapshot_open(struct sn_trainer *t, struct sn_err *err);
/* After a step: begin to take it. */
enum sn_status sn_trainer_snapshot_take(struct sn_trainer *t, struct sn_err *err);
/* In the step after it, before the update: it is whole here. */
void sn_trainer_snapshot_fence(struct sn_trainer *t);
/* Did that succeed? */
enum sn_status sn_trainer_snapshot_end(struct sn_trainer *t, struct sn_err *err);
/* Bytes that this rank sent for it in the step just made, and all ranks. */
int64_t sn_trainer_snapshot_sent(const struct sn_trainer *t);
/* What the report of a step says of it; NULL: nothing was exchanged. */
const struct sn_snapshot_report *sn_trainer_snapshot_report(const struct sn_trainer *t,
                                                            struct sn_snapshot_report *room);
/* The run leaves by itself: what is in memory is older than what is saved. */
enum sn_status sn_trainer_snapshot_forget(struct sn_trainer *t, struct sn_err *err);
void sn_trainer_snapshot_close(struct sn_trainer *t);

/* watch_step.c: nothing with one rank, on devices, or without run.monitor. Before the first step,
 * collective. */
enum sn_status sn_trainer_watch_open(struct sn_trainer *t, struct sn_err *err);
/* Right before the agreement of a step; after the step, which took so long: what it was spent on,
 * and on rank 0 what departs. Collective once. */
void sn_trainer_watch_fence(struct sn_trainer *t);
enum sn_status sn_trainer_watch_end(struct sn_trainer *t, int64_t step, double seconds,
                                    struct sn_err *err);
/* Bytes that this rank sent for it in the step just made, until its end. */
int64_t sn_trainer_watch_sent(const struct sn_trainer *t);
/* What departs now; rank 0. */
int sn_trainer_watch_findings(const struct sn_trainer *t, const struct sn_finding **out);
void sn_trainer_watch_close(struct sn_trainer *t);

/* record_step.c: nothing unless it is open. Before the first step: every so many steps are kept in
 * files, or with 0 each in memory alone. A failure is this rank's alone. */
enum sn_status sn_trainer_record_open(struct sn_trainer *t, int64_t every, struct sn_err *err);
/* Around the run of a step, whose tokens are there. */
void sn_trainer_record_begin(struct sn_trainer *t, int64_t step);
enum sn_status sn_trainer_record_end(struct sn_trainer *t, int64_t step, struct sn_err *err);
/* For another size of batch, where it is open. */
enum sn_status sn_trainer_record_again(struct sn_trainer *t, struct sn_err *err);
void sn_trainer_record_close(struct sn_trainer *t);

/* open_data.c: the token files, opened once on each host; those of training alone, or all that a run
 * reads, with its tokenizer. Collective, agreed on. */
enum sn_status sn_trainer_open_train(struct sn_trainer *t, struct sn_err *err);
enum sn_status sn_trainer_open_data(struct sn_trainer *t, struct sn_err *err);

/* trainer.c: the tokens that steps are made of; the next step, of which the caller sees what
 * follows. */
struct sn_loader sn_trainer_loader(const struct sn_trainer *t, const struct sn_corpus *corpus);
enum sn_status sn_trainer_step(struct sn_trainer *t, int64_t step, struct sn_err *err);

/* timed.c: nothing unless struct sn_trainer_options asks. Before the first of the steps `first` ..
 * `last`: room; collective. Around each step, the second collective. */
enum sn_status sn_trainer_timed_open(struct sn_trainer *t, const struct sn_trainer_options *o,
                                     int64_t first, int64_t last, struct sn_err *err);
void sn_trainer_timed_begin(struct sn_trainer *t, int64_t step);
enum sn_status sn_trainer_timed_end(struct sn_trainer *t, const struct sn_trainer_options *o,
                                    int64_t step, struct sn_err *err);

/* evaluate.c: mean validation loss of all sets and of each, on every rank; and SN_EINPUT for a set in
 * which nothing would be predicted. */
enum sn_status sn_trainer_check_evaluation(const struct sn_trainer *t, struct sn_err *err);
enum sn_status sn_trainer_evaluate(struct sn_trainer *t, struct sn_eval_report *out,
                                   struct sn_err *err);

#endif
