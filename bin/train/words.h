/*
 * words.h - text to tokens and back, for sennit-train --generate, --answer and --score.
 */
#ifndef SN_TRAIN_WORDS_H
#define SN_TRAIN_WORDS_H

#include "lib/config/config.h"
#include "lib/data/data_tokenizer.h"

struct sn_train_words {
    struct sn_tokenizer_id of;
    struct sn_tokenizer *tokenizer; /* NULL: none is known */
    struct sn_encoder *encoder;     /* of it */
    struct sn_ids ids;              /* of a prompt, then all that followed */
    struct sn_bytes
        before; /* with a tokenizer: the prompt's text, as far as its tokens alone tell it */
    int32_t stop;                   /* ends a text */
    bool bytes;                     /* without a tokenizer: a token is a byte */
};

/* The run's tokenizer in *out: that of `option`, a file, or that of `of`, which is its data's or its
 * checkpoint's; where both are there they must be the same. Left as it is where nobody knows one. */
enum sn_status sn_train_find_tokenizer(struct sn_tokenizer **out, const struct sn_tokenizer_id *of,
                                       const struct sn_config *c, const char *option,
                                       struct sn_err *err);
/* A token by its text: as the file writes it, or as text that is one token; without a tokenizer (NULL) by its
 * number. */
enum sn_status sn_train_find_token(int32_t *out, const struct sn_tokenizer *t, int vocab,
                                   const char *option, const char *text, struct sn_err *err);

/* Of a zeroed one with `of`: its tokenizer, and the token that ends a text: `stop`, without a tokenizer its
 * number, or NULL: what stands behind documents of the data. The caller closes, also after a failure. */
enum sn_status sn_train_words_open(struct sn_train_words *w, const struct sn_config *c,
                                   const char *tokenizer, const char *stop, struct sn_err *err);
void sn_train_words_close(struct sn_train_words *w);
/* A prompt in w->ids, as documents of the data begin: text; without a tokenizer bytes, for a vocabulary of
 * 256, or numbers of tokens. `option`: of sentences. */
enum sn_status sn_train_words_prompt(struct sn_train_words *w, const struct sn_config *c,
                                     const char *text, size_t len, const char *option,
                                     struct sn_err *err);

/* The same of ids that are there. */
enum sn_status sn_train_words_begin(struct sn_train_words *w, struct sn_err *err);
/* With a tokenizer: the text of all ids; what follows the prompt's begins at *from. */
enum sn_status sn_train_words_decode(const struct sn_train_words *w, struct sn_bytes *text,
                                     size_t *from, struct sn_err *err);
/* Bytes of a decoded text that later tokens will not change: without characters at its end of which bytes lack,
 * which decode to U+FFFD. */
size_t sn_train_settled(const struct sn_bytes *text);

#endif
