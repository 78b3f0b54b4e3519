/*
 * codec_ops.cu - ENCODE and DECODE, as kernels/cpu/codec_ops.c: a warp for each tile of 128 values
 * (codec_tile.cuh), which does all that is to be done with it in registers: differences, feedback,
 * sums over streams. mpc is codec_mpc.cu's.
 *
 * Which of attr.stream.codec is meant only the device knows, so there is a launch for each kind among
 * them, and those of other kinds end at once. What a stream is refused for is left in
 * scalars.codec_fault.
 */
#include "kernels/cuda/codec_mpc.cuh"
#include "kernels/cuda/codec_zfp.cuh"
#include "kernels/cuda/ops.cuh"

/* Sums of squares of one thread: lost, encoded. */
struct squares {
    double lost, whole;
};

/* --- encode ---------------------------------------------------------------------------------- */

static __device__ __forceinline__ void load_encoded(const struct sn_args &a, int64_t first, int m,
                                                    float x[SN_CODEC_LANE], float e[SN_CODEC_LANE])
{
    float y[SN_CODEC_LANE];
    sn_lane_load(a.in[SN_ENCODE_X], first, m, x);
    if (a.in[SN_ENCODE_MINUS].p) {
        sn_lane_load(a.in[SN_ENCODE_MINUS], first, m, y);
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            x[k] = x[k] - y[k];
    }
    if (a.out[SN_ENCODE_LOST].p) {
        sn_lane_load(a.out[SN_ENCODE_LOST], first, m, e);
#pragma unroll
        for (int k = 0; k < SN_CODEC_LANE; k++)
            x[k] = x[k] + e[k];
    }
}

/* What the tile has lost of x: into e, and into the sums. */
template <class K>
static __device__ __forceinline__ void
look_back(const struct sn_args &a, const struct sn_codec_tile &t, int64_t first,
          const float x[SN_CODEC_LANE], float e[SN_CODEC_LANE], struct squares *sum)
{
    float back[SN_CODEC_LANE];
    bool feeds = a.out[SN_ENCODE_LOST].p != NULL;
    __syncwarp(); /* the tile's bytes are there for all lanes */
    (void)K::get(t, back);
#pragma unroll
    for (int k = 0; k < SN_CODEC_LANE; k++) {
        float lost = x[k] - back[k];
        if (feeds && sn_magnitude(lost) < SN_NOT_FINITE)
            e[k] = lost;
        if (k >= sn_lane_values(t.m))
            continue;
        double away = feeds ? (double)e[k] : (double)x[k] - (double)back[k];
        double whole = feeds ? away + (double)back[k] : (double)x[k];
        sum->lost += away * away;
        sum->whole += whole * whole;
    }
    if (feeds)
        sn_lane_store(a.out[SN_ENCODE_LOST], first, t.m, e);
}

/* The bytes after `from` that tile number t of m values would have, and leaves; the last one's go
 * to the end. */
static __device__ __forceinline__ void clear_rest(unsigned char *from, const struct sn_codec &c,
                                                  int64_t t, int64_t tiles, int64_t room, int m)
{
    int64_t whole = sn_tile_bytes(&c, SN_CODEC_BLOCK), at = t * whole + sn_tile_bytes(&c, m);
    int64_t end = t + 1 < tiles ? (t + 1) * whole : room;
    for (at += sn_lane(); at < end; at += SN_WARP)
        from[at] = 0;
}

/* The sums of a block's threads as its part. */
static __device__ __forceinline__ void leave_sums(struct squares mine, struct squares *part)
{
    __shared__ struct squares room[SN_CODEC_WARPS];
    mine.lost = sn_warp_sum(mine.lost);
    mine.whole = sn_warp_sum(mine.whole);
    if (sn_lane() == 0)
        room[threadIdx.x / SN_WARP] = mine;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    for (int w = 1; w < SN_CODEC_WARPS; w++) {
        mine.lost += room[w].lost;
        mine.whole += room[w].whole;
    }
    part[blockIdx.x] = mine;
}

