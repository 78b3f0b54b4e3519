/*
 * place.c - live ranges, sharing of memory, offsets.
 *
 * 1. A buffer lives from the first to the last operation that touches it.
 * 2. One touched by both the forward and the backward chunk is kept per slot (SN_CLASS_SLOT).
 * 3. Where an operation allows it, its output takes the place of an input that dies there.
 * 4. Slot buffers all live across the boundary of forward and backward, so they are laid end to
 *    end. Temporaries are packed: largest first, each at the lowest offset that is free during its
 *    whole life.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <stdlib.h>

static void touch(struct sn_program *p, int buf, int op)
{
    if (buf < 0)
        return;
    struct sn_buffer *b = &p->bufs[buf];
    b->first = b->first < 0 ? op : b->first;
    b->last = op;
}

static void live_ranges(struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        for (int k = 0; k < SN_MAX_IN; k++)
            touch(p, p->ops[i].in[k].buf, i);
        for (int k = 0; k < SN_MAX_OUT; k++)
            touch(p, p->ops[i].out[k].buf, i);
    }
}

static int chunk_of(const struct sn_program *p, int op)
{
    int c = 0;
    while (c + 1 < p->n_chunks && op >= p->chunks[c + 1].first)
        c++;
    return c;
}

static void keep_across_chunks(struct sn_program *p)
{
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        struct sn_buffer *x = &p->bufs[b];
        if (x->first >= 0 && chunk_of(p, x->first) != chunk_of(p, x->last))
            x->cls = SN_CLASS_SLOT;
    }
}

static bool whole(const struct sn_program *p, struct sn_view v)
{
    const struct sn_buffer *b = &p->bufs[v.buf];
    return v.offset == 0 && v.rows == b->rows && v.cols == b->cols && v.index == SN_AT_FIXED;
}

/* May the buffer of output 0 of operation i live where input k lives? */
static bool can_take(const struct sn_program *p, int i, int k)
{
    const struct sn_op *op = &p->ops[i];
    struct sn_view in = op->in[k], out = op->out[0];
    if (in.buf < p->n_state_bufs || out.buf < p->n_state_bufs || !whole(p, in) || !whole(p, out))
        return false;
    const struct sn_buffer *a = &p->bufs[p->bufs[in.buf].place], *b = &p->bufs[out.buf];
    if (a->last != i || b->first != i || b->place != out.buf || a->bytes != b->bytes ||
        a->dtype != b->dtype)
        return false;
    for (int other = 0; other < SN_MAX_IN; other++) /* no second reader of the same memory */
        if (other != k && op->in[other].buf >= 0 &&
            p->bufs[op->in[other].buf].place == p->bufs[in.buf].place)
            return false;
    return true;
}

static void share_places(struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        const struct sn_op *op = &p->ops[i];
        for (int choice = 0; choice < 2; choice++) {
            int k = sn_op_may_take(op->kind, 0, choice);
            if (k < 0 || op->out[0].buf < 0 || op->in[k].buf < 0 || !can_take(p, i, k))
                continue;
            struct sn_buffer *b = &p->bufs[op->out[0].buf];
            struct sn_buffer *root = &p->bufs[p->bufs[op->in[k].buf].place];
            b->place = root->place;
            root->last = b->last;
            if (b->cls == SN_CLASS_SLOT || root->cls == SN_CLASS_SLOT)
                b->cls = root->cls = SN_CLASS_SLOT;
            break;
        }
    }
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) /* members of a shared place agree */
        p->bufs[b].cls = p->bufs[p->bufs[b].place].cls;
}

/* --- packing ------------------------------------------------------------------------------ */

struct item {
    int64_t bytes, offset;
    int first, last, buf;
};

/* Orders in which to place. None is best for every program, each costs microseconds to
 * milliseconds, so all are tried until one meets the lower bound. */
static int by_buffer(const struct item *x, const struct item *y)
{
    return x->buf - y->buf;
}

static int largest_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return by_buffer(x, y);
}

static int longest_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int i = x->last - x->first, k = y->last - y->first;
    return i != k ? k - i : largest_first(a, b);
}

