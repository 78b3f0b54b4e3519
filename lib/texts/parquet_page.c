/*
 * parquet_page.c - the pages of a column, each whole into levels and values.
 */
#include "lib/texts/parquet_inner.h"

#include "lib/base/mem.h"
#include "lib/data/data_format.h"
#include "lib/texts/unpack.h"

enum { DATA = 0, INDEX, DICTIONARY, DATA_2, HEAD = 1 << 12 };
enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE,
    DELTAS = 5,
    DELTA_LENGTHS,
    DELTA_TEXTS,
    BY_DICTIONARY
};
enum { UNPACKED = 0, SNAPPY, GZIP, ZSTD = 6 };

struct page {
    int64_t type, unpacked, bytes; /* bytes: as they lie in the file */
    int64_t entries, encoding;
    int64_t def_bytes, rep_bytes; /* of DATA_2, which are not packed */
    bool is_packed;
};

enum sn_status sn_pq_no_memory(const char *name, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", name);
}

enum sn_status sn_pq_column_fail(const struct sn_pq_column *c, const char *what, struct sn_err *err)
{
    int n = c->node->name_len < 64 ? (int)c->node->name_len : 64;
    return sn_fail(err, SN_EINPUT, "%s: column '%.*s', page before byte %lld: %s", c->file, n,
                   c->node->name, (long long)c->at, what);
}

static enum sn_status damaged(const struct sn_pq_column *c, struct sn_err *err)
{
    return sn_pq_column_fail(c, "is damaged; copy the file anew", err);
}

/* --- its header ------------------------------------------------------------------------------- */

static void parse_data(struct sn_thrift *t, struct page *page)
{
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        if (f.id == 1)
            page->entries = sn_thrift_int(t, f.type);
        else if (f.id == 2)
            page->encoding = sn_thrift_int(t, f.type);
        else
            sn_thrift_skip(t, f.type);
    }
}

static void parse_data_2(struct sn_thrift *t, struct page *page)
{
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        int64_t *to = f.id == 1   ? &page->entries
                      : f.id == 4 ? &page->encoding
                      : f.id == 5 ? &page->def_bytes
                      : f.id == 6 ? &page->rep_bytes
                                  : NULL;
        if (to)
            *to = sn_thrift_int(t, f.type);
        else if (f.id == 7)
            page->is_packed = sn_thrift_int(t, f.type) != 0;
        else
            sn_thrift_skip(t, f.type);
    }
}

static void parse(struct sn_thrift *t, struct page *page)
{
    *page = (struct page){.type = -1, .unpacked = -1, .bytes = -1, .entries = -1, .encoding = -1};
    page->is_packed = true;
    for (struct sn_thrift_field f = {0}; sn_thrift_next(t, &f);) {
        int64_t *to = f.id == 1   ? &page->type
                      : f.id == 2 ? &page->unpacked
                      : f.id == 3 ? &page->bytes
                                  : NULL;
        if (to)
            *to = sn_thrift_int(t, f.type);
        else if ((f.id == 5 || f.id == 7) && f.type == SN_THRIFT_STRUCT)
            parse_data(t, page);
        else if (f.id == 8 && f.type == SN_THRIFT_STRUCT)
            parse_data_2(t, page);
        else
            sn_thrift_skip(t, f.type);
    }
}

static enum sn_status read_at(struct sn_pq_column *c, struct sn_bytes *to, int64_t n,
                              struct sn_err *err)
{
    to->len = 0;
    if (!sn_bytes_room(to, (size_t)n + 1))
        return sn_pq_no_memory(c->file, err);
    SN_TRY(sn_data_bytes(c->fd, c->file, (unsigned char *)to->p, (size_t)n, c->at, err));
    to->len = (size_t)n;
    return SN_OK;
}

