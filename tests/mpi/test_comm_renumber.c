/*
 * test_comm_renumber.c - every rank's bytes to one rank, and other numbers for all: afterwards
 * broadcasts, agreements, groups and their sums follow the new ones.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

enum { N = 300 };

static void point(const struct sn_comm *c, bool good, const char *what)
{
    if (c->rank == 0)
        tap_ok(good, "%s", what);
    else if (!good) {
        printf("not ok - %s (rank %d)\n", what, c->rank);
        tap_failed++;
    }
}

/* To every root, numbers that tell the sender. */
static void gathers(struct sn_comm *c, const char *what)
{
    bool good = true;
    int *all = sn_alloc_n((size_t)c->size, 3 * sizeof(*all));
    for (int root = 0; root < c->size; root++) {
        int mine[3] = {c->rank, root, 7 * c->rank};
        struct sn_err err;
        good = good && c->ops->gather(c, mine, sizeof(mine), c->rank == root ? all : NULL, root,
                                      &err) == SN_OK;
        for (int r = 0; r < c->size && c->rank == root; r++)
            good = good && all[3 * r] == r && all[3 * r + 1] == root && all[3 * r + 2] == 7 * r;
    }
    sn_free(all);
    point(c, good, what);
}

/* The sum over a group, in floats that do not add up exactly in another order. */
static float group_sum(struct sn_comm *c, enum sn_group q, void *staging)
{
    float v[N];
    struct sn_err err;
    for (int i = 0; i < N; i++)
        v[i] = 1.0f / (float)(1 + c->rank * N + i);
    struct sn_transfer t = {.kind = SN_ALL_REDUCE,
                            .group = q,
                            .dtype = SN_F32,
                            .n = N,
                            .out = v,
                            .staging = staging,
                            .label = "sum"};
    return c->ops->wait(c, c->ops->post(c, &t), &err) == SN_OK ? v[N / 2] : -1;
}

/* The same, of ranks that are asked nothing. */
static float expected_sum(const struct sn_grid *g, int rank, enum sn_group q)
{
    float sum = 0;
    for (int m = 0; m < sn_group_size(g, rank, q); m++)
        sum += 1.0f / (float)(1 + sn_group_member(g, rank, q, m) * N + N / 2);
    return sum;
}

static void renumbered(struct sn_comm *c, int was)
{
    int root_was = c->rank == 1 ? was : -1;
    struct sn_err err = {0};
    bool good = c->ops->broadcast(c, &root_was, sizeof(root_was), 1, &err) == SN_OK;
    point(c, good && root_was == c->size - 2, "a broadcast comes from the new rank 1");
    enum sn_status st = c->rank == 2 ? sn_fail(&err, SN_EIO, "disk") : SN_OK;
    st = c->ops->agree(c, st, &err);
    point(c, st == SN_EIO && strstr(err.text, "rank 2 (") != NULL, "blame falls on the new rank 2");
}

int main(void)
{
    struct sn_comm *c = NULL;
    struct sn_err err = {0};
    if (sn_comm_create_mpi(&c, &err) != SN_OK) {
        printf("not ok 1 - %s\n", err.text);
        return 1;
    }
    int was = c->rank;
    int *process_of = sn_alloc_n((size_t)c->size, sizeof(*process_of));
    for (int r = 0; r < c->size; r++)
        process_of[r] = c->size - 1 - r;
    gathers(c, "each rank gathers from all");
    bool good = c->ops->renumber(c, process_of, &err) == SN_OK;
    sn_free(process_of);
    point(c, good && c->rank == c->size - 1 - was && c->node_rank == c->rank, "ranks are reversed");
    gathers(c, "each new rank gathers from all");
    renumbered(c, was);
    struct sn_grid g = test_grid(2, 1, c->size / 2, 1);
    void *staging = sn_alloc((size_t)sn_collective_staging(c->size));
    good = c->ops->set_grid(c, &g, &err) == SN_OK;
    for (int q = 0; q <= SN_GROUP_DATA && good; q++)
        good =
            group_sum(c, (enum sn_group)q, staging) == expected_sum(&g, c->rank, (enum sn_group)q);
    point(c, good, "groups and the order of their sums are those of new ranks");
    sn_free(staging);
    int rank = c->rank;
    c->ops->destroy(c);
    if (rank == 0)
        return tap_done();
    return tap_failed ? 1 : 0;
}
