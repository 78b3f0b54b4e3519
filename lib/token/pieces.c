/*
 * pieces.c - models that look texts up: WordPiece (the longest token first), Unigram (the most
 * likely path: Kudo 2018), whole words; and what all models share.
 */
#include "lib/token/model.h"

#include "lib/base/mem.h"

#include <stdio.h>

#define NOWHERE UINT32_MAX

void sn_model_work_fini(struct sn_model_work *w)
{
    sn_free(w->symbols);
    sn_free(w->heap);
    sn_free(w->paths);
    sn_bytes_fini(&w->text);
    *w = (struct sn_model_work){0};
}

void sn_model_fini(struct sn_token_model *m)
{
    sn_vocab_fini(&m->vocab);
    sn_vocab_fini(&m->words);
    sn_trie_fini(&m->trie);
    sn_bytes_fini(&m->prefix);
    sn_bytes_fini(&m->suffix);
    sn_free(m->merges.slots);
    sn_free(m->scores);
    *m = (struct sn_token_model){0};
}

void sn_model_find_fallback(struct sn_token_model *m)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "<0x%02X>", b);
        m->fallback[b] = sn_vocab_find(&m->vocab, name, 6);
    }
}

enum sn_status sn_model_fill_trie(struct sn_token_model *m, struct sn_err *err)
{
    if (m->trie.nodes > 0)
        return SN_OK; /* its reader knew better */
    for (size_t id = 0; id < m->vocab.ids; id++) {
        size_t len;
        const char *p = sn_vocab_text(&m->vocab, (int64_t)id, &len);
        if (p && len > 0 && !sn_trie_add(&m->trie, p, len, (int32_t)id))
            return sn_fail(err, SN_ENOMEM, "no memory for a vocabulary");
    }
    return SN_OK;
}

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory for tokens");
}

static enum sn_status put_unk(const struct sn_token_model *m, const char *p, size_t len,
                              struct sn_ids *out, struct sn_err *err)
{
    if (m->unk < 0)
        return sn_fail(err, SN_EINPUT,
                       "'%.*s' is not in the vocabulary, which has no token for what is unknown",
                       (int)(len < 40 ? len : 40), p);
    return sn_ids_push(out, m->unk) ? SN_OK : no_memory(err);
}

/* --- WordPiece -------------------------------------------------------------------------------- */

