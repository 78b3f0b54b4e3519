/*
 * parquet.h - the rows of a Parquet file as lines of JSON, with the columns that are asked for.
 *
 * Read are (format 2, https://parquet.apache.org/docs/file-format) pages of both versions, plain, by
 * dictionary and delta-coded, packed with snappy, gzip, zstd or not; columns of texts, numbers and
 * truth values, alone, in structs and in lists of any depth. What else there is is refused by name. A
 * page of each column is in memory.
 */
#ifndef SN_PARQUET_H
#define SN_PARQUET_H

#include "lib/base/err.h"
#include "lib/token/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* Columns by name. Of the first `needed` one at least must be there; of the others those that are. */
struct sn_parquet_want {
    const char *name[8];
    int n, needed;
};

struct sn_parquet;
/* fd and name are borrowed until the close. SN_EINPUT names what is damaged or not read, and the
 * columns that there are where none is asked for. The caller closes. */
enum sn_status sn_parquet_open(struct sn_parquet **out, int fd, const char *name,
                               const struct sn_parquet_want *want, struct sn_err *err);
/* Further rows behind what is in `lines`, until it has `goal` bytes; nothing more: the end. */
enum sn_status sn_parquet_read(struct sn_parquet *p, struct sn_bytes *lines, size_t goal,
                               struct sn_err *err);
void sn_parquet_close(struct sn_parquet *p); /* NULL is allowed */

#endif
