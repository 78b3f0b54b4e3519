/*
 * Rows that are exchanged, for random numbers of them: what one member sends another takes, every
 * row is in one window once, and comes back to where it was.
 */
#include "lib/layout/exchange.h"
#include "tests/lib/dice.h"
#include "tests/lib/kernel_test.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { MOST = 12, MOST_AT_RANDOM = 5, EXPERTS_MOST = 4, ROWS_MOST = 40 };

struct world {
    int members, experts;
    int64_t capacity; /* of all chunks together */
    int chunk, chunks;
    int32_t bounds[MOST * (MOST * EXPERTS_MOST + 1)];
};

/* How many rows each member has for each expert: few, none, or all for one. */
static struct world random_world_of(struct dice *d, int members)
{
    struct world w = {.members = members, .experts = (int)roll(d, EXPERTS_MOST) + 1};
    int all = w.members * w.experts, kind = (int)roll(d, 3), favourite = (int)roll(d, all);
    w.capacity = (int)roll(d, 2 * ROWS_MOST) + 1;
    for (int m = 0; m < w.members; m++)
        for (int e = 0, at = 0; e <= all; e++) {
            w.bounds[m * (all + 1) + e] = at;
            at += kind == 0 ? (int)roll(d, 8) : kind == 1 ? 0 : e == favourite ? ROWS_MOST : 0;
        }
    return w;
}

static struct world random_world(struct dice *d)
{
    return random_world_of(d, (int)roll(d, MOST_AT_RANDOM) + 1);
}

static struct sn_exchange exchange_of(const struct world *w, int index, int round)
{
    return (struct sn_exchange){.bounds = w->bounds,
                                .members = w->members,
                                .index = index,
                                .experts = w->experts,
                                .capacity =
                                    sn_exchange_chunk_most(w->capacity, w->members, w->chunks),
                                .round = round,
                                .chunk = w->chunk,
                                .chunks = w->chunks};
}

static int64_t rows_of(const struct world *w, int m)
{
    int all = w->members * w->experts;
    return w->bounds[m * (all + 1) + all];
}

typedef int counts[MOST][EXPERTS_MOST * ROWS_MOST * MOST];

/* Both ends agree, windows are filled from the front without gaps. */
static bool rows_go(const struct world *w, counts went)
{
    struct sn_exchange x = exchange_of(w, 0, 0);
    int rounds = sn_exchange_rounds(&x);
    for (int round = 0; round < rounds; round++)
        for (int to = 0; to < w->members; to++) {
            int64_t at = 0;
            for (int from = 0; from < w->members; from++) {
                struct sn_exchange a = exchange_of(w, from, round), b = exchange_of(w, to, round);
                struct sn_exchange_rows own = sn_exchange_own(&a, to);
                struct sn_exchange_rows window = sn_exchange_window(&b, from);
                if (own.n != window.n || (own.n > 0 && window.at != at) ||
                    at + own.n > x.capacity || sn_exchange_rounds(&a) != rounds)
                    return false;
                at += own.n;
                for (int64_t i = 0; i < own.n; i++)
                    went[from][own.at + i]++;
            }
        }
    return true;
}

/* All rows go once. */
static bool rows_go_once(const struct world *w)
{
    counts went = {{0}};
    struct world each = *w;
    for (each.chunk = 0; each.chunk < (w->chunks > 1 ? w->chunks : 1); each.chunk++)
        if (!rows_go(&each, went))
            return false;
    for (int m = 0; m < w->members; m++)
        for (int64_t i = 0; i < rows_of(w, m); i++)
            if (went[m][i] != 1)
                return false;
    return true;
}

static bool goes_back_as_it_came(const struct world *w)
{
    int64_t out = 0, back = 0;
    for (int m = 0; m < w->members; m++) {
        struct sn_exchange x = exchange_of(w, m, 0);
        out += sn_exchange_sent(&x);
        x.back = true;
        back += sn_exchange_sent(&x);
        for (int o = 0; o < w->members; o++) {
            struct sn_exchange_rows from = sn_exchange_from(&x, o), own = sn_exchange_own(&x, o);
            if (from.at != own.at || from.n != own.n)
                return false;
        }
    }
    return out == back;
}