static size_t count_chars(const char *p, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

/* The longest token that begins here, below a node; 0: none. */
static size_t longest(const struct sn_trie *t, uint32_t node, const char *p, size_t len,
                      int32_t *id)
{
    size_t best = 0;
    for (size_t i = 0; i < len && node != SN_TRIE_NONE; i++) {
        node = sn_trie_step(t, node, (unsigned char)p[i]);
        if (node != SN_TRIE_NONE && t->values[node] >= 0) {
            best = i + 1;
            *id = t->values[node];
        }
    }
    return best;
}

static enum sn_status wordpiece(const struct sn_token_model *m, const char *p, size_t len,
                                struct sn_ids *out, struct sn_err *err)
{
    size_t before = out->len;
    uint32_t inner = sn_trie_walk(&m->trie, 0, m->prefix.p, m->prefix.len);
    if (count_chars(p, len) > m->longest_word)
        return put_unk(m, p, len, out, err);
    for (size_t at = 0; at < len;) {
        int32_t id = -1;
        size_t n = longest(&m->trie, at > 0 ? inner : 0, p + at, len - at, &id);
        if (n == 0) {
            out->len = before;
            return put_unk(m, p, len, out, err);
        }
        if (!sn_ids_push(out, id))
            return no_memory(err);
        at += n;
    }
    return SN_OK;
}

/* --- Unigram ---------------------------------------------------------------------------------- */

static void arrive(const struct sn_token_model *m, struct sn_token_path *to, double score,
                   size_t from, int32_t id)
{
    if (m->as_sentencepiece)
        score = (double)(float)score; /* which adds in single precision */
    if (to->from == NOWHERE || score > to->score)
        *to = (struct sn_token_path){score, id, (uint32_t)from};
}

static enum sn_status find_paths(const struct sn_token_model *m, struct sn_token_path *paths,
                                 const char *p, size_t len, struct sn_err *err)
{
    for (size_t i = 0; i <= len; i++)
        paths[i] = (struct sn_token_path){0, -1, NOWHERE};
    for (size_t at = 0, used; at < len; at += used) {
        double here = paths[at].score;
        uint32_t node = 0;
        bool has_single = false;
        used = sn_utf8_length((unsigned char)p[at]);
        for (size_t i = at; i < len; i++) {
            node = sn_trie_step(&m->trie, node, (unsigned char)p[i]);
            if (node == SN_TRIE_NONE)
                break;
            int32_t id = m->trie.values[node];
            if (id < 0)
                continue;
            arrive(m, &paths[i + 1], m->scores[id] + here, at, id);
            has_single = has_single || i + 1 - at == used;
        }
        if (has_single)
            continue;
        if (m->unk < 0)
            return put_unk(m, p + at, used, NULL, err);
        arrive(m, &paths[at + used], m->unk_score + here, at, m->unk);
    }
    return SN_OK;
}

static enum sn_status put_piece(const struct sn_token_model *m, const char *p, size_t len,
                                bool is_unk, struct sn_ids *out, struct sn_err *err)
{
    int32_t id = m->as_sentencepiece && is_unk ? -1 : sn_vocab_find(&m->vocab, p, len);
    bool all = id < 0 && m->byte_fallback;
    for (size_t i = 0; i < len && all; i++)
        all = m->fallback[(unsigned char)p[i]] >= 0;
    if (!all && id < 0)
        return put_unk(m, p, len, out, err);
    if (!sn_ids_room(out, len))
        return no_memory(err);
    if (id >= 0)
        out->p[out->len++] = id;
    for (size_t i = 0; i < len && all; i++)
        out->p[out->len++] = m->fallback[(unsigned char)p[i]];
    return SN_OK;
}

static enum sn_status unigram(const struct sn_token_model *m, struct sn_model_work *w,
                              const char *p, size_t len, struct sn_ids *out, struct sn_err *err)
{
    if (len + 1 > w->paths_cap) {
        size_t cap = (len + 1) * 2;
        struct sn_token_path *grown = sn_realloc(w->paths, cap * sizeof(*grown));
        if (!grown)
            return no_memory(err);
        w->paths = grown;
        w->paths_cap = cap;
    }
    struct sn_token_path *paths = w->paths;
    SN_TRY(find_paths(m, paths, p, len, err));
    /* Turn the chain of ends around: `score` is not needed any more, `from` becomes "where to". */
    uint32_t end = (uint32_t)len, next = NOWHERE;
    while (end != NOWHERE && end > 0) {
        uint32_t from = paths[end].from;
        paths[end].from = next;
        next = end;
        end = from;
    }
    for (uint32_t from = 0, to = next; to != NOWHERE;) {
        uint32_t after = paths[to].from;
        while (paths[to].id == m->unk && after != NOWHERE && paths[after].id == m->unk) {
            to = after; /* unknown characters beside each other are one piece */
            after = paths[to].from;
        }
        SN_TRY(put_piece(m, p + from, to - from, paths[to].id == m->unk, out, err));
        from = to;
        to = after;
    }
    return SN_OK;
}

/* --- any model -------------------------------------------------------------------------------- */

enum sn_status sn_model_encode(const struct sn_token_model *m, struct sn_model_work *w,
                               const char *p, size_t len, struct sn_ids *out, struct sn_err *err)
{
    int32_t id;
    switch (m->kind) {
    case SN_MODEL_BPE:
        return sn_bpe_encode(m, w, p, len, out, err);
    case SN_MODEL_WORDPIECE:
        return wordpiece(m, p, len, out, err);
    case SN_MODEL_UNIGRAM:
        return unigram(m, w, p, len, out, err);
    default:
        id = sn_vocab_find(&m->vocab, p, len);
        if (id < 0)
            return put_unk(m, p, len, out, err);
        return sn_ids_push(out, id) ? SN_OK : no_memory(err);
    }
}
