/*
 * test_comm_exchange.c - rows to the ranks of their experts and back: some, none, all for one; rows
 * so long that a member's are several messages; windows that the rows do not fit into.
 *
 * Rank 0 prints the points; another rank speaks only where it disagrees, and then exits with 1.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/dice.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { EXPERTS = 2, MOST_RANKS = 8, MOST_ROWS = 24 };

struct rows {
    struct sn_comm *comm;
    int32_t bounds[MOST_RANKS * (MOST_RANKS * EXPERTS + 1)];
    int64_t cols, capacity;
    int node; /* ranks of a node, between which and whose rails rows go in two hops; 0: in one */
    float *mine, *window, *back; /* own rows, the window, own rows as they come back */
    float *transit;
};

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0) {
        tap_ok(good, "%s", what);
    } else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

static int experts(const struct sn_comm *c)
{
    return c->size * EXPERTS;
}

/* The same on all ranks. */
static void draw_bounds(struct rows *r, struct dice *d, int64_t most)
{
    int all = experts(r->comm);
    for (int m = 0; m < r->comm->size; m++)
        for (int e = 0, at = 0; e <= all; e++) {
            r->bounds[m * (all + 1) + e] = at;
            at += most > 0 ? (int)roll(d, most) : e == 1 ? MOST_ROWS : 0;
        }
}

static int64_t rows_of(const struct rows *r, int m)
{
    int all = experts(r->comm);
    return r->bounds[m * (all + 1) + all];
}

/* Element c of row i of member m. */
static float value(int m, int64_t i, int64_t c)
{
    return (float)((m * 5003 + i * 127 + c) % 65521);
}

static struct sn_exchange exchange_of(const struct rows *r, int round, bool back)
{
    return (struct sn_exchange){.bounds = r->bounds,
                                .members = r->comm->size,
                                .index = r->comm->rank,
                                .experts = EXPERTS,
                                .capacity = r->capacity,
                                .round = round,
                                .back = back};
}

static bool carry(struct rows *r, const struct sn_exchange *of, const float *in, float *out)
{
    static const enum sn_group group[] = {SN_GROUP_EXPERT, SN_GROUP_EXPERT_NODE,
                                          SN_GROUP_EXPERT_RAIL};
    struct sn_err err = {0};
    struct sn_exchange x = *of;
    struct sn_transfer t = {.kind = SN_ALL_TO_ALL,
                            .group = group[x.hop],
                            .dtype = SN_F32,
                            .n = r->cols,
                            .in = in,
                            .out = out,
                            .exchange = &x,
                            .label = "rows"};
    bool good = r->comm->ops->wait(r->comm, r->comm->ops->post(r->comm, &t), &err) == SN_OK;
    int64_t sent = take_sent(r->comm);
    if (sent != sn_exchange_sent(&x) * r->cols * 4)
        printf("# rank %d sent %lld bytes, and counts %lld rows of %lld\n", r->comm->rank,
               (long long)sent, (long long)sn_exchange_sent(&x), (long long)r->cols);
    return good && sent == sn_exchange_sent(&x) * r->cols * 4;
}

static bool run(struct rows *r, int round, bool back)
{
    struct sn_exchange x = exchange_of(r, round, back);
    if (r->node == 0)
        return carry(r, &x, back ? r->window : r->mine, back ? r->back : r->window);
    x.node = r->node;
    x.hop = back ? SN_HOP_RAIL : SN_HOP_NODE;
    bool good = carry(r, &x, back ? r->window : r->mine, r->transit);
    x.hop = back ? SN_HOP_NODE : SN_HOP_RAIL;
    return carry(r, &x, r->transit, back ? r->back : r->window) && good;
}

static bool window_is_right(const struct rows *r, int round)
{
    struct sn_exchange x = exchange_of(r, round, false);
    for (int m = 0; m < r->comm->size; m++) {
        struct sn_exchange_rows w = sn_exchange_window(&x, m);
        struct sn_exchange from = x;
        from.index = m;
        struct sn_exchange_rows own = sn_exchange_own(&from, r->comm->rank);
        for (int64_t i = 0; i < w.n * r->cols; i++)
            if (r->window[w.at * r->cols + i] != value(m, own.at + i / r->cols, i % r->cols))
                return false;
    }
    return true;
}

static bool there_and_back(struct rows *r)
{
    int64_t n = rows_of(r, r->comm->rank) * r->cols;
    struct sn_exchange x = exchange_of(r, 0, false);
    bool good = true;
    for (int64_t i = 0; i < n; i++)
        r->mine[i] = value(r->comm->rank, i / r->cols, i % r->cols);
    memset(r->back, 0xff, (size_t)n * sizeof(float));
    for (int round = 0; round < sn_exchange_rounds(&x); round++)
        good = run(r, round, false) && window_is_right(r, round) && run(r, round, true) && good;
    return good && memcmp(r->back, r->mine, (size_t)n * sizeof(float)) == 0;
}

/* In two hops where the ranks are nodes of `node`. */
static void rows_go_on_nodes(struct sn_comm *c, int node, int64_t cols, int64_t most,
                             const char *what)
{
    int64_t longest = (most > 0 ? most * experts(c) : MOST_ROWS) + 1;
    size_t room = (size_t)(longest * cols);
    struct rows r = {.comm = c, .cols = cols, .node = node};
    struct dice d = {7, 0};
    bool good = true;
    r.mine = sn_alloc_n(room, sizeof(float));
    r.back = sn_alloc_n(room, sizeof(float));
    r.window = sn_alloc_n(room * (size_t)c->size, sizeof(float));
    r.transit = sn_alloc_n(room * (size_t)c->size, sizeof(float));
    for (int i = 0; i < 6 && r.mine && r.back && r.window && r.transit; i++) {
        draw_bounds(&r, &d, most);
        r.capacity = i % 2 == 0 ? longest * c->size : 3 + 2 * i;
        good = there_and_back(&r) && good;
    }
    point(c, good && r.mine && r.back && r.window && r.transit, what);
    sn_free(r.mine);
    sn_free(r.back);
    sn_free(r.window);
    sn_free(r.transit);
}

