/*
 * tally.h - sizes of ROUTE's and MOE_PERMUTE's counting, as plain C; tally.cuh counts.
 *
 * Items (choices) come in groups of `items` each. A block has a tile of a group, its warps equal
 * parts of that. Tiles grow with the group, so that their counts stay few; up to SN_TALLY_TILES
 * of them a tile is as small as a block allows, and keep many multiprocessors busy.
 */
#ifndef SN_CUDA_TALLY_H
#define SN_CUDA_TALLY_H

#include "kernels/cuda/geometry.h"
#include "kernels/ops.h"
#include "kernels/position.h"

enum { SN_TALLY_LEAST = 512, SN_TALLY_TILES = 1024, SN_TALLY_WARPS = SN_BLOCK / SN_WARP };

struct sn_tally {
    int64_t groups, items, experts;
    int64_t tile, tiles; /* items of a tile, a multiple of SN_BLOCK; tiles of a group */
};

static inline struct sn_tally sn_tally_of(int64_t groups, int64_t items, int64_t experts)
{
    struct sn_tally t = {groups, items, experts, SN_TALLY_LEAST, 0};
    int64_t least = sn_ceil_div(items, SN_TALLY_LEAST);
    if (least > SN_TALLY_TILES)
        t.tile *= sn_ceil_div(least, SN_TALLY_TILES);
    t.tiles = sn_ceil_div(items, t.tile);
    return t;
}

/* A block for each tile; a count of each warp and expert in shared memory. */
static inline struct sn_shape sn_shape_tally(const struct sn_tally *t)
{
    struct sn_shape g = {sn_cap(t->groups * t->tiles, SN_GRID_CAP),
                         1,
                         1,
                         SN_BLOCK,
                         1,
                         (size_t)(SN_TALLY_WARPS * t->experts) * sizeof(int32_t)};
    return g;
}

/* A warp for each group and expert. */
static inline struct sn_shape sn_shape_tally_sums(const struct sn_tally *t)
{
    return sn_shape_line(t->groups * t->experts * SN_WARP);
}

/* Counts of tiles, [groups, experts, tiles], and their sums, [groups, experts], of 4 bytes. */
static inline size_t sn_tally_scratch(const struct sn_tally *t)
{
    return (size_t)(t->groups * t->experts * (t->tiles + 1)) * sizeof(int32_t);
}

/* ROUTE counts all choices in one group. */
static inline struct sn_tally sn_tally_route(const struct sn_args *a)
{
    return sn_tally_of(1, a->out[SN_ROUTE_CHOICE].rows * a->out[SN_ROUTE_CHOICE].cols,
                       a->out[SN_ROUTE_COUNTS].cols);
}

/* And those of each sequence, of which it may have some: the items of all of it. */
static inline struct sn_tally sn_tally_sequences(const struct sn_args *a)
{
    return sn_tally_of(a->out[SN_ROUTE_SEQUENCES].rows,
                       sn_rows_per_sample(&a->attr.position) * a->out[SN_ROUTE_CHOICE].cols,
                       a->out[SN_ROUTE_COUNTS].cols);
}

/* MOE_PERMUTE with a capacity first looks who finds room in its sequence, among all ranks' choices; then,
 * as without one, sorts what is here. */
static inline struct sn_tally sn_tally_rooms(const struct sn_args *a)
{
    const struct sn_mat *all =
        a->in[SN_MOE_PERMUTE_ALL].rows ? &a->in[SN_MOE_PERMUTE_ALL] : &a->in[SN_MOE_PERMUTE_CHOICE];
    int64_t seq = a->attr.experts.capacity ? a->attr.position.seq : 0;
    return sn_tally_of(seq ? all->rows / seq : 0, seq * all->cols, a->attr.experts.count);
}

static inline struct sn_tally sn_tally_places(const struct sn_args *a)
{
    return sn_tally_of(1, a->out[SN_MOE_PERMUTE_PLACE].rows * a->out[SN_MOE_PERMUTE_PLACE].cols,
                       a->attr.experts.count);
}

static inline size_t sn_place_scratch(const struct sn_args *a)
{
    struct sn_tally rooms = sn_tally_rooms(a), places = sn_tally_places(a);
    size_t first = sn_tally_scratch(&rooms), second = sn_tally_scratch(&places);
    return a->attr.experts.dense ? 0 : first > second ? first : second;
}

/* Of a dense ROUTE, whose counts are sums of weights. */
static inline size_t sn_route_scratch(const struct sn_args *a)
{
    struct sn_tally t = sn_tally_route(a), s = sn_tally_sequences(a);
    size_t all = sn_tally_scratch(&t), each = sn_tally_scratch(&s);
    return a->attr.experts.dense
               ? sn_sum_scratch(a->out[SN_ROUTE_W].rows, a->out[SN_ROUTE_W].cols, 1)
               : all > each ? all : each;
}

#endif
