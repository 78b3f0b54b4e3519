/*
 * peak.h - what this rank's processor can do, for the MFU of a machine that has no description.
 */
#ifndef SN_PEAK_H
#define SN_PEAK_H

#include "kernels/ops.h"
#include "lib/base/err.h"

/* Measured FLOP/s of a large GEMM in this storage type with these threads: the best of a few. Takes
 * about a tenth of a second; allocates and frees its operands. */
enum sn_status sn_peak_measure(double *out, const struct sn_ops *ops, enum sn_dtype dtype,
                               int threads, struct sn_err *err);

#endif
