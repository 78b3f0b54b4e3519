/*
 * normalize.h - normalizers: a list of steps, each from a text to a text.
 */
#ifndef SN_TOKEN_NORMALIZE_H
#define SN_TOKEN_NORMALIZE_H

#include "lib/base/err.h"
#include "lib/token/charsmap.h"
#include "lib/token/regex.h"
#include "lib/token/unicode.h"
#include "lib/token/vocab.h"

enum sn_normalizer_kind {
    SN_NORMALIZE_FORM, /* NFC, NFD, NFKC, NFKD */
    SN_NORMALIZE_LOWER,
    SN_NORMALIZE_ACCENTS, /* StripAccents: marks go */
    SN_NORMALIZE_STRIP,
    SN_NORMALIZE_PREPEND,
    SN_NORMALIZE_REPLACE,
    SN_NORMALIZE_CLEAN,      /* BertNormalizer's clean_text */
    SN_NORMALIZE_CHINESE,    /* its handle_chinese_chars */
    SN_NORMALIZE_NONSPACING, /* its strip_accents, behind NFD */
    SN_NORMALIZE_NMT,
    SN_NORMALIZE_CHARSMAP,
    SN_NORMALIZE_SENTENCEPIECE /* charsmap, blanks and U+2581 as SentencePiece has them */
};

struct sn_normalizer {
    enum sn_normalizer_kind kind;
    enum sn_form form;
    bool left, right;              /* STRIP */
    struct sn_bytes pattern, text; /* REPLACE: literal pattern, unless there is a regex */
    struct sn_regex *regex;
    struct sn_charsmap charsmap;
    bool dummy_prefix, single_blanks; /* SENTENCEPIECE: a blank before the text; runs of them are
                                         one, and go from both ends */
    bool suffix;                      /* its blanks end words */
    struct sn_trie symbols;           /* its texts that no rule changes */
};
struct sn_normalizers {
    struct sn_normalizer *list;
    int n, cap;
};
void sn_normalizers_fini(struct sn_normalizers *n);
/* One more, zeroed; NULL: no memory. */
struct sn_normalizer *sn_normalizers_add(struct sn_normalizers *n);

/* Two texts, of which each step reads one and writes the other. */
struct sn_normalize_work {
    struct sn_bytes texts[2];
    struct sn_regex_search *search; /* borrowed */
    bool lost_first;                /* the first character of the text went */
};
void sn_normalize_work_fini(struct sn_normalize_work *w);
/* Normalize valid UTF-8; *out is borrowed from p or from the work. u may be NULL where no step asks
 * for classes. */
enum sn_status sn_normalize(const struct sn_normalizers *n, const struct sn_unicode *u,
                            struct sn_normalize_work *w, const char *p, size_t len,
                            struct sn_bytes *out, struct sn_err *err);
/* Do the steps need classes of characters? */
bool sn_normalizers_ask_unicode(const struct sn_normalizers *n);

#endif
