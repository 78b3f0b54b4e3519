/*
 * data_write.c - writing a pair of token files in constant memory.
 *
 * Both files grow under temporary names beside their final ones. While writing, the index holds the
 * header's room and the lengths; offsets and document bounds follow from the lengths when it is
 * sealed. A document is one sequence unless it is very long, so only the sequences that do NOT end
 * their document are remembered.
 */
#include "lib/data/data_format.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/data/features.h"
#include "lib/data/mask.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { LENGTHS_AT_ONCE = 1024 };
static const int64_t sequence_max = (int64_t)1 << 30;

struct sn_data_writer {
    const struct sn_token_type *type;
    struct sn_data_file bin, idx;
    struct sn_data_mask_writer *mask; /* or NULL */
    int64_t tokens, sequences;
    int64_t open;       /* tokens of the sequence that is being written */
    int64_t open_whole; /* tokens of its document in earlier sequences */
    int64_t limit;      /* longest sequence */
    int64_t *unended;   /* sequences that do not end their document, ascending */
    size_t n_unended;
    bool sealed;
};

/* --- documents --------------------------------------------------------------------------- */

enum sn_status sn_data_writer_create(struct sn_data_writer **out, const char *prefix,
                                     int dtype_code, struct sn_err *err)
{
    const struct sn_token_type *type = sn_token_type_find(dtype_code);
    if (!type)
        return sn_fail(err, SN_EINPUT,
                       "%s: dtype code %d does not stand for tokens; want 1 (u8), 2 (i8), 3 (i16), "
                       "4 (i32), 5 (i64) or 8 (u16)",
                       prefix, dtype_code);
    struct sn_data_writer *w = sn_alloc(sizeof(*w));
    if (!w)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write it", prefix);
    w->type = type;
    w->limit = sequence_max;
    w->bin.fd = w->idx.fd = -1;
    enum sn_status st = sn_data_file_create(&w->bin, prefix, "bin", err);
    if (st == SN_OK)
        st = sn_data_file_create(&w->idx, prefix, "idx", err);
    if (st != SN_OK) {
        sn_data_writer_destroy(w);
        return st;
    }
    w->idx.used = SN_IDX_HEADER_BYTES; /* zeros until it is sealed */
    *out = w;
    return SN_OK;
}

enum sn_status sn_data_writer_add_mask(struct sn_data_writer *w, const char *prefix,
                                       struct sn_err *err)
{
    assert(w->tokens == 0 && !w->mask);
    return sn_data_mask_writer_create(&w->mask, prefix, err);
}

void sn_data_writer_destroy(struct sn_data_writer *w)
{
    if (!w)
        return;
    sn_data_file_destroy(&w->bin);
    sn_data_file_destroy(&w->idx);
    sn_data_mask_writer_destroy(w->mask);
    sn_free(w->unended);
    sn_free(w);
}

void sn_data_writer_limit(struct sn_data_writer *w, int64_t n)
{
    assert(n >= 1 && n <= sequence_max);
    w->limit = n;
}

int64_t sn_data_writer_open_tokens(const struct sn_data_writer *w)
{
    return w->open_whole + w->open;
}

void sn_data_writer_info(const struct sn_data_writer *w, struct sn_data_info *out)
{
    *out = (struct sn_data_info){.dtype_code = w->type->code,
                                 .sequences = w->sequences,
                                 .documents = w->sequences - (int64_t)w->n_unended,
                                 .tokens = w->tokens};
}

