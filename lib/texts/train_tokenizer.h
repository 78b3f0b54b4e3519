/*
 * train_tokenizer.h - a byte-level BPE vocabulary from texts, as tokenizer.json.
 *
 * Each document is a sequence of BpeTrainer's train_from_iterator. Memory: the different words and
 * their pairs, once for each thread while texts are read.
 */
#ifndef SN_TRAIN_TOKENIZER_H
#define SN_TRAIN_TOKENIZER_H

#include "lib/texts/tokenize.h"
#include "lib/token/bpe_train.h"

struct sn_train_tokenizer {
    struct sn_tokenize
        texts; /* inputs, field, documents, workers, skip_bad, stop_fd; out: the file */
    struct sn_bpe_training how;
    enum sn_scan pattern; /* by which words are cut */
    bool force;           /* a file of that name is replaced */
};
struct sn_trained_tokenizer {
    int64_t vocab, merges, words, different_words, bytes, skipped;
    int files;
};
enum sn_status sn_train_tokenizer(const struct sn_train_tokenizer *want,
                                  struct sn_trained_tokenizer *out, struct sn_err *err);

#endif
