/*
 * tile.c - boxes of repeated tensors, each out of at most four boxes of the tensor that is
 * repeated.
 *
 * Of a box that is higher or wider than one copy, only the first copy's worth of rows and columns
 * is read, straight into its place: the lower end of one copy and the upper end of the next, as the
 * box happens to lie. The rest repeats what is there already. So nothing is read twice for a box,
 * and no memory is needed but the caller's.
 */
#include "checkpoint/convert/tile.h"

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4 };

struct entry {
    struct sn_source_tensor tensor;
    struct sn_tensor_tile tile;
    uint64_t key; /* of its noise, or of its values: */
    bool is_new;
    float std;
};

struct sn_tiled {
    struct sn_source inner; /* a view of it until sn_tiled_finish, then ours */
    int64_t n, most;
    struct entry *entries;            /* sorted by sn_tiled_finish */
    struct sn_source_tensor *tensors; /* the same as the source shows them */
    char *model_text;
    const struct sn_source_want *wants; /* the caller's */
    int64_t n_wants, at;
    struct sn_source_want *parts; /* of all wants, what the inner source was told */
};

/* --- cutting ---------------------------------------------------------------------------------- */

/* A part of a box: where it is read from, and where in the box it goes. */
struct part {
    struct sn_box from;
    int64_t row, col;
};

/* from, from + 1, ... n places on a line that repeats after `size`, at most one copy's worth: the
 * one or two stretches of the copy that they are. */
static int stretches(int64_t start[2], int64_t length[2], int64_t from, int64_t n, int64_t size)
{
    n = n < size ? n : size;
    start[0] = from % size;
    length[0] = n < size - start[0] ? n : size - start[0];
    start[1] = 0;
    length[1] = n - length[0];
    return length[1] > 0 ? 2 : 1;
}

/* What must be read for a box; returns how many parts. */
static int cut(struct part out[PARTS], const struct sn_source_tensor *small, struct sn_box box)
{
    int64_t row[2], rows[2], col[2], cols[2];
    int n = 0;
    if (sn_box_size(box) == 0)
        return 0;
    int down = stretches(row, rows, box.row, box.rows, small->rows);
    int across = stretches(col, cols, box.col, box.cols, small->cols);
    for (int r = 0; r < down; r++)
        for (int c = 0; c < across; c++)
            out[n++] =
                (struct part){{row[r], col[c], rows[r], cols[c]}, r ? rows[0] : 0, c ? cols[0] : 0};
    return n;
}

static const struct sn_source_tensor *small_of(const struct sn_tiled *t, int tensor)
{
    return &t->inner.tensors[t->entries[tensor].tile.from];
}

/* --- reading ---------------------------------------------------------------------------------- */

static enum sn_status begin(void *self, const struct sn_source_want *wants, int64_t n,
                            int64_t memory, struct sn_err *err)
{
    struct sn_tiled *t = self;
    struct part part[PARTS];
    int64_t n_parts = 0;
    struct sn_source_want *parts = sn_alloc_n((size_t)n * PARTS + 1, sizeof(*parts));
    t->n_wants = t->at = 0;
    if (!parts)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %" PRId64 " boxes", t->inner.name, n);
    for (int64_t i = 0; i < n; i++) {
        if (t->entries[wants[i].tensor].is_new)
            continue;
        int k = cut(part, small_of(t, wants[i].tensor), wants[i].box);
        for (int p = 0; p < k; p++)
            parts[n_parts++] =
                (struct sn_source_want){t->entries[wants[i].tensor].tile.from, part[p].from};
    }
    enum sn_status st = t->inner.begin(t->inner.self, parts, n_parts, memory, err);
    sn_free(t->parts); /* the inner source has let go of it */
    t->parts = parts;
    t->wants = wants;
    t->n_wants = st == SN_OK ? n : 0;
    return st;
}

static void divide(float *p, int64_t rows, int64_t cols, int64_t ld, float by)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            p[r * ld + c] /= by;
}

/* The first n floats of p, again and again behind them until there are `all`. */
static void repeat(float *p, int64_t n, int64_t all)
{
    for (int64_t k; n < all; n += k) {
        k = all - n < n ? all - n : n;
        memcpy(p + n, p, (size_t)k * sizeof(*p));
    }
}

