/*
 * normalize.c - the steps of normalizers. Formulas are those of tokenizers' normalizers/ (0.23).
 */
#include "lib/token/normalize.h"

#include "lib/base/mem.h"

static const char mark[] = "\xe2\x96\x81"; /* U+2581, SentencePiece's blank */

void sn_normalizers_fini(struct sn_normalizers *n)
{
    for (int i = 0; i < n->n; i++) {
        sn_bytes_fini(&n->list[i].pattern);
        sn_bytes_fini(&n->list[i].text);
        sn_regex_destroy(n->list[i].regex);
        sn_charsmap_fini(&n->list[i].charsmap);
        sn_trie_fini(&n->list[i].symbols);
    }
    sn_free(n->list);
    *n = (struct sn_normalizers){0};
}

struct sn_normalizer *sn_normalizers_add(struct sn_normalizers *n)
{
    if (!sn_grow((void **)&n->list, n->n, &n->cap, sizeof(*n->list)))
        return NULL;
    n->list[n->n] = (struct sn_normalizer){0};
    return &n->list[n->n++];
}

void sn_normalize_work_fini(struct sn_normalize_work *w)
{
    sn_bytes_fini(&w->texts[0]);
    sn_bytes_fini(&w->texts[1]);
}

bool sn_normalizers_ask_unicode(const struct sn_normalizers *n)
{
    for (int i = 0; i < n->n; i++)
        if (n->list[i].kind != SN_NORMALIZE_PREPEND && n->list[i].kind != SN_NORMALIZE_REPLACE &&
            n->list[i].kind != SN_NORMALIZE_NMT && n->list[i].kind != SN_NORMALIZE_SENTENCEPIECE)
            return true;
    return false;
}

