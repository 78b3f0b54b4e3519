/*
 * train_generate.h - sennit-train --generate: a prompt of the command line, continued on stdout.
 */
#ifndef SN_TRAIN_GENERATE_H
#define SN_TRAIN_GENERATE_H

#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_generate {
    const char *text;             /* NULL: not asked for */
    const char *file;             /* that the text is in; or NULL */
    const char *option;           /* one of the others that was given; NULL: none */
    const char *tokenizer, *stop; /* NULL: what the run's data says */
    long long tokens, top_k;
    long long seed; /* -1: that of the run */
    double temperature, top_p;
};

/* What works where nobody says anything. */
void sn_train_generate_init(struct sn_train_generate *g);
static inline bool sn_train_generate_wanted(const struct sn_train_generate *g)
{
    return g->text || g->file;
}
/* A prompt is text where a tokenizer is known. Else it is bytes for a vocabulary of 256, or decimal
 * numbers of tokens. */
enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct sn_err *err);

#endif
