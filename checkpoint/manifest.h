/*
 * manifest.h - what a checkpoint holds, as a value and as JSON text.
 *
 * Knows neither directories nor HDF5. Every piece carries its place in the logical tensor, so that
 * files cut by many writers need no new schema.
 */
#ifndef SN_MANIFEST_H
#define SN_MANIFEST_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/run/state.h"

#include <stddef.h>
#include <stdint.h>

enum { SN_MANIFEST_SCHEMA = 1 };

/* One logical fp32 tensor, whole, in one dataset. */
struct sn_manifest_tensor {
    const char *group, *name; /* as in struct sn_state_tensor */
    const char *dataset;      /* its path inside the shard */
    int64_t rows, cols;
    int shard;
    uint64_t hash; /* of its little-endian bytes, row by row */
};

struct sn_manifest_shard {
    const char *file; /* inside the checkpoint's directory */
    int64_t bytes;
};

struct sn_manifest {
    struct sn_state_scalars scalars;
    const char *model_text;
    uint64_t config_hash;
    int n_shards, n_tensors;
    struct sn_manifest_shard *shards;
    struct sn_manifest_tensor *tensors; /* a parsed one: sorted by group and name, no duplicates */
    void *json;                         /* a parsed one owns its strings here */
};

void sn_manifest_format(struct sn_str *out, const struct sn_manifest *m);
/* `file` is used in messages only. Another schema version is SN_EINPUT, any damage SN_EIO. */
enum sn_status sn_manifest_parse(struct sn_manifest *out, const char *text, size_t len,
                                 const char *file, struct sn_err *err);
/* Of a parsed one. */
void sn_manifest_fini(struct sn_manifest *m);

/* May return NULL. Of a parsed one. */
const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name);

#endif
