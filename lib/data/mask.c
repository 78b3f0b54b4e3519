/*
 * mask.c - masks of targets, mapped and read in place; and written in constant memory.
 *
 * A mask that grows has its whole bytes in a file, the bits of the last, partial one beside it.
 */
#include "lib/data/mask.h"

#include "lib/base/mem.h"
#include "lib/base/text_file.h"
#include "lib/data/data_format.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SNTMASK" /* eight bytes with the literal's own NUL */
enum { HEADER_BYTES = 32, AT_ONCE = 4096 };

/* --- reading ----------------------------------------------------------------------------- */

struct sn_data_mask {
    struct sn_data_mapped file;
};

bool sn_data_mask_exists(const char *prefix)
{
    struct stat info;
    char *path = sn_data_file_path(prefix, "mask");
    bool is_there = path && stat(path, &info) == 0;
    sn_free(path);
    return is_there;
}

enum sn_status sn_data_mask_check(const void *bytes, size_t len, int64_t tokens, const char *name,
                                  struct sn_err *err)
{
    const unsigned char *p = bytes;
    if (memcmp(p, MAGIC, len < 8 ? len : 8) == 0 && len < HEADER_BYTES)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte %zu: the file ends inside the header of %d bytes; copy or write "
                       "it again",
                       name, len, HEADER_BYTES);
    if (len < HEADER_BYTES || memcmp(p, MAGIC, 8) != 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte 0: this is no mask, which begins with SNTMASK; 'sennit-data "
                       "build --tokens --masked' writes one",
                       name);
    int64_t version = sn_le_i64(p + 8), has = sn_le_i64(p + 16), counted = sn_le_i64(p + 24);
    if (version != 1)
        return sn_fail(err, SN_EINPUT, "%s: byte 8: version %lld of the format; want version 1",
                       name, (long long)version);
    if (has != tokens)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte 16: a mask of %lld tokens, but the .bin has %lld; copy or write both "
            "again",
            name, (long long)has, (long long)tokens);
    if (counted < 0 || counted > tokens)
        return sn_fail(err, SN_EINPUT,
                       "%s: byte 24: %lld of %lld tokens count; copy or write it again", name,
                       (long long)counted, (long long)tokens);
    int64_t want = HEADER_BYTES + tokens / 8 + (tokens % 8 > 0);
    if ((int64_t)len != want)
        return sn_fail(err, SN_EINPUT,
                       "%s: %lld bytes; a mask of %lld tokens has %lld; copy or write it again",
                       name, (long long)len, (long long)tokens, (long long)want);
    if (tokens % 8 > 0 && p[len - 1] >> tokens % 8 != 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: byte %lld: bits behind those of the last token; want 0; copy or write it "
            "again",
            name, (long long)len - 1);
    return SN_OK;
}

enum sn_status sn_data_mask_open(struct sn_data_mask **out, const char *prefix, int64_t tokens,
                                 struct sn_open_files *files, struct sn_err *err)
{
    struct sn_data_mask *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open its mask", prefix);
    enum sn_status st =
        sn_data_map(&m->file, prefix, "mask", "'sennit-data build --tokens --masked' writes one",
                    files, NULL, err);
    if (st == SN_OK)
        st = sn_data_mask_check(m->file.bytes, m->file.len, tokens, m->file.path, err);
    if (st != SN_OK) {
        sn_data_mask_close(m);
        return st;
    }
    *out = m;
    return SN_OK;
}

void sn_data_mask_close(struct sn_data_mask *m)
{
    if (!m)
        return;
    sn_data_unmap(&m->file);
    sn_free(m);
}

int64_t sn_data_mask_counted(const struct sn_data_mask *m)
{
    return sn_le_i64(m->file.bytes + 24);
}

/* Bit k of a row of bits, 0 or 1. */
static int bit_of(const unsigned char *bits, int64_t k)
{
    return bits[k / 8] >> k % 8 & 1;
}

int64_t sn_data_mask_count(const struct sn_data_mask *m, int64_t first, int64_t n)
{
    const unsigned char *bits = m->file.bytes + HEADER_BYTES;
    int64_t k = first, end = first + n, sum = 0;
    for (; k < end && k % 8; k++)
        sum += bit_of(bits, k);
    for (; k + 64 <= end; k += 64) {
        uint64_t word;
        memcpy(&word, bits + k / 8, sizeof(word));
        sum += __builtin_popcountll(word);
    }
    for (; k < end; k++)
        sum += bit_of(bits, k);
    return sum;
}

int64_t sn_data_mask_first(const struct sn_data_mask *m, int64_t first, int64_t n)
{
    const unsigned char *bits = m->file.bytes + HEADER_BYTES;
    int64_t k = first, end = first + n;
    while (k < end && !bit_of(bits, k))
        k += k % 8 == 0 && k + 8 <= end && bits[k / 8] == 0 ? 8 : 1;
    return k;
}

void sn_data_mask_read(const struct sn_data_mask *m, int64_t first, int64_t n, uint8_t *counts)
{
    for (int64_t k = 0; k < n; k++)
        counts[k] = (uint8_t)bit_of(m->file.bytes + HEADER_BYTES, first + k);
}

/* --- writing ----------------------------------------------------------------------------- */

struct sn_data_mask_writer {
    struct sn_data_file file;
    int64_t tokens, counted;
    unsigned char last; /* bits of the byte that is not whole yet */
};

