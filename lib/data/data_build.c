/*
 * data_build.c - text, decimal or binary token files in; documents out.
 *
 * Everything is a stream: one block of input, one block of tokens, and the writer's buffers.
 */
#include "lib/data/data_build.h"

#include "lib/base/mem.h"
#include "lib/data/data_format.h"
#include "lib/data/data_kind.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

struct builder {
    const struct sn_data_build *want;
    struct sn_data_writer *writer;
    int64_t limit; /* the largest token that may come */
    const char *name;
    int fd;
    int64_t offset, line, column; /* of the next byte in the file */
    int newlines;                 /* in a row before it */
    bool has_text;                /* the document holds more than empty lines */
    bool in_number, is_left_out;  /* the number's '-' was there */
    int64_t number;
    size_t len, used; /* bytes in the block of input, tokens in the block of tokens */
    unsigned char input[BLOCK];
    int32_t tokens[BLOCK];
    uint8_t counts[BLOCK]; /* where want->masked */
};

/* --- input ------------------------------------------------------------------------------- */

static enum sn_status open_input(struct builder *b, const char *name, struct sn_err *err)
{
    bool is_stdin = strcmp(name, "-") == 0;
    b->name = is_stdin ? "standard input" : name;
    /* Not blocking: a FIFO that nobody writes to yet must not keep a signal waiting. */
    b->fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    b->offset = 0;
    b->line = b->column = 1;
    b->newlines = 0;
    b->has_text = false;
    return b->fd < 0 ? sn_data_read_fail(err, b->name, errno) : SN_OK;
}

static void close_input(struct builder *b)
{
    if (b->fd > STDIN_FILENO)
        (void)close(b->fd); /* only read from */
    b->fd = -1;
}

static enum sn_status wait_for_input(struct builder *b, struct sn_err *err)
{
    struct pollfd fds[2] = {{.fd = b->want->stop_fd, .events = POLLIN},
                            {.fd = b->fd, .events = POLLIN}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR)
        return sn_data_read_fail(err, b->name, errno);
    if (fds[0].revents)
        return sn_fail(err, SN_EFAIL, "%s: interrupted; nothing was written", b->want->prefix);
    return SN_OK;
}

