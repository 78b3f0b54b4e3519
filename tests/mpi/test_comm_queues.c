/*
 * test_comm_queues.c - collectives of one axis beside those of another: none holds up another's, ranks
 * may post them in any order between axes, and sums have the bits that they have one at a time.
 *
 * Rank 0 prints the points; another rank speaks only where it disagrees, and then exits with 1.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

enum { LARGE = 3 << 20, SMALL = 96, EACH = 10, MOST = 300000 };

static const char *const transport[] = {"messages", "the shared memory"};

struct setting {
    struct sn_comm *comm;
    struct sn_grid grid;
    char *staging;
};

static void point(const struct setting *s, bool good, const char *what, const char *how)
{
    if (s->comm->rank == 0) {
        tap_ok(good, "%s (%s)", what, how);
    } else if (!good) {
        printf("not ok - %s, %s (rank %d)\n", what, how, s->comm->rank);
        tap_failed++;
    }
}

static sn_request post(const struct setting *s, struct sn_transfer t)
{
    t.staging = test_staging(s->comm, s->staging, t.group);
    return s->comm->ops->post(s->comm, &t);
}

static bool wait(const struct setting *s, sn_request r)
{
    struct sn_err err;
    if (s->comm->ops->wait(s->comm, r, &err) == SN_OK)
        return true;
    printf("# %s\n", err.text);
    return false;
}

static bool all_are(const float *x, int64_t n, float want)
{
    for (int64_t i = 0; i < n; i++)
        if (x[i] != want)
            return false;
    return true;
}

static void set_all(float *x, int64_t n, float to)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = to;
}

/* data 2 x tensor 2. Data rank 0 posts a large sum over data ranks, then a small one over tensor
 * ranks. Data rank 1 posts the large one when it hears that data rank 0 is through with the small
 * one: in one queue that would never be. */
static void a_small_one_overtakes(const struct setting *s, const char *how)
{
    float *large = sn_alloc(LARGE * sizeof(float)), small[SMALL], word = 1;
    int data = sn_group_index(&s->grid, s->comm->rank, SN_GROUP_DATA);
    struct sn_transfer big = {.kind = SN_ALL_REDUCE, .group = SN_GROUP_DATA, .n = LARGE};
    struct sn_transfer little = {.kind = SN_ALL_REDUCE, .group = SN_GROUP_TENSOR, .n = SMALL};
    struct sn_transfer tell = {.kind = data ? SN_RECV : SN_SEND, .group = SN_GROUP_DATA, .n = 1};
    sn_request under_way = 0;
    set_all(large, LARGE, 1 + (float)data);
    set_all(small, SMALL, 3);
    big.out = large;
    little.out = small;
    tell.peer = 1 - data;
    tell.in = tell.out = &word;
    if (data == 0)
        under_way = post(s, big);
    bool good = wait(s, post(s, little)) && all_are(small, SMALL, 6);
    good = wait(s, post(s, tell)) && good;
    if (data == 1)
        under_way = post(s, big);
    good = wait(s, under_way) && all_are(large, LARGE, 3) && good;
    point(s, good, "a small sum over tensor ranks overtakes a large one over data ranks", how);
    sn_free(large);
}

/* --- many, in any order between axes ---------------------------------------------------------- */

static const enum sn_group groups[] = {SN_GROUP_TENSOR, SN_GROUP_CONTEXT,     SN_GROUP_EXPERT,
                                       SN_GROUP_DATA,   SN_GROUP_EXPERT_DATA, SN_GROUP_WORLD};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]), ALL = GROUPS * EACH };

/* The k-th collective of a group: the same on all ranks. */
static struct sn_transfer one_of(int group, int k)
{
    static const enum sn_collective kind[] = {SN_ALL_REDUCE, SN_REDUCE_SCATTER, SN_ALL_GATHER,
                                              SN_ALL_REDUCE, SN_ALL_TO_ALL};
    static const int64_t n[] = {40, 5003, MOST, 129, 20011};
    uint64_t bits = sn_rng_bits(sn_rng_key(20261126, "queues"), (uint64_t)(group * EACH + k));
    return (struct sn_transfer){
        .kind = kind[bits % 5], .group = groups[group], .n = n[(bits >> 8) % 5], .label = "one"};
}

static int64_t out_length(const struct setting *s, const struct sn_transfer *t)
{
    int size = sn_group_size(&s->grid, s->comm->rank, t->group);
    return t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL ? size * t->n : t->n;
}

static int64_t in_length(const struct setting *s, const struct sn_transfer *t)
{
    int size = sn_group_size(&s->grid, s->comm->rank, t->group);
    return t->kind == SN_REDUCE_SCATTER || t->kind == SN_ALL_TO_ALL ? size * t->n : t->n;
}

