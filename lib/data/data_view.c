/*
 * data_view.c - token files described for people, or as JSON.
 */
#include "lib/data/data_build.h"

#include "lib/base/mem.h"
#include "lib/base/plain.h"
#include "lib/data/data_format.h"
#include "lib/data/data_tokenizer.h"
#include "lib/data/mask.h"

/* --- text ---------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at p, 0 if there is none that can be shown as it is. */
static int shown_length(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return p[0] >= ' ' && p[0] != 0x7f;
    size_t length = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || length > n)
        return 0;
    return sn_utf8_check((const char *)p, length) == length ? (int)length : 0;
}

void sn_data_text(struct sn_str *s, const char *text, size_t n, bool as_json)
{
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = 0, used; i < n;) {
        int length = shown_length(p + i, n - i);
        uint32_t c = length > 0 ? sn_utf8_get(text + i, &used) : 0;
        if (p[i] == '\\')
            sn_str_add(s, "\\\\");
        else if (p[i] == '\n')
            sn_str_add(s, "\\n");
        else if (p[i] == '\t')
            sn_str_add(s, "\\t");
        else if (length == 0)
            sn_str_add(s, "\\x%02x", p[i]);
        else if (!as_json && sn_plain_is_obeyed(c))
            sn_str_add(s, "\\u%04x", (unsigned)c);
        else
            sn_str_add(s, "%.*s", length, text + i);
        i += length ? (size_t)length : 1;
    }
}

/* --- counts ------------------------------------------------------------------------------ */

void sn_data_counts_json(struct sn_str *s, const char *prefix, const char *suffix,
                         const struct sn_data_info *info)
{
    const struct sn_token_type *type = sn_token_type_find(info->dtype_code);
    char *whole = sn_format("%.*s%s", (int)sn_data_prefix_length(prefix), prefix, suffix);
    s->failed = s->failed || !whole;
    sn_str_add(s, "\"prefix\": ");
    sn_str_add_json(s, whole ? whole : "");
    sn_str_add(s,
               ", \"dtype\": \"%s\", \"dtype_code\": %d, \"documents\": %lld, \"sequences\": %lld, "
               "\"tokens\": %lld, \"bin_bytes\": %lld",
               type->name, type->code, (long long)info->documents, (long long)info->sequences,
               (long long)info->tokens, (long long)(info->tokens * type->size));
    sn_free(whole);
}

void sn_data_counts(struct sn_str *s, const char *prefix, const char *suffix,
                    const struct sn_data_info *info)
{
    const struct sn_token_type *type = sn_token_type_find(info->dtype_code);
    sn_str_add(s, "%.*s%s: %lld token%s (%s, %d byte%s each), %lld document%s, %lld sequence%s\n",
               (int)sn_data_prefix_length(prefix), prefix, suffix, (long long)info->tokens,
               info->tokens == 1 ? "" : "s", type->name, type->size, type->size == 1 ? "" : "s",
               (long long)info->documents, info->documents == 1 ? "" : "s",
               (long long)info->sequences, info->sequences == 1 ? "" : "s");
}

void sn_data_built_format(const struct sn_data_build *b, const struct sn_data_info info[2],
                          bool as_json, struct sn_str *out)
{
    bool has_valid = b->valid > 0;
    if (!as_json) {
        sn_data_counts(out, b->prefix, "", &info[0]);
        if (has_valid)
            sn_data_counts(out, b->prefix, "-valid", &info[1]);
        return;
    }
    sn_str_add(out, "{");
    sn_data_counts_json(out, b->prefix, "", &info[0]);
    sn_str_add(out, ", \"valid\": ");
    if (has_valid) {
        sn_str_add(out, "{");
        sn_data_counts_json(out, b->prefix, "-valid", &info[1]);
        sn_str_add(out, "}}\n");
    } else {
        sn_str_add(out, "null}\n");
    }
}

/* --- one document ------------------------------------------------------------------------ */

struct shown {
    int64_t first, end;        /* sequences of the document */
    int64_t tokens;            /* in the document */
    int64_t *list, listed;     /* the first of them */
    struct sn_bytes text;      /* of these */
    struct sn_data_mask *mask; /* or NULL */
    uint8_t *counts;           /* of these; NULL: there is no mask */
};

static enum sn_status find_mask(const struct sn_data *d, const struct sn_data_view *view,
                                struct shown *shown, struct sn_err *err)
{
    struct sn_data_info info;
    sn_data_info(d, &info);
    if (!sn_data_mask_exists(view->prefix))
        return SN_OK;
    SN_TRY(sn_data_mask_open(&shown->mask, view->prefix, info.tokens, NULL, err));
    shown->counts = sn_alloc_n((size_t)shown->listed + 1, sizeof(*shown->counts));
    if (!shown->counts)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its mask", view->prefix);
    sn_data_mask_read(shown->mask, sn_data_document_token(d, view->document), shown->listed,
                      shown->counts);
    return SN_OK;
}

