/*
 * pretoken.c - the steps of pre-tokenizers, as tokenizers' pre_tokenizers/ and the rules of its
 * NormalizedString::split (0.23) have them. Empty pieces are left out.
 */
#include "lib/token/pretoken.h"

#include "lib/base/mem.h"

static const size_t most_bytes = (size_t)1 << 31;

void sn_splitters_fini(struct sn_splitters *s)
{
    for (int i = 0; i < s->n; i++) {
        sn_regex_destroy(s->list[i].regex);
        sn_bytes_fini(&s->list[i].text);
    }
    sn_free(s->list);
    *s = (struct sn_splitters){0};
}

struct sn_splitter *sn_splitters_add(struct sn_splitters *s)
{
    if (!sn_grow((void **)&s->list, s->n, &s->cap, sizeof(*s->list)))
        return NULL;
    s->list[s->n] = (struct sn_splitter){0};
    return &s->list[s->n++];
}

bool sn_splitters_ask_unicode(const struct sn_splitters *s)
{
    for (int i = 0; i < s->n; i++)
        if (s->list[i].kind == SN_SPLIT_SCAN || s->list[i].kind == SN_SPLIT_CLASSES)
            return true;
    return false;
}

void sn_split_work_fini(struct sn_split_work *w)
{
    for (int i = 0; i < 2; i++) {
        sn_free(w->pieces[i].list);
        sn_bytes_fini(&w->texts[i]);
    }
}

/* --- pieces ----------------------------------------------------------------------------------- */

static bool more_pieces(struct sn_pieces *p)
{
    size_t cap = p->cap ? p->cap * 2 : 1024;
    struct sn_token_piece *grown = sn_realloc(p->list, cap * sizeof(*grown));
    if (!grown)
        return false;
    p->list = grown;
    p->cap = cap;
    return true;
}

static inline bool put_piece(struct sn_pieces *p, size_t from, size_t to)
{
    if (from == to)
        return true;
    if (p->n == p->cap && !more_pieces(p))
        return false;
    p->list[p->n++] = (struct sn_token_piece){(uint32_t)from, (uint32_t)to};
    return true;
}

/* One piece being cut: what was matched or not comes in order and without gaps. */
struct cutting {
    struct sn_pieces *out;
    enum sn_behavior behavior;
    bool invert;
    size_t first; /* pieces before it */
    bool was_match, waits;
    size_t wait_from, wait_to; /* SN_WITH_NEXT: a match that waits for what follows */
    bool good;
};

static void cut_off(struct cutting *c, size_t from, size_t to)
{
    c->good = c->good && put_piece(c->out, from, to);
}

static bool joins_previous(const struct cutting *c, bool is_match)
{
    if (c->behavior == SN_WITH_PREVIOUS)
        return is_match && !c->was_match;
    return c->behavior == SN_CONTIGUOUS && is_match == c->was_match;
}

static void take(struct cutting *c, size_t from, size_t to, bool matched)
{
    bool is_match = matched != c->invert;
    if (c->behavior == SN_WITH_NEXT) {
        if (c->waits)
            from = is_match ? (cut_off(c, c->wait_from, c->wait_to), from) : c->wait_from;
        c->waits = is_match;
        c->wait_from = from;
        c->wait_to = to;
        if (!is_match)
            cut_off(c, from, to);
        return;
    }
    if (joins_previous(c, is_match) && c->out->n > c->first)
        c->out->list[c->out->n - 1].to = (uint32_t)to;
    else if (!(c->behavior == SN_REMOVED && is_match))
        cut_off(c, from, to);
    c->was_match = is_match;
}

/* --- matching --------------------------------------------------------------------------------- */

struct where {
    const struct sn_splitter *s;
    const struct sn_unicode *u;
    struct sn_regex_search *search;
    const char *p; /* the piece's text */
    size_t len;
};

static bool has_class(const struct where *w, size_t at, size_t *used)
{
    unsigned char c = (unsigned char)w->p[at];
    *used = 1;
    uint32_t code = c < 0x80 ? c : sn_utf8_get(w->p + at, used);
    return (sn_unicode_classes(w->u, code) & w->s->classes) != 0;
}

static int find_text(const struct where *w, size_t at, size_t match[2])
{
    const struct sn_bytes *text = &w->s->text;
    const char *hit = text->len > 0 ? memmem(w->p + at, w->len - at, text->p, text->len) : NULL;
    if (!hit)
        return 0;
    match[0] = (size_t)(hit - w->p);
    match[1] = match[0] + text->len;
    return 1;
}

static int find_class(const struct where *w, size_t at, size_t match[2])
{
    for (size_t used; at < w->len; at += used)
        if (has_class(w, at, &used)) {
            match[0] = at;
            match[1] = at + used;
            return 1;
        }
    return 0;
}

static int find_length(const struct where *w, size_t at, size_t match[2])
{
    match[0] = at;
    for (int64_t i = 0; i < w->s->length && at < w->len; i++)
        at += sn_utf8_length((unsigned char)w->p[at]);
    match[1] = at;
    return match[0] < match[1];
}

static int find(const struct where *w, size_t at, size_t match[2])
{
    switch (w->s->kind) {
    case SN_SPLIT_REGEX:
        return sn_regex_find(w->s->regex, w->search, w->p, w->len, at, match);
    case SN_SPLIT_TEXT:
        return find_text(w, at, match);
    case SN_SPLIT_CLASSES:
        return find_class(w, at, match);
    default:
        return find_length(w, at, match);
    }
}

