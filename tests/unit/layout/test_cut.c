/*
 * test_edge.c - collectives derived from forms; how parameters are cut; which ranks form a group.
 */
#include "lib/layout/cut.h"
#include "lib/layout/grid.h"
#include "tests/lib/tap.h"

static const struct sn_layout_form same = {SN_SAME, SN_ROWS}, shared = {SN_SHARED, SN_ROWS},
                                   partial = {SN_PARTIAL, SN_ROWS}, rows = {SN_SPLIT, SN_ROWS},
                                   cols = {SN_SPLIT, SN_COLS};

static void edge(struct sn_layout_form have, struct sn_layout_form want, enum sn_move forward,
                 enum sn_move backward, const char *what)
{
    tap_ok(sn_edge_forward(have, want) == forward, "%s: forward", what);
    tap_ok(sn_edge_backward(have, want) == backward, "%s: backward", what);
}

static void the_usual_pairs_follow_from_the_table(void)
{
    edge(same, shared, SN_KEEP, SN_MOVE_ALL_REDUCE, "a column-parallel layer is entered");
    edge(partial, same, SN_MOVE_ALL_REDUCE, SN_KEEP, "a row-parallel layer is left");
    edge(rows, shared, SN_MOVE_ALL_GATHER, SN_MOVE_REDUCE_SCATTER, "entered from slices of rows");
    edge(partial, rows, SN_MOVE_REDUCE_SCATTER, SN_MOVE_ALL_GATHER, "left into slices of rows");
    edge(rows, cols, SN_MOVE_ALL_TO_ALL, SN_MOVE_ALL_TO_ALL, "rows for heads");
    edge(cols, rows, SN_MOVE_ALL_TO_ALL, SN_MOVE_ALL_TO_ALL, "heads for rows");
    edge(same, same, SN_KEEP, SN_KEEP, "nothing changes");
    edge(cols, cols, SN_KEEP, SN_KEEP, "slices stay");
    edge(same, rows, SN_SLICE, SN_MOVE_ALL_GATHER, "a slice is taken");
}

static void moves_that_make_no_sense_are_never(void)
{
    tap_ok(sn_edge_forward(shared, same) == SN_NEVER, "what ranks use differently is not the same");
    tap_ok(sn_edge_forward(same, partial) == SN_NEVER, "a whole is not a part");
    tap_ok(sn_edge_forward(rows, partial) == SN_NEVER, "a slice is no summand");
}

static void points_have_cuts(void)
{
    const struct sn_cut *qkv = sn_cut_at("l31.attn.qkv"), *o = sn_cut_at("l0.attn.o");
    tap_ok(qkv && qkv->weight == SN_CUT_QKV && qkv->want.form == SN_SHARED, "q, k, v by heads");
    tap_ok(o && o->weight == SN_CUT_COLS && o->bias == SN_CUT_NONE && o->give.form == SN_PARTIAL,
           "the output projection by columns, its bias whole");
    tap_ok(sn_cut_at("embed") && sn_cut_at("head"), "both ends by words");
    tap_ok(!sn_cut_at("l3.attn_norm") && !sn_cut_at("final_norm") && !sn_cut_at("lost"),
           "norms are not cut");
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
    static const enum sn_axis order[] = {SN_AXIS_TENSOR, SN_AXIS_CONTEXT, SN_AXIS_DATA,
                                         SN_AXIS_PIPELINE};
    const int size[] = {[SN_AXIS_TENSOR] = tensor,
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
    the_usual_pairs_follow_from_the_table();
    moves_that_make_no_sense_are_never();
    points_have_cuts();
    slices_cover_everything_once();
    few_key_heads_are_copied();
    members_of_a_group_agree_on_it();
    coordinates_and_ranks_are_inverse();
    return tap_done();
}
