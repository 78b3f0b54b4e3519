#include "lib/mapping/arrange_inner.h"

#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <string.h>

enum { SMALL = 64, SHUFFLED = 24 };

/* ---- lists ----------------------------------------------------------------------------------- */

static bool is_of(const struct sn_grid *g, int stage, int rank)
{
    return stage < 0 || sn_grid_coord(g, rank, SN_AXIS_PIPELINE) == stage;
}

static int senders(const struct sn_grid *g, int stage)
{
    return sn_grid_ranks(g) / (stage < 0 ? 1 : g->size[SN_AXIS_PIPELINE]);
}

static void list_groups(struct sn_arrange_ground *g, const struct sn_flow_term *t)
{
    const struct sn_grid *grid = &g->flow->grid;
    for (int r = 0; r < g->ranks; r++) {
        if (!is_of(grid, t->stage, r) || sn_group_index(grid, r, t->group) != 0)
            continue;
        g->group[g->n_groups++] =
            (struct sn_arrange_group){.term = t, .first = g->n_members, .n = t->size};
        for (int i = 0; i < t->size; i++)
            g->member[g->n_members++] = sn_group_member(grid, r, t->group, i);
    }
}

static void list_edges(struct sn_arrange_ground *g, const struct sn_flow_send *s)
{
    const struct sn_grid *grid = &g->flow->grid;
    for (int r = 0; r < g->ranks; r++) {
        int index = sn_group_index(grid, r, s->group), size = sn_group_size(grid, r, s->group);
        int to = s->to >= 0 ? s->to : (index + 1) % size;
        if (is_of(grid, s->stage, r) && to != index)
            g->edge[g->n_edges++] =
                (struct sn_arrange_edge){r, sn_group_member(grid, r, s->group, to), s->bytes};
    }
}

static bool takes_part(const struct sn_flow_term *t, bool with_world)
{
    return with_world || t->group != SN_GROUP_WORLD;
}

static void ground_fini(struct sn_arrange_ground *g)
{
    sn_free(g->group);
    sn_free(g->edge);
    sn_free(g->member);
    sn_free(g->sum);
    sn_free(g->touched);
}

static enum sn_status ground_init(struct sn_arrange_ground *out, const struct sn_flow *f,
                                  const struct sn_tree *t, bool with_world, struct sn_err *err)
{
    struct sn_arrange_ground g = {.flow = f, .tree = t, .ranks = sn_grid_ranks(&f->grid)};
    size_t groups = 1, members = 1, edges = 1;
    for (int i = 0; i < f->n_terms; i++) {
        if (!takes_part(&f->term[i], with_world))
            continue;
        members += (size_t)senders(&f->grid, f->term[i].stage);
        groups += (size_t)(senders(&f->grid, f->term[i].stage) / f->term[i].size);
    }
    for (int i = 0; i < f->n_sends; i++)
        edges += (size_t)senders(&f->grid, f->send[i].stage);
    g.group = sn_alloc_n(groups, sizeof(*g.group));
    g.member = sn_alloc_n(members, sizeof(*g.member));
    g.edge = sn_alloc_n(edges, sizeof(*g.edge));
    g.sum = sn_alloc_n((size_t)g.ranks, sizeof(*g.sum));
    g.touched = sn_alloc_n((size_t)g.ranks, sizeof(*g.touched));
    if (!g.group || !g.member || !g.edge || !g.sum || !g.touched) {
        ground_fini(&g);
        return sn_fail(err, SN_ENOMEM, "arrange: no memory for the groups of %d ranks", g.ranks);
    }
    for (int i = 0; i < f->n_terms; i++)
        if (takes_part(&f->term[i], with_world))
            list_groups(&g, &f->term[i]);
    for (int i = 0; i < f->n_sends; i++)
        list_edges(&g, &f->send[i]);
    *out = g;
    return SN_OK;
}

/* ---- what an assignment costs ---------------------------------------------------------------- */

/* Members i and j of one domain, both ways: all + give + take of each ordered pair. */
static int64_t inside(const struct sn_flow_term *t, const struct sn_arrange_sum *s)
{
    return (s->members - 1) * (s->bytes + t->all * s->members);
}

