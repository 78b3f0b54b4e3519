/*
 * test_comm_p2p.c - sends and receives: in order, beside each other and beside collectives.
 *
 * Rank 0 prints the points; another rank speaks only where it disagrees, and then exits with 1.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

enum { LARGE = 1 << 20 }; /* floats of 4 MiB */

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0) {
        tap_ok(good, "%s", what);
    } else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

static sn_request send_to(struct sn_comm *c, int peer, int tag, const float *x, int64_t n)
{
    struct sn_transfer t = {.kind = SN_SEND, .group = SN_GROUP_PIPELINE, .n = n, .in = x};
    t.peer = peer;
    t.tag = tag;
    return c->ops->post(c, &t);
}

static sn_request receive_from(struct sn_comm *c, int peer, int tag, float *x, int64_t n)
{
    struct sn_transfer t = {.kind = SN_RECV, .group = SN_GROUP_PIPELINE, .n = n, .out = x};
    t.peer = peer;
    t.tag = tag;
    return c->ops->post(c, &t);
}

static void fill(float *x, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 31 + seed * 1009) % 65521);
}

static bool holds(const float *x, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != (float)((i * 31 + seed * 1009) % 65521))
            return false;
    return true;
}

/* Everybody sends before anybody receives. */
static void a_ring_exchanges_both_ways_at_once(struct sn_comm *c)
{
    struct sn_err err;
    int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    float *out = sn_alloc_n(2 * (size_t)LARGE, 4), *in = sn_alloc_n(2 * (size_t)LARGE, 4);
    bool good = true;
    for (int round = 0; round < 2; round++) {
        int64_t bytes[SN_NAXES] = {0};
        fill(out, LARGE, 2 * c->rank + round);
        fill(out + LARGE, LARGE, 2 * c->rank + 1 + round);
        (void)send_to(c, right, 0, out, LARGE);
        (void)send_to(c, left, 1, out + LARGE, LARGE);
        (void)receive_from(c, right, 1, in + LARGE, LARGE);
        (void)receive_from(c, left, 0, in, LARGE);
        good = c->ops->drain(c, &err) == SN_OK && good;
        good = good && holds(in, LARGE, 2 * left + round) &&
               holds(in + LARGE, LARGE, 2 * right + 1 + round);
        c->ops->take_sent_bytes(c, bytes);
        for (int a = 0; a < SN_NAXES; a++)
            good = good && bytes[a] == (a == SN_AXIS_PIPELINE ? 2 * 4 * (int64_t)LARGE : 0);
    }
    point(c, good, "a ring exchanges 4 MiB in both directions at once, billed to its axis");
    sn_free(in);
    sn_free(out);
}

static void a_receive_holds_up_no_collective(struct sn_comm *c)
{
    enum { N = 30000 };
    struct sn_err err;
    float *x = sn_alloc_n(3 * N, 4);
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    int right = (c->rank + 1) % c->size, left = (c->rank + c->size - 1) % c->size;
    bool good = true;
    for (int k = 0; k < 10; k++) {
        sn_engine_use_shm(c, k % 2);
        fill(x, N, c->rank + k);
        for (int i = 0; i < N; i++)
            x[N + i] = (float)(i % 50 + c->rank);
        memset(x + 2 * N, 0, N * 4);
        sn_request got = receive_from(c, left, k, x + 2 * N, N); /* nobody has sent it yet */
        sn_request sum = post_sum(c, x + N, N, SN_F32, staging);
        good = c->ops->wait(c, sum, &err) == SN_OK && good; /* would hang */
        for (int i = 0; i < N; i++)
            good = good && x[N + i] == (float)(c->size * (i % 50) + c->size * (c->size - 1) / 2);
        sn_request sent = send_to(c, right, k, x, N);
        good = c->ops->wait(c, got, &err) == SN_OK && holds(x + 2 * N, N, left + k) && good;
        good = c->ops->wait(c, sent, &err) == SN_OK && good;
    }
    point(c, good, "a receive that waits for its send holds up no collective behind it");
    sn_free(staging);
    sn_free(x);
}

/* The first rank's collective waits for the last rank, which waits for a message
 * posted behind it. */
static void a_send_overtakes_a_collective(struct sn_comm *c)
{
    struct sn_err err;
    float x[1000], y[1000];
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    bool good = true;
    for (int k = 0; k < 4; k++) {
        sn_engine_use_shm(c, k % 2);
        fill(x, 1000, k);
        fill(y, 1000, k);
        if (c->rank == c->size - 1) {
            sn_request t = receive_from(c, 0, 9, x, 1000);
            good = c->ops->wait(c, t, &err) == SN_OK && holds(x, 1000, k) && good;
            (void)post_sum(c, y, 1000, SN_F32, staging);
        } else {
            (void)post_sum(c, y, 1000, SN_F32, staging);
            if (c->rank == 0)
                (void)send_to(c, c->size - 1, 9, x, 1000);
        }
        good = c->ops->drain(c, &err) == SN_OK && good;
    }
    point(c, good, "a send behind a collective is under way at once");
    sn_free(staging);
}

