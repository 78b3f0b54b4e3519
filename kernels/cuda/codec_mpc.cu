/*
 * codec_mpc.cu - mpc, as kernels/cpu/codec_mpc.c, whose head says what a stream is.
 *
 * A group of 32 words is a warp's, a word a lane's: bits are turned by exchanges, a map is a vote.
 * Encoding goes over the values twice: maps and how many words each chunk keeps; then, when it is
 * known where each chunk's words go and whether they are fewer than the values, the words. Decoding
 * counts the words of each chunk and checks the stream's length by them before it reads any. The
 * sums over a chunk, each value plus that `dim` places before it, are of spans that double.
 *
 * U: the integers of the values' width. Scratch: for each stream a number for each chunk, then one:
 * encoding, are words kept or values sent as they are; decoding, its fault.
 */
#include "kernels/cuda/codec_mpc.cuh"
#include "kernels/cuda/codec.cuh"

/* LENGTH: bytes before a stream, how long it is. ABSENT: in place of a fault. */
enum { HEADER = SN_CODEC_MPC_HEADER, LENGTH = 8, ABSENT = -1 };

/* The words of a header: "MPC1"; coded, storage type, dim; n. */
static const uint32_t MAGIC = 0x3143504du;

template <class U> struct wide {
    enum {
        A_WORD = 4 / sizeof(U), /* values */
        GROUP = SN_MPC_GROUP * A_WORD,
        CHUNK = SN_MPC_WORDS * A_WORD,
        EACH = CHUNK / SN_BLOCK,               /* of a thread */
        GROUPS = SN_MPC_GROUP / SN_CODEC_WARPS /* of a warp */
    };
};

/* A stream and what follows from the number of its values. */
struct stream {
    uint32_t *header, *map, *words;
    int64_t first, n, raw, groups, chunks;
    int64_t *count; /* of each chunk, and the last word */
    int dim;
};

template <class U>
static __device__ __forceinline__ struct stream stream_at(const struct sn_args &a,
                                                          const struct sn_codec_part &p, int64_t i,
                                                          int64_t *counts, int dim)
{
    int64_t stride = sn_ceil_div(a.attr.stream.share, sn_mpc_chunk(a.attr.stream.type)) + 1;
    struct stream s;
    s.first = p.first;
    s.n = p.n;
    s.raw = p.n * (int64_t)sizeof(U);
    s.groups = sn_ceil_div(p.n, wide<U>::GROUP);
    s.chunks = sn_ceil_div(p.n, wide<U>::CHUNK);
    s.header = (uint32_t *)(p.at + LENGTH);
    s.map = s.header + HEADER / 4;
    s.words = s.map + s.groups;
    s.count = counts + i * stride;
    s.dim = dim;
    return s;
}

/* Values of a chunk. */
template <class U>
static __device__ __forceinline__ int values_of(const struct stream &s, int64_t k)
{
    int64_t left = s.n - k * wide<U>::CHUNK;
    return (int)(left < wide<U>::CHUNK ? left : (int64_t)wide<U>::CHUNK);
}

/* Step 3 of the format, its own inverse (Warren, Hacker's Delight, 7-3): word p is lane p's. */
static __device__ __forceinline__ uint32_t turned(uint32_t x)
{
    const uint32_t masks[] = {0x0000ffffu, 0x00ff00ffu, 0x0f0f0f0fu, 0x33333333u, 0x55555555u};
#pragma unroll
    for (int i = 0; i < 5; i++) {
        int by = SN_WARP / 2 >> i;
        uint32_t mask = masks[i], other = __shfl_xor_sync((unsigned)SN_ALL_LANES, x, by);
        x = sn_lane() & by ? (x & ~(mask << by)) | (other & mask) << by
                           : (x & ~mask) | (other >> by & mask);
    }
    return x;
}

/* The map of each group of chunk k, a lane's; 0 behind the last. */
static __device__ __forceinline__ uint32_t map_of(const struct stream &s, int64_t k)
{
    int64_t g = k * SN_MPC_GROUP + sn_lane();
    return g < s.groups ? s.map[g] : 0;
}

static __device__ __forceinline__ uint32_t bits_before(uint32_t map)
{
    return map & ((1u << sn_lane()) - 1);
}

