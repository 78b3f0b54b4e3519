/*
 * hdf5.h - shards and the master of a checkpoint as HDF5 files.
 *
 * HDF5 lays a file out, and our own pwrite fills it: a full disk is then met by a system call with
 * an errno, never inside the library (whose failed close leaves the file open for ever), and raw
 * writes at the dataset's offset reach the device's rate. Reading is the same:
 * HDF5 says where a dataset's bytes are, our own pread fetches them.
 * HDF5 syncs nothing; the caller syncs shards. A vector (one column) is
 * stored with one dimension, as people expect to see it.
 *
 * bf16 and fp16 are HDF5 types built by hand, so that 1.10 and later write and read the same files.
 */
#ifndef SN_HDF5_H
#define SN_HDF5_H

#include "kernels/tensor.h"
#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum { SN_H5_NAME_MAX = 192 };

struct sn_h5_slot {
    char dataset[SN_H5_NAME_MAX]; /* "/model/layers.3.attn.q.weight" */
    int64_t rows, cols;
    enum sn_dtype dtype; /* SN_F32, SN_BF16, SN_F16 */
    uint64_t offset;     /* out: where in the file its bytes belong; from 64 KiB on a multiple of
                            4096 */
};

struct sn_h5; /* a file open for reading */

/* Turn off HDF5's file locks (they fail on some parallel file systems) and what redirects virtual
 * datasets (HDF5_VDS_PREFIX): changes the environment. Call before any thread exists. */
void sn_h5_setup(void);

/* Create the file with n empty datasets and say where their bytes go. */
enum sn_status sn_h5_layout(const char *path, int n, struct sn_h5_slot *slots, struct sn_err *err);

enum sn_status sn_h5_open(struct sn_h5 **out, const char *path, struct sn_err *err);
/* Where the bytes of slot->dataset begin: fills slot->offset. SN_EIO unless it is one contiguous
 * dataset without filters, of exactly the slot's shape and type, in this very file (no external
 * link, no external storage, not virtual), and inside the file's size. Nothing in the file is
 * believed. */
enum sn_status sn_h5_locate(struct sn_h5 *h, struct sn_h5_slot *slot, struct sn_err *err);
/* The same for n datasets of one file. */
enum sn_status sn_h5_locate_all(const char *path, int n, struct sn_h5_slot *slots,
                                struct sn_err *err);
void sn_h5_close(struct sn_h5 *h); /* NULL is allowed */

/* --- the master: virtual datasets over shards beside it --------------------------------------- */

/* A box of a virtual dataset and where its values are: at_row, at_col of a dataset of set_rows x
 * set_cols in `file` (a name without folder). */
struct sn_h5_map {
    int64_t row, col, rows, cols;
    const char *file, *dataset;
    int64_t at_row, at_col, set_rows, set_cols;
};
struct sn_h5_virtual {
    char dataset[SN_H5_NAME_MAX];
    int64_t rows, cols;
    enum sn_dtype dtype;
    int n_maps;
    const struct sn_h5_map *maps;
};
struct sn_h5_attribute {
    const char *name, *text;
};
struct sn_h5_master {
    int n_sets, n_attributes;
    const struct sn_h5_virtual *sets;
    const struct sn_h5_attribute *attributes;
};
/* A file in memory; who made it frees p with sn_free. */
struct sn_h5_image {
    char *p;
    size_t bytes;
};
/* Make the file: virtual datasets with NaN where no source is found, and text attributes of the
 * root. The same contents are the same bytes. `path` is for sentences. */
enum sn_status sn_h5_make_master(struct sn_h5_image *out, const struct sn_h5_master *master,
                                 const char *path, struct sn_err *err);
/* SN_EIO unless the file holds exactly what sn_h5_make_master would have made for `set`. */
enum sn_status sn_h5_check_virtual(struct sn_h5 *h, const struct sn_h5_virtual *set,
                                   struct sn_err *err);

#endif
