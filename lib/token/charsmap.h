/*
 * charsmap.h - SentencePiece's precompiled rules: a double array (darts-clone) from texts to places
 * in a list of replacements, each ended by NUL. Little endian: u32 bytes of the array, the array of
 * u32, the replacements.
 */
#ifndef SN_TOKEN_CHARSMAP_H
#define SN_TOKEN_CHARSMAP_H

#include "lib/base/err.h"
#include "lib/token/bytes.h"

struct sn_charsmap {
    uint32_t *units;
    size_t n_units;
    struct sn_bytes texts;
};
/* SN_EINPUT: it is damaged. A walk through a damaged array that passes ends all the same. */
enum sn_status sn_charsmap_init(struct sn_charsmap *c, const char *p, size_t len,
                                struct sn_err *err);
void sn_charsmap_fini(struct sn_charsmap *c); /* a zeroed one is allowed */

/* Append the text normalized as Hugging Face does: of each grapheme cluster of fewer than 6 bytes,
 * else of each character, the shortest rule that it begins with, in place of all of it. */
enum sn_status sn_charsmap_by_cluster(const struct sn_charsmap *c, const char *p, size_t len,
                                      struct sn_bytes *out, struct sn_err *err);
/* As SentencePiece does: bytes at p that the longest rule takes (or one character) and what stands
 * for them, borrowed. */
size_t sn_charsmap_longest(const struct sn_charsmap *c, const char *p, size_t len,
                           const char **text, size_t *text_len);

#endif
