/*
 * codec_tile.cuh - the codecs of fixed rate, one tile at a time: streams as kernels/cpu/codec.c,
 * codec_int.c write them (codec_zfp.cuh has zfp's). A whole warp calls.
 *
 *   K::put(tile, x)  the bytes of the tile's values, which are 0 from m on
 *   K::get(tile, y)  and back; returns this lane's fault. Beyond m anything is in y
 *
 * SN_CODEC_TILES lists them all: the operations have a launch for each.
 */
#ifndef SN_CUDA_CODEC_TILE_CUH
#define SN_CUDA_CODEC_TILE_CUH

#include "kernels/cuda/codec.cuh"
#include "kernels/fp8.h"
#include "kernels/nf4.h"

struct sn_codec_tile {
    struct sn_codec codec;
    unsigned char *at; /* its bytes */
    int m;
    uint64_t key, message, block; /* what is drawn with */
    uint32_t *room;               /* shared, of the warp: K::ROOM words */
};

static __device__ __forceinline__ uint32_t sn_largest(const float x[SN_CODEC_LANE])
{
    uint32_t most = 0;
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++)
        most = sn_magnitude(x[k]) > most ? sn_magnitude(x[k]) : most;
    return sn_warp_largest(most);
}

/* Four codes of a lane as bytes of a word; n of them there are in all, which need not be 128. */
static __device__ __forceinline__ void sn_put_codes(unsigned char *to, uint32_t codes, int n)
{
    int lane = sn_lane();
    if (n == SN_CODEC_BLOCK) {
        ((uint32_t *)to)[lane] = codes;
        return;
    }
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++)
        if (SN_CODEC_LANE * lane + k < n)
            to[SN_CODEC_LANE * lane + k] = (unsigned char)(codes >> 8 * k);
}

static __device__ __forceinline__ uint32_t sn_get_codes(const unsigned char *from, int n)
{
    int lane = sn_lane();
    uint32_t codes = 0;
    if (n == SN_CODEC_BLOCK)
        return ((const uint32_t *)from)[lane];
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++)
        if (SN_CODEC_LANE * lane + k < n)
            codes |= (uint32_t)from[SN_CODEC_LANE * lane + k] << 8 * k;
    return codes;
}

/* --- bf16 ------------------------------------------------------------------------------------ */

struct sn_tile_bf16 {
    enum { KIND = SN_CODEC_BF16, ROOM = 1 };
    static __device__ __forceinline__ struct sn_mat values(const struct sn_codec_tile &t)
    {
        struct sn_mat m = {t.at, SN_BF16, 1, t.m, t.m};
        return m;
    }
    static __device__ __forceinline__ void put(const struct sn_codec_tile &t,
                                               const float x[SN_CODEC_LANE])
    {
        sn_lane_store(values(t), 0, t.m, x);
    }
    static __device__ __forceinline__ int get(const struct sn_codec_tile &t, float y[SN_CODEC_LANE])
    {
        sn_lane_load(values(t), 0, t.m, y);
        return SN_CODEC_FINE;
    }
};

/* --- fp8 ------------------------------------------------------------------------------------- */

/* Of both formats: the largest value is 1.75 2^TOP, and from code NONE on are infinity and NaN. */
template <int kind> struct sn_tile_fp8 {
    enum { KIND = kind, ROOM = 1, IS_E4M3 = kind == SN_CODEC_FP8 };
    enum { TOP = IS_E4M3 ? 8 : 15, NONE = IS_E4M3 ? 0x7f : 0x7c };
    static constexpr enum sn_fp8_format FORMAT = IS_E4M3 ? SN_E4M3 : SN_E5M2;
    static __device__ __forceinline__ void put(const struct sn_codec_tile &t,
                                               const float x[SN_CODEC_LANE])
    {
        uint32_t most = sn_largest(x), codes = 0;
        int e = sn_fp8_exponent(most, FORMAT);
        bool finite = most < SN_NOT_FINITE;
        float up = sn_power_of_two(e);
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++) {
            uint32_t code = sn_f32_to_fp8(sn_times(x[k], up), FORMAT);
            if (e == TOP - 128) /* 2^TOP 2^-e would be infinite */
                code -= (code & 0x7f) == 0x78;
            codes |= (finite ? code : 0) << 8 * k;
        }
        if (sn_lane() == 0)
            *(uint32_t *)t.at = finite ? __float_as_uint(sn_power_of_two(-e)) : SN_NO_SCALE;
        sn_put_codes(t.at + 4, codes, t.m);
    }
    static __device__ __forceinline__ int get(const struct sn_codec_tile &t, float y[SN_CODEC_LANE])
    {
        uint32_t bits = *(const uint32_t *)t.at, codes = sn_get_codes(t.at + 4, t.m);
        bool bad = false;
        /* 2^-100 to 2^(128 - TOP) */
        if (bits != SN_NO_SCALE &&
            (bits & 0x807fffffu || bits < 27u << 23 || bits > (uint32_t)(255 - TOP) << 23))
            return SN_CODEC_BAD_SCALE;
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++) {
            uint8_t code = (uint8_t)(codes >> 8 * k);
            bad = bad || (code & 0x7f) >= NONE;
            y[k] = bits == SN_NO_SCALE
                       ? __uint_as_float(SN_NO_SCALE)
                       : sn_times(sn_fp8_to_f32(code, FORMAT), __uint_as_float(bits));
        }
        return bad ? SN_CODEC_BAD_CODE : SN_CODEC_FINE;
    }
};

