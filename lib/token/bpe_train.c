#include "lib/token/bpe_train.h"

#include "lib/base/mem.h"
#include "lib/token/model.h"

/* Words that hold a pair, each once. */
struct places {
    uint32_t *list;
    uint32_t n, cap;
};
struct pair {
    int32_t left, right; /* left -1: a free slot */
    int64_t count;
    struct places fresh; /* since it was put into the queue */
    int64_t merge;       /* its place among merges; -1: none yet */
};
struct waiting {
    int64_t count; /* of the pair when it was put here */
    uint32_t pair;
    struct places places;
};
struct training {
    const struct sn_word_counts *words;
    struct sn_bpe_trained *out;
    struct sn_bytes text; /* of a token that is being made */
    int32_t *symbols;     /* of all words */
    uint64_t *first;      /* of each word in symbols */
    uint32_t *length;
    struct pair *pairs; /* in the order of their coming */
    size_t n_pairs, pairs_cap;
    uint32_t *slots; /* places in pairs, plus one */
    size_t n_slots;
    uint32_t *touched; /* pairs with fresh places */
    size_t n_touched, touched_cap;
    struct waiting *queue; /* a heap */
    size_t n_queue, queue_cap;
};

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory for the training of a vocabulary");
}

/* Twice the room of a list where it is full. */
static bool grow(void **list, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 256;
    void *grown = sn_realloc(*list, more * size);
    if (!grown)
        return false;
    *list = grown;
    *cap = more;
    return true;
}

/* --- pairs ------------------------------------------------------------------------------------ */

static size_t slot_of(const struct training *t, int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t at = (size_t)sn_token_mix(key ^ 0x9e3779b97f4a7c15u, 0xe7037ed1a0b428dbu);
    for (;; at++) {
        uint32_t i = t->slots[at & (t->n_slots - 1)];
        if (i == 0 || (t->pairs[i - 1].left == left && t->pairs[i - 1].right == right))
            return at & (t->n_slots - 1);
    }
}

static bool more_slots(struct training *t)
{
    size_t n = t->n_slots ? t->n_slots * 2 : 4096;
    uint32_t *slots = sn_alloc_n(n, sizeof(*slots));
    if (!slots)
        return false;
    sn_free(t->slots);
    t->slots = slots;
    t->n_slots = n;
    for (size_t i = 0; i < t->n_pairs; i++)
        t->slots[slot_of(t, t->pairs[i].left, t->pairs[i].right)] = (uint32_t)i + 1;
    return true;
}

/* NULL: no memory. */
static struct pair *get_pair(struct training *t, int32_t left, int32_t right)
{
    if (t->n_pairs * 2 >= t->n_slots && !more_slots(t))
        return NULL;
    size_t at = slot_of(t, left, right);
    if (t->slots[at])
        return &t->pairs[t->slots[at] - 1];
    if (t->n_pairs >= UINT32_MAX - 1 ||
        !grow((void **)&t->pairs, t->n_pairs, &t->pairs_cap, sizeof(*t->pairs)))
        return NULL;
    t->pairs[t->n_pairs++] = (struct pair){.left = left, .right = right, .merge = -1};
    t->slots[at] = (uint32_t)t->n_pairs;
    return &t->pairs[t->n_pairs - 1];
}

/* The pair stands in a word so many times more (or less, of which no place is kept). */
static bool see_pair(struct training *t, int32_t left, int32_t right, int64_t times, uint32_t word)
{
    struct pair *p = get_pair(t, left, right);
    if (!p)
        return false;
    p->count += times;
    if (times < 0)
        return true;
    struct places *f = &p->fresh;
    if (f->n > 0 && f->list[f->n - 1] == word) /* words are seen one after another */
        return true;
    if (f->n == 0) {
        if (!grow((void **)&t->touched, t->n_touched, &t->touched_cap, sizeof(*t->touched)))
            return false;
        t->touched[t->n_touched++] = (uint32_t)(p - t->pairs);
    }
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? f->cap * 2 : 2;
        uint32_t *grown = sn_realloc(f->list, cap * sizeof(*grown));
        if (!grown)
            return false;
        f->list = grown;
        f->cap = cap;
    }
    f->list[f->n++] = word;
    return true;
}

/* --- the queue -------------------------------------------------------------------------------- */