static int most_area_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    double i = (double)x->bytes * (x->last - x->first + 1);
    double k = (double)y->bytes * (y->last - y->first + 1);
    return i > k ? -1 : i < k ? 1 : by_buffer(x, y);
}

static int earliest_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : largest_first(a, b);
}

static int latest_first(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    return x->last != y->last ? y->last - x->last : largest_first(a, b);
}

/* Put items[n] at the lowest free offset among items[0..n-1], which are kept sorted by offset in
 * order[]. */
static void place_one(struct item *items, int *order, int n)
{
    struct item *x = &items[n];
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct item *y = &items[order[i]];
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

/* Largest sum of bytes live at one operation. */
static int64_t lower_bound(const struct item *items, int n, int n_ops, int64_t *delta)
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

static int64_t pack(struct item *items, int *order, int n)
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
static void promote_highest(struct item *items, int n, int64_t top)
{
    int k = 0;
    while (k < n - 1 && items[k].offset + items[k].bytes != top)
        k++;
    struct item x = items[k];
    for (; k > 0; k--)
        items[k] = items[k - 1];
    items[0] = x;
}

/* Pack, keep the offsets if they are the best so far; true when no packing can be better. */
static bool attempt(struct sn_program *p, struct item *items, int *order, int n, int64_t *top)
{
    *top = pack(items, order, n);
    if (*top < p->temp_bytes) {
        p->temp_bytes = *top;
        for (int i = 0; i < n; i++)
            p->bufs[items[i].buf].offset = items[i].offset;
    }
    return p->temp_bytes == p->temp_lower_bound;
}

static void pack_best(struct sn_program *p, struct item *items, int *order, int n)
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

static enum sn_status place_temporaries(struct sn_program *p, struct sn_err *err)
{
    struct item *items = sn_alloc_n((size_t)p->n_bufs, sizeof(*items));
    int *order = sn_alloc_n((size_t)p->n_bufs, sizeof(*order));
    int64_t *delta = sn_alloc_n((size_t)p->n_ops + 2, sizeof(*delta));
    enum sn_status st = SN_OK;
    if (!items || !order || !delta) {
        st = sn_fail(err, SN_ENOMEM, "compile: no memory to place %d buffers", p->n_bufs);
    } else {
        int n = 0;
        for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
            const struct sn_buffer *x = &p->bufs[b];
            if (x->cls == SN_CLASS_TEMP && x->place == b && x->first >= 0)
                items[n++] = (struct item){x->bytes, 0, x->first, x->last, b};
        }
        p->temp_lower_bound = lower_bound(items, n, p->n_ops, delta);
        pack_best(p, items, order, n);
    }
    sn_free(items);
    sn_free(order);
    sn_free(delta);
    return st;
}

static void place_slots(struct sn_program *p)
{
    int64_t at = 0;
    for (int b = p->n_state_bufs; b < p->n_bufs; b++) {
        struct sn_buffer *x = &p->bufs[b];
        if (x->cls == SN_CLASS_SLOT && x->place == b) {
            x->offset = at;
            at += x->bytes;
        }
    }
    p->slot_bytes = at;
}

static void place_workspace(struct sn_job *j, struct sn_program *p)
{
    for (int i = 0; i < p->n_ops; i++) {
        if (p->ops[i].kind >= SN_NKERNELS)
            continue;
        struct sn_args a;
        sn_op_shapes(p, &p->ops[i], &a);
        int64_t need = (int64_t)j->ops->scratch((enum sn_op_kind)p->ops[i].kind, &a, j->threads);
        need = (need + 63) / 64 * 64;
        p->workspace_bytes = need > p->workspace_bytes ? need : p->workspace_bytes;
    }
}

enum sn_status sn_pass_place(struct sn_job *j, struct sn_program *p, struct sn_err *err)
{
    live_ranges(p);
    keep_across_chunks(p);
    share_places(p);
    place_slots(p);
    SN_TRY(place_temporaries(p, err));
    for (int b = p->n_state_bufs; b < p->n_bufs; b++)
        p->bufs[b].offset = p->bufs[p->bufs[b].place].offset;
    place_workspace(j, p);
    return SN_OK;
}