template <class K>
static __global__ void __launch_bounds__(SN_BLOCK)
    encode(const struct sn_args a, struct squares *part)
{
    __shared__ uint32_t rooms[SN_CODEC_WARPS][K::ROOM];
    const struct sn_codec c = sn_codec_of(a);
    if ((int)c.kind != (int)K::KIND)
        return;
    const struct sn_scalars *s = a.scalars;
    int warp = (int)threadIdx.x / SN_WARP;
    int64_t share = a.attr.stream.share, tiles = sn_ceil_div(share, SN_CODEC_BLOCK);
    int64_t length = sn_length_bytes(&a.attr, &c), room = sn_place_bytes(&a.attr, &c) - length;
    int64_t whole = sn_tile_bytes(&c, SN_CODEC_BLOCK), n = sn_elements(a, a.in[SN_ENCODE_X]);
    uint64_t key = sn_noise_key(s->seed, s->step, SN_CODEC_TAG);
    uint64_t message = sn_codec_message(a.attr.random.site, a.attr.stream.member, s->first_sample);
    struct squares sum = {0, 0};
    for (int64_t w = (int64_t)blockIdx.x * SN_CODEC_WARPS + warp; w < a.attr.blocks_a * tiles;
         w += (int64_t)gridDim.x * SN_CODEC_WARPS) {
        int64_t i = w / tiles, b = w % tiles, left;
        float x[SN_CODEC_LANE], e[SN_CODEC_LANE] = {0, 0, 0, 0};
        struct sn_codec_part p = sn_part_of(a, c, a.out[SN_ENCODE_STREAMS].p, n, i);
        left = p.n - b * SN_CODEC_BLOCK;
        int m = sn_tile_values(left);
        struct sn_codec_tile t = {
            c, p.at + length + b * whole, m, key, message + (uint64_t)i, (uint64_t)b, rooms[warp]};
        clear_rest(p.at + length, c, b, tiles, room, m);
        if (length && b == 0 && sn_lane() == 0)
            *(int64_t *)p.at = sn_stream_bytes(&c, a.attr.stream.type, p.n);
        if (m == 0)
            continue;
        load_encoded(a, p.first + b * SN_CODEC_BLOCK, m, x, e);
        K::put(t, x);
        if (a.out[SN_ENCODE_LOST].p || s->codec_sample)
            look_back<K>(a, t, p.first + b * SN_CODEC_BLOCK, x, e, &sum);
    }
    if (s->codec_sample)
        leave_sums(sum, part);
}

/* One warp: the parts in order. mpc, which loses nothing, has none. */
static __global__ void __launch_bounds__(SN_WARP)
    add_squares(const struct sn_args a, const struct squares *part, int blocks)
{
    double *to = a.scalars->codec_error[a.attr.stream.coded];
    if (!a.scalars->codec_sample || sn_codec_of(a).kind == SN_CODEC_MPC)
        return;
    struct squares sum = {0, 0};
    for (int b = sn_lane(); b < blocks; b += SN_WARP) {
        sum.lost += part[b].lost;
        sum.whole += part[b].whole;
    }
    sum.lost = sn_warp_sum(sum.lost);
    sum.whole = sn_warp_sum(sum.whole);
    if (sn_lane() == 0) {
        to[0] += sum.lost;
        to[1] += sum.whole;
    }
}

/* --- decode ---------------------------------------------------------------------------------- */