/* Counts of chunks become sums of those before; returns the sum of all. A whole block calls. */
static __device__ int64_t sum_counts(int64_t *count, int64_t chunks)
{
    __shared__ int64_t room[SN_CODEC_WARPS];
    int64_t all = 0;
    int warp = (int)threadIdx.x / SN_WARP;
    for (int64_t at = 0; at < chunks; at += SN_BLOCK) {
        int64_t k = at + threadIdx.x, mine = k < chunks ? count[k] : 0;
        int64_t up_to = sn_warp_sum_up_to(mine), before = 0, sum = 0;
        __syncthreads(); /* the last reader of the room is through */
        if (sn_lane() == SN_WARP - 1)
            room[warp] = up_to;
        __syncthreads();
        for (int w = 0; w < SN_CODEC_WARPS; w++) {
            before += w < warp ? room[w] : 0;
            sum += room[w];
        }
        if (k < chunks)
            count[k] = all + before + up_to - mine;
        all += sum;
    }
    return all;
}

/* --- encode ---------------------------------------------------------------------------------- */

/* The bits of a value that is encoded. */
template <class U> static __device__ __forceinline__ U bits_of(const struct sn_args &a, int64_t i)
{
    if (a.in[SN_ENCODE_MINUS].p)
        return (U)__float_as_uint(sn_value(a.in[SN_ENCODE_X], i) -
                                  sn_value(a.in[SN_ENCODE_MINUS], i));
    return ((const U *)a.in[SN_ENCODE_X].p)[i];
}

/* Value i of chunk k minus that `dim` before it; 0 behind the last. */
template <class U>
static __device__ __forceinline__ uint32_t delta(const struct sn_args &a, const struct stream &s,
                                                 int64_t k, int i)
{
    int64_t at = s.first + k * wide<U>::CHUNK + i;
    if (i >= values_of<U>(s, k))
        return 0;
    U x = bits_of<U>(a, at);
    return i < s.dim ? x : (U)(x - bits_of<U>(a, at - s.dim));
}

/* This lane's word of group g of chunk k, after step 4. */
template <class U>
static __device__ __forceinline__ uint32_t word_of(const struct sn_args &a, const struct stream &s,
                                                   int64_t k, int g)
{
    int i = g * wide<U>::GROUP + sn_lane();
    uint32_t d = delta<U>(a, s, k, i);
    if (wide<U>::A_WORD == 2)
        d |= delta<U>(a, s, k, i + SN_MPC_GROUP) << 16;
    d = turned(d);
    uint32_t before = __shfl_up_sync((unsigned)SN_ALL_LANES, d, 1);
    return sn_lane() ? d - before : d;
}

/* Fewer values than a map is long: they are sent as they are. */
static __device__ __forceinline__ bool has_room(const struct stream &s)
{
    return s.raw > 0 && s.raw >= 4 * s.groups;
}

template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_maps(const struct sn_args a, int64_t chunks, int64_t *counts)
{
    __shared__ int room[SN_CODEC_WARPS];
    const struct sn_codec c = sn_codec_of(a);
    int warp = (int)threadIdx.x / SN_WARP;
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t w = blockIdx.x; w < a.attr.blocks_a * chunks; w += gridDim.x) {
        int64_t i = w / chunks, k = w % chunks;
        struct sn_codec_part p = sn_part_encoded(a, c, i);
        struct stream s = stream_at<U>(a, p, i, counts, c.dim);
        int kept = 0;
        if (k >= s.chunks || !has_room(s))
            continue;
        for (int g = warp * wide<U>::GROUPS; g < (warp + 1) * wide<U>::GROUPS; g++) {
            if (k * SN_MPC_GROUP + g >= s.groups)
                break;
            uint32_t map = __ballot_sync((unsigned)SN_ALL_LANES, word_of<U>(a, s, k, g) != 0);
            if (sn_lane() == 0)
                s.map[k * SN_MPC_GROUP + g] = map;
            kept += __popc(map);
        }
        __syncthreads(); /* the last reader of the room is through */
        if (sn_lane() == 0)
            room[warp] = kept;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int other = 1; other < SN_CODEC_WARPS; other++)
                kept += room[other];
            s.count[k] = kept;
        }
    }
}

