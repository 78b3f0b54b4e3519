/*
 * numbers.h - values that are none: found in what comes in, and kept from what goes out in a
 * smaller type.
 */
#ifndef SN_NUMBERS_H
#define SN_NUMBERS_H

#include "kernels/tensor.h"
#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The first of n values that is NaN or infinite; -1: all are numbers. */
int64_t sn_find_nonfinite(const float *p, int64_t n);

/* n values as bf16 or fp16, rounded to nearest even; `out` may be where they are. False when one
 * that is finite is too large for the type: *lost is the first. */
bool sn_narrow(uint16_t *out, const float *p, int64_t n, enum sn_dtype dtype, float *lost);
/* The sentence about it: SN_EINPUT. */
enum sn_status sn_narrow_fail(const char *where, const char *tensor, enum sn_dtype dtype,
                              float lost, struct sn_err *err);

#endif
