/*
 * test_grid.c - rank and coordinate arithmetic.
 */
#include "lib/layout/axes.h"
#include "lib/layout/mesh.h"
#include "tests/lib/tap.h"

#include <string.h>

static const enum sn_axis usual[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                     SN_AXIS_DATA, SN_AXIS_PIPELINE};

static void every_rank_has_its_own_coordinates(void)
{
    const int size[] = {2, 2, 3, 5, 4};
    struct sn_grid g;
    struct sn_err err = {0};
    tap_ok(sn_grid_init(&g, 240, size, usual, &err) == SN_OK, "a grid of 240 ranks");
    int bad = 0;
    for (int r = 0; r < 240; r++) {
        int back = 0;
        for (int a = 0; a < SN_NGRID_AXES; a++)
            back += sn_grid_coord(&g, r, (enum sn_axis)a) * g.stride[a];
        bad += back != r;
    }
    tap_ok(bad == 0, "coordinates give the rank back");
    tap_ok(g.stride[SN_AXIS_TENSOR] == 1 && g.stride[SN_AXIS_PIPELINE] == 60,
           "the first axis of the order varies fastest");
}

static void peers_share_all_other_axes(void)
{
    const int size[] = {2, 2, 3, 5, 4};
    const enum sn_axis order[] = {SN_AXIS_DATA, SN_AXIS_PIPELINE, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                  SN_AXIS_TENSOR};
    struct sn_grid g;
    (void)sn_grid_init(&g, 240, size, order, NULL);
    int bad = 0, peers[8];
    for (int r = 0; r < 240; r++)
        for (int a = 0; a < SN_NGRID_AXES; a++) {
            int n = sn_grid_peers(&g, r, (enum sn_axis)a, peers);
            bad += n != size[a];
            for (int i = 0; i < n; i++)
                for (int b = 0; b < SN_NGRID_AXES; b++)
                    bad += sn_grid_coord(&g, peers[i], (enum sn_axis)b) !=
                           (a == b ? i : sn_grid_coord(&g, r, (enum sn_axis)b));
        }
    tap_ok(bad == 0, "peers differ on their axis only, in order");
}

/* Members name each other: the group of a member is that of this rank, at another index. */
static int odd_members(const struct sn_grid *g, enum sn_group q)
{
    int bad = 0, ranks = sn_grid_ranks(g);
    for (int r = 0; r < ranks; r++) {
        int n = sn_group_size(g, r, q);
        bad += sn_group_member(g, r, q, sn_group_index(g, r, q)) != r;
        for (int i = 0; i < n; i++) {
            int m = sn_group_member(g, r, q, i);
            bad += m < 0 || m >= ranks || sn_group_index(g, m, q) != i ||
                   sn_group_member(g, m, q, 0) != sn_group_member(g, r, q, 0);
        }
    }
    return bad;
}

/* DeepSpeed's groups for 16 ranks, tensor 2, expert 4: experts beside
 * tensor; and folded, where tensor ranks share the experts out, too. */