/* RECV_OFFSETS's segments are the windows, expert by expert. */
static bool segments_fill_windows(const struct world *w, int member, int round)
{
    struct kt k = {0};
    int all = w->members * w->experts;
    struct sn_exchange x = exchange_of(w, member, round);
    k.a.attr = (struct sn_attr){.experts.count = w->experts,
                                .experts.capacity = x.capacity,
                                .experts.member = member,
                                .experts.chunk = w->chunk,
                                .experts.chunks = w->chunks};
    k.a.attr.experts.round = round;
    struct sn_mat *in = kt_new(&k, 0, (struct kt_shape){SN_I32, w->members, all + 1, 2});
    for (int i = 0; i < w->members * (all + 1); i++)
        kt_set(in, i / (all + 1), i % (all + 1), w->bounds[i]);
    const struct sn_mat *out = kt_out(&k, 0, (struct kt_shape){SN_I32, 1, all + 1, 0}, SN_WRITE);
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_RECV_OFFSETS, 1);
    for (int m = 0; m < w->members; m++) {
        struct sn_exchange_rows r = sn_exchange_window(&x, m);
        double first = kt_get(out, 0, m * w->experts), end = kt_get(out, 0, (m + 1) * w->experts);
        good = good && end - first == (double)r.n && (r.n == 0 || first == (double)r.at);
        for (int e = 0; e < w->experts; e++)
            good = good &&
                   kt_get(out, 0, m * w->experts + e + 1) >= kt_get(out, 0, m * w->experts + e);
    }
    kt_free(&k);
    return good;
}

/* Of every window each share takes as many rows as the others, or one more; together they take what
 * a rank alone would, at the place after that of the shares before. */
static bool shares_make_the_window(const struct world *w, int shares)
{
    struct sn_exchange x = exchange_of(w, 0, 0);
    int rounds = sn_exchange_rounds(&x);
    for (int round = 0; round < rounds; round++)
        for (int to = 0; to < w->members; to++) {
            struct sn_exchange alone = exchange_of(w, to, round);
            struct sn_exchange_rows all = sn_exchange_share(&alone, 0);
            int64_t at = 0, gathered = 0, scattered = 0;
            for (int s = 0; s < shares; s++) {
                struct sn_exchange b = alone;
                b.shares = shares;
                b.share = s;
                struct sn_exchange_rows mine = sn_exchange_share(&b, s);
                int64_t here = 0;
                for (int from = 0; from < w->members; from++) {
                    struct sn_exchange a = exchange_of(w, from, round);
                    a.shares = shares;
                    a.share = s;
                    struct sn_exchange_rows own = sn_exchange_own(&a, to),
                                            to_window = sn_exchange_window(&b, from);
                    if (own.n != to_window.n || (own.n > 0 && to_window.at != here))
                        return false;
                    here += own.n;
                }
                gathered += sn_exchange_sent_within(&b);
                b.back = true;
                scattered += sn_exchange_sent_within(&b);
                if (mine.at != at || mine.n != here || mine.n > (all.n + shares - 1) / shares)
                    return false;
                at += mine.n;
            }
            if (at != all.n || gathered != (shares - 1) * at || scattered != gathered)
                return false;
        }
    return true;
}

static void shared_windows_are_whole(void)
{
    struct dice d = {43, 0};
    int wrong = 0;
    for (int i = 0; i < 1000; i++) {
        struct world w = random_world(&d);
        wrong += !shares_make_the_window(&w, (int)roll(&d, 5) + 1);
    }
    tap_ok(wrong == 0, "1000 worlds (seed 43), windows shared by 1 to 5 ranks: %d wrong", wrong);
}

