#include "bin/train/generate.h"

#include "bin/common.h"
#include "bin/train/features.h"
#include "checkpoint/io/files.h"
#include "lib/base/mem.h"
#include "lib/data/data_tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sn_train_generate_init(struct sn_train_generate *g)
{
    *g = (struct sn_train_generate){
        .tokens = 200, .top_k = 40, .seed = -1, .temperature = 0.8, .top_p = 1};
}

/* Who turns text into tokens and back. */
struct words {
    struct sn_tokenizer_id of;
    struct sn_tokenizer *tokenizer; /* NULL: none is known */
    struct sn_ids ids;              /* of the prompt, then all that followed */
    int32_t stop;
    bool bytes; /* without a tokenizer: a token is a byte */
};

/* What is written; the prompt goes first, once there is something to follow it. */
struct page {
    const char *prompt;
    size_t n_prompt, shown; /* shown: bytes of the decoded text */
    struct words *words;
    bool begun;
    bool is_line, ended; /* a line break of what follows ends the text; has one? */
    struct sn_err err;   /* of the first decoding that failed */
};

/* What is to be continued, on rank 0. */
struct asked {
    const char *prompts;
    char *loaded;
    size_t len, at; /* at: of the next prompt */
    bool is_lines;  /* a prompt a line; else all is the prompt of each text */
    struct sn_train_features features;
};

/* --- which tokenizer -------------------------------------------------------------------------- */

enum sn_status sn_train_find_tokenizer(struct sn_tokenizer **out, const struct sn_tokenizer_id *of,
                                       const struct sn_config *c, const char *option,
                                       struct sn_err *err)
{
    if (!option)
        return of->file[0] ? sn_data_tokenizer_load(out, of, err) : SN_OK;
    SN_TRY(sn_tokenizer_load(out, option, err));
    uint64_t hash = sn_tokenizer_hash(*out);
    if (of->file[0] && of->hash != hash)
        return sn_fail(err, SN_EINPUT,
                       "--tokenizer: %s (xxh3 %016" PRIx64
                       ") is not the run's, %s/%s (xxh3 %016" PRIx64 "); leave it out",
                       option, hash, of->folder, of->file, of->hash);
    int64_t size = sn_tokenizer_size(*out);
    return size <= c->model.vocab
               ? SN_OK
               : sn_fail(err, SN_EINPUT,
                         "--tokenizer: %s has %" PRId64 " tokens, the model knows %d; name the one "
                         "that it was trained with",
                         option, size, c->model.vocab);
}

enum sn_status sn_train_find_token(int32_t *out, const struct sn_tokenizer *t, const char *option,
                                   const char *text, struct sn_err *err)
{
    struct sn_encoder *e = NULL;
    struct sn_ids ids = {0};
    if (!t)
        return sn_fail(err, SN_EINPUT, "%s: '%s': no tokenizer is known; want --tokenizer FILE",
                       option, text);
    *out = sn_tokenizer_find(t, text, strlen(text));
    if (*out >= 0)
        return SN_OK;
    SN_TRY(sn_encoder_create(&e, t, err));
    enum sn_status st = *text ? sn_encode(e, text, strlen(text), false, &ids, err) : SN_OK;
    if (st == SN_OK && ids.len == 1)
        *out = ids.p[0];
    else if (st == SN_OK)
        st = sn_fail(err, SN_EINPUT, "%s: '%s' is no token, but %zu; name one", option, text,
                     ids.len);
    else
        (void)sn_err_prefix(err, "%s", option);
    sn_encoder_destroy(e);
    sn_ids_fini(&ids);
    return st;
}

/* The token that ends a document: that of --stop, without a tokenizer its number, or what stands behind those of the
 * data. */
static enum sn_status find_stop(struct words *w, const struct sn_config *c,
                                const struct sn_train_generate *g, struct sn_err *err)
{
    long long number;
    w->stop = w->of.end;
    if (!g->stop)
        return SN_OK;
    if (w->tokenizer)
        return sn_train_find_token(&w->stop, w->tokenizer, "--stop", g->stop, err);
    SN_TRY(sn_parse_number("--stop", g->stop, 0, c->model.vocab - 1, &number, err));
    w->stop = (int32_t)number;
    return SN_OK;
}

/* --- the prompt ------------------------------------------------------------------------------- */

/* "72 101": as many as there are, or where the text is no such list. */
static enum sn_status parse_ids(struct words *w, const char *text, size_t len, int vocab,
                                struct sn_err *err)
{
    char *end;
    for (const char *at = text + strspn(text, " \t\n"); at < text + len;
         at = end + strspn(end, " \t\n")) {
        long v = strtol(at, &end, 10);
        if (end == at || !strchr(" \t\n", *end))
            return sn_fail(
                err, SN_EINPUT,
                "--generate: '%.40s' is no token; with a vocabulary of %d the prompt is "
                "token ids with blanks between them, such as \"72 101\"; it is text with "
                "--tokenizer FILE, or with a vocabulary of 256",
                at, vocab);
        if (!sn_ids_push(&w->ids, v >= 0 && v < INT32_MAX ? (int32_t)v : -1))
            return sn_fail(err, SN_ENOMEM, "--generate: no memory for the prompt");
    }
    return SN_OK;
}

