#include "lib/layout/exchange.h"

/* Where member m's rows for expert e begin; e may be the number of all experts. */
static int64_t bound(const struct sn_exchange *x, int m, int e)
{
    int64_t all = (int64_t)x->members * x->experts;
    return x->bounds ? x->bounds[m * (all + 1) + e] : x->rows * e / all;
}

/* Rows of member `from` for the experts of member `to`. */
static int64_t rows_between(const struct sn_exchange *x, int from, int to)
{
    return bound(x, from, (to + 1) * x->experts) - bound(x, from, to * x->experts);
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
    int64_t most = 1;
    for (int to = 0; to < x->members; to++) {
        int64_t rows = arrives_at(x, x->members, to);
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

/* Of n rows of the list of member `to` that begin at `at`: those in its window or share, counted
 * from `at`. */
static struct sn_exchange_rows in_window(const struct sn_exchange *x, int to, int64_t at, int64_t n)
{
    struct sn_exchange_rows share = share_of(x, to, x->share);
    int64_t first = x->round * x->capacity + share.at - at, end = first + share.n;
    first = first > 0 ? first : 0;
    end = end < n ? end : n;
    return (struct sn_exchange_rows){first, end > first ? end - first : 0};
}

struct sn_exchange_rows sn_exchange_own(const struct sn_exchange *x, int m)
{
    struct sn_exchange_rows r =
        in_window(x, m, arrives_at(x, x->index, m), rows_between(x, x->index, m));
    r.at += bound(x, x->index, m * x->experts);
    return r;
}

struct sn_exchange_rows sn_exchange_window(const struct sn_exchange *x, int m)
{
    int64_t at = arrives_at(x, m, x->index);
    struct sn_exchange_rows r = in_window(x, x->index, at, rows_between(x, m, x->index));
    r.at += at - x->round * x->capacity - share_of(x, x->index, x->share).at;
    return r;
}

struct sn_exchange_rows sn_exchange_to(const struct sn_exchange *x, int m)
{
    return x->back ? sn_exchange_window(x, m) : sn_exchange_own(x, m);
}

struct sn_exchange_rows sn_exchange_from(const struct sn_exchange *x, int m)
{
    return x->back ? sn_exchange_own(x, m) : sn_exchange_window(x, m);
}

int64_t sn_exchange_sent(const struct sn_exchange *x)
{
    int64_t n = 0;
    for (int m = 0; m < x->members; m++)
        n += m == x->index ? 0 : sn_exchange_to(x, m).n;
    return n;
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
