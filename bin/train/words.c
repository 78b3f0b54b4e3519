#include "bin/train/words.h"

#include "bin/common.h"

#include <inttypes.h>
#include <string.h>

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

enum sn_status sn_train_find_token(int32_t *out, const struct sn_tokenizer *t, int vocab,
                                   const char *option, const char *text, struct sn_err *err)
{
    struct sn_encoder *e = NULL;
    struct sn_ids ids = {0};
    long long number;
    if (!t && (sn_parse_number(option, text, 0, vocab - 1, &number, err) == SN_OK)) {
        *out = (int32_t)number;
        return SN_OK;
    }
    if (!t)
        return sn_fail(
            err, SN_EINPUT,
            "%s: '%s': no tokenizer is known; want --tokenizer FILE, or a number from 0 to %d",
            option, text, vocab - 1);
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

/* --- a run's words ----------------------------------------------------------------------------- */

enum sn_status sn_train_words_open(struct sn_train_words *w, const struct sn_config *c,
                                   const char *tokenizer, const char *stop, struct sn_err *err)
{
    w->bytes = c->model.vocab == 256;
    SN_TRY(sn_train_find_tokenizer(&w->tokenizer, &w->of, c, tokenizer, err));
    if (w->tokenizer)
        SN_TRY(sn_encoder_create(&w->encoder, w->tokenizer, err));
    w->stop = w->of.end;
    return stop ? sn_train_find_token(&w->stop, w->tokenizer, c->model.vocab, "--stop", stop, err)
                : SN_OK;
}

void sn_train_words_close(struct sn_train_words *w)
{
    sn_encoder_destroy(w->encoder);
    sn_tokenizer_destroy(w->tokenizer);
    sn_bytes_fini(&w->before);
    sn_ids_fini(&w->ids);
    *w = (struct sn_train_words){0};
}

/* --- the prompt ------------------------------------------------------------------------------- */

static enum sn_status no_memory(const char *option, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory for the prompt", option);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Digits alone; a number that no model has a token of is -1. */
static bool parse_id(const char *p, size_t n, int32_t *id)
{
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        value = value > INT32_MAX ? value : 10 * value + (p[i] - '0');
    }
    *id = value < INT32_MAX ? (int32_t)value : -1;
    return n > 0;
}

/* "72 101": as many as there are, or where the text is no such list. */
static enum sn_status parse_ids(struct sn_train_words *w, const char *text, size_t len, int vocab,
                                const char *option, struct sn_err *err)
{
    for (size_t at = 0, n; at<len; at += n> 0 ? n : 1) {
        int32_t id;
        for (n = 0; at + n < len && !is_blank(text[at + n]);)
            n++;
        if (n > 0 && !parse_id(text + at, n, &id))
            return sn_fail(
                err, SN_EINPUT,
                "%s: '%.*s' is no token; with a vocabulary of %d the prompt is "
                "token ids with blanks between them, such as \"72 101\"; it is text with "
                "--tokenizer FILE, or with a vocabulary of 256",
                option, (int)(n < 40 ? n : 40), text + at, vocab);
        if (n > 0 && !sn_ids_push(&w->ids, id))
            return no_memory(option, err);
    }
    return SN_OK;
}

/* As documents of the data begin; `is_inside` one, behind what train.prompt fills. */
static enum sn_status encode(struct sn_train_words *w, const char *text, size_t len, bool is_inside,
                             const char *option, struct sn_err *err)
{
    const struct sn_ids *before, *behind;
    bool good = true;
    sn_tokenizer_around(w->tokenizer, &before, &behind);
    if (w->of.begin >= 0 && !is_inside)
        good = sn_ids_push(&w->ids, w->of.begin);
    for (size_t i = 0; i < before->len && w->of.special && !is_inside; i++)
        good = good && sn_ids_push(&w->ids, before->p[i]);
    if (!good)
        return no_memory(option, err);
    enum sn_status st = len > 0 ? sn_encode(w->encoder, text, len, false, &w->ids, err) : SN_OK;
    return st == SN_EINPUT ? sn_err_prefix(err, "%s: the prompt", option) : st;
}

static enum sn_status parse(struct sn_train_words *w, const struct sn_config *c, const char *text,
                            size_t len, const char *option, struct sn_err *err)
{
    if (w->tokenizer)
        return encode(w, text, len, sn_prompt_positions(&c->train.prompt) > 0, option, err);
    if (!w->bytes)
        return parse_ids(w, text, len, c->model.vocab, option, err);
    for (size_t i = 0; i < len; i++)
        if (!sn_ids_push(&w->ids, (unsigned char)text[i]))
            return no_memory(option, err);
    return SN_OK;
}

enum sn_status sn_train_words_prompt(struct sn_train_words *w, const struct sn_config *c,
                                     const char *text, size_t len, const char *option,
                                     struct sn_err *err)
{
    w->ids.len = 0;
    SN_TRY(parse(w, c, text, len, option, err));
    return sn_train_words_begin(w, err);
}

size_t sn_train_settled(const struct sn_bytes *text)
{
    size_t n = text->len;
    while (n >= 3 && memcmp(text->p + n - 3, "\xef\xbf\xbd", 3) == 0)
        n -= 3;
    return n;
}

enum sn_status sn_train_words_begin(struct sn_train_words *w, struct sn_err *err)
{
    w->before.len = 0;
    if (!w->tokenizer)
        return SN_OK;
    SN_TRY(sn_decode(w->tokenizer, w->ids.p, w->ids.len, false, &w->before, err));
    w->before.len = sn_train_settled(&w->before);
    return SN_OK;
}

enum sn_status sn_train_words_decode(const struct sn_train_words *w, struct sn_bytes *text,
                                     size_t *from, struct sn_err *err)
{
    size_t n = 0;
    text->len = 0;
    SN_TRY(sn_decode(w->tokenizer, w->ids.p, w->ids.len, false, text, err));
    while (n < text->len && n < w->before.len && text->p[n] == w->before.p[n])
        n++;
    while (n > 0 && n < text->len && ((unsigned char)text->p[n] & 0xc0) == 0x80)
        n--; /* to where a character begins */
    *from = n;
    return SN_OK;
}