/* Its length is not said; texts among its statistics may make it long. c->at moves behind it. */
static enum sn_status read_header(struct sn_pq_column *c, struct page *page, struct sn_err *err)
{
    for (int64_t n = HEAD;; n *= 8) {
        int64_t all = c->end - c->at, take = n < all ? n : all;
        SN_TRY(read_at(c, &c->head, take, err));
        const unsigned char *p = (const unsigned char *)c->head.p;
        struct sn_thrift t = {.p = p, .end = p + take};
        parse(&t, page);
        if (!t.is_bad) {
            c->at += t.p - p;
            break;
        }
        if (take == all || take > SN_PQ_PAGE_MAX)
            return damaged(c, err);
    }
    bool good = page->bytes >= 0 && page->bytes <= c->end - c->at && page->unpacked >= 0;
    if (page->type == DATA || page->type == DICTIONARY || page->type == DATA_2)
        good = good && page->entries >= 0;
    if (page->type == DATA_2)
        good = good && page->def_bytes >= 0 && page->rep_bytes >= 0 &&
               page->def_bytes + page->rep_bytes <= page->bytes &&
               page->def_bytes + page->rep_bytes <= page->unpacked;
    if (!good)
        return damaged(c, err);
    return page->unpacked <= SN_PQ_PAGE_MAX && page->bytes <= SN_PQ_PAGE_MAX &&
                   page->entries <= SN_PQ_ENTRIES_MAX
               ? SN_OK
               : sn_pq_column_fail(c,
                                   "has more than 256 MiB or 8388608 values, which is not read; "
                                   "write smaller pages",
                                   err);
}

/* --- its bytes -------------------------------------------------------------------------------- */

/* Exactly `len` bytes from a packed stream. */
static bool stream(struct sn_unpacker *u, const char *in, size_t n, char *out, size_t len,
                   bool *no_memory)
{
    size_t done = 0;
    while (done < len) {
        size_t took = n, gave = len - done;
        enum sn_unpacked what = u->step(u->state, in, &took, out + done, &gave);
        in += took;
        n -= took;
        done += gave;
        *no_memory = what == SN_UNPACK_NO_MEMORY;
        if (what == SN_UNPACK_NO_MEMORY || what == SN_UNPACK_DAMAGED || (took == 0 && gave == 0))
            return false;
    }
    return true;
}

static enum sn_status unpack(const struct sn_pq_column *c, const char *in, size_t n, char *out,
                             size_t len, struct sn_err *err)
{
    struct sn_unpacker u = {0};
    bool good = false, no_memory = false;
    if (c->codec == SNAPPY) {
        SN_TRY(sn_snappy_unpack(in, n, out, len, &good, c->file, err));
        return good ? SN_OK : damaged(c, err);
    }
    if (c->codec != GZIP && c->codec != ZSTD)
        return sn_pq_column_fail(c,
                                 "is packed with a codec that is not read; write it with "
                                 "snappy, gzip or zstd",
                                 err);
    SN_TRY(c->codec == GZIP ? sn_gzip_open(&u, c->file, err) : sn_zstd_open(&u, c->file, err));
    good = stream(&u, in, n, out, len, &no_memory);
    u.destroy(u.state);
    if (no_memory)
        return sn_pq_no_memory(c->file, err);
    return good ? SN_OK : damaged(c, err);
}

/* The page's bytes, unpacked, into *to; c->at moves behind it. */
static enum sn_status read_page(struct sn_pq_column *c, const struct page *page,
                                struct sn_bytes *to, struct sn_err *err)
{
    bool is_packed = c->codec != UNPACKED && page->is_packed;
    int64_t plain = page->type == DATA_2 ? page->def_bytes + page->rep_bytes : 0;
    SN_TRY(read_at(c, is_packed ? &c->packed : to, page->bytes, err));
    c->at += page->bytes;
    if (!is_packed)
        return page->bytes == page->unpacked ? SN_OK : damaged(c, err);
    to->len = 0;
    if (!sn_bytes_room(to, (size_t)page->unpacked + 1))
        return sn_pq_no_memory(c->file, err);
    memcpy(to->p, c->packed.p, (size_t)plain);
    to->len = (size_t)page->unpacked;
    if (page->unpacked == plain)
        return SN_OK;
    return unpack(c, c->packed.p + plain, (size_t)(page->bytes - plain), to->p + plain,
                  (size_t)(page->unpacked - plain), err);
}

