#include "lib/layout/grid.h"

#include <stdio.h>
#include <string.h>

enum {
    TEXT = 160, /* of the names of all axes, and their sizes */
    GROUP_AXES = 2
};

/* --- axes: one row each ----------------------------------------------------------------------- */

#define AXIS_ROW(ID, key, ...) [SN_AXIS_##ID] = {.name = #key, __VA_ARGS__},
static const struct sn_axis_row axes[SN_NAXES] = {SN_AXES(AXIS_ROW)};
#undef AXIS_ROW

const struct sn_axis_row *sn_axis_row(enum sn_axis a)
{
    return &axes[a];
}

const char *sn_axis_name(enum sn_axis a)
{
    return axes[a].name;
}

bool sn_axis_find(enum sn_axis *out, const char *name)
{
    for (int a = 0; a < SN_NAXES; a++)
        if (strcmp(axes[a].name, name) == 0) {
            *out = (enum sn_axis)a;
            return true;
        }
    return false;
}

enum sn_axis sn_axis_told(int i)
{
    int a = 0;
    while (axes[a].told != i)
        a++;
    return (enum sn_axis)a;
}

bool sn_axis_is_told(enum sn_axis a, int size)
{
    return size > 1 || !axes[a].is_rare;
}

/* "tensor, context, data and pipeline"; returns buf. */
static const char *grid_axes(char buf[TEXT])
{
    size_t at = 0;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        at += (size_t)snprintf(buf + at, TEXT - at, "%s%s",
                               a == 0                  ? ""
                               : a < SN_NGRID_AXES - 1 ? ", "
                                                       : " and ",
                               axes[a].name);
    return buf;
}

/* "tensor 2 x context 1 x data 4 x pipeline 1"; returns buf. */
static const char *sizes_of(char buf[TEXT], const int size[SN_NGRID_AXES])
{
    size_t at = 0;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        if (sn_axis_is_told((enum sn_axis)a, size[a]))
            at += (size_t)snprintf(buf + at, TEXT - at, "%s%s %d", at ? " x " : "", axes[a].name,
                                   size[a]);
    return buf;
}

/* --- ranks ------------------------------------------------------------------------------------ */

static enum sn_status check_sizes(int ranks, const int size[SN_NGRID_AXES], struct sn_err *err)
{
    char text[TEXT];
    long product = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        if (size[a] < 1 || __builtin_mul_overflow(product, (long)size[a], &product))
            return sn_fail(err, SN_EINPUT, "layout.%s: %d; want 1..%d",
                           sn_axis_name((enum sn_axis)a), size[a], ranks);
    if (product != ranks)
        return sn_fail(err, SN_EINPUT, "layout: %s = %ld, but the job has %d ranks",
                       sizes_of(text, size), product, ranks);
    return SN_OK;
}

enum sn_status sn_grid_init(struct sn_grid *out, int ranks, const int size[SN_NGRID_AXES],
                            const enum sn_axis order[SN_NGRID_AXES], struct sn_err *err)
{
    SN_TRY(check_sizes(ranks, size, err));
    struct sn_grid g = {.kv_copies = 1, .experts = 1, .fold = 1};
    char text[TEXT];
    int stride = 1;
    for (int i = 0; i < SN_NGRID_AXES; i++) {
        enum sn_axis a = order[i];
        if (a >= SN_NGRID_AXES || g.stride[a] != 0)
            return sn_fail(err, SN_EINPUT,
                           "layout.axis_order: %s stands twice or is no axis of the rank grid; "
                           "want %s once each",
                           sn_axis_name(a), grid_axes(text));
        g.size[a] = size[a];
        g.stride[a] = stride;
        stride *= size[a];
    }
    *out = g;
    return SN_OK;
}

int sn_grid_ranks(const struct sn_grid *g)
{
    int n = 1;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        n *= g->size[a];
    return n;
}

