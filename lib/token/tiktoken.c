/*
 * tiktoken.c - .tiktoken: lines of a token in base64 and its rank, which is its id.
 *
 * The file says neither by which pattern words are cut nor which special tokens there are; both
 * follow from which vocabulary it is. Special tokens are known by name (--end) and found in no text,
 * as encode_ordinary has it.
 */
#include "lib/base/mem.h"
#include "lib/token/members.h"
#include "lib/token/read_inner.h"

#include <stdlib.h>

static const char o200k[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct special {
    const char *text;
    int32_t id;
};

/* Rows: what the file's name begins with, how many tokens it has, the pattern (NULL: o200k's), special
 * tokens. Sources: tiktoken_ext/openai_public.py; the model cards of Llama 3 and Qwen. */
static const struct vocabulary {
    const char *name;
    size_t tokens;
    enum sn_scan scan;
    struct special special[6];
} vocabularies[] = {
    {"r50k", 50256, SN_SCAN_GPT2, {{"<|endoftext|>", 50256}}},
    {"gpt2", 50256, SN_SCAN_GPT2, {{"<|endoftext|>", 50256}}},
    {"p50k", 50280, SN_SCAN_GPT2, {{"<|endoftext|>", 50256}}},
    {"cl100k",
     100256,
     SN_SCAN_CL100K,
     {{"<|endoftext|>", 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}}},
    {"o200k", 199998, SN_SCAN_NONE, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
    {"llama3",
     128000,
     SN_SCAN_LLAMA3,
     {{"<|begin_of_text|>", 128000},
      {"<|end_of_text|>", 128001},
      {"<|start_header_id|>", 128006},
      {"<|end_header_id|>", 128007},
      {"<|eot_id|>", 128009}}},
    {"qwen",
     151643,
     SN_SCAN_QWEN2,
     {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
};

static const struct vocabulary *find_vocabulary(const char *name, size_t tokens)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    size_t n = sizeof(vocabularies) / sizeof(vocabularies[0]);
    for (size_t i = 0; i < n; i++)
        if (strncmp(base, vocabularies[i].name, strlen(vocabularies[i].name)) == 0)
            return &vocabularies[i];
    for (size_t i = 0; i < n; i++)
        if (vocabularies[i].tokens == tokens)
            return &vocabularies[i];
    return NULL;
}

static enum sn_status add_token(struct sn_tokenizer *t, const struct sn_bytes *raw, int64_t rank,
                                struct sn_bytes *text, struct sn_err *err)
{
    text->len = 0;
    for (size_t i = 0; i < raw->len; i++)
        if (!sn_bytes_add_char(text, sn_byte_char((unsigned char)raw->p[i])))
            return sn_fail(err, SN_ENOMEM, "no memory for a vocabulary");
    return sn_vocab_add(&t->model.vocab, text->p ? text->p : "", text->len, rank, err);
}

/* One line, without its end. */
static enum sn_status read_line(struct sn_tokenizer *t, const char *p, size_t len, int64_t line,
                                struct sn_bytes work[2], struct sn_err *err)
{
    char *stop = NULL;
    const char *blank = memchr(p, ' ', len);
    size_t n = blank ? (size_t)(blank - p) : 0;
    long long rank =
        blank && blank[1] >= '0' && blank[1] <= '9' ? strtoll(blank + 1, &stop, 10) : -1;
    if (n == 0 || stop != p + len)
        return sn_fail(err, SN_EINPUT, "line %lld: want a token in base64, a blank and its rank",
                       (long long)line);
    work[0].len = 0;
    if (n == 1 && *p == '=')
        return SN_OK; /* the empty token of Whisper's vocabulary, which no text has */
    if (!sn_bytes_room(&work[0], n + 3))
        return sn_fail(err, SN_ENOMEM, "no memory for a vocabulary");
    int64_t bytes = sn_base64(p, n, work[0].p);
    if (bytes <= 0)
        return sn_fail(err, SN_EINPUT, "line %lld: '%.*s' is no base64", (long long)line,
                       (int)(n < 60 ? n : 60), p);
    work[0].len = (size_t)bytes;
    enum sn_status st = add_token(t, &work[0], rank, &work[1], err);
    return st == SN_OK ? st : sn_err_prefix(err, "line %lld", (long long)line);
}

static enum sn_status read_lines(struct sn_tokenizer *t, const char *bytes, size_t len,
                                 struct sn_err *err)
{
    struct sn_bytes work[2] = {{0}, {0}};
    enum sn_status st = SN_OK;
    const char *p = bytes, *end = bytes + len;
    for (int64_t line = 1; p < end && st == SN_OK; line++) {
        const char *next = memchr(p, '\n', (size_t)(end - p));
        const char *stop = next ? next : end;
        size_t n = (size_t)(stop - p) - (stop > p && stop[-1] == '\r');
        if (n > 0)
            st = read_line(t, p, n, line, work, err);
        p = next ? next + 1 : end;
    }
    sn_bytes_fini(&work[0]);
    sn_bytes_fini(&work[1]);
    return st;
}

static enum sn_status rank_merges(struct sn_token_model *m, struct sn_err *err)
{
    uint32_t *ranks = sn_alloc_n(m->vocab.ids, sizeof(*ranks));
    if (!ranks)
        return sn_fail(err, SN_ENOMEM, "no memory for merges");
    for (size_t id = 0; id < m->vocab.ids; id++)
        ranks[id] = (uint32_t)id;
    enum sn_status st = sn_bpe_derive_merges(&m->merges, &m->vocab, ranks, err);
    sn_free(ranks);
    return st;
}

static enum sn_status add_special(struct sn_tokenizer *t, const struct special *s,
                                  struct sn_err *err)
{
    struct sn_added *a = sn_added_add(&t->added);
    if (!a || !sn_bytes_add(&a->text, s->text, strlen(s->text)))
        return sn_fail(err, SN_ENOMEM, "no memory for added tokens");
    a->id = s->id;
    a->special = a->by_name = true;
    return SN_OK;
}

enum sn_status sn_read_tiktoken(struct sn_tokenizer *t, const char *bytes, size_t len,
                                const char *name, struct sn_err *err)
{
    struct sn_token_model *m = &t->model;
    m->kind = SN_MODEL_BPE;
    m->byte_level = m->ignore_merges = true;
    SN_TRY(read_lines(t, bytes, len, err));
    SN_TRY(rank_merges(m, err));
    const struct vocabulary *v = find_vocabulary(name, m->vocab.n_tokens);
    if (!v)
        return sn_fail(
            err, SN_EINPUT,
            "has %zu tokens, as no vocabulary that is known has; name the file after the "
            "one whose pattern it has: r50k, p50k, cl100k, o200k, llama3 or qwen",
            m->vocab.n_tokens);
    struct sn_splitter *s = sn_splitters_add(&t->splitters);
    struct sn_decoder *d = sn_decoders_add(&t->decoders);
    if (!s || !d)
        return sn_fail(err, SN_ENOMEM, "no memory for a tokenizer");
    d->kind = SN_DECODE_BYTES;
    s->kind = SN_SPLIT_SCAN;
    s->scan = v->scan;
    s->behavior = SN_ISOLATED;
    for (int i = 0; i < 6 && v->special[i].text; i++)
        SN_TRY(add_special(t, &v->special[i], err));
    if (v->scan != SN_SCAN_NONE)
        return SN_OK;
    s->kind = SN_SPLIT_REGEX;
    return sn_regex_create(&s->regex, o200k, sizeof(o200k) - 1, SN_FANCY, err);
}
