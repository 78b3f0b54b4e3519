/*
 * gemm_fp8.cu - operands of a GEMM with attr.gemm.fp8: their scales, and copies rounded to 8-bit floats.
 *
 * For cuBLASLt, which on sm_89 and sm_90 multiplies 8-bit operands only along rows of both: copies
 * of codes, row after row of the result's rows (of A) or columns (of B), depth filled up with zeros
 * to whole 16; what lies the other way is turned over through tiles in shared memory. Where the
 * library or the device has no such product: copies in bf16, which hold the same values exactly,
 * for a product of bf16 matrices. A magnitude is a maximum, so its atomic has one result.
 *
 * One scale for a whole operand takes two passes, for its magnitude and for the copy; scales of
 * lines and blocks of 128 take one: a block of threads keeps a tile of 128 x 128 in shared memory,
 * which no such part crosses.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gemm_fp8.cuh"

enum { TILE = 32, TILE_Y = 8, PART = SN_FP8_PART };

/* --- the largest magnitude, as bits ----------------------------------------------------------- */

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

/* --- copies of operands with one scale -------------------------------------------------------- */

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

/* --- copies of operands with a scale for each part -------------------------------------------- */

/* Where the scale of an element of a tile is kept. */
static __device__ __forceinline__ int scale_at(const struct sn_fp8_parts &p, int r, int c)
{
    return p.rows == 1 ? r : p.cols == 1 ? c : 0;
}

typedef uint16_t tile_row[PART + 2]; /* rows apart by an odd number of banks */

struct __align__(16) eight
{
    uint32_t pair[4];
};

/* The tile at (r0, c0), with zeros beyond the operand; by 16 bytes where rows allow. */
static __device__ __forceinline__ void fetch_tile(const struct sn_mat &x, int64_t r0, int64_t c0,
                                                  tile_row *room)
{
    const uint16_t *from = (const uint16_t *)x.p + r0 * x.ld + c0;
    if (c0 + PART <= x.cols && x.ld % 8 == 0 && (uintptr_t)x.p % 16 == 0) {
        for (int i = (int)threadIdx.x; i < PART * PART / 8; i += SN_BLOCK) {
            int r = i / (PART / 8), c = i % (PART / 8) * 8;
            struct eight v = {{0, 0, 0, 0}};
            if (r0 + r < x.rows)
                v = *(const struct eight *)(from + r * x.ld + c);
            for (int k = 0; k < 4; k++)
                *(uint32_t *)&room[r][c + 2 * k] = v.pair[k];
        }
        return;
    }
    for (int i = (int)threadIdx.x; i < PART * PART; i += SN_BLOCK) {
        int r = i / PART, c = i % PART;
        room[r][c] = r0 + r < x.rows && c0 + c < x.cols ? from[r * x.ld + c] : 0;
    }
}

/* Loads the tile at (r0, c0) and finds the magnitudes of its parts. */
static __device__ __forceinline__ void load_tile(const struct sn_mat &x,
                                                 const struct sn_fp8_parts &p, int64_t r0,
                                                 int64_t c0, tile_row *room, unsigned *most)
{
    int me = (int)threadIdx.x, lane = me % SN_WARP;
    __syncthreads(); /* the last tile has been written out */
    if (me < PART)
        most[me] = 0;
    fetch_tile(x, r0, c0, room);
    __syncthreads();
    if (p.cols == 1) { /* two threads for each column */
        unsigned mine = 0;
        for (int r = me / PART * (PART / 2), end = r + PART / 2; r < end; r++) {
            unsigned bits = room[r][me % PART] & 0x7fffu;
            mine = bits > mine ? bits : mine;
        }
        (void)atomicMax(&most[me % PART], mine << 16);
    } else { /* a warp for each row */
        for (int r = me / SN_WARP; r < PART; r += SN_BLOCK / SN_WARP) {
            unsigned mine = 0;
            for (int c = lane; c < PART; c += SN_WARP) {
                unsigned bits = room[r][c] & 0x7fffu;
                mine = bits > mine ? bits : mine;
            }
#pragma unroll
            for (int d = SN_WARP / 2; d > 0; d /= 2) {
                unsigned other = __shfl_xor_sync((unsigned)SN_ALL_LANES, mine, d);
                mine = other > mine ? other : mine;
            }
            if (lane == 0)
                (void)atomicMax(&most[p.rows == 1 ? r : 0], mine << 16);
        }
    }
    __syncthreads();
}

/* Codes, turned so that the depth lies along rows, and the scales as the library wants them. */
static __global__ void __launch_bounds__(SN_BLOCK)
    codes_of_parts(const struct sn_mat x, struct sn_fp8_parts p, bool turned, float *inverse,
                   uint8_t *to, int64_t ld)
{
    __shared__ __align__(16) tile_row room[PART];
    __shared__ unsigned most[PART];
    int me = (int)threadIdx.x;
    int64_t rows = turned ? x.cols : x.rows, depth = turned ? x.rows : x.cols;
    int64_t deep = sn_ceil_div(depth, PART), tiles = deep * sn_ceil_div(rows, PART);
    bool block = p.rows == p.cols;
    for (int64_t n = blockIdx.x; n < tiles; n += gridDim.x) {
        int64_t part = n % deep, k0 = part * PART, o0 = n / deep * PART;
        load_tile(x, p, turned ? k0 : o0, turned ? o0 : k0, room, most);
        if (!block && me < PART && o0 + me < rows)
            inverse[part * rows + o0 + me] = sn_power_of_two(-sn_fp8_exponent(most[me], p.format));
        int64_t stride = sn_fp8_across(depth, true);
        if (block && me < 4 && (me == 0 || (part == deep - 1 && part + me < stride)))
            inverse[n / deep * stride + part + me] =
                me ? 0.0f : sn_power_of_two(-sn_fp8_exponent(most[0], p.format));
        for (int i = me; i < PART * PART / 4; i += SN_BLOCK) {
            int o = i / (PART / 4), k = i % (PART / 4) * 4;
            uint32_t four = 0;
            if (o0 + o >= rows || k0 + k >= ld)
                continue;
            for (int j = 0; j < 4; j++) {
                int r = turned ? k + j : o, c = turned ? o : k + j;
                float scale = sn_power_of_two(sn_fp8_exponent(most[scale_at(p, r, c)], p.format));
                float value = sn_fp8_bits((uint32_t)room[r][c] << 16);
                four |= (uint32_t)sn_f32_to_fp8(value * scale, p.format) << 8 * j;
            }
            *(uint32_t *)(to + (o0 + o) * ld + k0 + k) = four;
        }
    }
}

