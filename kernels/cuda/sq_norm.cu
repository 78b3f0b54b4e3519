/*
 * sq_norm.cu - SQ_NORM: squares in double over blocks of 65,536 elements, the blocks in order, as
 * kernels/cpu/sq_norm.c.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

struct partial {
    double squares;
    int64_t nonfinite;
};

static __global__ void __launch_bounds__(SN_BLOCK)
    block_norms(const struct sn_args a, struct partial *part)
{
    __shared__ double room[SN_WARP];
    const float *g = (const float *)a.in[0].p;
    int64_t n = a.in[0].cols, blocks = (n + SN_NORM_ELEMENTS - 1) / SN_NORM_ELEMENTS;
    for (int64_t b = blockIdx.x; b < blocks; b += gridDim.x) {
        int64_t first = b * SN_NORM_ELEMENTS, end = first + SN_NORM_ELEMENTS;
        double squares = 0, bad = 0;
        end = end < n ? end : n;
        for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
            float x = g[i];
            squares += (double)x * (double)x;
            bad += (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0;
        }
        squares = sn_row_sum(squares, room);
        bad = sn_row_sum(bad, room);
        if (threadIdx.x == 0) {
            part[b].squares = squares;
            part[b].nonfinite = (int64_t)bad;
        }
    }
}

/* One warp: lanes fetch, the first adds. */
static __global__ void __launch_bounds__(SN_WARP)
    add_norms(const struct sn_args a, const struct partial *part, int64_t blocks)
{
    double squares = a.scalars->sq_norm;
    int64_t bad = 0;
    for (int64_t b = 0; b < blocks; b += SN_WARP) {
        bool there = b + threadIdx.x < blocks;
        double mine = there ? part[b + threadIdx.x].squares : 0.0;
        bad += there ? part[b + threadIdx.x].nonfinite : 0;
        for (int i = 0; i < SN_WARP; i++)
            squares += __shfl_sync((unsigned)SN_ALL_LANES, mine, i);
    }
    double all_bad = sn_warp_sum((double)bad);
    if (threadIdx.x == 0) {
        a.scalars->sq_norm = squares;
        a.scalars->nonfinite += (int64_t)all_bad;
    }
}

SN_CUDA_OP(sq_norm)
{
    struct partial *part = (struct partial *)a->scratch;
    int64_t blocks = sn_ceil_div(a->in[0].cols, SN_NORM_ELEMENTS);
    struct sn_shape many = {sn_cap(blocks, SN_GRID_CAP), 1, 1, SN_BLOCK, 1, 0};
    struct sn_shape one = {blocks > 0, 1, 1, SN_WARP, 1, 0};
    int rc = sn_launch(cx, block_norms, many, *a, part);
    return rc ? rc : sn_launch(cx, add_norms, one, *a, part, blocks);
}