/* --- steps that look at each character -------------------------------------------------------- */

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool nmt_drops(uint32_t c)
{
    return (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f ||
           c == 0x8f || c == 0x9f;
}

static bool nmt_blanks(uint32_t c)
{
    return c == 0x09 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 ||
           (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xfeff || c == 0xfffd;
}

enum change { KEEP, DROP, BLANK, APART };

static enum change change_of(enum sn_normalizer_kind kind, const struct sn_unicode *u, uint32_t c)
{
    switch (kind) {
    case SN_NORMALIZE_ACCENTS:
        return sn_unicode_classes(u, c) & SN_CHAR_MARK ? DROP : KEEP;
    case SN_NORMALIZE_NONSPACING:
        return sn_unicode_classes(u, c) & SN_CHAR_NONSPACING ? DROP : KEEP;
    case SN_NORMALIZE_CHINESE:
        return is_chinese(c) ? APART : KEEP;
    case SN_NORMALIZE_NMT:
        return nmt_drops(c) ? DROP : nmt_blanks(c) ? BLANK : KEEP;
    default: /* CLEAN */
        if (c == '\t' || c == '\n' || c == '\r')
            return BLANK;
        if (c == 0 || c == 0xfffd || (sn_unicode_classes(u, c) & SN_CHAR_OTHER))
            return DROP;
        return sn_unicode_classes(u, c) & SN_CHAR_SPACE ? BLANK : KEEP;
    }
}

static bool change_chars(const struct sn_normalizer *n, const struct sn_unicode *u,
                         struct sn_normalize_work *w, const struct sn_bytes *in,
                         struct sn_bytes *out)
{
    bool good = sn_bytes_room(out, in->len);
    for (size_t i = 0, used; i < in->len && good; i += used) {
        enum change change = change_of(n->kind, u, sn_utf8_get(in->p + i, &used));
        w->lost_first = w->lost_first || (change == DROP && out->len == 0);
        if (change == BLANK || change == APART)
            good = sn_bytes_add(out, " ", 1);
        if (change == KEEP || change == APART)
            good = good && sn_bytes_add(out, in->p + i, used);
        if (change == APART)
            good = good && sn_bytes_add(out, " ", 1);
    }
    return good;
}

/* --- other steps ------------------------------------------------------------------------------ */

static bool strip(const struct sn_normalizer *n, const struct sn_unicode *u,
                  struct sn_normalize_work *w, const struct sn_bytes *in, struct sn_bytes *out)
{
    size_t begin = 0, end = in->len, used;
    while (n->left && begin < end &&
           (sn_unicode_classes(u, sn_utf8_get(in->p + begin, &used)) & SN_CHAR_SPACE))
        begin += used;
    while (n->right && end > begin) {
        size_t last = sn_utf8_before(in->p, in->p + end);
        if (!(sn_unicode_classes(u, sn_utf8_get(in->p + end - last, &used)) & SN_CHAR_SPACE))
            break;
        end -= last;
    }
    w->lost_first = w->lost_first || begin > 0;
    return sn_bytes_add(out, in->p + begin, end - begin);
}

static bool replace_text(const struct sn_normalizer *n, const struct sn_bytes *in,
                         struct sn_bytes *out)
{
    const char *p = in->p, *end = in->p + in->len;
    bool good = sn_bytes_room(out, in->len);
    while (good && p < end && n->pattern.len > 0) {
        const char *hit = n->pattern.len == 1
                              ? memchr(p, n->pattern.p[0], (size_t)(end - p))
                              : memmem(p, (size_t)(end - p), n->pattern.p, n->pattern.len);
        if (!hit)
            break;
        good = sn_bytes_add(out, p, (size_t)(hit - p)) && sn_bytes_add(out, n->text.p, n->text.len);
        p = hit + n->pattern.len;
    }
    return good && sn_bytes_add(out, p, (size_t)(end - p));
}

static enum sn_status replace_regex(const struct sn_normalizer *n, struct sn_normalize_work *w,
                                    const struct sn_bytes *in, struct sn_bytes *out,
                                    struct sn_err *err)
{
    size_t copied = 0, match[2];
    bool good = true;
    for (size_t at = 0; at <= in->len && good;) {
        int found = sn_regex_find(n->regex, w->search, in->p, in->len, at, match);
        if (found < 0)
            return sn_fail(err, SN_EFAIL, "a normalizer's pattern takes too much to match");
        if (found == 0)
            break;
        good = sn_bytes_add(out, in->p + copied, match[0] - copied) &&
               sn_bytes_add(out, n->text.p, n->text.len);
        copied = at = match[1];
        if (match[0] == match[1])
            at += at < in->len ? sn_utf8_length((unsigned char)in->p[at]) : 1;
    }
    good = good && sn_bytes_add(out, in->p + copied, in->len - copied);
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory to normalize a text");
}

/* What stands for the text at p, and how much of it: a symbol of its own, or by the rules. */
static size_t next_prefix(const struct sn_normalizer *n, const char *p, size_t len,
                          const char **text, size_t *text_len)
{
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < len && node != SN_TRIE_NONE && n->symbols.nodes > 0; i++) {
        node = sn_trie_step(&n->symbols, node, (unsigned char)p[i]);
        if (node != SN_TRIE_NONE && n->symbols.values[node] >= 0)
            best = i + 1;
    }
    *text = p;
    *text_len = best;
    return best > 0 ? best : sn_charsmap_longest(&n->charsmap, p, len, text, text_len);
}

/* As Normalizer::Normalize of SentencePiece: a blank before (or behind) the text, runs of blanks as
 * one and none at the ends, each blank written as U+2581. */
static bool sentencepiece(const struct sn_normalizer *n, const struct sn_bytes *in,
                          struct sn_bytes *out)
{
    bool good = true, after_blank = n->single_blanks;
    const char *text;
    size_t len, at = 0, used = 0;
    while (n->single_blanks && at < in->len) {
        used = next_prefix(n, in->p + at, in->len - at, &text, &len);
        if (len != 1 || *text != ' ')
            break;
        at += used;
    }
    if (at == in->len)
        return true;
    if (n->dummy_prefix && !n->suffix)
        good = sn_bytes_add(out, mark, 3);
    for (; at < in->len && good; at += used) {
        used = next_prefix(n, in->p + at, in->len - at, &text, &len);
        for (; after_blank && len > 0 && *text == ' '; len--)
            text++;
        for (size_t i = 0; i < len && good; i++)
            good = text[i] == ' ' ? sn_bytes_add(out, mark, 3) : sn_bytes_add(out, text + i, 1);
        if (len > 0)
            after_blank = n->single_blanks && text[len - 1] == ' ';
    }
    while (n->single_blanks && out->len >= 3 && memcmp(out->p + out->len - 3, mark, 3) == 0)
        out->len -= 3;
    return good && (!(n->dummy_prefix && n->suffix) || sn_bytes_add(out, mark, 3));
}

/* --- all -------------------------------------------------------------------------------------- */

static enum sn_status apply(const struct sn_normalizer *n, const struct sn_unicode *u,
                            struct sn_normalize_work *w, const struct sn_bytes *in,
                            struct sn_bytes *out, struct sn_err *err)
{
    bool good = true;
    switch (n->kind) {
    case SN_NORMALIZE_FORM:
        return sn_unicode_normalize(u, n->form, in->p, in->len, out, err);
    case SN_NORMALIZE_LOWER:
        return sn_unicode_lower(u, in->p, in->len, out, err);
    case SN_NORMALIZE_CHARSMAP:
        return sn_charsmap_by_cluster(&n->charsmap, in->p, in->len, out, err);
    case SN_NORMALIZE_STRIP:
        good = strip(n, u, w, in, out);
        break;
    case SN_NORMALIZE_PREPEND:
        good = (in->len == 0 || sn_bytes_add(out, n->text.p, n->text.len)) &&
               sn_bytes_add(out, in->p, in->len);
        break;
    case SN_NORMALIZE_REPLACE:
        if (n->regex)
            return replace_regex(n, w, in, out, err);
        good = replace_text(n, in, out);
        break;
    case SN_NORMALIZE_SENTENCEPIECE:
        good = sentencepiece(n, in, out);
        break;
    default:
        good = change_chars(n, u, w, in, out);
    }
    return good ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory to normalize a text");
}

enum sn_status sn_normalize(const struct sn_normalizers *n, const struct sn_unicode *u,
                            struct sn_normalize_work *w, const char *p, size_t len,
                            struct sn_bytes *out, struct sn_err *err)
{
    struct sn_bytes now = {(char *)(uintptr_t)p, len, 0}; /* borrowed, and only read */
    w->lost_first = false;
    for (int i = 0; i < n->n; i++) {
        struct sn_bytes *to = &w->texts[i % 2];
        to->len = 0;
        SN_TRY(apply(&n->list[i], u, w, &now, to, err));
        now = *to;
        if (!now.p)
            now.p = (char *)(uintptr_t) "";
    }
    *out = now;
    return SN_OK;
}
