/*
 * unicode.h - what tokenizers ask of Unicode: classes of characters, normal forms, lower case,
 * grapheme clusters. From utf8proc (unicode.c), or a refusal (unicode_none.c).
 */
#ifndef SN_TOKEN_UNICODE_H
#define SN_TOKEN_UNICODE_H

#include "lib/base/err.h"
#include "lib/token/bytes.h"

enum sn_form { SN_NFC, SN_NFD, SN_NFKC, SN_NFKD };

/* Classes, of which a character may have several. */
enum {
    SN_CHAR_LETTER = 1 << 0,      /* \p{L} */
    SN_CHAR_NUMBER = 1 << 1,      /* \p{N} */
    SN_CHAR_MARK = 1 << 2,        /* \p{M} */
    SN_CHAR_NONSPACING = 1 << 3,  /* \p{Mn} */
    SN_CHAR_PUNCTUATION = 1 << 4, /* \p{P}, and what ASCII calls so: $ + < = > ^ ` | ~ */
    SN_CHAR_SPACE = 1 << 5,       /* White_Space, \s */
    SN_CHAR_OTHER = 1 << 6,       /* control, format, surrogate, private */
    SN_CHAR_UPPER = 1 << 7,       /* lower case is another character */
    SN_CHAR_STABLE = 1 << 8       /* << form: stands in that normal form, whatever is beside it */
};

struct sn_unicode {
    uint16_t *classes; /* of 0x110000 characters */
};

/* SN_EINPUT where the library is missing, with who asks (`why`) in the sentence; SN_ENOMEM. */
enum sn_status sn_unicode_create(struct sn_unicode **out, const char *why, struct sn_err *err);
void sn_unicode_destroy(struct sn_unicode *u); /* NULL is allowed */

static inline unsigned sn_unicode_classes(const struct sn_unicode *u, uint32_t c)
{
    return u->classes[c];
}

/* Append the normal form of valid UTF-8. SN_ENOMEM. */
enum sn_status sn_unicode_normalize(const struct sn_unicode *u, enum sn_form form, const char *p,
                                    size_t len, struct sn_bytes *out, struct sn_err *err);
/* Append the lower case of each character apart. */
enum sn_status sn_unicode_lower(const struct sn_unicode *u, const char *p, size_t len,
                                struct sn_bytes *out, struct sn_err *err);
/* Bytes of the extended grapheme cluster at p; len > 0. */
size_t sn_unicode_cluster(const char *p, size_t len);

#endif