/* A match of nothing is one, too, but not where the one before it ended. */
static int cut_by_matches(const struct where *w, size_t base, struct cutting *c)
{
    size_t done = 0, match[2];
    for (size_t at = 0; at < w->len && c->good;) {
        int found = find(w, at, match);
        if (found < 0)
            return -1;
        if (!found)
            break;
        if (match[0] > done)
            take(c, base + done, base + match[0], false);
        if (match[1] > match[0] || match[0] > done)
            take(c, base + match[0], base + match[1], true);
        done = at = match[1];
        if (match[0] == match[1] && at < w->len)
            at += sn_utf8_length((unsigned char)w->p[at]);
    }
    if (done < w->len)
        take(c, base + done, base + w->len, false);
    if (c->waits)
        cut_off(c, c->wait_from, c->wait_to);
    return 0;
}

static bool cut_by_scan(const struct where *w, size_t base, struct sn_pieces *out)
{
    bool good = true;
    for (size_t at = 0; at < w->len && good;) {
        size_t end = sn_scan_next(w->s->scan, w->u, w->p, w->len, at);
        good = put_piece(out, base + at, base + end);
        at = end;
    }
    return good;
}

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory to cut a text");
}

static enum sn_status cut(struct where *w, const char *text, const struct sn_pieces *in,
                          struct sn_pieces *out, struct sn_err *err)
{
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        size_t base = in->list[i].from;
        w->p = text + base;
        w->len = in->list[i].to - base;
        if (w->s->kind == SN_SPLIT_SCAN) {
            if (!cut_by_scan(w, base, out))
                return no_memory(err);
            continue;
        }
        struct cutting c = {.out = out,
                            .behavior = w->s->behavior,
                            .invert = w->s->invert,
                            .first = out->n,
                            .good = true};
        if (cut_by_matches(w, base, &c) < 0)
            return sn_fail(err, SN_EFAIL, "a pre-tokenizer's pattern takes too much to match");
        if (!c.good)
            return no_memory(err);
    }
    return SN_OK;
}

/* --- writing pieces anew ---------------------------------------------------------------------- */

static bool write_meta(const struct sn_splitter *s, const char *p, size_t len, bool first,
                       struct sn_bytes *out)
{
    bool good = true;
    bool begins =
        (len > 0 && *p == ' ') || (len >= s->text.len && memcmp(p, s->text.p, s->text.len) == 0);
    if (!begins && (s->scheme == SN_PREPEND_ALWAYS || (s->scheme == SN_PREPEND_FIRST && first)))
        good = sn_bytes_add(out, s->text.p, s->text.len);
    const char *end = p + len;
    while (good && p < end) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        good = sn_bytes_add(out, p, (size_t)((blank ? blank : end) - p));
        if (good && blank)
            good = sn_bytes_add(out, s->text.p, s->text.len);
        p = blank ? blank + 1 : end;
    }
    return good;
}

static enum sn_status rewrite(const struct sn_splitter *s, const char *text,
                              const struct sn_pieces *in, bool first, struct sn_bytes *out_text,
                              struct sn_pieces *out, struct sn_err *err)
{
    out->n = 0;
    out_text->len = 0;
    for (size_t i = 0; i < in->n; i++) {
        const char *p = text + in->list[i].from;
        size_t len = in->list[i].to - in->list[i].from, begin = out_text->len;
        bool good = true;
        if (s->kind == SN_SPLIT_PREFIX)
            good = (*p == ' ' || sn_bytes_add(out_text, " ", 1)) && sn_bytes_add(out_text, p, len);
        else
            good = write_meta(s, p, len, first && in->list[i].from == 0, out_text);
        if (out_text->len > most_bytes)
            return sn_fail(err, SN_EINPUT, "a text has more than 2 GiB; cut it in documents");
        if (!good || !put_piece(out, begin, out_text->len))
            return no_memory(err);
    }
    return SN_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

enum sn_status sn_split(const struct sn_splitters *s, const struct sn_unicode *u,
                        struct sn_split_work *w, const struct sn_bytes *in, bool first,
                        struct sn_err *err)
{
    struct sn_pieces *now = &w->pieces[0], *other = &w->pieces[1];
    int n_texts = 0;
    if (in->len > most_bytes)
        return sn_fail(err, SN_EINPUT, "a text has more than 2 GiB; cut it in documents");
    now->n = 0;
    w->text = in->p;
    if (!put_piece(now, 0, in->len))
        return no_memory(err);
    for (int i = 0; i < s->n; i++) {
        const struct sn_splitter *step = &s->list[i];
        if (step->kind == SN_SPLIT_PREFIX || step->kind == SN_SPLIT_META) {
            struct sn_bytes *fresh = &w->texts[n_texts++ % 2];
            SN_TRY(rewrite(step, w->text, now, first, fresh, other, err));
            w->text = fresh->p ? fresh->p : "";
        } else {
            struct where where = {.s = step, .u = u, .search = w->search};
            SN_TRY(cut(&where, w->text, now, other, err));
        }
        struct sn_pieces *swap = now;
        now = other;
        other = swap;
    }
    w->cut = now;
    return SN_OK;
}
