/*
 * gemm_fp8.cu - operands of a GEMM with attr.fp8: their scales, and copies rounded to 8-bit floats.
 *
 * For cuBLASLt, which on sm_89 and sm_90 multiplies 8-bit operands only along rows of both: copies
 * of codes, row after row of the result's rows (of A) or columns (of B), depth filled up with zeros
 * to whole 16; what lies the other way is turned over through tiles in shared memory. Where the
 * library or the device has no such product: copies in bf16, which hold the same values exactly,
 * for a product of bf16 matrices. The magnitude is a maximum, so its atomic has one result.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_fp8.cuh"

enum { TILE = 32, TILE_Y = 8 };

/* --- the largest magnitude, as bits -------------------------------------------------------------
 */

static __global__ void __launch_bounds__(SN_BLOCK) largest(const struct sn_mat x, unsigned *most)
{
    unsigned mine = 0;
    int64_t all = x.rows * x.cols, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        unsigned bits = ((const uint16_t *)x.p)[i / x.cols * x.ld + i % x.cols] & 0x7fffu;
        mine = bits << 16 > mine ? bits << 16 : mine;
    }
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2) {
        unsigned other = __shfl_xor_sync((unsigned)SN_ALL_LANES, mine, d);
        mine = other > mine ? other : mine;
    }
    if (threadIdx.x % SN_WARP == 0)
        (void)atomicMax(most, mine);
}

/* --- copies --------------------------------------------------------------------------------------
 */

/* Row r, depth k of the operand x: x[r, k], or x[k, r] when it is turned. */
static __global__ void __launch_bounds__(TILE *TILE_Y)
    codes_of(const struct sn_mat x, bool turned, enum sn_fp8_format t, const unsigned *most,
             float *inverse, uint8_t *to, int64_t ld)
{
    __shared__ uint8_t room[TILE][TILE + 4];
    int e = sn_fp8_exponent(*most, t);
    float scale = sn_power_of_two(e);
    int64_t rows = turned ? x.cols : x.rows, depth = turned ? x.rows : x.cols;
    int64_t across = sn_ceil_div(ld, TILE), tiles = across * sn_ceil_div(rows, TILE);
    if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0)
        *inverse = sn_power_of_two(-e);
    for (int64_t n = blockIdx.x; n < tiles; n += gridDim.x) {
        int64_t r0 = n / across * TILE, k0 = n % across * TILE;
        __syncthreads(); /* the last tile has been written out */
        for (int y = (int)threadIdx.y; y < TILE; y += TILE_Y) {
            int64_t r = turned ? r0 + threadIdx.x : r0 + y, k = turned ? k0 + y : k0 + threadIdx.x;
            uint8_t code = 0;
            if (r < rows && k < depth) {
                const sn_bf16 *p = (const sn_bf16 *)x.p + (turned ? k * x.ld + r : r * x.ld + k);
                code = sn_f32_to_fp8(sn_wide(*p) * scale, t);
            }
            room[turned ? threadIdx.x : y][turned ? y : threadIdx.x] = code;
        }
        __syncthreads();
        for (int y = (int)threadIdx.y; y < TILE; y += TILE_Y)
            if (r0 + y < rows && k0 + threadIdx.x < ld)
                to[(r0 + y) * ld + k0 + threadIdx.x] = room[y][threadIdx.x];
    }
}

static __global__ void __launch_bounds__(SN_BLOCK)
    values_of(const struct sn_mat x, enum sn_fp8_format t, const unsigned *most, sn_bf16 *to)
{
    int e = sn_fp8_exponent(*most, t);
    int64_t all = x.rows * x.cols, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        sn_bf16 h = ((const sn_bf16 *)x.p)[i / x.cols * x.ld + i % x.cols];
        sn_narrow(to + i, sn_fp8_round(sn_wide(h), e, t));
    }
}

/* --- what gemm.cu calls
 * --------------------------------------------------------------------------- */

int sn_fp8_begin(struct sn_cuda *cx, const struct sn_args *a, struct sn_fp8_call *f)
{
    bool turns[2] = {a->attr.trans_a, !a->attr.trans_b};
    char *at = (char *)a->scratch + SN_GEMM_WORKSPACE;
    f->most = (unsigned *)at;
    f->inverse = (float *)at + 2;
    at += SN_FP8_HEAD;
    int rc = sn_launched(cx, cudaMemsetAsync(f->most, 0, SN_FP8_HEAD, cx->stream));
    for (int i = 0; i < 2; i++) {
        const struct sn_mat *x = &a->in[i];
        struct sn_shape g = sn_shape_line(x->rows * x->cols);
        g.x = sn_cap(g.x, 1024); /* one atomic a warp: no more of them than that */
        f->format[i] = i == 0 && a->attr.fp8 == SN_FP8_BACKWARD ? SN_E5M2 : SN_E4M3;
        f->turned[i] = turns[i];
        f->copy[i] = at;
        at += sn_fp8_room(x, turns[i]);
        rc = rc ? rc : sn_launch(cx, largest, g, *x, f->most + i);
    }
    f->depth = sn_fp8_depth(turns[0] ? a->in[0].rows : a->in[0].cols);
    return rc;
}

int sn_fp8_codes(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f)
{
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        const struct sn_mat *x = &a->in[i];
        int64_t rows = f->turned[i] ? x->cols : x->rows;
        int64_t tiles = sn_ceil_div(f->depth, TILE) * sn_ceil_div(rows, TILE);
        struct sn_shape g = {sn_cap(tiles, SN_GRID_CAP), 1, 1, TILE, TILE_Y, 0};
        rc = sn_launch(cx, codes_of, g, *x, f->turned[i], f->format[i], f->most + i, f->inverse + i,
                       (uint8_t *)f->copy[i], f->depth);
    }
    return rc;
}

int sn_fp8_values(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f,
                  struct sn_args *out)
{
    int rc = 0;
    *out = *a;
    out->attr.fp8 = SN_FP8_NONE;
    for (int i = 0; i < 2 && rc == 0; i++) {
        const struct sn_mat *x = &a->in[i];
        rc = sn_launch(cx, values_of, sn_shape_line(x->rows * x->cols), *x, f->format[i],
                       f->most + i, (sn_bf16 *)f->copy[i]);
        out->in[i].p = f->copy[i];
        out->in[i].ld = x->cols;
    }
    return rc;
}
