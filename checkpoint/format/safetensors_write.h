/*
 * safetensors_write.h - writing one safetensors file from its first byte to its last, in whatever
 * blocks the caller has.
 *
 * Knows no model. Order and header are those of the field's own library: larger types first, then
 * by name; the header is padded with spaces so that the data begin at a multiple of 8.
 */
#ifndef SN_SAFETENSORS_WRITE_H
#define SN_SAFETENSORS_WRITE_H

#include "kernels/tensor.h"
#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct sn_st_entry {
    const char *name;
    enum sn_dtype dtype; /* SN_F32, SN_BF16, SN_F16 */
    int rank;            /* 1 to 3 */
    int64_t shape[3];
    int64_t bytes; /* out */
    int tag;       /* the caller's: which one it is after sorting */
};

/* The format's word for it: "BF16". */
const char *sn_st_dtype_name(enum sn_dtype t);

struct sn_st_writer;
/* Sort the n entries into the file's order, create the file with room for all of them, and write
 * the header. `path` is copied. */
enum sn_status sn_st_create(struct sn_st_writer **out, const char *path, struct sn_st_entry *list,
                            int n, struct sn_err *err);
/* The next bytes of the data: the entries' values one after the other, row by row. */
enum sn_status sn_st_put(struct sn_st_writer *w, const void *p, size_t bytes, struct sn_err *err);
/* Sync and close; fewer bytes than announced are SN_EFAIL. *bytes is the file's size. Frees w also
 * on failure. */
enum sn_status sn_st_finish(struct sn_st_writer *w, int64_t *bytes, struct sn_err *err);
void sn_st_abandon(struct sn_st_writer *w); /* close; the file stays; NULL is allowed */

#endif
