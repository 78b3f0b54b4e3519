/*
 * codec.cuh - what the kernels of ENCODE and DECODE share: which codec, where a share and its
 * stream lie, the values of a lane.
 *
 * Values are taken and left by kernels/half.h, not by the device's own conversions, so that NaNs
 * keep their bits. Products go through sn_times(), because a sum must not swallow them: the
 * processor rounds both (and stream and value would differ in the last bit).
 */
#ifndef SN_CUDA_CODEC_CUH
#define SN_CUDA_CODEC_CUH

#include "kernels/cuda/codec.h"
#include "kernels/cuda/device.cuh"
#include "kernels/codec.h"
#include "kernels/dropout.h"
#include "kernels/half.h"

#define SN_CODEC_TAG  0x636f6463u /* "codc": sn_codec_key() */
#define SN_NO_SCALE   0x7fc00000u /* of a block that is not finite */
#define SN_NOT_FINITE 0x7f800000u

static __device__ __forceinline__ float sn_times(float a, float b)
{
    return __fmul_rn(a, b);
}

static __device__ __forceinline__ uint32_t sn_magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

static __device__ __forceinline__ int sn_lane(void)
{
    return (int)threadIdx.x % SN_WARP;
}

template <class V> static __device__ __forceinline__ V sn_warp_largest(V x)
{
#pragma unroll
    for (int d = SN_WARP / 2; d > 0; d /= 2) {
        V other = __shfl_xor_sync((unsigned)SN_ALL_LANES, x, d);
        x = other > x ? other : x;
    }
    return x;
}

/* Of the lanes before this one and its own. */
template <class V> static __device__ __forceinline__ V sn_warp_sum_up_to(V x)
{
#pragma unroll
    for (int d = 1; d < SN_WARP; d *= 2) {
        V before = __shfl_up_sync((unsigned)SN_ALL_LANES, x, (unsigned)d);
        x += sn_lane() >= d ? before : V(0);
    }
    return x;
}

/* --- the operation --------------------------------------------------------------------------- */

static __device__ __forceinline__ struct sn_codec sn_codec_of(const struct sn_args &a)
{
    int level = a.attr.stream.levels > 1 ? a.scalars->codec_level[a.attr.stream.coded] : 0;
    return level <= 0   ? a.attr.stream.codec[0]
           : level == 1 ? a.attr.stream.codec[1]
                        : a.attr.stream.codec[2];
}

/* Of values, which have no gaps. */
static __device__ __forceinline__ int64_t sn_elements(const struct sn_args &a,
                                                      const struct sn_mat &m)
{
    return m.rows * m.cols - a.attr.stream.missing;
}

/* Stream i's: where its values are among `all`, and where its place begins. */
struct sn_codec_part {
    int64_t first, n;
    unsigned char *at;
};

static __device__ __forceinline__ struct sn_codec_part
sn_part_of(const struct sn_args &a, const struct sn_codec &c, void *streams, int64_t all, int64_t i)
{
    int64_t k = a.attr.blocks_b, shares = a.attr.blocks_a;
    int64_t number = k > 1 ? i % k * (shares / k) + i / k : i;
    struct sn_codec_part p;
    p.first = number * a.attr.stream.share;
    p.n = all - p.first < a.attr.stream.share ? all - p.first : a.attr.stream.share;
    p.n = p.n < 0 ? 0 : p.n;
    p.at = (unsigned char *)streams + i * sn_place_bytes(&a.attr, &c);
    return p;
}

/* Of stream i of what ENCODE writes. */
static __device__ __forceinline__ struct sn_codec_part
sn_part_encoded(const struct sn_args &a, const struct sn_codec &c, int64_t i)
{
    return sn_part_of(a, c, a.out[SN_ENCODE_STREAMS].p, sn_elements(a, a.in[SN_ENCODE_X]), i);
}

/* Is a marked stream not there? With `inverse` all are. */
static __device__ __forceinline__ bool sn_is_absent(const struct sn_args &a, const void *place)
{
    return a.attr.stream.marked && !a.attr.inverse && *(const int64_t *)place == 0;
}

/* How many streams a DECODE has. */
static __device__ __forceinline__ int64_t sn_streams_of(const struct sn_args &a)
{
    int64_t all = a.attr.blocks_a;
    if (!a.in[SN_DECODE_BOUNDS].p)
        return all;
    int64_t end = ((const int32_t *)a.in[SN_DECODE_BOUNDS].p)[a.in[SN_DECODE_BOUNDS].cols - 1];
    return end < all ? end : all;
}

/* The values that stream i is decoded to, and what the number of the next stream of them is more;
 * `end`: that of the last one, and 1. */
static __device__ __forceinline__ struct sn_codec_part
sn_sum_of(const struct sn_args &a, const struct sn_codec &c, int64_t i, int64_t *step, int64_t *end)
{
    int64_t all = sn_elements(a, a.out[SN_DECODE_Y]), shares = sn_sum_shares(&a.attr);
    struct sn_codec_part p = sn_part_of(a, c, a.in[SN_DECODE_STREAMS].p, all, i);
    *step = a.attr.inverse ? shares : 1;
    *end = a.attr.inverse ? sn_streams_of(a) : i + 1;
    if (!a.attr.inverse)
        return p;
    p.first = i % shares * a.attr.stream.share;
    p.n = all - p.first < a.attr.stream.share ? all - p.first : a.attr.stream.share;
    p.n = p.n < 0 ? 0 : p.n;
    return p;
}

