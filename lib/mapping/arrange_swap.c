/*
 * arrange_swap.c - nodes, then single ranks, change places while that makes it cheaper. Pairs are
 * tried in their order; a number of looks, not a clock, ends it early in large jobs.
 */
#include "lib/mapping/arrange_inner.h"

#include "lib/base/mem.h"

#include <string.h>

enum { LOOKS = 12 << 20, ROUNDS = 8 };

/* Which groups and edges a rank is in: group[first_group[r] .. first_group[r + 1] - 1]. */
struct swapping {
    struct sn_arrange_ground *g;
    int *process_of, *rank_of;
    int *first_group, *group, *first_edge, *edge;
    double *item_cost; /* of groups, then of edges */
    double *new_cost;  /* of what is touched now */
    int *touched;      /* items */
    int *mark, n_mark; /* of groups and edges: the trial that touched them last */
    int *by_node;      /* processes of node i: by_node[i * per_node ...] */
    int per_node;      /* 0: nodes differ */
    double cost;
};

static void swapping_fini(struct swapping *s)
{
    sn_free(s->rank_of);
    sn_free(s->first_group);
    sn_free(s->group);
    sn_free(s->first_edge);
    sn_free(s->edge);
    sn_free(s->item_cost);
    sn_free(s->new_cost);
    sn_free(s->touched);
    sn_free(s->mark);
    sn_free(s->by_node);
}

static bool allocate(struct swapping *s)
{
    size_t ranks = (size_t)s->g->ranks, both = (size_t)(s->g->n_groups + s->g->n_edges) + 1;
    s->rank_of = sn_alloc_n(ranks, sizeof(*s->rank_of));
    s->first_group = sn_alloc_n(ranks + 2, sizeof(*s->first_group));
    s->group = sn_alloc_n((size_t)s->g->n_members + 1, sizeof(*s->group));
    s->first_edge = sn_alloc_n(ranks + 2, sizeof(*s->first_edge));
    s->edge = sn_alloc_n(2 * (size_t)s->g->n_edges + 1, sizeof(*s->edge));
    s->item_cost = sn_alloc_n(both, sizeof(*s->item_cost));
    s->new_cost = sn_alloc_n(both, sizeof(*s->new_cost));
    s->touched = sn_alloc_n(both, sizeof(*s->touched));
    s->mark = sn_alloc_n(both, sizeof(*s->mark));
    s->by_node = sn_alloc_n(ranks, sizeof(*s->by_node));
    return s->rank_of && s->first_group && s->group && s->first_edge && s->edge && s->item_cost &&
           s->new_cost && s->touched && s->mark && s->by_node;
}

/* first[r + 2] counts, then first[r + 1] is where r's list grows to; afterwards first[r]. */
static void list_memberships(struct swapping *s)
{
    const struct sn_arrange_ground *g = s->g;
    for (int i = 0; i < g->n_members; i++)
        s->first_group[g->member[i] + 2]++;
    for (int i = 0; i < g->n_edges; i++) {
        s->first_edge[g->edge[i].from + 2]++;
        s->first_edge[g->edge[i].to + 2]++;
    }
    for (int r = 0; r < g->ranks; r++) {
        s->first_group[r + 2] += s->first_group[r + 1];
        s->first_edge[r + 2] += s->first_edge[r + 1];
    }
    for (int q = 0; q < g->n_groups; q++)
        for (int i = 0; i < g->group[q].n; i++)
            s->group[s->first_group[g->member[g->group[q].first + i] + 1]++] = q;
    for (int i = 0; i < g->n_edges; i++) {
        s->edge[s->first_edge[g->edge[i].from + 1]++] = i;
        s->edge[s->first_edge[g->edge[i].to + 1]++] = i;
    }
}

static void list_nodes(struct swapping *s)
{
    const struct sn_tree *t = s->g->tree;
    int *fill = s->g->touched, nodes = t->domains[0];
    s->per_node = t->n % nodes == 0 ? t->n / nodes : 0;
    memset(fill, 0, (size_t)nodes * sizeof(*fill));
    for (int p = 0; p < t->n && s->per_node; p++) {
        int node = t->domain[0][p];
        if (fill[node] == s->per_node) {
            s->per_node = 0;
            return;
        }
        s->by_node[node * s->per_node + fill[node]++] = p;
    }
}