/* A block for each stream: where its chunks' words go, its length and header. */
template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_headers(const struct sn_args a, enum sn_dtype t, int64_t *counts)
{
    const struct sn_codec c = sn_codec_of(a);
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t i = blockIdx.x; i < a.attr.blocks_a; i += gridDim.x) {
        struct sn_codec_part p = sn_part_encoded(a, c, i);
        struct stream s = stream_at<U>(a, p, i, counts, c.dim);
        int64_t words = has_room(s) ? sum_counts(s.count, s.chunks) : 0;
        bool keeps = has_room(s) && words <= (s.raw - 4 * s.groups) / 4;
        if (threadIdx.x > 0)
            continue;
        s.count[s.chunks] = keeps;
        *(int64_t *)p.at = p.n == 0 ? 0 : HEADER + (keeps ? 4 * (s.groups + words) : s.raw);
        if (p.n == 0)
            continue;
        s.header[0] = MAGIC;
        s.header[1] = (uint32_t)keeps | (uint32_t)t << 8 | (uint32_t)c.dim << 16;
        *(uint64_t *)(s.header + 2) = (uint64_t)p.n;
    }
}

/* The words that chunk k keeps. */
template <class U>
static __device__ __forceinline__ void put_words(const struct sn_args &a, const struct stream &s,
                                                 int64_t k)
{
    int warp = (int)threadIdx.x / SN_WARP;
    int mine = __popc(map_of(s, k)), up_to = sn_warp_sum_up_to(mine);
    for (int g = warp * wide<U>::GROUPS; g < (warp + 1) * wide<U>::GROUPS; g++) {
        if (k * SN_MPC_GROUP + g >= s.groups)
            break;
        uint32_t word = word_of<U>(a, s, k, g);
        uint32_t map = __ballot_sync((unsigned)SN_ALL_LANES, word != 0);
        int before = __shfl_sync((unsigned)SN_ALL_LANES, up_to - mine, g);
        if (word)
            s.words[s.count[k] + before + __popc(bits_before(map))] = word;
    }
}

template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_words(const struct sn_args a, int64_t chunks, int64_t *counts)
{
    const struct sn_codec c = sn_codec_of(a);
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t w = blockIdx.x; w < a.attr.blocks_a * chunks; w += gridDim.x) {
        int64_t i = w / chunks, k = w % chunks;
        struct sn_codec_part p = sn_part_encoded(a, c, i);
        struct stream s = stream_at<U>(a, p, i, counts, c.dim);
        if (k >= s.chunks)
            continue;
        if (s.count[s.chunks]) {
            put_words<U>(a, s, k);
            continue;
        }
        for (int v = (int)threadIdx.x; v < values_of<U>(s, k); v += SN_BLOCK) {
            int64_t at = k * wide<U>::CHUNK + v;
            ((U *)s.map)[at] = bits_of<U>(a, s.first + at);
        }
    }
}

/* --- decode ---------------------------------------------------------------------------------- */

/* What is wrong with a stream that is n values long, as far as its head says. */
template <class U>
static __device__ __forceinline__ int look_at(const struct sn_args &a, const struct sn_codec &c,
                                              const struct stream &s)
{
    int64_t length = *((const int64_t *)s.header - 1);
    int64_t room = sn_place_bytes(&a.attr, &c) - LENGTH;
    if (sn_is_absent(a, (const int64_t *)s.header - 1))
        return ABSENT;
    if (length < HEADER || length > room)
        return SN_CODEC_BAD_LENGTH;
    uint32_t how = s.header[1];
    if (s.header[0] != MAGIC || (how & 0xffu) > 1 || (how >> 8 & 0xffu) != a.attr.stream.type ||
        how >> 16 != (uint32_t)c.dim || *(const uint64_t *)(s.header + 2) != (uint64_t)s.n)
        return SN_CODEC_BAD_HEADER;
    if (how & 1)
        return length < HEADER + 4 * s.groups ? SN_CODEC_BAD_LENGTH : SN_CODEC_FINE;
    return length == HEADER + s.raw ? SN_CODEC_FINE : SN_CODEC_BAD_LENGTH;
}

/* Stream i, and the values that it has: with `inverse` those of all streams are the same. */
template <class U>
static __device__ __forceinline__ struct stream
seen(const struct sn_args &a, const struct sn_codec &c, int64_t i, int64_t *counts)
{
    int64_t step, end;
    struct sn_codec_part p = sn_sum_of(a, c, i, &step, &end);
    return stream_at<U>(a, p, i, counts, c.dim);
}

/* A warp for each chunk. */
template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_counts(const struct sn_args a, int64_t chunks, int64_t *counts)
{
    const struct sn_codec c = sn_codec_of(a);
    int64_t all = sn_streams_of(a) * chunks;
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t w = (int64_t)blockIdx.x * SN_CODEC_WARPS + threadIdx.x / SN_WARP; w < all;
         w += (int64_t)gridDim.x * SN_CODEC_WARPS) {
        struct stream s = seen<U>(a, c, w / chunks, counts);
        int64_t k = w % chunks;
        if (k >= s.chunks || look_at<U>(a, c, s) != SN_CODEC_FINE || !(s.header[1] & 1))
            continue;
        int kept = sn_warp_sum(__popc(map_of(s, k)));
        if (sn_lane() == 0)
            s.count[k] = kept;
    }
}

