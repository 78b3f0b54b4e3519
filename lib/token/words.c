#include "lib/token/words.h"

#include "lib/base/mem.h"

void sn_word_counts_fini(struct sn_word_counts *w)
{
    sn_bytes_fini(&w->texts);
    sn_free(w->list);
    sn_free(w->slots);
    *w = (struct sn_word_counts){0};
}

static bool more_slots(struct sn_word_counts *w)
{
    size_t n = w->n_slots ? w->n_slots * 2 : 1024;
    uint32_t *slots = sn_alloc_n(n, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < w->n; i++) {
        const struct sn_word_count *one = &w->list[i];
        size_t at = (size_t)sn_token_hash(w->texts.p + one->at, one->len) & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    sn_free(w->slots);
    w->slots = slots;
    w->n_slots = n;
    return true;
}

static bool more_words(struct sn_word_counts *w)
{
    size_t cap = w->cap ? w->cap * 2 : 512;
    struct sn_word_count *grown = sn_realloc(w->list, cap * sizeof(*grown));
    if (!grown)
        return false;
    w->list = grown;
    w->cap = cap;
    return true;
}

bool sn_word_counts_add(struct sn_word_counts *w, const char *p, size_t len, int64_t count)
{
    if (w->n * 2 >= w->n_slots && !more_slots(w))
        return false;
    uint64_t hash = sn_token_hash(p, len);
    uint32_t tag = (uint32_t)(hash >> 32);
    size_t at = (size_t)hash & (w->n_slots - 1);
    for (; w->slots[at]; at = (at + 1) & (w->n_slots - 1)) {
        struct sn_word_count *one = &w->list[w->slots[at] - 1];
        if (one->tag == tag && one->len == len && memcmp(w->texts.p + one->at, p, len) == 0) {
            one->count += count;
            return true;
        }
    }
    if (w->n >= UINT32_MAX - 1 || (w->n == w->cap && !more_words(w)))
        return false;
    struct sn_word_count fresh = {
        .at = w->texts.len, .len = (uint32_t)len, .tag = tag, .count = count};
    if (!sn_bytes_add(&w->texts, p, len))
        return false;
    w->list[w->n++] = fresh;
    w->slots[at] = (uint32_t)w->n;
    return true;
}

bool sn_word_counts_join(struct sn_word_counts *w, const struct sn_word_counts *other)
{
    for (size_t i = 0; i < other->n; i++) {
        const struct sn_word_count *one = &other->list[i];
        if (!sn_word_counts_add(w, other->texts.p + one->at, one->len, one->count))
            return false;
    }
    return true;
}
