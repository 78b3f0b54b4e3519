/*
 * encode.c - a document through a tokenizer: added tokens, normalizer, pre-tokenizer, model, what
 * stands around it.
 *
 * Words repeat (Zipf), so an encoder keeps the tokens of short words in a table of its own where the
 * latest word of a place stays: one look for most words of a text.
 */
#include "lib/base/mem.h"
#include "lib/token/tokenizer_inner.h"

enum { SLOTS = 1 << 15, KEY = 26, VALUES = 8 };

struct slot {
    uint32_t tag;
    uint8_t len, n; /* len 0: free */
    char key[KEY];
    int32_t ids[VALUES];
};

struct sn_encoder {
    const struct sn_tokenizer *t;
    struct sn_model_work model;
    struct sn_normalize_work normalize;
    struct sn_split_work split;
    struct sn_regex_search *search;
    struct slot *slots;
};

static bool asks_search(const struct sn_tokenizer *t)
{
    bool asks = t->added.word != NULL;
    for (int i = 0; i < t->normalizers.n; i++)
        asks = asks || t->normalizers.list[i].regex;
    for (int i = 0; i < t->splitters.n; i++)
        asks = asks || t->splitters.list[i].regex;
    return asks;
}

enum sn_status sn_encoder_create(struct sn_encoder **out, const struct sn_tokenizer *t,
                                 struct sn_err *err)
{
    struct sn_encoder *e = sn_alloc(sizeof(*e));
    if (e)
        e->slots = sn_alloc_n(SLOTS, sizeof(*e->slots));
    enum sn_status st = e && e->slots ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for an encoder");
    if (st == SN_OK && asks_search(t))
        st = sn_regex_search_create(&e->search, err);
    if (st != SN_OK) {
        sn_encoder_destroy(e);
        return st;
    }
    e->t = t;
    e->normalize.search = e->split.search = e->search;
    *out = e;
    return SN_OK;
}

void sn_encoder_destroy(struct sn_encoder *e)
{
    if (!e)
        return;
    sn_model_work_fini(&e->model);
    sn_normalize_work_fini(&e->normalize);
    sn_split_work_fini(&e->split);
    sn_regex_search_destroy(e->search);
    sn_free(e->slots);
    sn_free(e);
}

/* --- words ------------------------------------------------------------------------------------ */

static enum sn_status miss(struct sn_encoder *e, struct slot *s, uint32_t tag, const char *p,
                           size_t len, struct sn_ids *out, struct sn_err *err)
{
    size_t before = out->len;
    SN_TRY(sn_model_encode(&e->t->model, &e->model, p, len, out, err));
    size_t n = out->len - before;
    if (len <= KEY && n <= VALUES) {
        s->tag = tag;
        s->len = (uint8_t)len;
        s->n = (uint8_t)n;
        memcpy(s->key, p, len);
        if (n > 0)
            memcpy(s->ids, out->p + before, n * sizeof(*s->ids));
    }
    return SN_OK;
}

static inline enum sn_status encode_word(struct sn_encoder *e, const char *p, size_t len,
                                         struct sn_ids *out, struct sn_err *err)
{
    uint64_t hash = sn_token_hash(p, len);
    struct slot *s = &e->slots[hash & (SLOTS - 1)];
    uint32_t tag = (uint32_t)(hash >> 32);
    if (s->tag != tag || s->len != len || memcmp(s->key, p, len) != 0 || !sn_ids_room(out, VALUES))
        return miss(e, s, tag, p, len, out, err);
    memcpy(out->p + out->len, s->ids, sizeof(s->ids));
    out->len += s->n;
    return SN_OK;
}

/* Where U+2581 begins a word, in a text that is one piece: behind another character. */
static const char *next_break(const char *p, const char *end)
{
    const char *at = p;
    while ((at = memmem(at, (size_t)(end - at), "\xe2\x96\x81", 3))) {
        if (at > p && !(at - p >= 3 && memcmp(at - 3, "\xe2\x96\x81", 3) == 0))
            return at;
        at += 3;
    }
    return end;
}

