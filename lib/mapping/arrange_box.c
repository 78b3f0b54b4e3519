/*
 * arrange_box.c - the grid cut into boxes of as many ranks as a domain holds.
 *
 * A box is a number of neighbours on each axis that divides the axis; the boxes of a level tile the
 * grid, and those of the level below tile them. All groups of a kind meet the boxes alike, so what
 * crosses a border follows from the box by arithmetic, and the sum over levels is the cost: all
 * chains of boxes are tried, the best few are laid out over the processes and counted.
 *
 * Where the domains of a level differ in size, boxes are as large as all sizes have in common, and
 * what is laid across borders depends on the order of the axes outside of them: all are tried.
 */
#include "lib/mapping/arrange_inner.h"

#include <string.h>

enum { KEPT = 6, COUNTED = 1 << 22 }; /* ranks that are laid out in all */

struct box {
    int size[SN_NGRID_AXES];
};

struct chain {
    struct box at[SN_TREE_LEVELS];
    double cost;
};

struct cutting {
    const struct sn_arrange_ground *g;
    int capacity[SN_TREE_LEVELS]; /* ranks of a box */
    bool is_even;                 /* all domains of each level have as many */
    struct chain now, best[KEPT];
    int n_best;
};

/* ---- what boxes cost ------------------------------------------------------------------------- */