/* The columns c .. c + n - 1 of a copy that has a partner, in one row of the result; p is where
 * column c is. A coin for each element of the pair says which of the two copies gets more. */
static void disturb(float *p, const struct entry *e, int64_t row, int64_t copy, int64_t c,
                    int64_t n)
{
    /* 1 + x is rounded; 1 - x then is exact, and so is their sum. */
    float more = 1 + e->tile.noise, less = 1 - (more - 1);
    float factor[2] = {copy % 2 ? less : more, copy % 2 ? more : less};
    int64_t words = (e->tensor.cols / e->tile.cols + 63) / 64; /* of 64 coins */
    int64_t first = (row * (e->tile.cols / 2) + copy / 2) * words;
    for (int64_t k; n > 0; p += k, c += k, n -= k) {
        uint64_t coins = sn_rng_bits(e->key, (uint64_t)(first + c / 64)) >> c % 64;
        k = 64 - c % 64 < n ? 64 - c % 64 : n;
        for (int64_t i = 0; i < k; i++)
            p[i] *= factor[coins >> i & 1];
    }
}

static void add_noise(float *out, int64_t ld, const struct entry *e, struct sn_box box)
{
    int64_t cols = e->tensor.cols / e->tile.cols, paired = e->tile.cols / 2 * 2 * cols;
    int64_t end = box.col + box.cols < paired ? box.col + box.cols : paired;
    for (int64_t r = 0; r < box.rows; r++)
        for (int64_t c = box.col, n; c < end; c += n) {
            n = cols - c % cols < end - c ? cols - c % cols : end - c;
            disturb(out + r * ld + c - box.col, e, box.row + r, c / cols, c % cols, n);
        }
}

static void draw(float *out, int64_t ld, const struct entry *e, struct sn_box box)
{
    for (int64_t r = 0; r < box.rows; r++) {
        uint64_t first = (uint64_t)((box.row + r) * e->tensor.cols + box.col);
        if (e->std > 0)
            sn_rng_normal(e->key, first, (size_t)box.cols, e->std, out + r * ld);
        else
            memset(out + r * ld, 0, (size_t)box.cols * sizeof(*out));
    }
}

static enum sn_status next(void *self, float *out, int64_t ld, struct sn_err *err)
{
    struct sn_tiled *t = self;
    struct part part[PARTS];
    if (t->at == t->n_wants)
        return sn_fail(err, SN_EFAIL, "%s: a box was asked for that was not announced",
                       t->inner.name);
    const struct sn_source_want *w = &t->wants[t->at++];
    const struct entry *e = &t->entries[w->tensor];
    if (e->is_new) {
        draw(out, ld, e, w->box);
        return SN_OK;
    }
    const struct sn_source_tensor *small = small_of(t, w->tensor);
    int n = cut(part, small, w->box);
    for (int i = 0; i < n; i++)
        SN_TRY(t->inner.next(t->inner.self, out + part[i].row * ld + part[i].col, ld, err));
    if (n == 0)
        return SN_OK;
    int64_t rows = w->box.rows < small->rows ? w->box.rows : small->rows;
    int64_t cols = w->box.cols < small->cols ? w->box.cols : small->cols;
    if (e->tile.divisor != 1)
        divide(out, rows, cols, ld, e->tile.divisor);
    for (int64_t r = 0; r < rows; r++)
        repeat(out + r * ld, cols, w->box.cols);
    for (int64_t r = rows; r < w->box.rows; r++)
        memcpy(out + r * ld, out + (r - rows) * ld, (size_t)w->box.cols * sizeof(*out));
    if (e->tile.noise != 0)
        add_noise(out, ld, e, w->box);
    return SN_OK;
}

/* --- making ----------------------------------------------------------------------------------- */

enum sn_status sn_tiled_create(struct sn_tiled **out, const struct sn_source *inner, int64_t most,
                               struct sn_err *err)
{
    if (most > INT_MAX)
        return sn_fail(err, SN_EINPUT, "%s: would have %" PRId64 " tensors; want at most %d",
                       inner->name, most, INT_MAX);
    struct sn_tiled *t = sn_alloc(sizeof(*t));
    if (t) {
        t->inner = *inner;
        t->most = most;
        t->entries = sn_alloc_n((size_t)most + 1, sizeof(*t->entries));
        t->tensors = sn_alloc_n((size_t)most + 1, sizeof(*t->tensors));
    }
    if (!t || !t->entries || !t->tensors) {
        sn_tiled_destroy(t);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %" PRId64 " tensors", inner->name,
                       most);
    }
    *out = t;
    return SN_OK;
}

