/*
 * added.c - as AddedVocabulary::find_matches of tokenizers (0.23): of all tokens that begin at the
 * first place where one does, the longest.
 */
#include "lib/token/added.h"

#include "lib/base/mem.h"

void sn_added_fini(struct sn_added_list *a)
{
    for (int i = 0; i < a->n; i++) {
        sn_bytes_fini(&a->list[i].text);
        sn_bytes_fini(&a->list[i].normal);
    }
    sn_free(a->list);
    sn_trie_fini(&a->raw.trie);
    sn_trie_fini(&a->normal.trie);
    sn_regex_destroy(a->word);
    *a = (struct sn_added_list){0};
}

struct sn_added *sn_added_add(struct sn_added_list *a)
{
    if (!sn_grow((void **)&a->list, a->n, &a->cap, sizeof(*a->list)))
        return NULL;
    a->list[a->n] = (struct sn_added){0};
    return &a->list[a->n++];
}

bool sn_added_ask_unicode(const struct sn_added_list *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->list[i].left || a->list[i].right)
            return true;
    return false;
}

const struct sn_added *sn_added_find(const struct sn_added_list *a, int32_t id)
{
    for (int i = a->n - 1; i >= 0; i--)
        if (a->list[i].id == id)
            return &a->list[i];
    return NULL;
}

enum sn_status sn_added_finish(struct sn_added_list *a, struct sn_err *err)
{
    bool asks_words = false;
    for (int i = 0; i < a->n; i++) {
        const struct sn_added *t = &a->list[i];
        const struct sn_bytes *text = t->normalized ? &t->normal : &t->text;
        struct sn_added_set *set = t->normalized ? &a->normal : &a->raw;
        if (text->len == 0 || t->by_name)
            continue;
        if (!sn_trie_add(&set->trie, text->p, text->len, i))
            return sn_fail(err, SN_ENOMEM, "no memory for added tokens");
        set->begins[(unsigned char)text->p[0]] = true;
        set->n++;
        asks_words = asks_words || t->single_word;
    }
    return asks_words ? sn_regex_create(&a->word, "\\w", 2, SN_FANCY, err) : SN_OK;
}

/* --- walking ---------------------------------------------------------------------------------- */

void sn_added_begin(struct sn_added_walk *w, const char *p, size_t len)
{
    w->p = p;
    w->len = len;
    w->done = w->at = 0;
    w->waiting = -1;
}

/* The longest token at the first place where there is one: its bytes, 0 for none. */
static size_t find_token(const struct sn_added_walk *w, size_t *at, int32_t *which)
{
    const struct sn_trie *t = &w->set->trie;
    for (size_t i = *at; w->set->n > 0 && i < w->len; i++) {
        size_t best = 0;
        uint32_t node = 0;
        if (!w->set->begins[(unsigned char)w->p[i]])
            continue;
        for (size_t j = i; j < w->len; j++) {
            node = sn_trie_step(t, node, (unsigned char)w->p[j]);
            if (node == SN_TRIE_NONE)
                break;
            if (t->values[node] >= 0) {
                best = j + 1 - i;
                *which = t->values[node];
            }
        }
        if (best > 0) {
            *at = i;
            return best;
        }
    }
    return 0;
}

static bool is_word(const struct sn_added_walk *w, size_t at, size_t len)
{
    size_t match[2];
    return sn_regex_find(w->added->word, w->search, w->p + at, len, 0, match) == 1;
}

static bool is_single(const struct sn_added_walk *w, size_t from, size_t to)
{
    size_t before = from > 0 ? sn_utf8_before(w->p, w->p + from) : 0;
    size_t after = to < w->len ? sn_utf8_length((unsigned char)w->p[to]) : 0;
    return !(before && is_word(w, from - before, before)) && !(after && is_word(w, to, after));
}

static bool is_space(const struct sn_added_walk *w, size_t at)
{
    size_t used;
    return sn_unicode_classes(w->u, sn_utf8_get(w->p + at, &used)) & SN_CHAR_SPACE;
}

static bool give(struct sn_added_walk *w, size_t *from, size_t *to, int32_t *id)
{
    *from = w->done;
    *to = w->waiting_end;
    *id = w->waiting;
    w->done = w->waiting_end;
    w->waiting = -1;
    return true;
}

bool sn_added_next(struct sn_added_walk *w, size_t *from, size_t *to, int32_t *id)
{
    size_t len;
    int32_t which = 0;
    if (w->waiting >= 0)
        return give(w, from, to, id);
    while ((len = find_token(w, &w->at, &which)) > 0) {
        const struct sn_added *t = &w->added->list[which];
        size_t begin = w->at, end = begin + len;
        w->at = end;
        if (t->single_word && !is_single(w, begin, end))
            continue;
        while (t->left && begin > w->done &&
               is_space(w, begin - sn_utf8_before(w->p, w->p + begin)))
            begin -= sn_utf8_before(w->p, w->p + begin);
        while (t->right && end < w->len && is_space(w, end))
            end += sn_utf8_length((unsigned char)w->p[end]);
        w->waiting = t->id;
        w->waiting_end = end;
        if (begin <= w->done)
            return give(w, from, to, id);
        *from = w->done;
        *to = w->done = begin;
        *id = -1;
        return true;
    }
    *from = w->done;
    *to = w->len;
    *id = -1;
    w->done = w->at = w->len;
    return *from < *to;
}
