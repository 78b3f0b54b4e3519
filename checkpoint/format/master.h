/*
 * master.h - master.h5 of a checkpoint: every logical tensor as one virtual dataset over the shards
 * beside it, for h5ls, h5py and people.
 *
 * sennit never reads through it: HDF5 shows fill values in silence where a shard is missing. Older
 * schemas have no master, and a single file is its own.
 */
#ifndef SN_MASTER_H
#define SN_MASTER_H

#include "checkpoint/format/manifest.h"

#include <stdbool.h>

#define SN_MASTER_NAME "master.h5"

/* Does a checkpoint of this manifest have one beside its shards? */
bool sn_master_is_due(const struct sn_manifest *m);
/* Write and sync DIR/master.h5, and say what was written; nothing, and zeros, when none is due. */
enum sn_status sn_master_write(const char *dir, const struct sn_manifest *m,
                               struct sn_manifest_master *out, struct sn_err *err);
/* SN_EIO unless DIR/master.h5 has the very bytes that were written: those of the manifest's size
 * and hash. Where the manifest does not say, those that are written for it today. HDF5 does not see
 * the file, so that it may be anything. */
enum sn_status sn_master_prove(const char *dir, const struct sn_manifest *m, struct sn_err *err);

/* A master that is checked tensor by tensor. `m` must outlive it. */
struct sn_master;
enum sn_status sn_master_open(struct sn_master **out, const char *dir, const struct sn_manifest *m,
                              struct sn_err *err);
/* SN_EIO unless it shows tensor number i of the manifest, from the right places of the right
 * shards. */
enum sn_status sn_master_check(struct sn_master *v, int i, struct sn_err *err);
void sn_master_close(struct sn_master *v); /* NULL is allowed */

#endif
