/*
 * match_pieces.c - which results of one rank give which parts of what the ranks of another layout
 * gave.
 */
#include "lib/replay/match_inner.h"

#include <stdlib.h>

enum sn_status sn_match_no_memory(struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM, "--replay: no memory for what two layouts have in common");
}

int sn_match_compare_at(const struct sn_match_at *a, const struct sn_match_at *b)
{
    if (a->entry != b->entry)
        return a->entry < b->entry ? -1 : 1;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return (a->out > b->out) - (a->out < b->out);
}

/* --- following -------------------------------------------------------------------------------- */

static bool push_piece(struct sn_match_pieces *l, const struct sn_match_piece *p)
{
    if (!sn_grow((void **)&l->t, l->n, &l->cap, sizeof(*l->t)))
        return false;
    l->t[l->n++] = *p;
    return true;
}

/* Zeros are of any tensor, and nothing has to be made for them. */
static bool is_zero(const struct sn_slab *t)
{
    return t->value == 0;
}

/* Of weights that all heads share: its place is in no tensor by which it could be found. */
static bool is_placeless(const struct sn_slab *t)
{
    return !is_zero(t) && (t->space[0] == SN_SPACE_ANY || t->space[1] == SN_SPACE_ANY);
}

/* Can it be told apart, and is it all of the operand? */
static bool is_followed(const struct sn_slabs *parts, int64_t elements)
{
    int64_t n = 0;
    for (int i = 0; i < parts->n; i++) {
        if (parts->t[i].route != 0 || is_placeless(&parts->t[i]))
            return false;
        n += parts->t[i].rows * parts->t[i].cols;
    }
    return n == elements;
}

/* An update takes a gradient by its sign, nearly, at first: where it is rounding alone, weights are
 * as far off as they can be. Moments are not. */
static bool is_updated_weight(const struct sn_job *j, int buf)
{
    const struct sn_buffer *b = &j->train.bufs[buf];
    if (b->cls == SN_CLASS_PARAM)
        return true;
    if (b->cls != SN_CLASS_OPTIM || b->bucket < 0)
        return false;
    for (int k = 0; k < sn_optimizer_row(j->config->train.optimizer.kind)->n_moments; k++)
        if (j->buckets[b->bucket].moment[k] == buf)
            return false;
    return true;
}

static void follow_theirs(struct sn_match *m, const struct sn_meaning_result *r)
{
    const struct sn_program *p = &m->jobs[r->rank]->train;
    const struct sn_view *v = &p->ops[r->op].out[r->out];
    enum sn_dtype type = p->bufs[v->buf].dtype;
    struct sn_match_piece x = {.cols = v->cols, .target = m->n_targets};
    struct sn_match_target t = {.at = {r->entry, r->op, r->out}, .rank = r->rank};
    t.is_whole = type != SN_I32 && type != SN_U8 && !is_updated_weight(m->jobs[r->rank], v->buf) &&
                 is_followed(r->parts, v->rows * v->cols);
    if (!sn_grow((void **)&m->targets, m->n_targets, &m->cap_targets, sizeof(*m->targets))) {
        m->failed = true;
        return;
    }
    m->targets[m->n_targets++] = t;
    for (int i = 0; i < r->parts->n && t.is_whole; i++) {
        x.slab = r->parts->t[i];
        m->failed |= !is_zero(&x.slab) && !push_piece(&m->theirs, &x);
    }
}

static void follow_own(struct sn_match *m, const struct sn_meaning_result *r)
{
    const struct sn_program *p = &m->mine->train;
    const struct sn_view *v = &p->ops[r->op].out[r->out];
    struct sn_match_piece x = {
        .cols = v->cols, .target = m->own.n, .at = {r->entry, r->op, r->out}};
    if (p->bufs[v->buf].dtype == SN_U8) /* streams: their elements are not where their values are */
        return;
    for (int i = 0; i < r->parts->n; i++) {
        x.slab = r->parts->t[i];
        if (!is_zero(&x.slab) && !is_placeless(&x.slab) && x.slab.route == 0)
            m->failed |= !push_piece(&m->own, &x);
    }
}

void sn_match_follow(void *match, const struct sn_meaning_result *r)
{
    struct sn_match *m = match;
    if (r->world == 0)
        follow_theirs(m, r);
    else
        follow_own(m, r);
}

/* --- what is made of what --------------------------------------------------------------------- */

static int compare_tensor(const struct sn_slab *a, const struct sn_slab *b)
{
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    for (int d = 0; d < SN_SLAB_DIMS; d++)
        if (a->space[d] != b->space[d])
            return a->space[d] < b->space[d] ? -1 : 1;
    return 0;
}

static int by_tensor(const void *a, const void *b)
{
    const struct sn_match_piece *x = a, *y = b;
    int c = compare_tensor(&x->slab, &y->slab);
    return c ? c : (x->target > y->target) - (x->target < y->target);
}

static int by_at(const void *a, const void *b)
{
    return sn_match_compare_at(&((const struct sn_match_item *)a)->at,
                               &((const struct sn_match_item *)b)->at);
}

/* Coordinates that are still to be made. */
struct rect {
    int64_t row, col, rows, cols;
};
enum { RECTS_MOST = 256 };
struct rects {
    struct rect t[RECTS_MOST];
    int n;
    bool overflows;
};