/* How many sums there are: shares, or streams that are none. */
static __device__ __forceinline__ int64_t sn_sums_of(const struct sn_args &a)
{
    int64_t streams = sn_streams_of(a), shares = sn_sum_shares(&a.attr);
    return a.attr.inverse && shares < streams ? shares : streams;
}

/* The worst that was met is kept: enum sn_codec_fault. */
static __device__ __forceinline__ void sn_refuse(const struct sn_args &a, int fault)
{
    if (fault != SN_CODEC_FINE)
        (void)atomicMax((unsigned *)&a.scalars->codec_fault, (unsigned)fault);
}

/* --- values ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ float sn_from_half(uint32_t bits, enum sn_dtype t)
{
    return t == SN_BF16 ? sn_bf16_to_f32((uint16_t)bits) : sn_f16_to_f32((uint16_t)bits);
}

static __device__ __forceinline__ uint32_t sn_to_half(float x, enum sn_dtype t)
{
    return t == SN_BF16 ? sn_f32_to_bf16(x) : sn_f32_to_f16(x);
}

static __device__ __forceinline__ float sn_value(const struct sn_mat &m, int64_t i)
{
    return m.dtype == SN_F32 ? ((const float *)m.p)[i]
                             : sn_from_half(((const uint16_t *)m.p)[i], m.dtype);
}

static __device__ __forceinline__ void sn_set_value(const struct sn_mat &m, int64_t i, float x)
{
    if (m.dtype == SN_F32)
        ((float *)m.p)[i] = x;
    else
        ((uint16_t *)m.p)[i] = (uint16_t)sn_to_half(x, m.dtype);
}

/* --- sums ------------------------------------------------------------------------------------ */

/* What becomes of the sum over streams: plus w, then to what was there. */
static __device__ __forceinline__ float sn_end_sum(const struct sn_args &a, int64_t i, float sum)
{
    sum = a.in[SN_DECODE_ADDEND].p ? sum + sn_value(a.in[SN_DECODE_ADDEND], i) : sum;
    return a.acc[SN_DECODE_Y] == SN_ADD ? sn_value(a.out[SN_DECODE_Y], i) + sum : sum;
}

/* --- a lane's values -------------------------------------------------------------------------- */

/* How many of a lane's four values are among the m of its tile. */
static __device__ __forceinline__ int sn_lane_values(int m)
{
    int n = m - SN_CODEC_LANE * sn_lane();
    return n < 0 ? 0 : n < SN_CODEC_LANE ? n : SN_CODEC_LANE;
}

/* A lane's values of a tile of m that begins at value `first`; 0 beyond. */
static __device__ __forceinline__ void sn_lane_load(const struct sn_mat &v, int64_t first, int m,
                                                    float x[SN_CODEC_LANE])
{
    int n = sn_lane_values(m);
    first += SN_CODEC_LANE * sn_lane();
    const float *wide = (const float *)v.p + first;
    const uint16_t *half = (const uint16_t *)v.p + first;
    if (v.dtype == SN_F32 && n == SN_CODEC_LANE && (uintptr_t)wide % 16 == 0) {
        float4 all = *(const float4 *)wide;
        x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
    } else if (v.dtype != SN_F32 && n == SN_CODEC_LANE && (uintptr_t)half % 8 == 0) {
        uint2 all = *(const uint2 *)half;
        x[0] = sn_from_half(all.x & 0xffffu, v.dtype), x[1] = sn_from_half(all.x >> 16, v.dtype);
        x[2] = sn_from_half(all.y & 0xffffu, v.dtype), x[3] = sn_from_half(all.y >> 16, v.dtype);
    } else {
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            x[k] = k < n ? sn_value(v, first + k) : 0.0f;
    }
}

static __device__ __forceinline__ void sn_lane_store(const struct sn_mat &v, int64_t first, int m,
                                                     const float x[SN_CODEC_LANE])
{
    int n = sn_lane_values(m);
    first += SN_CODEC_LANE * sn_lane();
    float *wide = (float *)v.p + first;
    uint16_t *half = (uint16_t *)v.p + first;
    if (v.dtype == SN_F32 && n == SN_CODEC_LANE && (uintptr_t)wide % 16 == 0) {
        float4 all = {x[0], x[1], x[2], x[3]};
        *(float4 *)wide = all;
    } else if (v.dtype != SN_F32 && n == SN_CODEC_LANE && (uintptr_t)half % 8 == 0) {
        uint2 all = {sn_to_half(x[0], v.dtype) | sn_to_half(x[1], v.dtype) << 16,
                     sn_to_half(x[2], v.dtype) | sn_to_half(x[3], v.dtype) << 16};
        *(uint2 *)half = all;
    } else {
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            if (k < n)
                sn_set_value(v, first + k, x[k]);
    }
}

/* sn_end_sum() of a lane's values, to where they belong. */
static __device__ __forceinline__ void sn_end_lane(const struct sn_args &a, int64_t first, int m,
                                                   float sum[SN_CODEC_LANE])
{
    float w[SN_CODEC_LANE], old[SN_CODEC_LANE];
    bool adds = a.acc[SN_DECODE_Y] == SN_ADD;
    if (a.in[SN_DECODE_ADDEND].p)
        sn_lane_load(a.in[SN_DECODE_ADDEND], first, m, w);
    if (adds)
        sn_lane_load(a.out[SN_DECODE_Y], first, m, old);
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++) {
        sum[k] = a.in[SN_DECODE_ADDEND].p ? sum[k] + w[k] : sum[k];
        sum[k] = adds ? old[k] + sum[k] : sum[k];
    }
    sn_lane_store(a.out[SN_DECODE_Y], first, m, sum);
}

#endif