static uint64_t hash_of(const float *x, int64_t n)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    const unsigned char *p = (const void *)x;
    for (int64_t i = 0; i < n * 4; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* In which order this rank posts them: groups in any order, those of a queue in their own. */
static void shuffle(int order[ALL], const struct setting *s, int round)
{
    int left[SN_NAXES] = {0}, next[SN_NAXES] = {0}, of[SN_NAXES][ALL];
    uint64_t key = sn_rng_key((uint64_t)s->comm->rank, "shuffle");
    for (int i = 0; i < ALL; i++) { /* of a queue: group after group in turn, the same everywhere */
        int q = (int)sn_group_queue(groups[i % GROUPS]);
        of[q][left[q]++] = i % GROUPS * EACH + i / GROUPS;
    }
    for (int i = 0; i < ALL; i++) {
        int q = (int)(sn_rng_bits(key, (uint64_t)(round * ALL + i)) % SN_NAXES);
        while (next[q] == left[q])
            q = (q + 1) % SN_NAXES;
        order[i] = of[q][next[q]++];
    }
}

/* Its input is the same in each round, so the bits are, too. */
static void fill(const struct setting *s, int i, float *in, int64_t n)
{
    uint64_t key = sn_rng_key((uint64_t)(s->comm->rank * ALL + i), "fill");
    for (int64_t k = 0; k < n; k++)
        in[k] = (float)(sn_rng_bits(key, (uint64_t)k) >> 40) / (float)(1 << 20) - 8;
}

static void orders_differ_and_bits_do_not(const struct setting *s, const char *how)
{
    enum { ROUNDS = 3 };
    static float *in[ALL], *out[ALL];
    static uint64_t first[ALL];
    sn_request request[ALL];
    struct sn_err err;
    bool good = true, same = true;
    for (int i = 0; i < ALL; i++) {
        struct sn_transfer t = one_of(i / EACH, i % EACH);
        in[i] = sn_alloc((size_t)in_length(s, &t) * sizeof(float));
        out[i] = sn_alloc((size_t)out_length(s, &t) * sizeof(float));
        fill(s, i, in[i], in_length(s, &t));
    }
    for (int round = 0; round < ROUNDS; round++) {
        int order[ALL];
        shuffle(order, s, round);
        for (int k = 0; k < ALL; k++) {
            int i = round ? order[k] : k;
            struct sn_transfer t = one_of(i / EACH, i % EACH);
            t.in = in[i];
            t.out = out[i];
            request[i] = post(s, t);
            good = (round || wait(s, request[i])) && good; /* at first one at a time */
        }
        good = s->comm->ops->drain(s->comm, &err) == SN_OK && good;
        for (int i = 0; i < ALL; i++) {
            struct sn_transfer t = one_of(i / EACH, i % EACH);
            uint64_t h = hash_of(out[i], out_length(s, &t));
            same = same && (round == 0 || h == first[i]);
            first[i] = h;
        }
    }
    point(s, good, "ranks post collectives of different axes in different orders", how);
    point(s, same, "each has the bits that it has alone", how);
    for (int i = 0; i < ALL; i++) {
        sn_free(in[i]);
        sn_free(out[i]);
    }
}

static void on_grid(struct setting *s, struct sn_grid g)
{
    struct sn_err err;
    s->grid = g;
    point(s, s->comm->ops->set_grid(s->comm, &g, &err) == SN_OK, "groups are made", "of a grid");
    for (int windows = 0; windows < 2; windows++) {
        sn_engine_use_shm(s->comm, windows);
        if (s->comm->size == 4)
            a_small_one_overtakes(s, transport[windows]);
        orders_differ_and_bits_do_not(s, transport[windows]);
    }
    sn_engine_use_shm(s->comm, true);
}

int main(void)
{
    struct setting s = {0};
    struct sn_err err;
    if (sn_comm_create_mpi(&s.comm, &err) != SN_OK) {
        printf("not ok - create: %s\n", err.text);
        return 1;
    }
    s.staging = sn_alloc(SN_NAXES * (size_t)sn_collective_staging(s.comm->size));
    struct sn_grid all = test_grid(1, 1, s.comm->size, 1); /* one queue: a later grid needs more */
    struct sn_grid g = s.comm->size == 4 ? test_grid(2, 1, 2, 1) : test_grid(2, 2, 2, 1);
    g.experts = 2;
    point(&s, s.comm->ops->set_grid(s.comm, &all, &err) == SN_OK, "groups are made", "one queue");
    on_grid(&s, g);
    bool is_first = s.comm->rank == 0;
    sn_free(s.staging);
    s.comm->ops->destroy(s.comm);
    return is_first ? tap_done() : tap_failed > 0;
}
