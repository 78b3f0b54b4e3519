/*
 * codec_zfp.cuh - zfp-R, a tile at a time: Lindstrom, "Fixed-rate compressed floating-point arrays"
 * (2014), as libzfp 1.0 codes blocks of one dimension, bit for bit; kernels/zfp.h says which blocks
 * are written otherwise. A block of 4 values is a lane's, whose bits the warp's lanes then put
 * together to words.
 */
#ifndef SN_CUDA_CODEC_ZFP_CUH
#define SN_CUDA_CODEC_ZFP_CUH

#include "kernels/cuda/codec_tile.cuh"

/* The bits of a block, 128 at most. */
struct sn_block_bits {
    uint64_t low, high;
    int at;
};

static __device__ __forceinline__ void sn_put_bits(struct sn_block_bits *b, uint32_t bits, int n)
{
    if (b->at < 64) {
        b->low |= (uint64_t)bits << b->at;
        if (b->at + n > 64)
            b->high |= (uint64_t)bits >> (64 - b->at);
    } else {
        b->high |= (uint64_t)bits << (b->at - 64);
    }
    b->at += n;
}

static __device__ __forceinline__ uint32_t sn_get_bits(struct sn_block_bits *b, int n)
{
    uint64_t bits = b->at < 64 ? b->low >> b->at : b->high >> (b->at - 64);
    if (b->at < 64 && b->at + n > 64)
        bits |= b->high << (64 - b->at);
    b->at += n;
    return (uint32_t)bits & ((1u << n) - 1);
}

/* Signed arithmetic that wraps, and its shift. */
static __device__ __forceinline__ uint32_t sn_halved(uint32_t x)
{
    return (uint32_t)((int32_t)x >> 1);
}

/* The library's transform of 4 integers, then negabinary. */
static __device__ __forceinline__ void sn_zfp_forward(const float v[4], float scale, uint32_t u[4])
{
    uint32_t x = (uint32_t)(int32_t)sn_times(scale, v[0]),
             y = (uint32_t)(int32_t)sn_times(scale, v[1]);
    uint32_t z = (uint32_t)(int32_t)sn_times(scale, v[2]),
             w = (uint32_t)(int32_t)sn_times(scale, v[3]);
    x += w, x = sn_halved(x), w -= x;
    z += y, z = sn_halved(z), y -= z;
    x += z, x = sn_halved(x), z -= x;
    w += y, w = sn_halved(w), y -= w;
    w += sn_halved(y), y -= sn_halved(w);
    u[0] = x, u[1] = y, u[2] = z, u[3] = w;
#pragma unroll
    for (int i = 0; i < 4; i++)
        u[i] = (u[i] + 0xaaaaaaaau) ^ 0xaaaaaaaau;
}

