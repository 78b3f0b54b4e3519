/*
 * test_placement.c - moves derived from placements: the usual ones by hand, and all of them held to
 * ranks that hold real matrices (tests/lib/mesh_sim.h), on meshes of one, two and three axes.
 */
#include "lib/layout/placement.h"
#include "tests/lib/mesh_sim.h"
#include "tests/lib/tap.h"

static const struct sn_axis_placement kinds[] = {{SN_REPLICATE, SN_ROWS},
                                                 {SN_REPLICATE_PARTIAL_GRAD, SN_ROWS},
                                                 {SN_SHARD, SN_ROWS},
                                                 {SN_SHARD, SN_COLS},
                                                 {SN_PARTIAL, SN_ROWS}};
enum { REPLICATE, PARTIAL_GRAD, ROWS, COLS, PARTIAL, KINDS };

/* All different: between axes of one size there are moves that no other mesh has. */
static const int sizes[SN_MESH_AXES + 1][SN_MESH_AXES] = {{1}, {4}, {2, 3}, {2, 3, 4}};

/* --- one axis --------------------------------------------------------------------------------- */

static void pair(int have, int want, enum sn_move forward, enum sn_move backward, const char *what)
{
    struct sn_axis_move m = sn_axis_move(kinds[have], kinds[want]);
    tap_ok(m.forward == forward, "%s: forward", what);
    tap_ok(m.backward == backward, "%s: backward", what);
}

static void the_usual_pairs_follow_from_the_table(void)
{
    pair(REPLICATE, PARTIAL_GRAD, SN_KEEP, SN_MOVE_ALL_REDUCE,
         "a column-parallel layer is entered");
    pair(PARTIAL, REPLICATE, SN_MOVE_ALL_REDUCE, SN_KEEP, "a row-parallel layer is left");
    pair(ROWS, PARTIAL_GRAD, SN_MOVE_ALL_GATHER, SN_MOVE_REDUCE_SCATTER,
         "entered from slices of rows");
    pair(PARTIAL, ROWS, SN_MOVE_REDUCE_SCATTER, SN_MOVE_ALL_GATHER, "left into slices of rows");
    pair(ROWS, COLS, SN_MOVE_ALL_TO_ALL, SN_MOVE_ALL_TO_ALL, "rows for heads");
    pair(COLS, ROWS, SN_MOVE_ALL_TO_ALL, SN_MOVE_ALL_TO_ALL, "heads for rows");
    pair(REPLICATE, REPLICATE, SN_KEEP, SN_KEEP, "nothing changes");
    pair(COLS, COLS, SN_KEEP, SN_KEEP, "slices stay");
    pair(REPLICATE, ROWS, SN_SLICE, SN_MOVE_ALL_GATHER, "a slice is taken");
}

static void moves_that_make_no_sense_are_never(void)
{
    static const int never[][2] = {{PARTIAL_GRAD, REPLICATE}, {PARTIAL_GRAD, ROWS},
                                   {PARTIAL_GRAD, PARTIAL},   {REPLICATE, PARTIAL},
                                   {ROWS, PARTIAL},           {COLS, PARTIAL}};
    int wrong = 0;
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        struct sn_axis_move m = sn_axis_move(kinds[never[i][0]], kinds[never[i][1]]);
        wrong += m.forward != SN_NEVER && m.backward != SN_NEVER;
    }
    tap_ok(wrong == 0, "what is used differently is not the same, a whole or a slice no summand");
}

/* --- lists of moves --------------------------------------------------------------------------- */

static struct sn_placement over(int x, int y, int z)
{
    return (struct sn_placement){{kinds[x], kinds[y], kinds[z]}};
}

static void what_shrinks_a_tensor_comes_first(void)
{
    struct sn_axis_move m[SN_MESH_AXES];
    int n =
        sn_redistribute(m, over(ROWS, REPLICATE, PARTIAL), over(PARTIAL_GRAD, PARTIAL_GRAD, COLS));
    tap_ok(n == 3 && m[0].axis == 2 && m[0].forward == SN_MOVE_REDUCE_SCATTER && m[1].axis == 1 &&
               m[1].forward == SN_KEEP && m[1].backward == SN_MOVE_ALL_REDUCE && m[2].axis == 0 &&
               m[2].forward == SN_MOVE_ALL_GATHER && m[2].backward == SN_MOVE_REDUCE_SCATTER,
           "reduce-scatter, then a gradient's all-reduce, then all-gather");
    n = sn_redistribute(m, over(ROWS, ROWS, REPLICATE), over(REPLICATE, REPLICATE, REPLICATE));
    tap_ok(n == 2 && m[0].axis == 1 && m[1].axis == 0, "all-gathers from the innermost axis on");
    n = sn_redistribute(m, over(REPLICATE, ROWS, REPLICATE), over(ROWS, REPLICATE, REPLICATE));
    tap_ok(n == 2 && m[0].axis == 1 && m[0].forward == SN_MOVE_ALL_GATHER &&
               m[1].forward == SN_SLICE,
           "an outer slice is taken when the inner one is no more");
    n = sn_redistribute(m, over(ROWS, ROWS, REPLICATE), over(REPLICATE, ROWS, REPLICATE));
    tap_ok(n == -1, "an outer axis does not gather what an inner one cuts");
    n = sn_redistribute(m, over(COLS, PARTIAL, ROWS), over(COLS, PARTIAL, ROWS));
    tap_ok(n == 0, "nothing is to be done where nothing changes");
}

