/*
 * generate.h - sennit-train --generate: a prompt of the command line, continued on stdout.
 */
#ifndef SN_TRAIN_GENERATE_H
#define SN_TRAIN_GENERATE_H

#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_generate {
    const char *text;             /* NULL: not asked for */
    const char *file;             /* that the text is in, with features a prompt a line; or NULL */
    const char *features;         /* bin/train/features.h; NULL: none are named */
    const char *option;           /* one of the others that was given; NULL: none */
    const char *tokenizer, *stop; /* NULL: what the run's data says */
    long long tokens, top_k;
    long long seed; /* -1: that of the run */
    double temperature, top_p;
    bool whole; /* nothing is kept: each token computes its whole window */
};

/* What works where nobody says anything. */
void sn_train_generate_init(struct sn_train_generate *g);
static inline bool sn_train_generate_wanted(const struct sn_train_generate *g)
{
    return g->text || g->file;
}
/* A prompt is text where a tokenizer is known. Else it is bytes for a vocabulary of 256, or decimal
 * numbers of tokens. With features there is a text for each entry, in a line. Collective: rank 0 reads, and
 * prints. */
enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 struct sn_comm *comm, const struct sn_train_generate *g,
                                 struct sn_err *err);

/* The run's tokenizer in *out: that of `option`, a file, or that of `of`, which is its data's or its
 * checkpoint's; where both are there they must be the same. Left as it is where nobody knows one. */
struct sn_tokenizer;
struct sn_tokenizer_id;
enum sn_status sn_train_find_tokenizer(struct sn_tokenizer **out, const struct sn_tokenizer_id *of,
                                       const struct sn_config *c, const char *option,
                                       struct sn_err *err);
/* A token by its text: as the file writes it, or as text that is one token. */
enum sn_status sn_train_find_token(int32_t *out, const struct sn_tokenizer *t, const char *option,
                                   const char *text, struct sn_err *err);

#endif
