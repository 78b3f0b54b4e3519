/*
 * place.cu - PLACE: a counting sort of the tokens' choices by expert, as kernels/cpu/place.c.
 *
 * A warp walks all choices for one expert, 32 at a time; ballots count and rank, so the order of
 * tokens holds without scratch and without atomics. That reads the choices once for each expert,
 * from cache: T k E numbers, where what follows moves T k D. With a capacity a warp for each expert
 * of each sequence marks who finds no room first.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/position.h"

enum { WARPS = SN_BLOCK / SN_WARP };

static __device__ __forceinline__ int64_t warp_number(void)
{
    return (int64_t)blockIdx.x * WARPS + threadIdx.x / SN_WARP;
}

static __device__ __forceinline__ int32_t *at(const struct sn_mat &m, int64_t r, int64_t c)
{
    return (int32_t *)m.p + r * m.ld + c;
}

/* place = 0 for who finds room, -1 for who does not; where sequences are cut (all ranks' choices are in
 * 1), of the rows that are here. Without a capacity in one sweep over all rows. */
static __global__ void __launch_bounds__(SN_BLOCK) mark(const struct sn_args a)
{
    const struct sn_mat &place = a.out[0], &all = a.in[1].p ? a.in[1] : a.in[0];
    int64_t experts = a.attr.experts, seq = a.attr.capacity ? a.attr.seq : place.rows;
    int64_t samples = seq ? all.rows / seq : 0;
    int64_t rows = all.rows / (a.in[1].p && a.attr.context > 1 ? a.attr.context : 1);
    int64_t here = a.in[1].p ? rows * a.attr.context_rank + a.attr.row0 : 0;
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t w = warp_number(); w < samples * experts; w += (int64_t)gridDim.x * WARPS) {
        int64_t sample = w / experts, used = 0;
        for (int64_t j = 0; j < all.cols; j++)
            for (int64_t base = 0; base < seq; base += SN_WARP) {
                int64_t p = base + lane, r = p < seq ? sample * seq + p : 0;
                if (p < seq && a.in[1].p)
                    r = sn_row_of(&a.attr, p, rows, sample * sn_rows_per_sample(&a.attr));
                bool is_its = p < seq && *at(all, r, j) == w % experts;
                unsigned who = __ballot_sync((unsigned)SN_ALL_LANES, is_its);
                int64_t rank = used + __popc(who & ((1u << lane) - 1));
                if (is_its && r >= here && r < here + place.rows)
                    *at(place, r - here, j) = a.attr.capacity && rank >= a.attr.capacity ? -1 : 0;
                used += __popc(who);
            }
    }
}

/* What an expert has, into bounds[e + 1]. */
static __global__ void __launch_bounds__(SN_BLOCK) count(const struct sn_args a)
{
    const struct sn_mat &choice = a.in[0], &place = a.out[0];
    int64_t all = place.rows * place.cols, k = place.cols;
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t e = warp_number(); e < a.attr.experts; e += (int64_t)gridDim.x * WARPS) {
        int32_t n = 0;
        for (int64_t i = lane; i < all; i += SN_WARP)
            n += *at(choice, i / k, i % k) == e && *at(place, i / k, i % k) == 0;
        n = sn_warp_sum(n);
        if (lane == 0)
            ((int32_t *)a.out[1].p)[e + 1] = n;
    }
}

/* One thread: there are few experts. */
static __global__ void begin(const struct sn_args a)
{
    int32_t *bounds = (int32_t *)a.out[1].p, n = 0;
    bounds[0] = 0;
    for (int64_t e = 1; e <= a.attr.experts; e++) {
        n += bounds[e];
        bounds[e] = n;
    }
}

/* Writes the places of `mine`; a place that was written is at least 0, as unwritten ones are: so
 * an expert's warp touches its own choices only. */
static __global__ void __launch_bounds__(SN_BLOCK) assign(const struct sn_args a)
{
    const struct sn_mat &choice = a.in[0], &place = a.out[0];
    int64_t all = place.rows * place.cols, k = place.cols;
    int lane = (int)threadIdx.x % SN_WARP;
    for (int64_t e = warp_number(); e < a.attr.experts; e += (int64_t)gridDim.x * WARPS) {
        int32_t next = ((const int32_t *)a.out[1].p)[e];
        for (int64_t base = 0; base < all; base += SN_WARP) {
            int64_t i = base + lane;
            int32_t *to = i < all ? at(place, i / k, i % k) : NULL;
            bool mine = to && *at(choice, i / k, i % k) == e && *to == 0;
            unsigned who = __ballot_sync((unsigned)SN_ALL_LANES, mine);
            if (mine)
                *to = next + __popc(who & ((1u << lane) - 1));
            next += __popc(who);
        }
    }
}

/* Every token to the experts here. */
static __global__ void __launch_bounds__(SN_BLOCK) place_all(const struct sn_args a)
{
    const struct sn_mat &place = a.out[0];
    int64_t experts = a.attr.experts, first = a.attr.member * experts;
    int64_t all = place.rows * place.cols, step = (int64_t)gridDim.x * SN_BLOCK;
    int64_t me = (int64_t)blockIdx.x * SN_BLOCK + threadIdx.x;
    for (int64_t i = me; i < all; i += step) {
        int64_t r = i / place.cols, e = i % place.cols - first;
        *at(place, r, i % place.cols) = (int32_t)(e < 0 || e >= experts ? -1 : e * place.rows + r);
    }
    for (int64_t e = me; e <= experts; e += step)
        ((int32_t *)a.out[1].p)[e] = (int32_t)(e * place.rows);
}

SN_CUDA_OP(place)
{
    if (a->attr.dense)
        return sn_launch(cx, place_all, sn_shape_line(a->out[0].rows * a->out[0].cols), *a);
    int64_t experts = a->attr.experts, rows = a->out[0].rows;
    int64_t whole = a->in[1].p ? a->in[1].rows : rows;
    int64_t samples = a->attr.capacity ? whole / a->attr.seq : rows > 0;
    struct sn_shape one = {1, 1, 1, 1, 1, 0};
    int rc = sn_launch(cx, mark, sn_shape_line(samples * experts * SN_WARP), *a);
    rc = rc ? rc : sn_launch(cx, count, sn_shape_line(experts * SN_WARP), *a);
    rc = rc ? rc : sn_launch(cx, begin, one, *a);
    return rc ? rc : sn_launch(cx, assign, sn_shape_line(experts * SN_WARP), *a);
}
