/*
 * inspect.h - looking at checkpoints: what is in one, whether it is whole, how two differ.
 */
#ifndef SN_INSPECT_H
#define SN_INSPECT_H

#include "checkpoint/store/source.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/comm/comm.h"

#include <stdbool.h>
#include <stdint.h>

/* A table of tensors, shapes, pieces and sizes, or one JSON object. Touches only the manifest. */
enum sn_status sn_inspect(struct sn_str *out, const char *path, bool json, struct sn_err *err);

struct sn_fsck {
    int64_t checkpoints;   /* looked at */
    int64_t blocks, bytes; /* read */
    int64_t faults;
};
/* Read every block of every piece and compare its hash; check every shard's layout and size and the
 * master's mappings. `path` is a checkpoint, or a directory whose checkpoints are all checked. Each
 * fault is one line of `out`, naming shard and tensor; the work goes on after it. Files that nobody
 * knows are lines that begin with "note: ". At most `memory` bytes of blocks are held, but one
 * block at least (a piece, before schema 3).
 *
 * Ranks of comm share the blocks; all get the sums and the same text, in an order that does not
 * depend on their number. SN_OK also when faults were found. */
enum sn_status sn_fsck(struct sn_fsck *result, struct sn_str *out, const char *path, int64_t memory,
                       struct sn_comm *comm, struct sn_err *err);

struct sn_diff {
    int64_t tensors, different;       /* in both; of other values or another shape */
    int64_t missing;                  /* in one of the two only */
    int64_t values, different_values; /* of tensors of one shape */
    double largest;                   /* |a - b|; infinite where one of the two is no number */
    int64_t scalars;                  /* different ones: step, tokens, ...; the model's text */
};
/* Compare two checkpoints tensor by tensor, in whatever layouts they are: a line for each tensor
 * and each scalar that differs. Bits are compared: a NaN equals the same NaN, and -0 is not 0. What
 * is stored in different types is compared as fp32. */
enum sn_status sn_diff(struct sn_diff *result, struct sn_str *out, const char *a, const char *b,
                       int64_t memory, struct sn_err *err);
/* The same of any two sources. */
enum sn_status sn_diff_sources(struct sn_diff *result, struct sn_str *out, struct sn_source *a,
                               struct sn_source *b, int64_t memory, struct sn_err *err);

#endif
