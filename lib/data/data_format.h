/*
 * data_format.h - the bytes of the indexed format, for lib/data/data*.c and their tests alone.
 *
 * Everything in the files is little endian and nothing is aligned, so numbers go through memcpy.
 */
#ifndef SN_DATA_FORMAT_H
#define SN_DATA_FORMAT_H

#include "lib/data/data.h"
#include "lib/data/mask.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

enum { SN_IDX_HEADER_BYTES = 34 }; /* magic 9, version 8, dtype 1, sequences 8, document bounds 8 */
#define SN_IDX_MAGIC "MMIDIDX\0"   /* nine bytes with the literal's own NUL */

enum { SN_TOK_U8 = 1, SN_TOK_I8, SN_TOK_I16, SN_TOK_I32, SN_TOK_I64, SN_TOK_U16 = 8 };

struct sn_token_type {
    int code, size;
    int64_t max; /* the largest token, which is also at most INT32_MAX */
    const char *name;
};
/* NULL when the code does not stand for integers. */
const struct sn_token_type *sn_token_type_find(int code);
/* By name: u8, i8, u16, i16, i32, i64; u32 is read as i32. NULL when there is none. */
const struct sn_token_type *sn_token_type_named(const char *name);

static inline int32_t sn_le_i32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return (int32_t)le32toh(v);
}

static inline int64_t sn_le_i64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return (int64_t)le64toh(v);
}

static inline uint16_t sn_le_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

/* The token at p; code is one that sn_token_type_find knows. */
static inline int64_t sn_token_load(int code, const unsigned char *p)
{
    switch (code) {
    case SN_TOK_U8:
        return *p;
    case SN_TOK_I8:
        return (int8_t)*p;
    case SN_TOK_I16:
        return (int16_t)sn_le_u16(p);
    case SN_TOK_I32:
        return sn_le_i32(p);
    case SN_TOK_I64:
        return sn_le_i64(p);
    default:
        return sn_le_u16(p);
    }
}

/* Length of PREFIX without a final ".bin" or ".idx". */
size_t sn_data_prefix_length(const char *prefix);
/* PREFIX.SUFFIX, as all of a prefix are named; the caller's to free. NULL: no memory. */
char *sn_data_file_path(const char *prefix, const char *suffix);
/* Sentence for a file that could not be read (bad input, when its name is to blame);
 * sn_write_fail has those for writing. */
enum sn_status sn_data_read_fail(struct sn_err *err, const char *path, int errnum);

struct sn_data_mapped {
    char *path;
    unsigned char *bytes; /* NULL for an empty file */
    size_t len;
};
/* Map PREFIX.SUFFIX (suffix NULL: the file of this very name) for reading, opened as sn_open_files_get does;
 * `hint` says what would work where there is no such file. *m is zero; unmap it in any case. *fd (NULL: nobody
 * wants it) is the caller's to close. */
enum sn_status sn_data_map(struct sn_data_mapped *m, const char *prefix, const char *suffix,
                           const char *hint, struct sn_open_files *files, int *fd,
                           struct sn_err *err);
void sn_data_unmap(struct sn_data_mapped *m);

/* sn_data_check_index without what reads each entry: the tokens are those of the size of the .bin. */
enum sn_status sn_data_look_index(const void *idx, size_t len, int64_t bin_bytes, const char *name,
                                  struct sn_data_info *out, struct sn_err *err);
/* n bytes of an open file from byte `at` on. What fails may go well later: it is tried six times, in half a
 * minute, and each failure said. SN_EIO names the file and the byte, also where the file has become
 * shorter. */
enum sn_status sn_data_bytes(int fd, const char *path, void *out, size_t n, int64_t at,
                             struct sn_err *err);

/* Tokens of one index entry. */
int64_t sn_data_sequence_tokens(const struct sn_data *d, int64_t index);
/* Where they lie, as the file has them; sequences lie back to back. */
const unsigned char *sn_data_sequence_bytes(const struct sn_data *d, int64_t index);
/* Of the .bin, borrowed. */
const char *sn_data_path(const struct sn_data *d);
/* It will be read from its beginning to its end. */
void sn_data_read_in_order(const struct sn_data *d);
/* n tokens of a type, from p on, as numbers; those that int32 does not hold become -1. */
void sn_tokens_widen(int code, const unsigned char *p, int64_t n, int32_t *out);

/* --- a file that grows under a temporary name -------------------------------------------- */