double sn_arrange_group_cost(struct sn_arrange_ground *g, int group, const int *process_of,
                             int64_t crossing[SN_TREE_LEVELS])
{
    const struct sn_arrange_group *q = &g->group[group];
    const struct sn_flow_term *t = q->term;
    struct sn_arrange_sum whole = {.members = q->n, .bytes = t->sum};
    double cost = 0;
    int64_t total = inside(t, &whole);
    for (int k = 0; k < g->tree->levels; k++) {
        int n = 0;
        int64_t kept = 0;
        for (int i = 0; i < q->n; i++) {
            int d = g->tree->domain[k][process_of[g->member[q->first + i]]];
            if (g->sum[d].members++ == 0)
                g->touched[n++] = d;
            g->sum[d].bytes += t->give[i] + t->take[i];
        }
        for (int i = 0; i < n; i++) {
            kept += inside(t, &g->sum[g->touched[i]]);
            g->sum[g->touched[i]] = (struct sn_arrange_sum){0};
        }
        crossing[k] += total - kept;
        cost += sn_arrange_weight(k) * (double)(total - kept);
    }
    g->looks += q->n * (int64_t)g->tree->levels;
    return cost;
}

double sn_arrange_edge_cost(struct sn_arrange_ground *g, int edge, const int *process_of,
                            int64_t crossing[SN_TREE_LEVELS])
{
    const struct sn_arrange_edge *e = &g->edge[edge];
    int from = process_of[e->from], to = process_of[e->to];
    double cost = 0;
    for (int k = 0; k < g->tree->levels; k++) {
        if (g->tree->domain[k][from] == g->tree->domain[k][to])
            break; /* and in one domain of all further levels */
        crossing[k] += e->bytes;
        cost += sn_arrange_weight(k) * (double)e->bytes;
    }
    g->looks++;
    return cost;
}

static double count(struct sn_arrange_ground *g, const int *process_of,
                    int64_t crossing[SN_TREE_LEVELS])
{
    double cost = 0;
    memset(crossing, 0, SN_TREE_LEVELS * sizeof(*crossing));
    for (int i = 0; i < g->n_groups; i++)
        cost += sn_arrange_group_cost(g, i, process_of, crossing);
    for (int i = 0; i < g->n_edges; i++)
        cost += sn_arrange_edge_cost(g, i, process_of, crossing);
    return cost;
}

double sn_arrange_ground_cost(struct sn_arrange_ground *g, const int *process_of)
{
    int64_t crossing[SN_TREE_LEVELS];
    return count(g, process_of, crossing);
}

/* Every byte of a step, wherever it goes. */
static int64_t all_bytes(const struct sn_arrange_ground *g)
{
    int64_t total = 0;
    for (int i = 0; i < g->n_groups; i++) {
        const struct sn_flow_term *t = g->group[i].term;
        struct sn_arrange_sum whole = {.members = t->size, .bytes = t->sum};
        total += inside(t, &whole);
    }
    for (int i = 0; i < g->n_edges; i++)
        total += g->edge[i].bytes;
    return total;
}

enum sn_status sn_arrange_count(int64_t bytes[SN_TREE_LEVELS + 1], const struct sn_flow *f,
                                const struct sn_tree *t, const int *process_of, struct sn_err *err)
{
    struct sn_arrange_ground g;
    int64_t crossing[SN_TREE_LEVELS];
    SN_TRY(ground_init(&g, f, t, true, err));
    (void)count(&g, process_of, crossing);
    int64_t left = all_bytes(&g);
    for (int k = 0; k < t->levels; k++) {
        bytes[k] = left - crossing[k];
        left = crossing[k];
    }
    bytes[t->levels] = left;
    ground_fini(&g);
    return SN_OK;
}