static void experts_fold_into_tensor(void)
{
    const int size[] = {2, 1, 1, 8, 1};
    struct sn_grid g;
    (void)sn_grid_init(&g, 16, size, usual, NULL);
    g.experts = 4;
    int bad = odd_members(&g, SN_GROUP_EXPERT) + odd_members(&g, SN_GROUP_EXPERT_DATA);
    bool ted = sn_group_member(&g, 0, SN_GROUP_EXPERT, 3) == 6 &&
               sn_group_member(&g, 9, SN_GROUP_EXPERT, 1) == 11 &&
               sn_group_member(&g, 0, SN_GROUP_EXPERT_DATA, 1) == 8;
    tap_ok(bad == 0 && ted,
           "16 ranks, tensor 2, expert 4: {0, 2, 4, 6} share experts, {0, 8} copies");
    g.fold = 2;
    bad = odd_members(&g, SN_GROUP_EXPERT) + odd_members(&g, SN_GROUP_EXPERT_DATA);
    bool folded = sn_group_member(&g, 0, SN_GROUP_EXPERT, 3) == 3 &&
                  sn_group_size(&g, 0, SN_GROUP_EXPERT_DATA) == 4 &&
                  sn_group_member(&g, 1, SN_GROUP_EXPERT_DATA, 3) == 13;
    tap_ok(bad == 0 && folded, "folded: {0, 1, 2, 3} share experts, {1, 5, 9, 13} have copies");
    g.experts_apart = true;
    bad = odd_members(&g, SN_GROUP_EXPERT) + odd_members(&g, SN_GROUP_EXPERT_DATA);
    folded = sn_group_member(&g, 0, SN_GROUP_EXPERT, 1) == 4 &&
             sn_group_member(&g, 1, SN_GROUP_EXPERT_DATA, 0) == 0;
    tap_ok(bad == 0 && folded, "and the other way round: {0, 4, 8, 12}, {0, 1, 2, 3}");
    const int four[] = {4, 1, 1, 4, 1}; /* two slices of each of two experts' parts */
    (void)sn_grid_init(&g, 16, four, usual, NULL);
    g.fold = 4;
    g.experts = 2 * 2;
    bad = odd_members(&g, SN_GROUP_EXPERT) + odd_members(&g, SN_GROUP_EXPERT_DATA);
    folded = sn_group_member(&g, 5, SN_GROUP_EXPERT, 0) == 4 &&
             sn_group_size(&g, 5, SN_GROUP_EXPERT_DATA) == 4 &&
             sn_group_member(&g, 5, SN_GROUP_EXPERT_DATA, 3) == 13;
    tap_ok(bad == 0 && folded,
           "tensor 4, expert 2, each over 2: {4, 5, 6, 7} share experts, {1, 5, 9, 13} have "
           "copies");
    (void)sn_grid_init(&g, 16, size, usual, NULL);
    g.experts = 4;
    g.expert_node = 2; /* nodes of 4 ranks */
    bad = odd_members(&g, SN_GROUP_EXPERT_NODE) + odd_members(&g, SN_GROUP_EXPERT_RAIL);
    bool hops = sn_group_member(&g, 0, SN_GROUP_EXPERT_NODE, 1) == 2 &&
                sn_group_member(&g, 13, SN_GROUP_EXPERT_RAIL, 0) == 9 &&
                sn_group_size(&g, 0, SN_GROUP_EXPERT_RAIL) == 2;
    tap_ok(bad == 0 && hops,
           "{0, 2, 4, 6} in two hops: {0, 2} {4, 6} on nodes, {0, 4} {2, 6} rails");
    g.expert_node = 0;
    tap_ok(sn_group_size(&g, 5, SN_GROUP_EXPERT_NODE) == 1 &&
               sn_group_member(&g, 5, SN_GROUP_EXPERT_RAIL, 0) == 5,
           "in one hop nobody is in such a group");
}

static void replicas_of_a_node_are_neighbours_of_their_group(void)
{
    const enum sn_axis other[] = {SN_AXIS_DATA, SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                  SN_AXIS_PIPELINE};
    const int size[] = {[SN_AXIS_TENSOR] = 2,
                        [SN_AXIS_TENSOR_X] = 1,
                        [SN_AXIS_CONTEXT] = 2,
                        [SN_AXIS_DATA] = 4,
                        [SN_AXIS_PIPELINE] = 1};
    for (int i = 0; i < 2; i++) {
        struct sn_grid g;
        (void)sn_grid_init(&g, 16, size, i ? other : usual, NULL);
        g.replica_node = 4;
        int bad = odd_members(&g, SN_GROUP_REPLICA_NODE) + odd_members(&g, SN_GROUP_REPLICA_RAIL);
        for (int r = 0; r < 16; r++) {
            int own = sn_group_index(&g, r, SN_GROUP_REPLICA);
            bad += sn_group_index(&g, r, SN_GROUP_REPLICA_RAIL) * 4 +
                       sn_group_index(&g, r, SN_GROUP_REPLICA_NODE) !=
                   own;
        }
        bool far = sn_group_member(&g, 1, SN_GROUP_REPLICA_RAIL, 1) == (i ? 3 : 9);
        tap_ok(bad == 0 && far && sn_group_axis(SN_GROUP_REPLICA_RAIL) == SN_AXIS_DATA,
               "member 4 k + l of replicas is l of node k, axis order %d", i);
        g.replica_node = 0;
        tap_ok(sn_group_size(&g, 5, SN_GROUP_REPLICA_NODE) == 1 &&
                   sn_group_size(&g, 5, SN_GROUP_REPLICA_RAIL) == 1 &&
                   sn_group_member(&g, 5, SN_GROUP_REPLICA_RAIL, 0) == 5,
               "on one level nobody is in such a group");
    }
}