/* --- levels and values ------------------------------------------------------------------------ */

static bool has_room(struct sn_pq_column *c, int n)
{
    if (n <= c->room)
        return true;
    sn_free(c->value);
    sn_free(c->def);
    sn_free(c->rep);
    sn_free(c->index);
    c->room = 0;
    c->value = sn_alloc_n((size_t)n, sizeof(*c->value));
    c->def = sn_alloc_n((size_t)n, sizeof(*c->def));
    c->rep = sn_alloc_n((size_t)n, sizeof(*c->rep));
    c->index = sn_alloc_n((size_t)n, sizeof(*c->index));
    if (!c->value || !c->def || !c->rep || !c->index)
        return false;
    c->room = n;
    return true;
}

static int bits_of(unsigned most)
{
    int bits = 0;
    for (; most; most >>= 1)
        bits++;
    return bits;
}

/* Levels at *p, after their length (-1: it stands before them). */
static bool read_levels(struct sn_pq_column *c, const unsigned char **p, const unsigned char *end,
                        int64_t bytes, unsigned most, uint32_t *out)
{
    for (int i = 0; most == 0 && i < c->n; i++)
        out[i] = 0;
    if (bytes < 0 && most > 0) {
        if (end - *p < 4)
            return false;
        bytes = (uint32_t)sn_le_i32(*p);
        *p += 4;
    }
    bytes = bytes < 0 ? 0 : bytes;
    if (bytes > end - *p)
        return false;
    bool good = most == 0 || sn_pq_runs(*p, *p + bytes, bits_of(most), c->n, out);
    for (int i = 0; i < c->n && good; i++)
        good = out[i] <= most;
    *p += bytes;
    return good;
}

static bool by_dictionary(struct sn_pq_column *c, const unsigned char *p, const unsigned char *end,
                          int n)
{
    if (n == 0)
        return true;
    if (p == end || !sn_pq_runs(p + 1, end, *p, n, c->index))
        return false;
    for (int i = 0; i < n; i++) {
        if (c->index[i] >= (uint32_t)c->dictionary_n)
            return false;
        c->value[i] = c->dictionary[c->index[i]];
    }
    return true;
}

/* Truth values in runs, after their length. */
static bool truth_runs(struct sn_pq_column *c, const unsigned char *p, const unsigned char *end,
                       int n)
{
    if (end - p < 4 || !sn_pq_runs(p + 4, end, 1, n, c->index))
        return n == 0;
    for (int i = 0; i < n; i++)
        c->value[i] = (struct sn_pq_value){.integer = c->index[i]};
    return true;
}

static enum sn_status read_values(struct sn_pq_column *c, int64_t encoding, const unsigned char *p,
                                  const unsigned char *end, int n, struct sn_err *err)
{
    enum sn_pq_type type = c->node->type;
    bool no_memory = false, good;
    bool is_int = type == SN_PQ_INT32 || type == SN_PQ_INT64;
    if (encoding == PLAIN)
        good = sn_pq_plain(type, p, end, n, c->value);
    else if (encoding == PLAIN_DICTIONARY || encoding == BY_DICTIONARY)
        good = by_dictionary(c, p, end, n);
    else if (encoding == RLE && type == SN_PQ_BOOLEAN)
        good = truth_runs(c, p, end, n);
    else if (encoding == DELTAS && is_int)
        good = sn_pq_delta_integers(type, p, end, n, c->value);
    else if (encoding == DELTA_LENGTHS && type == SN_PQ_BYTES)
        good = sn_pq_delta_lengths(p, end, n, c->value);
    else if (encoding == DELTA_TEXTS && type == SN_PQ_BYTES)
        good = sn_pq_delta_texts(p, end, n, c->value, c->index, &c->built, &no_memory);
    else
        return sn_pq_column_fail(c,
                                 "has an encoding that is not read; write it with plain, "
                                 "dictionary or delta pages",
                                 err);
    if (no_memory)
        return sn_pq_no_memory(c->file, err);
    return good ? SN_OK : damaged(c, err);
}