static enum sn_status end_sequence(struct sn_data_writer *w, bool ends_document, struct sn_err *err)
{
    if (!ends_document) {
        int64_t *grown = sn_realloc(w->unended, (w->n_unended + 1) * sizeof(*grown));
        if (!grown)
            return sn_fail(err, SN_ENOMEM, "%s: no memory for its index", w->idx.path);
        w->unended = grown;
        w->unended[w->n_unended++] = w->sequences;
    }
    SN_TRY(sn_data_file_room(&w->idx, sizeof(int32_t), err));
    uint32_t le = htole32((uint32_t)w->open);
    memcpy(w->idx.buffer + w->idx.used, &le, sizeof(le));
    w->idx.used += sizeof(le);
    w->sequences++;
    w->open_whole = ends_document ? 0 : w->open_whole + w->open;
    w->open = 0;
    return SN_OK;
}

static void store(int size, int64_t token, unsigned char *p)
{
    uint64_t le = htole64((uint64_t)token);
    memcpy(p, &le, (size_t)size); /* little endian: the low bytes come first */
}

static enum sn_status check_tokens(const struct sn_data_writer *w, const int32_t *tokens, int64_t n,
                                   struct sn_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] > w->type->max)
            return sn_fail(err, SN_EINPUT,
                           "%s: token %lld is %d, which %s does not hold; want 0 .. %lld",
                           w->bin.path, (long long)(w->tokens + i), (int)tokens[i], w->type->name,
                           (long long)w->type->max);
    return SN_OK;
}

/* Little endian: the low bytes come first, whatever the width. */
static void store_block(int size, const int32_t *tokens, int64_t n, unsigned char *p)
{
    if (size == 1)
        for (int64_t i = 0; i < n; i++)
            p[i] = (unsigned char)tokens[i];
    else if (size == 2)
        for (int64_t i = 0; i < n; i++)
            store(2, tokens[i], p + i * 2);
    else
        for (int64_t i = 0; i < n; i++)
            store(size, tokens[i], p + i * size);
}

/* Of n more tokens, which count; NULL: all. */
static enum sn_status append_counts(struct sn_data_writer *w, const uint8_t *counts, int64_t n,
                                    struct sn_err *err)
{
    uint8_t all[256];
    if (counts)
        return sn_data_mask_writer_append(w->mask, counts, n, err);
    memset(all, 1, sizeof(all));
    for (int64_t block; n > 0; n -= block) {
        block = n < (int64_t)sizeof(all) ? n : (int64_t)sizeof(all);
        SN_TRY(sn_data_mask_writer_append(w->mask, all, block, err));
    }
    return SN_OK;
}

enum sn_status sn_data_writer_append_masked(struct sn_data_writer *w, const int32_t *tokens,
                                            const uint8_t *counts, int64_t n, struct sn_err *err)
{
    int size = w->type->size;
    SN_TRY(check_tokens(w, tokens, n, err));
    assert(w->mask || !counts);
    if (w->mask)
        SN_TRY(append_counts(w, counts, n, err));
    while (n > 0) {
        if (w->open >= w->limit)
            SN_TRY(end_sequence(w, false, err));
        SN_TRY(sn_data_file_room(&w->bin, (size_t)size, err));
        int64_t block = (int64_t)(SN_DATA_BUFFER - w->bin.used) / size;
        block = block < n ? block : n;
        block = block < w->limit - w->open ? block : w->limit - w->open;
        store_block(size, tokens, block, w->bin.buffer + w->bin.used);
        w->bin.used += (size_t)(block * size);
        w->open += block;
        w->tokens += block;
        tokens += block;
        n -= block;
    }
    return SN_OK;
}

enum sn_status sn_data_writer_append(struct sn_data_writer *w, const int32_t *tokens, int64_t n,
                                     struct sn_err *err)
{
    return sn_data_writer_append_masked(w, tokens, NULL, n, err);
}

enum sn_status sn_data_writer_append_bytes(struct sn_data_writer *w, const unsigned char *p,
                                           const uint8_t *counts, int64_t n, struct sn_err *err)
{
    assert(w->mask || !counts);
    if (w->mask)
        SN_TRY(append_counts(w, counts, n, err));
    for (int64_t block; n > 0; n -= block) {
        if (w->open >= w->limit)
            SN_TRY(end_sequence(w, false, err));
        block = n < w->limit - w->open ? n : w->limit - w->open;
        SN_TRY(sn_data_file_put(&w->bin, p, (size_t)block * (size_t)w->type->size, err));
        w->open += block;
        w->tokens += block;
        p += block * w->type->size;
    }
    return SN_OK;
}

