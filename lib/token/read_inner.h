/*
 * read_inner.h - the parts of a tokenizer.json, each read by a function of its own.
 */
#ifndef SN_TOKEN_READ_INNER_H
#define SN_TOKEN_READ_INNER_H

#include "lib/base/json.h"
#include "lib/token/tokenizer_inner.h"

enum sn_status sn_read_model(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err);
enum sn_status sn_read_normalizer(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err);
enum sn_status sn_read_pre_tokenizer(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err);
enum sn_status sn_read_decoder(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err);
enum sn_status sn_read_processor(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err);

/* A pattern of a member: {"String": ...} into `text`, or {"Regex": ...} into `regex` and, if it is
 * one of scan.h's, *scan. */
enum sn_status sn_read_pattern(struct sn_json v, const char *where, struct sn_bytes *text,
                               struct sn_regex **regex, enum sn_scan *scan, struct sn_err *err);

static inline bool sn_read_is_there(struct sn_json v)
{
    return v.at && *v.at != 'n'; /* null */
}

#endif