template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_check(const struct sn_args a, int64_t *counts)
{
    const struct sn_codec c = sn_codec_of(a);
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t i = blockIdx.x; i < sn_streams_of(a); i += gridDim.x) {
        struct stream s = seen<U>(a, c, i, counts);
        if (s.n == 0)
            continue;
        int fault = look_at<U>(a, c, s);
        if (fault == SN_CODEC_FINE && (s.header[1] & 1)) {
            int64_t words = sum_counts(s.count, s.chunks);
            if (*((const int64_t *)s.header - 1) != HEADER + 4 * (s.groups + words))
                fault = SN_CODEC_BAD_LENGTH;
        }
        if (threadIdx.x == 0) {
            s.count[s.chunks] = fault;
            sn_refuse(a, fault == ABSENT ? (int)SN_CODEC_FINE : fault);
        }
    }
}

/* Steps 5 to 2 back: the differences of chunk k, in shared memory. */
template <class U>
static __device__ __forceinline__ void get_words(const struct sn_args &a, const struct stream &s,
                                                 int64_t k, U *d)
{
    int warp = (int)threadIdx.x / SN_WARP, lane = sn_lane();
    uint32_t maps = map_of(s, k);
    int mine = __popc(maps), up_to = sn_warp_sum_up_to(mine);
    for (int g = warp * wide<U>::GROUPS; g < (warp + 1) * wide<U>::GROUPS; g++) {
        uint32_t map = __shfl_sync((unsigned)SN_ALL_LANES, maps, g), word = 0;
        int before = __shfl_sync((unsigned)SN_ALL_LANES, up_to - mine, g);
        if (map >> lane & 1) {
            word = s.words[s.count[k] + before + __popc(bits_before(map))];
            if (word == 0) /* which none that is kept is */
                sn_refuse(a, SN_CODEC_BAD_CODE);
        }
        word = turned(sn_warp_sum_up_to(word));
        d[g * wide<U>::GROUP + lane] = (U)word;
        if (wide<U>::A_WORD == 2)
            d[g * wide<U>::GROUP + SN_MPC_GROUP + lane] = (U)(word >> 16);
    }
}

/* The values of chunk k: this thread's are those at threadIdx.x, + SN_BLOCK, ... A block calls. */
template <class U>
static __device__ __forceinline__ void get_values(const struct sn_args &a, const struct stream &s,
                                                  int64_t k, U x[wide<U>::EACH], U *d)
{
    int m = values_of<U>(s, k), t = (int)threadIdx.x;
    if (!(s.header[1] & 1)) {
#pragma unroll
        for (int r = 0; r < wide<U>::EACH; r++)
            x[r] = t + r * SN_BLOCK < m ? ((const U *)s.map)[k * wide<U>::CHUNK + t + r * SN_BLOCK]
                                        : (U)0;
        return;
    }
    __syncthreads(); /* the last reader is through */
    get_words<U>(a, s, k, d);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < wide<U>::EACH; r++)
        x[r] = d[t + r * SN_BLOCK];
    for (int span = s.dim; span < m; span *= 2) {
#pragma unroll
        for (int r = 0; r < wide<U>::EACH; r++)
            if (t + r * SN_BLOCK >= span)
                x[r] = (U)(x[r] + d[t + r * SN_BLOCK - span]);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < wide<U>::EACH; r++)
            d[t + r * SN_BLOCK] = x[r];
        __syncthreads();
    }
}

static __device__ __forceinline__ float widened(uint32_t bits, enum sn_dtype)
{
    return __uint_as_float(bits);
}
static __device__ __forceinline__ float widened(uint16_t bits, enum sn_dtype t)
{
    return sn_from_half(bits, t);
}

