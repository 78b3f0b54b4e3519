/*
 * tokenize_part.c - a file in documents, batches of them to the encoders, and their tokens, in the
 * order of the file, to a writer. Only the batches of the ring and one document are in memory.
 */
#include "lib/texts/tokenize_part.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/data/data_format.h"

#include <poll.h>
#include <stdio.h>

enum { READ_AT_ONCE = 1 << 18, BATCH_BYTES = 1 << 19, BATCH_DOCUMENTS = 4096 };
static const size_t largest_document = (size_t)1 << 30;

/* What was read and is in no batch yet. */
struct reader {
    struct sn_part *part;
    struct sn_texts source;
    struct sn_bytes text;
    size_t looked; /* no document ends before it */
    int64_t line;  /* that the text begins with, from 1 */
    bool ended, by_lines, by_paragraphs;
};

static enum sn_status no_memory(const struct reader *r, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s:%lld: no memory for a document of %zu bytes",
                   r->part->file->path, (long long)r->line, r->text.len);
}

/* --- tokens out ------------------------------------------------------------------------------- */

static enum sn_status say_bad(struct sn_part *p, const struct sn_bad_document *bad,
                              struct sn_err *err)
{
    char where[24] = "";
    if (bad->line > 0)
        (void)snprintf(where, sizeof(where), ":%lld", (long long)bad->line);
    if (p->may_skip <= 0 && p->want->skip_bad > 0)
        return sn_fail(err, SN_EINPUT,
                       "%s%s: %s; it is one more than the %lld that --skip-bad leaves out",
                       p->file->path, where, bad->why, (long long)p->want->skip_bad);
    if (p->may_skip <= 0)
        return sn_fail(err, SN_EINPUT,
                       "%s%s: %s; repair it, or leave such documents out with "
                       "--skip-bad",
                       p->file->path, where, bad->why);
    sn_log(SN_LOG_WARN, "%s%s: left out: %s", p->file->path, where, bad->why);
    p->may_skip--;
    p->skipped++;
    return SN_OK;
}

static enum sn_status write_document(struct sn_part *p, const struct sn_document_batch *b,
                                     size_t from, size_t to, struct sn_err *err)
{
    const uint8_t *counts = b->counts.len > 0 ? (const uint8_t *)b->counts.p + from : NULL;
    int64_t n = (int64_t)(to - from);
    if (!counts)
        return sn_data_writer_add(p->writer, b->ids.p + from, n, err);
    SN_TRY(sn_data_writer_append_masked(p->writer, b->ids.p + from, counts, n, err));
    return sn_data_writer_end(p->writer, err);
}

/* Write the oldest batch's tokens. */
static enum sn_status drain_one(struct sn_part *p, bool *any, struct sn_err *err)
{
    struct sn_document_batch *b = sn_encoders_take(p->encoders);
    size_t from = 0;
    int bad = 0;
    *any = b != NULL;
    if (!b)
        return SN_OK;
    if (b->err.status != SN_OK) {
        *err = b->err;
        return sn_err_prefix(err, "%s", p->file->path);
    }
    for (int i = 0; i < b->n; i++) {
        const struct sn_document *d = &b->documents[i];
        if (d->is_bad)
            SN_TRY(say_bad(p, &b->bad[bad++], err));
        else if (d->tokens > from) /* documents without tokens are left out */
            SN_TRY(write_document(p, b, from, d->tokens, err));
        from = d->tokens;
    }
    sn_encoders_free(p->encoders);
    return SN_OK;
}

static enum sn_status free_batch(struct sn_part *p, struct sn_document_batch **out,
                                 struct sn_err *err)
{
    bool any = true;
    while (!(*out = sn_encoders_fill(p->encoders)))
        SN_TRY(drain_one(p, &any, err));
    return SN_OK;
}

/* --- documents in ----------------------------------------------------------------------------- */

/* Where the document at `from` ends, and where the next one begins; false: it is not all there. */
static bool find_end(struct reader *r, size_t from, size_t *end, size_t *next)
{
    const char *p = r->text.p;
    size_t at = r->looked > from ? r->looked : from;
    while (r->by_lines || r->by_paragraphs) {
        const char *stop = at < r->text.len ? memchr(p + at, '\n', r->text.len - at) : NULL;
        if (!stop)
            break;
        *end = (size_t)(stop - p);
        *next = *end + 1;
        while (r->by_paragraphs && *next < r->text.len && (p[*next] == '\n' || p[*next] == '\r'))
            (*next)++;
        bool is_empty_line = *next - *end > 1 && memchr(stop + 1, '\n', *next - *end - 1);
        if (r->by_lines || (is_empty_line && (*next < r->text.len || r->ended)))
            return true;
        if (*next == r->text.len && !r->ended)
            break; /* perhaps an empty line is coming */
        at = *end + 1;
    }
    r->looked = r->by_lines ? r->text.len : from;
    if (!r->ended || from == r->text.len)
        return false;
    *end = *next = r->text.len;
    return true;
}

static int64_t count_lines(const char *p, size_t n)
{
    int64_t lines = 0;
    for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        lines++;
    return lines;
}

