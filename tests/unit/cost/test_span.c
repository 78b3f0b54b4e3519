/*
 * test_span.c - how groups lie on a machine's levels, against counting every rank of every group.
 */
#include "lib/cost/price.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

enum { MAX_RANKS = 1024 };

static struct sn_machine machine_of(int n, const int *ranks)
{
    struct sn_machine m = {.n_levels = n};
    for (int i = 0; i < n; i++)
        m.level[i].ranks = ranks[i];
    return m;
}

static int64_t domain_of(const struct sn_machine *m, int level, int rank)
{
    if (level < 0)
        return rank;
    return level == m->n_levels - 1 ? 0 : rank / m->level[level].ranks;
}

/* Domains of level i-1 that members of the group of `rank` touch in its domain of level i. */
static int touched(const struct sn_machine *m, const struct sn_grid *g, enum sn_group q, int rank,
                   int i)
{
    bool seen[MAX_RANKS] = {false};
    int n = 0;
    for (int k = 0; k < sn_group_size(g, rank, q); k++) {
        int other = sn_group_member(g, rank, q, k);
        int64_t below = domain_of(m, i - 1, other);
        if (domain_of(m, i, other) != domain_of(m, i, rank) || seen[below])
            continue;
        seen[below] = true;
        n++;
    }
    return n;
}

/* Ranks of the domain of level i-1 of `rank` whose group goes on to another one in level i. */
static int sharing(const struct sn_machine *m, const struct sn_grid *g, enum sn_group q, int rank,
                   int i)
{
    int n = 0;
    for (int r = 0; r < sn_grid_ranks(g); r++)
        n += domain_of(m, i - 1, r) == domain_of(m, i - 1, rank) && touched(m, g, q, r, i) > 1;
    return n;
}

struct score {
    int spans, wrong_at, wrong_sharing, low_sharing, wrong_pairs;
};

static void check_pairs(struct score *s, const struct sn_machine *m, const struct sn_grid *g,
                        enum sn_group q)
{
    int stage = g->size[SN_AXIS_PIPELINE] / 2;
    int64_t got[SN_MAX_LEVELS], want[SN_MAX_LEVELS] = {0};
    sn_span_pairs(got, m, g, q, stage);
    for (int r = 0; r < sn_grid_ranks(g); r++) {
        if (q != SN_GROUP_WORLD && sn_grid_coord(g, r, SN_AXIS_PIPELINE) != stage)
            continue;
        for (int k = 0; k < sn_group_size(g, r, q); k++) {
            int other = sn_group_member(g, r, q, k);
            if (other != r)
                want[sn_span_meeting(m, r, other)]++;
        }
    }
    s->wrong_pairs += memcmp(got, want, sizeof(got)) != 0;
}

/* `even`: all sizes divide, so that every group leaves a domain where one does. */
static void check(struct score *s, const struct sn_machine *m, const struct sn_grid *g, bool even)
{
    for (int q = 0; q < SN_NGROUPS; q++) {
        struct sn_span got;
        int at[SN_MAX_LEVELS] = {0}, most[SN_MAX_LEVELS] = {0}, members = 1;
        sn_span_of(&got, m, g, (enum sn_group)q);
        for (int r = 0; r < sn_grid_ranks(g); r++) {
            int size = sn_group_size(g, r, (enum sn_group)q);
            members = size > members ? size : members;
            for (int i = 0; i < m->n_levels; i++) {
                int n = touched(m, g, (enum sn_group)q, r, i);
                at[i] = n > at[i] ? n : at[i];
                n = sn_grid_ranks(g) <= 64 ? sharing(m, g, (enum sn_group)q, r, i) : 0;
                most[i] = n > most[i] ? n : most[i];
            }
        }
        s->spans++;
        s->wrong_at += got.members != members;
        for (int i = 0; i < m->n_levels; i++) {
            s->wrong_at += got.at[i] != at[i];
            s->low_sharing += got.sharing[i] < most[i];
            s->wrong_sharing += even && sn_grid_ranks(g) <= 64 && got.sharing[i] != most[i];
        }
        if (q != SN_GROUP_PIPELINE && q != SN_GROUP_TIED)
            check_pairs(s, m, g, (enum sn_group)q);
    }
}

static struct sn_grid grid_of(const int size[SN_NGRID_AXES], int turn, int kv_copies)
{
    static const enum sn_axis orders[][SN_NGRID_AXES] = {
        {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT, SN_AXIS_DATA, SN_AXIS_PIPELINE},
        {SN_AXIS_TENSOR, SN_AXIS_PIPELINE, SN_AXIS_TENSOR_X, SN_AXIS_DATA, SN_AXIS_CONTEXT},
        {SN_AXIS_PIPELINE, SN_AXIS_DATA, SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT},
        {SN_AXIS_DATA, SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT, SN_AXIS_PIPELINE},
    };
    struct sn_grid g;
    int ranks = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        ranks *= size[a];
    (void)sn_grid_init(&g, ranks, size, orders[turn % 4], NULL);
    g.kv_copies = size[SN_AXIS_TENSOR] % kv_copies == 0 ? kv_copies : 1;
    return g;
}