template <class K> static __global__ void __launch_bounds__(SN_BLOCK) decode(const struct sn_args a)
{
    const struct sn_codec c = sn_codec_of(a);
    if ((int)c.kind != (int)K::KIND)
        return;
    int64_t tiles = sn_ceil_div(a.attr.stream.share, SN_CODEC_BLOCK), all = sn_sums_of(a) * tiles;
    int64_t whole = sn_tile_bytes(&c, SN_CODEC_BLOCK), step, end;
    int64_t length = sn_length_bytes(&a.attr, &c), place = sn_place_bytes(&a.attr, &c);
    for (int64_t w = (int64_t)blockIdx.x * SN_CODEC_WARPS + threadIdx.x / SN_WARP; w < all;
         w += (int64_t)gridDim.x * SN_CODEC_WARPS) {
        int64_t i = w / tiles, b = w % tiles;
        struct sn_codec_part p = sn_sum_of(a, c, i, &step, &end);
        int64_t left = p.n - b * SN_CODEC_BLOCK, first = p.first + b * SN_CODEC_BLOCK;
        float sum[SN_CODEC_LANE], y[SN_CODEC_LANE];
        int m = sn_tile_values(left), fault = 0;
        if (m == 0 || sn_is_absent(a, p.at))
            continue;
        for (int64_t j = i; j < end; j += step) {
            unsigned char *at =
                (unsigned char *)a.in[SN_DECODE_STREAMS].p + j * place + length + b * whole;
            struct sn_codec_tile t = {c, at, m, 0, 0, 0, NULL};
            int f = K::get(t, y);
            fault = f > fault ? f : fault;
#pragma unroll
            for (int v = 0; v < SN_CODEC_LANE; v++)
                sum[v] = j > i ? sum[v] + y[v] : y[v];
        }
        sn_refuse(a, fault);
        sn_end_lane(a, first, m, sum);
    }
}

/* --- the operations -------------------------------------------------------------------------- */

static bool lies_well(const struct sn_mat *s)
{
    return (uintptr_t)s->p % 8 == 0;
}

template <class K>
static int encode_kind(struct sn_cuda *cx, const struct sn_args *a, struct sn_shape g)
{
    if (!sn_has_kind(&a->attr, (enum sn_codec_kind)K::KIND))
        return 0;
    return sn_launch(cx, encode<K>, g, *a, (struct squares *)a->scratch);
}

template <class K>
static int decode_kind(struct sn_cuda *cx, const struct sn_args *a, struct sn_shape g)
{
    return sn_has_kind(&a->attr, (enum sn_codec_kind)K::KIND) ? sn_launch(cx, decode<K>, g, *a) : 0;
}

#define ENCODE(K) rc = rc ? rc : encode_kind<K>(cx, a, g);

SN_CUDA_OP(encode)
{
    struct sn_shape g = sn_shape_tiles(a->attr.blocks_a, a->attr.stream.share);
    struct sn_shape one = {g.x > 0, 1, 1, SN_WARP, 1, 0};
    int rc = lies_well(&a->out[SN_ENCODE_STREAMS]) ? 0 : SN_CODEC_BAD_PLACE;
    SN_CODEC_TILES(ENCODE)
    if (rc == 0 && sn_has_kind(&a->attr, SN_CODEC_MPC))
        rc = sn_cuda_mpc_encode(cx, a);
    const struct squares *part = (const struct squares *)a->scratch;
    return rc ? rc : sn_launch(cx, add_squares, one, *a, part, (int)g.x);
}

#define DECODE(K) rc = rc ? rc : decode_kind<K>(cx, a, g);

SN_CUDA_OP(decode)
{
    int64_t n = a->out[SN_DECODE_Y].rows * a->out[SN_DECODE_Y].cols - a->attr.stream.missing;
    int64_t shares = sn_sum_shares(&a->attr);
    struct sn_shape g =
        sn_shape_tiles(a->attr.inverse ? shares : a->attr.blocks_a, a->attr.stream.share);
    int rc = lies_well(&a->in[SN_DECODE_STREAMS]) ? 0 : SN_CODEC_BAD_PLACE;
    if (a->attr.inverse && n > shares * a->attr.stream.share)
        rc = SN_CODEC_BAD_LENGTH;
    if (a->acc[SN_DECODE_Y] == SN_ADD && a->out[SN_DECODE_Y].dtype != SN_F32)
        rc = SN_CODEC_BAD_TYPE;
    SN_CODEC_TILES(DECODE)
    return rc == 0 && sn_has_kind(&a->attr, SN_CODEC_MPC) ? sn_cuda_mpc_decode(cx, a) : rc;
}
