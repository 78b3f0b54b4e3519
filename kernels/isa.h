/*
 * isa.h - the instruction sets that this processor has, of those that kernels are compiled for.
 *
 * One file of kernels/isa answers, which the Makefile picks by the architecture.
 */
#ifndef SN_ISA_H
#define SN_ISA_H

#include "kernels/ops.h"

#include <stdbool.h>

struct sn_isa {
    const struct sn_ops *ops; /* its table: "cpu/" and the set's name */
    const char *says;         /* for sn_ops_cpu_describe */
    int codecs;               /* which codecs go with it (codec_cpu.c) */
    bool only_named;          /* not the default: the set before it is faster on this processor */
};

enum { SN_ISA_MOST = 8 };

/* From the plainest to the best; returns how many. One sentence is in *lacks where the best is less
 * than the processor could do, NULL otherwise. */
int sn_isa_list(struct sn_isa list[SN_ISA_MOST], const char **lacks);

#endif
