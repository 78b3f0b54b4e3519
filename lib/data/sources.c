#include "lib/data/sources.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <inttypes.h>

/* One type for the tokens of both; the same where they have the same. */
static int common_type(int a, int b)
{
    int64_t x = sn_token_type_find(a)->max, y = sn_token_type_find(b)->max;
    int64_t most = x > y ? x : y;
    if (a == b)
        return a;
    return most <= UINT8_MAX ? SN_TOK_U8 : most <= UINT16_MAX ? SN_TOK_U16 : SN_TOK_I32;
}

static enum sn_status join_tokenizer(struct sn_sources *s, int i, struct sn_err *err)
{
    struct sn_tokenizer_id t, *all = &s->tokenizer;
    SN_TRY(sn_data_tokenizer_find(&t, s->prefixes[i], err));
    bool both = t.file[0] && all->file[0];
    if (both && t.hash != all->hash)
        return sn_fail(err, SN_EINPUT,
                       "%s: is of the tokenizer %s (xxh3 %016" PRIx64
                       "), but what stands before it of %s (xxh3 %016" PRIx64
                       "); tokenize both with one",
                       s->prefixes[i], t.file, t.hash, all->file, all->hash);
    if (both && (t.begin != all->begin || t.end != all->end || t.special != all->special))
        sn_log(SN_LOG_WARN, "%s: other tokens stand around its documents than before it",
               s->prefixes[i]);
    if (i > 0 && !t.file[0] != !all->file[0])
        sn_log(SN_LOG_WARN, "%s: nothing beside it says which tokenizer it is of",
               s->prefixes[t.file[0] ? 0 : i]);
    if (t.file[0] && !all->file[0])
        *all = t;
    return SN_OK;
}

static enum sn_status open_one(struct sn_sources *s, int i, struct sn_err *err)
{
    struct sn_data_info info;
    SN_TRY(sn_data_open(&s->data[i], s->prefixes[i], err));
    s->n++;
    sn_data_info(s->data[i], &info);
    SN_TRY(join_tokenizer(s, i, err));
    if (sn_data_mask_exists(s->prefixes[i])) {
        SN_TRY(sn_data_mask_open(&s->masks[i], s->prefixes[i], info.tokens, NULL, err));
        s->has_mask = true;
    }
    s->info.dtype_code = i ? common_type(s->info.dtype_code, info.dtype_code) : info.dtype_code;
    s->info.sequences += info.sequences;
    s->info.documents += info.documents;
    s->info.tokens += info.tokens;
    s->begin[i + 1] = s->info.documents;
    return SN_OK;
}

enum sn_status sn_sources_open(struct sn_sources *out, char *const *prefixes, int n,
                               struct sn_err *err)
{
    *out = (struct sn_sources){.prefixes = prefixes};
    out->data = sn_alloc_n((size_t)n, sizeof(struct sn_data *));
    out->masks = sn_alloc_n((size_t)n, sizeof(struct sn_data_mask *));
    out->begin = sn_alloc_n((size_t)n + 1, sizeof(*out->begin));
    if (!out->data || !out->masks || !out->begin)
        return sn_fail(err, SN_ENOMEM, "no memory for %d token files", n);
    for (int i = 0; i < n; i++)
        SN_TRY(open_one(out, i, err));
    return SN_OK;
}

void sn_sources_close(struct sn_sources *s)
{
    for (int i = 0; i < s->n; i++) {
        sn_data_close(s->data[i]);
        sn_data_mask_close(s->masks[i]);
    }
    sn_free(s->data);
    sn_free(s->masks);
    sn_free(s->begin);
    *s = (struct sn_sources){0};
}

/* The last one that begins at the document or before it: those without documents come before. */
static int find_source(const struct sn_sources *s, int64_t document)
{
    int low = 0, high = s->n - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s->begin[middle] <= document)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

struct sn_source_document sn_sources_get(const struct sn_sources *s, int64_t document)
{
    int i = find_source(s, document);
    struct sn_source_document d = {
        .data = s->data[i], .mask = s->masks[i], .prefix = s->prefixes[i]};
    struct sn_data_info info;
    int64_t first, end;
    d.number = document - s->begin[i];
    sn_data_info(d.data, &info);
    d.code = info.dtype_code;
    sn_data_document(d.data, d.number, &first, &end);
    d.p = sn_data_sequence_bytes(d.data, first);
    if (d.p)
        d.bytes = (size_t)(sn_data_sequence_bytes(d.data, end) - d.p);
    d.tokens = (int64_t)d.bytes / sn_token_type_find(d.code)->size;
    return d;
}

enum sn_status sn_sources_copy(const struct sn_sources *s, int64_t document, const unsigned char *p,
                               struct sn_data_writer *w, struct sn_err *err)
{
    struct sn_source_document d = sn_sources_get(s, document);
    struct sn_data_document from = {.data = d.data, .mask = d.mask, .number = d.number, .p = p};
    enum sn_status st = sn_data_writer_copy(w, &from, err);
    return st == SN_EINPUT ? sn_err_prefix(err, "%s: document %lld", d.prefix, (long long)d.number)
                           : st;
}
