#include "bin/train/generate.h"

#include "bin/train/features.h"
#include "bin/train/words.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void sn_train_generate_init(struct sn_train_generate *g)
{
    *g = (struct sn_train_generate){
        .tokens = 200, .top_k = 40, .seed = -1, .temperature = 0.8, .top_p = 1};
}

/* What is written; the prompt goes first, once there is something to follow it. */
struct page {
    const char *prompt;
    size_t n_prompt, shown; /* shown: bytes of the decoded text */
    struct sn_train_words *words;
    bool begun;
    bool is_line, ended; /* a line break of what follows ends the text; has one? */
    struct sn_err err;   /* of the first decoding that failed */
};

/* What is to be continued, on rank 0. */
struct asked {
    const char *prompts;
    struct sn_bytes loaded;
    size_t len, at; /* at: of the next prompt */
    bool is_lines;  /* a prompt a line; else all is the prompt of each text */
    struct sn_train_features features;
    int64_t texts;
    struct page *page;
    const struct sn_trainer *trainer;
    const struct sn_config *config;
    const struct sn_train_generate *want;
};

/* --- the text that follows -------------------------------------------------------------------- */

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
    struct sn_bytes text = {0};
    size_t from = 0;
    enum sn_status st = sn_train_words_decode(page->words, &text, &from, err);
    size_t end = st != SN_OK ? 0 : all ? text.len : sn_train_settled(&text);
    from = from > page->shown ? from : page->shown;
    if (end > from) {
        write_bytes(page, text.p + from, end - from);
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
    struct sn_train_words *w = page->words;
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
    return !page->ended && page->err.status == SN_OK;
}

/* Sample, and print on rank 0. */
static enum sn_status write_text(struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct page *page,
                                 const float *features, int64_t text, struct sn_err *err)
{
    struct sn_train_words *w = page->words;
    struct sn_generate_options o = {.prompt = w->ids.p,
                                    .n_prompt = (int)w->ids.len,
                                    .option = "--generate",
                                    .features = features,
                                    .tokens = (int)g->tokens,
                                    .temperature = g->temperature,
                                    .top_k = (int)g->top_k,
                                    .top_p = g->top_p,
                                    .stop = w->stop,
                                    .seed = sn_train_generate_seed(g, c, text),
                                    .emit = print_token,
                                    .self = page};
    enum sn_status st = sn_trainer_generate(t, &o, err);
    if (st == SN_OK && w->tokenizer && page->begun && page->err.status == SN_OK)
        (void)show(page, true, &page->err);
    if (st == SN_OK && page->err.status == SN_OK && page->prompt)
        begin(page); /* nothing followed */
    if (page->begun)
        (void)printf("\n");
    if (st == SN_OK && page->err.status != SN_OK) { /* on rank 0 alone */
        *err = page->err;
        return err->status;
    }
    return st != SN_OK || (fflush(stdout) == 0 && !ferror(stdout))
               ? st
               : sn_fail(err, SN_EIO, "--generate: stdout cannot be written: %s", strerror(errno));
}

/* The next prompt as tokens, on rank 0. */
static enum sn_status take_prompt(struct page *page, struct asked *a, const struct sn_config *c,
                                  struct sn_err *err)
{
    const char *from = a->prompts + a->at;
    const char *end = a->is_lines ? memchr(from, '\n', a->len - a->at) : NULL;
    page->prompt = from;
    page->n_prompt = end ? (size_t)(end - from) : a->len - a->at;
    size_t taken = page->n_prompt;
    if (a->is_lines && taken > 0 && from[taken - 1] == '\r')
        page->n_prompt--; /* as some write line breaks */
    page->shown = 0;
    page->begun = page->ended = false;
    a->at += end ? taken + 1 : 0;
    return sn_train_words_prompt(page->words, c, page->prompt, page->n_prompt, "--generate", err);
}

static enum sn_status read_prompts(struct asked *a, const struct sn_train_generate *g,
                                   struct sn_err *err)
{
    int64_t lines = 0;
    a->is_lines = a->features.file && g->file;
    if (g->file)
        SN_TRY(sn_tokenizer_read(&a->loaded, g->file, "a file of prompts", err));
    a->len = g->file ? a->loaded.len : strlen(g->text);
    a->prompts = g->file ? a->loaded.p : g->text;
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
static enum sn_status read_asked(void *self, struct sn_err *err)
{
    struct asked *a = self;
    const struct sn_train_generate *g = a->want;
    struct sn_train_words *w = a->page->words;
    SN_TRY(sn_train_words_open(w, a->config, g->tokenizer, g->stop, err));
    SN_TRY(sn_train_features_open(&a->features, a->config, g->features, err));
    SN_TRY(read_prompts(a, g, err));
    a->texts = a->page->is_line ? a->features.n : 1;
    for (int64_t i = 0; i < (a->is_lines ? a->texts : 1); i++) {
        enum sn_status st = take_prompt(a->page, a, a->config, err);
        struct sn_generate_options o = {
            .prompt = w->ids.p, .n_prompt = (int)w->ids.len, .option = "--generate"};
        if (st == SN_OK)
            st = sn_trainer_check_prompt(a->trainer, &o, err);
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
    struct sn_train_words w = {.bytes = false};
    struct page page = {.words = &w, .is_line = g->features != NULL};
    struct asked asked = {.page = &page, .trainer = t, .config = c, .want = g};
    bool is_first = comm->rank == 0;
    enum sn_status st = is_first ? sn_data_tokenizer_of_run(&w.of, c, err) : SN_OK;
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = sn_trainer_generate_open(t, &w.of, err);
    if (st == SN_OK)
        st = sn_trainer_alone(t, "generate: prompts", read_asked, &asked, err);
    int64_t texts = asked.texts;
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, &texts, (int64_t)sizeof(texts), 0, err);
    for (int64_t i = 0; i < texts && st == SN_OK; i++) {
        st = is_first ? take_text(&page, &asked, i, c, err) : SN_OK;
        st = comm->ops->agree(comm, st, err);
        if (st == SN_OK)
            st = write_text(t, c, g, &page, asked.features.entry, i, err);
    }
    if (texts > 0 && !err->agreed)
        st = comm->ops->agree(comm, st, err);
    sn_train_words_close(&w);
    sn_train_features_close(&asked.features);
    sn_bytes_fini(&asked.loaded);
    return st;
}
