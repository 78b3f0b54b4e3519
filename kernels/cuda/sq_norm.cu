/*
 * sq_norm.cu - SQ_NORM: squares in double over blocks of 65,536 elements, the blocks in order, as
 * kernels/cpu/sq_norm.c. A block is eight pieces, so that the gradients of one bucket fill a
 * device.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

struct partial {
    double squares;
    int64_t nonfinite;
};

static __device__ __forceinline__ void add(float x, double *squares, int *bad)
{
    *squares += (double)x * (double)x;
    *bad += (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u;
}

static __global__ void __launch_bounds__(SN_BLOCK)
    piece_norms(const struct sn_args a, bool aligned, struct partial *part)
{
    enum { LOADS = SN_SQUARES_PIECE / 4 / SN_BLOCK };
    __shared__ double room[SN_WARP];
    __shared__ int bad_room[SN_WARP];
    const float *g = (const float *)a.in[SN_SQ_NORM_G].p;
    int64_t n = a.in[SN_SQ_NORM_G].cols, pieces = (n + SN_SQUARES_PIECE - 1) / SN_SQUARES_PIECE;
    for (int64_t b = blockIdx.x; b < pieces; b += gridDim.x) {
        int64_t first = b * SN_SQUARES_PIECE, end = first + SN_SQUARES_PIECE;
        double squares = 0;
        int bad = 0;
        if (aligned && end <= n) {
            float4 x[LOADS];
#pragma unroll
            for (int i = 0; i < LOADS; i++)
                x[i] = *(const float4 *)(g + first + 4 * (i * SN_BLOCK + (int)threadIdx.x));
#pragma unroll
            for (int i = 0; i < LOADS; i++) {
                add(x[i].x, &squares, &bad);
                add(x[i].y, &squares, &bad);
                add(x[i].z, &squares, &bad);
                add(x[i].w, &squares, &bad);
            }
        } else {
            for (int64_t i = first + threadIdx.x; i < end && i < n; i += SN_BLOCK)
                add(g[i], &squares, &bad);
        }
        squares = sn_row_sum(squares, room);
        bad = sn_row_sum(bad, bad_room);
        if (threadIdx.x == 0) {
            part[b].squares = squares;
            part[b].nonfinite = bad;
        }
    }
}

/* One block: a thread adds the pieces of a block of elements, then all add the blocks in order. */
static __global__ void __launch_bounds__(SN_BLOCK)
    add_norms(const struct sn_args a, const struct partial *part, int64_t pieces)
{
    enum { PIECES = SN_NORM_ELEMENTS / SN_SQUARES_PIECE };
    __shared__ double room[SN_BLOCK];
    __shared__ int64_t bad_room[SN_WARP];
    double squares = a.scalars->sq_norm;
    int64_t bad = 0;
    for (int64_t base = 0; base < pieces; base += SN_BLOCK * PIECES) {
        int64_t first = base + threadIdx.x * PIECES;
        double mine = 0;
        for (int i = 0; i < PIECES && first + i < pieces; i++) {
            mine += part[first + i].squares;
            bad += part[first + i].nonfinite;
        }
        __syncthreads();
        room[threadIdx.x] = mine;
        __syncthreads();
#pragma unroll 8
        for (int i = 0; i < SN_BLOCK; i++)
            squares += room[i];
    }
    bad = sn_row_sum(bad, bad_room);
    if (threadIdx.x == 0) {
        a.scalars->sq_norm = squares;
        a.scalars->nonfinite += bad;
    }
}

SN_CUDA_OP(sq_norm)
{
    struct partial *part = (struct partial *)a->scratch;
    int64_t pieces = sn_ceil_div(a->in[SN_SQ_NORM_G].cols, SN_SQUARES_PIECE);
    struct sn_shape many = {sn_cap(pieces, SN_GRID_CAP), 1, 1, SN_BLOCK, 1, 0};
    struct sn_shape one = {pieces > 0, 1, 1, SN_BLOCK, 1, 0};
    int rc = sn_launch(cx, piece_norms, many, *a, (uintptr_t)a->in[SN_SQ_NORM_G].p % 16 == 0, part);
    return rc ? rc : sn_launch(cx, add_norms, one, *a, part, pieces);
}
