/*
 * words.h - different words and how often each was seen.
 */
#ifndef SN_TOKEN_WORDS_H
#define SN_TOKEN_WORDS_H

#include "lib/token/bytes.h"

struct sn_word_count {
    uint64_t at; /* in texts */
    uint32_t len, tag;
    int64_t count;
};
/* Zeroed: empty. */
struct sn_word_counts {
    struct sn_bytes texts;
    struct sn_word_count *list; /* as they came */
    size_t n, cap;
    uint32_t *slots; /* places in the list, plus one; 0: free */
    size_t n_slots;  /* a power of two, or 0 */
};
void sn_word_counts_fini(struct sn_word_counts *w);
/* A word of less than 4 GiB so many times more; false: no memory, or 2^32 - 1 words. */
bool sn_word_counts_add(struct sn_word_counts *w, const char *p, size_t len, int64_t count);
/* All of another list, too. */
bool sn_word_counts_join(struct sn_word_counts *w, const struct sn_word_counts *other);

#endif