double sn_arrange_cost(const int64_t *bytes, int levels)
{
    double cost = 0, crossing = 0;
    for (int k = levels - 2; k >= 0; k--) {
        crossing += (double)bytes[k + 1];
        cost += sn_arrange_weight(k) * crossing;
    }
    return cost;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* On each node, ranks and processes both ascend: it costs the same, and people can read it. */
static void sort_nodes(struct sn_arrange_ground *g, int *process_of)
{
    const int *node = g->tree->domain[0];
    int *next = g->touched, at = 0;
    for (int d = 0; d < g->tree->domains[0]; d++)
        next[d] = -1;
    for (int r = 0; r < g->ranks; r++) {
        int d = node[process_of[r]];
        for (at = next[d] + 1; node[at] != d; at++)
            ;
        process_of[r] = next[d] = at;
    }
}

/* The i-th shuffled order. */
static void shuffle(int *process_of, int ranks, int i)
{
    uint64_t drawn = 0;
    for (int r = 0; r < ranks; r++)
        process_of[r] = r;
    for (int r = ranks - 1; r > 0; r--) {
        int k = (int)(sn_rng_bits((uint64_t)i, drawn++) % (uint64_t)(r + 1)), p = process_of[r];
        process_of[r] = process_of[k];
        process_of[k] = p;
    }
}

/* What a beginning comes to; the best so far stays in `best`. */
static enum sn_status go_on(struct sn_arrange_ground *g, int *begin, int *best, double *least,
                            struct sn_err *err)
{
    double cost = sn_arrange_ground_cost(g, begin);
    SN_TRY(sn_arrange_swap(g, begin, &cost, err));
    if (cost < *least) {
        *least = cost;
        memcpy(best, begin, (size_t)g->ranks * sizeof(*best));
    }
    return SN_OK;
}

/* Beginnings: by boxes, as it is, and in small jobs some shuffled ones; each goes on by swaps. */
static enum sn_status search(int *process_of, const struct sn_flow *f, const struct sn_tree *t,
                             int *room, struct sn_err *err)
{
    struct sn_arrange_ground g;
    double least = INFINITY;
    SN_TRY(ground_init(&g, f, t, false, err));
    int *begin = room, *as_it_is = room + g.ranks;
    memcpy(as_it_is, process_of, (size_t)g.ranks * sizeof(*begin));
    sn_arrange_by_boxes(&g, begin, process_of);
    enum sn_status st = go_on(&g, begin, process_of, &least, err);
    if (st == SN_OK)
        st = go_on(&g, as_it_is, process_of, &least, err);
    for (int i = 0; st == SN_OK && g.ranks <= SMALL && i < SHUFFLED; i++) {
        shuffle(begin, g.ranks, i);
        st = go_on(&g, begin, process_of, &least, err);
    }
    if (st == SN_OK)
        sort_nodes(&g, process_of);
    ground_fini(&g);
    return st;
}

enum sn_status sn_arrange(int *process_of, struct sn_arrangement *out, const struct sn_flow *f,
                          const struct sn_tree *t, int wanted, struct sn_err *err)
{
    struct sn_arrangement a = {.levels = t->levels + 1, .is_identity = 1};
    int n = t->n;
    for (int i = 0; i < n; i++)
        process_of[i] = i;
    SN_TRY(sn_arrange_count(a.in_order, f, t, process_of, err));
    memcpy(a.arranged, a.in_order, sizeof(a.arranged));
    if (wanted && t->levels > 0) {
        int64_t bytes[SN_TREE_LEVELS + 1] = {0};
        int *room = sn_alloc_n(2 * (size_t)n, sizeof(*room));
        enum sn_status st = room ? search(process_of, f, t, room, err)
                                 : sn_fail(err, SN_ENOMEM, "arrange: no memory for %d ranks", n);
        sn_free(room);
        SN_TRY(st);
        SN_TRY(sn_arrange_count(bytes, f, t, process_of, err));
        a.is_identity = sn_arrange_cost(bytes, a.levels) >= sn_arrange_cost(a.in_order, a.levels) ||
                        bytes[t->levels] > a.in_order[t->levels];
        if (!a.is_identity)
            memcpy(a.arranged, bytes, sizeof(bytes));
    }
    for (int i = 0; i < n && a.is_identity; i++)
        process_of[i] = i;
    *out = a;
    return SN_OK;
}