/* --- int8, int4, nf4 -------------------------------------------------------------------------- */

/* H, 32 values after 32, which are those of eight lanes. */
static __device__ __forceinline__ void sn_rotate(float x[SN_CODEC_LANE])
{
    float a = x[0] + x[1], b = x[0] - x[1], c = x[2] + x[3], d = x[2] - x[3];
    x[0] = a + c, x[1] = b + d, x[2] = a - c, x[3] = b - d;
#pragma unroll
    for (int apart = 1; apart < SN_CODEC_ROTATED / SN_CODEC_LANE; apart *= 2)
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++) {
            float other = __shfl_xor_sync((unsigned)SN_ALL_LANES, x[k], apart);
            x[k] = sn_lane() & apart ? other - x[k] : x[k] + other;
        }
}

/* u of the lane's values: see struct sn_codec_draw. Sixteen lanes draw for all. */
static __device__ __forceinline__ void sn_draw(const struct sn_codec_tile &t,
                                               float u[SN_CODEC_LANE])
{
    enum { DRAWING = 16 };
    int lane = sn_lane();
    __syncwarp(); /* the last reader of the room is through */
    if (lane < DRAWING) {
        struct sn_philox w = sn_philox(t.key, t.message, t.block * DRAWING + (uint64_t)lane);
#pragma unroll
        for (int i = 0; i < 4; i++)
            t.room[4 * lane + i] = w.v[i];
    }
    __syncwarp();
    int p = SN_CODEC_LANE * lane / DRAWING;
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++) {
        int g = SN_CODEC_LANE * lane % DRAWING + k;
        uint32_t half = t.room[4 * g + p / 2] >> 16 * (p % 2) & 0xffffu;
        u[k] = sn_times((float)half + 0.5f, 1.0f / 65536);
    }
}

