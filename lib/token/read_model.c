/*
 * read_model.c - the model of a tokenizer.json.
 */
#include "lib/base/mem.h"
#include "lib/token/members.h"
#include "lib/token/read_inner.h"

#include <stdio.h>
#include <stdlib.h>

static const char where[] = "model";

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for it", where);
}

/* {"token": id, ...} */
static enum sn_status read_vocab(struct sn_vocab *vocab, struct sn_json v, struct sn_err *err)
{
    struct sn_json name, value;
    struct sn_bytes text = {0};
    enum sn_status st = SN_OK;
    if (!v.at || *v.at != '{')
        return sn_fail(err, SN_EINPUT, "model.vocab: want an object of tokens and their ids");
    for (size_t at = 0; st == SN_OK && sn_json_next(v, &at, &name, &value);) {
        int64_t id = -1;
        text.len = 0;
        (void)sn_json_integer(value, &id);
        st = sn_members_text(name, "model.vocab", &text, err);
        if (st == SN_OK)
            st = sn_vocab_add(vocab, text.p, text.len, id, err);
        if (st != SN_OK)
            (void)sn_err_prefix(err, "model.vocab");
    }
    sn_bytes_fini(&text);
    return st;
}

/* --- BPE -------------------------------------------------------------------------------------- */

/* One merge as "left right" or ["left", "right"]: both in `text`, the left one up to *cut. */
static enum sn_status merge_text(struct sn_json v, struct sn_bytes *text, size_t *cut,
                                 struct sn_err *err)
{
    struct sn_json none, side;
    text->len = 0;
    if (v.at && *v.at == '"') {
        SN_TRY(sn_members_text(v, "model.merges", text, err));
        const char *blank = text->len ? memchr(text->p, ' ', text->len) : NULL;
        if (!blank || memchr(blank + 1, ' ', text->len - (size_t)(blank + 1 - text->p)))
            return sn_fail(err, SN_EINPUT, "model.merges: '%.*s' is no pair with one blank",
                           (int)(text->len < 60 ? text->len : 60), text->p);
        *cut = (size_t)(blank - text->p);
        memmove(text->p + *cut, text->p + *cut + 1, text->len - *cut - 1);
        text->len--;
        return SN_OK;
    }
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        if (!v.at || *v.at != '[' || !sn_json_next(v, &at, &none, &side))
            return sn_fail(err, SN_EINPUT, "model.merges: want pairs of texts");
        SN_TRY(sn_members_text(side, "model.merges", text, err));
        *cut = i == 0 ? text->len : *cut;
    }
    return SN_OK;
}

static enum sn_status add_merge(struct sn_token_model *m, const struct sn_bytes *text, size_t cut,
                                uint32_t rank, struct sn_bytes *whole, struct sn_err *err)
{
    const char *right = text->p + cut;
    size_t right_len = text->len - cut, skip = m->prefix.len;
    int32_t a = sn_vocab_find(&m->vocab, text->p, cut);
    int32_t b = sn_vocab_find(&m->vocab, right, right_len);
    whole->len = 0;
    if (skip > right_len)
        skip = right_len;
    if (!sn_bytes_add(whole, text->p, cut) || !sn_bytes_add(whole, right + skip, right_len - skip))
        return no_memory(err);
    int32_t id = sn_vocab_find(&m->vocab, whole->p, whole->len);
    if (a < 0 || b < 0 || id < 0)
        return sn_fail(
            err, SN_EINPUT, "model.merges: '%.*s' + '%.*s' are not all in the vocabulary",
            (int)(cut < 60 ? cut : 60), text->p, (int)(right_len < 60 ? right_len : 60), right);
    return sn_merges_add(&m->merges, a, b, id, rank, err);
}

static enum sn_status read_merges(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json none, value;
    struct sn_bytes text = {0}, whole = {0};
    enum sn_status st = SN_OK;
    uint32_t rank = 0;
    size_t cut = 0;
    if (!v.at || *v.at != '[')
        return sn_fail(err, SN_EINPUT, "model.merges: want a list");
    for (size_t at = 0; st == SN_OK && sn_json_next(v, &at, &none, &value);) {
        st = merge_text(value, &text, &cut, err);
        if (st == SN_OK)
            st = add_merge(m, &text, cut, rank++, &whole, err);
    }
    sn_bytes_fini(&text);
    sn_bytes_fini(&whole);
    return st;
}