/* --- all of them, on ranks with matrices ------------------------------------------------------ */

/* Number i of all placements over n axes. */
static struct sn_placement placement(int n, int i)
{
    struct sn_placement p = {0};
    for (int a = 0; a < n; a++, i /= KINDS)
        p.axis[a] = kinds[i % KINDS];
    return p;
}

static int placements(int n)
{
    return n == 0 ? 1 : KINDS * placements(n - 1);
}

static bool goes_forward(struct mesh_sim *s, const struct sn_axis_move *m, int n)
{
    for (int i = 0; i < n; i++)
        if (!mesh_sim_move(s, m[i].axis, m[i].forward, m[i].from, m[i].to))
            return false;
    return true;
}

static bool goes_back(struct mesh_sim *s, const struct sn_axis_move *m, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (!mesh_sim_move(s, m[i].axis, m[i].backward, m[i].to, m[i].from))
            return false;
    return true;
}

struct faults {
    int moves;
    int forward, backward, transposed;
};

/* y and dx by the moves: are they placed as they should be, and is <dy, y> = <dx, x>? */
static void check_pair(struct faults *f, const struct sn_mesh *mesh, struct sn_placement have,
                       struct sn_placement want)
{
    struct sn_axis_move m[SN_MESH_AXES];
    int n = sn_redistribute(m, have, want);
    if (n < 0)
        return;
    unsigned seed = 1;
    struct mesh_matrix x, dy;
    struct mesh_sim xs = {mesh, {{0}}}, dys = xs;
    mesh_random(&x, &seed);
    mesh_random(&dy, &seed);
    mesh_sim_place(&xs, have, &x, &seed);
    mesh_sim_place(&dys, sn_placement_of_gradient(want), &dy, &seed);
    struct mesh_sim ys = xs, dxs = dys;
    f->moves++;
    f->forward += !goes_forward(&ys, m, n) || !mesh_sim_is(&ys, want, &x);
    f->backward +=
        !goes_back(&dxs, m, n) || !mesh_sim_is(&dxs, sn_placement_of_gradient(have), &dy);
    f->transposed += mesh_sim_inner(&dys, &ys, want) != mesh_sim_inner(&dxs, &xs, have);
}

static void gradients_of_gradients_are_placed_as_values(void)
{
    int wrong = 0;
    for (int i = 0; i < placements(SN_MESH_AXES); i++) {
        struct sn_placement p = placement(SN_MESH_AXES, i), g = sn_placement_of_gradient(p);
        wrong += !sn_placement_equal(sn_placement_of_gradient(g), p);
    }
    tap_ok(wrong == 0, "for all placements");
}

static void every_list_of_moves_does_what_it_should(int axes)
{
    struct sn_mesh mesh = mesh_of_sizes(axes, sizes[axes]);
    struct faults f = {0};
    for (int i = 0; i < placements(axes); i++)
        for (int k = 0; k < placements(axes); k++)
            check_pair(&f, &mesh, placement(axes, i), placement(axes, k));
    printf("# %d axes: %d of %d pairs have moves\n", axes, f.moves,
           placements(axes) * placements(axes));
    tap_ok(f.moves > placements(axes), "%d axes: there are moves", axes);
    tap_ok(f.forward == 0, "%d axes: each value is placed as wanted (%d are not)", axes, f.forward);
    tap_ok(f.backward == 0, "%d axes: and each gradient (%d are not)", axes, f.backward);
    tap_ok(f.transposed == 0, "%d axes: what gradients do is the transpose (%d times not)", axes,
           f.transposed);
}

/* --- what is never possible ------------------------------------------------------------------- */

/* Every collective there is, over one axis. */
static const struct option {
    enum sn_move move;
    enum sn_dim from, to;
} options[] = {
    {SN_KEEP, SN_ROWS, SN_ROWS},
    {SN_SLICE, SN_ROWS, SN_ROWS},
    {SN_SLICE, SN_ROWS, SN_COLS},
    {SN_MOVE_ALL_GATHER, SN_ROWS, SN_ROWS},
    {SN_MOVE_ALL_GATHER, SN_COLS, SN_ROWS},
    {SN_MOVE_ALL_REDUCE, SN_ROWS, SN_ROWS},
    {SN_MOVE_REDUCE_SCATTER, SN_ROWS, SN_ROWS},
    {SN_MOVE_REDUCE_SCATTER, SN_ROWS, SN_COLS},
    {SN_MOVE_ALL_TO_ALL, SN_ROWS, SN_COLS},
    {SN_MOVE_ALL_TO_ALL, SN_COLS, SN_ROWS},
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]), MOST = KINDS * KINDS };

