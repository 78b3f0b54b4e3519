/*
 * vocab.h - tokens as texts: from a text to its number, and back; and a trie over them.
 */
#ifndef SN_TOKEN_VOCAB_H
#define SN_TOKEN_VOCAB_H

#include "lib/base/err.h"
#include "lib/token/bytes.h"

enum { SN_TOKEN_IDS = 1 << 24 }; /* ids lie below */

struct sn_vocab_text {
    uint32_t at, len; /* in texts */
    bool is_there;
};
struct sn_vocab_slot {
    uint32_t tag; /* of the text's hash */
    int32_t id;   /* -1: free */
};

/* Zeroed: empty. Ids may have gaps. */
struct sn_vocab {
    struct sn_bytes texts;
    struct sn_vocab_text *by_id;
    size_t ids, ids_cap; /* one more than the largest id */
    struct sn_vocab_slot *slots;
    size_t n_slots, n_tokens; /* slots: a power of two, or 0 */
};
void sn_vocab_fini(struct sn_vocab *v);
/* A token. Of two with the same text the later one is found. SN_EINPUT: the id is taken or too
 * large; SN_ENOMEM. */
enum sn_status sn_vocab_add(struct sn_vocab *v, const char *p, size_t len, int64_t id,
                            struct sn_err *err);
/* Its id, or -1. */
int32_t sn_vocab_find(const struct sn_vocab *v, const char *p, size_t len);
/* Borrowed; NULL: there is no such token. */
const char *sn_vocab_text(const struct sn_vocab *v, int64_t id, size_t *len);

/* --- a trie of bytes -------------------------------------------------------------------------- */

struct sn_trie_slot {
    uint64_t key; /* node << 8 | byte, plus one; 0: free */
    uint32_t node;
};
struct sn_trie {
    struct sn_trie_slot *slots;
    size_t n_slots;
    int32_t *values; /* of nodes; -1: none */
    size_t nodes, nodes_cap;
};
/* A node that there is not. The root is 0. */
#define SN_TRIE_NONE UINT32_MAX
void sn_trie_fini(struct sn_trie *t);
/* Put a text in; of two alike the later value stays. False: no memory. */
bool sn_trie_add(struct sn_trie *t, const char *p, size_t len, int32_t value);
uint32_t sn_trie_walk(const struct sn_trie *t, uint32_t node, const char *p, size_t len);

static inline uint32_t sn_trie_step(const struct sn_trie *t, uint32_t node, unsigned char byte)
{
    uint64_t key = ((uint64_t)node << 8 | byte) + 1;
    if (t->n_slots == 0)
        return SN_TRIE_NONE;
    for (size_t i = (size_t)(key * 0x9e3779b97f4a7c15u >> 32);; i++) {
        const struct sn_trie_slot *s = &t->slots[i & (t->n_slots - 1)];
        if (s->key == key)
            return s->node;
        if (s->key == 0)
            return SN_TRIE_NONE;
    }
}

#endif
