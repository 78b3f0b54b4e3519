/*
 * sentencepiece.c - SentencePiece's .model, a protocol buffer (sentencepiece_model.proto), read by
 * hand: fields of a number and a type, of which a few are asked for.
 */
#include "lib/base/mem.h"
#include "lib/token/tokenizer_inner.h"

#include <stdlib.h>

/* --- the wire format -------------------------------------------------------------------------- */

struct wire {
    const unsigned char *p, *end;
    bool damaged;
};

struct field {
    uint64_t number, value; /* value: of a varint, of 32 or 64 bits */
    const char *p;          /* of bytes */
    size_t len;
    int type;
};

static uint64_t varint(struct wire *w)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->p == w->end)
            break;
        unsigned char byte = *w->p++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    w->damaged = true;
    return 0;
}

static bool next(struct wire *w, struct field *f)
{
    if (w->p == w->end || w->damaged)
        return false;
    uint64_t key = varint(w);
    *f = (struct field){.number = key >> 3, .p = "", .type = (int)(key & 7)};
    size_t left = (size_t)(w->end - w->p), fixed = f->type == 1 ? 8 : 4;
    if (f->type == 0) {
        f->value = varint(w);
    } else if (f->type == 2) {
        uint64_t len = varint(w);
        if (w->damaged || len > (size_t)(w->end - w->p)) {
            w->damaged = true;
            return false;
        }
        f->p = (const char *)w->p;
        f->len = (size_t)len;
        w->p += len;
    } else if ((f->type == 1 || f->type == 5) && left >= fixed) {
        for (size_t i = 0; i < fixed; i++)
            f->value |= (uint64_t)w->p[i] << (8 * i);
        w->p += fixed;
    } else {
        w->damaged = true;
    }
    return !w->damaged;
}

static struct wire inside(const struct field *f)
{
    const unsigned char *p = (const unsigned char *)f->p;
    return (struct wire){.p = p, .end = p + f->len, .damaged = f->type != 2};
}

static float number(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof(value));
    return value;
}

/* --- what is asked for ------------------------------------------------------------------------ */

enum type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE };

struct piece {
    float score;
    enum type type;
};

struct job {
    struct sn_tokenizer *t;
    struct sn_normalizer *n;
    struct piece *pieces;
    int count, cap;
    int model_type;
    bool byte_fallback, is_suffix, escapes;
    struct sn_bytes unk_surface;
    struct sn_err *err;
};

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "no memory for a tokenizer");
}

static enum sn_status damaged(struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "is damaged, or no SentencePiece model; download it again");
}

static enum sn_status read_piece(struct job *j, struct wire w)
{
    struct field f, text = {.p = ""};
    struct piece piece = {.type = NORMAL};
    while (next(&w, &f)) {
        if (f.number == 1 && f.type == 2)
            text = f;
        else if (f.number == 2 && f.type == 5)
            piece.score = number(f.value);
        else if (f.number == 3 && f.type == 0)
            piece.type = (enum type)f.value;
    }
    if (w.damaged || sn_utf8_check(text.p, text.len) != text.len || !(piece.score == piece.score))
        return damaged(j->err);
    if (piece.type < NORMAL || piece.type > BYTE)
        return sn_fail(j->err, SN_EINPUT, "piece %d has type %d; want 1 .. 6", j->count,
                       (int)piece.type);
    if (!sn_grow((void **)&j->pieces, j->count, &j->cap, sizeof(*j->pieces)))
        return no_memory(j->err);
    j->pieces[j->count] = piece;
    return sn_vocab_add(&j->t->model.vocab, text.p, text.len, j->count++, j->err);
}

static enum sn_status read_trainer(struct job *j, struct wire w)
{
    struct field f;
    while (next(&w, &f)) {
        if (f.number == 3)
            j->model_type = (int)f.value;
        else if (f.number == 24)
            j->is_suffix = f.value;
        else if (f.number == 35)
            j->byte_fallback = f.value;
        else if (f.number == 44 && f.type == 2) {
            j->unk_surface.len = 0;
            if (!sn_bytes_add(&j->unk_surface, f.p, f.len))
                return no_memory(j->err);
        }
    }
    return w.damaged ? damaged(j->err) : SN_OK;
}

