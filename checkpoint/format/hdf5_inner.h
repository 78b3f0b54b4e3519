/*
 * hdf5_inner.h - what hdf5.c and hdf5_master.c share. For these two alone: it needs HDF5's header.
 */
#ifndef SN_HDF5_INNER_H
#define SN_HDF5_INNER_H

#include "checkpoint/format/hdf5.h"

#include <hdf5.h>
#include <stdbool.h>

struct sn_h5 {
    hid_t file;
    hid_t type[SN_F16 + 1]; /* by dtype */
    uint64_t bytes;         /* of the file */
    char *path;
};

/* HDF5 prints its stack to stderr unless told not to, per thread. And at exit it closes what it
 * believes open: after a close that failed for lack of space, 1.10 dies of that (SIGSEGV in
 * H5F__close_cb), so it is told not to; all our files are closed by then. */
void sn_h5_silence(void);
/* HDF5 1.10 does not survive an allocation that fails: it dies of its own clean-up. So what it will
 * need is set aside before (measured: tests/unit/checkpoint/test_hdf5_memory.c), or nothing is begun. Released
 * with sn_mem_release. SN_ENOMEM. */
enum sn_status sn_h5_reserve(void **reserve, size_t bytes, const char *path, struct sn_err *err);
enum {
    SN_H5_BASE = 1536 << 10, /* bytes for the library and an open file, */
    SN_H5_SLOT = 6 << 10,    /* for each dataset of a file that is laid out, */
    SN_H5_MAP = 48 << 10,    /* for each mapping of the virtual dataset under way */
    SN_H5_LOOK = 512 << 10   /* and for looking at one dataset */
};
/* Close an object without losing the reason of what failed before. */
void sn_h5_drop(herr_t (*close)(hid_t), hid_t id);
/* SN_EIO, with HDF5's reason. Must follow the failed call at once:
 * the next one clears the record. */
enum sn_status sn_h5_fail(struct sn_err *err, const char *path, const char *dataset,
                          const char *doing);

/* Fresh objects, negative on failure. */
hid_t sn_h5_access(void); /* properties of opening a file: format, alignment */
hid_t sn_h5_create(const char *path, hid_t access);
hid_t sn_h5_shape(int64_t rows, int64_t cols);
bool sn_h5_make_types(hid_t type[SN_F16 + 1]);
void sn_h5_close_types(const hid_t type[SN_F16 + 1]);

/* Make the groups of a dataset that are not there yet. Nothing here has time stamps: equal contents
 * are equal bytes. */
bool sn_h5_make_groups(hid_t file, const char *dataset);

/* Every member of the path must be a plain link, so that opening it cannot lead
 * into another file. */
enum sn_status sn_h5_check_links(const struct sn_h5 *h, const char *dataset, struct sn_err *err);
/* Open the dataset, its links checked; the caller closes *out. */
enum sn_status sn_h5_open_set(hid_t *out, const struct sn_h5 *h, const char *dataset,
                              struct sn_err *err);
/* The slot's shape and type; refuses what HDF5 would convert or cut in silence. */
enum sn_status sn_h5_check_values(const struct sn_h5 *h, hid_t set, const struct sn_h5_slot *s,
                                  struct sn_err *err);

#endif
