/*
 * parquet_inner.h - what the files of lib/texts/parquet*.c share.
 *
 *   parquet.c         the file's end: schema, row groups, columns that are asked for
 *   parquet_page.c    a column's pages, one after another, into levels and values
 *   parquet_values.c  encodings of both
 *   parquet_rows.c    columns put together to rows
 */
#ifndef SN_PARQUET_INNER_H
#define SN_PARQUET_INNER_H

#include "lib/texts/parquet.h"
#include "lib/texts/thrift.h"

enum { SN_PQ_DEPTH = 32, SN_PQ_PAGE_MAX = 1 << 28, SN_PQ_ENTRIES_MAX = 1 << 23 };

/* Physical types; a group has none. */
enum sn_pq_type {
    SN_PQ_GROUP = -1,
    SN_PQ_BOOLEAN,
    SN_PQ_INT32,
    SN_PQ_INT64,
    SN_PQ_INT96,
    SN_PQ_FLOAT,
    SN_PQ_DOUBLE,
    SN_PQ_BYTES,
    SN_PQ_FIXED
};
enum sn_pq_repetition { SN_PQ_REQUIRED, SN_PQ_OPTIONAL, SN_PQ_REPEATED };

/* Of the schema, in the order of the file: a node, then what is below it. */
struct sn_pq_node {
    const char *name; /* in the footer */
    size_t name_len;
    enum sn_pq_type type;
    enum sn_pq_repetition repetition;
    int children;
    int converted, logical; /* annotations' numbers; -1: none */
    int end;                /* the node behind what is below it */
    int leaf, leaves;       /* columns of the file that are below it, from `leaf` on */
    unsigned max_def, max_rep;
};

struct sn_pq_value {
    const char *text;
    union {
        size_t len; /* of the text */
        int64_t integer;
        double real;
    };
};

/* The part of a row group that a column has. */
struct sn_pq_chunk {
    int64_t at, bytes; /* in the file, with its dictionary */
    int64_t values;
    int codec;
};

struct sn_pq_column {
    const struct sn_pq_node *node;
    const char *file; /* name, for sentences */
    int fd;
    int64_t at, end, left; /* of the chunk: bytes and entries that are still to come */
    int codec;
    struct sn_bytes head, packed, page, dictionary_bytes, built;
    struct sn_pq_value *dictionary, *value; /* value: of the page, those that are there */
    uint32_t *def, *rep, *index;            /* of the page */
    int dictionary_n, n, i, v; /* entries of the page, and where a reader is; values passed */
    int dictionary_room, room;
};

struct sn_parquet {
    const char *name;
    int fd;
    struct sn_bytes footer;
    struct sn_pq_node *node;
    int nodes, leaves, groups, columns;
    int shown[8], n_shown; /* nodes that were asked for */
    int *column_of;        /* by leaf; -1: nobody asked */
    struct sn_pq_column *column;
    struct sn_pq_chunk *chunk; /* by row group, then column */
    int64_t *rows;             /* by row group */
    int group;                 /* the next one */
    int64_t left;              /* rows of the one before it */
};

enum sn_status sn_pq_no_memory(const char *name, struct sn_err *err);

/* --- parquet_values.c: NULL, or false, where the bytes are not what they should be ------------ */

/* n numbers of `width` bits in runs and bit-packed groups; where they end. */
const unsigned char *sn_pq_runs(const unsigned char *p, const unsigned char *end, int width, int n,
                                uint32_t *out);
/* n values of a type. `built` gets the texts that are put together (DELTA_BYTE_ARRAY). */
bool sn_pq_plain(enum sn_pq_type type, const unsigned char *p, const unsigned char *end, int n,
                 struct sn_pq_value *out);
bool sn_pq_delta_integers(enum sn_pq_type type, const unsigned char *p, const unsigned char *end,
                          int n, struct sn_pq_value *out);
bool sn_pq_delta_lengths(const unsigned char *p, const unsigned char *end, int n,
                         struct sn_pq_value *out);
/* `length`: room for n. *no_memory where there is none. */
bool sn_pq_delta_texts(const unsigned char *p, const unsigned char *end, int n,
                       struct sn_pq_value *out, uint32_t *length, struct sn_bytes *built,
                       bool *no_memory);

/* --- parquet_page.c --------------------------------------------------------------------------- */

void sn_pq_column_begin(struct sn_pq_column *c, const struct sn_pq_chunk *chunk);
/* Have an entry at c->i, of the next page where this one is at its end. *any: there was one. */
enum sn_status sn_pq_column_look(struct sn_pq_column *c, bool *any, struct sn_err *err);
enum sn_status sn_pq_column_fail(const struct sn_pq_column *c, const char *what,
                                 struct sn_err *err);
void sn_pq_column_fini(struct sn_pq_column *c);

/* --- snappy.c, or snappy_none.c --------------------------------------------------------------- */

/* `len` bytes of `out` exactly, else false. SN_EINPUT: a build without the library. */
enum sn_status sn_snappy_unpack(const char *in, size_t n, char *out, size_t len, bool *good,
                                const char *name, struct sn_err *err);

#endif
