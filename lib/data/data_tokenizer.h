/*
 * data_tokenizer.h - which tokenizer the tokens of a prefix are of.
 *
 * The record of sennit-data tokenize, DIR/tokenize.jsonl, lies beside the tokens, and so does the
 * tokenizer's file. Token files that somebody else made have no record: nobody knows.
 */
#ifndef SN_DATA_TOKENIZER_H
#define SN_DATA_TOKENIZER_H

#include "lib/base/tokenizer_id.h"
#include "lib/config/config.h"
#include "lib/token/tokenizer.h"

/* SN_EINPUT: the record is damaged. */
enum sn_status sn_data_tokenizer_find(struct sn_tokenizer_id *out, const char *prefix,
                                      struct sn_err *err);
/* Of all that a run file names and is on this host. SN_EINPUT: two differ, or the model knows fewer
 * tokens than the tokenizer. */
enum sn_status sn_data_tokenizer_of_run(struct sn_tokenizer_id *out, const struct sn_config *c,
                                        struct sn_err *err);
/* Load it. SN_EINPUT: its file is gone, or no longer the one that the tokens are of. */
enum sn_status sn_data_tokenizer_load(struct sn_tokenizer **out, const struct sn_tokenizer_id *t,
                                      struct sn_err *err);

/* The text of tokens, by the tokenizer that PREFIX's are of; *has_text is false where nobody knows
 * it. */
enum sn_status sn_data_tokenizer_text(const char *prefix, const int64_t *tokens, int64_t n,
                                      bool *has_text, struct sn_bytes *out, struct sn_err *err);
/* A tokenizer's file, and the companions of one under the field's name, into a directory. */
enum sn_status sn_data_tokenizer_keep(const char *path, const char *directory, struct sn_err *err);
/* Of what a prefix will hold: its file and a record of it beside PREFIX, where there are none. A
 * tokenizer that nobody knows leaves all as it is. SN_EINPUT: tokens of another one, or of one that nobody
 * knows, are there; `try` alone finds out. */
enum sn_status sn_data_tokenizer_take_along(const struct sn_tokenizer_id *t, const char *prefix,
                                            bool try, struct sn_err *err);

#endif
