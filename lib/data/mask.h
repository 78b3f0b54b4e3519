/*
 * mask.h - which tokens count as targets: PREFIX.mask, beside PREFIX.bin.
 *
 * Little endian: at byte 0 the eight bytes "SNTMASK" and NUL, at 8 u64 the version, 1, at 16 u64 T,
 * the tokens of the .bin, at 24 u64 how many of them count, at 32 the T bits, 1 for a token that
 * counts: token k is bit k mod 8 (of value 1 << k mod 8) of byte 32 + k / 8. The bits behind the
 * last token are 0, and nothing follows them.
 *
 * Knows nothing of samples: which of a step's targets a token is, is the loader's arithmetic.
 */
#ifndef SN_DATA_MASK_H
#define SN_DATA_MASK_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- reading ----------------------------------------------------------------------------- */

struct sn_open_files;
struct sn_data_mask; /* an open one: mapped, never read as a whole */

/* Is there a file PREFIX.mask? PREFIX may end in .bin or .idx. */
bool sn_data_mask_exists(const char *prefix);
/* Open PREFIX.mask of a .bin of so many tokens; `files` as for sn_data_open_shared. SN_EINPUT names the file, the byte and what is wrong:
 * another magic, version, number of tokens or length. Caller closes. */
enum sn_status sn_data_mask_open(struct sn_data_mask **out, const char *prefix, int64_t tokens,
                                 struct sn_open_files *files, struct sn_err *err);
void sn_data_mask_close(struct sn_data_mask *m); /* NULL is allowed */
/* Check a mask held in memory; name is its file's. */
enum sn_status sn_data_mask_check(const void *bytes, size_t len, int64_t tokens, const char *name,
                                  struct sn_err *err);
/* What the header says of the whole file. */
int64_t sn_data_mask_counted(const struct sn_data_mask *m);
/* How many of the tokens first .. first + n - 1 count; all of them are in the file. */
int64_t sn_data_mask_count(const struct sn_data_mask *m, int64_t first, int64_t n);
/* The first of them that counts; first + n: none does. */
int64_t sn_data_mask_first(const struct sn_data_mask *m, int64_t first, int64_t n);
/* 1 or 0 for each of them. */
void sn_data_mask_read(const struct sn_data_mask *m, int64_t first, int64_t n, uint8_t *counts);

/* --- writing ----------------------------------------------------------------------------- */

/* A mask that grows under a temporary name: append, append, seal, publish. lib/data/data.h writes one
 * beside its tokens. */
struct sn_data_mask_writer;
enum sn_status sn_data_mask_writer_create(struct sn_data_mask_writer **out, const char *prefix,
                                          struct sn_err *err);
void sn_data_mask_writer_destroy(struct sn_data_mask_writer *w); /* what was not published goes */
int64_t sn_data_mask_writer_tokens(const struct sn_data_mask_writer *w);
/* For n more tokens, not 0: this one counts. */
enum sn_status sn_data_mask_writer_append(struct sn_data_mask_writer *w, const uint8_t *counts,
                                          int64_t n, struct sn_err *err);
/* The tokens first .. first + n - 1 of another one, which is not sealed. */
enum sn_status sn_data_mask_writer_copy(struct sn_data_mask_writer *w,
                                        struct sn_data_mask_writer *from, int64_t first, int64_t n,
                                        struct sn_err *err);
/* Keep the first `tokens`. */
enum sn_status sn_data_mask_writer_truncate(struct sn_data_mask_writer *w, int64_t tokens,
                                            struct sn_err *err);
/* Write header and rest, sync. */
enum sn_status sn_data_mask_writer_seal(struct sn_data_mask_writer *w, struct sn_err *err);
/* Give the sealed file its name. */
enum sn_status sn_data_mask_writer_publish(struct sn_data_mask_writer *w, struct sn_err *err);
/* Tokens are written to PREFIX without a mask: one that lies there is another file's and goes. */
enum sn_status sn_data_mask_remove(const char *prefix, struct sn_err *err);

#endif
