/*
 * hdf5.h - shards of a checkpoint as HDF5 files: fp32 matrices in contiguous datasets.
 *
 * HDF5 lays a file out, and our own pwrite fills it: a full disk is then met by a system call with
 * an errno, never inside the library (whose failed close leaves the file open for ever), and raw
 * writes at the dataset's offset reach the device's rate (facts/checkpoints.md 3.1).
 * HDF5 syncs nothing and hides its own error texts here; the caller syncs. A vector (one column) is
 * stored with one dimension, as people expect to see it.
 */
#ifndef SN_HDF5_H
#define SN_HDF5_H

#include "lib/base/err.h"

#include <stdint.h>

struct sn_h5_slot {
    char dataset[192]; /* "/model/layers.3.attn.q.weight" */
    int64_t rows, cols;
    uint64_t offset; /* out: where in the file its bytes belong */
};

struct sn_h5; /* a shard open for reading */

/* Turn off HDF5's file locks (they fail on some parallel file systems): sets the environment
 * variable HDF5_USE_FILE_LOCKING. Call before any thread exists. */
void sn_h5_setup(void);

/* Create the file with n empty datasets and say where their bytes go. */
enum sn_status sn_h5_layout(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err);

enum sn_status sn_h5_open(struct sn_h5 **out, const char *path, struct sn_err *err);
/* The whole dataset, which must be fp32 of exactly this shape. */
enum sn_status sn_h5_read(struct sn_h5 *h, const char *dataset, int64_t rows, int64_t cols,
                          float *out, struct sn_err *err);
void sn_h5_close(struct sn_h5 *h); /* NULL is allowed */

#endif
