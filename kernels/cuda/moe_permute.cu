/*
 * moe_permute.cu - MOE_PERMUTE: a counting sort of the tokens' choices by expert, as kernels/cpu/moe_permute.c, which
 * says the order that tally.cuh counts in. RECV_OFFSETS: one warp; a segment's begin is the sum of those before
 * it, which lanes build together.
 */
#include "kernels/cuda/ops.cuh"
#include "kernels/cuda/tally.cuh"
#include "kernels/position.h"

static __device__ __forceinline__ int32_t *at(const struct sn_mat &m, int64_t r, int64_t c)
{
    return (int32_t *)m.p + r * m.ld + c;
}

/* A sequence's choices in the order in which they find room: first choices before second ones, each
 * in the order of positions. place = 0 for who finds room, -1 for who does not; where sequences are
 * cut (all ranks' choices are in 1), of the rows that are here. */
struct rooms {
    enum { SORTED = false };
    static __device__ __forceinline__ int64_t row(const struct sn_args &a, int64_t sample,
                                                  int64_t p)
    {
        if (!a.in[SN_MOE_PERMUTE_ALL].p)
            return sample * a.attr.position.seq + p;
        int64_t rows = a.in[SN_MOE_PERMUTE_ALL].rows /
                       (a.attr.position.context > 1 ? a.attr.position.context : 1);
        return sn_row_of(&a.attr.position, p, rows, sample * sn_rows_per_sample(&a.attr.position));
    }
    static __device__ __forceinline__ int32_t expert(const struct sn_args &a, int64_t sample,
                                                     int64_t i)
    {
        return *at(a.in[SN_MOE_PERMUTE_ALL].p ? a.in[SN_MOE_PERMUTE_ALL]
                                              : a.in[SN_MOE_PERMUTE_CHOICE],
                   row(a, sample, i % a.attr.position.seq), i / a.attr.position.seq);
    }
    static __device__ __forceinline__ void take(const struct sn_args &a, int64_t sample, int64_t i,
                                                int32_t number)
    {
        int64_t rows = a.in[SN_MOE_PERMUTE_ALL].rows /
                       (a.attr.position.context > 1 ? a.attr.position.context : 1);
        int64_t here = a.in[SN_MOE_PERMUTE_ALL].p
                           ? rows * a.attr.position.context_rank + a.attr.position.row0
                           : 0;
        int64_t r = row(a, sample, i % a.attr.position.seq) - here;
        if (r >= 0 && r < a.out[SN_MOE_PERMUTE_PLACE].rows)
            *at(a.out[SN_MOE_PERMUTE_PLACE], r, i / a.attr.position.seq) =
                number >= a.attr.experts.capacity ? -1 : 0;
    }
    static __device__ __forceinline__ void bounds(const struct sn_args &, const int32_t *)
    {
    }
};

/* Token after token, those that found room. */
struct places {
    enum { SORTED = true };
    static __device__ __forceinline__ int32_t expert(const struct sn_args &a, int64_t, int64_t i)
    {
        int64_t k = a.out[SN_MOE_PERMUTE_PLACE].cols, t = i / k, j = i % k;
        return a.attr.experts.capacity && *at(a.out[SN_MOE_PERMUTE_PLACE], t, j) < 0
                   ? -1
                   : *at(a.in[SN_MOE_PERMUTE_CHOICE], t, j);
    }
    static __device__ __forceinline__ void take(const struct sn_args &a, int64_t, int64_t i,
                                                int32_t number)
    {
        *at(a.out[SN_MOE_PERMUTE_PLACE], i / a.out[SN_MOE_PERMUTE_PLACE].cols,
            i % a.out[SN_MOE_PERMUTE_PLACE].cols) = number;
    }
    static __device__ __forceinline__ void bounds(const struct sn_args &a, const int32_t *begin)
    {
        for (int64_t e = threadIdx.x; e <= a.attr.experts.count; e += SN_BLOCK)
            ((int32_t *)a.out[SN_MOE_PERMUTE_BOUNDS].p)[e] = begin[e];
    }
};

