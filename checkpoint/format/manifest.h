/*
 * manifest.h - what a checkpoint holds, as a value and as JSON text.
 *
 * Knows neither directories nor HDF5. Every piece carries its place in the logical tensor. What a
 * rank has written is listed in the same form, so that rank 0 merges the lists of all into one.
 *
 * Schemas 1 (every tensor is one whole piece) and 2 (one hash a piece, fp32 only) are read too.
 */
#ifndef SN_MANIFEST_H
#define SN_MANIFEST_H

#include "checkpoint/io/box.h"
#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/state/state.h"

#include <stddef.h>
#include <stdint.h>

enum { SN_MANIFEST_SCHEMA = 3 };
enum { SN_BLOCK_BYTES = 1 << 20 }; /* of a piece that share one hash, in what we write */

/* One box of a tensor. Its bytes are those of its values in the tensor's dtype, little endian, row
 * by row. They lie in a dataset of set_rows x set_cols from (at_row, at_col) on: usually the
 * dataset is the box; in a single file the dataset is the tensor. */
struct sn_manifest_piece {
    struct sn_box box;
    const char *dataset; /* its path inside the shard */
    int shard;
    int64_t at_row, at_col, set_rows, set_cols;
    int64_t n_blocks; /* bytes / sn_manifest.block, rounded up; 0 for an empty box */
    uint64_t *hashes; /* sn_hash64 of each block of its bytes; in the manifest's own pool */
};

/* One logical tensor. */
struct sn_manifest_tensor {
    const char *group, *name; /* as in struct sn_state_tensor */
    int64_t rows, cols;
    enum sn_dtype dtype; /* as stored: SN_F32, SN_BF16 or SN_F16 */
    int n_pieces;
    struct sn_manifest_piece *pieces; /* in the manifest's own list, sorted by sn_box_order */
};

struct sn_manifest_shard {
    const char *file; /* inside the checkpoint's directory */
    int64_t bytes;
};

/* What master.h5 is. */
struct sn_manifest_master {
    int64_t bytes; /* 0: there is none, or who wrote it did not say */
    uint64_t hash; /* sn_hash64 of all of them */
};

struct sn_manifest {
    struct sn_state_scalars scalars;
    const char *model_text;
    const char *layout_text; /* of who wrote it, for people; "" before schema 3 */
    uint64_t config_hash;
    int64_t block; /* bytes a hash; INT64_MAX before schema 3: one hash a piece */
    int n_shards, n_tensors, n_pieces;
    struct sn_manifest_master master;
    struct sn_tokenizer_id tokenizer; /* without a folder */
    struct sn_manifest_shard *shards;
    struct sn_manifest_tensor *tensors; /* sorted by group and name, no duplicates */
    struct sn_manifest_piece *pieces;   /* of all tensors, one after the other */
    uint64_t *hashes;                   /* pool of all pieces' hashes; NULL if they lie elsewhere */
    size_t n_hashes;
    void *json;    /* a parsed one owns its strings here */
    char *strings; /* a planned one here, in one block */
    int schema;    /* of a parsed one */
};

/* Bytes of a box of t. */
static inline int64_t sn_manifest_bytes(const struct sn_manifest_tensor *t, struct sn_box box)
{
    return sn_box_size(box) * (int64_t)sn_dtype_size(t->dtype);
}

/* Of how many blocks, the last one perhaps short. */
static inline int64_t sn_manifest_blocks(int64_t bytes, int64_t block)
{
    return bytes / block + (bytes % block != 0);
}

void sn_manifest_format(struct sn_str *out, const struct sn_manifest *m);
/* Its member of the JSON text; nothing where it is not known. */
void sn_manifest_format_tokenizer(struct sn_str *out, const struct sn_tokenizer_id *t);
/* `file` is used in messages only. Another schema version is SN_EINPUT, any damage SN_EIO. Whether
 * the pieces cover their tensors is not asked. */
enum sn_status sn_manifest_parse(struct sn_manifest *out, const char *text, size_t len,
                                 const char *file, struct sn_err *err);
/* Of a parsed, a merged or a planned one. */
void sn_manifest_fini(struct sn_manifest *m);

/* SN_EIO unless the pieces of every tensor cover it exactly once. */
enum sn_status sn_manifest_check_cover(const struct sn_manifest *m, const char *file,
                                       struct sn_err *err);
/* Join the lists of n writers: all their shards, and the pieces of equal names together. Strings
 * and hashes stay the lists'; scalars, texts and config_hash are left for the caller to fill. A
 * shard that several lists name one after the other (a single file) is one. Lists that differ on a
 * tensor's shape, its dtype or the size of blocks are SN_EFAIL. */
enum sn_status sn_manifest_merge(struct sn_manifest *out, const struct sn_manifest *lists, int n,
                                 const char *file, struct sn_err *err);

/* The name of the dataset that holds a box of t, into `out` of `size` bytes: "/model/NAME",
 * "/optim/exp_avg/NAME", with "@row,col" appended when the box is not all of t. SN_EINPUT for a
 * name that is no single member of a path, has an '@' or a '%', or is too long.
 * Datasets lie in a shard in the order of group, name (sn_manifest_order) and box (sn_box_order).
 */
enum sn_status sn_manifest_dataset(char *out, size_t size, const struct sn_manifest_tensor *t,
                                   struct sn_box box, struct sn_err *err);
/* For sorting: by group, then by name. */
int sn_manifest_order(const char *group_a, const char *name_a, const char *group_b,
                      const char *name_b);
/* May return NULL. */
const struct sn_manifest_tensor *sn_manifest_find(const struct sn_manifest *m, const char *group,
                                                  const char *name);
/* The tensor of a model; missing, or of another shape: SN_EINPUT. `dir`: of the checkpoint. */
enum sn_status sn_manifest_want(const struct sn_manifest *m, const char *dir,
                                const struct sn_state_shape *t,
                                const struct sn_manifest_tensor **out, struct sn_err *err);

#endif
