/*
 * data_check.c - is every token of a file one of a vocabulary?
 */
#include "lib/base/log.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"
#include "lib/data/mask.h"
#include "lib/data/stats.h"

#include <poll.h>

enum { AT_ONCE = 1 << 14, LISTED = 10 };

struct checking {
    struct sn_data *data;
    const struct sn_data_info *info;
    int64_t vocab;
    int64_t document, document_first,
        document_end; /* that the last bad token was in, and its tokens */
    int64_t bad, bad_documents;
    struct sn_err first;
};

/* The document of a token; they come in order. */
static void find_document(struct checking *c, int64_t token)
{
    while (token >= c->document_end) {
        int64_t first, end;
        c->document++;
        sn_data_document(c->data, c->document, &first, &end);
        c->document_first = c->document_end;
        for (int64_t s = first; s < end; s++)
            c->document_end += sn_data_sequence_tokens(c->data, s);
    }
}

static void note(struct checking *c, int64_t at, int64_t token)
{
    int64_t before = c->bad > 0 ? c->document : -1;
    find_document(c, at);
    c->bad++;
    c->bad_documents += c->document != before;
    struct sn_err e = {0};
    (void)sn_fail(&e, SN_EINPUT,
                  "%s: document %lld: token %lld of it (byte %lld) is %lld, outside the vocabulary "
                  "0 .. %lld",
                  sn_data_path(c->data), (long long)c->document,
                  (long long)(at - c->document_first),
                  (long long)(at * sn_token_type_find(c->info->dtype_code)->size), (long long)token,
                  (long long)c->vocab - 1);
    if (c->bad == 1)
        c->first = e;
    else if (c->bad <= LISTED)
        sn_log(SN_LOG_WARN, "%s", e.text);
}

static enum sn_status check_tokens(struct checking *c, int stop_fd, struct sn_err *err)
{
    int code = c->info->dtype_code, size = sn_token_type_find(code)->size;
    const unsigned char *p = sn_data_sequence_bytes(c->data, 0);
    struct pollfd fd = {.fd = stop_fd, .events = POLLIN};
    int32_t block[AT_ONCE];
    sn_data_read_in_order(c->data);
    for (int64_t k = 0; k < c->info->tokens; k += AT_ONCE) {
        int64_t n = c->info->tokens - k < AT_ONCE ? c->info->tokens - k : AT_ONCE;
        uint32_t vocab = (uint32_t)c->vocab;
        int outside = 0;
        sn_tokens_widen(code, p + k * size, n, block);
        for (int64_t i = 0; i < n; i++)
            outside |= (uint32_t)block[i] >= vocab; /* one below 0 is larger than all */
        for (int64_t i = 0; i < n && outside; i++)
            if ((uint32_t)block[i] >= vocab)
                note(c, k + i, sn_token_load(code, p + (k + i) * size));
        if (stop_fd >= 0 && poll(&fd, 1, 0) > 0)
            return sn_fail(err, SN_EFAIL, "interrupted");
    }
    return SN_OK;
}

/* The header's count is of the bits. */
static enum sn_status check_mask(const char *prefix, struct sn_data_checked *out,
                                 struct sn_err *err)
{
    struct sn_data_mask *m = NULL;
    out->has_mask = sn_data_mask_exists(prefix);
    if (!out->has_mask)
        return SN_OK;
    SN_TRY(sn_data_mask_open(&m, prefix, out->info.tokens, NULL, err));
    int64_t says = sn_data_mask_counted(m), has = sn_data_mask_count(m, 0, out->info.tokens);
    sn_data_mask_close(m);
    if (says == has)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s.mask: byte 24: says that %lld tokens count, and has %lld; copy or write it "
                   "again",
                   prefix, (long long)says, (long long)has);
}

static enum sn_status check_open(struct checking *c, const char *prefix, int64_t vocab, int stop_fd,
                                 struct sn_data_checked *out, struct sn_err *err)
{
    struct sn_tokenizer_id of;
    struct sn_tokenizer *t = NULL;
    sn_data_info(c->data, &out->info);
    SN_TRY(check_mask(prefix, out, err));
    SN_TRY(sn_data_tokenizer_find(&of, prefix, err));
    if (of.file[0]) {
        SN_TRY(sn_data_tokenizer_load(&t, &of, err));
        out->has_tokenizer = true;
        out->vocab = sn_tokenizer_size(t);
        sn_tokenizer_destroy(t);
    }
    out->vocab = vocab > 0 ? vocab : out->vocab;
    c->info = &out->info;
    c->vocab = out->vocab ? out->vocab : INT64_C(1) << 31;
    SN_TRY(check_tokens(c, stop_fd, err));
    if (c->bad == 0)
        return SN_OK;
    *err = c->first;
    if (c->bad > 1)
        return sn_fail(err, SN_EINPUT, "%.500s; %lld tokens of %lld documents are", c->first.text,
                       (long long)c->bad, (long long)c->bad_documents);
    return SN_EINPUT;
}

enum sn_status sn_data_check(const char *prefix, int64_t vocab, int stop_fd,
                             struct sn_data_checked *out, struct sn_err *err)
{
    struct checking c = {.document = -1};
    *out = (struct sn_data_checked){0};
    SN_TRY(sn_data_open(&c.data, prefix, err));
    enum sn_status st = check_open(&c, prefix, vocab, stop_fd, out, err);
    sn_data_close(c.data);
    return st;
}