static void messages_match_by_tag_and_order(struct sn_comm *c)
{
    enum { N = 20, EACH = 5000 };
    struct sn_err err;
    sn_request t[2 * N];
    float *x = sn_alloc_n((size_t)N * EACH, 4);
    bool good = true;
    if (c->rank == 1)
        for (int i = 0; i < N; i++) { /* tags 0, 1, 2 in turn; lengths differ */
            fill(x + (int64_t)i * EACH, EACH - i, i);
            (void)send_to(c, 0, i % 3, x + (int64_t)i * EACH, EACH - i);
        }
    for (int tag = 2; c->rank == 0 && tag >= 0; tag--) /* all of the last tag first */
        for (int i = tag; i < N; i += 3)
            t[i] = receive_from(c, 1, tag, x + (int64_t)i * EACH, EACH - i);
    for (int i = 0; c->rank == 0 && i < N; i++)
        good = c->ops->wait(c, t[i], &err) == SN_OK && holds(x + (int64_t)i * EACH, EACH - i, i) &&
               good;
    good = c->ops->drain(c, &err) == SN_OK && good;
    good = c->ops->post(c, &(struct sn_transfer){.kind = SN_SEND,
                                                 .group = SN_GROUP_PIPELINE,
                                                 .peer = c->rank == 0}) == 0 &&
           good;
    point(c, good, "messages match by tag, those of one tag in order; an empty one is nothing");
    sn_free(x);
}

/* One pair, one tag, two groups; the second group's message is sent first. */
static void groups_do_not_mix(struct sn_comm *c)
{
    struct sn_err err;
    float a[64], b[64];
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    bool good = true;
    struct sn_transfer t = {.kind = SN_RECV, .n = 64, .peer = 1, .tag = SN_GROUP_WORLD};
    sn_engine_use_shm(c, false); /* collectives are messages too */
    if (c->rank == 0) {
        t.group = SN_GROUP_WORLD;
        t.out = a;
        (void)c->ops->post(c, &t);
        t.group = SN_GROUP_PIPELINE;
        t.out = b;
        (void)c->ops->post(c, &t);
    }
    float sum[64];
    fill(sum, 64, 0);
    sn_request s = post_sum(c, sum, 64, SN_F32, staging);
    good = c->ops->wait(c, s, &err) == SN_OK && sum[1] == (float)(31 * c->size) && good;
    if (c->rank == 1) {
        t.kind = SN_SEND;
        t.peer = 0;
        fill(a, 64, 1);
        fill(b, 64, 2);
        t.group = SN_GROUP_PIPELINE;
        t.in = b;
        (void)c->ops->post(c, &t);
        t.group = SN_GROUP_WORLD;
        t.in = a;
        (void)c->ops->post(c, &t);
    }
    good = c->ops->drain(c, &err) == SN_OK && good;
    if (c->rank == 0)
        good = holds(a, 64, 1) && holds(b, 64, 2) && good;
    sn_engine_use_shm(c, true);
    point(c, good, "messages of groups mix neither with each other nor with collectives'");
    sn_free(staging);
}

static void an_old_receive_does_not_fill_the_ring(struct sn_comm *c)
{
    struct sn_err err;
    float x[100] = {0}, y[4] = {1, 1, 1, 1};
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    uint64_t before = sn_mem_count();
    bool good = true;
    sn_request old = 0, last = 0;
    if (c->rank == 0)
        old = receive_from(c, 1, 77, x, 100);
    for (int i = 0; i < 3 * SN_COMM_QUEUE_DEPTH; i++) {
        y[0] = 1;
        last = post_sum(c, y, 4, SN_F32, staging);
        if (i % 64 == 0)
            good = c->ops->wait(c, last, &err) == SN_OK && good;
    }
    good = c->ops->wait(c, last, &err) == SN_OK && good;
    if (c->rank == 1) {
        fill(x, 100, 5);
        (void)send_to(c, 0, 77, x, 100);
    }
    good = c->ops->wait(c, old, &err) == SN_OK && (c->rank != 0 || holds(x, 100, 5)) && good;
    good = c->ops->drain(c, &err) == SN_OK && good;
    point(c, good && sn_mem_count() == before,
          "768 collectives pass a receive that stays in flight; nothing is allocated");
    sn_free(staging);
}

int main(void)
{
    struct sn_comm *c;
    struct sn_err err;
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("not ok - create: %s\n", err.text);
        return 1;
    }
    struct sn_grid g = test_grid(1, 1, 1, c->size);
    point(c, c->ops->set_grid(c, &g, &err) == SN_OK, "a pipeline has its groups");
    a_ring_exchanges_both_ways_at_once(c);
    a_receive_holds_up_no_collective(c);
    a_send_overtakes_a_collective(c);
    messages_match_by_tag_and_order(c);
    groups_do_not_mix(c);
    an_old_receive_does_not_fill_the_ring(c);
    bool is_first = c->rank == 0;
    c->ops->destroy(c);
    return is_first ? tap_done() : tap_failed > 0;
}
