/*
 * calibrate.h - measure the machine that this process runs on: kernels of compiled programs, and
 * collectives between ranks.
 *
 * Kernels are timed where they stand: a rank's compiled step runs on its real arenas with a
 * communicator that stands in for the other ranks, so that caches are as warm or cold as in the
 * run, and each shape that the run has is measured. What follows from the samples is
 * lib/cost/fit.h. On a device they are timed by its own clock, without waits between them.
 */
#ifndef SN_CALIBRATE_H
#define SN_CALIBRATE_H

#include "lib/comm/comm.h"
#include "lib/cost/fit.h"
#include "lib/exec/accelerator.h"
#include "lib/program/program.h"

#include <stdbool.h>

/* Is another round wanted, after so many that took so long? */
struct sn_calibrate_turn {
    bool (*more)(void *arg, int rounds, double seconds);
    void *arg;
};

/* Run the train program of a job again and again and add its kernels to *out (NULL: only keep the
 * machine busy). Weights are the initial ones and do not change. `a`: where (NULL: this processor).
 */
enum sn_status sn_calibrate_job(struct sn_samples *out, const struct sn_job *job,
                                struct sn_accelerator *a, const struct sn_calibrate_turn *turn,
                                struct sn_err *err);

/* Bytes a second of a large copy, read and written bytes both counted: the median of some. */
enum sn_status sn_calibrate_bandwidth(double *out, const struct sn_ops *ops, int threads,
                                      struct sn_err *err);
/* The same on a device, of more than its caches hold. */
enum sn_status sn_calibrate_device_bandwidth(double *out, struct sn_accelerator *a,
                                             struct sn_err *err);

#endif
