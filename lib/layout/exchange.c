#include "lib/layout/exchange.h"

static int slices_of(const struct sn_exchange *x)
{
    return x->slices > 1 ? x->slices : 1;
}

/* Where member m's rows for expert e begin; e may be the number of all experts. */
static int64_t bound(const struct sn_exchange *x, int m, int e)
{
    int64_t all = (int64_t)x->members / slices_of(x) * x->experts;
    return x->bounds ? x->bounds[m * (all + 1) + e] : x->rows * e / all;
}

/* Rows of member `from` for the experts of member `to`, before chunk c. */
static int64_t rows_before(const struct sn_exchange *x, int from, int to, int c)
{
    int block = to / slices_of(x) * x->experts;
    int64_t all = bound(x, from, block + x->experts) - bound(x, from, block);
    return sn_exchange_cut(all, c, x->chunks);
}

/* And in this chunk. */
static int64_t rows_between(const struct sn_exchange *x, int from, int to)
{
    return rows_before(x, from, to, x->chunk + 1) - rows_before(x, from, to, x->chunk);
}

/* The sum of ceil(n / C) over parts whose sum is `rows`. */
int64_t sn_exchange_chunk_most(int64_t rows, int members, int chunks)
{
    int64_t most = (rows + (int64_t)members * (chunks - 1)) / (chunks > 1 ? chunks : 1);
    return chunks > 1 && most < rows ? most : rows;
}

/* Where member m's rows begin in the list of member `to`. */
static int64_t arrives_at(const struct sn_exchange *x, int m, int to)
{
    int64_t at = 0;
    for (int s = 0; s < m; s++)
        at += rows_between(x, s, to);
    return at;
}

int sn_exchange_rounds(const struct sn_exchange *x)
{
    struct sn_exchange each = *x;
    int64_t most = 1;
    for (each.chunk = 0; each.chunk < (x->chunks > 1 ? x->chunks : 1); each.chunk++)
        for (int to = 0; to < x->members; to++) {
            int64_t rows = arrives_at(&each, x->members, to);
            most = rows > most ? rows : most;
        }
    return (int)((most + x->capacity - 1) / x->capacity);
}

/* Which rows of the window of member `to` are share s, in this round. */
static struct sn_exchange_rows share_of(const struct sn_exchange *x, int to, int s)
{
    int64_t n = arrives_at(x, x->members, to) - x->round * x->capacity;
    int shares = x->shares > 1 ? x->shares : 1;
    n = n < 0 ? 0 : n < x->capacity ? n : x->capacity;
    int64_t first = n * s / shares;
    return (struct sn_exchange_rows){first, n * (s + 1) / shares - first};
}

/* What of the list of member `to` is in its window or share in this round: list positions. */
static struct sn_exchange_rows present(const struct sn_exchange *x, int to)
{
    struct sn_exchange_rows share = share_of(x, to, x->share);
    share.at += x->round * x->capacity;
    return share;
}

/* Of n rows of a list that begin at `at`: those that are present, counted from `at`. */
static struct sn_exchange_rows among(struct sn_exchange_rows present, int64_t at, int64_t n)
{
    int64_t first = present.at - at, end = first + present.n;
    first = first > 0 ? first : 0;
    end = end < n ? end : n;
    return (struct sn_exchange_rows){first, end > first ? end - first : 0};
}

struct sn_exchange_rows sn_exchange_own(const struct sn_exchange *x, int m)
{
    struct sn_exchange_rows r =
        among(present(x, m), arrives_at(x, x->index, m), rows_between(x, x->index, m));
    r.at +=
        bound(x, x->index, m / slices_of(x) * x->experts) + rows_before(x, x->index, m, x->chunk);
    if (x->back)
        r.at += m % slices_of(x) * x->rows;
    return r;
}

struct sn_exchange_rows sn_exchange_window(const struct sn_exchange *x, int m)
{
    int64_t at = arrives_at(x, m, x->index);
    struct sn_exchange_rows here = present(x, x->index);
    struct sn_exchange_rows r = among(here, at, rows_between(x, m, x->index));
    r.at += at - here.at;
    return r;
}

/* --- two hops --------------------------------------------------------------------------------- */

/* Rows that members first .. first + n - 1 have in the window of member `to`. */
static int64_t rows_of_members(const struct sn_exchange *x, int first, int n, int to)
{
    struct sn_exchange_rows here = present(x, to);
    int64_t at = arrives_at(x, first, to), sum = 0;
    for (int m = first; m < first + n; m++) {
        int64_t rows = rows_between(x, m, to);
        sum += among(here, at, rows).n;
        at += rows;
    }
    return sum;
}

