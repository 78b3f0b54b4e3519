/*
 * pretoken.h - pre-tokenizers: a list of steps, each of which cuts pieces of a text in smaller ones
 * or writes them anew. The last pieces are a model's words.
 */
#ifndef SN_TOKEN_PRETOKEN_H
#define SN_TOKEN_PRETOKEN_H

#include "lib/base/err.h"
#include "lib/token/regex.h"
#include "lib/token/scan.h"
#include "lib/token/unicode.h"

/* What becomes of what a pattern matches. */
enum sn_behavior { SN_REMOVED, SN_ISOLATED, SN_WITH_PREVIOUS, SN_WITH_NEXT, SN_CONTIGUOUS };

enum sn_splitter_kind {
    SN_SPLIT_SCAN, /* by a pattern that scan.h knows, which covers the text: Isolated */
    SN_SPLIT_REGEX,
    SN_SPLIT_TEXT,    /* a literal pattern */
    SN_SPLIT_CLASSES, /* each character of these classes */
    SN_SPLIT_LENGTH,  /* pieces of so many characters */
    SN_SPLIT_PREFIX,  /* no cut: a blank before each piece that has none (ByteLevel) */
    SN_SPLIT_META     /* no cut: blanks become a text, one before each piece (Metaspace) */
};
enum sn_meta_scheme { SN_PREPEND_NEVER, SN_PREPEND_FIRST, SN_PREPEND_ALWAYS };

struct sn_splitter {
    enum sn_splitter_kind kind;
    enum sn_scan scan;
    struct sn_regex *regex;
    struct sn_bytes text; /* TEXT: the pattern; META: what blanks become */
    unsigned classes;
    int64_t length;
    enum sn_behavior behavior;
    bool invert; /* what does not match counts as what does */
    enum sn_meta_scheme scheme;
};
struct sn_splitters {
    struct sn_splitter *list;
    int n, cap;
};
void sn_splitters_fini(struct sn_splitters *s);
struct sn_splitter *sn_splitters_add(struct sn_splitters *s); /* zeroed; NULL: no memory */
bool sn_splitters_ask_unicode(const struct sn_splitters *s);

struct sn_token_piece {
    uint32_t from, to; /* bytes of the text */
};
struct sn_pieces {
    struct sn_token_piece *list;
    size_t n, cap;
};

struct sn_split_work {
    struct sn_pieces pieces[2];
    struct sn_bytes texts[2];
    struct sn_regex_search *search; /* borrowed */
    /* What the last cut gave: the text (perhaps the one that was given) and its pieces. */
    const char *text;
    const struct sn_pieces *cut;
};
void sn_split_work_fini(struct sn_split_work *w);

/* Cut valid UTF-8 of at most 2 GiB, into the work. `first`: the text begins where the document
 * does. */
enum sn_status sn_split(const struct sn_splitters *s, const struct sn_unicode *u,
                        struct sn_split_work *w, const struct sn_bytes *in, bool first,
                        struct sn_err *err);

#endif
