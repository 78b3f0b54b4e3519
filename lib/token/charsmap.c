#include "lib/token/charsmap.h"

#include "lib/base/mem.h"
#include "lib/token/unicode.h"

#include <endian.h>

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t label(uint32_t unit)
{
    return unit & (0x80000000u | 0xff);
}

static uint32_t offset(uint32_t unit)
{
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

enum sn_status sn_charsmap_init(struct sn_charsmap *c, const char *p, size_t len,
                                struct sn_err *err)
{
    uint32_t bytes = 0;
    if (len >= 4)
        memcpy(&bytes, p, 4);
    bytes = le32toh(bytes);
    if (bytes < 4 || bytes % 4 != 0 || bytes > len - 4)
        return sn_fail(err, SN_EINPUT, "the precompiled rules are damaged: %u bytes of %zu", bytes,
                       len);
    if (sn_utf8_check(p + 4 + bytes, len - 4 - bytes) != len - 4 - bytes)
        return sn_fail(err, SN_EINPUT, "the replacements of the precompiled rules are no UTF-8");
    c->n_units = bytes / 4;
    c->units = sn_alloc(bytes);
    if (!c->units || !sn_bytes_add(&c->texts, p + 4 + bytes, len - 4 - bytes) ||
        !sn_bytes_add(&c->texts, "", 1)) {
        sn_charsmap_fini(c);
        return sn_fail(err, SN_ENOMEM, "no memory for precompiled rules");
    }
    memcpy(c->units, p + 4, bytes);
    for (size_t i = 0; i < c->n_units; i++)
        c->units[i] = le32toh(c->units[i]);
    return SN_OK;
}

void sn_charsmap_fini(struct sn_charsmap *c)
{
    sn_free(c->units);
    sn_bytes_fini(&c->texts);
    *c = (struct sn_charsmap){0};
}

/* The longest rule that a text begins with, or the shortest: its bytes, 0 for none, and where its
 * replacement is. */
static size_t find_rule(const struct sn_charsmap *c, const char *p, size_t len, bool shortest,
                        uint32_t *at)
{
    size_t best = 0;
    uint32_t place = offset(c->units[0]);
    for (size_t i = 0; i < len && p[i] != '\0'; i++) {
        place ^= (unsigned char)p[i];
        if (place >= c->n_units || label(c->units[place]) != (unsigned char)p[i])
            break;
        uint32_t unit = c->units[place];
        place ^= offset(unit);
        if (!has_leaf(unit) || place >= c->n_units)
            continue;
        uint32_t value = c->units[place] & 0x7fffffffu;
        if (value >= c->texts.len)
            continue;
        best = i + 1;
        *at = value;
        if (shortest)
            break;
    }
    return best;
}

/* Put the replacement of a text, if a rule has one. */
static bool replace(const struct sn_charsmap *c, const char *p, size_t len, struct sn_bytes *out,
                    bool *good)
{
    uint32_t at;
    if (!find_rule(c, p, len, true, &at))
        return false;
    *good = sn_bytes_add(out, c->texts.p + at, strlen(c->texts.p + at));
    return true;
}

enum sn_status sn_charsmap_by_cluster(const struct sn_charsmap *c, const char *p, size_t len,
                                      struct sn_bytes *out, struct sn_err *err)
{
    bool good = true;
    for (size_t i = 0, n; i < len && good; i += n) {
        bool is_plain = (unsigned char)p[i] < 0x80 && p[i] != '\r' &&
                        (i + 1 == len || (unsigned char)p[i + 1] < 0x80);
        n = is_plain ? 1 : sn_unicode_cluster(p + i, len - i);
        if (n < 6 && replace(c, p + i, n, out, &good))
            continue;
        for (size_t j = i, used; j < i + n && good; j += used) {
            used = sn_utf8_length((unsigned char)p[j]);
            if (!replace(c, p + j, used, out, &good))
                good = sn_bytes_add(out, p + j, used);
        }
    }
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory to normalize a text");
}

size_t sn_charsmap_longest(const struct sn_charsmap *c, const char *p, size_t len,
                           const char **text, size_t *text_len)
{
    uint32_t at;
    size_t n = c->n_units > 0 ? find_rule(c, p, len, false, &at) : 0;
    if (n == 0) {
        n = sn_utf8_length((unsigned char)*p);
        *text = p;
        *text_len = n;
        return n;
    }
    *text = c->texts.p + at;
    *text_len = strlen(*text);
    return n;
}
