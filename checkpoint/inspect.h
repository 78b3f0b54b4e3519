/*
 * inspect.h - looking at checkpoints: what is in one, whether it is whole, how two differ.
 */
#ifndef SN_INSPECT_H
#define SN_INSPECT_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/run/comm.h"

#include <stdbool.h>
#include <stdint.h>

/* A table of tensors, shapes, pieces and sizes, or one JSON object. Touches only the manifest. */
enum sn_status sn_inspect(struct sn_str *out, const char *path, bool json, struct sn_err *err);

struct sn_fsck {
    int64_t blocks, bytes; /* read */
    int64_t faults;
};
/* Read every block of every piece and compare its hash; check every shard's layout and size and the
 * master's mappings. Each fault is one line on `out`'s text, naming shard and tensor; the work goes
 * on after it. Ranks of comm share the pieces. SN_OK also when faults were found. */
enum sn_status sn_fsck(struct sn_fsck *result, struct sn_str *out, const char *path, int64_t memory,
                       struct sn_comm *comm, struct sn_err *err);

struct sn_diff {
    int64_t tensors, different, missing; /* missing: in one of the two only */
    int64_t values, different_values;
    double largest; /* |a - b| */
};
/* Compare two checkpoints tensor by tensor, in whatever layouts they are; a line for each tensor
 * that differs. */
enum sn_status sn_diff(struct sn_diff *result, struct sn_str *out, const char *a, const char *b,
                       int64_t memory, struct sn_err *err);

#endif
