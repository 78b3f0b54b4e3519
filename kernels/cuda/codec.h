/*
 * codec.h - launch shapes, scratch and sizes of ENCODE and DECODE, as plain C.
 *
 * A warp has a tile: 128 consecutive values of a share, whole blocks of every codec of fixed rate;
 * four of them in each lane. mpc has chunks of 1024 words, a block of threads each. A grid has at
 * most SN_CODEC_GRID blocks, whatever the device, so that sums over blocks have one order.
 */
#ifndef SN_CUDA_CODEC_H
#define SN_CUDA_CODEC_H

#include "kernels/cuda/geometry.h"
#include "kernels/ops.h"

enum {
    SN_CODEC_GRID = 2048,
    SN_CODEC_WARPS = SN_BLOCK / SN_WARP,
    SN_CODEC_LANE = SN_CODEC_BLOCK / SN_WARP, /* values of a lane */
    SN_MPC_GROUP = 32,
    SN_MPC_WORDS = SN_MPC_GROUP * SN_MPC_GROUP
};

SN_BOTH int64_t sn_int_bytes(const struct sn_codec *c, int64_t m)
{
    if (m == 0)
        return 0;
    m = c->hadamard ? sn_ceil_div(m, SN_CODEC_ROTATED) * SN_CODEC_ROTATED : m;
    return 4 + (c->kind == SN_CODEC_INT4 || c->kind == SN_CODEC_NF4 ? (m + 1) / 2 : m);
}

/* sn_codec_bytes() of m values that are a tile or less. */
SN_BOTH int64_t sn_tile_bytes(const struct sn_codec *c, int64_t m)
{
    if (c->kind == SN_CODEC_BF16)
        return 2 * m;
    if (c->kind == SN_CODEC_ZFP)
        return sn_ceil_div(sn_ceil_div(m, 4) * 4 * c->rate, 64) * 8;
    return sn_int_bytes(c, m);
}

/* Values of a tile where `left` are left. */
SN_BOTH int sn_tile_values(int64_t left)
{
    if (left >= SN_CODEC_BLOCK)
        return SN_CODEC_BLOCK;
    return left < 0 ? 0 : (int)left;
}

/* sn_codec_bytes(), which the plugin does not have. */
SN_BOTH int64_t sn_stream_bytes(const struct sn_codec *c, enum sn_dtype t, int64_t n)
{
    int64_t size = t == SN_F32 ? 4 : 2;
    int64_t tiles = n / SN_CODEC_BLOCK, left = n % SN_CODEC_BLOCK;
    if (c->kind == SN_CODEC_MPC)
        return SN_CODEC_MPC_HEADER + n * size;
    return tiles * sn_tile_bytes(c, SN_CODEC_BLOCK) + sn_tile_bytes(c, left);
}

/* Bytes before a stream: its length, where it has one. */
SN_BOTH int64_t sn_length_bytes(const struct sn_attr *a, const struct sn_codec *c)
{
    return a->stream.marked || c->kind == SN_CODEC_MPC ? 8 : 0;
}

/* sn_coded_bytes(), or sn_coded_row_bytes(): from one stream to the next. */
SN_BOTH int64_t sn_place_bytes(const struct sn_attr *a, const struct sn_codec *c)
{
    int64_t bytes = sn_stream_bytes(c, a->stream.type, a->stream.share);
    return sn_length_bytes(a, c) + sn_ceil_div(bytes, 8) * 8;
}

/* With `inverse`: shares that the streams are summed to; share k is of streams k, k + shares, .. */
SN_BOTH int64_t sn_sum_shares(const struct sn_attr *a)
{
    return a->blocks_b > 1 ? a->blocks_b : 1;
}

/* Values of a chunk and of a group of mpc's. */
SN_BOTH int64_t sn_mpc_chunk(enum sn_dtype t)
{
    return t == SN_F32 ? SN_MPC_WORDS : 2 * SN_MPC_WORDS;
}

SN_BOTH int64_t sn_mpc_group(enum sn_dtype t)
{
    return sn_mpc_chunk(t) / SN_MPC_GROUP;
}

static inline struct sn_shape sn_shape_tiles(int64_t shares, int64_t share)
{
    int64_t blocks = sn_ceil_div(shares * sn_ceil_div(share, SN_CODEC_BLOCK), SN_CODEC_WARPS);
    struct sn_shape g = {sn_cap(blocks, SN_CODEC_GRID), 1, 1, SN_BLOCK, 1, 0};
    return g;
}

static inline struct sn_shape sn_shape_chunks(int64_t shares, int64_t chunks)
{
    struct sn_shape g = {sn_cap(shares * chunks, SN_GRID_CAP), 1, 1, SN_BLOCK, 1, 0};
    return g;
}

static inline bool sn_has_kind(const struct sn_attr *a, enum sn_codec_kind kind)
{
    for (int i = 0; i < a->stream.levels; i++)
        if (a->stream.codec[i].kind == kind)
            return true;
    return false;
}

/* Two sums of each block; where mpc is, also a number for each chunk and one for each stream. */
static inline size_t sn_codec_scratch(const struct sn_attr *a)
{
    size_t bytes = (size_t)SN_CODEC_GRID * 2 * sizeof(double);
    int64_t chunks = sn_ceil_div(a->stream.share, sn_mpc_chunk(a->stream.type));
    if (sn_has_kind(a, SN_CODEC_MPC))
        bytes += (size_t)(a->blocks_a * (chunks + 1)) * sizeof(int64_t);
    return bytes;
}

#endif
