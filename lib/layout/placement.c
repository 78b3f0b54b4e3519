#include "lib/layout/placement.h"

/* --- placements ------------------------------------------------------------------------------- */

static bool equal(struct sn_axis_placement a, struct sn_axis_placement b)
{
    return a.kind == b.kind && (a.kind != SN_SHARD || a.dim == b.dim);
}

bool sn_placement_equal(struct sn_placement a, struct sn_placement b)
{
    for (int i = 0; i < SN_MESH_AXES; i++)
        if (!equal(a.axis[i], b.axis[i]))
            return false;
    return true;
}

struct sn_placement sn_placement_on(const struct sn_mesh *m, struct sn_placement p)
{
    for (int a = 0; a < SN_MESH_AXES; a++)
        if (a >= m->n_axes || m->axis[a].size == 1)
            p.axis[a] = (struct sn_axis_placement){SN_REPLICATE, SN_ROWS};
    return p;
}

static struct sn_axis_placement gradient_of(struct sn_axis_placement p)
{
    static const enum sn_placement_kind kind[SN_NPLACEMENT_KINDS] = {
        [SN_REPLICATE] = SN_REPLICATE,
        [SN_REPLICATE_PARTIAL_GRAD] = SN_PARTIAL,
        [SN_SHARD] = SN_SHARD,
        [SN_PARTIAL] = SN_REPLICATE_PARTIAL_GRAD};
    return (struct sn_axis_placement){kind[p.kind], p.dim};
}

struct sn_placement sn_placement_of_gradient(struct sn_placement p)
{
    for (int a = 0; a < SN_MESH_AXES; a++)
        p.axis[a] = gradient_of(p.axis[a]);
    return p;
}

bool sn_placement_cuts(struct sn_placement p, int axis, enum sn_dim dim)
{
    return p.axis[axis].kind == SN_SHARD && p.axis[axis].dim == dim;
}

int64_t sn_placement_local(const struct sn_mesh *m, struct sn_placement p, enum sn_dim dim,
                           int64_t n)
{
    for (int a = 0; a < m->n_axes; a++)
        n /= sn_placement_cuts(p, a, dim) ? m->axis[a].size : 1;
    return n;
}

unsigned sn_placement_groups(const struct sn_mesh *m, struct sn_placement p,
                             enum sn_placement_kind kind)
{
    unsigned groups = 0;
    for (int a = 0; a < m->n_axes; a++)
        groups |= p.axis[a].kind == kind ? 1u << m->axis[a].group : 0;
    return groups;
}

/* --- one axis --------------------------------------------------------------------------------- */

static enum sn_move move(struct sn_axis_placement have, struct sn_axis_placement want)
{
    static const enum sn_move table[SN_NPLACEMENT_KINDS][SN_NPLACEMENT_KINDS] = {
        /* clang-format off */
        /* have \ want */
        /*                REPLICATE           .. PARTIAL_GRAD     SHARD                   PARTIAL */
        [SN_REPLICATE] = {SN_KEEP,            SN_KEEP,            SN_SLICE,               SN_NEVER},
        [SN_REPLICATE_PARTIAL_GRAD]
                       = {SN_NEVER,           SN_KEEP,            SN_NEVER,               SN_NEVER},
        [SN_SHARD]     = {SN_MOVE_ALL_GATHER, SN_MOVE_ALL_GATHER, SN_KEEP,                SN_NEVER},
        [SN_PARTIAL]   = {SN_MOVE_ALL_REDUCE, SN_MOVE_ALL_REDUCE, SN_MOVE_REDUCE_SCATTER, SN_KEEP},
        /* clang-format on */
    };
    bool turns = have.kind == SN_SHARD && want.kind == SN_SHARD && have.dim != want.dim;
    return turns ? SN_MOVE_ALL_TO_ALL : table[have.kind][want.kind];
}

struct sn_axis_move sn_axis_move(struct sn_axis_placement have, struct sn_axis_placement want)
{
    return (struct sn_axis_move){.forward = move(have, want),
                                 .backward = move(gradient_of(want), gradient_of(have)),
                                 .from = have.dim,
                                 .to = want.dim};
}