/* Whichever axis of the grid varies fastest, an axis of the mesh is a group of the grid. */
static void axes_of_the_mesh_are_groups_of_the_grid(void)
{
    const enum sn_axis other[] = {SN_AXIS_DATA, SN_AXIS_TENSOR, SN_AXIS_PIPELINE, SN_AXIS_TENSOR_X,
                                  SN_AXIS_CONTEXT};
    const int size[] = {3, 2, 2, 5, 2};
    for (int i = 0; i < 2; i++) {
        struct sn_grid g;
        (void)sn_grid_init(&g, 120, size, i ? other : usual, NULL);
        struct sn_mesh m = sn_mesh_of_grid(&g);
        int bad = m.n_axes != 2 || sn_mesh_ranks(&m) != 6 ||
                  strcmp(m.axis[0].name, "tensor") != 0 || strcmp(m.axis[1].name, "tensor_x") != 0;
        for (int r = 0; r < 120; r++)
            for (int a = 0; a < m.n_axes; a++) {
                enum sn_group q = m.axis[a].group;
                bad += sn_mesh_coord(&m, a, r) != sn_group_index(&g, r, q) ||
                       m.axis[a].size != sn_group_size(&g, r, q);
                for (int k = 0; k < m.axis[a].size; k++)
                    bad += sn_mesh_member(&m, a, r, k) != sn_group_member(&g, r, q, k);
            }
        tap_ok(bad == 0, "sizes, coordinates and members of tensor and tensor_x, axis order %d", i);
    }
}

static void bad_grids_are_explained(void)
{
    struct sn_grid g;
    struct sn_err err = {0};
    const int product[] = {2, 1, 1, 3, 1}, zero[] = {1, 1, 0, 4, 1},
              huge[] = {1 << 30, 1, 1 << 30, 16, 1};
    const int good[] = {1, 1, 1, 8, 1};
    const enum sn_axis twice[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_DATA, SN_AXIS_DATA,
                                  SN_AXIS_PIPELINE};
    tap_ok(sn_grid_init(&g, 8, product, usual, &err) == SN_EINPUT, "a wrong product fails");
    tap_text(err.text,
             "layout: tensor 2 x context 1 x data 3 x pipeline 1 = 6, but the job has 8 ranks",
             "and is shown");
    tap_ok(sn_grid_init(&g, 8, zero, usual, &err) == SN_EINPUT, "a size of zero fails");
    tap_text(err.text, "layout.context: 0; want 1..8", "and is named");
    tap_ok(sn_grid_init(&g, 8, huge, usual, &err) == SN_EINPUT, "huge sizes do not overflow");
    tap_ok(sn_grid_init(&g, 8, good, twice, &err) == SN_EINPUT, "an axis twice fails");
}

static void a_layout_gives_sizes_and_order(void)
{
    static const enum sn_axis outwards[] = {SN_AXIS_PIPELINE, SN_AXIS_DATA, SN_AXIS_CONTEXT,
                                            SN_AXIS_TENSOR, SN_AXIS_TENSOR_X};
    struct sn_layout_config l = {
        .data = 5, .tensor = 2, .tensor_x = 1, .context = 3, .pipeline = 4};
    int size[SN_NGRID_AXES];
    enum sn_axis order[SN_NGRID_AXES];
    char text[SN_AXES_SIZE];
    sn_axes_sizes(size, &l);
    tap_ok(size[SN_AXIS_DATA] == 5 && size[SN_AXIS_TENSOR] == 2 && size[SN_AXIS_CONTEXT] == 3 &&
               size[SN_AXIS_PIPELINE] == 4,
           "each axis has its size");
    sn_axes_order(order, &l);
    tap_ok(memcmp(order, usual, sizeof(order)) == 0, "without an order: the usual one");
    const enum sn_order_axis named[] = {SN_ORDER_PIPELINE, SN_ORDER_DATA_AXIS, SN_ORDER_EXPERT,
                                        SN_ORDER_CONTEXT, SN_ORDER_TENSOR};
    memcpy(l.axis_order, named, sizeof(named));
    l.n_axis_order = 5;
    sn_axes_order(order, &l);
    tap_ok(memcmp(order, outwards, sizeof(order)) == 0, "the order that is named, without expert");
    tap_ok(sn_config_copy_ranks(&l) == 24 && sn_config_least_ranks(&l) == 120, "ranks");
    tap_text(sn_config_axes(text, &l), "data 5 x tensor 2 x context 3 x pipeline 4", "in words");
    l.data = 0;
    tap_ok(sn_config_least_ranks(&l) == 24, "without data: those of one copy");
    l.tensor_x = 2;
    tap_ok(sn_config_copy_ranks(&l) == 48, "tensor_x counts");
    tap_text(sn_config_axes(text, &l), "data 0 x tensor 2 x tensor_x 2 x context 3 x pipeline 4",
             "and is told");
    memcpy(l.axis_order, (const enum sn_order_axis[]){SN_ORDER_TENSOR_X, SN_ORDER_TENSOR},
           2 * sizeof(enum sn_order_axis));
    l.n_axis_order = 2;
    sn_axes_order(order, &l);
    tap_ok(order[0] == SN_AXIS_TENSOR_X && order[1] == SN_AXIS_TENSOR,
           "an order may put tensor_x inside");
}