/* Stream i and those of the same values: their chunk k, summed. */
template <class U>
static __device__ __forceinline__ void decode_chunk(const struct sn_args &a,
                                                    const struct sn_codec &c, int64_t i, int64_t k,
                                                    int64_t *counts)
{
    __shared__ U d[wide<U>::CHUNK];
    const struct sn_mat &y = a.out[SN_DECODE_Y];
    U x[wide<U>::EACH];
    float sum[wide<U>::EACH];
    int64_t step, end;
    (void)sn_sum_of(a, c, i, &step, &end);
    struct stream s = seen<U>(a, c, i, counts);
    int m = values_of<U>(s, k), t = (int)threadIdx.x;
    bool as_is = y.dtype == a.attr.stream.type && a.acc[SN_DECODE_Y] == SN_WRITE &&
                 !a.in[SN_DECODE_ADDEND].p && i + step >= end;
    int64_t first = s.first + k * wide<U>::CHUNK;
    for (int64_t j = i; j < end; j += step) {
        s = seen<U>(a, c, j, counts);
        if (s.count[s.chunks] != SN_CODEC_FINE)
            return;
        get_values<U>(a, s, k, x, d);
#pragma unroll
        for (int r = 0; r < wide<U>::EACH; r++) {
            float v = widened(x[r], a.attr.stream.type);
            sum[r] = j > i ? sum[r] + v : v;
        }
    }
#pragma unroll
    for (int r = 0; r < wide<U>::EACH; r++) {
        int64_t at = first + t + r * SN_BLOCK;
        if (t + r * SN_BLOCK >= m)
            break;
        if (as_is)
            ((U *)y.p)[at] = x[r];
        else
            sn_set_value(y, at, sn_end_sum(a, at, sum[r]));
    }
}

template <class U>
static __global__ void __launch_bounds__(SN_BLOCK)
    mpc_decode(const struct sn_args a, int64_t chunks, int64_t *counts)
{
    const struct sn_codec c = sn_codec_of(a);
    int64_t all = sn_sums_of(a);
    if (c.kind != SN_CODEC_MPC)
        return;
    for (int64_t w = blockIdx.x; w < all * chunks; w += gridDim.x) {
        int64_t i = w / chunks, k = w % chunks;
        if (k < seen<U>(a, c, i, counts).chunks)
            decode_chunk<U>(a, c, i, k, counts);
    }
}

/* --- launches -------------------------------------------------------------------------------- */

static int64_t *counts_of(const struct sn_args *a)
{
    return (int64_t *)((double *)a->scratch + 2 * SN_CODEC_GRID);
}

template <class U>
static int encode_as(struct sn_cuda *cx, const struct sn_args *a, enum sn_dtype t)
{
    int64_t chunks = sn_ceil_div(a->attr.stream.share, wide<U>::CHUNK), streams = a->attr.blocks_a;
    struct sn_shape each = sn_shape_chunks(streams, chunks);
    int rc = sn_launch(cx, mpc_maps<U>, each, *a, chunks, counts_of(a));
    rc = rc ? rc : sn_launch(cx, mpc_headers<U>, sn_shape_chunks(streams, 1), *a, t, counts_of(a));
    return rc ? rc : sn_launch(cx, mpc_words<U>, each, *a, chunks, counts_of(a));
}

int sn_cuda_mpc_encode(struct sn_cuda *cx, const struct sn_args *a)
{
    enum sn_dtype t = a->in[SN_ENCODE_MINUS].p ? SN_F32 : a->in[SN_ENCODE_X].dtype;
    if (sn_dtype_size(t) > sn_dtype_size(a->attr.stream.type))
        return SN_CODEC_BAD_TYPE; /* the stream would not have the room */
    return t == SN_F32 ? encode_as<uint32_t>(cx, a, t) : encode_as<uint16_t>(cx, a, t);
}

template <class U> static int decode_as(struct sn_cuda *cx, const struct sn_args *a)
{
    int64_t chunks = sn_ceil_div(a->attr.stream.share, wide<U>::CHUNK), streams = a->attr.blocks_a;
    struct sn_shape warps = sn_shape_chunks(sn_ceil_div(streams * chunks, SN_CODEC_WARPS), 1);
    struct sn_shape each =
        sn_shape_chunks(a->attr.inverse ? sn_sum_shares(&a->attr) : streams, chunks);
    int rc = sn_launch(cx, mpc_counts<U>, warps, *a, chunks, counts_of(a));
    rc = rc ? rc : sn_launch(cx, mpc_check<U>, sn_shape_chunks(streams, 1), *a, counts_of(a));
    return rc ? rc : sn_launch(cx, mpc_decode<U>, each, *a, chunks, counts_of(a));
}

int sn_cuda_mpc_decode(struct sn_cuda *cx, const struct sn_args *a)
{
    return a->attr.stream.type == SN_F32 ? decode_as<uint32_t>(cx, a) : decode_as<uint16_t>(cx, a);
}
