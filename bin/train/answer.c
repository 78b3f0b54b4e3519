#include "bin/train/answer.h"

#include "bin/train/features.h"
#include "bin/train/words.h"
#include "lib/base/jsonl.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct request { /* views of the file */
    struct sn_json prompt, until, tokens, id;
    int64_t line, most; /* most: tokens of the answer */
};

struct answers {
    const struct sn_config *config;
    const struct sn_train_generate *want;
    const struct sn_trainer *trainer;
    struct sn_train_words words;
    struct sn_train_features features;
    struct sn_bytes text; /* of the file */
    char *scratch;        /* room for a text of it */
    struct request *request;
    int n_requests, cap_requests;
    /* of the request at hand */
    struct sn_bytes stops; /* one behind the other */
    size_t *stop_end;
    int n_stops, cap_stops;
    size_t n_prompt;     /* of words.ids */
    struct sn_bytes out; /* what followed, up to where it ends */
    bool met;            /* one of the stops */
    struct sn_err err;   /* of the first decoding that failed */
};

static enum sn_status no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "--answer: no memory for the requests");
}

static bool is_of(struct sn_json v, char first)
{
    return v.at && v.len > 0 && v.at[0] == first;
}

static bool knows_text(const struct answers *a)
{
    return a->words.tokenizer || a->words.bytes;
}

/* --- a request -------------------------------------------------------------------------------- */

static enum sn_status fail(const struct answers *a, const struct request *q, const char *what,
                           struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "%s:%lld: %s", a->want->answer, (long long)q->line, what);
}

static enum sn_status read_ids(struct answers *a, const struct request *q, struct sn_err *err)
{
    struct sn_json name, item;
    struct sn_ids *ids = &a->words.ids;
    int vocab = a->config->model.vocab;
    ids->len = 0;
    for (size_t at = 0; sn_json_next(q->prompt, &at, &name, &item);) {
        int64_t id = -1;
        if (!sn_json_integer(item, &id) || id < 0 || id >= vocab)
            return sn_fail(err, SN_EINPUT,
                           "%s:%lld: prompt: '%.*s' is no token; this model knows 0..%d",
                           a->want->answer, (long long)q->line,
                           (int)(item.len < 40 ? item.len : 40), item.at, vocab - 1);
        if (!sn_ids_push(ids, (int32_t)id))
            return no_memory(err);
    }
    return sn_train_words_begin(&a->words, err);
}

/* Its tokens in words.ids. */
static enum sn_status read_prompt(struct answers *a, const struct request *q, struct sn_err *err)
{
    if (is_of(q->prompt, '[')) {
        SN_TRY(read_ids(a, q, err));
    } else {
        int64_t n = sn_json_unescape(q->prompt, a->scratch);
        if (n < 0)
            return fail(a, q, "want a prompt, a text or an array of token numbers", err);
        if (!knows_text(a))
            return fail(a, q,
                        "prompt: is text, and no tokenizer is known; want --tokenizer FILE, or an "
                        "array of token numbers",
                        err);
        if (sn_train_words_prompt(&a->words, a->config, a->scratch, (size_t)n, "--answer", err) !=
            SN_OK)
            return sn_err_prefix(err, "%s:%lld", a->want->answer, (long long)q->line);
    }
    a->n_prompt = a->words.ids.len;
    if (a->n_prompt == 0 && sn_prompt_positions(&a->config->train.prompt) == 0)
        return fail(a, q, "prompt: there is no token in it", err);
    struct sn_generate_options o = {
        .prompt = a->words.ids.p, .n_prompt = (int)a->n_prompt, .option = "--answer"};
    enum sn_status st = sn_trainer_check_prompt(a->trainer, &o, err);
    return st == SN_OK ? SN_OK : sn_err_prefix(err, "%s:%lld", a->want->answer, (long long)q->line);
}

static enum sn_status add_stop(struct answers *a, const struct request *q, struct sn_json text,
                               struct sn_err *err)
{
    int64_t n = sn_json_unescape(text, a->scratch);
    if (n <= 0)
        return fail(a, q, "until: want texts, none of them empty", err);
    if (!sn_bytes_add(&a->stops, a->scratch, (size_t)n) ||
        !sn_grow((void **)&a->stop_end, a->n_stops, &a->cap_stops, sizeof(*a->stop_end)))
        return no_memory(err);
    a->stop_end[a->n_stops++] = a->stops.len;
    return SN_OK;
}

static enum sn_status read_stops(struct answers *a, const struct request *q, struct sn_err *err)
{
    struct sn_json name, item;
    a->n_stops = 0;
    a->stops.len = 0;
    if (is_of(q->until, '"'))
        SN_TRY(add_stop(a, q, q->until, err));
    else if (q->until.at && !is_of(q->until, '['))
        return fail(a, q, "until: want a text or an array of texts", err);
    for (size_t at = 0; is_of(q->until, '[') && sn_json_next(q->until, &at, &name, &item);)
        SN_TRY(add_stop(a, q, item, err));
    return a->n_stops == 0 || knows_text(a)
               ? SN_OK
               : fail(a, q,
                      "until: is text, and no tokenizer is known; want --tokenizer FILE, or --stop "
                      "TOKEN",
                      err);
}