int sn_grid_coord(const struct sn_grid *g, int rank, enum sn_axis a)
{
    return rank / g->stride[a] % g->size[a];
}

int sn_grid_rank(const struct sn_grid *g, const int coord[SN_NGRID_AXES])
{
    int rank = 0;
    for (int a = 0; a < SN_NGRID_AXES; a++)
        rank += coord[a] * g->stride[a];
    return rank;
}

int sn_grid_peers(const struct sn_grid *g, int rank, enum sn_axis a, int *ranks)
{
    int first = rank - sn_grid_coord(g, rank, a) * g->stride[a];
    for (int i = 0; i < g->size[a]; i++)
        ranks[i] = first + i * g->stride[a];
    return g->size[a];
}

/* --- groups: one row each --------------------------------------------------------------------- */

struct group_row {
    const char *name;
    enum sn_axis axis;           /* billed to */
    int n_axes;                  /* members are all that differ on these, */
    enum sn_axis of[GROUP_AXES]; /* the outermost first */
};

#define AXIS_GROUP(ID, key, ...) [SN_GROUP_##ID] = {#key, SN_AXIS_##ID, 1, {SN_AXIS_##ID}},
static const struct group_row groups[SN_NGROUPS] = {
    SN_GRID_AXES(AXIS_GROUP) /* each has a comma */
        [SN_GROUP_REPLICA] = {"data x context", SN_AXIS_DATA, 2, {SN_AXIS_DATA, SN_AXIS_CONTEXT}},
    [SN_GROUP_REPLICA_NODE] = {"data node", SN_AXIS_DATA},
    [SN_GROUP_REPLICA_RAIL] = {"data rail", SN_AXIS_DATA},
    [SN_GROUP_KV] = {"kv copies", SN_AXIS_TENSOR},
    [SN_GROUP_TIED] = {"tied embedding", SN_AXIS_PIPELINE},
    [SN_GROUP_EXPERT] = {"expert", SN_AXIS_EXPERT},
    [SN_GROUP_EXPERT_DATA] = {"expert data", SN_AXIS_DATA},
    [SN_GROUP_EXPERT_NODE] = {"expert node", SN_AXIS_EXPERT},
    [SN_GROUP_EXPERT_RAIL] = {"expert rail", SN_AXIS_EXPERT},
    [SN_GROUP_WORLD] = {"world", SN_AXIS_WORLD},
};
#undef AXIS_GROUP

enum sn_axis sn_group_axis(enum sn_group q)
{
    return groups[q].axis;
}

enum sn_axis sn_group_queue(enum sn_group q)
{
    return axes[groups[q].axis].is_of_step ? SN_AXIS_DATA : groups[q].axis;
}

/* Ranks differ in the tied group alone, which is in a queue with all ranks'. */
int sn_grid_queues(const struct sn_grid *g, enum sn_axis before)
{
    unsigned has = 0;
    for (int q = 0; q < SN_NGROUPS; q++)
        if (sn_group_queue((enum sn_group)q) < before && sn_group_size(g, 0, (enum sn_group)q) > 1)
            has |= 1u << sn_group_queue((enum sn_group)q);
    return __builtin_popcount(has);
}

const char *sn_group_name(enum sn_group q)
{
    return groups[q].name;
}

int sn_group_axes(enum sn_group q, const enum sn_axis **of)
{
    *of = groups[q].of;
    return groups[q].n_axes;
}

bool sn_group_is_even(enum sn_group q)
{
    bool even = groups[q].n_axes > 0;
    for (int i = 0; i < groups[q].n_axes; i++)
        even = even && axes[groups[q].of[i]].is_even;
    return even;
}

/* Of a group of axes. */
static int axes_size(const struct sn_grid *g, enum sn_group q)
{
    int n = 1;
    for (int i = 0; i < groups[q].n_axes; i++)
        n *= g->size[groups[q].of[i]];
    return n;
}

