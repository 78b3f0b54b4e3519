/*
 * recv_offsets.cu - RECV_OFFSETS, as kernels/cpu/recv_offsets.c. One warp: a segment's begin is the sum of those
 * before it, which lanes build together.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

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
    int64_t experts = a.attr.experts.count, segments = bounds.rows * experts, at = 0;
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
            out[s] = within(at + up_to - mine, a.attr);
        at += __shfl_sync((unsigned)SN_ALL_LANES, up_to, SN_WARP - 1);
    }
    if (lane == 0)
        out[segments] = within(at, a.attr);
}

SN_CUDA_OP(recv_offsets)
{
    struct sn_shape one = {1, 1, 1, SN_WARP, 1, 0};
    return sn_launch(cx, recv_offsets, one, *a);
}
