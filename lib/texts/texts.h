/*
 * texts.h - texts on the disk: which files are meant, and their bytes, unpacked.
 */
#ifndef SN_TEXTS_H
#define SN_TEXTS_H

#include "lib/base/err.h"
#include "lib/texts/parquet.h"
#include "lib/texts/unpack.h"

#include <stdbool.h>
#include <stdint.h>

struct sn_texts_file {
    char *path;
    int64_t bytes; /* on the disk */
    bool is_json;  /* JSON lines, or rows that are read as such, by its name */
};
struct sn_texts_list {
    struct sn_texts_file *list;
    int n, cap;
};
/* The files that names mean: a file; all below a directory whose names end as texts do (.txt, .md,
 * .jsonl, .json, .ndjson, with .gz or .zst behind or not; .parquet), in the order of bytes; what a pattern with
 * * ? [] fits, for names that the shell left alone. SN_EINPUT names what means none. */
enum sn_status sn_texts_find(struct sn_texts_list *out, char *const *names, int n,
                              struct sn_err *err);
void sn_texts_list_fini(struct sn_texts_list *l);

struct sn_texts {
    const char *name; /* borrowed */
    int fd;
    struct sn_unpacker unpacker;
    bool mid_stream; /* a packed stream is not at its end */
    bool ended;
    size_t from, to; /* of what was read and not yet given */
    int64_t offset;  /* bytes read */
    char *buffer;
    struct sn_parquet *rows; /* NULL: no Parquet file */
    struct sn_bytes lines;   /* of rows, from `from` to `to` */
};
/* Packed files are known by their first bytes, whatever their names. So are Parquet files, whose columns
 * `want` says are given as JSON lines. What else is no text is refused as by
 * sn_data_kind_check. The caller closes in any case. */
enum sn_status sn_texts_open(struct sn_texts *s, const char *name,
                             const struct sn_parquet_want *want, struct sn_err *err);
/* Up to `room` bytes; 0: the end. SN_EINPUT: the packed stream is damaged or cut short. */
enum sn_status sn_texts_read(struct sn_texts *s, char *out, size_t room, size_t *got,
                              struct sn_err *err);
void sn_texts_close(struct sn_texts *s);

#endif