static enum sn_status read_data(struct sn_pq_column *c, const struct page *page, struct sn_err *err)
{
    bool is_new = page->type == DATA_2;
    SN_TRY(read_page(c, page, &c->page, err));
    c->n = (int)page->entries;
    c->i = c->v = 0;
    if (!has_room(c, c->n))
        return sn_pq_no_memory(c->file, err);
    const unsigned char *p = (const unsigned char *)c->page.p, *end = p + c->page.len;
    const struct sn_pq_node *node = c->node;
    if (c->n > c->left ||
        !read_levels(c, &p, end, is_new ? page->rep_bytes : -1, node->max_rep, c->rep) ||
        !read_levels(c, &p, end, is_new ? page->def_bytes : -1, node->max_def, c->def))
        return damaged(c, err);
    c->left -= c->n;
    int there = 0;
    for (int i = 0; i < c->n; i++)
        there += c->def[i] == node->max_def;
    return read_values(c, page->encoding, p, end, there, err);
}

static enum sn_status read_dictionary(struct sn_pq_column *c, const struct page *page,
                                      struct sn_err *err)
{
    SN_TRY(read_page(c, page, &c->dictionary_bytes, err));
    int n = (int)page->entries;
    const unsigned char *p = (const unsigned char *)c->dictionary_bytes.p;
    if (n > c->dictionary_room) {
        sn_free(c->dictionary);
        c->dictionary_room = 0;
        c->dictionary = sn_alloc_n((size_t)n, sizeof(*c->dictionary));
        if (!c->dictionary)
            return sn_pq_no_memory(c->file, err);
        c->dictionary_room = n;
    }
    c->dictionary_n = n;
    if (page->encoding != PLAIN && page->encoding != PLAIN_DICTIONARY)
        return damaged(c, err);
    return sn_pq_plain(c->node->type, p, p + c->dictionary_bytes.len, n, c->dictionary)
               ? SN_OK
               : damaged(c, err);
}

void sn_pq_column_begin(struct sn_pq_column *c, const struct sn_pq_chunk *chunk)
{
    c->at = chunk->at;
    c->end = chunk->at + chunk->bytes;
    c->left = chunk->values;
    c->codec = chunk->codec;
    c->n = c->i = c->v = c->dictionary_n = 0;
}

enum sn_status sn_pq_column_look(struct sn_pq_column *c, bool *any, struct sn_err *err)
{
    struct page page;
    while (c->i == c->n && c->left > 0) {
        if (c->at >= c->end)
            return damaged(c, err);
        SN_TRY(read_header(c, &page, err));
        if (page.type == DATA || page.type == DATA_2)
            SN_TRY(read_data(c, &page, err));
        else if (page.type == DICTIONARY)
            SN_TRY(read_dictionary(c, &page, err));
        else
            c->at += page.bytes; /* an index */
    }
    *any = c->i < c->n;
    return SN_OK;
}

void sn_pq_column_fini(struct sn_pq_column *c)
{
    struct sn_bytes *bytes[] = {&c->head, &c->packed, &c->page, &c->dictionary_bytes, &c->built};
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
        sn_bytes_fini(bytes[i]);
    sn_free(c->dictionary);
    sn_free(c->value);
    sn_free(c->def);
    sn_free(c->rep);
    sn_free(c->index);
}
