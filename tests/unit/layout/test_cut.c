/*
 * test_cut.c - how parameters are cut at which points; which ranks form a group.
 */
#include "lib/layout/cut.h"
#include "lib/layout/grid.h"
#include "tests/lib/mesh_sim.h"
#include "tests/lib/tap.h"

#include <stdio.h>

/* A mesh of one axis, as layouts have. */
static struct sn_mesh tensor_mesh(int size)
{
    return mesh_of_sizes(1, &size);
}

static void points_have_cuts(void)
{
    struct sn_mesh m = tensor_mesh(4);
    struct sn_cut qkv, o, c;
    bool found = sn_cut_at(&qkv, &m, "l31.attn.qkv") && sn_cut_at(&o, &m, "l0.attn.o");
    tap_ok(found && qkv.weight[0] == SN_CUT_QKV &&
               qkv.want.axis[0].kind == SN_REPLICATE_PARTIAL_GRAD,
           "q, k, v by heads");
    tap_ok(found && o.weight[0] == SN_CUT_COLS && o.bias[0] == SN_CUT_NONE &&
               o.give.axis[0].kind == SN_PARTIAL,
           "the output projection by columns, its bias whole");
    tap_ok(sn_cut_at(&c, &m, "embed") && sn_cut_at(&c, &m, "head"), "both ends by words");
    tap_ok(!sn_cut_at(&c, &m, "l3.attn_norm") && !sn_cut_at(&c, &m, "final_norm") &&
               !sn_cut_at(&c, &m, "lost"),
           "norms are not cut");
}

static bool is_placed(struct sn_placement p, enum sn_placement_kind kind)
{
    return p.axis[0].kind == kind;
}

/* W is cut by its outputs, then by its inputs: what A and B take is what is there, and y gets what W
 * gives, with no collective between. */
static void adapters_are_cut_with_their_matrix(void)
{
    static const struct {
        const char *point;
        enum sn_cut_kind w, a, b;
        enum sn_placement_kind between;
    } of[] = {{"l2.attn.qkv", SN_CUT_QKV, SN_CUT_SUMMED, SN_CUT_QKV, SN_REPLICATE_PARTIAL_GRAD},
              {"l0.ffn.up", SN_CUT_ROWS, SN_CUT_SUMMED, SN_CUT_ROWS, SN_REPLICATE_PARTIAL_GRAD},
              {"l11.ffn.down", SN_CUT_COLS, SN_CUT_COLS, SN_CUT_SUMMED, SN_PARTIAL}};
    struct sn_mesh m = tensor_mesh(4);
    for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
        struct sn_cut w, a, s, b;
        char name[64];
        bool good = sn_cut_at(&w, &m, of[i].point);
        (void)snprintf(name, sizeof(name), "%s.lora_a", of[i].point);
        good = good && sn_cut_at(&a, &m, name);
        (void)snprintf(name, sizeof(name), "%s.lora_scale", of[i].point);
        good = good && sn_cut_at(&s, &m, name);
        (void)snprintf(name, sizeof(name), "%s.lora_b.1", of[i].point);
        good = good && sn_cut_at(&b, &m, name);
        tap_ok(good && w.weight[0] == of[i].w && a.weight[0] == of[i].a && b.weight[0] == of[i].b,
               "%s: A and B are cut as W asks", of[i].point);
        tap_ok(good && sn_placement_equal(a.want, w.want) && sn_placement_equal(b.give, w.give),
               "%s: A takes x as W does, B adds where W gives y", of[i].point);
        tap_ok(good && is_placed(a.give, of[i].between) && is_placed(s.want, of[i].between) &&
                   is_placed(s.give, of[i].between) && is_placed(b.want, of[i].between),
               "%s: what is between stays where it is", of[i].point);
    }
}

static void gradients_of_uncut_parameters_are_summed_where_rows_are_cut(void)
{
    struct sn_mesh m = tensor_mesh(4);
    for (int sequence = 0; sequence < 2; sequence++) {
        struct sn_cut c = sn_cut_between(&m, sequence);
        struct sn_axis_move moves[SN_MESH_AXES];
        int n = sn_redistribute(moves, sn_cut_kept(c.weight), sn_cut_used(c.weight));
        tap_ok(n == sequence && (n == 0 || (moves[0].forward == SN_KEEP &&
                                            moves[0].backward == SN_MOVE_ALL_REDUCE)),
               "a norm's, sequence parallelism %d", sequence);
    }
}

/* Slices are disjoint, in order, complete, and equally long with their padding. */
static void slices_cover_everything_once(void)
{
    int wrong = 0;
    for (int n = 1; n <= 64; n++)
        for (int size = 1; size <= 9; size++) {
            int64_t next = 0;
            for (int i = 0; i < size; i++) {
                struct sn_slice s = sn_slice_of(n, size, i);
                wrong += s.count < 0 || s.count > s.padded || s.padded != (n + size - 1) / size;
                wrong += s.count > 0 && s.first != next;
                next += s.count;
            }
            wrong += next != n;
        }
    tap_ok(wrong == 0, "slices of 1 to 64 over 1 to 9 ranks");
    struct sn_slice last = sn_slice_of(50257, 3, 2);
    tap_ok(last.padded == 16753 && last.first == 33506 && last.count == 16751,
           "50257 words over 3 ranks: two words of padding at the end");
}

/* Every element of a weight lies on one rank, whichever axes cut its rows and its columns; all have
 * the same shape, and ranks that differ on another axis have the same elements. */