static int first_of_node(const struct sn_exchange *x)
{
    return x->index / x->node * x->node;
}

/* Rows of this node's members for the member of node n on the own rail. */
static int64_t rows_for_node(const struct sn_exchange *x, int n)
{
    return rows_of_members(x, first_of_node(x), x->node, n * x->node + x->index % x->node);
}

static int64_t transit_at(const struct sn_exchange *x, int n)
{
    int64_t at = 0;
    for (int before = 0; before < n; before++)
        at += rows_for_node(x, before);
    return at;
}

/* The rows of neighbour `from` for node n in the own transit, which has those
 * for n from `at` on. */
static struct sn_exchange_rows in_transit(const struct sn_exchange *x, int from, int n, int64_t at)
{
    int to = n * x->node + x->index % x->node, first = first_of_node(x);
    return (struct sn_exchange_rows){at + rows_of_members(x, first, from, to),
                                     rows_of_members(x, first + from, 1, to)};
}

static struct sn_exchange_rows whole_transit(const struct sn_exchange *x, int n)
{
    return (struct sn_exchange_rows){transit_at(x, n), rows_for_node(x, n)};
}

/* The rows of all members of node n in the own window. */
static struct sn_exchange_rows window_of_node(const struct sn_exchange *x, int n)
{
    return (struct sn_exchange_rows){rows_of_members(x, 0, n * x->node, x->index),
                                     rows_of_members(x, n * x->node, x->node, x->index)};
}

int sn_exchange_size(const struct sn_exchange *x)
{
    return x->hop == SN_HOP_NODE   ? x->node
           : x->hop == SN_HOP_RAIL ? x->members / x->node
                                   : x->members;
}

int sn_exchange_place(const struct sn_exchange *x)
{
    return x->hop == SN_HOP_NODE   ? x->index % x->node
           : x->hop == SN_HOP_RAIL ? x->index / x->node
                                   : x->index;
}

/* What goes between this member and another at the end where rows come from, or, `far`, at the
 * other end of this hop. */
static struct sn_exchange_rows run_of(const struct sn_exchange *x, int m, bool far)
{
    if (x->hop == SN_HOP_RAIL)
        return far ? window_of_node(x, m) : whole_transit(x, m);
    return far ? sn_exchange_window(x, m) : sn_exchange_own(x, m);
}

bool sn_exchange_next(const struct sn_exchange *x, struct sn_exchange_walk *w,
                      struct sn_exchange_rows *out)
{
    bool far = w->arrives != x->back;
    if (w->run == (x->hop == SN_HOP_NODE ? x->members / x->node : 1))
        return false;
    if (x->hop != SN_HOP_NODE) {
        *out = run_of(x, w->member, far);
    } else if (!far) {
        *out = sn_exchange_own(x, w->run * x->node + w->member);
    } else {
        *out = in_transit(x, w->member, w->run, w->at);
        w->at += rows_for_node(x, w->run);
    }
    w->run++;
    return true;
}

struct sn_exchange_rows sn_exchange_to(const struct sn_exchange *x, int m)
{
    return run_of(x, m, x->back);
}

struct sn_exchange_rows sn_exchange_from(const struct sn_exchange *x, int m)
{
    return run_of(x, m, !x->back);
}

int64_t sn_exchange_sent(const struct sn_exchange *x)
{
    int64_t n = 0;
    for (int m = 0; m < sn_exchange_size(x); m++) {
        struct sn_exchange_walk w = {.member = m};
        struct sn_exchange_rows r;
        while (m != sn_exchange_place(x) && sn_exchange_next(x, &w, &r))
            n += r.n;
    }
    return n;
}

int64_t sn_exchange_transit_most(const struct sn_exchange *x)
{
    int64_t shares = x->shares > 1 ? x->shares : 1, nodes = x->members / x->node;
    int64_t windows = nodes * ((x->capacity + shares - 1) / shares);
    int64_t rows = x->node * sn_exchange_chunk_most(x->rows, x->members, x->chunks);
    return windows < rows ? windows : rows;
}

int64_t sn_exchange_transit(const struct sn_exchange *x)
{
    return transit_at(x, x->members / x->node);
}

struct sn_exchange_rows sn_exchange_share(const struct sn_exchange *x, int s)
{
    return share_of(x, x->index, s);
}

int64_t sn_exchange_sent_within(const struct sn_exchange *x)
{
    int64_t n = 0;
    for (int s = 0; s < x->shares; s++)
        n += s == x->share ? 0 : share_of(x, x->index, x->back ? s : x->share).n;
    return n;
}
