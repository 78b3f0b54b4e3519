/*
 * accounting.h - what a layer with experts sends, three ways: by formula, by plan, by the counters
 * of a run; and the scratch of an update. docs/EXPERTS.md has the formulas.
 */
#ifndef SN_ACCOUNTING_H
#define SN_ACCOUNTING_H

#include "lib/config/config.h"
#include "lib/program/program.h"

/* Operations of a layer in the text of a step (forward, computed again, backward). */
struct account_ops {
    int exchanges, all_reduces, all_gathers, reduce_scatters;
    int gathered, scattered; /* shares of windows */
};

/* Bytes of one layer in one step, of all ranks. */
struct account_bytes {
    int64_t expert, tensor;
};

struct account {
    struct account_ops ops, want_ops;
    struct account_bytes formula, planned, counted;
    char fault[256]; /* "" when all could be found out */
};

/* A small model and the layout of a case: data = expert. */
struct sn_config account_config(int tensor, int expert, bool sequence_parallel);
/* By the difference of models of two depths, so that what is no layer falls out. */
void account_layer(struct account *out, const struct sn_config *c);

/* Most bytes of temporaries that live at once in the update segment, and the largest slice of a
 * bucket whose gradients are not fp32; -1: *err says why. */
int64_t account_update(const struct sn_config *c, int64_t *slice, struct sn_memory_plan *plan,
                       struct sn_err *err);

#endif