/* As documents of the data begin; `is_inside` one, behind what train.prompt fills. */
static enum sn_status encode(struct words *w, const char *text, size_t len, bool is_inside,
                             struct sn_err *err)
{
    struct sn_encoder *e = NULL;
    const struct sn_ids *before, *behind;
    bool good = true;
    sn_tokenizer_around(w->tokenizer, &before, &behind);
    if (w->of.begin >= 0 && !is_inside)
        good = sn_ids_push(&w->ids, w->of.begin);
    for (size_t i = 0; i < before->len && w->of.special && !is_inside; i++)
        good = good && sn_ids_push(&w->ids, before->p[i]);
    if (!good)
        return sn_fail(err, SN_ENOMEM, "--generate: no memory for the prompt");
    SN_TRY(sn_encoder_create(&e, w->tokenizer, err));
    enum sn_status st = len > 0 ? sn_encode(e, text, len, false, &w->ids, err) : SN_OK;
    sn_encoder_destroy(e);
    return st == SN_EINPUT ? sn_err_prefix(err, "--generate: the prompt") : st;
}

static enum sn_status parse_prompt(struct page *page, const struct sn_config *c,
                                   struct sn_err *err)
{
    struct words *w = page->words;
    const char *text = page->prompt;
    w->ids.len = 0;
    if (w->tokenizer)
        return encode(w, text, page->n_prompt, sn_prompt_positions(&c->train.prompt) > 0, err);
    if (!w->bytes)
        return parse_ids(w, text, page->n_prompt, c->model.vocab, err);
    for (size_t i = 0; i < page->n_prompt; i++)
        if (!sn_ids_push(&w->ids, (unsigned char)text[i]))
            return sn_fail(err, SN_ENOMEM, "--generate: no memory for the prompt");
    return SN_OK;
}

/* --- the text that follows -------------------------------------------------------------------- */

/* Bytes of the decoded text that later tokens will not change: without characters at its end of
 * which bytes lack, which decode to U+FFFD. */
static size_t settled(const struct sn_bytes *text)
{
    size_t n = text->len;
    while (n >= 3 && memcmp(text->p + n - 3, "\xef\xbf\xbd", 3) == 0)
        n -= 3;
    return n;
}

/* So many bytes that follow; of a line those before its end. */
static void write_bytes(struct page *page, const char *p, size_t n)
{
    const char *end = page->is_line && n > 0 ? memchr(p, '\n', n) : NULL;
    if (!page->ended)
        (void)fwrite(p, 1, end ? (size_t)(end - p) : n, stdout);
    page->ended = page->ended || end;
}

/* Write what is new of the text of all tokens; with `all`, also what might still change. */
static enum sn_status show(struct page *page, bool all, struct sn_err *err)
{
    struct words *w = page->words;
    struct sn_bytes text = {0};
    enum sn_status st = sn_decode(w->tokenizer, w->ids.p, w->ids.len, false, &text, err);
    size_t end = st != SN_OK ? 0 : all ? text.len : settled(&text);
    if (end > page->shown) {
        if (page->begun)
            write_bytes(page, text.p + page->shown, end - page->shown);
        page->shown = end;
    }
    sn_bytes_fini(&text);
    return st;
}

static void begin(struct page *page)
{
    if (!page->begun)
        (void)fwrite(page->prompt, 1, page->n_prompt, stdout);
    page->begun = true;
}

static bool print_token(void *self, int32_t token)
{
    struct page *page = self;
    struct words *w = page->words;
    begin(page);
    if (w->tokenizer && page->err.status == SN_OK) {
        if (!sn_ids_push(&w->ids, token))
            (void)sn_fail(&page->err, SN_ENOMEM, "--generate: no memory for its text");
        else
            (void)show(page, false, &page->err);
    } else if (!w->tokenizer && w->bytes) {
        write_bytes(page, &(char){(char)token}, 1);
    } else if (!w->tokenizer) {
        (void)printf(" %d", token);
    }
    (void)fflush(stdout);
    return !page->ended;
}

/* Sample, and print on rank 0. */
static enum sn_status write_text(struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct page *page,
                                 const float *features, struct sn_err *err)
{
    struct words *w = page->words;
    struct sn_generate_options o = {.prompt = w->ids.p,
                                    .n_prompt = (int)w->ids.len,
                                    .features = features,
                                    .tokens = (int)g->tokens,
                                    .temperature = g->temperature,
                                    .top_k = (int)g->top_k,
                                    .top_p = g->top_p,
                                    .stop = w->stop,
                                    .seed = g->seed < 0 ? c->run.seed : (uint64_t)g->seed,
                                    .emit = print_token,
                                    .self = page};
    enum sn_status st = sn_trainer_generate(t, &o, err);
    if (st == SN_OK && w->tokenizer && page->err.status == SN_OK)
        (void)show(page, true, &page->err);
    if (st == SN_OK && page->err.status == SN_OK && page->prompt)
        begin(page); /* nothing followed */
    if (page->begun)
        (void)printf("\n");
    return st;
}

