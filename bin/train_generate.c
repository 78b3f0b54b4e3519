#include "bin/train_generate.h"

#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sn_train_generate_init(struct sn_train_generate *g)
{
    *g = (struct sn_train_generate){.tokens = 200, .top_k = 40, .seed = -1, .temperature = 0.8};
}

/* What is written; the prompt goes first, once there is something to follow it. */
struct page {
    const char *prompt;
    bool bytes, begun;
};

static void print_token(void *self, int32_t token)
{
    struct page *page = self;
    if (!page->begun)
        (void)fputs(page->prompt, stdout);
    page->begun = true;
    if (page->bytes)
        (void)putchar(token);
    else
        (void)printf(" %d", token);
    (void)fflush(stdout);
}

/* "72 101": as many as there are, or where the text is no such list. */
static enum sn_status parse_ids(const char *text, int32_t *out, int *n, int vocab,
                                struct sn_err *err)
{
    char *end;
    for (const char *at = text + strspn(text, " \t\n"); *at; at = end + strspn(end, " \t\n")) {
        long v = strtol(at, &end, 10);
        if (end == at || !strchr(" \t\n", *end))
            return sn_fail(err, SN_EINPUT,
                           "--generate: '%.40s' is no token; with a vocabulary of %d the prompt is "
                           "token ids with blanks between them, such as \"72 101\", and only with "
                           "one of 256 it is text",
                           at, vocab);
        out[(*n)++] = v >= 0 && v < INT32_MAX ? (int32_t)v : -1;
    }
    return SN_OK;
}

static enum sn_status parse_prompt(const char *text, bool bytes, int32_t *out, int *n, int vocab,
                                   struct sn_err *err)
{
    *n = 0;
    if (!bytes)
        return parse_ids(text, out, n, vocab, err);
    for (; text[*n]; (*n)++)
        out[*n] = (unsigned char)text[*n];
    return SN_OK;
}

enum sn_status sn_train_generate(struct sn_trainer *t, const struct sn_config *c,
                                 const struct sn_train_generate *g, struct sn_err *err)
{
    struct page page = {.prompt = g->text, .bytes = c->model.vocab == 256};
    int n;
    int32_t *prompt = sn_alloc_n(strlen(g->text) + 1, sizeof(*prompt));
    if (!prompt)
        return sn_fail(err, SN_ENOMEM, "--generate: no memory for the prompt");
    enum sn_status st = parse_prompt(g->text, page.bytes, prompt, &n, c->model.vocab, err);
    if (st == SN_OK) {
        struct sn_generate_options o = {.prompt = prompt,
                                        .n_prompt = n,
                                        .tokens = (int)g->tokens,
                                        .temperature = g->temperature,
                                        .top_k = (int)g->top_k,
                                        .seed = g->seed < 0 ? c->run.seed : (uint64_t)g->seed,
                                        .emit = print_token,
                                        .self = &page};
        st = sn_trainer_generate(t, &o, err);
    }
    if (page.begun)
        (void)printf("\n");
    sn_free(prompt);
    return st;
}
