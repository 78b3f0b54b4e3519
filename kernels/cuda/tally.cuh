/*
 * tally.cuh - how often each expert is chosen, and the number of each choice among those of its
 * expert: the counting of ROUTE and MOE_PERMUTE.
 *
 * Three kernels: each tile's counts; their sums from tile to tile, and in all; each item's number.
 * A warp walks its part of a tile in order, 32 items at a time, whose ranks ballots tell: numbers
 * are those of one walk over all items, whatever the order of blocks, and nothing is added by
 * atomics.
 *
 * Items::expert(a, group, i) is the expert of item i of the group, or -1 for one that does not
 * count.
 */
#ifndef SN_CUDA_TALLY_CUH
#define SN_CUDA_TALLY_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/tally.h"

/* Whose bits of e are mine, of the lanes that have an expert. */
static __device__ __forceinline__ unsigned sn_tally_peers(int32_t e, int64_t experts)
{
    unsigned same = __ballot_sync((unsigned)SN_ALL_LANES, e >= 0);
    for (int bit = 0; (int64_t)1 << bit < experts; bit++) {
        unsigned has = __ballot_sync((unsigned)SN_ALL_LANES, e >> bit & 1);
        same &= e >> bit & 1 ? has : ~has;
    }
    return same;
}

/* Where a block works. */
struct sn_tally_part {
    int64_t group, tile, first, end; /* this warp's items */
};

static __device__ __forceinline__ struct sn_tally_part sn_tally_part_of(const struct sn_tally &t,
                                                                        int64_t b)
{
    struct sn_tally_part p = {b / t.tiles, b % t.tiles, 0, 0};
    int64_t mine = t.tile / SN_TALLY_WARPS;
    p.first = p.tile * t.tile + threadIdx.x / SN_WARP * mine;
    p.end = p.first + mine < t.items ? p.first + mine : t.items;
    return p;
}

/* count[warp][e] of this tile, all zero before; then all of the block may read it. */
template <class Items>
static __device__ __forceinline__ void sn_tally_count(const struct sn_args &a,
                                                      const struct sn_tally &t,
                                                      const struct sn_tally_part &p, int32_t *count)
{
    int lane = (int)threadIdx.x % SN_WARP;
    int32_t *own = count + threadIdx.x / SN_WARP * t.experts;
    __syncthreads(); /* the last readers are through */
    for (int64_t i = threadIdx.x; i < SN_TALLY_WARPS * t.experts; i += SN_BLOCK)
        count[i] = 0;
    __syncthreads();
    for (int64_t base = p.first; base < p.end; base += SN_WARP) {
        int32_t e = base + lane < p.end ? Items::expert(a, p.group, base + lane) : -1;
        unsigned peers = sn_tally_peers(e, t.experts);
        if (e >= 0 && __ffs((int)peers) - 1 == lane)
            own[e] += __popc(peers);
        __syncwarp();
    }
    __syncthreads();
}

template <class Items>
static __global__ void __launch_bounds__(SN_BLOCK)
    sn_tally_tiles(const struct sn_args a, const struct sn_tally t, int32_t *counts)
{
    SN_DYNAMIC_SHARED(shared);
    int32_t *count = (int32_t *)shared;
    for (int64_t b = blockIdx.x; b < t.groups * t.tiles; b += gridDim.x) {
        struct sn_tally_part p = sn_tally_part_of(t, b);
        sn_tally_count<Items>(a, t, p, count);
        for (int64_t e = threadIdx.x; e < t.experts; e += SN_BLOCK) {
            int32_t n = 0;
            for (int w = 0; w < SN_TALLY_WARPS; w++)
                n += count[w * t.experts + e];
            counts[(p.group * t.experts + e) * t.tiles + p.tile] = n;
        }
    }
}

static __device__ __forceinline__ int32_t sn_up_to(int32_t x)
{
    int lane = (int)threadIdx.x % SN_WARP;
#pragma unroll
    for (int d = 1; d < SN_WARP; d *= 2) {
        int32_t before = __shfl_up_sync((unsigned)SN_ALL_LANES, x, (unsigned)d);
        x += lane >= d ? before : 0;
    }
    return x;
}

/* Counts of tiles become sums of those before; all of them go to sums[groups, experts]. */
static __global__ void __launch_bounds__(SN_BLOCK)
    sn_tally_sums(const struct sn_tally t, int32_t *counts, int32_t *sums)
{
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t first = (int64_t)blockIdx.x * SN_TALLY_WARPS + threadIdx.x / SN_WARP;
    for (int64_t r = first; r < t.groups * t.experts; r += (int64_t)gridDim.x * SN_TALLY_WARPS) {
        int32_t *row = counts + r * t.tiles, before = 0;
        for (int64_t base = 0; base < t.tiles; base += SN_WARP) {
            int32_t mine = base + lane < t.tiles ? row[base + lane] : 0, up_to = sn_up_to(mine);
            if (base + lane < t.tiles)
                row[base + lane] = before + up_to - mine;
            before += __shfl_sync((unsigned)SN_ALL_LANES, up_to, SN_WARP - 1);
        }
        if (lane == 0)
            sums[r] = before;
    }
}