/* The next prompt as tokens, on rank 0. */
static enum sn_status take_prompt(struct page *page, struct asked *a, const struct sn_config *c,
                                  struct sn_err *err)
{
    const char *from = a->prompts + a->at;
    const char *end = a->is_lines ? memchr(from, '\n', a->len - a->at) : NULL;
    page->prompt = from;
    page->n_prompt = end ? (size_t)(end - from) : a->len - a->at;
    page->shown = 0;
    page->begun = page->ended = false;
    a->at += end ? page->n_prompt + 1 : 0;
    SN_TRY(parse_prompt(page, c, err));
    return page->words->tokenizer
               ? show(page, true, err) /* what of the decoded text is the prompt */
               : SN_OK;
}

static enum sn_status read_prompts(struct asked *a, const struct sn_train_generate *g,
                                   struct sn_err *err)
{
    int64_t lines = 0;
    a->is_lines = a->features.file && g->file;
    if (g->file)
        SN_TRY(sn_file_load(&a->loaded, &a->len, g->file, err));
    else
        a->len = strlen(g->text);
    a->prompts = g->file ? a->loaded : g->text;
    for (size_t i = 0; i < a->len; i++)
        lines += a->prompts[i] == '\n' || i + 1 == a->len;
    if (a->is_lines)
        return sn_train_features_count(&a->features, g->file, lines, "lines", err);
    return !a->features.file || !memchr(a->prompts, '\n', a->len)
               ? SN_OK
               : sn_fail(err, SN_EINPUT,
                         "--generate: with --features a text is a line; want a prompt without line "
                         "breaks");
}

/* The prompts that are asked for, on rank 0: all are looked at before the first is continued. */
static enum sn_status read_asked(struct asked *a, int64_t *texts, struct page *page,
                                 const struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct sn_err *err)
{
    struct words *w = page->words;
    SN_TRY(sn_train_find_tokenizer(&w->tokenizer, &w->of, c, g->tokenizer, err));
    SN_TRY(find_stop(w, c, g, err));
    SN_TRY(sn_train_features_open(&a->features, c, g->features, err));
    SN_TRY(read_prompts(a, g, err));
    *texts = page->is_line ? a->features.n : 1;
    for (int64_t i = 0; i < (a->is_lines ? *texts : 1); i++) {
        enum sn_status st = take_prompt(page, a, c, err);
        struct sn_generate_options o = {.prompt = w->ids.p, .n_prompt = (int)w->ids.len};
        if (st == SN_OK)
            st = sn_trainer_check_prompt(t, &o, err);
        if (st != SN_OK)
            return a->is_lines ? sn_err_prefix(err, "%s:%lld", g->file, (long long)i + 1) : st;
    }
    a->at = 0;
    return SN_OK;
}

static enum sn_status take_text(struct page *page, struct asked *a, int64_t i,
                                const struct sn_config *c, struct sn_err *err)
{
    SN_TRY(take_prompt(page, a, c, err));
    return page->is_line ? sn_features_read(a->features.file, i, a->features.entry, err) : SN_OK;
}

enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 struct sn_comm *comm, const struct sn_train_generate *g,
                                 struct sn_err *err)
{
    struct words w = {.bytes = c->model.vocab == 256};
    struct page page = {.words = &w, .is_line = g->features != NULL};
    struct asked asked = {.prompts = NULL};
    int64_t texts = 0;
    bool is_first = comm->rank == 0;
    enum sn_status st = is_first ? sn_data_tokenizer_of_run(&w.of, c, err) : SN_OK;
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = sn_trainer_generate_open(t, &w.of, err);
    if (st == SN_OK) {
        st = is_first ? read_asked(&asked, &texts, &page, t, c, g, err) : SN_OK;
        st = comm->ops->agree(comm, st, err);
    }
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, &texts, (int64_t)sizeof(texts), 0, err);
    for (int64_t i = 0; i < texts && st == SN_OK; i++) {
        st = is_first ? take_text(&page, &asked, i, c, err) : SN_OK;
        st = comm->ops->agree(comm, st, err);
        if (st == SN_OK)
            st = write_text(t, c, g, &page, asked.features.entry, err);
    }
    if (st == SN_OK && page.err.status != SN_OK) { /* on rank 0 alone */
        *err = page.err;
        st = err->status;
    }
    if (texts > 0 && !err->agreed)
        st = comm->ops->agree(comm, st, err);
    sn_tokenizer_destroy(w.tokenizer);
    sn_ids_fini(&w.ids);
    sn_train_features_close(&asked.features);
    sn_free(asked.loaded);
    return st;
}