/* --- all axes --------------------------------------------------------------------------------- */

/* The axes that cut a dimension, the outermost first. */
struct nest {
    int axis[SN_MESH_AXES], n;
};

static void enters(struct nest *of, int axis)
{
    of->axis[of->n++] = axis;
}

/* Only the innermost can: what the others hold is in pieces. */
static bool leaves(struct nest *of, int axis)
{
    bool innermost = of->n > 0 && of->axis[of->n - 1] == axis;
    of->n -= innermost;
    return innermost;
}

static bool is_in_order(const struct nest *of)
{
    for (int i = 1; i < of->n; i++)
        if (of->axis[i] < of->axis[i - 1])
            return false;
    return true;
}

/* Is `want` reached, when the axes are moved in this order? Backward it is the same question: the
 * dimensions that are cut are those of the value. */
static bool is_reached(const struct sn_axis_move *moves, int n, struct sn_placement have,
                       struct sn_placement want)
{
    struct nest nest[SN_NDIMS] = {0};
    for (int a = 0; a < SN_MESH_AXES; a++)
        if (have.axis[a].kind == SN_SHARD)
            enters(&nest[have.axis[a].dim], a);
    for (int i = 0; i < n; i++) {
        int a = moves[i].axis;
        if (have.axis[a].kind == SN_SHARD && !leaves(&nest[moves[i].from], a))
            return false;
        if (want.axis[a].kind == SN_SHARD)
            enters(&nest[moves[i].to], a);
    }
    return is_in_order(&nest[SN_ROWS]) && is_in_order(&nest[SN_COLS]);
}

/* Small numbers go first. */
static int turn_of(const struct sn_axis_move *m)
{
    static const int turn[] = {[SN_SLICE] = 0,
                               [SN_MOVE_REDUCE_SCATTER] = 0,
                               [SN_MOVE_ALL_TO_ALL] = 1,
                               [SN_MOVE_ALL_REDUCE] = 2,
                               [SN_KEEP] = 2,
                               [SN_MOVE_ALL_GATHER] = 3};
    bool gathers = m->forward == SN_MOVE_ALL_GATHER;
    return turn[m->forward] * SN_MESH_AXES + (gathers ? SN_MESH_AXES - 1 - m->axis : m->axis);
}

static void insert(struct sn_axis_move *moves, int n, struct sn_axis_move m)
{
    while (n > 0 && turn_of(&moves[n - 1]) > turn_of(&m)) {
        moves[n] = moves[n - 1];
        n--;
    }
    moves[n] = m;
}

/* The k-th order of n moves, of which the first leaves them as they are; false: there are fewer. */
static bool reordered(struct sn_axis_move out[SN_MESH_AXES], const struct sn_axis_move *moves,
                      int n, int k)
{
    static const int order[][SN_MESH_AXES] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                              {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int orders_of[SN_MESH_AXES + 1] = {1, 1, 2, sizeof(order) / sizeof(order[0])};
    if (k >= orders_of[n])
        return false;
    for (int i = 0; i < n; i++)
        out[i] = moves[order[k][i]];
    return true;
}

int sn_redistribute(struct sn_axis_move moves[SN_MESH_AXES], struct sn_placement have,
                    struct sn_placement want)
{
    struct sn_axis_move usual[SN_MESH_AXES];
    int n = 0;
    for (int a = 0; a < SN_MESH_AXES; a++) {
        struct sn_axis_move m = sn_axis_move(have.axis[a], want.axis[a]);
        m.axis = a;
        if (m.forward == SN_NEVER || m.backward == SN_NEVER)
            return -1;
        if (m.forward != SN_KEEP || m.backward != SN_KEEP)
            insert(usual, n++, m);
    }
    for (int k = 0; reordered(moves, usual, n, k); k++)
        if (is_reached(moves, n, have, want))
            return n;
    return -1;
}