static enum sn_status find_unk(struct sn_token_model *m, const struct sn_bytes *unk, bool is_named,
                               struct sn_err *err)
{
    if (!is_named)
        return SN_OK;
    m->unk = sn_vocab_find(&m->vocab, unk->p ? unk->p : "", unk->len);
    if (m->unk < 0)
        return sn_fail(err, SN_EINPUT, "model.unk_token: '%.*s' is not in the vocabulary",
                       (int)(unk->len < 60 ? unk->len : 60), unk->p ? unk->p : "");
    return SN_OK;
}

static enum sn_status read_bpe(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json vocab = {0}, merges = {0}, dropout = {0}, unk_token = {0};
    struct sn_bytes unk = {0};
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"dropout", SN_MEMBER_ANY, &dropout},
        {"unk_token", SN_MEMBER_ANY, &unk_token},
        {"continuing_subword_prefix", SN_MEMBER_TEXT, &m->prefix},
        {"end_of_word_suffix", SN_MEMBER_TEXT, &m->suffix},
        {"fuse_unk", SN_MEMBER_BOOL, &m->fuse_unk},
        {"byte_fallback", SN_MEMBER_BOOL, &m->byte_fallback},
        {"ignore_merges", SN_MEMBER_BOOL, &m->ignore_merges},
        {"vocab", SN_MEMBER_ANY, &vocab},
        {"merges", SN_MEMBER_ANY, &merges},
    };
    double chance = 0;
    m->kind = SN_MODEL_BPE;
    SN_TRY(sn_members_read(v, where, fields, sizeof(fields) / sizeof(fields[0]), err));
    if (sn_read_is_there(dropout) && (!sn_json_number(dropout, &chance) || chance != 0))
        return sn_fail(err, SN_EINPUT,
                       "model.dropout: tokens are not drawn by chance here; set it to null");
    SN_TRY(read_vocab(&m->vocab, vocab, err));
    SN_TRY(read_merges(m, merges, err));
    if (!sn_read_is_there(unk_token))
        return SN_OK;
    enum sn_status st = sn_members_text(unk_token, "model.unk_token", &unk, err);
    /* tokenizers looks for it when a character is unknown: an empty name is none. */
    if (st == SN_OK)
        st = find_unk(m, &unk, unk.len > 0, err);
    sn_bytes_fini(&unk);
    return st;
}

/* --- WordPiece and whole words ---------------------------------------------------------------- */

static enum sn_status read_wordpiece(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json vocab = {0};
    struct sn_bytes unk = {0};
    int64_t longest = 100;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"unk_token", SN_MEMBER_TEXT, &unk},
        {"continuing_subword_prefix", SN_MEMBER_TEXT, &m->prefix},
        {"max_input_chars_per_word", SN_MEMBER_INTEGER, &longest},
        {"vocab", SN_MEMBER_ANY, &vocab},
    };
    m->kind = SN_MODEL_WORDPIECE;
    enum sn_status st = sn_members_read(v, where, fields, sizeof(fields) / sizeof(fields[0]), err);
    if (st == SN_OK)
        st = read_vocab(&m->vocab, vocab, err);
    if (st == SN_OK)
        st = find_unk(m, &unk, unk.len > 0, err);
    m->longest_word = longest < 0 ? 0 : (size_t)longest;
    sn_bytes_fini(&unk);
    return st;
}

static enum sn_status read_words(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json vocab = {0};
    struct sn_bytes unk = {0};
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"unk_token", SN_MEMBER_TEXT, &unk},
        {"vocab", SN_MEMBER_ANY, &vocab},
    };
    m->kind = SN_MODEL_WORDS;
    enum sn_status st = sn_members_read(v, where, fields, sizeof(fields) / sizeof(fields[0]), err);
    if (st == SN_OK)
        st = read_vocab(&m->vocab, vocab, err);
    if (st == SN_OK)
        m->unk = sn_vocab_find(&m->vocab, unk.p ? unk.p : "", unk.len);
    sn_bytes_fini(&unk);
    return st;
}

/* --- Unigram ---------------------------------------------------------------------------------- */

/* A number as serde_json reads it without its feature float_roundtrip: the digits as a whole number
 * of 64 bits, then a power of ten. It may be off by a bit from what was written, and ties between
 * paths turn on that bit. */