static enum sn_status encode_piece(struct sn_encoder *e, const char *p, size_t len,
                                   struct sn_ids *out, struct sn_err *err)
{
    if (!e->t->model.breaks_before_space)
        return encode_word(e, p, len, out, err);
    for (const char *end = p + len, *next; p < end; p = next) {
        next = next_break(p, end);
        SN_TRY(encode_word(e, p, (size_t)(next - p), out, err));
    }
    return SN_OK;
}

/* --- texts ------------------------------------------------------------------------------------ */

static enum sn_status encode_normal(struct sn_encoder *e, const char *p, size_t len, bool first,
                                    struct sn_ids *out, struct sn_err *err)
{
    struct sn_bytes in = {(char *)(uintptr_t)p, len, 0}; /* borrowed, and only read */
    SN_TRY(sn_split(&e->t->splitters, e->t->unicode, &e->split, &in, first, err));
    const struct sn_pieces *pieces = e->split.cut;
    if (!sn_ids_room(out, pieces->n + VALUES))
        return sn_fail(err, SN_ENOMEM, "no memory for tokens");
    for (size_t i = 0; i < pieces->n; i++) {
        const struct sn_token_piece *piece = &pieces->list[i];
        SN_TRY(encode_piece(e, e->split.text + piece->from, piece->to - piece->from, out, err));
    }
    return SN_OK;
}

static enum sn_status put(struct sn_ids *out, int32_t id, struct sn_err *err)
{
    return sn_ids_push(out, id) ? SN_OK : sn_fail(err, SN_ENOMEM, "no memory for tokens");
}

enum sn_status sn_encode_part(struct sn_encoder *e, const char *p, size_t len, bool first,
                              struct sn_ids *out, struct sn_err *err)
{
    const struct sn_tokenizer *t = e->t;
    struct sn_bytes normal;
    struct sn_added_walk walk = {.added = &t->added,
                                 .set = &t->added.normal,
                                 .u = t->unicode,
                                 .search = e->search,
                                 .waiting = -1};
    size_t from, to;
    int32_t id;
    SN_TRY(sn_normalize(&t->normalizers, t->unicode, &e->normalize, p, len, &normal, err));
    bool lost = e->normalize.lost_first;
    sn_added_begin(&walk, normal.p, normal.len);
    while (sn_added_next(&walk, &from, &to, &id)) {
        if (id >= 0)
            SN_TRY(put(out, id, err));
        else
            SN_TRY(encode_normal(e, normal.p + from, to - from, first && from == 0 && !lost, out,
                                 err));
    }
    return SN_OK;
}

enum sn_status sn_encode_check(const char *p, size_t len, struct sn_err *err)
{
    size_t bad = sn_utf8_check(p, len);
    if (bad == len)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "byte %zu (0x%02x) is no valid UTF-8", bad,
                   (unsigned char)p[bad]);
}

void sn_encode_walk(const struct sn_encoder *e, struct sn_added_walk *walk, const char *p, size_t len)
{
    const struct sn_tokenizer *t = e->t;
    *walk = (struct sn_added_walk){
        .added = &t->added, .set = &t->added.raw, .u = t->unicode, .search = e->search, .waiting = -1};
    sn_added_begin(walk, p, len);
}

enum sn_status sn_encode(struct sn_encoder *e, const char *p, size_t len, bool special,
                         struct sn_ids *out, struct sn_err *err)
{
    const struct sn_tokenizer *t = e->t;
    struct sn_added_walk walk;
    size_t from, to;
    int32_t id;
    SN_TRY(sn_encode_check(p, len, err));
    for (size_t i = 0; special && i < t->before.len; i++)
        SN_TRY(put(out, t->before.p[i], err));
    sn_encode_walk(e, &walk, p, len);
    while (sn_added_next(&walk, &from, &to, &id)) {
        if (id >= 0)
            SN_TRY(put(out, id, err));
        else
            SN_TRY(sn_encode_part(e, p + from, to - from, from == 0, out, err));
    }
    for (size_t i = 0; special && i < t->behind.len; i++)
        SN_TRY(put(out, t->behind.p[i], err));
    return SN_OK;
}
