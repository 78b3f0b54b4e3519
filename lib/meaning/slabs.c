/*
 * slabs.c - rectangles of buffers: cut, forgotten, put, added.
 */
#include "lib/meaning/slabs.h"

#include "lib/base/mem.h"
#include "lib/meaning/field.h"

void sn_slabs_fini(struct sn_slabs *l)
{
    sn_free(l->t);
    *l = (struct sn_slabs){0};
}

void sn_slabs_push(struct sn_slabs *l, const struct sn_slab *t)
{
    struct sn_slab copy = *t; /* t may lie in the list */
    if (!sn_grow((void **)&l->t, l->n, &l->cap, sizeof(*l->t))) {
        l->failed = true;
        return;
    }
    l->t[l->n++] = copy;
}

/* --- rectangles of a slab --------------------------------------------------------------------- */

/* Rows i .. i + n - 1 of a slab, columns j .. j + m - 1. */
struct rect {
    int64_t i, j, n, m;
};

static struct sn_slab part(const struct sn_slab *t, struct rect r)
{
    struct sn_slab p = *t;
    p.at += r.i * t->ld + r.j;
    p.rows = r.n;
    p.cols = r.m;
    if (r.n == 1)
        p.ld = r.m;
    p.first[SN_SLAB_ROWS] += r.i;
    p.first[SN_SLAB_COLS] += r.j;
    return p;
}