static enum sn_status find_members(const struct answers *a, struct sn_json object,
                                   struct request *q, struct sn_err *err)
{
    static const char *const known[] = {"prompt", "until", "tokens", "id"};
    struct sn_json *const value[] = {&q->prompt, &q->until, &q->tokens, &q->id};
    if (sn_jsonl_members(object, known, 4, value, "prompt, and until, tokens and id if you like",
                         err) != SN_OK)
        return sn_err_prefix(err, "%s:%lld", a->want->answer, (long long)q->line);
    q->most = a->want->tokens;
    if (q->tokens.at && (!sn_json_integer(q->tokens, &q->most) || q->most < 1 || q->most > 1 << 24))
        return fail(a, q, "tokens: want a number from 1 to 16777216", err);
    return SN_OK;
}

static enum sn_status add_request(struct answers *a, const char *line, size_t len, int64_t number,
                                  struct sn_err *err)
{
    struct request q = {.line = number};
    struct sn_json object;
    if (sn_utf8_check(line, len) != len)
        return fail(a, &q, "is no valid UTF-8", err);
    if (!sn_json_parse(&object, line, len) || !is_of(object, '{'))
        return fail(a, &q, "is no JSON object; want {\"prompt\": ...}", err);
    SN_TRY(find_members(a, object, &q, err));
    SN_TRY(read_stops(a, &q, err));
    SN_TRY(read_prompt(a, &q, err));
    if (!sn_grow((void **)&a->request, a->n_requests, &a->cap_requests, sizeof(q)))
        return no_memory(err);
    a->request[a->n_requests++] = q;
    return SN_OK;
}

/* All requests of the file, on rank 0. */
static enum sn_status read_requests(void *self, struct sn_err *err)
{
    struct answers *a = self;
    const struct sn_train_generate *g = a->want;
    SN_TRY(sn_train_words_open(&a->words, a->config, g->tokenizer, g->stop, err));
    SN_TRY(sn_train_features_open(&a->features, a->config, g->features, err));
    SN_TRY(sn_tokenizer_read(&a->text, g->answer, "a file of prompts", err));
    a->scratch = sn_alloc(a->text.len + 1);
    if (!a->scratch)
        return no_memory(err);
    struct sn_jsonl_lines lines = {.text = a->text.p, .len = a->text.len};
    const char *line;
    for (size_t n; sn_jsonl_line(&lines, &line, &n);)
        SN_TRY(add_request(a, line, n, lines.number, err));
    if (a->n_requests == 0)
        return sn_fail(err, SN_EINPUT, "%s: there is no request in it", g->answer);
    return sn_train_features_count(&a->features, g->answer, a->n_requests, "requests", err);
}

/* --- an answer -------------------------------------------------------------------------------- */

/* The text of all tokens as valid UTF-8; what follows the prompt begins at *from. */
static enum sn_status decode(struct answers *a, struct sn_bytes *out, size_t *from,
                             struct sn_err *err)
{
    const struct sn_ids *ids = &a->words.ids;
    struct sn_bytes raw = {0};
    bool good = true;
    *from = out->len = 0;
    if (a->words.tokenizer)
        return sn_train_words_decode(&a->words, out, from, err);
    for (size_t i = a->n_prompt; i < ids->len && good; i++)
        good = sn_bytes_add(&raw, &(char){(char)ids->p[i]}, 1);
    for (size_t at = 0; at < raw.len && good;) { /* each byte that is no character: U+FFFD */
        size_t n = sn_utf8_check(raw.p + at, raw.len - at);
        good = sn_bytes_add(out, raw.p + at, n) &&
               (at + n == raw.len || sn_bytes_add_char(out, 0xfffd));
        at += n + 1;
    }
    sn_bytes_fini(&raw);
    return good ? SN_OK : no_memory(err);
}

