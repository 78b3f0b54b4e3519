/*
 * added.h - added and special tokens: texts that are tokens wherever they stand, before a model
 * sees the rest.
 */
#ifndef SN_TOKEN_ADDED_H
#define SN_TOKEN_ADDED_H

#include "lib/base/err.h"
#include "lib/token/regex.h"
#include "lib/token/unicode.h"
#include "lib/token/vocab.h"

struct sn_added {
    int32_t id;
    struct sn_bytes text, normal; /* normal: as the normalizer has it */
    bool special, single_word;    /* single_word: not beside letters or digits */
    bool left, right;             /* blanks there belong to it */
    bool normalized;              /* found in the normalized text, else in the text itself */
    bool by_name;                 /* found in no text */
};
struct sn_added_set {
    struct sn_trie trie; /* from texts to places in the list */
    bool begins[256];    /* first bytes of them */
    int n;
};
struct sn_added_list {
    struct sn_added *list;
    int n, cap;
    struct sn_added_set raw, normal;
    struct sn_regex *word; /* one character of a word; NULL: nobody asks */
};
void sn_added_fini(struct sn_added_list *a);
struct sn_added *sn_added_add(struct sn_added_list *a); /* zeroed; NULL: no memory */
/* Make the sets of the list, which is complete. SN_ENOMEM; SN_EINPUT without PCRE2. */
enum sn_status sn_added_finish(struct sn_added_list *a, struct sn_err *err);
bool sn_added_ask_unicode(const struct sn_added_list *a);
/* By id; NULL: none. */
const struct sn_added *sn_added_find(const struct sn_added_list *a, int32_t id);

/* The next part of a text: from *at up to an added token (*id -1), or one (its id); false: the text
 * is at its end. The text is valid UTF-8. */
struct sn_added_walk {
    const struct sn_added_list *added;
    const struct sn_added_set *set;
    const struct sn_unicode *u;
    struct sn_regex_search *search;
    const char *p;
    size_t len, done, at; /* all before `done` was given out, all before `at` was looked at */
    int32_t waiting;      /* a token that comes next; -1: none */
    size_t waiting_end;
};
void sn_added_begin(struct sn_added_walk *w, const char *p, size_t len);
bool sn_added_next(struct sn_added_walk *w, size_t *from, size_t *to, int32_t *id);

#endif