/* Every token to the experts here. */
static __global__ void __launch_bounds__(SN_BLOCK) place_all(const struct sn_args a)
{
    const struct sn_mat &place = a.out[SN_MOE_PERMUTE_PLACE];
    int64_t experts = a.attr.experts.count, first = a.attr.experts.member * experts;
    int64_t all = place.rows * place.cols, step = (int64_t)gridDim.x * SN_BLOCK;
    int64_t me = (int64_t)blockIdx.x * SN_BLOCK + threadIdx.x;
    for (int64_t i = me; i < all; i += step) {
        int64_t r = i / place.cols, e = i % place.cols - first;
        *at(place, r, i % place.cols) = (int32_t)(e < 0 || e >= experts ? -1 : e * place.rows + r);
    }
    for (int64_t e = me; e <= experts; e += step)
        ((int32_t *)a.out[SN_MOE_PERMUTE_BOUNDS].p)[e] = (int32_t)(e * place.rows);
}

SN_CUDA_OP(moe_permute)
{
    if (a->attr.experts.dense)
        return sn_launch(
            cx, place_all,
            sn_shape_line(a->out[SN_MOE_PERMUTE_PLACE].rows * a->out[SN_MOE_PERMUTE_PLACE].cols),
            *a);
    struct sn_tally first = sn_tally_rooms(a), second = sn_tally_places(a);
    int rc = a->attr.experts.capacity ? sn_tally_place<rooms>(cx, a, first) : 0;
    return rc ? rc : sn_tally_place<places>(cx, a, second);
}

/* --- RECV_OFFSETS ----------------------------------------------------------------------------- */

static __device__ __forceinline__ int32_t within(int64_t at, const struct sn_attr &a)
{
    at -= a.experts.round * a.experts.capacity;
    return (int32_t)(at < 0 ? 0 : at < a.experts.capacity ? at : a.experts.capacity);
}

/* Of the first n of a sender's `all` rows for this receiver, those in the chunk. */
static __device__ __forceinline__ int64_t in_chunk(int64_t n, int64_t all, const struct sn_attr &a)
{
    int64_t chunks = a.experts.chunks > 1 ? a.experts.chunks : 1;
    int64_t first = all * a.experts.chunk / chunks, end = all * (a.experts.chunk + 1) / chunks;
    return (n < end ? n : end) - (n < first ? n : first);
}

static __global__ void __launch_bounds__(SN_WARP) recv_offsets(const struct sn_args a)
{
    const struct sn_mat &bounds = a.in[SN_RECV_OFFSETS_BOUNDS];
    int32_t *out = (int32_t *)a.out[SN_RECV_OFFSETS_ARRIVALS].p;
    int64_t experts = a.attr.experts.count, segments = bounds.rows * experts, begin = 0;
    int lane = (int)threadIdx.x;
    for (int64_t base = 0; base < segments; base += SN_WARP) {
        int64_t s = base + lane, mine = 0;
        if (s < segments) {
            const int32_t *b = (const int32_t *)bounds.p + s / experts * bounds.ld +
                               a.attr.experts.member * experts;
            int64_t all = (int64_t)b[experts] - b[0], e = s % experts;
            mine = in_chunk((int64_t)b[e + 1] - b[0], all, a.attr) -
                   in_chunk((int64_t)b[e] - b[0], all, a.attr);
        }
        int64_t up_to = mine; /* inclusive sum over the lanes */
        for (int d = 1; d < SN_WARP; d *= 2) {
            int64_t before = __shfl_up_sync((unsigned)SN_ALL_LANES, up_to, (unsigned)d);
            up_to += lane >= d ? before : 0;
        }
        if (s < segments)
            out[s] = within(begin + up_to - mine, a.attr);
        begin += __shfl_sync((unsigned)SN_ALL_LANES, up_to, SN_WARP - 1);
    }
    if (lane == 0)
        out[segments] = within(begin, a.attr);
}

SN_CUDA_OP(recv_offsets)
{
    struct sn_shape one = {1, 1, 1, SN_WARP, 1, 0};
    return sn_launch(cx, recv_offsets, one, *a);
}