static void every_row_finds_its_expert(void)
{
    struct dice d = {42, 0};
    int wrong = 0, rounds = 0;
    for (int i = 0; i < 2000; i++) {
        struct world w = random_world(&d);
        struct sn_exchange x = exchange_of(&w, 0, 0);
        int n = sn_exchange_rounds(&x);
        rounds = n > rounds ? n : rounds;
        bool good = rows_go_once(&w) && goes_back_as_it_came(&w);
        for (int r = 0; r < n && i < 200; r++)
            good = good && segments_fill_windows(&w, (int)roll(&d, w.members), r);
        wrong += !good;
    }
    tap_ok(wrong == 0 && rounds > 10, "2000 worlds (seed 42) of up to %d rounds: %d wrong", rounds,
           wrong);
}

/* --- two hops --------------------------------------------------------------------------------- */

enum { SHARES_MOST = 3, LIST = MOST * EXPERTS_MOST * ROWS_MOST };

/* What each member has at the three places: row i of member m is m x LIST + i + 1. */
struct places {
    int rows[MOST][LIST], transit[MOST][MOST * LIST], window[MOST][MOST * LIST];
};

static int *place_of(struct places *p, enum sn_hop hop, int m, bool far)
{
    if (hop == SN_HOP_ALL)
        return far ? p->window[m] : p->rows[m];
    return hop == SN_HOP_NODE ? (far ? p->transit[m] : p->rows[m])
                              : (far ? p->window[m] : p->transit[m]);
}

/* Carry out a hop; false where the ends disagree. */
static bool carry(struct places *p, const struct sn_exchange *x)
{
    for (int from = 0; from < x->members; from++)
        for (int to = 0; to < x->members; to++) {
            struct sn_exchange a = *x, b = *x;
            a.index = from;
            b.index = to;
            bool same_node = from / x->node == to / x->node;
            bool same_rail = from % x->node == to % x->node;
            if ((x->hop == SN_HOP_NODE && !same_node) || (x->hop == SN_HOP_RAIL && !same_rail))
                continue;
            struct sn_exchange_walk leaves = {.member = sn_exchange_place(&b)};
            struct sn_exchange_walk lands = {.member = sn_exchange_place(&a), .arrives = true};
            struct sn_exchange_rows r, s;
            while (sn_exchange_next(&a, &leaves, &r)) {
                if (!sn_exchange_next(&b, &lands, &s) || r.n != s.n)
                    return false;
                for (int64_t i = 0; i < r.n; i++)
                    place_of(p, x->hop, to, !x->back)[s.at + i] =
                        place_of(p, x->hop, from, x->back)[r.at + i];
            }
            if (sn_exchange_next(&b, &lands, &s))
                return false;
        }
    return true;
}

/* By way of transits windows are those of one hop, and rows come back to where they were. */
static bool two_hops_are_one(const struct world *w, int node, int shares)
{
    static struct places one, two;
    struct sn_exchange x = exchange_of(w, 0, 0);
    int rounds = sn_exchange_rounds(&x);
    bool good = true;
    x.node = node;
    x.shares = shares;
    x.rows = 0;
    for (int m = 0; m < w->members; m++)
        x.rows = rows_of(w, m) > x.rows ? rows_of(w, m) : x.rows;
    for (int pass = 0; pass < rounds * shares && good; pass++) {
        memset(&one, 0, sizeof(one));
        memset(&two, 0, sizeof(two));
        for (int m = 0; m < w->members; m++)
            for (int i = 0; i < rows_of(w, m); i++)
                one.rows[m][i] = two.rows[m][i] = m * LIST + i + 1;
        x.round = pass / shares;
        x.share = pass % shares;
        x.back = false;
        x.hop = SN_HOP_ALL;
        good = carry(&one, &x);
        x.hop = SN_HOP_NODE;
        good = good && carry(&two, &x);
        x.hop = SN_HOP_RAIL;
        good = good && carry(&two, &x);
        good = good && memcmp(one.window, two.window, sizeof(one.window)) == 0;
        for (x.index = 0; x.index < w->members; x.index++)
            good = good && sn_exchange_transit(&x) <= sn_exchange_transit_most(&x);
        memset(one.rows, 0, sizeof(one.rows));
        memset(two.rows, 0, sizeof(two.rows));
        memset(two.transit, 0, sizeof(two.transit));
        x.back = true;
        good = good && carry(&two, &x);
        x.hop = SN_HOP_NODE;
        good = good && carry(&two, &x);
        x.hop = SN_HOP_ALL;
        good = good && carry(&one, &x) && memcmp(one.rows, two.rows, sizeof(one.rows)) == 0;
    }
    return good;
}

