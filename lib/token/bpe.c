/*
 * bpe.c - byte pair encoding of one word.
 *
 * Short words are merged by looking at all ranks each time, which is faster than a heap for as few
 * symbols as words have; long ones by a heap with stale entries: n log n.
 */
#include "lib/token/model.h"

#include "lib/base/mem.h"

#include <stdio.h>

enum { FEW = 40 };
#define NO_RANK UINT32_MAX

uint32_t sn_byte_char(unsigned char b)
{
    if ((b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad))
        return b;
    /* The rest in order, from 256 on: 0..32, 127..160, 173. */
    return b <= 32 ? 256u + b : b <= 160 ? 256u + 33 + (b - 127u) : 256u + 67;
}

int sn_char_byte(uint32_t c)
{
    if (c < 256)
        return sn_byte_char((unsigned char)c) == c ? (int)c : -1;
    if (c < 256 + 33)
        return (int)c - 256;
    return c < 256 + 67 ? (int)c - 256 - 33 + 127 : c == 256 + 67 ? 173 : -1;
}

/* --- merges ----------------------------------------------------------------------------------- */

static inline size_t merge_place(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(key * 0x9e3779b97f4a7c15u >> 29);
}

static const struct sn_merge *find_merge(const struct sn_merges *m, int32_t left, int32_t right)
{
    for (size_t i = merge_place(left, right);; i++) {
        const struct sn_merge *s = &m->slots[i & (m->n_slots - 1)];
        if (s->left == left && s->right == right)
            return s;
        if (s->left < 0)
            return NULL;
    }
}

static bool more_merges(struct sn_merges *m)
{
    size_t n = m->n_slots ? m->n_slots * 2 : 1024;
    struct sn_merge *slots = sn_alloc_n(n, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < n; i++)
        slots[i].left = -1;
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].left < 0)
            continue;
        size_t at = merge_place(m->slots[i].left, m->slots[i].right);
        while (slots[at & (n - 1)].left >= 0)
            at++;
        slots[at & (n - 1)] = m->slots[i];
    }
    sn_free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    return true;
}

enum sn_status sn_merges_add(struct sn_merges *m, int32_t left, int32_t right, int32_t whole,
                             uint32_t rank, struct sn_err *err)
{
    if (m->n * 2 >= m->n_slots && !more_merges(m))
        return sn_fail(err, SN_ENOMEM, "no memory for merges");
    size_t i = merge_place(left, right);
    struct sn_merge *s = &m->slots[i & (m->n_slots - 1)];
    while (s->left >= 0 && !(s->left == left && s->right == right))
        s = &m->slots[++i & (m->n_slots - 1)];
    m->n += s->left < 0;
    *s = (struct sn_merge){left, right, rank, whole};
    return SN_OK;
}

enum sn_status sn_bpe_derive_merges(struct sn_merges *out, const struct sn_vocab *v,
                                    const uint32_t *rank_of, struct sn_err *err)
{
    for (size_t id = 0; id < v->ids; id++) {
        size_t len;
        const char *p = sn_vocab_text(v, (int64_t)id, &len);
        if (!p || rank_of[id] == NO_RANK || sn_vocab_find(v, p, len) != (int32_t)id)
            continue;
        for (size_t cut = 1; cut < len; cut++) {
            int32_t left = sn_vocab_find(v, p, cut);
            int32_t right = left < 0 ? -1 : sn_vocab_find(v, p + cut, len - cut);
            if (right >= 0 && rank_of[left] != NO_RANK && rank_of[right] != NO_RANK)
                SN_TRY(sn_merges_add(out, left, right, (int32_t)id, rank_of[id], err));
        }
    }
    return SN_OK;
}

/* --- finishing a model ------------------------------------------------------------------------ */

/* The bytes that a token stands for; false: it has a character that stands for none. */
static bool bytes_of(const char *p, size_t len, struct sn_bytes *out, bool *memory)
{
    out->len = 0;
    *memory = sn_bytes_room(out, len);
    for (size_t i = 0, used; *memory && i < len; i += used) {
        int byte = sn_char_byte(sn_utf8_get(p + i, &used));
        if (byte < 0)
            return false;
        out->p[out->len++] = (char)byte;
    }
    return *memory;
}

static enum sn_status list_words(struct sn_token_model *m, struct sn_err *err)
{
    struct sn_bytes bytes = {0};
    enum sn_status st = SN_OK;
    for (size_t id = 0; id < m->vocab.ids && st == SN_OK; id++) {
        size_t len;
        bool memory = true;
        const char *p = sn_vocab_text(&m->vocab, (int64_t)id, &len);
        if (!p || len == 0)
            continue;
        if (bytes_of(p, len, &bytes, &memory))
            st = sn_vocab_add(&m->words, bytes.p, bytes.len, (int64_t)id, err);
        else if (!memory)
            st = sn_fail(err, SN_ENOMEM, "no memory for a vocabulary");
    }
    sn_bytes_fini(&bytes);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        m->by_byte[b] = sn_vocab_find(&m->words, &c, 1);
    }
    return st;
}

