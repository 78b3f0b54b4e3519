/*
 * fuzz_texts.c - a file of any bytes, packed (gzip, zstd), Parquet or not, is read as text or explained, and
 * its lines as JSON become tokens or say why not.
 */
#include "lib/base/mem.h"
#include "lib/texts/encoders.h"
#include "lib/texts/texts.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { LARGEST = 1 << 20 }; /* of what is unpacked: a few bytes may be gigabytes */

static const char vocabulary[] = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\n";

static void require(int good)
{
    if (!good)
        abort();
}

/* Every line a document of one batch. */
static void fill(struct sn_document_batch *b, const char *p, size_t len)
{
    require(sn_bytes_add(&b->text, p, len));
    for (size_t from = 0, to; from < len; from = to + 1) {
        const char *stop = memchr(p + from, '\n', len - from);
        to = stop ? (size_t)(stop - p) : len;
        if (b->n == b->cap) {
            struct sn_document *grown =
                sn_realloc(b->documents, sizeof(*grown) * (size_t)(b->cap + 64));
            require(grown != NULL);
            b->documents = grown;
            b->cap += 64;
        }
        b->documents[b->n] = (struct sn_document){.from = from, .to = to, .line = b->n + 1};
        b->n++;
    }
}

/* Made once: its table of Unicode takes a hundred times as long as a text. NULL: a build without a
 * library. */
static struct sn_encoders *encoders(void)
{
    static struct sn_tokenizer *t;
    static struct sn_encoders *e;
    static bool has_tried;
    struct sn_err err = {0};
    if (!has_tried &&
        sn_tokenizer_parse(&t, vocabulary, sizeof(vocabulary) - 1, "r50k", &err) == SN_OK) {
        struct sn_encoding how = {.tokenizer = t, .field = "text", .begin = -1, .end = 0};
        require(sn_encoders_create(&e, &how, 1, &err) == SN_OK);
    }
    has_tried = true;
    return e;
}

static void encode(const char *p, size_t len)
{
    struct sn_encoders *e = encoders();
    if (!e)
        return;
    fill(sn_encoders_fill(e), p, len);
    sn_encoders_put(e);
    struct sn_document_batch *b = sn_encoders_take(e);
    require(b && b->err.status == SN_OK);
    size_t from = 0;
    int bad = 0;
    for (int i = 0; i < b->n; i++) {
        const struct sn_document *d = &b->documents[i];
        require(d->tokens >= from && d->tokens <= b->ids.len);
        require(!d->is_bad || (d->tokens == from && b->bad[bad++].why[0]));
        from = d->tokens;
    }
    require(bad == b->n_bad);
    sn_encoders_free(e);
}

static const struct sn_parquet_want want = {
    .name = {"text", "messages", "id", "n", "big", "ok", "ll"}, .n = 7, .needed = 2};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char path[32];
    char *text = malloc(LARGEST);
    size_t n = 0, got = 1;
    struct sn_texts s;
    struct sn_err err = {0};
    int fd = memfd_create("texts", MFD_CLOEXEC);
    require(text && fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum sn_status st = sn_texts_open(&s, path, &want, &err);
    while (st == SN_OK && got > 0 && n < LARGEST) {
        st = sn_texts_read(&s, text + n, LARGEST - n < 4096 ? LARGEST - n : 4096, &got, &err);
        n += st == SN_OK ? got : 0;
    }
    require(st == SN_OK || (st == SN_EINPUT && err.text[0]));
    sn_texts_close(&s);
    (void)close(fd);
    if (n > 0)
        encode(text, n);
    free(text);
    return 0;
}
