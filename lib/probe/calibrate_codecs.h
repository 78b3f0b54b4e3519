/*
 * calibrate_codecs.h - how fast codecs are, by the operations ENCODE and DECODE of a backend.
 *
 * One stream of 2^20 normals, as long as a message that is worth compressing: longer than the
 * caches of one core, so that rates are those of values that come from memory.
 */
#ifndef SN_CALIBRATE_CODECS_H
#define SN_CALIBRATE_CODECS_H

#include "lib/exec/accelerator.h"
#include "lib/machine/codecs.h"

struct sn_codec_bench {
    const struct sn_ops *ops;     /* of this processor; */
    int threads;                  /* of a rank */
    struct sn_accelerator *on;    /* or of this device; NULL: of the processor */
    const struct sn_codec *codec; /* which: those that this build misses are passed over */
    int n;
};

/* Add the rates of each codec on values of fp32 and bf16 to *out: medians of some rounds. A device
 * whose backend has no such operations adds none. */
enum sn_status sn_calibrate_codecs(struct sn_codec_rates *out, const struct sn_codec_bench *how,
                                   struct sn_err *err);

#endif