/* Does a token hold U+2581 behind another character? Then a word is no cut before it. */
static bool spans_space(const char *p, size_t len)
{
    for (size_t i = 1; i + 3 <= len; i++)
        if (memcmp(p + i, "\xe2\x96\x81", 3) == 0 &&
            !(i >= 3 && memcmp(p + i - 3, "\xe2\x96\x81", 3) == 0))
            return true;
    return false;
}

enum sn_status sn_bpe_finish(struct sn_token_model *m, struct sn_err *err)
{
    if (m->byte_level)
        SN_TRY(list_words(m, err));
    m->breaks_before_space = !m->byte_level && !m->ignore_merges && m->prefix.len == 0 &&
                             m->suffix.len == 0 && sn_vocab_find(&m->vocab, "\xe2\x96\x81", 3) >= 0;
    for (size_t i = 0; i < m->merges.n_slots && m->breaks_before_space; i++) {
        size_t len;
        const struct sn_merge *s = &m->merges.slots[i];
        const char *p = s->left < 0 ? NULL : sn_vocab_text(&m->vocab, s->whole, &len);
        m->breaks_before_space = !p || !spans_space(p, len);
    }
    return SN_OK;
}

/* --- symbols ---------------------------------------------------------------------------------- */

static bool push(struct sn_model_work *w, int32_t id)
{
    if (w->n == w->symbols_cap) {
        size_t cap = w->symbols_cap ? w->symbols_cap * 2 : 256;
        struct sn_symbol *grown = sn_realloc(w->symbols, cap * sizeof(*grown));
        if (!grown)
            return false;
        w->symbols = grown;
        w->symbols_cap = cap;
    }
    w->symbols[w->n++].id = id;
    return true;
}

static bool push_bytes(const struct sn_token_model *m, struct sn_model_work *w, const char *p,
                       size_t len)
{
    bool good = true, was_unk = false;
    for (size_t i = 0; i < len && good; i++) {
        int32_t id = m->by_byte[(unsigned char)p[i]];
        bool is_unk = id < 0;
        if (!is_unk || (m->unk >= 0 && !(was_unk && m->fuse_unk)))
            good = push(w, is_unk ? m->unk : id);
        was_unk = is_unk;
    }
    return good;
}

static bool has_fallback(const struct sn_token_model *m, const char *p, size_t len)
{
    bool all = m->byte_fallback;
    for (size_t i = 0; i < len && all; i++)
        all = m->fallback[(unsigned char)p[i]] >= 0;
    return all;
}

/* The text under which a character is looked up: with the prefix of what continues a word and the
 * suffix of its end. */
static bool symbol_text(const struct sn_token_model *m, struct sn_bytes *text, const char *p,
                        size_t len, bool is_first, bool is_last)
{
    text->len = 0;
    return (is_first || sn_bytes_add(text, m->prefix.p, m->prefix.len)) &&
           sn_bytes_add(text, p, len) &&
           (!is_last || sn_bytes_add(text, m->suffix.p, m->suffix.len));
}

/* As merge_word of tokenizers: an unknown character waits, so that the next one may join it; bytes
 * that stand for a character do not end the waiting. */
static bool push_chars(const struct sn_token_model *m, struct sn_model_work *w, const char *p,
                       size_t len)
{
    bool waits = false, good = true, is_bare = m->prefix.len == 0 && m->suffix.len == 0;
    for (size_t i = 0, used; i < len && good; i += used) {
        used = sn_utf8_length((unsigned char)p[i]);
        const char *text = p + i;
        size_t n = used;
        if (!is_bare) {
            good = symbol_text(m, &w->text, text, used, i == 0, i + used == len);
            text = w->text.p;
            n = w->text.len;
        }
        int32_t id = good ? sn_vocab_find(&m->vocab, text, n) : -1;
        if (id >= 0) {
            good = (!waits || push(w, m->unk)) && push(w, id);
            waits = false;
        } else if (good && has_fallback(m, text, n)) {
            for (size_t j = 0; j < n && good; j++)
                good = push(w, m->fallback[(unsigned char)text[j]]);
        } else if (m->unk >= 0) {
            good = good && (!waits || m->fuse_unk || push(w, m->unk));
            waits = true;
        }
    }
    return good && (!waits || push(w, m->unk));
}

