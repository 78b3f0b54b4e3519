/*
 * manifest.h - what a checkpoint holds, as a value and as JSON text.
 *
 * Knows neither directories nor HDF5. Every piece carries its place in the logical tensor. What a
 * rank has written is listed in the same form, so that rank 0 merges the lists of all into one.
 *
 * Schema 1, where every tensor is one whole piece, is read too.
 */
#ifndef SN_MANIFEST_H
#define SN_MANIFEST_H

#include "checkpoint/box.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/run/state.h"

#include <stddef.h>
#include <stdint.h>

enum { SN_MANIFEST_SCHEMA = 2 };

/* One box of a tensor, in one dataset of box.rows x box.cols. */
struct sn_manifest_piece {
    struct sn_box box;
    const char *dataset; /* its path inside the shard */
    int shard;
    uint64_t hash; /* of its little-endian bytes, row by row */
};

/* One logical fp32 tensor. */
struct sn_manifest_tensor {
    const char *group, *name; /* as in struct sn_state_tensor */
    int64_t rows, cols;
    int n_pieces;
    struct sn_manifest_piece *pieces; /* in the manifest's own list, sorted by sn_box_order */
};

struct sn_manifest_shard {
    const char *file; /* inside the checkpoint's directory */
    int64_t bytes;
};

struct sn_manifest {
    struct sn_state_scalars scalars;
    const char *model_text;
    uint64_t config_hash;
    int n_shards, n_tensors, n_pieces;
    struct sn_manifest_shard *shards;
    struct sn_manifest_tensor *tensors; /* sorted by group and name, no duplicates */
    struct sn_manifest_piece *pieces;   /* of all tensors, one after the other */
    void *json;                         /* a parsed one owns its strings here */
};

void sn_manifest_format(struct sn_str *out, const struct sn_manifest *m);
/* `file` is used in messages only. Another schema version is SN_EINPUT, any damage SN_EIO. Whether
 * the pieces cover their tensors is not asked. */
enum sn_status sn_manifest_parse(struct sn_manifest *out, const char *text, size_t len,
                                 const char *file, struct sn_err *err);
/* Of a parsed or a merged one. */
void sn_manifest_fini(struct sn_manifest *m);

/* SN_EIO unless the pieces of every tensor cover it exactly once. */
enum sn_status sn_manifest_check_cover(const struct sn_manifest *m, const char *file,
                                       struct sn_err *err);
/* Join the lists of n writers: all their shards, and the pieces of equal names together. Strings
 * stay the lists'; scalars, model_text and config_hash are left for the caller to fill. Lists that
 * differ on a tensor's shape are SN_EFAIL. */
enum sn_status sn_manifest_merge(struct sn_manifest *out, const struct sn_manifest *lists, int n,
                                 const char *file, struct sn_err *err);

/* For sorting: by group, then by name. */
int sn_manifest_order(const char *group_a, const char *name_a, const char *group_b,
                      const char *name_b);
/* May return NULL. */
const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name);

#endif
