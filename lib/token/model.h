/*
 * model.h - models: from a word to tokens. A model is built once and never changes; what a thread
 * needs to run it is a sn_model_work.
 *
 * What a word is, pre-tokenizers say (pretoken.h). Semantics are those of Hugging Face's tokenizers
 * 0.23: its source is what is meant where a paper would leave room.
 */
#ifndef SN_TOKEN_MODEL_H
#define SN_TOKEN_MODEL_H

#include "lib/base/err.h"
#include "lib/token/vocab.h"

enum sn_model_kind { SN_MODEL_BPE, SN_MODEL_WORDPIECE, SN_MODEL_UNIGRAM, SN_MODEL_WORDS };

/* BPE (Sennrich, Haddow, Birch 2016): of the pairs of neighbours the one with the lowest rank is
 * joined first, of two alike the left one. */
struct sn_merge {
    int32_t left, right; /* left -1: free */
    uint32_t rank;
    int32_t whole;
};
struct sn_merges {
    struct sn_merge *slots;
    size_t n_slots, n; /* slots: a power of two */
};

struct sn_token_model {
    enum sn_model_kind kind;
    struct sn_vocab vocab;
    int32_t unk; /* -1: none */
    bool byte_fallback;
    int32_t fallback[256]; /* tokens <0x00> .. <0xFF>; -1: none */
    /* BPE */
    struct sn_merges merges;
    bool byte_level;       /* words are bytes: each has a token of its own, by_byte */
    int32_t by_byte[256];  /* -1: none */
    struct sn_vocab words; /* byte_level: tokens by the bytes that they stand for */
    bool fuse_unk, ignore_merges;
    struct sn_bytes prefix, suffix; /* WordPiece: the prefix of what continues a word */
    bool breaks_before_space;       /* no token has U+2581 behind another character */
    /* WordPiece and Unigram */
    struct sn_trie trie;
    size_t longest_word; /* WordPiece: characters; a longer word is unknown */
    double *scores;      /* Unigram, by id */
    double unk_score;
    bool as_sentencepiece; /* Unigram: its arithmetic, where tokenizers has another */
};

/* What a thread needs beside the model. Zeroed: empty. */
struct sn_symbol {
    int32_t id, whole; /* whole: what it and the next one would be */
    uint32_t rank;     /* of that; UINT32_MAX: nothing */
    uint32_t before, next;
};
struct sn_candidate {
    uint32_t rank, at;
};
struct sn_token_path {
    double score;
    int32_t id;
    uint32_t from; /* UINT32_MAX: nothing ends here */
};
struct sn_model_work {
    struct sn_symbol *symbols;
    struct sn_candidate *heap;
    struct sn_token_path *paths;
    size_t symbols_cap, heap_cap, paths_cap, n, n_heap;
    struct sn_bytes text;
};
void sn_model_work_fini(struct sn_model_work *w);

void sn_model_fini(struct sn_token_model *m);
/* Tokens that stand for bytes, from the vocabulary. */
void sn_model_find_fallback(struct sn_token_model *m);
/* A merge, in the order of ranks; of two of the same pair the later one counts. */
enum sn_status sn_merges_add(struct sn_merges *m, int32_t left, int32_t right, int32_t whole,
                             uint32_t rank, struct sn_err *err);
/* Bytes of a BPE's tokens (byte_level), and whether words may be cut before U+2581. */
enum sn_status sn_bpe_finish(struct sn_token_model *m, struct sn_err *err);
/* Merges from tokens alone: every pair whose join is a token, ranked by rank_of[id] (tiktoken,
 * SentencePiece). */
enum sn_status sn_bpe_derive_merges(struct sn_merges *out, const struct sn_vocab *v,
                                    const uint32_t *rank_of, struct sn_err *err);
/* Fill the trie of a WordPiece or Unigram. */
enum sn_status sn_model_fill_trie(struct sn_token_model *m, struct sn_err *err);

/* Append the tokens of one word of valid UTF-8, len > 0. SN_ENOMEM; SN_EINPUT: a character has no
 * token and the model has none for unknown ones. */
enum sn_status sn_model_encode(const struct sn_token_model *m, struct sn_model_work *w,
                               const char *p, size_t len, struct sn_ids *out, struct sn_err *err);
enum sn_status sn_bpe_encode(const struct sn_token_model *m, struct sn_model_work *w, const char *p,
                             size_t len, struct sn_ids *out, struct sn_err *err);

/* The character by which byte-level vocabularies write a byte (GPT-2), and back: -1 is none. */
uint32_t sn_byte_char(unsigned char byte);
int sn_char_byte(uint32_t c);

#endif