static enum sn_status read_rules(struct job *j, struct wire w)
{
    struct field f;
    while (next(&w, &f)) {
        if (f.number == 2 && f.type == 2 && f.len > 0) {
            sn_charsmap_fini(&j->n->charsmap);
            SN_TRY(sn_charsmap_init(&j->n->charsmap, f.p, f.len, j->err));
        } else if (f.number == 3) {
            j->n->dummy_prefix = f.value;
        } else if (f.number == 4) {
            j->n->single_blanks = f.value;
        } else if (f.number == 5) {
            j->escapes = f.value;
        }
    }
    return w.damaged ? damaged(j->err) : SN_OK;
}

static enum sn_status read_model(struct job *j, struct wire w)
{
    struct field f;
    while (next(&w, &f)) {
        if (f.number == 1)
            SN_TRY(read_piece(j, inside(&f)));
        else if (f.number == 2)
            SN_TRY(read_trainer(j, inside(&f)));
        else if (f.number == 3)
            SN_TRY(read_rules(j, inside(&f)));
    }
    return w.damaged || j->count == 0 ? damaged(j->err) : SN_OK;
}

/* --- into a tokenizer ------------------------------------------------------------------------- */

/* Pieces that stand for themselves: control symbols, known by name alone, and symbols of the user's,
 * which BPE takes out of the text before it merges. */
static enum sn_status add_symbol(struct job *j, int id, struct sn_err *err)
{
    size_t len;
    const char *p = sn_vocab_text(&j->t->model.vocab, id, &len);
    enum type type = j->pieces[id].type;
    struct sn_added *a = sn_added_add(&j->t->added);
    if (!a || !sn_bytes_add(&a->text, p, len))
        return no_memory(err);
    a->id = id;
    a->special = type != USER_DEFINED;
    a->by_name = type != USER_DEFINED || j->model_type == UNIGRAM;
    a->normalized = true;
    const struct sn_bytes *shown = type == UNKNOWN ? &j->unk_surface : &a->text;
    if (!sn_bytes_add(&a->normal, shown->p, shown->len))
        return no_memory(err);
    if (type == USER_DEFINED && !sn_trie_add(&j->n->symbols, p, len, id))
        return no_memory(err);
    return SN_OK;
}

static enum sn_status add_symbols(struct job *j)
{
    for (int id = 0; id < j->count; id++) {
        enum type type = j->pieces[id].type;
        if (type == UNKNOWN)
            j->t->model.unk = id;
        if (type == UNKNOWN || type == CONTROL || type == USER_DEFINED)
            SN_TRY(add_symbol(j, id, j->err));
        if (type == UNUSED && j->model_type == BPE)
            return sn_fail(j->err, SN_EINPUT,
                           "piece %d is of type UNUSED, which is not done here for BPE", id);
    }
    return SN_OK;
}

static enum sn_status fill_unigram(struct job *j)
{
    struct sn_token_model *m = &j->t->model;
    float least = 0, most = 0;
    bool any = false;
    m->kind = SN_MODEL_UNIGRAM;
    m->as_sentencepiece = true;
    m->scores = sn_alloc_n((size_t)j->count, sizeof(*m->scores));
    if (!m->scores)
        return no_memory(j->err);
    for (int id = 0; id < j->count; id++) {
        float score = j->pieces[id].score;
        if (j->pieces[id].type != NORMAL)
            continue;
        least = !any || score < least ? score : least;
        most = !any || score > most ? score : most;
        any = true;
    }
    m->unk_score = (double)(least - 10.0f); /* kUnkPenalty */
    for (int id = 0; id < j->count; id++) {
        size_t len;
        const char *p = sn_vocab_text(&m->vocab, id, &len);
        bool is_own = j->pieces[id].type == USER_DEFINED;
        m->scores[id] = is_own ? (double)((float)len * most) : (double)j->pieces[id].score;
        if ((j->pieces[id].type == NORMAL || is_own) && len > 0 &&
            !sn_trie_add(&m->trie, p, len, id))
            return no_memory(j->err);
    }
    return SN_OK;
}

