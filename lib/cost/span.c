/*
 * span.c - how the groups of a grid lie on a machine's levels. Arithmetic, where the strides of the
 * grid and the sizes of domains divide each other; else every group is walked through.
 */
#include "lib/cost/price.h"

#include <limits.h>

/* The members of a group are first + sum of i_a stride_a, 0 <= i_a < size_a, the first axis being
 * the inner one, so that they ascend. A rank is a group's first where rank / lead_a % lead_size_a
 * is 0 on all axes. */
struct lattice {
    int axes;
    int size[2], stride[2];
    int lead[2], lead_size[2];
    bool tied; /* members lie further apart than the first ones of groups do */
    int ranks; /* of the grid */
};

static void add_axis(struct lattice *l, int size, int stride)
{
    if (size == 1)
        return;
    int at = l->axes++;
    if (at == 1 && stride < l->stride[0]) {
        l->size[1] = l->lead_size[1] = l->size[0];
        l->stride[1] = l->lead[1] = l->stride[0];
        at = 0;
    }
    l->size[at] = l->lead_size[at] = size;
    l->stride[at] = l->lead[at] = stride;
}

/* First and last stage: two members, and first ones are ranks of stage 0. */
static void add_ends(struct lattice *l, int stages, int stride)
{
    if (stages == 1)
        return;
    add_axis(l, 2, (stages - 1) * stride);
    l->lead[0] = stride;
    l->lead_size[0] = stages;
    l->tied = true;
}

/* Consecutive replicas, of which those of one sequence are neighbours: a node has some of these, or
 * all of several sequences (lib/config/ranks.c). */
static void add_replicas(struct lattice *l, const struct sn_grid *g, enum sn_group q)
{
    int node = g->replica_node, context = g->size[SN_AXIS_CONTEXT], data = g->size[SN_AXIS_DATA];
    int to = g->stride[SN_AXIS_CONTEXT], further = g->stride[SN_AXIS_DATA];
    if (node == 0)
        return;
    int inside = node < context ? node : context, copies = node / inside;
    if (q == SN_GROUP_REPLICA_NODE) {
        add_axis(l, copies, further);
        add_axis(l, inside, to);
    } else {
        add_axis(l, data / copies, further * copies);
        add_axis(l, context / inside, to * inside);
    }
}

static struct lattice lattice_of(const struct sn_grid *g, enum sn_group q)
{
    struct lattice l = {.ranks = sn_grid_ranks(g)};
    const enum sn_axis *axes;
    /* Rank distance between neighbours among the replicas: where experts are shared out, context is
     * the inner axis of the two (lib/config/rules_layout.c). */
    int replicas = g->stride[g->size[SN_AXIS_CONTEXT] > 1 ? SN_AXIS_CONTEXT : SN_AXIS_DATA];
    if (g->fold > 1) /* and tensor inside both */
        replicas = g->stride[SN_AXIS_TENSOR];
    int apart = sn_group_size(g, 0, SN_GROUP_EXPERT_DATA);
    if (q == SN_GROUP_EXPERT_DATA && g->experts <= 1 && g->fold <= 1)
        q = SN_GROUP_REPLICA;
    switch (q) {
    case SN_GROUP_WORLD:
        add_axis(&l, l.ranks, 1);
        break;
    case SN_GROUP_REPLICA_NODE:
    case SN_GROUP_REPLICA_RAIL:
        add_replicas(&l, g, q);
        break;
    case SN_GROUP_EXPERT:
        add_axis(&l, sn_group_size(g, 0, q), replicas * (g->experts_apart ? apart : 1));
        break;
    case SN_GROUP_EXPERT_NODE:
        add_axis(&l, sn_group_size(g, 0, q), replicas * (g->experts_apart ? apart : 1));
        break;
    case SN_GROUP_EXPERT_RAIL:
        add_axis(&l, sn_group_size(g, 0, q),
                 replicas * (g->experts_apart ? apart : 1) *
                     sn_group_size(g, 0, SN_GROUP_EXPERT_NODE));
        break;
    case SN_GROUP_EXPERT_DATA:
        add_axis(&l, sn_group_size(g, 0, q), replicas * (g->experts_apart ? 1 : g->experts));
        break;
    case SN_GROUP_KV:
        add_axis(&l, g->kv_copies, g->stride[SN_AXIS_TENSOR]);
        break;
    case SN_GROUP_TIED:
        add_ends(&l, g->size[SN_AXIS_PIPELINE], g->stride[SN_AXIS_PIPELINE]);
        break;
    default:
        for (int i = 0, n = sn_group_axes(q, &axes); i < n; i++)
            add_axis(&l, g->size[axes[i]], g->stride[axes[i]]);
    }
    return l;
}

