#include "lib/data/score.h"

#include "lib/base/jsonl.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <string.h>

struct reader {
    struct sn_score_set *set;
    const struct sn_score_by *by;
    struct sn_encoder *encoder; /* NULL: without a tokenizer */
    const char *name;
    int64_t line;
    struct sn_ids context, whole; /* of this line */
    char *text;                   /* room for one, unescaped */
};

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "--score: no memory for the requests");
}

/* --- tokens ----------------------------------------------------------------------------------- */

static enum sn_status encode(struct reader *r, const char *text, size_t len, struct sn_ids *out,
                             struct sn_err *err)
{
    if (len == 0)
        return SN_OK;
    if (r->encoder) {
        enum sn_status st = sn_encode(r->encoder, text, len, false, out, err);
        return st == SN_EINPUT ? sn_err_prefix(err, "%s:%lld", r->name, (long long)r->line) : st;
    }
    if (!r->by->bytes)
        return sn_fail(
            err, SN_EINPUT,
            "%s:%lld: is text, and no tokenizer is known; want --tokenizer FILE, or arrays "
            "of token numbers",
            r->name, (long long)r->line);
    for (size_t i = 0; i < len; i++)
        if (!sn_ids_push(out, (unsigned char)text[i]))
            return no_memory(err);
    return SN_OK;
}

static enum sn_status take_numbers(struct reader *r, const char *member, struct sn_json v,
                                   struct sn_ids *out, struct sn_err *err)
{
    struct sn_json name, item;
    for (size_t at = 0; sn_json_next(v, &at, &name, &item);) {
        int64_t id = -1;
        if (!sn_json_integer(item, &id) || id < 0 || id >= r->by->vocab)
            return sn_fail(err, SN_EINPUT,
                           "%s:%lld: %s: '%.*s' is no token; this model knows 0..%d", r->name,
                           (long long)r->line, member, (int)(item.len < 40 ? item.len : 40),
                           item.at, r->by->vocab - 1);
        if (!sn_ids_push(out, (int32_t)id))
            return no_memory(err);
    }
    return SN_OK;
}

static bool is_text(struct sn_json v)
{
    return v.at && v.len > 0 && v.at[0] == '"';
}

static bool is_array(struct sn_json v)
{
    return v.at && v.len > 0 && v.at[0] == '[';
}

/* C and X into r->context and, with what is before X, r->whole. */
static enum sn_status take_texts(struct reader *r, struct sn_json c, struct sn_json x,
                                 struct sn_err *err)
{
    int64_t n = c.at ? sn_json_unescape(c, r->text) : 0;
    int64_t m = sn_json_unescape(x, r->text + n), cut = n;
    if (n < 0 || m < 0)
        return sn_fail(err, SN_EINPUT, "%s:%lld: a text is damaged", r->name, (long long)r->line);
    while (cut > 0 && isspace((unsigned char)r->text[cut - 1]))
        cut--;
    SN_TRY(encode(r, r->text, (size_t)cut, &r->context, err));
    return encode(r, r->text, (size_t)(n + m), &r->whole, err);
}