static __device__ __forceinline__ void sn_zfp_inverse(const uint32_t u[4], float scale, float v[4])
{
    uint32_t i[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        i[k] = (u[k] ^ 0xaaaaaaaau) - 0xaaaaaaaau;
    uint32_t x = i[0], y = i[1], z = i[2], w = i[3];
    y += sn_halved(w), w -= sn_halved(y);
    y += w, w <<= 1, w -= y;
    z += x, x <<= 1, x -= z;
    y += z, z <<= 1, z -= y;
    w += x, x <<= 1, x -= w;
    v[0] = sn_times(scale, (float)(int32_t)x), v[1] = sn_times(scale, (float)(int32_t)y);
    v[2] = sn_times(scale, (float)(int32_t)z), v[3] = sn_times(scale, (float)(int32_t)w);
}

/* Bit planes from the highest on: what was found before as it is, the rest in unary groups. */
static __device__ __forceinline__ void sn_zfp_planes(struct sn_block_bits *b, const uint32_t u[4],
                                                     int bits)
{
    int n = 0;
    for (int k = 31; k >= 0 && bits > 0; k--) {
        uint32_t x =
            (u[0] >> k & 1) | (u[1] >> k & 1) << 1 | (u[2] >> k & 1) << 2 | (u[3] >> k & 1) << 3;
        int m = n < bits ? n : bits;
        sn_put_bits(b, x & ((1u << m) - 1), m);
        bits -= m;
        x >>= m;
        while (bits > 0 && n < 4) {
            bits--;
            sn_put_bits(b, x != 0, 1);
            if (x == 0)
                break;
            while (bits > 0 && n < 3) {
                bits--;
                sn_put_bits(b, x & 1, 1);
                if (x & 1)
                    break;
                x >>= 1, n++;
            }
            x >>= 1, n++;
        }
    }
}

static __device__ __forceinline__ void sn_zfp_unplane(struct sn_block_bits *b, uint32_t u[4],
                                                      int bits)
{
    int n = 0;
    u[0] = u[1] = u[2] = u[3] = 0;
    for (int k = 31; k >= 0 && bits > 0; k--) {
        int m = n < bits ? n : bits;
        uint32_t x = sn_get_bits(b, m);
        bits -= m;
        while (bits > 0 && n < 4) {
            bits--;
            if (!sn_get_bits(b, 1))
                break;
            for (; bits > 0 && n < 3; n++) {
                bits--;
                if (sn_get_bits(b, 1))
                    break;
            }
            x |= 1u << n++;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            u[i] |= (x >> i & 1) << k;
    }
}

struct sn_tile_zfp {
    enum {
        SIDE = 4,
        WORDS = 5 /* 128 bits, and a 0 */,
        KIND = SN_CODEC_ZFP,
        ROOM = SN_WARP * WORDS
    };

    /* 2^at, to 0 where the library's ldexp() goes. */
    static __device__ __forceinline__ float power(int at)
    {
        return at >= -126   ? __uint_as_float((uint32_t)(at + 127) << 23)
               : at >= -149 ? __uint_as_float(1u << (at + 149))
                            : 0.0f;
    }

    static __device__ __forceinline__ struct sn_block_bits code(const float x[SIDE], int n,
                                                                int size)
    {
        struct sn_block_bits b = {0, 0, 0};
        float v[SIDE] = {x[0], x[1], x[2], x[3]};
        uint32_t most = 0, u[SIDE];
        if (n < 2)
            v[1] = v[0];
        if (n < 3)
            v[2] = v[1];
        if (n < 4)
            v[3] = v[0];
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            most = sn_magnitude(v[i]) > most ? sn_magnitude(v[i]) : most;
        if (most >= SN_NOT_FINITE) { /* which the library never writes: zeros that are none */
            b.low = (size < 64 ? (UINT64_C(1) << size) - 1 : ~UINT64_C(0)) - 1;
            b.high = size > 64 ? ~UINT64_C(0) >> (128 - size) : 0;
            return b;
        }
        if (n == 0 || __uint_as_float(most) < 0x1p-98f)
            return b;
        uint32_t e = (most >> 23) + 1; /* with the library's bias */
        sn_put_bits(&b, 2 * e + 1, 9);
        sn_zfp_forward(v, power(157 - (int)e), u);
        sn_zfp_planes(&b, u, size - 9);
        return b;
    }

    /* 32 bits of the tile's, from its word w on. */
    static __device__ __forceinline__ uint32_t word(const uint32_t *room, int w, int size)
    {
        uint32_t bits = 0;
        for (int at = 0; at < 32;) {
            int block = (32 * w + at) / size, off = (32 * w + at) % size;
            if (block >= SN_WARP)
                break;
            const uint32_t *from = room + block * WORDS + off / 32;
            uint64_t two = from[0] | (uint64_t)from[1] << 32;
            bits |= (uint32_t)(two >> off % 32) << at; /* beyond the block are zeros */
            at += size - off;
        }
        return bits;
    }

    static __device__ __forceinline__ void put(const struct sn_codec_tile &t,
                                               const float x[SN_CODEC_LANE])
    {
        int lane = sn_lane(), size = SIDE * t.codec.rate;
        struct sn_block_bits b = code(x, sn_lane_values(t.m), size);
        uint32_t *mine = t.room + lane * WORDS;
        __syncwarp(); /* the last reader of the room is through */
        mine[0] = (uint32_t)b.low, mine[1] = (uint32_t)(b.low >> 32);
        mine[2] = (uint32_t)b.high, mine[3] = (uint32_t)(b.high >> 32), mine[4] = 0;
        __syncwarp();
        int words = (int)(sn_tile_bytes(&t.codec, t.m) / 4);
        for (int w = lane; w < words; w += SN_WARP)
            ((uint32_t *)t.at)[w] = word(t.room, w, size);
    }

    static __device__ __forceinline__ struct sn_block_bits read(const unsigned char *from,
                                                                int block, int size)
    {
        const uint32_t *words = (const uint32_t *)from;
        int first = block * size, end = first + size;
        struct sn_block_bits b = {0, 0, 0};
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            int w = first / 32 + i, at = 32 * i - first % 32; /* where the word's bits belong */
            if (32 * w >= end)
                break;
            uint64_t bits = words[w];
            if (at < 0)
                b.low = bits >> -at;
            else if (at < 64)
                b.low |= bits << at, b.high |= at > 32 ? bits >> (64 - at) : 0;
            else
                b.high |= bits << (at - 64);
        }
        b.low &= size < 64 ? (UINT64_C(1) << size) - 1 : ~UINT64_C(0);
        b.high &= size > 64 ? ~UINT64_C(0) >> (128 - size) : 0;
        return b;
    }

    static __device__ __forceinline__ int get(const struct sn_codec_tile &t, float y[SN_CODEC_LANE])
    {
        int size = SIDE * t.codec.rate;
        if (sn_lane_values(t.m) == 0)
            return SN_CODEC_FINE;
        struct sn_block_bits b = read(t.at, sn_lane(), size);
        if (!(b.low & 1)) { /* all zero, or not finite, or none */
            bool zeros = b.low == 0 && b.high == 0;
            bool ones = b.low == (size < 64 ? (UINT64_C(1) << size) - 1 : ~UINT64_C(0)) - 1 &&
                        b.high == (size > 64 ? ~UINT64_C(0) >> (128 - size) : 0);
#pragma unroll
            for (int k = 0; k < SIDE; k++)
                y[k] = zeros ? 0.0f : __uint_as_float(SN_NO_SCALE);
            return zeros || ones ? SN_CODEC_FINE : SN_CODEC_BAD_CODE;
        }
        uint32_t u[SIDE], e = sn_get_bits(&b, 9) >> 1;
        sn_zfp_unplane(&b, u, size - 9);
        sn_zfp_inverse(u, power((int)e - 157), y);
        return e ? SN_CODEC_FINE : SN_CODEC_BAD_CODE;
    }
};

#endif