/* The text of the tokens as bytes: by the tokenizer that made them, or they are bytes themselves. */
static enum sn_status find_text(const struct sn_data_view *view, struct shown *shown,
                                struct sn_err *err)
{
    bool has_text;
    SN_TRY(sn_data_tokenizer_text(view->prefix, shown->list, shown->listed, &has_text, &shown->text,
                                  err));
    if (has_text)
        return SN_OK;
    if (!sn_bytes_room(&shown->text, (size_t)shown->listed))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its text", view->prefix);
    for (int64_t i = 0; i < shown->listed; i++) {
        if (shown->list[i] < 0 || shown->list[i] > 255)
            return sn_fail(err, SN_EINPUT,
                           "%s: token %lld of document %lld is %lld, which is no byte; leave out "
                           "--text",
                           view->prefix, (long long)i, (long long)view->document,
                           (long long)shown->list[i]);
        shown->text.p[shown->text.len++] = (char)shown->list[i];
    }
    return SN_OK;
}

static enum sn_status collect(const struct sn_data *d, const struct sn_data_view *view,
                              struct shown *shown, struct sn_err *err)
{
    sn_data_document(d, view->document, &shown->first, &shown->end);
    for (int64_t i = shown->first; i < shown->end; i++)
        shown->tokens += sn_data_sequence_tokens(d, i);
    int64_t want = shown->tokens < view->tokens ? shown->tokens : view->tokens;
    shown->list = sn_alloc_n((size_t)want, sizeof(*shown->list));
    if (!shown->list)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %lld tokens; ask for fewer with --tokens",
                       view->prefix, (long long)want);
    for (int64_t i = shown->first; i < shown->end && shown->listed < want; i++)
        shown->listed += sn_data_sequence(d, i, shown->list + shown->listed, want - shown->listed);
    SN_TRY(find_mask(d, view, shown, err));
    return view->as_text ? find_text(view, shown, err) : SN_OK;
}

/* Of the whole file. */
static void add_mask(struct sn_str *s, const struct sn_data_info *info, const struct shown *shown)
{
    if (shown->mask)
        sn_str_add(s, "mask: %lld of %lld tokens count; others have a - before them\n",
                   (long long)sn_data_mask_counted(shown->mask), (long long)info->tokens);
}

static void add_document(struct sn_str *s, const struct sn_data_view *view,
                         const struct shown *shown)
{
    sn_str_add(s, "document %lld: %lld token%s in %lld sequence%s", (long long)view->document,
               (long long)shown->tokens, shown->tokens == 1 ? "" : "s",
               (long long)(shown->end - shown->first), shown->end - shown->first == 1 ? "" : "s");
    if (shown->listed < shown->tokens)
        sn_str_add(s, ", the first %lld:", (long long)shown->listed);
    sn_str_add(s, "\n");
    for (int64_t i = 0; i < shown->listed; i++)
        sn_str_add(s, "%s%s%lld", i ? " " : "", shown->counts && !shown->counts[i] ? "-" : "",
                   (long long)shown->list[i]);
    if (shown->listed > 0)
        sn_str_add(s, "\n");
    if (view->as_text) {
        sn_data_text(s, shown->text.p, shown->text.len, false);
        sn_str_add(s, "\n");
    }
}

static void add_document_json(struct sn_str *s, const struct sn_data_view *view,
                              const struct shown *shown)
{
    sn_str_add(s, ", \"document\": {\"number\": %lld, \"sequences\": %lld, \"tokens\": %lld, ",
               (long long)view->document, (long long)(shown->end - shown->first),
               (long long)shown->tokens);
    sn_str_add(s, "\"first_tokens\": [");
    for (int64_t i = 0; i < shown->listed; i++)
        sn_str_add(s, "%s%lld", i ? ", " : "", (long long)shown->list[i]);
    sn_str_add(s, "]");
    for (int64_t i = 0; i < shown->listed && shown->counts; i++)
        sn_str_add(s, "%s%d", i ? ", " : ", \"first_counts\": [", shown->counts[i]);
    if (shown->counts && shown->listed > 0)
        sn_str_add(s, "]");
    if (view->as_text) {
        struct sn_str text = {0};
        sn_data_text(&text, shown->text.p, shown->text.len, true);
        sn_str_add(s, ", \"text\": ");
        sn_str_add_json(s, text.p ? text.p : "");
        s->failed = s->failed || text.failed;
        sn_str_fini(&text);
    }
    sn_str_add(s, "}");
}

enum sn_status sn_data_view_format(const struct sn_data *d, const struct sn_data_view *view,
                                   struct sn_str *out, struct sn_err *err)
{
    struct sn_data_info info;
    struct shown shown = {0};
    sn_data_info(d, &info);
    bool has_document = info.documents > 0;
    if (view->document < 0 || (view->document >= info.documents && view->document > 0))
        return sn_fail(err, SN_EINPUT, "%s: there is no document %lld; the file has 0 .. %lld",
                       view->prefix, (long long)view->document, (long long)info.documents - 1);
    enum sn_status st = has_document ? collect(d, view, &shown, err) : SN_OK;
    if (st == SN_OK && view->as_json) {
        sn_str_add(out, "{");
        sn_data_counts_json(out, view->prefix, "", &info);
        if (shown.mask)
            sn_str_add(out, ", \"counted\": %lld", (long long)sn_data_mask_counted(shown.mask));
        if (has_document)
            add_document_json(out, view, &shown);
        sn_str_add(out, "}\n");
    } else if (st == SN_OK) {
        sn_data_counts(out, view->prefix, "", &info);
        add_mask(out, &info, &shown);
        if (has_document)
            add_document(out, view, &shown);
    }
    sn_bytes_fini(&shown.text);
    sn_data_mask_close(shown.mask);
    sn_free(shown.counts);
    sn_free(shown.list);
    return st;
}
