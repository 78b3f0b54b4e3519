/*
 * tokenizer.c - loading a tokenizer, whatever its file is.
 */
#include "lib/token/tokenizer.h"

#include "lib/base/hash.h"
#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/token/tokenizer_inner.h"

#include <errno.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 30 };

void sn_tokenizer_destroy(struct sn_tokenizer *t)
{
    if (!t)
        return;
    sn_model_fini(&t->model);
    sn_added_fini(&t->added);
    sn_normalizers_fini(&t->normalizers);
    sn_splitters_fini(&t->splitters);
    sn_decoders_fini(&t->decoders);
    sn_ids_fini(&t->before);
    sn_ids_fini(&t->behind);
    sn_unicode_destroy(t->unicode);
    sn_free(t);
}

int64_t sn_tokenizer_size(const struct sn_tokenizer *t)
{
    int64_t size = (int64_t)t->model.vocab.ids;
    for (int i = 0; i < t->added.n; i++)
        size = t->added.list[i].id >= size ? t->added.list[i].id + 1 : size;
    return size;
}

uint64_t sn_tokenizer_hash(const struct sn_tokenizer *t)
{
    return t->hash;
}

int32_t sn_tokenizer_find(const struct sn_tokenizer *t, const char *text, size_t len)
{
    for (int i = t->added.n - 1; i >= 0; i--)
        if (t->added.list[i].text.len == len && memcmp(t->added.list[i].text.p, text, len) == 0)
            return t->added.list[i].id;
    return sn_vocab_find(&t->model.vocab, text, len);
}

void sn_tokenizer_around(const struct sn_tokenizer *t, const struct sn_ids **before,
                         const struct sn_ids **behind)
{
    *before = &t->before;
    *behind = &t->behind;
}

/* --- finishing -------------------------------------------------------------------------------- */

static enum sn_status normalize_added(struct sn_tokenizer *t, struct sn_err *err)
{
    struct sn_normalize_work work = {0};
    enum sn_status st = SN_OK;
    for (int i = 0; i < t->normalizers.n && !work.search && st == SN_OK; i++)
        if (t->normalizers.list[i].regex)
            st = sn_regex_search_create(&work.search, err);
    for (int i = 0; i < t->added.n && st == SN_OK; i++) {
        struct sn_added *a = &t->added.list[i];
        struct sn_bytes normal;
        if (!a->normalized || a->normal.len > 0)
            continue;
        st = sn_normalize(&t->normalizers, t->unicode, &work, a->text.p, a->text.len, &normal, err);
        if (st == SN_OK && !sn_bytes_add(&a->normal, normal.p, normal.len))
            st = sn_fail(err, SN_ENOMEM, "no memory for added tokens");
    }
    sn_regex_search_destroy(work.search);
    sn_normalize_work_fini(&work);
    return st;
}

static enum sn_status finish(struct sn_tokenizer *t, struct sn_err *err)
{
    if (sn_normalizers_ask_unicode(&t->normalizers) || sn_splitters_ask_unicode(&t->splitters) ||
        sn_added_ask_unicode(&t->added))
        SN_TRY(sn_unicode_create(&t->unicode, "characters have classes here", err));
    sn_model_find_fallback(&t->model);
    if (t->model.kind == SN_MODEL_BPE)
        SN_TRY(sn_bpe_finish(&t->model, err));
    if (t->model.kind == SN_MODEL_WORDPIECE || t->model.kind == SN_MODEL_UNIGRAM)
        SN_TRY(sn_model_fill_trie(&t->model, err));
    SN_TRY(normalize_added(t, err));
    return sn_added_finish(&t->added, err);
}

/* --- which kind of file ----------------------------------------------------------------------- */

static bool looks_like_tiktoken(const char *p, size_t len)
{
    size_t i = 0;
    while (i < len && i < 4096 && p[i] > ' ' && p[i] < 127)
        i++;
    size_t blank = i;
    while (i < len && (p[i] == ' ' || (i > blank && p[i] >= '0' && p[i] <= '9')))
        i++;
    return blank > 0 && i > blank + 1 && (i == len || p[i] == '\n' || p[i] == '\r');
}

static enum sn_status read_any(struct sn_tokenizer *t, const char *p, size_t len, const char *name,
                               struct sn_err *err)
{
    size_t i = 0;
    while (i < len && (p[i] == ' ' || p[i] == '\n' || p[i] == '\r' || p[i] == '\t'))
        i++;
    if (i < len && p[i] == '{')
        return sn_read_tokenizer_json(t, p, len, err);
    if (len > 2 && p[0] == '\n')
        return sn_read_sentencepiece(t, p, len, err);
    if (looks_like_tiktoken(p, len))
        return sn_read_tiktoken(t, p, len, name, err);
    return sn_fail(err, SN_EINPUT,
                   "is no tokenizer; want a tokenizer.json, a .tiktoken or SentencePiece's .model");
}

enum sn_status sn_tokenizer_parse(struct sn_tokenizer **out, const char *bytes, size_t len,
                                  const char *name, struct sn_err *err)
{
    struct sn_tokenizer *t = sn_alloc(sizeof(*t));
    if (!t)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a tokenizer", name);
    t->model.unk = -1;
    t->hash = sn_hash64(bytes, len);
    enum sn_status st = read_any(t, bytes, len, name, err);
    if (st == SN_OK)
        st = finish(t, err);
    if (st != SN_OK) {
        sn_tokenizer_destroy(t);
        return sn_err_prefix(err, "%s", name);
    }
    *out = t;
    return SN_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

static enum sn_status read_whole(int fd, const char *path, struct sn_bytes *out, struct sn_err *err)
{
    for (;;) {
        if (!sn_bytes_room(out, (1 << 16) + 1))
            return sn_fail(err, SN_ENOMEM, "%s: no memory for it", path);
        ssize_t n = read(fd, out->p + out->len, out->cap - out->len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sn_fail(err, SN_EIO, "%s: cannot be read (%s)", path, strerror(errno));
        out->len += (size_t)n;
        out->p[out->len] = '\0';
        if (n == 0)
            return SN_OK;
        if (out->len > FILE_MOST)
            return sn_fail(err, SN_EINPUT, "%s: more than 1 GiB; it is no tokenizer's file", path);
    }
}

enum sn_status sn_tokenizer_read(struct sn_bytes *out, const char *path, const char *what,
                                 struct sn_err *err)
{
    int fd = sn_input_open(path, NULL);
    if (fd < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot be read (%s); name %s", path,
                       sn_input_why(errno), what);
    enum sn_status st = read_whole(fd, path, out, err);
    (void)close(fd); /* only read from */
    return st;
}

enum sn_status sn_tokenizer_load(struct sn_tokenizer **out, const char *path, struct sn_err *err)
{
    struct sn_bytes bytes = {0};
    enum sn_status st = sn_tokenizer_read(&bytes, path, "a tokenizer's file", err);
    if (st == SN_OK)
        st = sn_tokenizer_parse(out, bytes.p, bytes.len, path, err);
    sn_bytes_fini(&bytes);
    return st;
}
