/*
 * tokenize.h - texts into a pair of token files, by a tokenizer.
 *
 * Each input file becomes a part, a pair of files of its own; when all are there, they are put
 * together as DIR/tokens. What was interrupted goes on with the first file that has no part. Parts
 * hold documents in the order of the input, so the number of workers changes nothing.
 */
#ifndef SN_DATA_TOKENIZE_H
#define SN_DATA_TOKENIZE_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/data/data.h"
#include "lib/data/data_build.h"
#include "lib/token/bytes.h"

#include <stdbool.h>

struct sn_tokenize {
    char *const *inputs; /* files, directories, patterns */
    int n_inputs;
    const char *tokenizer;   /* its file */
    const char *out;         /* a directory, made where it lacks */
    const char *field;       /* of JSON lines */
    const char *begin, *end; /* tokens by their text; NULL: none */
    bool special;
    enum sn_data_documents documents; /* of plain text */
    int workers;
    int64_t skip_bad; /* how many documents may be left out */
    int stop_fd;      /* the work ends when this becomes readable; -1: never */
};
struct sn_tokenized {
    struct sn_data_info info;
    int files, kept; /* kept: parts that were there already */
    int64_t bytes, skipped;
    bool was_done; /* all of it was there already */
};
enum sn_status sn_tokenize(const struct sn_tokenize *want, struct sn_tokenized *out,
                           struct sn_err *err);

/* The text of tokens, by the tokenizer that PREFIX's are of; *has_text is false where nobody knows
 * it. */
enum sn_status sn_tokenize_text(const char *prefix, const int64_t *tokens, int64_t n,
                                bool *has_text, struct sn_bytes *out, struct sn_err *err);

#endif
