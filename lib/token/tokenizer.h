/*
 * tokenizer.h - from text to tokens and back, by the files that models come with.
 *
 * What is read: Hugging Face's tokenizer.json, tiktoken's .tiktoken, SentencePiece's .model; told
 * apart by what is in them. What a file asks for and this library does not do is refused by name.
 * Tokens are those of tokenizers 0.23 (tests/unit/token/test_tokenizer.c has vectors of it).
 *
 * A tokenizer never changes once it is loaded; each thread that encodes has an encoder of its own.
 */
#ifndef SN_TOKENIZER_H
#define SN_TOKENIZER_H

#include "lib/base/err.h"
#include "lib/token/bytes.h"

struct sn_tokenizer;
struct sn_encoder;

/* SN_EINPUT names the file, the part of it, what is wrong and what would work. Caller destroys. */
enum sn_status sn_tokenizer_load(struct sn_tokenizer **out, const char *path, struct sn_err *err);
/* The same of bytes in memory; `name` stands for the file in sentences. */
enum sn_status sn_tokenizer_parse(struct sn_tokenizer **out, const char *bytes, size_t len,
                                  const char *name, struct sn_err *err);
void sn_tokenizer_destroy(struct sn_tokenizer *t); /* NULL is allowed */
/* All of a file of at most 1 GiB, a NUL behind it; `what` is what would work where it cannot be read. */
enum sn_status sn_tokenizer_read(struct sn_bytes *out, const char *path, const char *what,
                                 struct sn_err *err);

/* One more than the largest id. */
int64_t sn_tokenizer_size(const struct sn_tokenizer *t);
/* XXH3 of the file. */
uint64_t sn_tokenizer_hash(const struct sn_tokenizer *t);
/* Of a token by its text, as the file writes it; -1: there is none. */
int32_t sn_tokenizer_find(const struct sn_tokenizer *t, const char *text, size_t len);

/* What the file's post-processor puts before and behind a document; borrowed. */
void sn_tokenizer_around(const struct sn_tokenizer *t, const struct sn_ids **before,
                         const struct sn_ids **behind);

/* An encoder of a tokenizer, which must outlive it. Caller destroys. */
enum sn_status sn_encoder_create(struct sn_encoder **out, const struct sn_tokenizer *t,
                                 struct sn_err *err);
void sn_encoder_destroy(struct sn_encoder *e); /* NULL is allowed */
/* Append a document's tokens; with what the file's post-processor puts around them, if `special`.
 * SN_EINPUT: it is no valid UTF-8, or nothing stands for one of its characters. */
enum sn_status sn_encode(struct sn_encoder *e, const char *p, size_t len, bool special,
                         struct sn_ids *out, struct sn_err *err);

/* The same without `special`; and a byte of `counts` for each token: 1 where it overlaps one of the spans,
 * which are in order and apart. Where one begins or ends within a part that the tokenizer cuts, that is
 * found by encoding what is before it. */
enum sn_status sn_encode_spans(struct sn_encoder *e, const char *p, size_t len,
                               const struct sn_text_spans *spans, struct sn_ids *out,
                               struct sn_bytes *counts, struct sn_err *err);

/* SN_EINPUT: the text is no valid UTF-8, which sn_encode says, too. */
enum sn_status sn_encode_check(const char *p, size_t len, struct sn_err *err);

/* Append the text of tokens, as Tokenizer.decode of tokenizers; without special tokens, if `skip`.
 * Ids that there are not stand for nothing. SN_ENOMEM. */
enum sn_status sn_decode(const struct sn_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                         struct sn_bytes *out, struct sn_err *err);

#endif