template <int kind> struct sn_tile_int {
    enum { KIND = kind, ROOM = 64, IS_NF4 = kind == SN_CODEC_NF4 };
    enum { TOP = kind == SN_CODEC_INT8 ? 127 : kind == SN_CODEC_INT4 ? 7 : 1 };

    static __device__ __forceinline__ int codes_of(const struct sn_codec_tile &t)
    {
        enum { POINTS = SN_CODEC_ROTATED };
        return t.codec.hadamard ? (t.m + POINTS - 1) / POINTS * POINTS : t.m;
    }

    /* The largest magnitude over TOP, such that TOP times it is finite; 0 for what is too small. */
    static __device__ __forceinline__ uint32_t scale_of(uint32_t most)
    {
        float value = __uint_as_float(most), top = TOP, scale = value / top;
        if (most >= SN_NOT_FINITE)
            return SN_NO_SCALE;
        if (value < 0x1p-100f)
            return 0;
        return __float_as_uint(scale) - (sn_times(scale, top) > 0x1.fffffep127f);
    }

    static __device__ __forceinline__ uint32_t code(float v, float inverse, bool draws, float u)
    {
        float top = TOP, x = sn_times(v, inverse);
        if (IS_NF4)
            return sn_nf4_code(x);
        x = x > top ? top : x;
        x = x < -top ? -top : x;
        if (!draws) /* this addition rounds to an integer, to even in the middle */
            return __float_as_uint(x + 0x1.8p23f) & 0xffu;
        x = x + u;
        int low = (int)x; /* towards zero */
        low -= (float)low > x;
        return (uint32_t)low & 0xffu;
    }

    /* int4: code j low and code j + half high, a lane's bytes j from its first on. */
    static __device__ __forceinline__ void put_halves(unsigned char *to, uint32_t codes, int half)
    {
        int lane = sn_lane();
        if (half == SN_CODEC_BLOCK / 2) {
            uint32_t high = __shfl_down_sync((unsigned)SN_ALL_LANES, codes, SN_WARP / 2);
            if (lane < SN_WARP / 2)
                ((uint32_t *)to)[lane] = (codes & 0x0f0f0f0fu) | (high & 0x0f0f0f0fu) << 4;
            return;
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int j = lane + i * SN_WARP, k = j + half;
            uint32_t low = __shfl_sync((unsigned)SN_ALL_LANES, codes, j / 4 % SN_WARP);
            uint32_t high = __shfl_sync((unsigned)SN_ALL_LANES, codes, k / 4 % SN_WARP);
            low = low >> 8 * (j % 4) & 15;
            high = high >> 8 * (k % 4) & 15;
            if (j < half)
                to[j] = (unsigned char)(low | high << 4);
        }
    }

    static __device__ __forceinline__ uint32_t get_halves(const unsigned char *from, int half)
    {
        int lane = sn_lane();
        uint32_t codes = 0;
        if (half == SN_CODEC_BLOCK / 2) {
            codes = ((const uint32_t *)from)[lane % (SN_WARP / 2)];
            return codes >> (lane < SN_WARP / 2 ? 0 : 4) & 0x0f0f0f0fu;
        }
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++) {
            int j = SN_CODEC_LANE * lane + k;
            uint32_t both = j < 2 * half ? from[j < half ? j : j - half] : 0;
            codes |= (both >> (j < half ? 0 : 4) & 15) << 8 * k;
        }
        return codes;
    }

    static __device__ __forceinline__ void put(const struct sn_codec_tile &t,
                                               const float x[SN_CODEC_LANE])
    {
        uint32_t most = sn_largest(x), codes = 0;
        float v[SN_CODEC_LANE], u[SN_CODEC_LANE] = {0, 0, 0, 0};
        bool turns = t.codec.hadamard && most < SN_NOT_FINITE;
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            v[k] = turns ? sn_times(x[k], 1.0f / SN_CODEC_ROTATED) : x[k];
        if (turns) {
            sn_rotate(v);
            most = sn_largest(v);
        }
        uint32_t bits = scale_of(most);
        if (bits != SN_NO_SCALE && bits != 0) {
            float inverse = 1.0f / __uint_as_float(bits);
            if (t.codec.stochastic)
                sn_draw(t, u);
#pragma unroll
            for (int k = 0; k < SN_CODEC_LANE; k++)
                codes |= code(v[k], inverse, t.codec.stochastic, u[k]) << 8 * k;
        } else if (IS_NF4) {
            codes = SN_NF4_ZERO * 0x01010101u;
        }
        if (sn_lane() == 0)
            *(uint32_t *)t.at = bits;
        if (kind == SN_CODEC_INT8)
            sn_put_codes(t.at + 4, codes, codes_of(t));
        else
            put_halves(t.at + 4, codes, (codes_of(t) + 1) / 2);
    }

    static __device__ __forceinline__ int get(const struct sn_codec_tile &t, float y[SN_CODEC_LANE])
    {
        uint32_t bits = *(const uint32_t *)t.at;
        float scale = __uint_as_float(bits), top = TOP;
        bool bad = false;
        if (bits != SN_NO_SCALE && (bits >> 31 || !(sn_times(scale, top) <= 0x1.fffffep127f)))
            return SN_CODEC_BAD_SCALE;
        uint32_t codes = kind == SN_CODEC_INT8 ? sn_get_codes(t.at + 4, codes_of(t))
                                               : get_halves(t.at + 4, (codes_of(t) + 1) / 2);
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++) {
            int q = (int)(int8_t)(codes >> 8 * k);
            if (kind == SN_CODEC_INT4)
                q = ((q & 15) ^ 8) - 8;
            bad = bad || q == -TOP - 1; /* none of nf4's */
            y[k] = sn_times(IS_NF4 ? sn_nf4_level(q) : (float)q, scale);
        }
        if (t.codec.hadamard)
            sn_rotate(y);
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            y[k] = bits == SN_NO_SCALE ? scale : y[k];
        return bad ? SN_CODEC_BAD_CODE : SN_CODEC_FINE;
    }
};

/* --- all of them ----------------------------------------------------------------------------- */

/* zfp's is in codec_zfp.cuh. */
#define SN_CODEC_TILES(DO)                                                                         \
    DO(sn_tile_bf16)                                                                               \
    DO(sn_tile_fp8<SN_CODEC_FP8>)                                                                  \
    DO(sn_tile_fp8<SN_CODEC_FP8_E5M2>)                                                             \
    DO(sn_tile_int<SN_CODEC_INT8>)                                                                 \
    DO(sn_tile_int<SN_CODEC_INT4>)                                                                 \
    DO(sn_tile_int<SN_CODEC_NF4>)                                                                  \
    DO(sn_tile_zfp)

#endif
