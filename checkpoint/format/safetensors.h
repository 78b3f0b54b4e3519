/*
 * safetensors.h - reading the field's weight files: one file, or several with an index.
 *
 * Files come from outside, so nothing in them is trusted: sizes, offsets and names are checked
 * before the first tensor is handed out. Values are read from the files when they are asked for.
 * Knows no model.
 */
#ifndef SN_SAFETENSORS_H
#define SN_SAFETENSORS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SN_ST_RANK_MAX = 8 };

struct sn_st_file;

struct sn_st_tensor {
    const char *name;
    const char *dtype; /* the file's word: "BF16" */
    const char *file;  /* for messages */
    int rank;
    int64_t shape[SN_ST_RANK_MAX];
    const struct sn_st_file *in;
    uint64_t offset; /* of its values in the file: C order, little endian, any alignment */
    size_t bytes;
};

/* A tensor as a matrix: its first dimension by all the others; a vector is one column. */
struct sn_st_box {
    int64_t row, rows, col, cols;
};

struct sn_safetensors; /* owns the open files, names and tensors */

/* `path` is a .safetensors file, a .safetensors.index.json, or a directory with
 * model.safetensors.index.json or model.safetensors in it. Caller closes *out. */
enum sn_status sn_safetensors_open(struct sn_safetensors **out, const char *path,
                                   struct sn_err *err);
/* One file's bytes in memory, borrowed; `name` is used in messages. */
enum sn_status sn_safetensors_parse(struct sn_safetensors **out, const void *p, size_t len,
                                    const char *name, struct sn_err *err);
void sn_safetensors_close(struct sn_safetensors *st); /* NULL is allowed */

int sn_safetensors_count(const struct sn_safetensors *st);
const struct sn_st_tensor *sn_safetensors_get(const struct sn_safetensors *st, int i); /* by name */
/* May return NULL. */
const struct sn_st_tensor *sn_safetensors_find(const struct sn_safetensors *st, const char *name);

/* Bits of a dtype of the format; 0 for a word that it does not know. */
int sn_st_dtype_bits(const char *name);
int64_t sn_st_rows(const struct sn_st_tensor *t);
int64_t sn_st_cols(const struct sn_st_tensor *t);
/* "[768, 2304]"; buf of at least 192 bytes; returns buf. */
enum { SN_ST_SHAPE_MAX = 192 };
const char *sn_st_shape(char buf[SN_ST_SHAPE_MAX], const struct sn_st_tensor *t);

/* The box as fp32, rows ld values apart. F64, F32, F16 and BF16 are read; F64 rounds to nearest. */
enum sn_status sn_safetensors_read(const struct sn_st_tensor *t, const struct sn_st_box *box,
                                   float *out, int64_t ld, struct sn_err *err);
/* Have both the same type and the same values, bit for bit? */
enum sn_status sn_safetensors_same(const struct sn_st_tensor *a, const struct sn_st_tensor *b,
                                   bool *same, struct sn_err *err);

#endif