/* --- merging ---------------------------------------------------------------------------------- */

static inline void look_at(const struct sn_merges *m, struct sn_symbol *s, int32_t right)
{
    const struct sn_merge *found = find_merge(m, s->id, right);
    s->rank = found ? found->rank : NO_RANK;
    s->whole = found ? found->whole : 0;
}

static void merge_few(const struct sn_token_model *m, struct sn_model_work *w)
{
    struct sn_symbol *s = w->symbols;
    size_t n = w->n;
    for (size_t i = 0; i + 1 < n; i++)
        look_at(&m->merges, &s[i], s[i + 1].id);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            best = s[i].rank < s[best].rank ? i : best;
        if (s[best].rank == NO_RANK)
            break;
        s[best].id = s[best].whole;
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof(*s));
        if (best + 1 < n)
            look_at(&m->merges, &s[best], s[best + 1].id);
        if (best > 0)
            look_at(&m->merges, &s[best - 1], s[best].id);
    }
    w->n = n;
}

static bool is_before(struct sn_candidate a, struct sn_candidate b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static bool heap_push(struct sn_model_work *w, struct sn_candidate c)
{
    if (w->n_heap == w->heap_cap) {
        size_t cap = w->heap_cap ? w->heap_cap * 2 : 256;
        struct sn_candidate *grown = sn_realloc(w->heap, cap * sizeof(*grown));
        if (!grown)
            return false;
        w->heap = grown;
        w->heap_cap = cap;
    }
    size_t i = w->n_heap++;
    for (; i > 0 && is_before(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
    return true;
}

static struct sn_candidate heap_pop(struct sn_model_work *w)
{
    struct sn_candidate top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        if (child + 1 < w->n_heap && is_before(w->heap[child + 1], w->heap[child]))
            child++;
        if (!is_before(w->heap[child], last))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

/* Look at a symbol and the one behind it, and remember what they would be. */
static bool consider(const struct sn_token_model *m, struct sn_model_work *w, uint32_t at)
{
    struct sn_symbol *s = &w->symbols[at];
    s->rank = NO_RANK;
    if (s->next < w->n)
        look_at(&m->merges, s, w->symbols[s->next].id);
    return s->rank == NO_RANK || heap_push(w, (struct sn_candidate){s->rank, at});
}

static bool merge_many(const struct sn_token_model *m, struct sn_model_work *w)
{
    struct sn_symbol *s = w->symbols;
    w->n_heap = 0;
    for (size_t i = 0; i < w->n; i++) {
        s[i].before = i > 0 ? (uint32_t)i - 1 : NO_RANK;
        s[i].next = (uint32_t)i + 1;
    }
    for (size_t i = 0; i < w->n; i++)
        if (!consider(m, w, (uint32_t)i))
            return false;
    while (w->n_heap > 0) {
        struct sn_candidate c = heap_pop(w);
        if (s[c.at].id < 0 || s[c.at].rank != c.rank)
            continue; /* it was merged meanwhile, or its neighbour was */
        uint32_t gone = s[c.at].next;
        s[c.at].id = s[c.at].whole;
        s[c.at].next = s[gone].next;
        s[gone].id = -1;
        if (s[c.at].next < w->n)
            s[s[c.at].next].before = c.at;
        if (!consider(m, w, c.at) || (s[c.at].before != NO_RANK && !consider(m, w, s[c.at].before)))
            return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < w->n; i++)
        if (s[i].id >= 0)
            s[kept++].id = s[i].id;
    w->n = kept;
    return true;
}

enum sn_status sn_bpe_encode(const struct sn_token_model *m, struct sn_model_work *w, const char *p,
                             size_t len, struct sn_ids *out, struct sn_err *err)
{
    bool good = true;
    w->n = 0;
    if (m->ignore_merges) {
        int32_t whole = sn_vocab_find(m->byte_level ? &m->words : &m->vocab, p, len);
        if (whole >= 0)
            return sn_ids_push(out, whole) ? SN_OK
                                           : sn_fail(err, SN_ENOMEM, "no memory for tokens");
    }
    if (m->byte_level)
        good = push_bytes(m, w, p, len);
    else
        good = push_chars(m, w, p, len);
    if (m->merges.n > 0 && w->n > FEW)
        good = good && merge_many(m, w);
    else if (m->merges.n > 0 && good)
        merge_few(m, w);
    if (!good || !sn_ids_room(out, w->n))
        return sn_fail(err, SN_ENOMEM, "no memory for the tokens of a word of %zu bytes", len);
    for (size_t i = 0; i < w->n; i++)
        out->p[out->len++] = w->symbols[i].id;
    return SN_OK;
}
