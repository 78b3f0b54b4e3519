/*
 * bpe_train.h - the merges of a byte-level BPE from words: those of BpeTrainer of Hugging Face's
 * tokenizers 0.23 (models/bpe/trainer.rs) on the same words.
 *
 * Tokens are the special ones, in their order; bytes, by the characters that stand for them (GPT-2), in
 * the order of these; then, again and again, the pair of neighbours that is seen most often becomes a
 * token; of pairs seen as often the one with the smaller left id, then the smaller right id. Counts have
 * 64 bits; tokenizers' have 32, which overflow where a pair is seen 2^31 times.
 */
#ifndef SN_BPE_TRAIN_H
#define SN_BPE_TRAIN_H

#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/token/scan.h"
#include "lib/token/vocab.h"
#include "lib/token/words.h"

struct sn_bpe_training {
    int64_t vocab;         /* tokens in all; fewer, where no pair is left */
    int64_t min_frequency; /* a pair seen less often becomes no token */
    char *const *special;
    int n_special;
    bool all_bytes; /* also those that no word holds */
};
struct sn_bpe_trained {
    struct sn_vocab vocab;
    struct sn_ids merges; /* left, right, left, right ..., by rank */
};
/* Zero *out before; fini it in any case. SN_EINPUT: a special token is empty or named twice. */
enum sn_status sn_bpe_train(const struct sn_word_counts *words, const struct sn_bpe_training *how,
                            struct sn_bpe_trained *out, struct sn_err *err);
void sn_bpe_trained_fini(struct sn_bpe_trained *t);
/* As tokenizer.json, in the very bytes of Tokenizer.save: words by the pattern, ByteLevel. */
void sn_bpe_trained_format(const struct sn_bpe_trained *t, const struct sn_bpe_training *how,
                           enum sn_scan pattern, struct sn_str *out);

#endif
