/*
 * frozen.h - weights that no step changes, as codes (train.lora.base).
 *
 * They lie as the stream of int8, int4 or nf4 does (kernels/codec.h), so that DECODE reads them, but
 * are encoded once, where weights come from: the scale of a block of 128 is its largest magnitude
 * over the largest code (nf4: over 1), rounded to bfloat16. A code times such a scale is exact in fp32
 * (a level of nf4 within half a unit of rounding), and the largest of a block keeps the largest code.
 * So values that come from codes give the same codes again, whoever saved them and wherever their
 * rows were cut in between.
 */
#ifndef SN_FROZEN_H
#define SN_FROZEN_H

#include "kernels/codec_kind.h"

#include <stdbool.h>
#include <stdint.h>

/* Can weights be held so? */
bool sn_frozen_takes(const struct sn_codec *c);
/* Values at .. at + n - 1 of a stream, from fp32: whole blocks. What is not finite makes its block
 * NaN. */
void sn_frozen_put(const struct sn_codec *c, void *stream, int64_t at, int64_t n, const float *x);
/* And back, as DECODE gives them: any of them. */
void sn_frozen_get(const struct sn_codec *c, const void *stream, int64_t at, int64_t n, float *x);

#endif