static enum sn_status take_arrays(struct reader *r, struct sn_json c, struct sn_json x,
                                  struct sn_err *err)
{
    SN_TRY(take_numbers(r, "context", c, &r->context, err));
    SN_TRY(take_numbers(r, "context", c, &r->whole, err));
    return take_numbers(r, "continuation", x, &r->whole, err);
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* Inputs of a piece that a sample has room for. */
static int64_t room(const struct sn_score_by *by)
{
    return by->places > 0 ? by->seq - by->places + 1 : by->seq;
}

/* n of r->whole from `from` on, from `first` of them on to be predicted; `begins`: behind the token that
 * begins documents or the last place of a prompt, which is counted in none of these. */
static enum sn_status add_piece(struct reader *r, int64_t from, int64_t n, int64_t first,
                                bool begins, struct sn_err *err)
{
    struct sn_score_set *s = r->set;
    struct sn_score_piece p = {.at = (int64_t)s->tokens.len,
                               .n = (int32_t)(n + begins),
                               .first = (int32_t)(first + begins),
                               .request = (int32_t)s->n_requests,
                               .prompt = begins};
    bool good = !begins || sn_ids_push(&s->tokens, r->by->places > 0 ? 0 : r->by->begin);
    for (int64_t i = 0; i < n && good; i++)
        good = sn_ids_push(&s->tokens, r->whole.p[from + i]);
    if (!good || !sn_grow((void **)&s->piece, s->n_pieces, &s->cap_pieces, sizeof(p)))
        return no_memory(err);
    s->piece[s->n_pieces++] = p;
    return SN_OK;
}

static enum sn_status begin_is_known(const struct reader *r, const char *what, struct sn_err *err)
{
    if (r->by->begin >= 0 || r->by->places > 0)
        return SN_OK;
    return sn_fail(
        err, SN_EINPUT,
        "%s:%lld: %s begins behind the token that begins documents, which nobody has told; "
        "want --begin TOKEN",
        r->name, (long long)r->line, what);
}

/* The last inputs of C X that there is room for, and the token that is behind them; C as it is alone. */
static enum sn_status add_continuation(struct reader *r, struct sn_score_request *q,
                                       struct sn_err *err)
{
    int64_t most = room(r->by), all = (int64_t)r->whole.len, before = (int64_t)r->context.len;
    before = before < all ? before : all;
    bool begins = before == 0 || r->by->places > 0;
    if (before > 0)
        memcpy(r->whole.p, r->context.p, (size_t)before * sizeof(*r->whole.p));
    q->tokens = all - before;
    if (q->tokens == 0)
        return sn_fail(err, SN_EINPUT, "%s:%lld: continuation: there is nothing in it", r->name,
                       (long long)r->line);
    if (begins)
        SN_TRY(begin_is_known(r, "an empty context", err));
    if (q->tokens > most)
        return sn_fail(
            err, SN_EINPUT,
            "%s:%lld: continuation: %lld tokens; this model predicts at most %lld of one "
            "text (model.seq%s): want a shorter one, or {\"text\": ...}",
            r->name, (long long)r->line, (long long)q->tokens, (long long)most,
            r->by->places > 0 ? " and train.prompt" : "");
    q->left_out = all + begins > most + 1 ? all + begins - most - 1 : 0;
    SN_TRY(add_piece(r, q->left_out, all - q->left_out, before - q->left_out, begins, err));
    struct sn_score_piece *p = &r->set->piece[r->set->n_pieces - 1];
    p->prompt = p->first; /* with its context */
    return SN_OK;
}

/* Windows of as many inputs as there is room for: the first begins behind the token that begins documents, or each
 * behind a prompt; each other one has before what it predicts as much as fits. */
static enum sn_status add_rolling(struct reader *r, struct sn_score_request *q, struct sn_err *err)
{
    int64_t most = room(r->by), all = (int64_t)r->whole.len;
    bool begins = r->by->places > 0;
    q->tokens = all;
    if (all == 0)
        return sn_fail(err, SN_EINPUT, "%s:%lld: text: there is nothing in it", r->name,
                       (long long)r->line);
    SN_TRY(begin_is_known(r, "a text", err));
    SN_TRY(add_piece(r, 0, all < most ? all : most, 0, true, err));
    for (int64_t done = most; done < all;) {
        int64_t end = all - done < most ? all : done + most, from = end - most - !begins;
        SN_TRY(add_piece(r, from, end - from, done - from, begins, err));
        done = end;
    }
    return SN_OK;
}

/* --- lines ------------------------------------------------------------------------------------ */

struct members {
    struct sn_json context, continuation, text, id;
};

static enum sn_status find_members(const struct reader *r, struct sn_json line, struct members *m,
                                   struct sn_err *err)
{
    static const char *const known[] = {"context", "continuation", "text", "id"};
    struct sn_json *const value[] = {&m->context, &m->continuation, &m->text, &m->id};
    enum sn_status st = sn_jsonl_members(
        line, known, 4, value, "context and continuation, or text, and id if you like", err);
    return st == SN_OK ? st : sn_err_prefix(err, "%s:%lld", r->name, (long long)r->line);
}

static enum sn_status take_line(struct reader *r, const struct members *m,
                                struct sn_score_request *q, struct sn_err *err)
{
    const struct sn_json *c = &m->context, *x = &m->continuation, *t = &m->text, none = {0};
    r->context.len = r->whole.len = 0;
    if (t->at && !c->at && !x->at && (is_text(*t) || is_array(*t))) {
        SN_TRY(is_text(*t) ? take_texts(r, none, *t, err)
                           : take_numbers(r, "text", *t, &r->whole, err));
        return add_rolling(r, q, err);
    }
    bool texts = (!c->at || is_text(*c)) && is_text(*x);
    bool arrays = (!c->at || is_array(*c)) && is_array(*x);
    if (t->at || (!texts && !arrays))
        return sn_fail(
            err, SN_EINPUT,
            "%s:%lld: want context and continuation, or text alone, as texts or as arrays of "
            "token numbers",
            r->name, (long long)r->line);
    SN_TRY((texts ? take_texts : take_arrays)(r, *c, *x, err));
    return add_continuation(r, q, err);
}

static enum sn_status add_request(struct reader *r, const char *line, size_t len,
                                  struct sn_err *err)
{
    struct sn_score_set *s = r->set;
    struct sn_score_request q = {0};
    struct members m = {0};
    struct sn_json object;
    if (!sn_json_parse(&object, line, len) || object.at[0] != '{')
        return sn_fail(err, SN_EINPUT,
                       "%s:%lld: is no JSON object; want {\"context\": ..., "
                       "\"continuation\": ...} or {\"text\": ...}",
                       r->name, (long long)r->line);
    SN_TRY(find_members(r, object, &m, err));
    SN_TRY(take_line(r, &m, &q, err));
    if (!sn_grow((void **)&s->request, s->n_requests, &s->cap_requests, sizeof(q)))
        return no_memory(err);
    if (m.id.at && !(q.id = sn_strndup(m.id.at, m.id.len)))
        return no_memory(err);
    s->request[s->n_requests++] = q;
    return SN_OK;
}

enum sn_status sn_score_parse(struct sn_score_set *out, const char *text, size_t len,
                              const char *name, const struct sn_score_by *by, struct sn_err *err)
{
    struct reader r = {.set = out, .by = by, .name = name};
    enum sn_status st = by->tokenizer ? sn_encoder_create(&r.encoder, by->tokenizer, err) : SN_OK;
    r.text = sn_alloc(len + 1);
    if (st == SN_OK && !r.text)
        st = no_memory(err);
    struct sn_jsonl_lines lines = {.text = text, .len = len};
    const char *line;
    for (size_t n; st == SN_OK && sn_jsonl_line(&lines, &line, &n);) {
        r.line = lines.number;
        st = add_request(&r, line, n, err);
    }
    if (st == SN_OK && out->n_requests == 0)
        st = sn_fail(err, SN_EINPUT, "%s: there is no request in it", name);
    sn_encoder_destroy(r.encoder);
    sn_ids_fini(&r.context);
    sn_ids_fini(&r.whole);
    sn_free(r.text);
    return st;
}

void sn_score_set_fini(struct sn_score_set *s)
{
    for (int64_t i = 0; i < s->n_requests; i++)
        sn_free(s->request[i].id);
    sn_free(s->request);
    sn_free(s->piece);
    sn_ids_fini(&s->tokens);
    *s = (struct sn_score_set){0};
}