static void push_rect(struct rects *l, struct rect r)
{
    if (r.rows <= 0 || r.cols <= 0)
        return;
    if (l->n == RECTS_MOST)
        l->overflows = true;
    else
        l->t[l->n++] = r;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct rect meet(const struct rect *a, const struct rect *b)
{
    struct rect r = {larger(a->row, b->row), larger(a->col, b->col), 0, 0};
    r.rows = smaller(a->row + a->rows, b->row + b->rows) - r.row;
    r.cols = smaller(a->col + a->cols, b->col + b->cols) - r.col;
    return r;
}

static struct rect rect_of(const struct sn_slab *t)
{
    return (struct rect){t->first[0], t->first[1], t->rows, t->cols};
}

/* What is left of a without b, which lies in it. */
static void push_rest(struct rects *l, const struct rect *a, const struct rect *b)
{
    push_rect(l, (struct rect){a->row, a->col, b->row - a->row, a->cols});
    push_rect(
        l, (struct rect){b->row + b->rows, a->col, a->row + a->rows - b->row - b->rows, a->cols});
    push_rect(l, (struct rect){b->row, a->col, b->rows, b->col - a->col});
    push_rect(
        l, (struct rect){b->row, b->col + b->cols, b->rows, a->col + a->cols - b->col - b->cols});
}

static int64_t place_in(const struct sn_slab *t, const struct rect *r)
{
    return t->at + (r->row - t->first[0]) * t->ld + (r->col - t->first[1]);
}

static void push_item(struct sn_match *m, const struct sn_match_piece *own,
                      const struct sn_match_piece *their, const struct rect *r)
{
    struct sn_match_item x = {.at = own->at,
                              .target = their->target,
                              .rows = r->rows,
                              .cols = r->cols,
                              .mine = place_in(&own->slab, r),
                              .mine_ld = own->slab.ld,
                              .mine_cols = own->cols,
                              .theirs = place_in(&their->slab, r),
                              .their_ld = their->slab.ld,
                              .their_cols = their->cols};
    if (!sn_grow((void **)&m->items, m->n_items, &m->cap_items, sizeof(*m->items)))
        m->failed = true;
    else
        m->items[m->n_items++] = x;
}

/* Take what `own` gives of what is left. */
static void take(struct sn_match *m, struct rects *left, const struct sn_match_piece *own,
                 const struct sn_match_piece *their)
{
    struct rects rest = {.overflows = left->overflows};
    struct rect given = rect_of(&own->slab);
    for (int i = 0; i < left->n; i++) {
        struct rect r = meet(&left->t[i], &given);
        if (r.rows <= 0 || r.cols <= 0) {
            push_rect(&rest, left->t[i]);
            continue;
        }
        push_item(m, own, their, &r);
        push_rest(&rest, &left->t[i], &r);
    }
    *left = rest;
}

static int first_of_tensor(const struct sn_match *m, const struct sn_slab *t)
{
    int low = 0, high = m->own.n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (compare_tensor(&m->own.t[mid].slab, t) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Is all of it made here? */
static bool is_made(struct sn_match *m, const struct sn_match_piece *their)
{
    struct rects left = {.n = 1, .t = {rect_of(&their->slab)}};
    for (int i = first_of_tensor(m, &their->slab);
         i < m->own.n && left.n > 0 && compare_tensor(&m->own.t[i].slab, &their->slab) == 0; i++)
        take(m, &left, &m->own.t[i], their);
    return left.n == 0 && !left.overflows;
}

static void match_all(struct sn_match *m)
{
    int kept = 0;
    if (m->own.n > 0)
        qsort(m->own.t, (size_t)m->own.n, sizeof(*m->own.t), by_tensor);
    for (int i = 0; i < m->theirs.n; i++) {
        struct sn_match_target *t = &m->targets[m->theirs.t[i].target];
        t->is_whole = t->is_whole && is_made(m, &m->theirs.t[i]);
    }
    for (int i = 0; i < m->n_items; i++)
        if (m->targets[m->items[i].target].is_whole)
            m->items[kept++] = m->items[i];
    m->n_items = kept;
    if (kept > 0)
        qsort(m->items, (size_t)kept, sizeof(*m->items), by_at);
}

/* Ranks are followed in turns: the results of each, in the order of its program, side by side. */
static enum sn_status sort_targets(struct sn_match *m, struct sn_err *err)
{
    size_t n = (size_t)m->n_targets;
    int *to = sn_alloc_n(n + 1, sizeof(int));
    struct sn_match_target *sorted = sn_alloc_n(n + 1, sizeof(*sorted));
    if (!to || !sorted) {
        sn_free(to);
        sn_free(sorted);
        return sn_match_no_memory(err);
    }
    for (int i = 0; i < m->n_targets; i++)
        m->first_target[m->targets[i].rank + 1]++;
    for (int r = 0; r < m->ranks; r++)
        m->first_target[r + 1] += m->first_target[r];
    int *next = sn_alloc_n((size_t)m->ranks + 1, sizeof(int));
    for (int r = 0; r < m->ranks && next; r++)
        next[r] = m->first_target[r];
    for (int i = 0; i < m->n_targets && next; i++) {
        to[i] = next[m->targets[i].rank]++;
        sorted[to[i]] = m->targets[i];
    }
    for (int i = 0; i < m->theirs.n && next; i++)
        m->theirs.t[i].target = to[m->theirs.t[i].target];
    sn_free(m->targets);
    m->targets = sorted;
    m->cap_targets = m->n_targets;
    sn_free(to);
    bool good = next != NULL;
    sn_free(next);
    return good ? SN_OK : sn_match_no_memory(err);
}

enum sn_status sn_match_join(struct sn_match *m, struct sn_err *err)
{
    SN_TRY(sort_targets(m, err));
    match_all(m);
    return m->failed ? sn_match_no_memory(err) : SN_OK;
}