/* begin[e] = what experts before e have, begin[experts] all; `begin` is shared, and all threads
 * may read it when this returns. */
static __device__ __forceinline__ void sn_tally_begins(const int32_t *sums, int64_t experts,
                                                       int32_t *begin)
{
    __shared__ int32_t room[SN_TALLY_WARPS];
    int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
    int32_t before = 0;
    for (int64_t base = 0; base < experts; base += SN_BLOCK) {
        int64_t e = base + threadIdx.x;
        int32_t mine = e < experts ? sums[e] : 0, up_to = sn_up_to(mine);
        __syncthreads();
        if (lane == SN_WARP - 1)
            room[warp] = up_to;
        __syncthreads();
        for (int w = 0; w < warp; w++)
            up_to += room[w];
        if (e < experts)
            begin[e] = before + up_to - mine;
        for (int w = 0; w < SN_TALLY_WARPS; w++)
            before += room[w];
    }
    if (threadIdx.x == 0)
        begin[experts] = before;
    __syncthreads();
}

/*
 * Items::take(a, group, i, number): the item's number among those of its expert, in the group; with
 * Items::SORTED all experts' items have numbers one after the other, expert after expert, and
 * Items::bounds(a, begin) gets where each begins, from one block.
 */
template <class Items>
static __global__ void __launch_bounds__(SN_BLOCK)
    sn_tally_take(const struct sn_args a, const struct sn_tally t, const int32_t *counts,
                  const int32_t *sums)
{
    SN_DYNAMIC_SHARED(shared);
    int32_t *count = (int32_t *)shared, *begin = count + SN_TALLY_WARPS * t.experts;
    int lane = (int)threadIdx.x % SN_WARP;
    int32_t *own = count + threadIdx.x / SN_WARP * t.experts;
    if (Items::SORTED)
        sn_tally_begins(sums, t.experts, begin);
    if (Items::SORTED && blockIdx.x == 0)
        Items::bounds(a, begin);
    for (int64_t b = blockIdx.x; b < t.groups * t.tiles; b += gridDim.x) {
        struct sn_tally_part p = sn_tally_part_of(t, b);
        sn_tally_count<Items>(a, t, p, count);
        for (int64_t e = threadIdx.x; e < t.experts; e += SN_BLOCK) {
            int32_t next = counts[(p.group * t.experts + e) * t.tiles + p.tile];
            next += Items::SORTED ? begin[e] : 0;
            for (int w = 0; w < SN_TALLY_WARPS; w++) {
                int32_t n = count[w * t.experts + e];
                count[w * t.experts + e] = next;
                next += n;
            }
        }
        __syncthreads();
        for (int64_t base = p.first; base < p.end; base += SN_WARP) {
            int64_t i = base + lane;
            int32_t e = i < p.end ? Items::expert(a, p.group, i) : -1;
            unsigned peers = sn_tally_peers(e, t.experts);
            int before = __popc(peers & ((1u << lane) - 1));
            int32_t number = e >= 0 ? own[e] + before : 0;
            __syncwarp(); /* all have read */
            if (e >= 0 && before == 0)
                own[e] = number + __popc(peers);
            __syncwarp(); /* and the next ones read that */
            if (e >= 0)
                Items::take(a, p.group, i, number);
        }
    }
}

/* Counts and their sums, in scratch. */
template <class Items>
static int sn_tally_run(struct sn_cuda *cx, const struct sn_args *a, const struct sn_tally &t,
                        int32_t **sums)
{
    int32_t *counts = (int32_t *)a->scratch;
    *sums = counts + t.groups * t.experts * t.tiles;
    int rc = sn_launch(cx, sn_tally_tiles<Items>, sn_shape_tally(&t), *a, t, counts);
    return rc ? rc : sn_launch(cx, sn_tally_sums, sn_shape_tally_sums(&t), t, counts, *sums);
}

/* And each item's number. */
template <class Items>
static int sn_tally_place(struct sn_cuda *cx, const struct sn_args *a, const struct sn_tally &t)
{
    int32_t *sums;
    int rc = sn_tally_run<Items>(cx, a, t, &sums);
    struct sn_shape g = sn_shape_tally(&t);
    g.shared += (size_t)(t.experts + 1) * sizeof(int32_t);
    g.x = g.x || !Items::SORTED ? g.x : 1; /* bounds of nothing are written too */
    return rc ? rc
              : sn_launch(cx, sn_tally_take<Items>, g, *a, t, (const int32_t *)a->scratch,
                          (const int32_t *)sums);
}

#endif