static void rows_go_there_and_back(struct sn_comm *c, int64_t cols, int64_t most, const char *what)
{
    rows_go_on_nodes(c, 0, cols, most, what);
}

static void rows_go_in_two_hops(struct sn_comm *c, int node)
{
    struct sn_grid g = test_grid(1, 1, c->size, 1);
    struct sn_err err = {0};
    g.experts = c->size;
    g.expert_node = node;
    if (c->ops->set_grid(c, &g, &err) != SN_OK)
        printf("# %s\n", err.text);
    rows_go_on_nodes(c, node, 5, 9, "two hops: short rows, a few for each expert");
    rows_go_on_nodes(c, node, 70000, 3, "two hops: several messages of a piece");
    rows_go_on_nodes(c, node, 300000, 2, "two hops: rows longer than a message");
    rows_go_on_nodes(c, node, 1000, 0, "two hops: all rows to one member");
}

/* --- shares of a window ----------------------------------------------------------------------- */

static bool post(struct sn_comm *c, const struct sn_transfer *t, const char *what)
{
    struct sn_err err = {0};
    bool good = c->ops->wait(c, c->ops->post(c, t), &err) == SN_OK;
    int64_t sent = take_sent(c), want = sn_exchange_sent_within(t->exchange) * t->n * 4;
    if (!good || sent != want)
        printf("# rank %d, %s: sent %lld bytes, and counts %lld %s\n", c->rank, what,
               (long long)sent, (long long)want, err.text);
    return good && sent == want;
}

/* Every rank is a share of one window of `rows`, of which some ranks may have none. */
static bool gathered_and_summed(struct sn_comm *c, int64_t rows, int64_t cols, float *window,
                                float *share)
{
    int32_t bounds[2] = {0, (int32_t)rows};
    struct sn_exchange x = {.bounds = bounds,
                            .members = 1,
                            .experts = 1,
                            .capacity = rows + 1,
                            .shares = c->size,
                            .share = c->rank};
    struct sn_exchange_rows mine = sn_exchange_share(&x, c->rank);
    struct sn_transfer t = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_TENSOR,
                            .dtype = SN_F32,
                            .n = cols,
                            .in = share,
                            .out = window,
                            .exchange = &x,
                            .label = "shares"};
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    t.staging = staging;
    bool good = staging != NULL;
    for (int64_t i = 0; i < mine.n * cols; i++)
        share[i] = value(1, mine.at + i / cols, i % cols);
    memset(window, 0xff, (size_t)((rows + 1) * cols) * sizeof(float));
    good = good && post(c, &t, "gather");
    for (int64_t i = 0; i < rows * cols; i++)
        good = good && window[i] == value(1, i / cols, i % cols);
    for (int64_t i = 0; i < rows * cols; i++) /* sums are whole numbers */
        window[i] = (float)(c->rank + 1) * value(1, i / cols, i % cols);
    memset(share, 0xff, (size_t)(mine.n * cols) * sizeof(float));
    t.kind = SN_REDUCE_SCATTER;
    t.in = window;
    t.out = share;
    x.back = true;
    good = post(c, &t, "sum") && good;
    float times = (float)(c->size * (c->size + 1) / 2);
    for (int64_t i = 0; i < mine.n * cols; i++)
        good = good && share[i] == times * value(1, mine.at + i / cols, i % cols);
    sn_free(staging);
    return good;
}

static void windows_are_shared(struct sn_comm *c, bool by_messages)
{
    static const struct {
        int64_t rows, cols;
    } of[] = {{0, 5}, {1, 5}, {7, 3}, {64, 48}, {11, 70000}, {3, 300000}};
    bool good = true;
    sn_engine_use_shm(c, !by_messages);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        size_t n = (size_t)((of[i].rows + 1) * of[i].cols);
        float *window = sn_alloc_n(n, sizeof(float)), *share = sn_alloc_n(n, sizeof(float));
        good = window && share && gathered_and_summed(c, of[i].rows, of[i].cols, window, share) &&
               good;
        sn_free(window);
        sn_free(share);
    }
    sn_engine_use_shm(c, true);
    point(c, good,
          by_messages ? "shares of a window, by messages" : "shares of a window, through memory");
}

int main(void)
{
    struct sn_comm *c;
    struct sn_err err = {0};
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("not ok - %s\n", err.text);
        return 1;
    }
    struct sn_grid g = test_grid(1, 1, c->size, 1);
    g.experts = c->size;
    if (c->ops->set_grid(c, &g, &err) != SN_OK)
        printf("# %s\n", err.text);
    rows_go_there_and_back(c, 5, 9, "short rows, a few for each expert");
    rows_go_there_and_back(c, 70000, 3, "long rows: several messages between two members");
    rows_go_there_and_back(c, 300000, 2, "rows longer than a message");
    rows_go_there_and_back(c, 1000, 0, "all rows to one member, none to the others");
    for (int node = 2; node < c->size; node++)
        if (c->size % node == 0)
            rows_go_in_two_hops(c, node);
    g = test_grid(c->size, 1, 1, 1);
    if (c->ops->set_grid(c, &g, &err) != SN_OK)
        printf("# %s\n", err.text);
    windows_are_shared(c, true);
    windows_are_shared(c, false);
    bool is_first = c->rank == 0;
    c->ops->destroy(c);
    return is_first ? tap_done() : tap_failed > 0;
}
