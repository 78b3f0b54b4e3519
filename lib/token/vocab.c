#include "lib/token/vocab.h"

#include "lib/base/mem.h"

void sn_vocab_fini(struct sn_vocab *v)
{
    sn_bytes_fini(&v->texts);
    sn_free(v->by_id);
    sn_free(v->slots);
    *v = (struct sn_vocab){0};
}

static struct sn_vocab_slot *slot_of(const struct sn_vocab *v, uint32_t tag, const char *p,
                                     size_t len)
{
    for (size_t i = tag;; i++) {
        struct sn_vocab_slot *s = &v->slots[i & (v->n_slots - 1)];
        if (s->id < 0)
            return s;
        const struct sn_vocab_text *t = &v->by_id[s->id];
        if (s->tag == tag && t->len == len && (len == 0 || memcmp(v->texts.p + t->at, p, len) == 0))
            return s;
    }
}

static bool more_slots(struct sn_vocab *v)
{
    size_t n = v->n_slots ? v->n_slots * 2 : 1024;
    struct sn_vocab_slot *slots = sn_alloc_n(n, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < n; i++)
        slots[i].id = -1;
    for (size_t i = 0; i < v->n_slots; i++) {
        if (v->slots[i].id < 0)
            continue;
        size_t at = v->slots[i].tag;
        while (slots[at & (n - 1)].id >= 0)
            at++;
        slots[at & (n - 1)] = v->slots[i];
    }
    sn_free(v->slots);
    v->slots = slots;
    v->n_slots = n;
    return true;
}

static bool more_ids(struct sn_vocab *v, size_t want)
{
    size_t cap = v->ids_cap ? v->ids_cap : 1024;
    while (cap < want)
        cap *= 2;
    if (cap > v->ids_cap) {
        struct sn_vocab_text *grown = sn_realloc(v->by_id, cap * sizeof(*grown));
        if (!grown)
            return false;
        memset(grown + v->ids_cap, 0, (cap - v->ids_cap) * sizeof(*grown));
        v->by_id = grown;
        v->ids_cap = cap;
    }
    v->ids = v->ids < want ? want : v->ids;
    return true;
}

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory for a vocabulary");
}

enum sn_status sn_vocab_add(struct sn_vocab *v, const char *p, size_t len, int64_t id,
                            struct sn_err *err)
{
    if (id < 0 || id >= SN_TOKEN_IDS)
        return sn_fail(err, SN_EINPUT, "token '%.*s' has id %lld; want 0 .. %d",
                       (int)(len < 60 ? len : 60), p, (long long)id, SN_TOKEN_IDS - 1);
    if ((size_t)id < v->ids && v->by_id[id].is_there)
        return sn_fail(err, SN_EINPUT, "tokens '%.*s' and '%.*s' both have id %lld",
                       (int)v->by_id[id].len, v->texts.p + v->by_id[id].at,
                       (int)(len < 60 ? len : 60), p, (long long)id);
    if (v->texts.len + len > UINT32_MAX || !more_ids(v, (size_t)id + 1) ||
        (v->n_tokens * 2 >= v->n_slots && !more_slots(v)))
        return no_memory(err);
    uint32_t at = (uint32_t)v->texts.len, tag = (uint32_t)sn_token_hash(p, len);
    if (!sn_bytes_add(&v->texts, p, len))
        return no_memory(err);
    struct sn_vocab_slot *s = slot_of(v, tag, p, len);
    v->n_tokens += s->id < 0;
    v->by_id[id] = (struct sn_vocab_text){at, (uint32_t)len, true};
    *s = (struct sn_vocab_slot){tag, (int32_t)id};
    return SN_OK;
}

int32_t sn_vocab_find(const struct sn_vocab *v, const char *p, size_t len)
{
    return v->n_slots ? slot_of(v, (uint32_t)sn_token_hash(p, len), p, len)->id : -1;
}

const char *sn_vocab_text(const struct sn_vocab *v, int64_t id, size_t *len)
{
    if (id < 0 || (size_t)id >= v->ids || !v->by_id[id].is_there)
        return NULL;
    *len = v->by_id[id].len;
    return v->texts.p ? v->texts.p + v->by_id[id].at : "";
}

/* --- the trie --------------------------------------------------------------------------------- */

void sn_trie_fini(struct sn_trie *t)
{
    sn_free(t->slots);
    sn_free(t->values);
    *t = (struct sn_trie){0};
}

static void put_slot(struct sn_trie_slot *slots, size_t n, struct sn_trie_slot slot)
{
    size_t i = (size_t)(slot.key * 0x9e3779b97f4a7c15u >> 32);
    while (slots[i & (n - 1)].key)
        i++;
    slots[i & (n - 1)] = slot;
}

static bool more_edges(struct sn_trie *t)
{
    size_t n = t->n_slots ? t->n_slots * 2 : 1024;
    struct sn_trie_slot *slots = sn_alloc_n(n, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slots[i].key)
            put_slot(slots, n, t->slots[i]);
    sn_free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    return true;
}

static bool new_node(struct sn_trie *t)
{
    if (t->nodes == t->nodes_cap) {
        size_t cap = t->nodes_cap ? t->nodes_cap * 2 : 512;
        int32_t *grown = cap < SN_TRIE_NONE ? sn_realloc(t->values, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return false;
        t->values = grown;
        t->nodes_cap = cap;
    }
    t->values[t->nodes++] = -1;
    return true;
}

bool sn_trie_add(struct sn_trie *t, const char *p, size_t len, int32_t value)
{
    uint32_t node = 0;
    if (t->nodes == 0 && !new_node(t))
        return false;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = sn_trie_step(t, node, (unsigned char)p[i]);
        if (next == SN_TRIE_NONE) {
            if ((t->nodes * 2 >= t->n_slots && !more_edges(t)) || !new_node(t))
                return false;
            next = (uint32_t)t->nodes - 1;
            uint64_t key = ((uint64_t)node << 8 | (unsigned char)p[i]) + 1;
            put_slot(t->slots, t->n_slots, (struct sn_trie_slot){key, next});
        }
        node = next;
    }
    t->values[node] = value;
    return true;
}

uint32_t sn_trie_walk(const struct sn_trie *t, uint32_t node, const char *p, size_t len)
{
    for (size_t i = 0; i < len && node != SN_TRIE_NONE; i++)
        node = sn_trie_step(t, node, (unsigned char)p[i]);
    return node;
}