/* Where in the answer the first of its ends begins; its length: nowhere. */
static size_t find_end(const struct answers *a, const char *text, size_t len)
{
    size_t first = len;
    for (int k = 0; k < a->n_stops; k++) {
        size_t from = k > 0 ? a->stop_end[k - 1] : 0, n = a->stop_end[k] - from;
        const char *at = len > 0 ? memmem(text, len, a->stops.p + from, n) : NULL;
        if (at && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

/* What followed so far, up to where it ends. */
static enum sn_status look(struct answers *a, struct sn_err *err)
{
    size_t from;
    SN_TRY(decode(a, &a->out, &from, err));
    size_t len = a->out.len - from, end = find_end(a, a->out.p + from, len);
    a->met = end < len;
    if (end > 0)
        memmove(a->out.p, a->out.p + from, end);
    a->out.len = end;
    return SN_OK;
}

static bool take_token(void *self, int32_t token)
{
    struct answers *a = self;
    if (!sn_ids_push(&a->words.ids, token))
        (void)no_memory(&a->err);
    else if (a->n_stops > 0)
        (void)look(a, &a->err);
    return a->err.status == SN_OK && !a->met;
}

/* Request i's prompt, on rank 0. */
static enum sn_status take_request(struct answers *a, int64_t i, struct sn_err *err)
{
    const struct request *q = &a->request[i];
    a->met = false;
    a->out.len = 0;
    SN_TRY(read_stops(a, q, err));
    SN_TRY(read_prompt(a, q, err));
    return a->features.file ? sn_features_read(a->features.file, i, a->features.entry, err) : SN_OK;
}

static enum sn_status print_answer(struct answers *a, const struct request *q, struct sn_err *err)
{
    struct sn_str line = {0}, ids = {0}, id = {0};
    const struct sn_ids *all = &a->words.ids;
    int64_t n = (int64_t)(all->len - a->n_prompt);
    SN_TRY(knows_text(a) ? look(a, err) : SN_OK);
    for (size_t i = a->n_prompt; i < all->len && !knows_text(a); i++)
        sn_str_add(&ids, "%s%d", i > a->n_prompt ? ", " : "[", all->p[i]);
    sn_str_add(&ids, "%s]", n == 0 ? "[" : "");
    sn_str_add(&id, "%.*s", (int)q->id.len, q->id.at ? q->id.at : "");
    if (q->id.at && !id.failed)
        sn_jsonl_raw(&line, "id", id.p);
    if (knows_text(a))
        sn_jsonl_text_n(&line, "text", a->out.p, a->out.len);
    else if (!ids.failed)
        sn_jsonl_raw(&line, "ids", ids.p);
    sn_jsonl_int(&line, "tokens", n);
    sn_jsonl_int(&line, "left_out", sn_trainer_left_out(a->trainer, (int64_t)a->n_prompt));
    sn_jsonl_text(&line, "end", a->met ? "until" : n < q->most ? "stop" : "tokens");
    bool failed = line.failed || ids.failed || id.failed;
    if (!failed)
        (void)printf("%s}\n", line.p);
    sn_str_fini(&line);
    sn_str_fini(&ids);
    sn_str_fini(&id);
    if (failed)
        return no_memory(err);
    return fflush(stdout) == 0 && !ferror(stdout)
               ? SN_OK
               : sn_fail(err, SN_EIO, "--answer: stdout cannot be written: %s", strerror(errno));
}

static enum sn_status answer(struct answers *a, struct sn_trainer *t, int64_t i, bool is_first,
                             struct sn_err *err)
{
    const struct sn_train_generate *g = a->want;
    const struct request *q = is_first ? &a->request[i] : &(struct request){.most = 1};
    struct sn_generate_options o = {.prompt = a->words.ids.p,
                                    .n_prompt = (int)a->words.ids.len,
                                    .option = "--answer",
                                    .features = a->features.entry,
                                    .tokens = (int)q->most,
                                    .temperature = g->temperature,
                                    .top_k = (int)g->top_k,
                                    .top_p = g->top_p,
                                    .stop = a->words.stop,
                                    .seed = sn_train_generate_seed(g, a->config, i),
                                    .emit = take_token,
                                    .self = a};
    SN_TRY(sn_trainer_generate(t, &o, err));
    if (a->err.status != SN_OK) {
        *err = a->err;
        return err->status;
    }
    return is_first ? print_answer(a, q, err) : SN_OK;
}

static void close_answers(struct answers *a)
{
    sn_train_words_close(&a->words);
    sn_train_features_close(&a->features);
    sn_bytes_fini(&a->stops);
    sn_bytes_fini(&a->out);
    sn_free(a->stop_end);
    sn_free(a->request);
    sn_free(a->scratch);
    sn_bytes_fini(&a->text);
}

enum sn_status sn_train_answer(struct sn_trainer *t, const struct sn_config *c,
                               struct sn_comm *comm, const struct sn_train_generate *g,
                               struct sn_err *err)
{
    struct answers a = {.config = c, .want = g, .trainer = t};
    bool is_first = comm->rank == 0;
    int64_t n = 0;
    enum sn_status st = is_first ? sn_data_tokenizer_of_run(&a.words.of, c, err) : SN_OK;
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = sn_trainer_generate_open(t, &a.words.of, err);
    if (st == SN_OK)
        st = sn_trainer_alone(t, "answer: prompts", read_requests, &a, err);
    n = a.n_requests;
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, &n, (int64_t)sizeof(n), 0, err);
    for (int64_t i = 0; i < n && st == SN_OK; i++) {
        st = is_first ? take_request(&a, i, err) : SN_OK;
        st = comm->ops->agree(comm, st, err);
        if (st == SN_OK)
            st = answer(&a, t, i, is_first, err);
        if (!err->agreed)
            st = comm->ops->agree(comm, st, err);
    }
    close_answers(&a);
    return st;
}
