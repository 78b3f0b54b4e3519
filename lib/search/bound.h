/*
 * bound.h - how early each stage of a pipeline can be done: a bound in closed form, no playing.
 *
 * A pipelined step is a system of "starts when all of these have ended" relations (lib/layout/
 * idle.h), so its length is the longest path through them, and the length of any path is a lower
 * bound. The paths taken here are those that are the longest where stages are about equal; for
 * equal stages without transfers they give the makespan itself (tests/unit/test_bound.c).
 *
 * Of stage module k (virtual stage k / p of stage k % p) and one micro-batch: forward, backward,
 * weight seconds; a transfer between neighbours takes `transfer`. F_s, B_s, W_s are sums over the
 * virtual stages of stage s; X_s the first stage modules' forwards and transfers on the way to
 * stage s; Y_s the first stage modules' backwards, up to their sends, and transfers on the way back
 * from stage s to stage 0.
 *
 *   work         X_s + m (F_s + B_s + W_s): a stage cannot begin before its first micro-batch has
 *                come through, nor compute two things at once; both with what the first takes longer
 *   way back     what ends last on stage s is a backward of its first virtual stage, and stage 0 is
 *                not done before its gradient has come back: + Y_s
 *   turns        1f1b: stage s begins micro-batch i + (p - s) only when micro-batch i is back,
 *                after a turn L_s = sum over k >= s of (F_k + B_k) + 2 (p-1-s) transfers. k turns
 *                at s, then the rest m' = m - k (p - s) at a later stage e:
 *                X_s + k L_s + (X_e - X_s) + m' (F_e + B_e) + Y_e
 *   two sweeps   gpipe: all forwards pass the slowest stage, then all backwards do
 *   way down     interleaved: when the last gradient enters the last stage module, the last stage
 *                has only p micro-batches' backwards of its other virtual stages to do; from there
 *                it passes all stage modules
 *   still        modules of frozen layers alone, in front, are on no way back
 *   late weights zero-bubble: before its last backward, stage s has done all but s + 1 weight
 *                gradients: X_s + m (F_s + B_s) + (m-1-s) W_s + Y_s, and then stage 0 has one more
 */
#ifndef SN_BOUND_H
#define SN_BOUND_H

#include "lib/layout/schedule.h"

#include <stdbool.h>

struct sn_module_costs {
    const double *forward, *backward, *weight; /* [modules] seconds; weight: zero-bubble only */
    const double *extra; /* [modules] by which the last micro-batch's backward is longer */
    const double
        *first; /* [modules] by which the first micro-batch's forward is; NULL: by nothing */
    const double *after; /* [modules] of backward: what is left when the gradient has been sent */
    double transfer;
    int still; /* of the first modules nothing runs backward: no gradient is sent to them */
};

/* end[stages]: no stage ends its last task sooner. */
void sn_pipeline_bound(double *end, const struct sn_pipeline *p, const struct sn_module_costs *c);
/* A task while collectives of before are still under way for `busy` seconds, and what it posts:
 * seconds from its begin until its kernels, and until all collectives are done. `last`: it is of
 * the last micro-batch. after: what is left of the kernels when it has sent what the next stage
 * needs. */
struct sn_task_time {
    double kernels, collectives, after;
};
typedef struct sn_task_time sn_task_player(const void *context, enum sn_phase phase, int module,
                                           bool last, double busy);

/* The same by playing the schedule through, transfers included: still a bound, because transfers
 * here do not wait for their receiver. `player` plays tasks of the last micro-batch, and those that
 * find collectives under way; NULL: costs and `extra` say all. done[stages]: when a stage's
 * collectives are done too. */
enum sn_status sn_pipeline_play(double *end, double *done, const struct sn_pipeline *p,
                                const struct sn_module_costs *c, sn_task_player *player,
                                const void *context, struct sn_err *err);

#endif