static bool read_score(struct sn_json v, double *out)
{
    uint64_t digits = 0;
    long long power = 0;
    bool negative = v.at && *v.at == '-', fraction = false;
    if (!sn_json_number(v, out))
        return false;
    const char *p = v.at + negative, *end = v.at + v.len;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.')
            fraction = true;
        else if (digits <= (UINT64_MAX - 9) / 10) {
            digits = digits * 10 + (uint64_t)(*p - '0');
            power -= fraction;
        } else if (!fraction) {
            return true; /* as many digits before the point: as strtod has it */
        }
    }
    if (p < end)
        power += strtoll(p + 1, NULL, 10);
    if (power < -300 || power > 300)
        return true;
    double ten = 1, value = (double)digits;
    for (long long i = power < 0 ? -power : power; i > 0; i--)
        ten *= 10;
    if (power < -22 || power > 22) { /* powers that are not exact: as written */
        char text[16];
        (void)snprintf(text, sizeof(text), "1e%lld", power < 0 ? -power : power);
        ten = strtod(text, NULL);
    }
    value = power < 0 ? value / ten : value * ten;
    *out = negative ? -value : value;
    return true;
}

/* [["token", score], ...]: the place is the id. */
static enum sn_status read_scores(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json none, pair, text, score;
    struct sn_bytes token = {0};
    enum sn_status st = SN_OK;
    int64_t id = 0, cap = 0;
    double least = 0;
    if (!v.at || *v.at != '[')
        return sn_fail(err, SN_EINPUT, "model.vocab: want a list of tokens and their scores");
    for (size_t at = 0; st == SN_OK && sn_json_next(v, &at, &none, &pair); id++) {
        size_t in = 0;
        double value;
        token.len = 0;
        if (id == cap) {
            cap = cap ? cap * 2 : 1024;
            double *grown = sn_realloc(m->scores, (size_t)cap * sizeof(*grown));
            st = grown ? SN_OK : no_memory(err);
            m->scores = grown ? grown : m->scores;
        }
        if (st == SN_OK && (!sn_json_next(pair, &in, &none, &text) ||
                            !sn_json_next(pair, &in, &none, &score) || !read_score(score, &value)))
            st = sn_fail(err, SN_EINPUT, "model.vocab: entry %lld is no pair of text and score",
                         (long long)id);
        if (st == SN_OK)
            st = sn_members_text(text, "model.vocab", &token, err);
        if (st == SN_OK)
            st = sn_vocab_add(&m->vocab, token.p ? token.p : "", token.len, id, err);
        if (st == SN_OK) {
            m->scores[id] = value;
            least = id == 0 || value < least ? value : least;
        }
    }
    m->unk_score = least - 10; /* K_UNK_PENALTY */
    sn_bytes_fini(&token);
    return st;
}

static enum sn_status read_unigram(struct sn_token_model *m, struct sn_json v, struct sn_err *err)
{
    struct sn_json vocab = {0};
    int64_t unk = -1;
    const struct sn_member fields[] = {
        {"type", SN_MEMBER_NOTHING, NULL},
        {"unk_id", SN_MEMBER_INTEGER, &unk},
        {"byte_fallback", SN_MEMBER_BOOL, &m->byte_fallback},
        {"vocab", SN_MEMBER_ANY, &vocab},
    };
    m->kind = SN_MODEL_UNIGRAM;
    SN_TRY(sn_members_read(v, where, fields, sizeof(fields) / sizeof(fields[0]), err));
    SN_TRY(read_scores(m, vocab, err));
    if (unk < -1 || unk >= (int64_t)m->vocab.ids)
        return sn_fail(err, SN_EINPUT, "model.unk_id: %lld is outside the vocabulary",
                       (long long)unk);
    m->unk = (int32_t)unk;
    return SN_OK;
}

enum sn_status sn_read_model(struct sn_tokenizer *t, struct sn_json v, struct sn_err *err)
{
    static const char *const names[] = {"BPE", "WordPiece", "Unigram", "WordLevel"};
    static enum sn_status (*const readers[])(struct sn_token_model *, struct sn_json,
                                             struct sn_err *) = {read_bpe, read_wordpiece,
                                                                 read_unigram, read_words};
    int which = 0;
    struct sn_json merges = sn_json_get(v, "merges");
    /* Old files do not say that they are BPE. */
    if (!sn_json_get(v, "type").at && merges.at)
        return read_bpe(&t->model, v, err);
    SN_TRY(sn_members_type(v, where, names, 4, &which, err));
    return readers[which](&t->model, v, err);
}
