/*
 * metrics.h - OUTPUT/metrics.jsonl, OUTPUT/checkpoints.jsonl and the progress line.
 */
#ifndef SN_METRICS_H
#define SN_METRICS_H

#include "lib/monitor/monitor.h"
#include "lib/program/program.h"
#include "lib/state/state.h"
#include "lib/train/health.h"
#include "lib/train/imbalance.h"

#include <stdbool.h>
#include <stdio.h>

struct sn_metrics;

/* Of a snapshot that was exchanged beside a step. */
struct sn_snapshot_report {
    int64_t step;       /* of the state in it: the one before */
    int64_t bytes;      /* sent by all ranks */
    double copy, stall; /* seconds of rank 0: copying, and that with the wait before the update */
};

struct sn_set_loss {
    const char *name;
    double loss;
};

struct sn_step_report {
    int64_t step, steps;
    double left; /* the run, in steps of this one's size */
    double loss, grad_norm, lr;
    int n_set_losses; /* sets of data.train of which the step had something to predict; 0: one set is all */
    struct sn_set_loss set_loss[SN_SETS_MAX];
    double head_z; /* mean square of the logits' log-sum-exp; NaN without train.z_loss */
    double mtp; /* mean loss of the blocks of model.mtp, over the loss's targets; NaN: there are none */
    int64_t tokens; /* cumulative */
    int64_t step_tokens;
    double step_time;                       /* seconds */
    int64_t targets;                        /* that count; -1: all tokens of the step */
    int length;                             /* of pieces (data.curriculum); 0: there is none */
    double flops_per_token, flops_uncausal; /* lib/model/model.h */
    double peak;                            /* FLOP/s of all ranks together; 0: unknown */
    bool has_aux_loss, has_z_loss;          /* the model's routers have these */
    double aux_loss, z_loss;                /* mean over tokens and layers, without their weights */
    bool has_imbalance;                     /* the model has experts: */
    struct sn_imbalance imbalance;          /* how unevenly they were chosen */
    bool fp16;
    double loss_scale;
    int64_t skipped;  /* steps so far */
    int64_t overflow; /* gradient elements for which this one is; 0: it updates */
    const struct sn_memory_plan *memory;
    const int64_t *traffic; /* per axis, summed over ranks, */
    bool has_routed;        /* but without what the routing of this step decided: */
    int64_t routed;         /* on the expert axis, */
    int64_t gathered;       /* and on the tensor axis */
    const double
        *off_plan;        /* and without what codecs sent beside the plan: by axis; NULL: nothing */
    bool has_codec_error; /* codecs were measured: */
    double codec_error[SN_NCODED]; /* relative error of messages; NaN: nothing was coded */
    const struct sn_snapshot_report *snapshot; /* NULL: none */
    const struct sn_device_health *health;     /* of rank 0's device; NULL: not asked after it */
    const struct sn_finding *departs;          /* from the plan, now: */
    int n_departs;
};

/* Open (and create) the file `name` in `dir`, cut back so that no line is of a
 * step after `step`. */
enum sn_status sn_metrics_open(struct sn_metrics **out, const char *dir, const char *name,
                               int64_t step, struct sn_err *err);
void sn_metrics_close(struct sn_metrics *m); /* NULL is allowed */
enum sn_status sn_metrics_step(struct sn_metrics *m, const struct sn_step_report *r,
                               struct sn_err *err);
struct sn_eval_set {
    const char *name; /* "" where it is the only one */
    double loss_sum, tokens;
};
struct sn_eval_report {
    int64_t step;
    int n;
    struct sn_eval_set set[SN_SETS_MAX];
};
/* The mean over the tokens of all sets, and where they have names that of each. */
enum sn_status sn_metrics_eval(struct sn_metrics *m, const struct sn_eval_report *r,
                               struct sn_err *err);
/* What a set has given so far. */
struct sn_set_report {
    const char *name;
    int64_t sequences, tokens;
    double share, epochs; /* of all tokens so far; how often it was read */
};
enum sn_status sn_metrics_sets(struct sn_metrics *m, int64_t step, const struct sn_set_report *r,
                               int n, struct sn_err *err);
struct sn_save_report {
    int64_t step, bytes; /* of all ranks */
    double stall;        /* seconds that the step loop stood still */
    struct sn_save_times times;
};
enum sn_status sn_metrics_save(struct sn_metrics *m, const struct sn_save_report *r,
                               struct sn_err *err);
/* The memory plan and the traffic as JSON members: "memory_bytes": {...} without outer braces. */
void sn_metrics_json_memory(FILE *f, const struct sn_memory_plan *m);
void sn_metrics_json_traffic(FILE *f, const int64_t *traffic);

#endif