/* Fill the block, so that only the last one of a file is short; b->len is 0 at its end. */
static enum sn_status fill(struct builder *b, struct sn_err *err)
{
    b->len = 0;
    while (b->len < BLOCK) {
        SN_TRY(wait_for_input(b, err));
        ssize_t n = read(b->fd, b->input + b->len, BLOCK - b->len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return sn_data_read_fail(err, b->name, errno);
        if (n == 0)
            break;
        b->len += (size_t)n;
    }
    return SN_OK;
}

/* --- tokens and documents ---------------------------------------------------------------- */

static enum sn_status flush_tokens(struct builder *b, struct sn_err *err)
{
    SN_TRY(sn_data_writer_append_masked(b->writer, b->tokens, b->want->masked ? b->counts : NULL,
                                        (int64_t)b->used, err));
    b->used = 0;
    return SN_OK;
}

static enum sn_status put_token(struct builder *b, int64_t token, struct sn_err *err)
{
    if (b->used == BLOCK)
        SN_TRY(flush_tokens(b, err));
    b->counts[b->used] = !b->is_left_out;
    b->tokens[b->used++] = (int32_t)token;
    b->is_left_out = false;
    return SN_OK;
}

static enum sn_status end_document(struct builder *b, struct sn_err *err)
{
    SN_TRY(flush_tokens(b, err));
    b->has_text = false;
    if (sn_data_writer_open_tokens(b->writer) == 0)
        return SN_OK; /* documents without tokens are left out */
    return sn_data_writer_end(b->writer, err);
}

/* Lines and paragraphs keep their newlines: the token file is the text, byte for byte. A paragraph
 * ends after the empty lines that follow it. */
static bool is_document_start(struct builder *b, unsigned char c)
{
    bool is_start = false;
    if (b->want->documents == SN_DOCUMENTS_LINES)
        is_start = b->newlines > 0;
    else if (b->want->documents == SN_DOCUMENTS_PARAGRAPHS && c != '\n' && c != '\r')
        is_start = b->newlines > 1 && b->has_text;
    if (c == '\n')
        b->newlines =
            b->want->documents == SN_DOCUMENTS_LINES ? 1 : b->newlines + (b->newlines < 2);
    else if (c != '\r' || b->want->documents == SN_DOCUMENTS_LINES)
        b->newlines = 0;
    return is_start;
}

static enum sn_status cut_before(struct builder *b, unsigned char c, struct sn_err *err)
{
    if (is_document_start(b, c))
        SN_TRY(end_document(b, err));
    b->has_text = b->has_text || (c != '\n' && c != '\r');
    return SN_OK;
}

/* --- the three kinds of input ------------------------------------------------------------ */

/* Bytes that follow one another, each a token. */
static enum sn_status put_bytes(struct builder *b, size_t from, size_t to, struct sn_err *err)
{
    return sn_data_writer_append_bytes(b->writer, b->input + from, NULL, (int64_t)(to - from), err);
}

static enum sn_status check_bytes(const struct builder *b, struct sn_err *err)
{
    unsigned char most = 0;
    if (b->limit >= UINT8_MAX)
        return SN_OK;
    for (size_t i = 0; i < b->len; i++)
        most = b->input[i] > most ? b->input[i] : most;
    for (size_t i = 0; i < b->len && most > b->limit; i++)
        if (b->input[i] > b->limit)
            return sn_fail(err, SN_EINPUT,
                           "%s: byte %lld is %d, outside the vocabulary 0 .. %lld; raise --vocab "
                           "(256 takes every byte)",
                           b->name, (long long)(b->offset + (int64_t)i), b->input[i],
                           (long long)b->limit);
    return SN_OK;
}

/* Inside a line that holds text no document begins before the next newline. */
static size_t skip_text(const struct builder *b, size_t at)
{
    if (b->newlines > 0 || !b->has_text)
        return at;
    const unsigned char *newline = memchr(b->input + at, '\n', b->len - at);
    return newline ? (size_t)(newline - b->input) : b->len;
}

static enum sn_status take_bytes(struct builder *b, struct sn_err *err)
{
    size_t from = 0;
    SN_TRY(check_bytes(b, err));
    if (b->want->documents == SN_DOCUMENTS_FILES)
        return put_bytes(b, 0, b->len, err);
    for (size_t i = skip_text(b, 0); i < b->len; i = skip_text(b, i + 1)) {
        unsigned char c = b->input[i];
        if (is_document_start(b, c)) {
            SN_TRY(put_bytes(b, from, i, err));
            SN_TRY(end_document(b, err));
            from = i;
        }
        b->has_text = b->has_text || (c != '\n' && c != '\r');
    }
    return put_bytes(b, from, b->len, err);
}

static enum sn_status end_number(struct builder *b, struct sn_err *err)
{
    if (!b->in_number)
        return SN_OK;
    b->in_number = false;
    if (b->number > b->limit)
        return sn_fail(
            err, SN_EINPUT,
            "%s:%lld:%lld: token %lld is outside the vocabulary 0 .. %lld; raise --vocab", b->name,
            (long long)b->line, (long long)(b->column - 1), (long long)b->number,
            (long long)b->limit);
    return put_token(b, b->number, err);
}

static enum sn_status no_digit(const struct builder *b, unsigned char c, struct sn_err *err)
{
    char shown[16];
    (void)snprintf(shown, sizeof(shown), c > ' ' && c < 127 ? "'%c'" : "byte %d", c);
    return sn_fail(err, SN_EINPUT,
                   "%s:%lld:%lld: %s is no digit; want decimal tokens with blanks between them, or "
                   "name a binary type with --tokens-dtype",
                   b->name, (long long)b->line, (long long)b->column, shown);
}

static enum sn_status take_decimal(struct builder *b, struct sn_err *err)
{
    const int64_t far_too_large = (int64_t)1 << 56;
    for (size_t i = 0; i < b->len; i++) {
        unsigned char c = b->input[i];
        if (c >= '0' && c <= '9') {
            SN_TRY(cut_before(b, c, err));
            b->number = b->in_number ? b->number : 0;
            if (b->number < far_too_large)
                b->number = b->number * 10 + (c - '0');
            b->in_number = true;
        } else if (c == '-' && b->want->masked && !b->in_number && !b->is_left_out) {
            SN_TRY(cut_before(b, c, err));
            b->is_left_out = true;
        } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
            if (b->is_left_out && !b->in_number)
                return sn_fail(err, SN_EINPUT,
                               "%s:%lld:%lld: a '-' with no token behind it; write it before a "
                               "token that does not count",
                               b->name, (long long)b->line, (long long)(b->column - 1));
            SN_TRY(end_number(b, err));
            SN_TRY(cut_before(b, c, err));
        } else {
            return no_digit(b, c, err);
        }
        b->column = c == '\n' ? 1 : b->column + 1;
        b->line += c == '\n';
    }
    return SN_OK;
}

static enum sn_status take_binary(struct builder *b, struct sn_err *err)
{
    const struct sn_token_type *type = sn_token_type_find(b->want->binary_code);
    size_t size = (size_t)type->size;
    if (b->len % size != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: %lld bytes are no whole number of %s tokens (%d bytes each); check "
                       "--tokens-dtype",
                       b->name, (long long)(b->offset + (int64_t)b->len), type->name, type->size);
    for (size_t i = 0; i < b->len; i += size) {
        int64_t token = sn_token_load(type->code, b->input + i);
        if (token < 0 || token > b->limit)
            return sn_fail(err, SN_EINPUT,
                           "%s: byte %lld: token %lld is outside the vocabulary 0 .. %lld; check "
                           "--tokens-dtype and --vocab",
                           b->name, (long long)(b->offset + (int64_t)i), (long long)token,
                           (long long)b->limit);
        SN_TRY(put_token(b, token, err));
    }
    return SN_OK;
}