/* Devices of a domain of level i; level -1: a device is a domain. */
static int64_t domain(const struct sn_machine *m, int i, int ranks)
{
    if (i < 0)
        return 1;
    return m->level[i].ranks > 0 && i < m->n_levels - 1 ? m->level[i].ranks : ranks;
}

/* Domains of `size` devices that every group touches, if that follows from divisibility; else 0. */
static int touched_by_all(const struct lattice *l, int64_t size)
{
    int64_t n = 1;
    for (int a = 0; a < l->axes; a++) {
        int64_t stride = l->stride[a], block = stride * l->size[a];
        if (stride % size == 0)
            n *= l->size[a]; /* each member in a domain of its own */
        else if (!l->tied && size % stride == 0 && block % size == 0)
            n *= block / size;
        else if (l->tied || size % block != 0)
            return 0;
    }
    return (int)n;
}

static bool by_arithmetic(const struct lattice *l, const struct sn_machine *m, int *at)
{
    int64_t inside = 1, members = 1;
    for (int a = 0; a < l->axes; a++)
        members *= l->size[a];
    for (int i = 0; i < m->n_levels; i++) {
        int64_t size = domain(m, i, l->ranks);
        int64_t touched = size >= l->ranks ? 1 : touched_by_all(l, size);
        if (touched == 0)
            return false;
        at[i] = (int)(members / touched / inside);
        inside *= at[i];
    }
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Consecutive ranks whose groups lie alike: a divisor of all strides and domains. */
static int64_t granule(const struct lattice *l, const struct sn_machine *m)
{
    int64_t g = l->ranks;
    for (int a = 0; a < l->axes; a++)
        g = gcd(gcd(g, l->stride[a]), l->lead[a]);
    for (int i = 0; i < m->n_levels - 1; i++)
        g = gcd(g, domain(m, i, l->ranks));
    return g;
}

/* Where the walk through one group is: at each level the domain it is in, and how many domains of
 * the level below it has touched there. Unsigned, because search walks through millions. */
struct walk {
    int levels;
    unsigned size[SN_MAX_LEVELS], in[SN_MAX_LEVELS], device;
    int touched[SN_MAX_LEVELS];
};

static void visit(struct walk *w, unsigned rank, int *at)
{
    bool moved = rank != w->device; /* to another domain of the level below */
    w->device = rank;
    for (int i = 0; i < w->levels; i++) {
        unsigned in = rank / w->size[i];
        bool is_new = in != w->in[i];
        w->touched[i] = is_new ? 1 : w->touched[i] + moved;
        w->in[i] = in;
        at[i] = w->touched[i] > at[i] ? w->touched[i] : at[i];
        moved = is_new;
    }
}

static bool is_first(const struct lattice *l, int rank)
{
    for (int a = 0; a < l->axes; a++)
        if (rank / l->lead[a] % l->lead_size[a] != 0)
            return false;
    return true;
}

/* Members in steps of whole innermost domains, where those divide an axis: returns how many members
 * of a group such a domain has, which is then known. */
static int coarsen(struct lattice *l, int64_t size)
{
    int touched = touched_by_all(l, size), members = 1;
    if (touched == 0)
        return 0;
    for (int a = 0; a < l->axes; a++) {
        members *= l->size[a];
        if (l->stride[a] % size == 0)
            continue;
        int64_t block = (int64_t)l->size[a] * l->stride[a];
        int64_t stride = block % size == 0 ? size : block;
        l->size[a] = l->lead_size[a] = (int)(block / stride);
        l->stride[a] = l->lead[a] = (int)stride;
    }
    return members / touched;
}

static void by_walking(struct lattice fine, const struct sn_machine *m, int *at)
{
    int in_domain = m->n_levels > 1 ? coarsen(&fine, domain(m, 0, fine.ranks)) : 0;
    const struct lattice *l = &fine;
    int step = (int)granule(l, m);
    int inner = l->axes > 0 ? l->size[0] : 1, outer = l->axes > 1 ? l->size[1] : 1;
    struct walk w = {.levels = m->n_levels};
    for (int i = 0; i < m->n_levels; i++) {
        w.size[i] = (unsigned)domain(m, i, l->ranks);
        at[i] = 1;
    }
    for (int r = 0; r < l->ranks; r += step) {
        if (!is_first(l, r))
            continue;
        for (int i = 0; i < m->n_levels; i++)
            w.in[i] = UINT_MAX;
        for (int o = 0; o < outer; o++)
            for (int k = 0; k < inner; k++)
                visit(&w, (unsigned)(r + o * l->stride[1] + k * l->stride[0]), at);
    }
    at[0] = in_domain > 0 ? in_domain : at[0];
}

/* The most ranks of first and last stages in one of the domains of `size` devices: stages follow
 * one another every lead[0] ranks. */
static int ends_in_domain(const struct lattice *l, int size)
{
    int stages = l->lead_size[0], block = l->lead[0] * stages, most = 0;
    if (l->lead[0] % size == 0 || stages == 2)
        return size;
    if (size % block == 0)
        return size / stages * 2;
    for (int from = 0; from < l->ranks; from += size) {
        int here = 0;
        for (int r = from; r < from + size && r < l->ranks; r++) {
            int at = r % block;
            here += at < l->lead[0] || at >= block - l->lead[0];
        }
        most = here > most ? here : most;
    }
    return most;
}

void sn_span_of(struct sn_span *out, const struct sn_machine *m, const struct sn_grid *g,
                enum sn_group q)
{
    struct lattice l = lattice_of(g, q);
    struct sn_span s = {.members = 1};
    for (int a = 0; a < l.axes; a++)
        s.members *= l.size[a];
    if (!by_arithmetic(&l, m, s.at))
        by_walking(l, m, s.at);
    for (int i = 0; i < m->n_levels; i++) {
        if (s.at[i] == 1)
            continue;
        int64_t below = domain(m, i - 1, l.ranks);
        below = below < l.ranks ? below : l.ranks;
        s.sharing[i] = l.tied ? ends_in_domain(&l, (int)below) : (int)below;
        s.hops[i] = l.stride[0] < s.sharing[i] ? l.stride[0] : s.sharing[i];
    }
    *out = s;
}

int sn_span_meeting(const struct sn_machine *m, int a, int b)
{
    int last = m->n_levels > 0 ? m->n_levels - 1 : 0;
    for (int i = 0; i < last; i++)
        if (m->level[i].ranks > 0 && a / m->level[i].ranks == b / m->level[i].ranks)
            return i;
    return last;
}

/* Members of one group, counted by the domains that they share. */
struct count {
    int64_t in[SN_MAX_LEVELS], members[SN_MAX_LEVELS]; /* the domain of level i, and those in it */
    int64_t square[SN_MAX_LEVELS]; /* sum over domains before of members x members */
};

static void close_domain(struct count *c, int i)
{
    c->square[i] += c->members[i] * c->members[i];
    c->members[i] = 0;
}

static void count_member(struct count *c, const struct sn_machine *m, const struct lattice *l,
                         int rank)
{
    for (int i = 0; i < m->n_levels; i++) {
        int64_t in = rank / domain(m, i, l->ranks);
        if (in != c->in[i])
            close_domain(c, i);
        c->in[i] = in;
        c->members[i]++;
    }
}

/* Pairs that meet at level i or further inside are those of members of one domain of level i. */
void sn_span_pairs(int64_t at[SN_MAX_LEVELS], const struct sn_machine *m, const struct sn_grid *g,
                   enum sn_group q, int stage)
{
    struct lattice l = lattice_of(g, q);
    struct count c = {.square = {0}};
    int inner = l.axes > 0 ? l.size[0] : 1, outer = l.axes > 1 ? l.size[1] : 1;
    int64_t senders = 0;
    for (int r = 0; r < l.ranks; r++) {
        bool here = q == SN_GROUP_WORLD || sn_grid_coord(g, r, SN_AXIS_PIPELINE) == stage;
        if (!here || !is_first(&l, r))
            continue;
        for (int o = 0; o < outer; o++)
            for (int k = 0; k < inner; k++)
                count_member(&c, m, &l, r + o * l.stride[1] + k * l.stride[0]);
        for (int i = 0; i < m->n_levels; i++)
            close_domain(&c, i);
        senders += (int64_t)inner * outer;
    }
    for (int i = 0; i < SN_MAX_LEVELS; i++)
        at[i] = i >= m->n_levels ? 0 : c.square[i] - (i > 0 ? c.square[i - 1] : senders);
}