static void hops_lead_to_the_same_windows(void)
{
    static const int members[] = {4, 6, 8, 8, 12, 12, 9}, node[] = {2, 3, 2, 4, 4, 6, 3};
    struct dice d = {44, 0};
    int wrong = 0;
    for (int i = 0; i < 140; i++) {
        struct world w = random_world_of(&d, members[i % 7]);
        wrong += !two_hops_are_one(&w, node[i % 7], (int)roll(&d, SHARES_MOST) + 1);
    }
    tap_ok(wrong == 0,
           "140 worlds (seed 44) of 2 to 4 nodes: two hops fill the windows of one, "
           "and come back: %d wrong",
           wrong);
}

/* Rows dealt evenly: of L members on each of N nodes a rank sends (L - 1) / L of its rows inside
 * the node, in N pieces to each neighbour, and (N - 1) / N outside, one message to each node. */
static void hops_send_what_the_formula_says(void)
{
    struct sn_exchange x = {.rows = 96, .members = 8, .experts = 1, .capacity = 192, .node = 4};
    int64_t inside = 0, outside = 0;
    for (x.index = 0; x.index < 8; x.index++) {
        x.hop = SN_HOP_NODE;
        inside += sn_exchange_sent(&x);
        x.hop = SN_HOP_RAIL;
        outside += sn_exchange_sent(&x);
    }
    x.index = 0;
    tap_ok(inside == (int64_t)8 * 72 && outside == (int64_t)8 * 48 &&
               sn_exchange_transit_most(&x) == 2 * 192 && sn_exchange_transit(&x) == 96,
           "2 nodes of 4: of 96 rows 72 are sent inside the node, 48 outside: %lld, %lld",
           (long long)inside, (long long)outside);
}

/* --- chunks ----------------------------------------------------------------------------------- */

/* Between any two members chunks differ by a row at most. */
static bool messages_are_divided(const struct world *w)
{
    for (int from = 0; from < w->members; from++)
        for (int to = 0; to < w->members; to++) {
            struct world each = *w;
            int64_t least = INT64_MAX, most = 0;
            each.capacity = (int64_t)MOST * EXPERTS_MOST * ROWS_MOST * MOST; /* one round */
            for (each.chunk = 0; each.chunk < w->chunks; each.chunk++) {
                struct sn_exchange x = exchange_of(&each, from, 0);
                int64_t n = sn_exchange_own(&x, to).n;
                least = n < least ? n : least;
                most = n > most ? n : most;
            }
            if (most > least + 1)
                return false;
        }
    return true;
}

static void chunks_are_exchanges(void)
{
    struct dice d = {45, 0};
    int wrong = 0, more = 0;
    for (int i = 0; i < 1000; i++) {
        struct world w = random_world(&d);
        struct sn_exchange whole = exchange_of(&w, 0, 0);
        int rounds = sn_exchange_rounds(&whole), shares = (int)roll(&d, SHARES_MOST) + 1;
        w.chunks = (int)roll(&d, 7) + 2;
        struct sn_exchange x = exchange_of(&w, 0, 0);
        more += sn_exchange_rounds(&x) > rounds;
        bool good = rows_go_once(&w) && messages_are_divided(&w);
        for (w.chunk = 0; w.chunk < w.chunks; w.chunk++) {
            good = good && goes_back_as_it_came(&w) && shares_make_the_window(&w, shares);
            for (int r = 0; r < rounds && i < 200; r++)
                good = good && segments_fill_windows(&w, (int)roll(&d, w.members), r);
        }
        wrong += !good;
    }
    tap_ok(wrong == 0 && more == 0,
           "1000 worlds (seed 45) in 2 to 8 chunks: %d wrong, %d with more rounds than all at once",
           wrong, more);
}

