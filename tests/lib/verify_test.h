/*
 * verify_test.h - jobs of all ranks of a layout, compiled for tests of what lib/verify proves, and
 * programs that a test may spoil.
 */
#ifndef VERIFY_TEST_H
#define VERIFY_TEST_H

#include "lib/verify/verify.h"

#include <stdbool.h>

enum { VERIFY_RANKS_MAX = 64 };

struct verify_layout {
    const char *name;
    enum sn_family family;
    int data, tensor, context, pipeline, virtual_stages, micro_batch, zero, zero_cache, kv_heads, expert,
        expert_chunks;
    bool sequence_parallel, split_backward, drop_duplicates;
    enum sn_schedule schedule;
    enum sn_recompute recompute;
    enum sn_context_kind kind;
    enum sn_dtype dtype;
};

/* Jobs of all ranks, and programs that a test may spoil. */
struct verify_world {
    struct sn_config config;
    struct sn_model *model;
    struct sn_job *jobs[VERIFY_RANKS_MAX];
    struct sn_program spoilt[VERIFY_RANKS_MAX];
    const struct sn_program *programs[VERIFY_RANKS_MAX];
    int ranks;
};

/* False, and a point that has failed, where it does not compile; verify_world_fini is due anyway. */
bool verify_world_compile(struct verify_world *w, const struct sn_config *c);
bool verify_world_init(struct verify_world *w, const struct verify_layout *l);
void verify_world_fini(struct verify_world *w);
/* The jobs' train programs, or those that were spoilt. */
enum sn_status verify_all(const struct verify_world *w, bool spoilt, struct sn_err *err);

#endif