enum sn_status sn_data_mask_writer_create(struct sn_data_mask_writer **out, const char *prefix,
                                          struct sn_err *err)
{
    struct sn_data_mask_writer *w = sn_alloc(sizeof(*w));
    if (!w)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write its mask", prefix);
    w->file.fd = -1;
    enum sn_status st = sn_data_file_create(&w->file, prefix, "mask", err);
    if (st != SN_OK) {
        sn_data_mask_writer_destroy(w);
        return st;
    }
    memset(w->file.buffer, 0, HEADER_BYTES);
    w->file.used = HEADER_BYTES; /* zeros until it is sealed */
    *out = w;
    return SN_OK;
}

void sn_data_mask_writer_destroy(struct sn_data_mask_writer *w)
{
    if (!w)
        return;
    sn_data_file_destroy(&w->file);
    sn_free(w);
}

int64_t sn_data_mask_writer_tokens(const struct sn_data_mask_writer *w)
{
    return w->tokens;
}

/* The last byte goes to the buffer; the next one begins. */
static enum sn_status put_last(struct sn_data_mask_writer *w, struct sn_err *err)
{
    SN_TRY(sn_data_file_room(&w->file, 1, err));
    w->file.buffer[w->file.used++] = w->last;
    w->last = 0;
    return SN_OK;
}

enum sn_status sn_data_mask_writer_append(struct sn_data_mask_writer *w, const uint8_t *counts,
                                          int64_t n, struct sn_err *err)
{
    for (int64_t i = 0; i < n; i++) {
        bool does_count = counts[i] != 0;
        w->last = (unsigned char)(w->last | does_count << w->tokens % 8);
        w->counted += does_count;
        w->tokens++;
        if (w->tokens % 8 == 0)
            SN_TRY(put_last(w, err));
    }
    return SN_OK;
}

/* 1 or 0 for n tokens (at most AT_ONCE) of a mask whose buffer is flushed. */
static enum sn_status read_back(const struct sn_data_mask_writer *w, int64_t first, int64_t n,
                                uint8_t *counts, struct sn_err *err)
{
    unsigned char bits[AT_ONCE / 8 + 1] = {0};
    int64_t byte = first / 8, end = (first + n + 7) / 8, whole = w->tokens / 8;
    int64_t in_file = end < whole ? end : whole;
    if (in_file > byte)
        SN_TRY(sn_data_file_read_at(&w->file, bits, (size_t)(in_file - byte), HEADER_BYTES + byte,
                                    err));
    if (end > whole)
        bits[whole - byte] = w->last;
    for (int64_t i = 0; i < n; i++)
        counts[i] = (uint8_t)bit_of(bits, first % 8 + i);
    return SN_OK;
}

enum sn_status sn_data_mask_writer_copy(struct sn_data_mask_writer *w,
                                        struct sn_data_mask_writer *from, int64_t first, int64_t n,
                                        struct sn_err *err)
{
    uint8_t counts[AT_ONCE];
    assert(first >= 0 && first + n <= from->tokens);
    SN_TRY(sn_data_file_flush(&from->file, err));
    for (int64_t block; n > 0; first += block, n -= block) {
        block = n < AT_ONCE ? n : AT_ONCE;
        SN_TRY(read_back(from, first, block, counts, err));
        SN_TRY(sn_data_mask_writer_append(w, counts, block, err));
    }
    return SN_OK;
}

enum sn_status sn_data_mask_writer_truncate(struct sn_data_mask_writer *w, int64_t tokens,
                                            struct sn_err *err)
{
    uint8_t counts[AT_ONCE];
    int64_t counted = w->counted;
    assert(tokens >= 0 && tokens <= w->tokens);
    SN_TRY(sn_data_file_flush(&w->file, err));
    for (int64_t at = tokens, block; at < w->tokens; at += block) {
        block = w->tokens - at < AT_ONCE ? w->tokens - at : AT_ONCE;
        SN_TRY(read_back(w, at, block, counts, err));
        for (int64_t i = 0; i < block; i++)
            counted -= counts[i];
    }
    unsigned char last = 0;
    SN_TRY(read_back(w, tokens / 8 * 8, tokens % 8, counts, err));
    for (int64_t i = 0; i < tokens % 8; i++)
        last = (unsigned char)(last | counts[i] << i);
    SN_TRY(sn_data_file_truncate(&w->file, HEADER_BYTES + tokens / 8, err));
    w->tokens = tokens;
    w->counted = counted;
    w->last = last;
    return SN_OK;
}

enum sn_status sn_data_mask_writer_seal(struct sn_data_mask_writer *w, struct sn_err *err)
{
    unsigned char header[HEADER_BYTES] = MAGIC;
    uint64_t of[3] = {htole64(1), htole64((uint64_t)w->tokens), htole64((uint64_t)w->counted)};
    memcpy(header + 8, of, sizeof(of));
    if (w->tokens % 8 > 0)
        SN_TRY(put_last(w, err));
    SN_TRY(sn_data_file_flush(&w->file, err));
    SN_TRY(sn_data_file_write_at(&w->file, header, sizeof(header), 0, err));
    return sn_data_file_sync(&w->file, err);
}

enum sn_status sn_data_mask_writer_publish(struct sn_data_mask_writer *w, struct sn_err *err)
{
    return sn_data_file_publish(&w->file, err);
}

enum sn_status sn_data_mask_remove(const char *prefix, struct sn_err *err)
{
    char *path = sn_data_file_path(prefix, "mask");
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a file name", prefix);
    bool is_gone = unlink(path) == 0 || errno == ENOENT;
    enum sn_status st = is_gone ? SN_OK : sn_write_fail(err, path, errno);
    sn_free(path);
    return st;
}