static int common_divisor(int a, int b)
{
    while (b) {
        int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Member by member, of the group of rank 0. */
static int together_counted(const struct sn_grid *g, const struct box *b, enum sn_group q)
{
    int n = 0;
    for (int i = 0; i < sn_group_size(g, 0, q); i++) {
        int member = sn_group_member(g, 0, q, i);
        bool same = true;
        for (int a = 0; a < SN_NGRID_AXES; a++)
            same = same && sn_grid_coord(g, member, (enum sn_axis)a) < b->size[a];
        n += same;
    }
    return n;
}

/* Members of a group that lie in one box. */
static int together(const struct sn_grid *g, const struct box *b, enum sn_group q)
{
    const enum sn_axis *axes;
    int n_axes = sn_group_axes(q, &axes), n = 1;
    for (int i = 0; i < n_axes; i++)
        n *= b->size[axes[i]];
    if (n_axes > 0)
        return n;
    switch (q) {
    case SN_GROUP_REPLICA_NODE:
    case SN_GROUP_REPLICA_RAIL:
        return together_counted(g, b, q);
    case SN_GROUP_KV:
        return common_divisor(b->size[SN_AXIS_TENSOR], g->kv_copies);
    case SN_GROUP_WORLD:
        return 1;
    case SN_GROUP_EXPERT_DATA:
        return g->fold > 1 ? together_counted(g, b, q) : b->size[SN_AXIS_DATA];
    default:
        return (int)sn_group_axis(q) < SN_NGRID_AXES ? b->size[sn_group_axis(q)]
                                                     : together_counted(g, b, q);
    }
}

static double exchanged(const struct sn_grid *g, const struct box *b, const struct sn_flow_term *t)
{
    double groups = (double)sn_grid_ranks(g) / g->size[SN_AXIS_PIPELINE] / t->size;
    return groups * ((double)t->sum + (double)t->all * t->size) *
           (t->size - together(g, b, t->group));
}

static double sent(const struct sn_grid *g, const struct box *b, const struct sn_flow_send *s)
{
    enum sn_axis axis = sn_group_axis(s->group);
    double senders = (double)sn_grid_ranks(g) / g->size[SN_AXIS_PIPELINE];
    int size = g->size[axis], box = b->size[axis];
    if (s->to < 0) /* a ring: each box has one whose next is outside */
        return box < size ? senders / box * (double)s->bytes : 0;
    int to =
        s->group == SN_GROUP_TIED && s->to == 1 ? size - 1 : s->to; /* its members are the ends */
    return s->stage / box != to / box ? senders * (double)s->bytes : 0;
}

static double border(const struct sn_arrange_ground *g, const struct box *b)
{
    const struct sn_flow *f = g->flow;
    double bytes = 0;
    for (int i = 0; i < f->n_terms; i++)
        if (f->term[i].group != SN_GROUP_WORLD)
            bytes += exchanged(&f->grid, b, &f->term[i]);
    for (int i = 0; i < f->n_sends; i++)
        bytes += sent(&f->grid, b, &f->send[i]);
    return bytes;
}

/* ---- all chains of boxes --------------------------------------------------------------------- */

static void keep(struct cutting *c)
{
    int at = c->n_best;
    while (at > 0 && c->best[at - 1].cost > c->now.cost)
        at--;
    if (at == KEPT)
        return;
    c->n_best += c->n_best < KEPT;
    memmove(&c->best[at + 1], &c->best[at], (size_t)(c->n_best - 1 - at) * sizeof(c->best[0]));
    c->best[at] = c->now;
}

static void cut_level(struct cutting *c, int k);

/* All boxes of level k inside `outer` with `left` ranks to be had on the axes from `axis` on. */
static void cut_axis(struct cutting *c, int k, const struct box *outer, int axis, int left)
{
    struct box *b = &c->now.at[k];
    if (axis == SN_NGRID_AXES) {
        if (left != 1)
            return;
        double cost = sn_arrange_weight(k) * border(c->g, b), before = c->now.cost;
        if (c->n_best == KEPT && before + cost >= c->best[KEPT - 1].cost)
            return;
        c->now.cost += cost;
        cut_level(c, k - 1);
        c->now.cost = before;
        return;
    }
    for (int n = 1; n <= outer->size[axis] && n <= left; n++) {
        if (outer->size[axis] % n || left % n)
            continue;
        b->size[axis] = n;
        cut_axis(c, k, outer, axis + 1, left / n);
    }
}

static void cut_level(struct cutting *c, int k)
{
    struct box whole;
    if (k < 0) {
        keep(c);
        return;
    }
    memcpy(whole.size, c->g->flow->grid.size, sizeof(whole.size));
    cut_axis(c, k, k + 1 < c->g->tree->levels ? &c->now.at[k + 1] : &whole, 0, c->capacity[k]);
}

/* What the sizes of a level's domains have in common, and what those of further levels have. */
static void measure(struct cutting *c, int *count)
{
    const struct sn_tree *t = c->g->tree;
    int outer = c->g->ranks;
    c->is_even = true;
    for (int k = t->levels - 1; k >= 0; k--) {
        memset(count, 0, (size_t)t->domains[k] * sizeof(*count));
        for (int i = 0; i < t->n; i++)
            count[t->domain[k][i]]++;
        int common = outer;
        for (int d = 0; d < t->domains[k]; d++) {
            common = common_divisor(common, count[d]);
            c->is_even = c->is_even && count[d] == count[0];
        }
        c->capacity[k] = outer = common;
    }
}

/* ---- laying out ------------------------------------------------------------------------------ */

/* Processes in the order of the tree: those of a domain side by side, domains as they first
 * appear. A counting sort for each level, from the nodes outwards. */
static void walk_tree(int *sequence, int *room, int *start, const struct sn_tree *t)
{
    for (int i = 0; i < t->n; i++)
        sequence[i] = i;
    for (int k = 0; k < t->levels; k++) {
        const int *domain = t->domain[k];
        memset(start, 0, (size_t)t->n * sizeof(*start));
        for (int i = 0; i < t->n; i++)
            if (domain[i] + 1 < t->n)
                start[domain[i] + 1]++;
        for (int d = 1; d < t->n; d++)
            start[d] += start[d - 1];
        for (int i = 0; i < t->n; i++)
            room[start[domain[sequence[i]]]++] = sequence[i];
        memcpy(sequence, room, (size_t)t->n * sizeof(*sequence));
    }
}

/* Axes that are rare have no place of their own where they have one rank. */
static bool is_ordered(const struct sn_grid *g, int axis)
{
    return g->size[axis] > 1 || !sn_axis_row((enum sn_axis)axis)->is_rare;
}

static int orders_of(const struct sn_grid *g)
{
    int orders = 1, n = 0;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        orders *= is_ordered(g, a) ? ++n : 1;
    return orders;
}

/* The i-th order of the axes. */
static void order_of(enum sn_axis order[SN_NGRID_AXES], const struct sn_grid *g, int i)
{
    enum sn_axis left[SN_NGRID_AXES];
    int n = 0, at = 0;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        if (is_ordered(g, a))
            left[n++] = (enum sn_axis)a;
        else
            order[at++] = (enum sn_axis)a;
    for (; n > 0; n--) {
        int take = i % n;
        i /= n;
        order[at++] = left[take];
        memmove(&left[take], &left[take + 1], (size_t)(n - 1 - take) * sizeof(left[0]));
    }
}

/* The rank at a position: digits of the innermost boxes first. */
static int rank_at(const struct cutting *c, const struct chain *chain, const enum sn_axis *order,
                   int position)
{
    const struct sn_grid *g = &c->g->flow->grid;
    int coord[SN_NGRID_AXES] = {0}, step[SN_NGRID_AXES];
    for (int a = 0; a < SN_NGRID_AXES; a++)
        step[a] = 1;
    for (int k = 0; k <= c->g->tree->levels; k++) {
        const int *size = k < c->g->tree->levels ? chain->at[k].size : g->size;
        for (int i = 0; i < SN_NGRID_AXES; i++) {
            enum sn_axis a = order[i];
            int digits = size[a] / step[a];
            coord[a] += position % digits * step[a];
            position /= digits;
            step[a] = size[a];
        }
    }
    return sn_grid_rank(g, coord);
}

static void lay_out(const struct cutting *c, const struct chain *chain, const enum sn_axis *order,
                    const int *sequence, int *process_of)
{
    for (int i = 0; i < c->g->ranks; i++)
        process_of[rank_at(c, chain, order, i)] = sequence[i];
}

void sn_arrange_by_boxes(struct sn_arrange_ground *g, int *process_of, int *room)
{
    struct cutting c = {.g = g};
    enum sn_axis order[SN_NGRID_AXES], best_order[SN_NGRID_AXES];
    const struct chain *best_chain = NULL;
    double best = 0;
    int64_t counted = 0;
    measure(&c, g->touched);
    cut_level(&c, g->tree->levels - 1);
    walk_tree(room, process_of, g->touched, g->tree);
    for (int i = 0; i < c.n_best; i++)
        for (int o = 0; o < (c.is_even ? 1 : orders_of(&g->flow->grid)); o++) {
            if (best_chain && counted > COUNTED)
                break;
            order_of(order, &g->flow->grid, o);
            lay_out(&c, &c.best[i], order, room, process_of);
            double cost = sn_arrange_ground_cost(g, process_of);
            counted += g->ranks;
            if (best_chain && cost >= best)
                continue;
            best = cost;
            best_chain = &c.best[i];
            memcpy(best_order, order, sizeof(order));
        }
    lay_out(&c, best_chain, best_order, room, process_of);
}