/* to[k]: some choice of one option for each axis, in some order, leads to placement k. */
static void try_all(bool to[MOST], const struct mesh_sim *s, const struct mesh_matrix *x,
                    unsigned axes_left)
{
    int axes = s->mesh->n_axes;
    for (int k = 0; k < placements(axes) && axes_left == 0; k++)
        to[k] = to[k] || mesh_sim_is(s, placement(axes, k), x);
    for (int a = 0; a < axes; a++)
        for (int o = 0; o < OPTIONS && axes_left >> a & 1u; o++) {
            struct mesh_sim next = *s;
            if (mesh_sim_move(&next, a, options[o].move, options[o].from, options[o].to))
                try_all(to, &next, x, axes_left & ~(1u << a));
        }
}

static int number_of(int axes, struct sn_placement p)
{
    int i = 0;
    while (!sn_placement_equal(placement(axes, i), p))
        i++;
    return i;
}

/* Moves are listed for exactly those pairs between which any collectives lead, one for each axis,
 * both for the value and for its gradient. */
static void what_has_no_moves_is_impossible(int axes)
{
    static bool leads[MOST][MOST];
    struct sn_mesh mesh = mesh_of_sizes(axes, sizes[axes]);
    struct mesh_matrix x;
    unsigned seed = 2;
    int n = placements(axes), wrong = 0, never = 0;
    mesh_random(&x, &seed);
    memset(leads, 0, sizeof(leads));
    for (int i = 0; i < n; i++) {
        struct mesh_sim s = {&mesh, {{0}}};
        mesh_sim_place(&s, placement(axes, i), &x, &seed);
        try_all(leads[i], &s, &x, (1u << axes) - 1);
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            struct sn_placement have = placement(axes, i), want = placement(axes, k);
            int di = number_of(axes, sn_placement_of_gradient(have)),
                dk = number_of(axes, sn_placement_of_gradient(want));
            struct sn_axis_move m[SN_MESH_AXES];
            bool found = sn_redistribute(m, have, want) >= 0;
            wrong += found != (leads[i][k] && leads[dk][di]);
            never += !found;
        }
    tap_ok(wrong == 0 && never > 0, "%d axes: no collectives lead where no moves do (%d wrong)",
           axes, wrong);
}

/* With three axes, of the moves that the axes would make one by one: no order of them does. */
static void what_has_no_moves_has_no_order(void)
{
    static const int order[][SN_MESH_AXES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                              {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct sn_mesh mesh = mesh_of_sizes(SN_MESH_AXES, sizes[SN_MESH_AXES]);
    int n = placements(SN_MESH_AXES), wrong = 0, tried = 0;
    unsigned seed = 3;
    struct mesh_matrix x;
    mesh_random(&x, &seed);
    for (int i = 0; i < n * n; i++) {
        struct sn_placement have = placement(SN_MESH_AXES, i / n);
        struct sn_placement want = placement(SN_MESH_AXES, i % n);
        struct sn_axis_move found[SN_MESH_AXES], m[SN_MESH_AXES];
        bool possible = sn_redistribute(found, have, want) < 0;
        for (int a = 0; a < SN_MESH_AXES; a++) {
            m[a] = sn_axis_move(have.axis[a], want.axis[a]);
            m[a].axis = a;
            possible = possible && m[a].forward != SN_NEVER && m[a].backward != SN_NEVER;
        }
        for (int o = 0; o < 6 && possible; o++) {
            struct sn_axis_move in_order[] = {m[order[o][0]], m[order[o][1]], m[order[o][2]]};
            struct mesh_sim s = {&mesh, {{0}}};
            mesh_sim_place(&s, have, &x, &seed);
            wrong += goes_forward(&s, in_order, SN_MESH_AXES) && mesh_sim_is(&s, want, &x);
            tried++;
        }
    }
    tap_ok(wrong == 0 && tried > 0, "3 axes: none of %d orders leads where no moves do", tried);
}

int main(void)
{
    the_usual_pairs_follow_from_the_table();
    moves_that_make_no_sense_are_never();
    what_shrinks_a_tensor_comes_first();
    gradients_of_gradients_are_placed_as_values();
    for (int axes = 1; axes <= SN_MESH_AXES; axes++)
        every_list_of_moves_does_what_it_should(axes);
    what_has_no_moves_is_impossible(1);
    what_has_no_moves_is_impossible(2);
    what_has_no_moves_has_no_order();
    return tap_done();
}
