/*
 * peak.h - the multiply-add peak of this processor: what no product of matrices can exceed.
 */
#ifndef SN_BENCH_PEAK_H
#define SN_BENCH_PEAK_H

#include "kernels/tensor.h"

/* The instruction with which the set in use (sn_ops_cpu) multiplies numbers that are stored as t:
 * "VFMADD231PS zmm". NULL: this file does not know it, and bench_peak is 0. */
const char *bench_peak_instruction(enum sn_dtype t);

/* FLOP/s of independent chains of that instruction in registers, on every thread at once; one run
 * of some milliseconds. */
double bench_peak(enum sn_dtype t, int threads);

#endif