/* The same values in bf16, as the operand lies. */
static __global__ void __launch_bounds__(SN_BLOCK)
    values_of_parts(const struct sn_mat x, struct sn_fp8_parts p, sn_bf16 *to)
{
    __shared__ __align__(16) tile_row room[PART];
    __shared__ unsigned most[PART];
    int64_t across = sn_ceil_div(x.cols, PART), tiles = across * sn_ceil_div(x.rows, PART);
    for (int64_t n = blockIdx.x; n < tiles; n += gridDim.x) {
        int64_t r0 = n / across * PART, c0 = n % across * PART;
        load_tile(x, p, r0, c0, room, most);
        for (int i = (int)threadIdx.x; i < PART * PART; i += SN_BLOCK) {
            int r = i / PART, c = i % PART;
            int e = sn_fp8_exponent(most[scale_at(p, r, c)], p.format);
            float value = sn_fp8_bits((uint32_t)room[r][c] << 16);
            if (r0 + r < x.rows && c0 + c < x.cols)
                sn_narrow(to + (r0 + r) * x.cols + c0 + c, sn_fp8_round(value, e, p.format));
        }
    }
}

/* --- what gemm.cu calls
 * --------------------------------------------------------------------------- */

int sn_fp8_begin(struct sn_cuda *cx, const struct sn_args *a, struct sn_fp8_call *f)
{
    const bool turns[2] = {a->attr.gemm.trans_a, !a->attr.gemm.trans_b};
    char *at = (char *)a->scratch + SN_GEMM_WORKSPACE;
    float *whole = (float *)at + 2;
    f->most = (unsigned *)at;
    at += SN_FP8_HEAD;
    int rc = 0;
    for (int i = 0; i < 2; i++) {
        f->turned[i] = turns[i];
        f->parts[i] = sn_fp8_parts_of(a->attr.gemm.fp8, i, turns[i]);
        f->copy[i] = at;
        at += sn_fp8_room(&a->in[i], turns[i]);
        f->inverse[i] = f->parts[i].rows ? (float *)at : whole + i;
        at += sn_fp8_scales(&a->in[i], turns[i], f->parts[i]);
    }
    f->depth = sn_fp8_depth(turns[0] ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols);
    if (f->parts[0].rows == 0)
        rc = sn_launched(cx, cudaMemsetAsync(f->most, 0, SN_FP8_HEAD, cx->stream));
    for (int i = 0; i < 2 && f->parts[i].rows == 0; i++) {
        const struct sn_mat *x = &a->in[i];
        struct sn_shape g = sn_shape_line(x->rows * x->cols);
        g.x = sn_cap(g.x, 1024); /* one atomic a warp: no more of them than that */
        rc = rc ? rc : sn_launch(cx, largest, g, *x, f->most + i);
    }
    return rc;
}

static struct sn_shape tiles_of(const struct sn_mat *x)
{
    int64_t tiles = sn_ceil_div(x->rows, PART) * sn_ceil_div(x->cols, PART);
    struct sn_shape g = {sn_cap(tiles, SN_GRID_CAP), 1, 1, SN_BLOCK, 1, 0};
    return g;
}

int sn_fp8_codes(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f)
{
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        const struct sn_mat *x = &a->in[i];
        int64_t rows = f->turned[i] ? x->cols : x->rows;
        int64_t tiles = sn_ceil_div(f->depth, TILE) * sn_ceil_div(rows, TILE);
        struct sn_shape g = {sn_cap(tiles, SN_GRID_CAP), 1, 1, TILE, TILE_Y, 0};
        if (f->parts[i].rows)
            rc = sn_launch(cx, codes_of_parts, tiles_of(x), *x, f->parts[i], f->turned[i],
                           f->inverse[i], (uint8_t *)f->copy[i], f->depth);
        else
            rc = sn_launch(cx, codes_of, g, *x, f->turned[i], f->parts[i].format, f->most + i,
                           f->inverse[i], (uint8_t *)f->copy[i], f->depth);
    }
    return rc;
}

int sn_fp8_values(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f,
                  struct sn_args *out)
{
    int rc = 0;
    *out = *a;
    out->attr.gemm.fp8 = SN_FP8_NONE;
    for (int i = 0; i < 2 && rc == 0; i++) {
        const struct sn_mat *x = &a->in[i];
        if (f->parts[i].rows)
            rc =
                sn_launch(cx, values_of_parts, tiles_of(x), *x, f->parts[i], (sn_bf16 *)f->copy[i]);
        else
            rc = sn_launch(cx, values_of, sn_shape_line(x->rows * x->cols), *x, f->parts[i].format,
                           f->most + i, (sn_bf16 *)f->copy[i]);
        out->in[i].p = f->copy[i];
        out->in[i].ld = x->cols;
    }
    return rc;
}
