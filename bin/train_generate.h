/*
 * train_generate.h - sennit-train --generate: a prompt of the command line, continued on stdout.
 */
#ifndef SN_TRAIN_GENERATE_H
#define SN_TRAIN_GENERATE_H

#include "lib/config/config.h"
#include "lib/train/trainer.h"

struct sn_train_generate {
    const char *text;   /* NULL: not asked for */
    const char *option; /* one of the others that was given; NULL: none */
    long long tokens, top_k;
    long long seed; /* -1: that of the run */
    double temperature;
};

/* What works where nobody says anything. */
void sn_train_generate_init(struct sn_train_generate *g);
/* Bytes for a vocabulary of 256, else decimal numbers of tokens. */
enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct sn_err *err);

#endif
