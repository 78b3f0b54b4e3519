/*
 * ahead.h - the batch of the next step, read while a device is at work on this one.
 *
 * Nothing else depends on it: a batch that was not read ahead is read when its step begins, and one
 * that could not be read is a failure of the step that it is for. One thread.
 */
#ifndef SN_AHEAD_H
#define SN_AHEAD_H

#include "lib/data/loader.h"

struct sn_ahead {
    struct sn_loader loader; /* fills memory of our own; no corpus: nothing is read ahead */
    int64_t tokens;          /* of ids, and of targets: all micro-batches */
    int64_t starts;          /* likewise; 0: there are none */
    int64_t further;         /* likewise */
    int64_t features;        /* numbers; 0: there are none */
    int64_t *first_sample;   /* by micro-batch */
    struct sn_sample_count count;
    int micros;
    int64_t wanted, step;  /* to be read when there is time; read: 0 is none */
    enum sn_status status; /* of the reading, and why */
    struct sn_err err;
};

/* Batches of what `l` loads, of `tokens` ids, `micros` micro-batches of l->sequences samples. Caller
 * finishes. */
enum sn_status sn_ahead_init(struct sn_ahead *a, const struct sn_loader *l, int64_t tokens,
                             int micros, struct sn_err *err);
/* The same for the train program, whose runs read ahead from now on. */
enum sn_status sn_ahead_open(struct sn_ahead *a, const struct sn_loader *l, struct sn_exec *x,
                             const struct sn_job *job, struct sn_err *err);
void sn_ahead_fini(struct sn_ahead *a); /* a zeroed one too */
/* There is time now (sn_exec_set_idle): read step `wanted`. */
void sn_ahead_read(void *ahead);
/* The batch of a step, in the memory of `l`, which `a` was made with: what was read ahead, or else
 * read now. first_sample and count as sn_loader_step(). */
enum sn_status sn_ahead_take(struct sn_ahead *a, const struct sn_loader *l, int64_t step,
                             int micros, int64_t *first_sample, struct sn_sample_count *count,
                             struct sn_err *err);

#endif