enum sn_status sn_data_writer_end(struct sn_data_writer *w, struct sn_err *err)
{
    return end_sequence(w, true, err);
}

enum sn_status sn_data_writer_end_sequence(struct sn_data_writer *w, struct sn_err *err)
{
    return end_sequence(w, false, err);
}

enum sn_status sn_data_writer_add(struct sn_data_writer *w, const int32_t *tokens, int64_t n,
                                  struct sn_err *err)
{
    SN_TRY(sn_data_writer_append(w, tokens, n, err));
    return sn_data_writer_end(w, err);
}

/* --- reading lengths back ---------------------------------------------------------------- */

struct length_walk {
    const struct sn_data_writer *w;
    int64_t next;
    size_t next_unended;
    unsigned char block[4 * LENGTHS_AT_ONCE];
};

/* Length of the next sequence, and whether it ends its document. The index must be flushed. */
static enum sn_status walk_next(struct length_walk *k, int64_t *length, bool *ends_document,
                                struct sn_err *err)
{
    const struct sn_data_writer *w = k->w;
    int64_t at = k->next % LENGTHS_AT_ONCE;
    if (at == 0) {
        int64_t left = w->sequences - k->next;
        size_t n = (size_t)(left < LENGTHS_AT_ONCE ? left : LENGTHS_AT_ONCE);
        SN_TRY(
            sn_data_file_read_at(&w->idx, k->block, 4 * n, SN_IDX_HEADER_BYTES + 4 * k->next, err));
    }
    *length = sn_le_i32(k->block + 4 * at);
    *ends_document = !(k->next_unended < w->n_unended && w->unended[k->next_unended] == k->next);
    k->next_unended += !*ends_document;
    k->next++;
    return SN_OK;
}

/* --- finishing --------------------------------------------------------------------------- */

static enum sn_status put_i64(struct sn_data_file *f, int64_t value, struct sn_err *err)
{
    SN_TRY(sn_data_file_room(f, sizeof(value), err));
    uint64_t le = htole64((uint64_t)value);
    memcpy(f->buffer + f->used, &le, sizeof(le));
    f->used += sizeof(le);
    return SN_OK;
}

static enum sn_status put_offsets_and_bounds(struct sn_data_writer *w, struct sn_err *err)
{
    int64_t length, offset = 0;
    bool ends_document;
    struct length_walk walk = {.w = w};
    for (int64_t i = 0; i < w->sequences; i++) {
        SN_TRY(put_i64(&w->idx, offset, err));
        SN_TRY(walk_next(&walk, &length, &ends_document, err));
        offset += length * w->type->size;
    }
    SN_TRY(put_i64(&w->idx, 0, err));
    walk = (struct length_walk){.w = w};
    for (int64_t i = 0; i < w->sequences; i++) {
        SN_TRY(walk_next(&walk, &length, &ends_document, err));
        if (ends_document)
            SN_TRY(put_i64(&w->idx, i + 1, err));
    }
    return SN_OK;
}

static enum sn_status write_header(struct sn_data_writer *w, struct sn_err *err)
{
    unsigned char header[SN_IDX_HEADER_BYTES];
    struct sn_data_info info;
    sn_data_writer_info(w, &info);
    memcpy(header, SN_IDX_MAGIC, 9);
    store(8, 1, header + 9);
    store(1, info.dtype_code, header + 17);
    store(8, info.sequences, header + 18);
    store(8, info.documents + 1, header + 26);
    return sn_data_file_write_at(&w->idx, header, sizeof(header), 0, err);
}

