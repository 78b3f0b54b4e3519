/*
 * bytes.h - what tokenizers are built of: bytes that grow, lists of numbers, UTF-8, hashes.
 *
 * A buffer keeps its memory when it is emptied, so that a second text of the same length allocates
 * nothing. Texts of tokenizers may hold NUL, so lengths are always said.
 */
#ifndef SN_TOKEN_BYTES_H
#define SN_TOKEN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sn_bytes {
    char *p; /* NULL before anything was added */
    size_t len, cap;
};
/* Make room for `more` bytes behind p + len; false: no memory, and all is as it was. */
bool sn_bytes_grow(struct sn_bytes *b, size_t more);
void sn_bytes_fini(struct sn_bytes *b);

struct sn_text_span {
    size_t from, to; /* bytes of a text */
};
struct sn_text_spans {
    struct sn_text_span *list; /* in order, apart */
    int n, cap;
};
/* One more; false: no memory. */
bool sn_text_spans_add(struct sn_text_spans *s, size_t from, size_t to);
void sn_text_spans_fini(struct sn_text_spans *s);

struct sn_ids {
    int32_t *p;
    size_t len, cap;
};
bool sn_ids_grow(struct sn_ids *v, size_t more);
void sn_ids_fini(struct sn_ids *v);

static inline bool sn_bytes_room(struct sn_bytes *b, size_t more)
{
    return b->cap - b->len >= more || sn_bytes_grow(b, more);
}

static inline bool sn_bytes_add(struct sn_bytes *b, const char *p, size_t n)
{
    if (!sn_bytes_room(b, n))
        return false;
    if (n > 0)
        memcpy(b->p + b->len, p, n);
    b->len += n;
    return true;
}

static inline bool sn_ids_room(struct sn_ids *v, size_t more)
{
    return v->cap - v->len >= more || sn_ids_grow(v, more);
}

static inline bool sn_ids_push(struct sn_ids *v, int32_t id)
{
    if (!sn_ids_room(v, 1))
        return false;
    v->p[v->len++] = id;
    return true;
}

/* --- UTF-8 ------------------------------------------------------------------------------------ */

/* Bytes of the character that begins with this byte; the text is valid UTF-8. */
static inline size_t sn_utf8_length(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The character at p, of valid UTF-8; *used is its bytes. */
static inline uint32_t sn_utf8_get(const char *p, size_t *used)
{
    const unsigned char *b = (const unsigned char *)p;
    *used = sn_utf8_length(*b);
    if (*used == 1)
        return *b;
    if (*used == 2)
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    if (*used == 3)
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
           (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

/* Write a character; returns its bytes. */
static inline size_t sn_utf8_put(char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

static inline bool sn_bytes_add_char(struct sn_bytes *b, uint32_t c)
{
    if (!sn_bytes_room(b, 4))
        return false;
    b->len += sn_utf8_put(b->p + b->len, c);
    return true;
}

/* Bytes of the character before `end`; begin < end. */
static inline size_t sn_utf8_before(const char *begin, const char *end)
{
    const char *p = end - 1;
    while (p > begin && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    return (size_t)(end - p);
}

/* Where the first byte is that is no valid UTF-8 (surrogates and overlong forms are none); `len`:
 * all of it is valid. */
size_t sn_utf8_check(const char *p, size_t len);

/* --- hashes ----------------------------------------------------------------------------------- */

static inline uint64_t sn_token_mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Of a word, in the manner of wyhash: fast for a few bytes, and no promise across versions. */
static inline uint64_t sn_token_hash(const char *p, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n, a = 0, b = 0;
    for (; n > 16; p += 16, n -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = sn_token_mix(a ^ 0xa0761d6478bd642fu, b ^ h);
    }
    a = b = 0;
    if (n >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + n - 8, 8);
    } else if (n >= 4) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + n - 4, 4);
        a = low;
        b = high;
    } else if (n > 0) {
        a = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[n >> 1] << 8 |
            (unsigned char)p[n - 1];
    }
    return sn_token_mix(a ^ 0xe7037ed1a0b428dbu, b ^ h ^ 0x8ebc6af09c88c6e3u);
}

#endif
