/*
 * parquet_values.c - Parquet's encodings (https://parquet.apache.org/docs/file-format/data-pages/encodings).
 */
#include "lib/texts/parquet_inner.h"

#include <endian.h>

static uint32_t u32_at(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static uint64_t u64_at(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

/* Number k of those of `width` bits that begin at p, the lowest bit first; all its bytes are there. */
static uint64_t bits_at(const unsigned char *p, int64_t k, int width)
{
    uint64_t v = 0;
    int64_t at = k * width;
    for (int have = 0; have < width;) {
        int from = (int)((at + have) & 7), n = 8 - from < width - have ? 8 - from : width - have;
        uint64_t part = (uint64_t)p[(at + have) >> 3] >> from & ((1u << n) - 1);
        v |= part << have;
        have += n;
    }
    return v;
}

/* One run, of at most n numbers; how many of them there are, 0: it is damaged. */
static int one_run(const unsigned char **p, const unsigned char *end, int width, int n,
                   uint32_t *out)
{
    uint64_t head, count;
    size_t bytes = (size_t)(width + 7) / 8;
    if (!sn_varint(p, end, &head) || head >> 1 == 0)
        return 0;
    bool is_packed = head & 1;
    uint64_t room = (uint64_t)(end - *p);
    count = head >> 1;
    if (is_packed) {
        if (count > UINT32_MAX || count * (uint64_t)width > room)
            return 0;
        int64_t took = count * 8 < (uint64_t)n ? (int64_t)count * 8 : n;
        for (int64_t k = 0; k < took; k++)
            out[k] = (uint32_t)bits_at(*p, k, width);
        *p += count * (uint64_t)width;
        return (int)took;
    }
    if (bytes > room)
        return 0;
    uint32_t v = width ? (uint32_t)bits_at(*p, 0, width) : 0;
    int took = count < (uint64_t)n ? (int)count : n;
    for (int k = 0; k < took; k++)
        out[k] = v;
    *p += bytes;
    return took;
}

const unsigned char *sn_pq_runs(const unsigned char *p, const unsigned char *end, int width, int n,
                                uint32_t *out)
{
    if (width > 32)
        return NULL;
    for (int done = 0, got; done < n; done += got) {
        got = one_run(&p, end, width, n - done, out + done);
        if (got == 0)
            return NULL;
    }
    return p;
}

static bool plain_texts(const unsigned char *p, const unsigned char *end, int n,
                        struct sn_pq_value *out)
{
    for (int i = 0; i < n; i++) {
        if (end - p < 4 || u32_at(p) > (uint64_t)(end - p - 4))
            return false;
        out[i] = (struct sn_pq_value){.text = (const char *)p + 4, .len = u32_at(p)};
        p += 4 + out[i].len;
    }
    return true;
}

bool sn_pq_plain(enum sn_pq_type type, const unsigned char *p, const unsigned char *end, int n,
                 struct sn_pq_value *out)
{
    if (type == SN_PQ_BYTES)
        return plain_texts(p, end, n, out);
    int64_t size = type == SN_PQ_INT32 || type == SN_PQ_FLOAT ? 4 : 8;
    int64_t bytes = type == SN_PQ_BOOLEAN ? (n + 7) / 8 : n * size;
    if (bytes > end - p)
        return false;
    for (int i = 0; i < n; i++) {
        uint32_t low = type == SN_PQ_INT32 || type == SN_PQ_FLOAT ? u32_at(p + 4 * (int64_t)i) : 0;
        float f;
        memcpy(&f, &low, sizeof(f));
        out[i] = (struct sn_pq_value){0};
        if (type == SN_PQ_BOOLEAN)
            out[i].integer = p[i >> 3] >> (i & 7) & 1;
        else if (type == SN_PQ_INT32)
            out[i].integer = (int32_t)low;
        else if (type == SN_PQ_FLOAT)
            out[i].real = (double)f;
        else
            out[i].integer = (int64_t)u64_at(p + 8 * (int64_t)i); /* or the bits of a double */
    }
    return true;
}

/* --- deltas ----------------------------------------------------------------------------------- */

struct deltas {
    const unsigned char *p, *end;
    uint64_t per_block, blocks_of, total; /* values of a block, miniblocks of it; all values */
    uint64_t last;
    bool is_narrow; /* sums wrap at 32 bits */
};

static bool deltas_begin(struct deltas *d, const unsigned char *p, const unsigned char *end, int n)
{
    int64_t first;
    *d = (struct deltas){.p = p, .end = end};
    if (!sn_varint(&d->p, end, &d->per_block) || !sn_varint(&d->p, end, &d->blocks_of) ||
        !sn_varint(&d->p, end, &d->total) || !sn_zigzag(&d->p, end, &first))
        return false;
    d->last = (uint64_t)first;
    return d->total == (uint64_t)n && d->per_block > 0 && d->per_block <= 1 << 20 &&
           d->blocks_of > 0 && d->blocks_of <= d->per_block && d->per_block % d->blocks_of == 0;
}

/* Values from `from` on of a block, until its end or n. */
static bool one_block(struct deltas *d, int *from, int n, struct sn_pq_value *out)
{
    int64_t least, each = (int64_t)(d->per_block / d->blocks_of);
    if (!sn_zigzag(&d->p, d->end, &least) || (uint64_t)(d->end - d->p) < d->blocks_of)
        return false;
    const unsigned char *width = d->p;
    d->p += d->blocks_of;
    for (uint64_t m = 0; m < d->blocks_of && *from < n; m++) {
        int64_t bytes = (each * width[m] + 7) / 8;
        if (width[m] > 64 || bytes > d->end - d->p)
            return false;
        for (int64_t k = 0; k < each && *from < n; k++) {
            d->last += (uint64_t)least + bits_at(d->p, k, width[m]);
            out[(*from)++] =
                (struct sn_pq_value){.integer = d->is_narrow ? (int32_t)d->last : (int64_t)d->last};
        }
        d->p += bytes;
    }
    return true;
}

/* n values; d->p is where they end. */
static bool deltas_read(struct deltas *d, const unsigned char *p, const unsigned char *end,
                        bool is_narrow, int n, struct sn_pq_value *out)
{
    if (!deltas_begin(d, p, end, n))
        return false;
    d->is_narrow = is_narrow;
    int done = n > 0;
    if (n > 0)
        out[0] = (struct sn_pq_value){.integer = (int64_t)d->last};
    while (done < n) {
        if (!one_block(d, &done, n, out))
            return false;
    }
    return true;
}

bool sn_pq_delta_integers(enum sn_pq_type type, const unsigned char *p, const unsigned char *end,
                          int n, struct sn_pq_value *out)
{
    struct deltas d;
    return deltas_read(&d, p, end, type == SN_PQ_INT32, n, out);
}

bool sn_pq_delta_lengths(const unsigned char *p, const unsigned char *end, int n,
                         struct sn_pq_value *out)
{
    struct deltas d;
    if (!deltas_read(&d, p, end, true, n, out))
        return false;
    for (int i = 0; i < n; i++) {
        if (out[i].integer < 0 || out[i].integer > d.end - d.p)
            return false;
        out[i] = (struct sn_pq_value){.text = (const char *)d.p, .len = (size_t)out[i].integer};
        d.p += out[i].len;
    }
    return true;
}

bool sn_pq_delta_texts(const unsigned char *p, const unsigned char *end, int n,
                       struct sn_pq_value *out, uint32_t *length, struct sn_bytes *built,
                       bool *no_memory)
{
    struct deltas d;
    uint64_t all = 0, before = 0;
    if (!deltas_read(&d, p, end, true, n, out))
        return false;
    for (int i = 0; i < n; i++) {
        if (out[i].integer < 0 || out[i].integer > SN_PQ_PAGE_MAX)
            return false;
        length[i] = (uint32_t)out[i].integer;
    }
    if (!sn_pq_delta_lengths(d.p, end, n, out))
        return false;
    for (int i = 0; i < n; i++) {
        if (length[i] > before)
            return false;
        before = length[i] + out[i].len;
        all += before;
        if (all > SN_PQ_PAGE_MAX)
            return false;
    }
    built->len = 0;
    *no_memory = !sn_bytes_room(built, (size_t)all + 1);
    for (int i = 0; i < n && !*no_memory; i++) {
        char *to = built->p + built->len;
        if (length[i] > 0)
            memcpy(to, out[i - 1].text, length[i]);
        memcpy(to + length[i], out[i].text, out[i].len);
        built->len += length[i] + out[i].len;
        out[i] = (struct sn_pq_value){.text = to, .len = length[i] + out[i].len};
    }
    return !*no_memory;
}