enum sn_status sn_data_writer_seal(struct sn_data_writer *w, struct sn_err *err)
{
    if (w->sealed)
        return SN_OK;
    if (sn_data_writer_open_tokens(w) > 0)
        SN_TRY(sn_data_writer_end(w, err));
    SN_TRY(sn_data_file_flush(&w->idx, err));
    SN_TRY(put_offsets_and_bounds(w, err));
    SN_TRY(sn_data_file_flush(&w->idx, err));
    SN_TRY(write_header(w, err));
    SN_TRY(sn_data_file_sync(&w->bin, err));
    SN_TRY(sn_data_file_sync(&w->idx, err));
    if (w->mask)
        SN_TRY(sn_data_mask_writer_seal(w->mask, err));
    w->sealed = true;
    return SN_OK;
}

static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? sn_strndup(path, (size_t)(slash - path) + 1) : sn_strdup(".");
    int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems refuse this; the names are in place all the same */
        (void)close(fd);
    }
    sn_free(folder);
}

/* They may be somebody's work of hours, so they stay; a run sees whether they are as many. */
static enum sn_status tell_of_features(const struct sn_data_writer *w, struct sn_err *err)
{
    struct sn_data_info info;
    char *path;
    sn_data_writer_info(w, &info);
    SN_TRY(sn_features_find(&path, w->bin.path, err));
    if (path)
        sn_log(SN_LOG_WARN,
               "%s: was there before these tokens; its entries are taken for those of their %lld documents, "
               "in this order, so write it anew if it is of others",
               path, (long long)info.documents);
    sn_free(path);
    return SN_OK;
}

/* The mask goes first, which older tokens do not fit; then the .bin: without its index nobody opens
 * it. */
enum sn_status sn_data_writer_finish(struct sn_data_writer *w, struct sn_err *err)
{
    SN_TRY(sn_data_writer_seal(w, err));
    SN_TRY(tell_of_features(w, err));
    SN_TRY(w->mask ? sn_data_mask_writer_publish(w->mask, err)
                   : sn_data_mask_remove(w->bin.path, err));
    SN_TRY(sn_data_file_publish(&w->bin, err));
    enum sn_status st = sn_data_file_publish(&w->idx, err);
    if (st != SN_OK) {
        (void)unlink(w->bin.path); /* the sentence about the index is the one to show */
        return st;
    }
    sync_folder(w->idx.path);
    return SN_OK;
}

/* --- splitting --------------------------------------------------------------------------- */

struct cut {
    int64_t tokens;   /* how many stay */
    int64_t sequence; /* the first that goes, or goes in part */
    int64_t inside;   /* tokens of it that stay */
};

/* The exact place, or the nearest end of a document if that is near enough. */
static enum sn_status find_cut(const struct sn_data_writer *w, double fraction, struct cut *cut,
                               struct sn_err *err)
{
    int64_t going = llround((double)w->tokens * fraction), want = w->tokens - going;
    int64_t position = 0, nearest = going / 10;
    struct cut exact = {.tokens = want}, best = {0};
    struct length_walk walk = {.w = w};
    for (int64_t i = 0; i < w->sequences; i++) {
        int64_t length;
        bool ends_document;
        SN_TRY(walk_next(&walk, &length, &ends_document, err));
        if (position < want && want < position + length) {
            exact.sequence = i;
            exact.inside = want - position;
        }
        position += length;
        if (position == want)
            exact.sequence = i + 1;
        bool is_inner = ends_document && position > 0 && position < w->tokens;
        if (is_inner && llabs(position - want) <= nearest) {
            nearest = llabs(position - want) - 1;
            best = (struct cut){.tokens = position, .sequence = i + 1};
        }
    }
    *cut = best.tokens ? best : exact;
    if (want <= 0 || going <= 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: a share of %g of %lld tokens leaves nothing on one side; give more "
                       "tokens or another share",
                       w->bin.path, fraction, (long long)w->tokens);
    return SN_OK;
}