static void report(const struct score *s, const char *what)
{
    tap_ok(s->spans > 100 && s->wrong_at == 0, "%s: %d spans; domains touched: %d wrong", what,
           s->spans, s->wrong_at);
    tap_ok(s->low_sharing == 0 && s->wrong_sharing == 0, "%s: sharing: %d too low, %d wrong", what,
           s->low_sharing, s->wrong_sharing);
    tap_ok(s->wrong_pairs == 0, "%s: pairs that meet at each level: %d wrong", what,
           s->wrong_pairs);
}

static void grids_that_divide_the_machine(void)
{
    static const int machines[][3] = {{4, 16, 0}, {8, 64, 0}, {2, 8, 0}, {1, 4, 0}};
    struct score s = {0};
    for (int k = 0; k < 4; k++) {
        struct sn_machine m = machine_of(3, machines[k]);
        for (int i = 0; i < 64; i++) {
            int size[] = {1 << i % 4, 1 << k % 2, 1 << i / 32 % 2, 1 << i / 4 % 4, 1 << i / 16 % 2};
            struct sn_grid g = grid_of(size, i + i / 4, 2);
            check(&s, &m, &g, true);
        }
    }
    report(&s, "grids that divide");
}

/* Replicas of a node, and those with the same place on each, in every order of the axes. */
static void replicas_on_machines(void)
{
    static const int machines[][3] = {{4, 16, 0}, {8, 64, 0}, {2, 8, 0}, {3, 12, 0}};
    struct score s = {0};
    for (int k = 0; k < 4; k++) {
        struct sn_machine m = machine_of(3, machines[k]);
        for (int i = 0; i < 64; i++) {
            int size[] = {1 << i / 4 % 2, 1, 1 << i / 8 % 3, 3 << i / 32 % 2, 1 << i % 2};
            struct sn_grid g = grid_of(size, i + i / 4, 1);
            int context = size[SN_AXIS_CONTEXT];
            g.replica_node = i % 3 == 0 && context > 1 ? context / 2
                             : i % 3 == 1              ? context
                                                       : 3 * context;
            check(&s, &m, &g, false);
        }
    }
    report(&s, "replicas of a node");
}

/* Groups that share experts out, over replicas or over tensor ranks too, in both orders. */
static void experts_on_machines(void)
{
    static const int machines[][3] = {{4, 16, 0}, {8, 64, 0}, {2, 8, 0}};
    struct score s = {0};
    for (int k = 0; k < 3; k++) {
        struct sn_machine m = machine_of(3, machines[k]);
        for (int i = 0; i < 64; i++) {
            int size[] = {1 << i % 4, 1, 1 << i / 32 % 2, 1 << i / 4 % 4, 1 << i / 16 % 2};
            struct sn_grid g = grid_of(size, 0, 1);
            g.fold = i / 3 % 2 ? size[SN_AXIS_TENSOR] : 1;
            g.experts = size[SN_AXIS_DATA] * (i % 5 > 2 ? g.fold : 1);
            g.experts_apart = i / 2 % 2;
            check(&s, &m, &g, true);
        }
    }
    report(&s, "grids with experts");
}

static void any_grid_on_any_machine(void)
{
    static const int machines[][3] = {{4, 20, 0}, {6, 108, 0}, {8, 24, 0}, {3, 15, 0}, {5, 10, 0}};
    struct score s = {0};
    srandom(1234);
    for (int k = 0; k < 5; k++) {
        struct sn_machine m = machine_of(3, machines[k]);
        for (int i = 0; i < 60; i++) {
            int size[SN_NGRID_AXES];
            for (int a = 0; a < SN_NGRID_AXES; a++)
                size[a] = 1 + (int)(random() % 4);
            struct sn_grid g = grid_of(size, i, 1 + (int)(random() % 3));
            check(&s, &m, &g, false);
        }
    }
    report(&s, "any grid (seed 1234)");
}

static void one_level_and_none(void)
{
    const int all[] = {0}, size[] = {2, 1, 1, 3, 2};
    struct sn_machine one = machine_of(1, all), none = {.n_levels = 0};
    struct sn_grid g = grid_of(size, 0, 1);
    struct sn_span s;
    sn_span_of(&s, &one, &g, SN_GROUP_DATA);
    tap_ok(s.members == 3 && s.at[0] == 3 && s.sharing[0] == 1, "one level: devices of one domain");
    sn_span_of(&s, &none, &g, SN_GROUP_DATA);
    tap_ok(s.members == 3, "a machine without links: members alone");
}

static void neighbours_share_less_than_members(void)
{
    const int levels[] = {8, 0}, size[] = {2, 1, 1, 1, 8};
    struct sn_machine m = machine_of(2, levels);
    struct sn_grid g = grid_of(size, 0, 1);
    struct sn_span s;
    sn_span_of(&s, &m, &g, SN_GROUP_PIPELINE);
    tap_ok(s.at[0] == 4 && s.at[1] == 2 && s.sharing[1] == 8 && s.hops[1] == 2,
           "four stages of two ranks on a node: two ranks send to the next node at a time");
}

int main(void)
{
    grids_that_divide_the_machine();
    experts_on_machines();
    replicas_on_machines();
    any_grid_on_any_machine();
    one_level_and_none();
    neighbours_share_less_than_members();
    return tap_done();
}
