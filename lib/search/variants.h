/*
 * variants.h - every layout that a run may have on a number of ranks, but for the order of axes.
 *
 * Which are valid is for lib/config to say (sn_config_check_layout); here they are listed so that
 * few are refused, and those that compute the same stand there once:
 *
 *   one pipeline stage              schedule 1f1b, one virtual stage
 *   several virtual stages          schedule interleaved; one number of them for each number of
 *                                   layers in the longest stage module
 *   one tensor rank                 sequence_parallel as given
 *   one context rank                context_kind as given
 *   one replica                     ZeRO 0
 *   several nodes                   zero_node: 0, or the replicas of a node where tensor ranks are
 *                                   neighbours
 *   ZeRO 3                          zero_cache: auto: as many as fit, which who estimates or compiles it
 *                                   finds out (fit_cache.h)
 *
 *   expert                          divides data x context and the number of experts
 *   expert_tensor                   every divisor of tensor, the smaller ones with
 *                                   sequence_parallel; expert divides data x context x tensor / it
 *   context                         a rank has 2,048 tokens of a sequence at least
 *   tensor_x                        at most tensor; within a node no grid that sends more than one
 *                                   axis of as many ranks; tensor x tensor_x ranks on four nodes at
 *                                   most, and with sequence_parallel; 1 with experts, and where
 *                                   `near` is 0
 *
 * A key that the run file names stands (sn_config.layout_named).
 */
#ifndef SN_VARIANTS_H
#define SN_VARIANTS_H

#include "lib/config/config.h"
#include "lib/layout/grid.h"

/* A layout in few bytes; bucket and axis order are the run file's. */
struct sn_variant {
    int size[SN_NGRID_AXES]; /* ranks along each axis */
    int expert, micro_batch, virtual_stages;
    int expert_tensor; /* 0: as tensor */
    int zero_node, zero_cache;
    unsigned char sequence_parallel, schedule, recompute, zero, context_kind;
};

struct sn_variants {
    struct sn_variant *of;
    int64_t n;
    int cap;
};

/* All for a run; `near`: ranks of a node, 0: not known. Caller runs sn_variants_fini. */
enum sn_status sn_variants_list(struct sn_variants *out, const struct sn_config *c, int ranks,
                                int near, struct sn_err *err);
void sn_variants_fini(struct sn_variants *v); /* a zeroed one is allowed */
/* Do they cut the model alike? Grids differ in sizes, and in how experts are shared out. */
bool sn_variant_same_grid(const struct sn_variant *a, const struct sn_variant *b);
/* Fill a layout; the rest of it is taken from `base`. */
void sn_variant_expand(struct sn_layout_config *out, const struct sn_variant *v,
                       const struct sn_config *base);

#endif