static bool add_document(struct sn_document_batch *b, const struct reader *r, size_t from,
                         size_t end)
{
    const char *p = r->text.p + from;
    size_t n = end - from;
    if (r->by_lines && n > 0 && p[n - 1] == '\r')
        n--;
    if (n == 0)
        return true;
    if (!sn_grow((void **)&b->documents, b->n, &b->cap, sizeof(*b->documents)))
        return false;
    struct sn_document *d = &b->documents[b->n++];
    *d = (struct sn_document){.from = b->text.len, .to = b->text.len + n};
    d->line = r->by_lines || r->by_paragraphs ? r->line : 0;
    return sn_bytes_add(&b->text, p, n);
}

/* All whole documents of the text into batches; the rest moves to its beginning. */
static enum sn_status put_documents(struct reader *r, struct sn_err *err)
{
    struct sn_document_batch *b = NULL;
    size_t from = 0, end, next;
    while (find_end(r, from, &end, &next)) {
        if (!b)
            SN_TRY(free_batch(r->part, &b, err));
        if (!add_document(b, r, from, end))
            return no_memory(r, err);
        r->line += count_lines(r->text.p + from, next - from);
        from = next;
        if (b->text.len >= BATCH_BYTES || b->n >= BATCH_DOCUMENTS) {
            sn_encoders_put(r->part->encoders);
            b = NULL;
        }
    }
    if (b)
        sn_encoders_put(r->part->encoders);
    if (from > 0) {
        memmove(r->text.p, r->text.p + from, r->text.len - from);
        r->text.len -= from;
        r->looked -= r->looked < from ? r->looked : from;
    }
    return SN_OK;
}

static enum sn_status interrupted(const struct sn_part *p, struct sn_err *err)
{
    const struct sn_tokenize *want = p->want;
    struct pollfd fd = {.fd = want->stop_fd, .events = POLLIN};
    if (want->stop_fd < 0 || poll(&fd, 1, 0) <= 0)
        return SN_OK;
    if (!p->writer)
        return sn_fail(err, SN_EFAIL, "%s: interrupted; nothing was written", want->out);
    return sn_fail(err, SN_EFAIL,
                   "%s: interrupted; the same command goes on with the files that "
                   "are not done",
                   want->out);
}

/* What cannot be read on: how many lines there were before. */
static enum sn_status name_line(const struct reader *r, struct sn_err *err)
{
    char why[sizeof(err->text)];
    int64_t lines = r->line - 1 + count_lines(r->text.p, r->text.len);
    (void)snprintf(why, sizeof(why), "%s", err->text);
    return sn_fail(err, err->status, "%s; %lld whole lines come before it", why, (long long)lines);
}

/* Fill the text until there is a batch of it, or the file ends. */
static enum sn_status read_more(struct reader *r, struct sn_err *err)
{
    size_t got, goal = r->text.len + BATCH_BYTES;
    while (!r->ended && r->text.len < goal) {
        if (!sn_bytes_room(&r->text, READ_AT_ONCE))
            return no_memory(r, err);
        if (sn_texts_read(&r->source, r->text.p + r->text.len, READ_AT_ONCE, &got, err) != SN_OK)
            return name_line(r, err);
        r->text.len += got;
        r->part->bytes += (int64_t)got;
        r->ended = got == 0;
        if (r->text.len > largest_document)
            return sn_fail(err, SN_EINPUT,
                           "%s:%lld: a document of more than 1 GiB; cut the text with --documents "
                           "lines or paragraphs",
                           r->part->file->path, (long long)r->line);
    }
    return SN_OK;
}

/* What of a Parquet file is read: a text, or a conversation with what its template may use. */
static struct sn_parquet_want columns_of(const struct sn_tokenize *t)
{
    struct sn_parquet_want want = {.name = {t->field ? t->field : "text"}, .n = 1, .needed = 1};
    if (!t->chat)
        return want;
    if (!t->field) {
        want.name[0] = "messages";
        want.name[want.n++] = "conversations";
        want.needed = want.n;
    }
    want.name[want.n++] = "tools";
    want.name[want.n++] = "documents";
    want.name[want.n++] = "chat_template_kwargs";
    return want;
}

enum sn_status sn_part_write(struct sn_part *p, struct sn_err *err)
{
    struct reader r = {.part = p, .line = 1};
    struct sn_parquet_want columns = columns_of(p->want);
    bool any = true;
    r.by_lines = p->file->is_json || p->want->documents == SN_DOCUMENTS_LINES;
    r.by_paragraphs = !r.by_lines && p->want->documents == SN_DOCUMENTS_PARAGRAPHS;
    enum sn_status st = sn_texts_open(&r.source, p->file->path, &columns, err);
    if (st == SN_OK && r.source.rows && !p->file->is_json)
        st = sn_fail(err, SN_EINPUT, "%s: is a Parquet file by its first bytes; name it .parquet",
                     p->file->path);
    while (st == SN_OK && !r.ended) {
        st = interrupted(p, err);
        if (st == SN_OK)
            st = read_more(&r, err);
        if (st == SN_OK)
            st = put_documents(&r, err);
    }
    while (st == SN_OK && any)
        st = drain_one(p, &any, err);
    sn_texts_close(&r.source);
    sn_bytes_fini(&r.text);
    return st;
}
