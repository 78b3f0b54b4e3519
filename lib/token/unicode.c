/*
 * unicode.c - the one file that knows utf8proc.
 *
 * Normal forms are made of the few characters that need it: a text is copied up to a character that
 * is not stable in the form (Unicode Annex 15, 9: "quick check"), and utf8proc gets the run from the
 * character before it to the next stable one.
 */
#include "lib/token/unicode.h"

#include "lib/base/mem.h"

#include <utf8proc.h>

enum { CHARACTERS = 0x110000, SHORT_RUN = 256 };

static const int options[] = {
    [SN_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [SN_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [SN_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [SN_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

/* --- the table -------------------------------------------------------------------------------- */

static unsigned classes_of_category(int category)
{
    switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return SN_CHAR_LETTER;
    case UTF8PROC_CATEGORY_MN:
        return SN_CHAR_MARK | SN_CHAR_NONSPACING;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return SN_CHAR_MARK;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return SN_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return SN_CHAR_SPACE;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return SN_CHAR_OTHER;
    default:
        return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO
                   ? SN_CHAR_PUNCTUATION
                   : 0;
    }
}

static bool is_itself(uint32_t c, enum sn_form form)
{
    utf8proc_int32_t out[32];
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, out, 32,
                                                 (utf8proc_option_t)options[form], NULL);
    if (n > 0 && n <= 32)
        n = utf8proc_normalize_utf32(out, n, (utf8proc_option_t)options[form]);
    return n == 1 && out[0] == (utf8proc_int32_t)c;
}

/* In which forms a character stands, whatever is beside it. Second of a composed pair are marks, and
 * vowels and finals of Hangul. */
static unsigned stable_bits(uint32_t c, const utf8proc_property_t *p, unsigned classes)
{
    unsigned bits = 0;
    bool is_hangul = c >= 0xac00 && c <= 0xd7a3;
    bool is_second = (classes & SN_CHAR_MARK) || (c >= 0x1160 && c <= 0x11ff);
    bool is_plain = p->decomp_seqindex == UINT16_MAX && !is_hangul;
    for (int form = SN_NFC; form <= SN_NFKD; form++) {
        bool composes = form == SN_NFC || form == SN_NFKC;
        bool good = p->combining_class == 0 && !(composes && is_second) &&
                    (is_plain || is_itself(c, (enum sn_form)form));
        bits |= good ? (unsigned)SN_CHAR_STABLE << form : 0;
    }
    return bits;
}

static uint16_t classes_of(uint32_t c)
{
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)c);
    unsigned classes = classes_of_category(p->category);
    if ((c >= 0x09 && c <= 0x0d) || c == 0x85)
        classes |= SN_CHAR_SPACE;
    if (c < 0x80 && strchr("$+<=>^`|~", (int)c) && c != 0)
        classes |= SN_CHAR_PUNCTUATION;
    if (utf8proc_tolower((utf8proc_int32_t)c) != (utf8proc_int32_t)c || c == 0x130)
        classes |= SN_CHAR_UPPER;
    return (uint16_t)(classes | stable_bits(c, p, classes));
}

enum sn_status sn_unicode_create(struct sn_unicode **out, const char *why, struct sn_err *err)
{
    struct sn_unicode *u = sn_alloc(sizeof(*u));
    if (u)
        u->classes = sn_alloc_n(CHARACTERS, sizeof(*u->classes));
    if (!u || !u->classes) {
        sn_free(u);
        return sn_fail(err, SN_ENOMEM, "%s: no memory for classes of characters", why);
    }
    for (uint32_t c = 0; c < CHARACTERS; c++)
        u->classes[c] = classes_of(c);
    *out = u;
    return SN_OK;
}

void sn_unicode_destroy(struct sn_unicode *u)
{
    if (u)
        sn_free(u->classes);
    sn_free(u);
}

/* --- normal forms ----------------------------------------------------------------------------- */

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory to normalize a text");
}

/* One run, of characters that are beside each other. */
static enum sn_status put_run(enum sn_form form, const char *p, size_t len, struct sn_bytes *out,
                              struct sn_err *err)
{
    utf8proc_int32_t few[SHORT_RUN], *chars = few;
    utf8proc_option_t how = (utf8proc_option_t)options[form];
    const utf8proc_uint8_t *text = (const utf8proc_uint8_t *)p;
    utf8proc_ssize_t n = utf8proc_decompose(text, (utf8proc_ssize_t)len, few, SHORT_RUN, how);
    if (n > SHORT_RUN) {
        chars = sn_alloc_n((size_t)n, sizeof(*chars));
        if (chars)
            n = utf8proc_decompose(text, (utf8proc_ssize_t)len, chars, n, how);
    }
    if (!chars)
        return no_memory(err);
    n = n < 0 ? n : utf8proc_normalize_utf32(chars, n, how);
    bool good = n >= 0;
    for (utf8proc_ssize_t i = 0; good && i < n; i++)
        good = sn_bytes_add_char(out, (uint32_t)chars[i]);
    if (chars != few)
        sn_free(chars);
    return good ? SN_OK : no_memory(err);
}

enum sn_status sn_unicode_normalize(const struct sn_unicode *u, enum sn_form form, const char *p,
                                    size_t len, struct sn_bytes *out, struct sn_err *err)
{
    unsigned stable = (unsigned)SN_CHAR_STABLE << form;
    size_t copied = 0, before = 0; /* where the last stable character began */
    for (size_t i = 0, used; i < len; i += used) {
        if (sn_unicode_classes(u, sn_utf8_get(p + i, &used)) & stable) {
            before = i;
            continue;
        }
        size_t end = i + used;
        while (end < len && !(sn_unicode_classes(u, sn_utf8_get(p + end, &used)) & stable))
            end += used;
        if (!sn_bytes_add(out, p + copied, before - copied))
            return no_memory(err);
        SN_TRY(put_run(form, p + before, end - before, out, err));
        copied = before = end;
        i = end;
        used = 0;
    }
    return sn_bytes_add(out, p + copied, len - copied) ? SN_OK : no_memory(err);
}

enum sn_status sn_unicode_lower(const struct sn_unicode *u, const char *p, size_t len,
                                struct sn_bytes *out, struct sn_err *err)
{
    size_t copied = 0;
    for (size_t i = 0, used; i < len; i += used) {
        uint32_t c = sn_utf8_get(p + i, &used);
        if (!(sn_unicode_classes(u, c) & SN_CHAR_UPPER))
            continue;
        bool good = sn_bytes_add(out, p + copied, i - copied);
        if (c == 0x130) /* the one character whose lower case is two */
            good = good && sn_bytes_add_char(out, 'i') && sn_bytes_add_char(out, 0x307);
        else
            good = good && sn_bytes_add_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        if (!good)
            return no_memory(err);
        copied = i + used;
    }
    return sn_bytes_add(out, p + copied, len - copied) ? SN_OK : no_memory(err);
}

size_t sn_unicode_cluster(const char *p, size_t len)
{
    size_t end, used;
    utf8proc_int32_t state = 0, last = (utf8proc_int32_t)sn_utf8_get(p, &end);
    while (end < len) {
        utf8proc_int32_t c = (utf8proc_int32_t)sn_utf8_get(p + end, &used);
        if (utf8proc_grapheme_break_stateful(last, c, &state))
            break;
        last = c;
        end += used;
    }
    return end;
}
