/*
 * generate.h - sennit-train --generate: prompts of the command line or a file, continued on stdout.
 */
#ifndef SN_TRAIN_GENERATE_H
#define SN_TRAIN_GENERATE_H

#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_generate {
    const char *text;             /* NULL: not asked for */
    const char *answer;           /* a file of prompts (bin/train/answer.h); NULL: not asked for */
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
    return g->text || g->file || g->answer;
}
/* What asked for it: of sentences. */
static inline const char *sn_train_generate_option(const struct sn_train_generate *g)
{
    return g->answer ? "--answer" : "--generate";
}
/* Of text n, from 0. */
static inline uint64_t sn_train_generate_seed(const struct sn_train_generate *g,
                                              const struct sn_config *c, int64_t n)
{
    uint64_t seed = g->seed < 0 ? c->run.seed : (uint64_t)g->seed;
    return seed ^ (uint64_t)n * 0x9e3779b97f4a7c15u; /* other texts' seeds are no neighbours */
}
/* A prompt is text where a tokenizer is known. Else it is bytes for a vocabulary of 256, or decimal
 * numbers of tokens. With features there is a text for each entry, in a line. Collective: rank 0 reads, and
 * prints. */
enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 struct sn_comm *comm, const struct sn_train_generate *g,
                                 struct sn_err *err);

#endif
