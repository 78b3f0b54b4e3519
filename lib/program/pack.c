/*
 * pack.c - offsets for temporaries: as little memory as their live ranges allow.
 *
 * Largest first, each at the lowest offset that is free during its whole life; other orders are
 * tried where that misses the lower bound. Of a long program an item meets few others: those that
 * live in the same blocks of operations.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <stdlib.h>

/* Orders in which to place. None is best for every program, each costs microseconds to
 * milliseconds, so all are tried until one meets the lower bound. */
static int by_buffer(const struct sn_pack_item *x, const struct sn_pack_item *y)
{
    return x->buf - y->buf;
}

static int largest_first(const void *a, const void *b)
{
    const struct sn_pack_item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return by_buffer(x, y);
}

static int longest_first(const void *a, const void *b)
{
    const struct sn_pack_item *x = a, *y = b;
    int i = x->last - x->first, k = y->last - y->first;
    return i != k ? k - i : largest_first(a, b);
}

static int most_area_first(const void *a, const void *b)
{
    const struct sn_pack_item *x = a, *y = b;
    double i = (double)x->bytes * (x->last - x->first + 1);
    double k = (double)y->bytes * (y->last - y->first + 1);
    return i > k ? -1 : i < k ? 1 : by_buffer(x, y);
}

static int earliest_first(const void *a, const void *b)
{
    const struct sn_pack_item *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : largest_first(a, b);
}

static int latest_first(const void *a, const void *b)
{
    const struct sn_pack_item *x = a, *y = b;
    return x->last != y->last ? y->last - x->last : largest_first(a, b);
}

enum { BLOCK = 16 }; /* operations */

/* Of each block of operations the items placed so far that live in it, sorted by offset. */
struct packer {
    struct sn_pack_item *items;
    int n, n_blocks;
    int64_t
        *first; /* [n_blocks + 1]: of a block in `member`, which has room for all of its items */
    int *count; /* [n_blocks] */
    int *member;
};

/* The offset at or above `at` at which x meets nothing in block b. */
static int64_t rise(const struct packer *k, int b, const struct sn_pack_item *x, int64_t at)
{
    const int *member = k->member + k->first[b];
    for (int i = 0; i < k->count[b]; i++) {
        const struct sn_pack_item *y = &k->items[member[i]];
        if (y->last < x->first || y->first > x->last)
            continue;
        if (y->offset >= at + x->bytes)
            break; /* the hole before y is large enough */
        if (y->offset + y->bytes > at)
            at = y->offset + y->bytes;
    }
    return at;
}

/* Put items[n] at the lowest offset that is free among items[0..n-1]. */
static void place_one(struct packer *k, int n)
{
    struct sn_pack_item *x = &k->items[n];
    int from = x->first / BLOCK, to = x->last / BLOCK;
    int64_t at = 0, before;
    do {
        before = at;
        for (int b = from; b <= to; b++)
            at = rise(k, b, x, at);
    } while (at > before && to > from);
    x->offset = at;
    for (int b = from; b <= to; b++) {
        int *member = k->member + k->first[b], i = k->count[b]++;
        for (; i > 0 && k->items[member[i - 1]].offset > at; i--)
            member[i] = member[i - 1];
        member[i] = n;
    }
}

/* Room for the members of every block, whatever the order. */
static bool packer_init(struct packer *k, struct sn_pack_item *items, int n, int n_ops)
{
    *k = (struct packer){.items = items, .n = n, .n_blocks = n_ops / BLOCK + 1};
    k->first = sn_alloc_n((size_t)k->n_blocks + 1, sizeof(*k->first));
    k->count = sn_alloc_n((size_t)k->n_blocks, sizeof(*k->count));
    if (!k->first || !k->count)
        return false;
    for (int i = 0; i < n; i++)
        for (int b = items[i].first / BLOCK; b <= items[i].last / BLOCK; b++)
            k->first[b + 1]++;
    for (int b = 0; b < k->n_blocks; b++)
        k->first[b + 1] += k->first[b];
    k->member = sn_alloc_n((size_t)k->first[k->n_blocks] + 1, sizeof(*k->member));
    return k->member != NULL;
}

static void packer_fini(struct packer *k)
{
    sn_free(k->first);
    sn_free(k->count);
    sn_free(k->member);
}

int64_t sn_pack_bound(const struct sn_pack_item *items, int n, int n_ops, int64_t *delta)
{
    for (int i = 0; i <= n_ops; i++)
        delta[i] = 0;
    for (int i = 0; i < n; i++) {
        delta[items[i].first] += items[i].bytes;
        delta[items[i].last + 1] -= items[i].bytes;
    }
    int64_t live = 0, most = 0;
    for (int i = 0; i <= n_ops; i++) {
        live += delta[i];
        most = live > most ? live : most;
    }
    return most;
}

/* *high is the item that ends highest, at *top. False as soon as that is no better than `best`. */
static bool pack(struct packer *k, int64_t best, int *high, int64_t *top)
{
    *top = 0;
    for (int b = 0; b < k->n_blocks; b++)
        k->count[b] = 0;
    for (int i = 0; i < k->n; i++) {
        place_one(k, i);
        int64_t end = k->items[i].offset + k->items[i].bytes;
        if (end > *top) {
            *top = end;
            *high = i;
        }
        if (end >= best)
            return false;
    }
    return true;
}

/* Move item k to the front, so that it is placed first next time. */
static void promote(struct sn_pack_item *items, int k)
{
    struct sn_pack_item x = items[k];
    for (; k > 0; k--)
        items[k] = items[k - 1];
    items[0] = x;
}

/* Pack, keep the offsets if they are the best so far; true when no packing can be better. */
static bool attempt(struct sn_program *p, struct packer *k, int *high)
{
    int64_t top;
    if (pack(k, p->temp_bytes, high, &top)) {
        p->temp_bytes = top;
        for (int i = 0; i < k->n; i++)
            p->bufs[k->items[i].buf].offset = k->items[i].offset;
    }
    return p->temp_bytes == p->temp_lower_bound;
}

static void try_orders(struct sn_program *p, struct packer *k)
{
    enum { PROMOTIONS = 40 };
    static int (*const orders[])(const void *, const void *) = {
        largest_first, most_area_first, longest_first, earliest_first, latest_first};
    p->temp_bytes = INT64_MAX;
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        qsort(k->items, (size_t)k->n, sizeof(*k->items), orders[o]);
        for (int i = 0; i <= PROMOTIONS; i++) {
            int high = 0;
            if (attempt(p, k, &high))
                return;
            promote(k->items, high);
        }
    }
}

bool sn_pack(struct sn_program *p, struct sn_pack_item *items, int n)
{
    struct packer k;
    bool good = packer_init(&k, items, n, p->n_ops);
    if (good)
        try_orders(p, &k);
    packer_fini(&k);
    return good;
}
