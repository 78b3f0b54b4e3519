/*
 * tokenizer_inner.h - the parts of a tokenizer, for the files of lib/token that fill and run it.
 */
#ifndef SN_TOKENIZER_INNER_H
#define SN_TOKENIZER_INNER_H

#include "lib/token/added.h"
#include "lib/token/model.h"
#include "lib/token/normalize.h"
#include "lib/token/pretoken.h"
#include "lib/token/tokenizer.h"

enum sn_decoder_kind {
    SN_DECODE_BYTES, /* ByteLevel */
    SN_DECODE_META,  /* Metaspace */
    SN_DECODE_WORDPIECE,
    SN_DECODE_BPE, /* BPEDecoder: a suffix is the end of a word */
    SN_DECODE_FUSE,
    SN_DECODE_STRIP,
    SN_DECODE_REPLACE,
    SN_DECODE_FALLBACK /* ByteFallback */
};
struct sn_decoder {
    enum sn_decoder_kind kind;
    struct sn_bytes text, content; /* prefix, suffix, pattern, or character; REPLACE: what comes */
    bool cleanup, drops_first;
    int64_t start, stop; /* STRIP */
};
struct sn_decoders {
    struct sn_decoder *list;
    int n, cap;
    bool joins_by_blanks; /* the file has no decoder */
};
void sn_decoders_fini(struct sn_decoders *d);
struct sn_decoder *sn_decoders_add(struct sn_decoders *d); /* zeroed; NULL: no memory */

struct sn_tokenizer {
    struct sn_token_model model;
    struct sn_added_list added;
    struct sn_normalizers normalizers;
    struct sn_splitters splitters;
    struct sn_decoders decoders;
    struct sn_ids before, behind; /* what the post-processor puts around a document */
    struct sn_unicode *unicode;   /* NULL: nobody asks */
    uint64_t hash;
};

/* A text's added tokens, and the parts between them; and the tokens of such a part, `first`: of the
 * beginning of the document. */
void sn_encode_walk(const struct sn_encoder *e, struct sn_added_walk *walk, const char *p,
                    size_t len);
enum sn_status sn_encode_part(struct sn_encoder *e, const char *p, size_t len, bool first,
                              struct sn_ids *out, struct sn_err *err);

/* Readers of each kind of file: they fill a zeroed tokenizer, up to sn_tokenizer_finish. The bytes
 * are followed by a NUL. */
enum sn_status sn_read_tokenizer_json(struct sn_tokenizer *t, const char *bytes, size_t len,
                                      struct sn_err *err);
/* The name of a .tiktoken says by which pattern words are cut, or else its number of tokens does. */
enum sn_status sn_read_tiktoken(struct sn_tokenizer *t, const char *bytes, size_t len,
                                const char *name, struct sn_err *err);
enum sn_status sn_read_sentencepiece(struct sn_tokenizer *t, const char *bytes, size_t len,
                                     struct sn_err *err);

#endif