static void chunks_take_two_hops(void)
{
    static const int members[] = {4, 6, 8, 8}, node[] = {2, 3, 2, 4};
    struct dice d = {46, 0};
    int wrong = 0;
    for (int i = 0; i < 60; i++) {
        struct world w = random_world_of(&d, members[i % 4]);
        w.chunks = (int)roll(&d, 4) + 2;
        w.chunk = (int)roll(&d, w.chunks);
        wrong += !two_hops_are_one(&w, node[i % 4], (int)roll(&d, SHARES_MOST) + 1);
    }
    tap_ok(wrong == 0, "60 worlds (seed 46): chunks in two hops fill the windows of one: %d wrong",
           wrong);
}

/* --- slices of experts ------------------------------------------------------------------------ */

/* Of each of `slices` slices all rows arrive once, as those of an exchange among the owners do, and
 * come back to that slice's block. */
static bool slices_have_all_rows(const struct world *w, int slices)
{
    int owners = w->members / slices;
    struct sn_exchange x = exchange_of(w, 0, 0);
    x.slices = slices;
    x.rows = LIST;
    int rounds = sn_exchange_rounds(&x);
    for (int m = 0; m < w->members; m++)
        for (int to = 0; to < w->members; to++) {
            int64_t all = 0, want = 0;
            const int32_t *b = w->bounds + (ptrdiff_t)m * (owners * w->experts + 1);
            want = b[(to / slices + 1) * w->experts] - b[to / slices * w->experts];
            for (x.chunk = 0; x.chunk < (w->chunks > 1 ? w->chunks : 1); x.chunk++)
                for (x.round = 0; x.round < rounds; x.round++) {
                    x.index = m;
                    x.back = false;
                    struct sn_exchange_rows out = sn_exchange_to(&x, to);
                    x.back = true;
                    struct sn_exchange_rows back = sn_exchange_from(&x, to);
                    x.index = to;
                    if (sn_exchange_to(&x, m).n != out.n || back.n != out.n ||
                        back.at != out.at + to % slices * x.rows)
                        return false;
                    all += out.n;
                }
            if (all != want)
                return false;
        }
    return true;
}

static void rows_go_to_all_slices(void)
{
    static const int members[] = {4, 6, 8, 12, 3}, slices[] = {2, 3, 4, 2, 3};
    struct dice d = {47, 0};
    int wrong = 0;
    for (int i = 0; i < 400; i++) {
        /* bounds of members x owners: those of a world with fewer experts each */
        struct world w = {.members = members[i % 5], .experts = (int)roll(&d, EXPERTS_MOST) + 1};
        int all = w.members / slices[i % 5] * w.experts;
        w.capacity = (int)roll(&d, 2 * ROWS_MOST) + 1;
        w.chunks = (int)roll(&d, 4) + 1;
        for (int m = 0; m < w.members; m++)
            for (int e = 0, at = 0; e <= all; e++) {
                w.bounds[m * (all + 1) + e] = at;
                at += (int)roll(&d, 8);
            }
        wrong += !slices_have_all_rows(&w, slices[i % 5]);
    }
    tap_ok(wrong == 0, "400 worlds (seed 47), experts in 2 to 4 slices: %d wrong", wrong);
}

static void balanced_rows_need_one_round(void)
{
    struct sn_exchange x = {.rows = 48, .members = 4, .experts = 2, .capacity = 48};
    int64_t sent = 0;
    for (x.index = 0; x.index < 4; x.index++)
        sent += sn_exchange_sent(&x);
    tap_ok(sn_exchange_rounds(&x) == 1 && sent == (int64_t)4 * 36,
           "dealt evenly, three quarters of the rows go to others, in one round");
}

int main(void)
{
    every_row_finds_its_expert();
    shared_windows_are_whole();
    hops_lead_to_the_same_windows();
    hops_send_what_the_formula_says();
    chunks_are_exchanges();
    chunks_take_two_hops();
    rows_go_to_all_slices();
    balanced_rows_need_one_round();
    return tap_done();
}
