/*
 * features.h - what another encoder gives of each sample: PREFIX.npy, beside PREFIX.bin.
 *
 * NumPy's format (numpy.lib.format, versions 1 to 3): little-endian float32 or float16, in C order, of shape
 * [entries, rows, size], or [entries, size] where an entry is one row. Entry n is that of document n, and
 * a document is one sample: model.seq tokens, of which the first ones only hold the place of what
 * train.prompt puts there. The last document may be shorter: samples want the token behind their last
 * one.
 */
#ifndef SN_FEATURES_H
#define SN_FEATURES_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sn_features; /* an open file: mapped, never read as a whole */
struct sn_open_files;

/* Of an entry. */
struct sn_features_shape {
    int64_t rows, size;
};

/* Open such a file, whose entries have this shape; `files` as for sn_data_open_shared. SN_EINPUT names the
 * file and what is wrong. Caller closes. */
enum sn_status sn_features_open(struct sn_features **out, const char *path,
                                struct sn_features_shape want, struct sn_open_files *files,
                                struct sn_err *err);
void sn_features_close(struct sn_features *f); /* NULL is allowed */
int64_t sn_features_entries(const struct sn_features *f);
const char *sn_features_path(const struct sn_features *f); /* borrowed */
/* The rows x size numbers of an entry that is there. SN_EINPUT: one of them is not finite. */
enum sn_status sn_features_read(const struct sn_features *f, int64_t entry, float *out,
                                struct sn_err *err);
/* *path is that of the features beside these tokens, and the caller's to free; NULL: there are none. */
enum sn_status sn_features_find(char **path, const char *prefix, struct sn_err *err);
/* Check a file held in memory (what a test calls): *entries, and where the first begins. */
struct sn_features_layout {
    int64_t entries;
    size_t first; /* byte */
    int width;    /* bytes of a number */
};
enum sn_status sn_features_check(struct sn_features_layout *out, const void *bytes, size_t len,
                                 struct sn_features_shape want, const char *name,
                                 struct sn_err *err);

#endif
