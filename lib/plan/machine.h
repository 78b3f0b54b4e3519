/*
 * machine.h - what a machine can do: the rates by which operations are priced.
 *
 * A machine file is YAML:
 *
 *   flops: 1.0e12              # of one rank, per second; a multiply-add counts 2
 *   memory_bandwidth: 1.0e11   # of one rank, bytes per second
 *   overhead: 2.0e-6           # of each operation, seconds
 *   flops_of: {attention: 5.0e11, attention_dx: 4.0e11}   # optional: operations with another rate
 *
 * The first three are required. It describes computing alone and knows nothing of links.
 */
#ifndef SN_MACHINE_H
#define SN_MACHINE_H

#include "kernels/ops.h"
#include "lib/base/err.h"

#include <stddef.h>

struct sn_machine {
    double flops[SN_NKERNELS]; /* per second, by kind of operation; the same where not overridden */
    double peak;               /* `flops` of the file */
    double memory_bandwidth;   /* bytes per second */
    double overhead;           /* seconds an operation */
};

/* SN_EINPUT with "FILE:LINE:COL: what is wrong; what would work". */
enum sn_status sn_machine_load(struct sn_machine *out, const char *path, struct sn_err *err);
/* The same from memory; `path` is used in messages only. */
enum sn_status sn_machine_parse(struct sn_machine *out, const char *text, size_t len,
                                const char *path, struct sn_err *err);

#endif