static int axes_index(const struct sn_grid *g, int rank, enum sn_group q)
{
    int index = 0;
    for (int i = 0; i < groups[q].n_axes; i++)
        index = index * g->size[groups[q].of[i]] + sn_grid_coord(g, rank, groups[q].of[i]);
    return index;
}

/* Replicas (data x context, as SN_GROUP_REPLICA numbers them) are a grid of their own: experts x
 * what is left. */
static int replicas(const struct sn_grid *g)
{
    return axes_size(g, SN_GROUP_REPLICA);
}

static int fold(const struct sn_grid *g)
{
    return g->fold > 1 ? g->fold : 1;
}

/* Ranks with tokens of their own. */
static int token_ranks(const struct sn_grid *g)
{
    return replicas(g) * fold(g);
}

static int expert_ranks(const struct sn_grid *g)
{
    return g->experts > 1 ? g->experts : 1;
}

/* Members of an expert group on one node, and nodes: 1 where exchanges are flat. */
static int node_members(const struct sn_grid *g)
{
    return g->expert_node > 0 ? g->expert_node : 1;
}

static int rail_members(const struct sn_grid *g)
{
    return g->expert_node > 0 ? expert_ranks(g) / g->expert_node : 1;
}

static int expert_index(const struct sn_grid *g, int at)
{
    return g->experts_apart ? at / (token_ranks(g) / expert_ranks(g)) : at % expert_ranks(g);
}

static int expert_data_index(const struct sn_grid *g, int at)
{
    return g->experts_apart ? at % (token_ranks(g) / expert_ranks(g)) : at / expert_ranks(g);
}

static int token_rank_of(const struct sn_grid *g, int expert, int expert_data)
{
    return g->experts_apart ? expert * (token_ranks(g) / expert_ranks(g)) + expert_data
                            : expert_data * expert_ranks(g) + expert;
}

static bool has_tied_copy(const struct sn_grid *g, int rank)
{
    int stage = sn_grid_coord(g, rank, SN_AXIS_PIPELINE), last = g->size[SN_AXIS_PIPELINE] - 1;
    return last > 0 && (stage == 0 || stage == last);
}

int sn_group_size(const struct sn_grid *g, int rank, enum sn_group q)
{
    switch (q) {
    case SN_GROUP_REPLICA_NODE:
        return g->replica_node > 0 ? g->replica_node : 1;
    case SN_GROUP_REPLICA_RAIL:
        return g->replica_node > 0 ? replicas(g) / g->replica_node : 1;
    case SN_GROUP_EXPERT:
        return expert_ranks(g);
    case SN_GROUP_EXPERT_DATA:
        return token_ranks(g) / expert_ranks(g);
    case SN_GROUP_EXPERT_NODE:
        return node_members(g);
    case SN_GROUP_EXPERT_RAIL:
        return rail_members(g);
    case SN_GROUP_KV:
        return g->kv_copies;
    case SN_GROUP_TIED:
        return has_tied_copy(g, rank) ? 2 : 1;
    case SN_GROUP_WORLD:
        return sn_grid_ranks(g);
    default:
        return axes_size(g, q);
    }
}

static int replica_index(const struct sn_grid *g, int rank)
{
    return axes_index(g, rank, SN_GROUP_REPLICA);
}

static int token_rank(const struct sn_grid *g, int rank)
{
    int tensor = fold(g) > 1 ? sn_grid_coord(g, rank, SN_AXIS_TENSOR) : 0;
    return replica_index(g, rank) * fold(g) + tensor;
}

