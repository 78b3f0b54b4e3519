/*
 * pack.c - offsets for temporaries: as little memory as their live ranges allow.
 *
 * Largest first, each at the lowest offset that is free during its whole life; other orders are
 * tried where that misses the lower bound.
 */
#include "lib/program/build.h"

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

/* Put items[n] at the lowest free offset among items[0..n-1], which are kept sorted by offset in
 * order[]. */
static void place_one(struct sn_pack_item *items, int *order, int n)
{
    struct sn_pack_item *x = &items[n];
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct sn_pack_item *y = &items[order[i]];
        if (y->last < x->first || y->first > x->last)
            continue;
        if (y->offset >= at + x->bytes)
            break; /* the hole before y is large enough */
        if (y->offset + y->bytes > at)
            at = y->offset + y->bytes;
    }
    x->offset = at;
    int i = n;
    for (; i > 0 && items[order[i - 1]].offset > at; i--)
        order[i] = order[i - 1];
    order[i] = n;
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

static int64_t pack(struct sn_pack_item *items, int *order, int n)
{
    int64_t top = 0;
    for (int i = 0; i < n; i++) {
        place_one(items, order, i);
        int64_t end = items[i].offset + items[i].bytes;
        top = end > top ? end : top;
    }
    return top;
}

/* Move the item that ends at the top to the front, so that it is placed first next time. */
static void promote_highest(struct sn_pack_item *items, int n, int64_t top)
{
    int k = 0;
    while (k < n - 1 && items[k].offset + items[k].bytes != top)
        k++;
    struct sn_pack_item x = items[k];
    for (; k > 0; k--)
        items[k] = items[k - 1];
    items[0] = x;
}

/* Pack, keep the offsets if they are the best so far; true when no packing can be better. */
static bool attempt(struct sn_program *p, struct sn_pack_item *items, int *order, int n,
                    int64_t *top)
{
    *top = pack(items, order, n);
    if (*top < p->temp_bytes) {
        p->temp_bytes = *top;
        for (int i = 0; i < n; i++)
            p->bufs[items[i].buf].offset = items[i].offset;
    }
    return p->temp_bytes == p->temp_lower_bound;
}

void sn_pack(struct sn_program *p, struct sn_pack_item *items, int *order, int n)
{
    enum { PROMOTIONS = 40 };
    static int (*const orders[])(const void *, const void *) = {
        largest_first, most_area_first, longest_first, earliest_first, latest_first};
    p->temp_bytes = INT64_MAX;
    for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]); k++) {
        qsort(items, (size_t)n, sizeof(*items), orders[k]);
        for (int i = 0; i <= PROMOTIONS; i++) {
            int64_t top;
            if (attempt(p, items, order, n, &top))
                return;
            promote_highest(items, n, top);
        }
    }
}
