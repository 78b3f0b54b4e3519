/*
 * arrive.cu - ARRIVE, as kernels/cpu/arrive.c. One warp: a segment's begin is the sum of those
 * before it, which lanes build together.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

static __device__ __forceinline__ int32_t within(int64_t at, const struct sn_attr &a)
{
    at -= a.round * a.capacity;
    return (int32_t)(at < 0 ? 0 : at < a.capacity ? at : a.capacity);
}

static __global__ void __launch_bounds__(SN_WARP) arrive(const struct sn_args a)
{
    const struct sn_mat &bounds = a.in[0];
    int32_t *out = (int32_t *)a.out[0].p;
    int64_t experts = a.attr.experts, segments = bounds.rows * experts, at = 0;
    int lane = (int)threadIdx.x;
    for (int64_t base = 0; base < segments; base += SN_WARP) {
        int64_t s = base + lane, mine = 0;
        if (s < segments) {
            const int32_t *b = (const int32_t *)bounds.p + s / experts * bounds.ld +
                               a.attr.member * experts + s % experts;
            mine = (int64_t)b[1] - b[0];
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

SN_CUDA_OP(arrive)
{
    struct sn_shape one = {1, 1, 1, SN_WARP, 1, 0};
    return sn_launch(cx, arrive, one, *a);
}