int sn_group_index(const struct sn_grid *g, int rank, enum sn_group q)
{
    switch (q) {
    case SN_GROUP_REPLICA_NODE:
        return g->replica_node > 0 ? replica_index(g, rank) % g->replica_node : 0;
    case SN_GROUP_REPLICA_RAIL:
        return g->replica_node > 0 ? replica_index(g, rank) / g->replica_node : 0;
    case SN_GROUP_EXPERT:
        return expert_index(g, token_rank(g, rank));
    case SN_GROUP_EXPERT_DATA:
        return expert_data_index(g, token_rank(g, rank));
    case SN_GROUP_EXPERT_NODE:
        return expert_index(g, token_rank(g, rank)) % node_members(g);
    case SN_GROUP_EXPERT_RAIL:
        return g->expert_node > 0 ? expert_index(g, token_rank(g, rank)) / g->expert_node : 0;
    case SN_GROUP_KV:
        return sn_grid_coord(g, rank, SN_AXIS_TENSOR) % g->kv_copies;
    case SN_GROUP_TIED:
        return has_tied_copy(g, rank) && sn_grid_coord(g, rank, SN_AXIS_PIPELINE) > 0;
    case SN_GROUP_WORLD:
        return rank;
    default:
        return axes_index(g, rank, q);
    }
}

/* The rank that `rank` would be with another coordinate on one axis. */
static int moved(const struct sn_grid *g, int rank, enum sn_axis a, int to)
{
    return rank + (to - sn_grid_coord(g, rank, a)) * g->stride[a];
}

/* Member i of a group of axes. */
static int moved_on_axes(const struct sn_grid *g, int rank, enum sn_group q, int i)
{
    for (int k = groups[q].n_axes - 1; k >= 0; k--) {
        rank = moved(g, rank, groups[q].of[k], i % g->size[groups[q].of[k]]);
        i /= g->size[groups[q].of[k]];
    }
    return rank;
}

static int with_tokens(const struct sn_grid *g, int rank, int at)
{
    if (fold(g) > 1)
        rank = moved(g, rank, SN_AXIS_TENSOR, at % fold(g));
    return sn_group_member(g, rank, SN_GROUP_REPLICA, at / fold(g));
}

/* Member i of those of a REPLICA group on the rank's node, or with its place on each. */
static int near_replica(const struct sn_grid *g, int rank, enum sn_group q, int i)
{
    int own = replica_index(g, rank), node = g->replica_node;
    if (node == 0)
        return rank;
    return sn_group_member(g, rank, SN_GROUP_REPLICA,
                           q == SN_GROUP_REPLICA_NODE ? own / node * node + i
                                                      : i * node + own % node);
}

int sn_group_member(const struct sn_grid *g, int rank, enum sn_group q, int i)
{
    int tensor = sn_grid_coord(g, rank, SN_AXIS_TENSOR);
    int at = token_rank(g, rank), own = expert_index(g, at), node = node_members(g);
    switch (q) {
    case SN_GROUP_REPLICA_NODE:
    case SN_GROUP_REPLICA_RAIL:
        return near_replica(g, rank, q, i);
    case SN_GROUP_EXPERT_NODE:
        return sn_group_member(g, rank, SN_GROUP_EXPERT, own / node * node + i);
    case SN_GROUP_EXPERT_RAIL:
        if (g->expert_node == 0)
            return rank;
        return sn_group_member(g, rank, SN_GROUP_EXPERT, i * node + own % node);
    case SN_GROUP_EXPERT:
        return with_tokens(g, rank, token_rank_of(g, i, expert_data_index(g, at)));
    case SN_GROUP_EXPERT_DATA:
        return with_tokens(g, rank, token_rank_of(g, expert_index(g, at), i));
    case SN_GROUP_KV:
        return moved(g, rank, SN_AXIS_TENSOR, tensor / g->kv_copies * g->kv_copies + i);
    case SN_GROUP_TIED:
        if (!has_tied_copy(g, rank))
            return rank;
        return moved(g, rank, SN_AXIS_PIPELINE, i ? g->size[SN_AXIS_PIPELINE] - 1 : 0);
    case SN_GROUP_WORLD:
        return i;
    default:
        return moved_on_axes(g, rank, q, i);
    }
}