static bool goes_before(const struct training *t, const struct waiting *a, const struct waiting *b)
{
    const struct pair *p = &t->pairs[a->pair], *q = &t->pairs[b->pair];
    if (a->count != b->count)
        return a->count > b->count;
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static void sift_down(struct training *t, size_t at)
{
    struct waiting moved = t->queue[at];
    for (size_t child; (child = at * 2 + 1) < t->n_queue; at = child) {
        if (child + 1 < t->n_queue && goes_before(t, &t->queue[child + 1], &t->queue[child]))
            child++;
        if (!goes_before(t, &t->queue[child], &moved))
            break;
        t->queue[at] = t->queue[child];
    }
    t->queue[at] = moved;
}

static bool push(struct training *t, struct waiting w)
{
    if (!grow((void **)&t->queue, t->n_queue, &t->queue_cap, sizeof(*t->queue)))
        return false;
    size_t at = t->n_queue++;
    for (; at > 0 && goes_before(t, &w, &t->queue[(at - 1) / 2]); at = (at - 1) / 2)
        t->queue[at] = t->queue[(at - 1) / 2];
    t->queue[at] = w;
    return true;
}

static struct waiting pop(struct training *t)
{
    struct waiting top = t->queue[0];
    t->queue[0] = t->queue[--t->n_queue];
    if (t->n_queue > 0)
        sift_down(t, 0);
    return top;
}

/* What was seen goes into the queue. */
static bool queue_touched(struct training *t)
{
    for (size_t i = 0; i < t->n_touched; i++) {
        struct pair *p = &t->pairs[t->touched[i]];
        struct waiting w = {.count = p->count, .pair = t->touched[i], .places = p->fresh};
        p->fresh = (struct places){0};
        if (p->count <= 0)
            sn_free(w.places.list);
        else if (!push(t, w)) {
            sn_free(w.places.list);
            return false;
        }
    }
    t->n_touched = 0;
    return true;
}

/* --- the first tokens ------------------------------------------------------------------------- */

static enum sn_status add_token(struct training *t, const char *p, size_t len, int32_t *id,
                                struct sn_err *err)
{
    *id = sn_vocab_find(&t->out->vocab, p, len);
    if (*id >= 0)
        return SN_OK;
    *id = (int32_t)t->out->vocab.n_tokens;
    return sn_vocab_add(&t->out->vocab, p, len, *id, err);
}

static enum sn_status add_special(struct training *t, const struct sn_bpe_training *how,
                                  struct sn_err *err)
{
    for (int i = 0; i < how->n_special; i++) {
        int32_t id;
        const char *text = how->special[i];
        if (!*text || sn_utf8_check(text, strlen(text)) < strlen(text))
            return sn_fail(err, SN_EINPUT, "--special: '%s' is no text", text);
        SN_TRY(add_token(t, text, strlen(text), &id, err));
        if (id != i)
            return sn_fail(err, SN_EINPUT, "--special: '%s' is there twice", text);
    }
    return SN_OK;
}

/* Tokens of bytes, in the order of the characters that stand for them. */
static enum sn_status add_bytes(struct training *t, bool all, int32_t by_byte[256],
                                struct sn_err *err)
{
    bool is_seen[256] = {false};
    for (size_t i = 0; i < t->words->texts.len; i++)
        is_seen[(unsigned char)t->words->texts.p[i]] = true;
    for (uint32_t c = 0; c < 0x200; c++) {
        char text[4];
        int byte = sn_char_byte(c);
        if (byte >= 0 && (all || is_seen[byte]))
            SN_TRY(add_token(t, text, sn_utf8_put(text, c), &by_byte[byte], err));
    }
    return SN_OK;
}

static enum sn_status count_pairs(struct training *t, const int32_t by_byte[256],
                                  struct sn_err *err)
{
    const struct sn_word_counts *w = t->words;
    t->symbols = sn_alloc_n(w->texts.len + 1, sizeof(*t->symbols));
    t->first = sn_alloc_n(w->n + 1, sizeof(*t->first));
    t->length = sn_alloc_n(w->n + 1, sizeof(*t->length));
    if (!t->symbols || !t->first || !t->length)
        return no_memory(err);
    for (size_t i = 0; i < w->texts.len; i++)
        t->symbols[i] = by_byte[(unsigned char)w->texts.p[i]];
    for (size_t i = 0; i < w->n; i++) {
        const int32_t *s = t->symbols + w->list[i].at;
        t->first[i] = w->list[i].at;
        t->length[i] = w->list[i].len;
        for (uint32_t k = 0; k + 1 < w->list[i].len; k++)
            if (!see_pair(t, s[k], s[k + 1], w->list[i].count, (uint32_t)i))
                return no_memory(err);
    }
    return queue_touched(t) ? SN_OK : no_memory(err);
}

/* --- merging ---------------------------------------------------------------------------------- */

/* In one word, from the left to the right; neighbours' pairs are counted anew. */
static bool merge_word(struct training *t, uint32_t word, int32_t left, int32_t right,
                       int32_t whole)
{
    int32_t *s = t->symbols + t->first[word];
    uint32_t n = t->length[word], out = 0;
    int64_t count = t->words->list[word].count;
    bool good = true;
    for (uint32_t i = 0; i < n; out++) {
        if (s[i] != left || i + 1 >= n || s[i + 1] != right) {
            s[out] = s[i++];
            continue;
        }
        if (out > 0)
            good = good && see_pair(t, s[out - 1], left, -count, word) &&
                   see_pair(t, s[out - 1], whole, count, word);
        i += 2;
        if (i < n)
            good = good && see_pair(t, right, s[i], -count, word) &&
                   see_pair(t, whole, s[i], count, word);
        s[out] = whole;
    }
    t->length[word] = out;
    return good;
}

/* The token of two. */
static enum sn_status join(struct training *t, int32_t left, int32_t right, int32_t *whole,
                           struct sn_err *err)
{
    size_t n, m;
    const char *a = sn_vocab_text(&t->out->vocab, left, &n);
    const char *b = sn_vocab_text(&t->out->vocab, right, &m);
    t->text.len = 0;
    if (!sn_bytes_add(&t->text, a, n) || !sn_bytes_add(&t->text, b, m))
        return no_memory(err);
    return add_token(t, t->text.p, t->text.len, whole, err);
}

/* Of a pair that comes again the later rank counts, as where tokenizers makes a map of them. */
static bool note_merge(struct training *t, struct pair *p)
{
    struct sn_ids *m = &t->out->merges;
    if (p->merge >= 0)
        m->p[p->merge] = -1;
    p->merge = (int64_t)m->len;
    return sn_ids_push(m, p->left) && sn_ids_push(m, p->right);
}

static enum sn_status merge_top(struct training *t, const struct waiting *top, struct sn_err *err)
{
    struct pair *p = &t->pairs[top->pair];
    int32_t left = p->left, right = p->right, whole = -1;
    SN_TRY(join(t, left, right, &whole, err));
    if (!note_merge(t, p))
        return no_memory(err);
    for (uint32_t i = 0; i < top->places.n; i++)
        if (!merge_word(t, top->places.list[i], left, right, whole))
            return no_memory(err);
    return queue_touched(t) ? SN_OK : no_memory(err);
}

static enum sn_status merge_all(struct training *t, const struct sn_bpe_training *how,
                                struct sn_err *err)
{
    int64_t least = how->min_frequency > 1 ? how->min_frequency : 1;
    while ((int64_t)t->out->vocab.n_tokens < how->vocab && t->n_queue > 0) {
        struct waiting top = pop(t);
        int64_t count = t->pairs[top.pair].count;
        if (top.count != count) {
            top.count = count; /* it has changed since: back to its place */
            if (!push(t, top)) {
                sn_free(top.places.list);
                return no_memory(err);
            }
            continue;
        }
        enum sn_status st = count >= least ? merge_top(t, &top, err) : SN_OK;
        sn_free(top.places.list);
        SN_TRY(st);
        if (count < least)
            break;
    }
    return SN_OK;
}

static void drop_replaced(struct sn_ids *m)
{
    size_t out = 0;
    for (size_t i = 0; i < m->len; i += 2)
        if (m->p[i] >= 0) {
            m->p[out++] = m->p[i];
            m->p[out++] = m->p[i + 1];
        }
    m->len = out;
}

static void training_fini(struct training *t)
{
    for (size_t i = 0; i < t->n_pairs; i++)
        sn_free(t->pairs[i].fresh.list);
    for (size_t i = 0; i < t->n_queue; i++)
        sn_free(t->queue[i].places.list);
    sn_bytes_fini(&t->text);
    sn_free(t->symbols);
    sn_free(t->first);
    sn_free(t->length);
    sn_free(t->pairs);
    sn_free(t->slots);
    sn_free(t->touched);
    sn_free(t->queue);
}

enum sn_status sn_bpe_train(const struct sn_word_counts *words, const struct sn_bpe_training *how,
                            struct sn_bpe_trained *out, struct sn_err *err)
{
    struct training t = {.words = words, .out = out};
    int32_t by_byte[256] = {0};
    enum sn_status st = add_special(&t, how, err);
    if (st == SN_OK)
        st = add_bytes(&t, how->all_bytes, by_byte, err);
    if (st == SN_OK)
        st = count_pairs(&t, by_byte, err);
    if (st == SN_OK)
        st = merge_all(&t, how, err);
    drop_replaced(&out->merges);
    training_fini(&t);
    return st;
}

void sn_bpe_trained_fini(struct sn_bpe_trained *t)
{
    sn_vocab_fini(&t->vocab);
    sn_ids_fini(&t->merges);
}