static int64_t push_part(struct sn_slabs *out, const struct sn_slab *t, struct rect r)
{
    if (r.n <= 0 || r.m <= 0)
        return 0;
    struct sn_slab p = part(t, r);
    sn_slabs_push(out, &p);
    return r.n * r.m;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Of row i, what lies in the elements x .. y - 1. */
static struct rect in_row(const struct sn_slab *t, int64_t i, int64_t x, int64_t y)
{
    int64_t begin = t->at + i * t->ld, low = x > begin ? x - begin : 0,
            high = y - begin < t->cols ? y - begin : t->cols;
    return (struct rect){i, low, 1, high - low};
}

/* What lies in the elements x .. y - 1 of the buffer: part of a row, whole rows, part of a row. */
static int64_t cut_flat(struct sn_slabs *out, const struct sn_slab *t, int64_t x, int64_t y)
{
    int64_t first = floor_div(x - t->at - t->cols, t->ld) + 1,
            last = floor_div(y - 1 - t->at, t->ld);
    first = first < 0 ? 0 : first;
    last = last >= t->rows ? t->rows - 1 : last;
    if (first > last)
        return 0;
    struct rect head = in_row(t, first, x, y), tail = in_row(t, last, x, y);
    if (first == last)
        return push_part(out, t, head);
    int64_t n = 0;
    if (head.m < t->cols) {
        n += push_part(out, t, head);
        first++;
    }
    if (tail.m < t->cols)
        last--;
    n += push_part(out, t, (struct rect){first, 0, last - first + 1, t->cols});
    if (tail.m < t->cols)
        n += push_part(out, t, tail);
    return n;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Both with rows ld apart: rows of the area are `down` rows below those of the slab, and begin
 * `right` elements behind. */
static int64_t cut_grid(struct sn_slabs *out, const struct sn_slab *t, const struct sn_area *a,
                        int64_t down, int64_t right)
{
    struct rect r = {.i = larger(down, 0), .j = larger(right, 0)};
    r.n = smaller(down + a->rows, t->rows) - r.i;
    r.m = smaller(right + a->cols, t->cols) - r.j;
    return push_part(out, t, r);
}

int64_t sn_slab_cut(struct sn_slabs *out, const struct sn_slab *t, const struct sn_area *a)
{
    int64_t end = a->at + (a->rows - 1) * a->ld + a->cols, n = 0;
    if (t->at >= end || t->at + (t->rows - 1) * t->ld + t->cols <= a->at)
        return 0;
    if (sn_area_is_dense(a))
        return cut_flat(out, t, a->at, end);
    if (t->rows > 1 && t->ld == a->ld) {
        int64_t down = floor_div(a->at - t->at, a->ld), right = a->at - t->at - down * a->ld;
        n = cut_grid(out, t, a, down, right);
        return n + cut_grid(out, t, a, down + 1, right - a->ld);
    }
    int64_t first = larger(floor_div(t->at - a->at - a->cols, a->ld), 0);
    int64_t slab_end = t->at + (t->rows - 1) * t->ld + t->cols;
    for (int64_t r = first; r < a->rows && a->at + r * a->ld < slab_end; r++)
        n += cut_flat(out, t, a->at + r * a->ld, a->at + r * a->ld + a->cols);
    return n;
}

/* --- lists ------------------------------------------------------------------------------------ */

static void drop(struct sn_slabs *l, int i)
{
    l->t[i] = l->t[--l->n];
}

/* What is left of a slab without a part of it. */
static void push_rest(struct sn_slabs *out, const struct sn_slab *t, const struct sn_slab *without)
{
    int64_t i = without->first[SN_SLAB_ROWS] - t->first[SN_SLAB_ROWS],
            j = without->first[SN_SLAB_COLS] - t->first[SN_SLAB_COLS];
    int64_t below = i + without->rows, right = j + without->cols;
    (void)push_part(out, t, (struct rect){0, 0, i, t->cols});
    (void)push_part(out, t, (struct rect){below, 0, t->rows - below, t->cols});
    (void)push_part(out, t, (struct rect){i, 0, without->rows, j});
    (void)push_part(out, t, (struct rect){i, right, without->rows, t->cols - right});
}

void sn_slabs_clear(struct sn_slabs *l, const struct sn_area *a)
{
    struct sn_slabs cut = {0};
    for (int i = 0; i < l->n && !cut.failed && !l->failed;) {
        cut.n = 0;
        if (sn_slab_cut(&cut, &l->t[i], a) == 0) {
            i++;
            continue;
        }
        struct sn_slab t = l->t[i];
        drop(l, i);
        push_rest(l, &t, &cut.t[0]); /* other parts are found in what is left */
    }
    l->failed |= cut.failed;
    sn_slabs_fini(&cut);
}

static bool same_content(const struct sn_spaces *s, const struct sn_slab *a,
                         const struct sn_slab *b)
{
    return a->value == b->value && a->route == b->route &&
           sn_space(s, a->space[0]) == sn_space(s, b->space[0]) &&
           sn_space(s, a->space[1]) == sn_space(s, b->space[1]);
}

/* Is b the columns right of a, or the rows below it, as their coordinates and places tell? What is
 * rarely so is asked first. */
static bool is_right_of(const struct sn_slab *a, const struct sn_slab *b, bool any)
{
    return b->at == a->at + a->cols && a->rows == b->rows &&
           (any || (b->first[SN_SLAB_COLS] == a->first[SN_SLAB_COLS] + a->cols &&
                    b->first[SN_SLAB_ROWS] == a->first[SN_SLAB_ROWS])) &&
           (a->rows == 1 || (a->ld == b->ld && a->cols + b->cols <= a->ld));
}

static bool is_below(const struct sn_slab *a, const struct sn_slab *b, bool any, int64_t *ld)
{
    if (a->cols != b->cols ||
        (!any && (b->first[SN_SLAB_ROWS] != a->first[SN_SLAB_ROWS] + a->rows ||
                  b->first[SN_SLAB_COLS] != a->first[SN_SLAB_COLS])))
        return false;
    *ld = a->rows > 1 ? a->ld : b->rows > 1 ? b->ld : b->at - a->at;
    return *ld >= a->cols && b->at == a->at + a->rows * *ld && (b->rows == 1 || b->ld == *ld);
}

/* If b is, and of the same tensor, a becomes both. */
static bool join(const struct sn_spaces *s, struct sn_slab *a, const struct sn_slab *b)
{
    bool any = a->space[SN_SLAB_ROWS] == SN_SPACE_ANY;
    int64_t ld = 0;
    bool right = is_right_of(a, b, any);
    if (!right && !is_below(a, b, any, &ld))
        return false;
    if (!same_content(s, a, b))
        return false;
    if (right) {
        a->cols += b->cols;
        a->ld = a->rows == 1 ? a->cols : a->ld;
    } else {
        a->rows += b->rows;
        a->ld = ld;
    }
    return true;
}

/* Make the last slab one with its neighbours, as long as it has some. */
static void settle(struct sn_slabs *l, const struct sn_spaces *s)
{
    for (int i = 0; i < l->n - 1 && !l->failed;) {
        struct sn_slab *last = &l->t[l->n - 1];
        if (join(s, &l->t[i], last)) {
            struct sn_slab both = l->t[i];
            l->n--;
            drop(l, i);
            sn_slabs_push(l, &both);
            i = 0;
        } else if (join(s, last, &l->t[i])) {
            struct sn_slab both = *last;
            l->n--;
            drop(l, i);
            sn_slabs_push(l, &both);
            i = 0;
        } else {
            i++;
        }
    }
}

static void place(struct sn_slabs *l, const struct sn_spaces *s, const struct sn_slab *t)
{
    sn_slabs_push(l, t);
    settle(l, s);
}

void sn_slabs_put(struct sn_slabs *l, const struct sn_spaces *s, const struct sn_slab *t)
{
    struct sn_slab copy = *t;
    struct sn_area a = sn_slab_area(&copy);
    sn_slabs_clear(l, &a);
    place(l, s, &copy);
}

/* --- sums ------------------------------------------------------------------------------------- */

/* A part of each that lie in the same place: false if there is none, or their rows lie across. */
static bool meet(const struct sn_slab *a, const struct sn_slab *b, struct sn_slab *in_a,
                 struct sn_slab *in_b, struct sn_slabs *cut)
{
    *in_a = *a;
    *in_b = *b;
    for (int turn = 0; turn < 4; turn++) {
        struct sn_area area = sn_slab_area(in_b);
        cut->n = 0;
        if (sn_slab_cut(cut, in_a, &area) == 0)
            return false;
        *in_a = cut->t[0];
        area = sn_slab_area(in_a);
        cut->n = 0;
        if (sn_slab_cut(cut, in_b, &area) == 0)
            return false;
        *in_b = cut->t[0];
        if (in_a->at == in_b->at && in_a->rows == in_b->rows && in_a->cols == in_b->cols)
            return true;
    }
    return false;
}

static bool same_place(const struct sn_spaces *s, const struct sn_slab *a, const struct sn_slab *b)
{
    for (int d = 0; d < SN_SLAB_DIMS; d++)
        if (sn_space(s, a->space[d]) != sn_space(s, b->space[d]) || a->first[d] != b->first[d])
            return false;
    return true;
}

/* Add one part to slab i, which is replaced. */
static enum sn_slabs_sum add_part(struct sn_slabs *l, const struct sn_spaces *s, int i,
                                  const struct sn_slab *there, const struct sn_slab *q)
{
    struct sn_slab whole = l->t[i], sum = *there;
    if (there->space[0] == SN_SPACE_ANY)
        sum = *q;
    else if (q->space[0] != SN_SPACE_ANY && !same_place(s, there, q))
        return SN_SUM_OTHER;
    sum.value = sn_field_add(there->value, q->value);
    drop(l, i);
    push_rest(l, &whole, there);
    place(l, s, &sum);
    return SN_SUM_GOOD;
}

enum sn_slabs_sum sn_slabs_add(struct sn_slabs *l, const struct sn_spaces *s,
                               const struct sn_slab *t, bool fill, struct sn_slab *there)
{
    struct sn_slabs due = {0}, cut = {0};
    enum sn_slabs_sum st = SN_SUM_GOOD;
    sn_slabs_push(&due, t);
    while (due.n > 0 && st == SN_SUM_GOOD && !due.failed && !cut.failed && !l->failed) {
        struct sn_slab q = due.t[--due.n], in_q;
        bool met = false;
        for (int i = 0; i < l->n && !met; i++) {
            met = meet(&l->t[i], &q, there, &in_q, &cut);
            if (!met)
                continue;
            push_rest(&due, &q, &in_q);
            st = add_part(l, s, i, there, &in_q);
        }
        if (!met && fill)
            place(l, s, &q);
        else if (!met)
            st = SN_SUM_NOTHING_THERE;
    }
    l->failed |= due.failed | cut.failed;
    sn_slabs_fini(&due);
    sn_slabs_fini(&cut);
    return st;
}