static void every_axis_is_told_once_and_found_by_its_name(void)
{
    bool told[SN_NAXES] = {false};
    int found = 0, of_grid = 0, coloured = 0;
    for (int i = 0; i < SN_NAXES; i++) {
        enum sn_axis a = sn_axis_told(i), b;
        found += sn_axis_find(&b, sn_axis_name(a)) && a == b && !told[a];
        told[a] = true;
        of_grid += i < SN_NGRID_AXES && (int)a < SN_NGRID_AXES;
        coloured += sn_axis_row(a)->colour != NULL;
    }
    enum sn_axis none;
    tap_ok(found == SN_NAXES, "all axes are told, each once");
    tap_ok(of_grid == SN_NGRID_AXES, "the grid's first");
    tap_ok(coloured == SN_NAXES, "each has a colour");
    tap_ok(!sn_axis_find(&none, "tensors"), "what is no axis is not found");
    struct sn_layout_config l = {.data = 5,
                                 .tensor = 2,
                                 .tensor_x = 3,
                                 .context = 3,
                                 .pipeline = 4},
                            same = {0};
    int size[SN_NGRID_AXES];
    sn_axes_sizes(size, &l);
    sn_axes_set_sizes(&same, size);
    tap_ok(memcmp(&l, &same, sizeof(l)) == 0, "sizes that are taken and set are the same layout");
}

static void members_of_even_groups_are_those_that_work_alike(void)
{
    static const enum sn_group even[] = {SN_GROUP_TENSOR, SN_GROUP_TENSOR_X, SN_GROUP_CONTEXT,
                                         SN_GROUP_DATA, SN_GROUP_REPLICA};
    int n = 0, all = 0;
    for (int i = 0; i < 5; i++)
        n += sn_group_is_even(even[i]);
    for (int q = 0; q < SN_NGROUPS; q++)
        all += sn_group_is_even((enum sn_group)q);
    const enum sn_axis *axes;
    tap_ok(sn_group_axes(SN_GROUP_REPLICA, &axes) == 2 && axes[0] == SN_AXIS_DATA &&
               axes[1] == SN_AXIS_CONTEXT && sn_group_axes(SN_GROUP_KV, &axes) == 0,
           "replicas differ on data and context, copies of heads on a part of an axis");
    tap_ok(n == 5 && all == 5,
           "tensor, tensor_x, context, data and replicas are even, and nothing else");
}

static void an_axis_has_a_queue_where_it_has_ranks(void)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    const int size[] = {2, 1, 1, 2, 3}, one[] = {1, 1, 1, 1, 1}, line[] = {1, 1, 1, 1, 4};
    struct sn_grid g;
    struct sn_err err;
    bool all = true;
    for (int q = 0; q < SN_NGROUPS; q++)
        all = all && sn_group_queue((enum sn_group)q) != SN_AXIS_PIPELINE &&
              sn_group_queue((enum sn_group)q) != SN_AXIS_WORLD;
    tap_ok(all && sn_group_queue(SN_GROUP_KV) == SN_AXIS_TENSOR &&
               sn_group_queue(SN_GROUP_TIED) == SN_AXIS_DATA &&
               sn_group_queue(SN_GROUP_WORLD) == SN_AXIS_DATA,
           "a group's queue is that of its axis; what ends a step is in that of data");
    (void)sn_grid_init(&g, 12, size, order, &err);
    tap_ok(sn_grid_queues(&g, SN_NAXES) == 2 && sn_grid_queues(&g, SN_AXIS_DATA) == 1,
           "tensor and data have one");
    g.experts = 2;
    tap_ok(sn_grid_queues(&g, SN_NAXES) == 3, "and experts, where they are shared out");
    (void)sn_grid_init(&g, 4, line, order, &err);
    tap_ok(sn_grid_queues(&g, SN_NAXES) == 1, "stages alone have that of data");
    (void)sn_grid_init(&g, 1, one, order, &err);
    tap_ok(sn_grid_queues(&g, SN_NAXES) == 0, "one rank has none");
}

int main(void)
{
    an_axis_has_a_queue_where_it_has_ranks();
    every_axis_is_told_once_and_found_by_its_name();
    members_of_even_groups_are_those_that_work_alike();
    a_layout_gives_sizes_and_order();
    replicas_of_a_node_are_neighbours_of_their_group();
    every_rank_has_its_own_coordinates();
    peers_share_all_other_axes();
    experts_fold_into_tensor();
    axes_of_the_mesh_are_groups_of_the_grid();
    bad_grids_are_explained();
    return tap_done();
}