void sn_tiled_destroy(struct sn_tiled *t)
{
    if (!t)
        return;
    for (int64_t i = 0; i < t->n; i++)
        sn_free((char *)t->entries[i].tensor.name);
    sn_free(t->entries);
    sn_free(t->tensors);
    sn_free(t->model_text);
    sn_free(t->parts);
    sn_free(t);
}

enum sn_status sn_tiled_add(struct sn_tiled *t, const char *name, struct sn_tensor_tile tile,
                            struct sn_err *err)
{
    struct sn_source_tensor x = t->inner.tensors[tile.from];
    int64_t size;
    if (t->n == t->most)
        return sn_fail(err, SN_EFAIL, "%s: more than %" PRId64 " tensors", t->inner.name, t->most);
    if (__builtin_mul_overflow(x.rows, (int64_t)tile.rows, &x.rows) ||
        __builtin_mul_overflow(x.cols, (int64_t)tile.cols, &x.cols) ||
        __builtin_mul_overflow(x.rows, x.cols, &size) || size > INT64_MAX / 8)
        return sn_fail(err, SN_EINPUT, "%s: %s would have more elements than can be counted",
                       t->inner.name, name);
    x.name = sn_strdup(name);
    if (!x.name)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", t->inner.name);
    t->entries[t->n++] = (struct entry){.tensor = x, .tile = tile, .key = sn_rng_key(0, name)};
    return SN_OK;
}

enum sn_status sn_tiled_add_as(struct sn_tiled *t, const struct sn_source_tensor *as,
                               struct sn_tensor_tile tile, struct sn_err *err)
{
    SN_TRY(sn_tiled_add(t, as->name, tile, err));
    struct sn_source_tensor *x = &t->entries[t->n - 1].tensor;
    x->group = as->group;
    x->dtype = as->dtype;
    return SN_OK;
}

enum sn_status sn_tiled_add_new(struct sn_tiled *t, const char *name, int like, struct sn_box size,
                                float std, struct sn_err *err)
{
    struct sn_tensor_tile one = {.from = like, .rows = 1, .cols = 1, .divisor = 1};
    SN_TRY(sn_tiled_add(t, name, one, err));
    struct entry *e = &t->entries[t->n - 1];
    e->tensor.rows = size.rows;
    e->tensor.cols = size.cols;
    e->is_new = true;
    e->std = std;
    return SN_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct sn_source_tensor *x = &((const struct entry *)a)->tensor;
    const struct sn_source_tensor *y = &((const struct entry *)b)->tensor;
    return sn_manifest_order(x->group, x->name, y->group, y->name);
}

static void close_both(void *self)
{
    struct sn_tiled *t = self;
    struct sn_source inner = t->inner; /* it may still read what it was told */
    sn_source_close(&inner);
    sn_tiled_destroy(t);
}

enum sn_status sn_tiled_finish(struct sn_source *out, struct sn_tiled *t, struct sn_source *inner,
                               const struct sn_config *c, const char *what, struct sn_err *err)
{
    char id[96];
    SN_TRY(sn_model_text_format(&t->model_text, c, inner->name, err));
    qsort(t->entries, (size_t)t->n, sizeof(*t->entries), by_name);
    for (int64_t i = 0; i < t->n; i++) {
        t->tensors[i] = t->entries[i].tensor;
        if (i > 0 && by_name(&t->entries[i - 1], &t->entries[i]) == 0)
            return sn_fail(err, SN_EINPUT, "%s: %s: two tensors would be named '%s'", inner->name,
                           what, t->tensors[i].name);
    }
    int len = snprintf(id, sizeof(id), "%016" PRIx64 " %.64s", inner->identity, what);
    *out = *inner; /* name, scalars, least */
    out->self = t;
    out->n_tensors = (int)t->n;
    out->tensors = t->tensors;
    out->model_text = t->model_text;
    out->identity = sn_hash64(id, (size_t)len);
    out->begin = begin;
    out->next = next;
    out->close = close_both;
    *inner = (struct sn_source){0};
    return SN_OK;
}