enum { SN_DATA_BUFFER = 1 << 16 };

struct sn_data_file {
    char *path, *temporary;
    int fd;           /* -1: not open */
    bool unpublished; /* the temporary file is there and ours */
    int64_t written;  /* bytes in the file; those in the buffer come after them */
    size_t used;
    unsigned char *buffer;
};
/* f->fd must be -1 and the rest zero; destroy it in any case. */
enum sn_status sn_data_file_create(struct sn_data_file *f, const char *prefix, const char *suffix,
                                   struct sn_err *err);
void sn_data_file_destroy(struct sn_data_file *f); /* what was not published goes */
/* Make room for n more bytes (n <= SN_DATA_BUFFER) at f->buffer + f->used. */
enum sn_status sn_data_file_room(struct sn_data_file *f, size_t n, struct sn_err *err);
enum sn_status sn_data_file_flush(struct sn_data_file *f, struct sn_err *err);
/* Bytes behind what is there, however many. */
enum sn_status sn_data_file_put(struct sn_data_file *f, const void *bytes, size_t n,
                                struct sn_err *err);
/* Beside the buffer: at a place that was flushed. */
enum sn_status sn_data_file_write_at(struct sn_data_file *f, const void *bytes, size_t n,
                                     int64_t at, struct sn_err *err);
enum sn_status sn_data_file_read_at(const struct sn_data_file *f, void *bytes, size_t n, int64_t at,
                                    struct sn_err *err);
enum sn_status sn_data_file_truncate(struct sn_data_file *f, int64_t bytes, struct sn_err *err);
/* Flush, sync to the disk and close. */
enum sn_status sn_data_file_sync(struct sn_data_file *f, struct sn_err *err);
enum sn_status sn_data_file_publish(struct sn_data_file *f, struct sn_err *err);

/* --- writing a document piece by piece: append, append, end ------------------------------------
 * A document longer than 2^30 tokens becomes several sequences, because lengths are int32. */
enum sn_status sn_data_writer_append(struct sn_data_writer *w, const int32_t *tokens, int64_t n,
                                     struct sn_err *err);
/* Of a writer with a mask: for each token, not 0 where it counts as a target. With a mask and
 * without counts (NULL; also sn_data_writer_append) all count. */
enum sn_status sn_data_writer_append_masked(struct sn_data_writer *w, const int32_t *tokens,
                                            const uint8_t *counts, int64_t n, struct sn_err *err);
enum sn_status sn_data_writer_end(struct sn_data_writer *w, struct sn_err *err);
/* n tokens (at most INT32_MAX a sequence) as the writer's own type has them, unchecked; counts as
 * above. And the end of a sequence that does not end its document. */
enum sn_status sn_data_writer_append_bytes(struct sn_data_writer *w, const unsigned char *p,
                                           const uint8_t *counts, int64_t n, struct sn_err *err);
enum sn_status sn_data_writer_end_sequence(struct sn_data_writer *w, struct sn_err *err);
/* A document of another file, sequence for sequence, as the writer's type. */
struct sn_data_document {
    const struct sn_data *data;
    const struct sn_data_mask *mask; /* of the file; NULL: none */
    int64_t number;
    const unsigned char *p; /* where its tokens lie, as data has them; NULL: in data */
};
/* SN_EINPUT names a token that the type does not hold. */
enum sn_status sn_data_writer_copy(struct sn_data_writer *w, const struct sn_data_document *d,
                                   struct sn_err *err);
/* Tokens of the document that is being written. */
int64_t sn_data_writer_open_tokens(const struct sn_data_writer *w);
void sn_data_writer_info(const struct sn_data_writer *w, struct sn_data_info *out);
/* Cut documents into sequences of at most n tokens from here on (1 .. 2^30). */
void sn_data_writer_limit(struct sn_data_writer *w, int64_t n);
/* Write and sync everything under temporary names, so that finish has only to rename. */
enum sn_status sn_data_writer_seal(struct sn_data_writer *w, struct sn_err *err);
/* Move the last `fraction` of the tokens to a new writer of PREFIX: from the nearest document
 * boundary if that changes the share by a tenth at most, else from the exact token. Between
 * documents only. Caller destroys *out. */
enum sn_status sn_data_writer_split(struct sn_data_writer *w, double fraction, const char *prefix,
                                    struct sn_data_writer **out, struct sn_err *err);

#endif