static int by_score(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* How many scores are better; of equals the same. */
static uint32_t rank_of(const float *sorted, int n, float score)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (sorted[middle] > score)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Merging begins with characters, so each must be a piece. */
static enum sn_status check_chars(const struct job *j, int id)
{
    size_t len, used;
    const char *p = sn_vocab_text(&j->t->model.vocab, id, &len);
    for (size_t i = 0; i < len; i += used) {
        used = sn_utf8_length((unsigned char)p[i]);
        if (sn_vocab_find(&j->t->model.vocab, p + i, used) < 0)
            return sn_fail(j->err, SN_EINPUT,
                           "piece '%.*s' has a character that is no piece, which is not done here",
                           (int)(len < 60 ? len : 60), p);
    }
    return SN_OK;
}

static enum sn_status fill_bpe(struct job *j)
{
    struct sn_token_model *m = &j->t->model;
    float *sorted = sn_alloc_n((size_t)j->count, sizeof(*sorted));
    uint32_t *ranks = sn_alloc_n((size_t)j->count, sizeof(*ranks));
    enum sn_status st = sorted && ranks ? SN_OK : no_memory(j->err);
    m->kind = SN_MODEL_BPE;
    m->fuse_unk = true;
    if (st == SN_OK) {
        for (int id = 0; id < j->count; id++)
            sorted[id] = j->pieces[id].score;
        qsort(sorted, (size_t)j->count, sizeof(*sorted), by_score);
    }
    for (int id = 0; id < j->count && st == SN_OK; id++) {
        bool merges = j->pieces[id].type == NORMAL;
        ranks[id] = merges ? rank_of(sorted, j->count, j->pieces[id].score) : UINT32_MAX;
        st = merges ? check_chars(j, id) : SN_OK;
    }
    if (st == SN_OK)
        st = sn_bpe_derive_merges(&m->merges, &m->vocab, ranks, j->err);
    sn_free(sorted);
    sn_free(ranks);
    return st;
}

static enum sn_status add_decoders(struct job *j)
{
    static const enum sn_decoder_kind kinds[] = {SN_DECODE_REPLACE, SN_DECODE_FALLBACK,
                                                 SN_DECODE_FUSE, SN_DECODE_STRIP};
    for (int i = 0; i < 4; i++) {
        struct sn_decoder *d = sn_decoders_add(&j->t->decoders);
        if (!d)
            return no_memory(j->err);
        d->kind = kinds[i];
        bool good = true;
        if (d->kind == SN_DECODE_REPLACE)
            good = sn_bytes_add(&d->text, "\xe2\x96\x81", 3) && sn_bytes_add(&d->content, " ", 1);
        if (d->kind == SN_DECODE_STRIP)
            good = sn_bytes_add(&d->text, " ", 1);
        d->start = j->n->dummy_prefix && !j->is_suffix;
        if (!good)
            return no_memory(j->err);
    }
    return SN_OK;
}

static enum sn_status fill(struct job *j)
{
    struct sn_token_model *m = &j->t->model;
    if (j->model_type != UNIGRAM && j->model_type != BPE)
        return sn_fail(j->err, SN_EINPUT,
                       "is a SentencePiece model of type %d; want 1 (unigram) or 2 (bpe)",
                       j->model_type);
    if (!j->escapes)
        return sn_fail(j->err, SN_EINPUT, "escape_whitespaces: false is not done here");
    j->n->suffix = j->is_suffix;
    m->byte_fallback = j->byte_fallback;
    SN_TRY(add_symbols(j));
    SN_TRY(j->model_type == UNIGRAM ? fill_unigram(j) : fill_bpe(j));
    return add_decoders(j);
}

enum sn_status sn_read_sentencepiece(struct sn_tokenizer *t, const char *bytes, size_t len,
                                     struct sn_err *err)
{
    struct job j = {.t = t, .model_type = UNIGRAM, .escapes = true, .err = err};
    const unsigned char *p = (const unsigned char *)bytes;
    j.n = sn_normalizers_add(&t->normalizers);
    bool good = j.n && sn_bytes_add(&j.unk_surface, " \xe2\x81\x87 ", 5);
    enum sn_status st = good ? SN_OK : no_memory(err);
    if (st == SN_OK) {
        j.n->kind = SN_NORMALIZE_SENTENCEPIECE;
        j.n->dummy_prefix = j.n->single_blanks = true;
        st = read_model(&j, (struct wire){.p = p, .end = p + len});
    }
    if (st == SN_OK)
        st = fill(&j);
    sn_free(j.pieces);
    sn_bytes_fini(&j.unk_surface);
    return st;
}