static double cost_of(struct swapping *s, int item)
{
    int64_t crossing[SN_TREE_LEVELS] = {0};
    return item < s->g->n_groups
               ? sn_arrange_group_cost(s->g, item, s->process_of, crossing)
               : sn_arrange_edge_cost(s->g, item - s->g->n_groups, s->process_of, crossing);
}

static void touch(struct swapping *s, int item, int *n)
{
    if (s->mark[item] == s->n_mark)
        return;
    s->mark[item] = s->n_mark;
    s->touched[(*n)++] = item;
}

static void touch_rank(struct swapping *s, int rank, int *n)
{
    for (int i = s->first_group[rank]; i < s->first_group[rank + 1]; i++)
        touch(s, s->group[i], n);
    for (int i = s->first_edge[rank]; i < s->first_edge[rank + 1]; i++)
        touch(s, s->g->n_groups + s->edge[i], n);
}

static void exchange(struct swapping *s, const int *a, const int *b, int n)
{
    for (int i = 0; i < n; i++) {
        int x = s->rank_of[a[i]], y = s->rank_of[b[i]];
        s->rank_of[a[i]] = y;
        s->rank_of[b[i]] = x;
        s->process_of[x] = b[i];
        s->process_of[y] = a[i];
    }
}

/* The ranks of n processes with those of n others, if that is cheaper. */
static bool try_exchange(struct swapping *s, const int *a, const int *b, int n)
{
    int items = 0;
    double before = 0, after = 0;
    s->n_mark++;
    for (int i = 0; i < n; i++) {
        touch_rank(s, s->rank_of[a[i]], &items);
        touch_rank(s, s->rank_of[b[i]], &items);
    }
    exchange(s, a, b, n);
    for (int i = 0; i < items; i++) {
        before += s->item_cost[s->touched[i]];
        s->new_cost[i] = cost_of(s, s->touched[i]);
        after += s->new_cost[i];
    }
    if (after >= before) {
        exchange(s, a, b, n);
        return false;
    }
    for (int i = 0; i < items; i++)
        s->item_cost[s->touched[i]] = s->new_cost[i];
    s->cost += after - before;
    return true;
}

static bool is_over(const struct swapping *s)
{
    return s->g->looks > LOOKS;
}

/* Whole nodes of different leaves; under one leaf nothing would change. */
static bool swap_nodes(struct swapping *s)
{
    const struct sn_tree *t = s->g->tree;
    bool better = false;
    if (!s->per_node || t->levels < 2)
        return false;
    for (int a = 0; a < t->domains[0]; a++)
        for (int b = a + 1; b < t->domains[0] && !is_over(s); b++) {
            const int *x = s->by_node + a * s->per_node, *y = s->by_node + b * s->per_node;
            if (t->domain[1][*x] != t->domain[1][*y])
                better |= try_exchange(s, x, y, s->per_node);
        }
    return better;
}

static bool swap_ranks(struct swapping *s)
{
    const struct sn_tree *t = s->g->tree;
    bool better = false;
    for (int a = 0; a < t->n; a++)
        for (int b = a + 1; b < t->n && !is_over(s); b++)
            if (t->domain[0][a] != t->domain[0][b])
                better |= try_exchange(s, &a, &b, 1);
    return better;
}

enum sn_status sn_arrange_swap(struct sn_arrange_ground *g, int *process_of, double *cost,
                               struct sn_err *err)
{
    struct swapping s = {.g = g, .process_of = process_of, .cost = *cost};
    if (!allocate(&s)) {
        swapping_fini(&s);
        return sn_fail(err, SN_ENOMEM, "arrange: no memory to improve %d ranks", g->ranks);
    }
    list_memberships(&s);
    list_nodes(&s);
    for (int r = 0; r < g->ranks; r++)
        s.rank_of[process_of[r]] = r;
    for (int i = 0; i < g->n_groups + g->n_edges; i++)
        s.item_cost[i] = cost_of(&s, i);
    g->looks = 0;
    for (int i = 0; i < ROUNDS && !is_over(&s); i++) {
        bool nodes = swap_nodes(&s);
        if (!swap_ranks(&s) && !nodes)
            break;
    }
    *cost = sn_arrange_ground_cost(g, process_of);
    swapping_fini(&s);
    return SN_OK;
}