static enum sn_status take_file(struct builder *b, struct sn_err *err)
{
    static enum sn_status (*const take[])(struct builder *, struct sn_err *) = {
        [SN_SOURCE_BYTES] = take_bytes,
        [SN_SOURCE_DECIMAL] = take_decimal,
        [SN_SOURCE_BINARY] = take_binary,
    };
    SN_TRY(fill(b, err));
    if (!b->want->raw)
        SN_TRY(
            sn_data_kind_check(b->name, b->input, b->len, b->want->source == SN_SOURCE_BYTES, err));
    while (b->len > 0) {
        SN_TRY(take[b->want->source](b, err));
        b->offset += (int64_t)b->len;
        SN_TRY(fill(b, err));
    }
    if (b->is_left_out && !b->in_number)
        return no_digit(b, '\n', err);
    SN_TRY(end_number(b, err));
    return end_document(b, err);
}

/* --- the whole --------------------------------------------------------------------------- */

int sn_data_binary_code(const char *name)
{
    const struct sn_token_type *type = sn_token_type_named(name);
    return type ? type->code : 0;
}

/* Bytes are u8. Else the vocabulary decides, as in Megatron (u16 below 65500), or what the binary
 * input can hold. */
static int choose_code(const struct sn_data_build *want)
{
    if (want->source == SN_SOURCE_BYTES || (want->vocab > 0 && want->vocab <= 256))
        return SN_TOK_U8;
    if (want->vocab > 0)
        return want->vocab < 65500 ? SN_TOK_U16 : SN_TOK_I32;
    if (want->source == SN_SOURCE_BINARY) {
        int size = sn_token_type_find(want->binary_code)->size;
        return size == 1 ? SN_TOK_U8 : size == 2 ? SN_TOK_U16 : SN_TOK_I32;
    }
    return SN_TOK_I32;
}

static enum sn_status write_documents(struct builder *b, struct sn_err *err)
{
    const struct sn_data_build *want = b->want;
    int code = choose_code(want);
    b->limit = want->vocab > 0 ? want->vocab - 1 : sn_token_type_find(code)->max;
    SN_TRY(sn_data_writer_create(&b->writer, want->prefix, code, err));
    if (want->masked)
        SN_TRY(sn_data_writer_add_mask(b->writer, want->prefix, err));
    for (int i = 0; i < want->n_files; i++) {
        SN_TRY(open_input(b, want->files[i], err));
        enum sn_status st = take_file(b, err);
        close_input(b);
        SN_TRY(st);
    }
    struct sn_data_info info;
    sn_data_writer_info(b->writer, &info);
    if (info.tokens > 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT, "%s: no tokens in %s; name a file that is not empty",
                   want->n_files == 1 ? b->name : want->prefix,
                   want->n_files == 1 ? "it" : "any of the files");
}

/* Both pairs are on the disk before the first gets its name. */
static enum sn_status publish(const struct sn_data_build *want, struct sn_data_writer *train,
                              struct sn_data_info info[2], struct sn_err *err)
{
    struct sn_data_writer *valid = NULL;
    char *prefix = sn_format("%.*s-valid", (int)sn_data_prefix_length(want->prefix), want->prefix);
    enum sn_status st = prefix ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory", want->prefix);
    if (st == SN_OK && want->valid > 0)
        st = sn_data_writer_split(train, want->valid, prefix, &valid, err);
    if (st == SN_OK)
        st = sn_data_writer_seal(train, err);
    if (st == SN_OK && valid)
        st = sn_data_writer_seal(valid, err);
    if (st == SN_OK)
        st = sn_data_writer_finish(train, err);
    if (st == SN_OK && valid)
        st = sn_data_writer_finish(valid, err);
    if (st == SN_OK) {
        sn_data_writer_info(train, &info[0]);
        info[1] = (struct sn_data_info){0};
        if (valid)
            sn_data_writer_info(valid, &info[1]);
    }
    sn_data_writer_destroy(valid);
    sn_free(prefix);
    return st;
}

enum sn_status sn_data_build(const struct sn_data_build *want, struct sn_data_info info[2],
                             struct sn_err *err)
{
    assert(want->n_files > 0);
    struct builder *b = sn_alloc(sizeof(*b));
    if (!b)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %zu bytes", want->prefix, sizeof(*b));
    b->want = want;
    enum sn_status st = write_documents(b, err);
    if (st == SN_OK)
        st = publish(want, b->writer, info, err);
    sn_data_writer_destroy(b->writer);
    sn_free(b);
    return st;
}