/* Append n tokens of `from`, beginning with number `first`, as the bytes that they are. */
static enum sn_status copy_tokens(struct sn_data_writer *to, const struct sn_data_writer *from,
                                  int64_t first, int64_t n, struct sn_err *err)
{
    int64_t size = from->type->size;
    while (n > 0) {
        int64_t block = n < SN_DATA_BUFFER / size ? n : SN_DATA_BUFFER / size;
        SN_TRY(sn_data_file_flush(&to->bin, err));
        SN_TRY(sn_data_file_read_at(&from->bin, to->bin.buffer, (size_t)(block * size),
                                    first * size, err));
        to->bin.used = (size_t)(block * size);
        to->open += block;
        to->tokens += block;
        first += block;
        n -= block;
    }
    return SN_OK;
}

static enum sn_status copy_tail(struct sn_data_writer *to, const struct sn_data_writer *from,
                                const struct cut *cut, struct sn_err *err)
{
    struct length_walk walk = {.w = from};
    int64_t position = cut->tokens;
    for (int64_t i = 0; i < from->sequences; i++) {
        int64_t length;
        bool ends_document;
        SN_TRY(walk_next(&walk, &length, &ends_document, err));
        if (i < cut->sequence)
            continue;
        if (i == cut->sequence)
            length -= cut->inside;
        SN_TRY(copy_tokens(to, from, position, length, err));
        SN_TRY(end_sequence(to, ends_document, err));
        position += length;
    }
    return SN_OK;
}

static enum sn_status keep_head(struct sn_data_writer *w, const struct cut *cut, struct sn_err *err)
{
    w->sequences = cut->sequence + (cut->inside > 0);
    w->tokens = cut->tokens;
    while (w->n_unended > 0 && w->unended[w->n_unended - 1] >= w->sequences - 1)
        w->n_unended--; /* its document ends at the cut */
    SN_TRY(sn_data_file_truncate(&w->bin, w->tokens * w->type->size, err));
    SN_TRY(sn_data_file_truncate(&w->idx, SN_IDX_HEADER_BYTES + 4 * w->sequences, err));
    uint32_t le = htole32((uint32_t)cut->inside);
    if (cut->inside > 0)
        SN_TRY(sn_data_file_write_at(&w->idx, &le, sizeof(le), w->idx.written - 4, err));
    return SN_OK;
}

static enum sn_status split_mask(struct sn_data_writer *tail, struct sn_data_writer *w,
                                 const char *prefix, const struct cut *cut, struct sn_err *err)
{
    SN_TRY(sn_data_mask_writer_create(&tail->mask, prefix, err));
    SN_TRY(
        sn_data_mask_writer_copy(tail->mask, w->mask, cut->tokens, w->tokens - cut->tokens, err));
    return sn_data_mask_writer_truncate(w->mask, cut->tokens, err);
}

enum sn_status sn_data_writer_split(struct sn_data_writer *w, double fraction, const char *prefix,
                                    struct sn_data_writer **out, struct sn_err *err)
{
    assert(!w->sealed && sn_data_writer_open_tokens(w) == 0);
    struct cut cut;
    struct sn_data_writer *tail = NULL;
    SN_TRY(sn_data_file_flush(&w->bin, err));
    SN_TRY(sn_data_file_flush(&w->idx, err));
    SN_TRY(find_cut(w, fraction, &cut, err));
    SN_TRY(sn_data_writer_create(&tail, prefix, w->type->code, err));
    enum sn_status st = copy_tail(tail, w, &cut, err);
    if (st == SN_OK && w->mask)
        st = split_mask(tail, w, prefix, &cut, err);
    if (st == SN_OK)
        st = keep_head(w, &cut, err);
    if (st != SN_OK) {
        sn_data_writer_destroy(tail);
        return st;
    }
    *out = tail;
    return SN_OK;
}