static void blocks_cover_a_weight_once(void)
{
    static const enum sn_cut_kind cuts[][SN_MESH_AXES] = {{SN_CUT_ROWS, SN_CUT_COLS, SN_CUT_NONE},
                                                          {SN_CUT_COLS, SN_CUT_ROWS, SN_CUT_NONE},
                                                          {SN_CUT_ROWS, SN_CUT_ROWS, SN_CUT_COLS},
                                                          {SN_CUT_COLS, SN_CUT_NONE, SN_CUT_COLS}};
    enum { N = 23, K = 17 };
    const int size[] = {2, 3, 2};
    struct sn_mesh m = mesh_of_sizes(3, size);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        int held[N][K] = {{0}}, copies = 12, wrong = 0;
        for (int a = 0; a < 3; a++)
            copies /= cuts[i][a] == SN_CUT_NONE ? 1 : size[a];
        for (int rank = 0; rank < 12; rank++) {
            struct sn_mesh_place at = sn_mesh_place(&m, rank), first = {{2, 3, 2}, {0}};
            struct sn_slice r = sn_cut_slice(cuts[i], SN_CUT_ROWS, &at, N),
                            c = sn_cut_slice(cuts[i], SN_CUT_COLS, &at, K);
            wrong += r.padded != sn_cut_slice(cuts[i], SN_CUT_ROWS, &first, N).padded ||
                     c.padded != sn_cut_slice(cuts[i], SN_CUT_COLS, &first, K).padded ||
                     r.count > r.padded || c.count > c.padded;
            for (int64_t y = r.first; y < r.first + r.count; y++)
                for (int64_t x = c.first; x < c.first + c.count; x++)
                    held[y][x]++;
        }
        for (int y = 0; y < N; y++)
            for (int x = 0; x < K; x++)
                wrong += held[y][x] != copies;
        tap_ok(wrong == 0, "23 x 17 on 2 x 3 x 2 ranks, cuts %zu: on %d each", i, copies);
    }
}

static void few_key_heads_are_copied(void)
{
    struct sn_model_config m = {.hidden = 96, .heads = 12, .kv_heads = 2};
    tap_ok(sn_kv_copies(&m, 2) == 1 && sn_kv_copies(&m, 4) == 2, "2 heads on 4 ranks: 2 copies");
    int wrong = 0;
    for (int t = 0; t < 4; t++) {
        struct sn_slice q = sn_slice_of_heads(&m, 0, 4, t), k = sn_slice_of_heads(&m, 1, 4, t);
        wrong += q.first != 24 * t || q.count != 24 || k.first != t / 2 * 8 || k.count != 8;
    }
    tap_ok(wrong == 0, "each rank has 3 query heads and the key head that they read");
}

/* --- groups ----------------------------------------------------------------------------------- */

static struct sn_grid grid(int tensor, int context, int data, int pipeline)
{
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_TENSOR_X, SN_AXIS_CONTEXT,
                                         SN_AXIS_DATA, SN_AXIS_PIPELINE};
    const int size[] = {[SN_AXIS_TENSOR] = tensor,
                        [SN_AXIS_TENSOR_X] = 1,
                        [SN_AXIS_CONTEXT] = context,
                        [SN_AXIS_DATA] = data,
                        [SN_AXIS_PIPELINE] = pipeline};
    struct sn_grid g = {.kv_copies = 1, .experts = 1};
    (void)sn_grid_init(&g, tensor * context * data * pipeline, size, order, NULL);
    return g;
}

static void members_of_a_group_agree_on_it(void)
{
    struct sn_grid g = grid(4, 2, 3, 3);
    g.kv_copies = 2;
    int wrong = 0;
    for (int r = 0; r < sn_grid_ranks(&g); r++)
        for (int q = 0; q < SN_NGROUPS; q++) {
            int n = sn_group_size(&g, r, q), me = sn_group_index(&g, r, q);
            wrong += me < 0 || me >= n || sn_group_member(&g, r, q, me) != r;
            for (int i = 0; i < n; i++) {
                int peer = sn_group_member(&g, r, q, i);
                wrong += sn_group_size(&g, peer, q) != n || sn_group_index(&g, peer, q) != i ||
                         sn_group_member(&g, peer, q, me) != r;
            }
        }
    tap_ok(wrong == 0, "in every group of 72 ranks");
    tap_ok(sn_group_size(&g, 0, SN_GROUP_REPLICA) == 6, "copies of the weights: data x context");
    tap_ok(sn_group_size(&g, 0, SN_GROUP_TIED) == 2 && sn_group_size(&g, 24, SN_GROUP_TIED) == 1,
           "ends of the pipeline share an embedding, the middle does not");
    tap_ok(sn_group_axis(SN_GROUP_REPLICA) == SN_AXIS_DATA &&
               sn_group_axis(SN_GROUP_KV) == SN_AXIS_TENSOR &&
               sn_group_axis(SN_GROUP_TIED) == SN_AXIS_PIPELINE,
           "groups that are no axes are billed to one");
}

static void coordinates_and_ranks_are_inverse(void)
{
    struct sn_grid g = grid(2, 3, 2, 5);
    int wrong = 0;
    for (int r = 0; r < sn_grid_ranks(&g); r++) {
        int coord[SN_NGRID_AXES];
        for (int a = 0; a < SN_NGRID_AXES; a++)
            coord[a] = sn_grid_coord(&g, r, (enum sn_axis)a);
        wrong += sn_grid_rank(&g, coord) != r;
    }
    tap_ok(wrong == 0, "for 60 ranks");
}

int main(void)
{
    points_have_cuts();
    adapters_are_cut_with_their_matrix();
    gradients_of_uncut_parameters_are_summed_where_rows_are_cut();
    slices_cover_everything_once();
    blocks_cover_a_weight_once();
    few_key_heads_are_copied();
    members_of_a_group_agree_on_it();
    coordinates_and_ranks_are_inverse();
    return tap_done();
}
