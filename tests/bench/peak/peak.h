/*
 * peak.h - the multiply-add peak of this processor: what no product of matrices can exceed.
 */
#ifndef SN_BENCH_PEAK_H
#define SN_BENCH_PEAK_H

#include "kernels/tensor.h"

#include <stddef.h>

/* The instruction with which the set in use (sn_ops_cpu) multiplies numbers that are stored as t:
 * "VFMADD231PS zmm". NULL: this file does not know it, and bench_peak is 0. */
const char *bench_peak_instruction(enum sn_dtype t);

/* FLOP/s of independent chains of that instruction in registers, on every thread at once; one run
 * of some milliseconds. */
double bench_peak(enum sn_dtype t, int threads);
/* The same on one thread with operands that are loaded, one after the other, from `room` bytes that
 * were read before: where they lie in L1 or L2, what its loads leave of the peak. 0: not with this
 * instruction. */
double bench_peak_from(enum sn_dtype t, size_t room);

#endif
