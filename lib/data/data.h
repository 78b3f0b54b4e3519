/*
 * data.h - token files in Megatron's indexed format, and which sample belongs to which step.
 *
 * The .bin file is mapped, never read as a whole. Sample i is the tokens [i S, i S + S] of the
 * concatenated file (S inputs, targets shifted by one), so there are (tokens - 1) / S samples.
 */
#ifndef SN_DATA_H
#define SN_DATA_H

#include "lib/base/err.h"
#include "lib/config/config.h"

#include <stdint.h>

struct sn_data; /* an open pair of files */

struct sn_data_info {
    int dtype_code;    /* Megatron's: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16 */
    int64_t sequences; /* entries of the index */
    int64_t documents;
    int64_t tokens;
};

/* Open PREFIX.idx and PREFIX.bin; every field of the index is checked against the file sizes.
 * SN_EINPUT names the file, the byte offset and what is wrong. Caller closes. */
enum sn_status sn_data_open(struct sn_data **out, const char *prefix, struct sn_err *err);
/* The same of files that are open already, or are to be passed on (NULL: neither). Without `checks`
 * somebody else has checked the index: of it the header and the counts alone are, with the sizes of the
 * files. `files` is borrowed until the last of these calls. */
struct sn_open_files;
enum sn_status sn_data_open_shared(struct sn_data **out, const char *prefix, bool checks,
                                   struct sn_open_files *files, struct sn_err *err);
void sn_data_close(struct sn_data *d); /* NULL is allowed */
/* Its mask too (lib/data/mask.h), which closes with it; SN_EINPUT where there is none, or a wrong one. */
struct sn_data_mask;
enum sn_status sn_data_open_mask(struct sn_data *d, struct sn_open_files *files,
                                 struct sn_err *err);
const struct sn_data_mask *sn_data_mask(const struct sn_data *d); /* NULL: not opened */
/* Or its features (lib/data/features.h). */
struct sn_features;
struct sn_features_shape;
enum sn_status sn_data_open_features(struct sn_data *d, struct sn_features_shape want,
                                     struct sn_open_files *files, struct sn_err *err);
const struct sn_features *sn_data_features(const struct sn_data *d); /* NULL: not opened */
void sn_data_info(const struct sn_data *d, struct sn_data_info *out);
/* Check an index held in memory (what the fuzzer calls); bin_bytes is the size of the .bin. */
enum sn_status sn_data_check_index(const void *idx, size_t len, int64_t bin_bytes, const char *name,
                                   struct sn_data_info *out, struct sn_err *err);

int64_t sn_data_samples(const struct sn_data *d, int64_t seq);
/* Copy sample i: inputs[seq] and targets[seq]. A token outside 0 .. vocab-1 is SN_EINPUT, with its
 * position in the file. No allocation. */
enum sn_status sn_data_read(const struct sn_data *d, int64_t i, int64_t seq, int32_t vocab,
                            int32_t *inputs, int32_t *targets, struct sn_err *err);
/* Is a token outside 0 .. vocab-1? Looks at all of a file of at most `bytes`, else at blocks of
 * that many in all, spread evenly from its first token to its last. SN_EINPUT as sn_data_read. */
enum sn_status sn_data_scan(const struct sn_data *d, int32_t vocab, int64_t bytes,
                            struct sn_err *err);
/* Tokens of one index entry, for printing: returns how many were copied (at most cap). */
int64_t sn_data_sequence(const struct sn_data *d, int64_t index, int64_t *tokens, int64_t cap);
/* Range [*first, *end) of index entries that form document doc. */
void sn_data_document(const struct sn_data *d, int64_t doc, int64_t *first, int64_t *end);
/* The first token of a document, or of what would follow the last (doc = documents); of an empty one
 * that of the next. And the document that a token of the file is of. */
int64_t sn_data_document_token(const struct sn_data *d, int64_t doc);
int64_t sn_data_document_of(const struct sn_data *d, int64_t token);

/* Which sample of a file is its `number`-th of the run (from 0; lib/config/batch.h and lib/data/blend.h
 * say which numbers a step takes): sequential takes it modulo the samples; shuffled maps it through a
 * permutation of (seed, set, epoch), epoch = number / samples. A function of its arguments alone. */
int64_t sn_data_sample_of(enum sn_order order, uint64_t seed, int set, int64_t samples,
                          int64_t number);

/* Writing: add documents, then finish. Files appear under their names only when finish succeeds. */
struct sn_data_writer;
enum sn_status sn_data_writer_create(struct sn_data_writer **out, const char *prefix,
                                     int dtype_code, struct sn_err *err);
enum sn_status sn_data_writer_add(struct sn_data_writer *w, const int32_t *tokens, int64_t n,
                                  struct sn_err *err); /* one document of one sequence */
/* Write PREFIX.mask too (lib/data/mask.h); before the first token, with the same prefix. A writer
 * without one removes a PREFIX.mask that is there when it finishes. */
enum sn_status sn_data_writer_add_mask(struct sn_data_writer *w, const char *prefix,
                                       struct sn_err *err);
enum sn_status sn_data_writer_finish(struct sn_data_writer *w, struct sn_err *err);
void sn_data_writer_destroy(struct sn_data_writer *w); /* NULL is allowed; unfinished files go */

#endif
