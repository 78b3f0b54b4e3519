/*
 * pack.c - offsets for temporaries: as little memory as their live ranges allow.
 *
 * Largest first, each at the lowest offset that is free during its whole life; other orders are
 * tried where that misses the lower bound. Of a long program an item meets few others; where an order
 * differs from the one before by an item that went to the front, only those are placed anew that it, or
 * one that it moved, meets.
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

struct taken {
    int64_t begin, end;
};
struct packer {
    struct sn_pack_item *items;
    struct sn_pack_item *sorted; /* [n], `offset`: which of items it is */
    int n;
    int64_t *first;      /* [n + 1]: of an item in `meets` */
    int *meets;          /* items that live when it does */
    int *order;          /* [n] items, as they are placed, */
    int *turn;           /* [n] and of an item: who has less is placed before */
    struct taken *taken; /* [n] room */
    bool *
        stale; /* [n] not placed yet, or what is placed before it and lives when it does was moved */
};

/* The lowest offset at which x meets none of those that are placed before. */
static int64_t lowest(const struct packer *k, int x)
{
    int64_t at = 0, before, bytes = k->items[x].bytes;
    int n = 0;
    for (int64_t i = k->first[x]; i < k->first[x + 1]; i++) {
        const struct sn_pack_item *y = &k->items[k->meets[i]];
        k->taken[n] = (struct taken){y->offset, y->offset + y->bytes};
        n += k->turn[k->meets[i]] < k->turn[x];
    }
    do {
        before = at;
        for (int i = 0; i < n; i++)
            if (k->taken[i].begin < at + bytes && k->taken[i].end > at)
                at = k->taken[i].end;
    } while (at > before);
    return at;
}

static void move_those_behind(struct packer *k, int x)
{
    for (int64_t i = k->first[x]; i < k->first[x + 1]; i++)
        if (k->turn[k->meets[i]] > k->turn[x])
            k->stale[k->meets[i]] = true;
}

static void place_one(struct packer *k, int x)
{
    if (!k->stale[x])
        return;
    k->stale[x] = false;
    int64_t at = lowest(k, x);
    if (at != k->items[x].offset)
        move_those_behind(k, x);
    k->items[x].offset = at;
}

/* Who meets whom: of items by their first operation those behind one, until it has ended. */
static bool find_meetings(struct packer *k)
{
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int a = 0; a < k->n; a++)
            for (int b = a + 1; b < k->n && k->sorted[b].first <= k->sorted[a].last; b++) {
                int x = (int)k->sorted[a].offset, y = (int)k->sorted[b].offset;
                if (pass == 1) {
                    k->meets[k->first[x]++] = y;
                    k->meets[k->first[y]++] = x;
                } else {
                    k->order[x]++;
                    k->order[y]++;
                }
            }
        for (int x = 0; x < k->n && pass == 0; x++) {
            k->first[x] = n;
            n += k->order[x];
        }
        if (pass == 0 && !(k->meets = sn_alloc_n((size_t)n + 1, sizeof(*k->meets))))
            return false;
    }
    for (int x = k->n; x > 0; x--)
        k->first[x] = k->first[x - 1];
    k->first[0] = 0;
    return true;
}

static bool packer_init(struct packer *k, struct sn_pack_item *items, int n)
{
    size_t room = (size_t)n + 1;
    *k = (struct packer){.items = items, .n = n};
    k->sorted = sn_alloc_n(room, sizeof(*k->sorted));
    k->first = sn_alloc_n(room, sizeof(*k->first));
    k->order = sn_alloc_n(room, sizeof(*k->order));
    k->turn = sn_alloc_n(room, sizeof(*k->turn));
    k->taken = sn_alloc_n(room, sizeof(*k->taken));
    k->stale = sn_alloc_n(room, sizeof(*k->stale));
    if (!k->sorted || !k->first || !k->order || !k->turn || !k->taken || !k->stale)
        return false;
    for (int i = 0; i < n; i++) {
        k->sorted[i] = items[i];
        k->sorted[i].offset = i;
    }
    qsort(k->sorted, (size_t)n, sizeof(*k->sorted), earliest_first);
    return find_meetings(k);
}

static void packer_fini(struct packer *k)
{
    sn_free(k->sorted);
    sn_free(k->first);
    sn_free(k->meets);
    sn_free(k->order);
    sn_free(k->turn);
    sn_free(k->taken);
    sn_free(k->stale);
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

/* *high is the place in the order of the item that ends highest, at *top. False as soon as that is no better
 * than `best`. */
static bool pack(struct packer *k, int64_t best, int *high, int64_t *top)
{
    *top = 0;
    for (int i = 0; i < k->n; i++) {
        const struct sn_pack_item *x = &k->items[k->order[i]];
        place_one(k, k->order[i]);
        int64_t end = x->offset + x->bytes;
        if (end > *top) {
            *top = end;
            *high = i;
        }
        if (end >= best)
            return false;
    }
    return true;
}

/* Move the item at place `at` of the order to the front, so that it is placed first next time. */
static void promote(struct packer *k, int at)
{
    int x = k->order[at];
    k->turn[x] = k->turn[k->order[0]] - 1;
    k->stale[x] = true;
    move_those_behind(k, x);
    for (; at > 0; at--)
        k->order[at] = k->order[at - 1];
    k->order[0] = x;
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

static void put_in_order(struct packer *k, int (*order)(const void *, const void *))
{
    qsort(k->sorted, (size_t)k->n, sizeof(*k->sorted), order);
    for (int i = 0; i < k->n; i++) {
        int x = (int)k->sorted[i].offset;
        k->order[i] = x;
        k->turn[x] = i;
        k->stale[x] = true;
    }
}

static void try_orders(struct sn_program *p, struct packer *k)
{
    enum { PROMOTIONS = 40 };
    static int (*const orders[])(const void *, const void *) = {
        largest_first, most_area_first, longest_first, earliest_first, latest_first};
    p->temp_bytes = INT64_MAX;
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        put_in_order(k, orders[o]);
        for (int i = 0; i <= PROMOTIONS; i++) {
            int high = 0;
            if (attempt(p, k, &high))
                return;
            promote(k, high);
        }
    }
}

bool sn_pack(struct sn_program *p, struct sn_pack_item *items, int n)
{
    struct packer k;
    bool good = packer_init(&k, items, n);
    if (good)
        try_orders(p, &k);
    packer_fini(&k);
    return good;
}
