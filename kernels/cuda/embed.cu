/*
 * embed.cu - EMBED, EMBED_GRAD, POS_GRAD, as kernels/cpu/embed.c.
 *
 * EMBED_GRAD without atomics: the rows are sorted by word, those of a word in their order, by
 * counting in tiles of rows. Then each SN_EMBED_SEGMENT rows of a word are added up at once: the
 * first segment onto the gradient, the others into scratch, from where a second kernel adds them in
 * order. So a frequent word is no longer than a rare one, a word's sum depends on its own rows
 * alone, and up to SN_EMBED_SEGMENT rows of a word give the CPU's bits. In any order
 * (attr.any_order) every row is added by atomics.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/position.h"

static __device__ __forceinline__ int64_t id_at(const struct sn_mat &ids, int64_t r)
{
    return ((const int32_t *)ids.p)[r * ids.ld];
}

/* The row of `table` that has row r's word, -1 when another rank has it. */
static __device__ __forceinline__ int64_t row_of_word(const struct sn_args &a,
                                                      const struct sn_mat &table, int64_t r)
{
    int64_t id = id_at(a.in[SN_EMBED_IDS], r) - a.attr.vocab.first;
    return id >= 0 && id < table.rows ? id : -1;
}

template <class A> struct embed : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float w[N] = {0}, p[N];
        int64_t id = row_of_word(a, a.in[SN_EMBED_W], r);
        if (id >= 0)
            A::load(a.in[SN_EMBED_W], id, c, w);
        if (a.in[SN_EMBED_P].p) {
            A::load(a.in[SN_EMBED_P], sn_row_position(&a.attr.position, r), c, p);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] += p[i];
        }
        A::store(a.out[SN_EMBED_Y], r, c, w);
    }
};

SN_CUDA_OP(embed)
{
    const struct sn_mat *m[] = {&a->in[SN_EMBED_W], &a->in[SN_EMBED_P], &a->out[SN_EMBED_Y]};
    SN_BY_TYPE(sn_common(m, 3), return sn_plane_run<embed<A>>(cx, a, a->out[SN_EMBED_Y].rows,
                                                              a->out[SN_EMBED_Y].cols))
    return 0;
}

/* --- gradient of the words ------------------------------------------------------------------- */

/* The scratch (geometry.h, sn_embed_scratch). */
struct sorted {
    int64_t tile;    /* rows of one */
    int32_t *rank;   /* [T] among the rows of its word in its tile */
    int32_t *order;  /* [T] the sorted rows */
    int32_t *start;  /* [V + 1] of each word in `order` */
    int32_t *sums;   /* of each block's words */
    int32_t *counts; /* [tiles][V] rows of a word in a tile, then in the tiles before it */
    float *partial;  /* [T / SN_EMBED_SEGMENT][D] sums of segments: of that which begins there */
};

static struct sorted sorted_of(const struct sn_args *a)
{
    int64_t rows = a->in[SN_EMBED_GRAD_DY].rows, words = a->out[SN_EMBED_GRAD_DW].rows;
    struct sorted e = {sn_embed_tile(rows), NULL, NULL, NULL, NULL, NULL, NULL};
    e.partial = (float *)a->scratch;
    e.rank =
        (int32_t *)(e.partial + sn_ceil_div(rows, SN_EMBED_SEGMENT) * a->in[SN_EMBED_GRAD_DY].cols);
    e.order = e.rank + rows;
    e.start = e.order + rows;
    e.sums = e.start + words + 1;
    e.counts = e.sums + SN_EMBED_BLOCKS;
    return e;
}

/* A block for each tile: each row against all others of its tile. */
static __global__ void __launch_bounds__(SN_BLOCK_MOST)
    ranks(const struct sn_args a, struct sorted e)
{
    __shared__ __align__(16) int32_t near[SN_BLOCK_MOST];
    const struct sn_mat &dw = a.out[SN_EMBED_GRAD_DW];
    int64_t first = blockIdx.x * e.tile, end = first + e.tile;
    int me = (int)threadIdx.x;
    end = end < a.in[SN_EMBED_GRAD_DY].rows ? end : a.in[SN_EMBED_GRAD_DY].rows;
    for (int64_t base = first; base < end; base += SN_BLOCK_MOST) {
        int64_t r = base + me;
        int32_t mine = r < end ? (int32_t)row_of_word(a, dw, r) : -1, before = 0, all = 0;
        for (int64_t from = first; from < end; from += SN_BLOCK_MOST) {
            int64_t earlier = r - from;
            __syncthreads();
            near[me] = from + me < end ? (int32_t)row_of_word(a, dw, from + me) : -1;
            __syncthreads();
#pragma unroll 4
            for (int j = 0; j < SN_BLOCK_MOST; j += 4) {
                uint4 word = *(const uint4 *)(near + j);
                uint32_t each[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    all += each[i] == (uint32_t)mine;
                    before += each[i] == (uint32_t)mine && j + i < earlier;
                }
            }
        }
        if (mine < 0)
            continue;
        e.rank[r] = before;
        if (before == 0)
            e.counts[blockIdx.x * dw.rows + mine] = all;
    }
}

/* The words of this block: [first, end). */
struct words {
    int64_t first, end;
};

static __device__ __forceinline__ struct words words_of(int64_t all)
{
    int64_t each = (all + gridDim.x - 1) / gridDim.x;
    struct words w = {blockIdx.x * each, blockIdx.x * each + each};
    w.end = w.end < all ? w.end : all;
    return w;
}

/* counts become those of the tiles before; start the rows of each word. */
static __global__ void __launch_bounds__(SN_BLOCK)
    count_words(int64_t all_words, int64_t tiles, struct sorted e)
{
    __shared__ int32_t room[SN_WARP];
    struct words w = words_of(all_words);
    int32_t sum = 0;
    for (int64_t id = w.first + threadIdx.x; id < w.end; id += SN_BLOCK) {
        int32_t n = 0;
        for (int64_t t = 0; t < tiles; t++) {
            int32_t here = e.counts[t * all_words + id];
            e.counts[t * all_words + id] = n;
            n += here;
        }
        e.start[id] = n;
        sum += n;
    }
    sum = sn_row_sum(sum, room);
    if (threadIdx.x == 0)
        e.sums[blockIdx.x] = sum;
}

/* start becomes the rows of the words before. */
static __global__ void __launch_bounds__(SN_BLOCK) start_words(int64_t all_words, struct sorted e)
{
    __shared__ int32_t room[SN_WARP];
    struct words w = words_of(all_words);
    int32_t before = 0;
    for (int b = (int)threadIdx.x; b < (int)blockIdx.x; b += SN_BLOCK)
        before += e.sums[b];
    before = sn_row_sum(before, room);
    int lane = (int)threadIdx.x % SN_WARP, warp = (int)threadIdx.x / SN_WARP;
    for (int64_t base = w.first; base < w.end; base += SN_BLOCK) {
        int64_t id = base + threadIdx.x;
        int32_t n = id < w.end ? e.start[id] : 0, sum = n, here = 0;
#pragma unroll
        for (int d = 1; d < SN_WARP; d *= 2) {
            int32_t left = __shfl_up_sync((unsigned)SN_ALL_LANES, sum, (unsigned)d);
            sum += lane >= d ? left : 0;
        }
        __syncthreads();
        if (lane == SN_WARP - 1)
            room[warp] = sum;
        __syncthreads();
        for (int i = 0; i < SN_BLOCK / SN_WARP; i++) {
            sum += i < warp ? room[i] : 0;
            here += room[i];
        }
        if (id < w.end)
            e.start[id] = before + sum - n;
        before += here;
    }
    if (w.end == all_words && w.first < all_words && threadIdx.x == 0)
        e.start[all_words] = before;
}

static __global__ void __launch_bounds__(SN_BLOCK) sort(const struct sn_args a, struct sorted e)
{
    const struct sn_mat &dw = a.out[SN_EMBED_GRAD_DW];
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
         r < a.in[SN_EMBED_GRAD_DY].rows; r += step) {
        int64_t id = row_of_word(a, dw, r);
        if (id >= 0)
            e.order[e.start[id] + e.counts[r / e.tile * dw.rows + id] + e.rank[r]] = (int32_t)r;
    }
}

/* The rows i .. end - 1 of `order`, from column c on, onto sum: four on their way at a time. */
template <class A>
static __device__ __forceinline__ void add_rows(const struct sn_mat &dy, const int32_t *order,
                                                int64_t i, int64_t end, int64_t c, float sum[A::N])
{
    enum { N = A::N, AT_ONCE = 4 };
    for (; i < end; i += AT_ONCE) {
        float x[AT_ONCE][N];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            A::load(dy, order[i + u < end ? i + u : i], c, x[u]);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] = i + u < end ? sum[k] + x[u][k] : sum[k];
    }
}

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK)
    add_segments(const struct sn_args a, struct sorted e)
{
    enum { N = A::N };
    const struct sn_mat &dy = a.in[SN_EMBED_GRAD_DY], &dw = a.out[SN_EMBED_GRAD_DW];
    int64_t width = dy.cols / N, rows = e.start[dw.rows];
    for (int64_t i = sn_first_row() + threadIdx.y; i < rows; i += sn_row_step()) {
        int64_t id = row_of_word(a, dw, e.order[i]), at = i - e.start[id];
        int64_t end =
            e.start[id + 1] < i + SN_EMBED_SEGMENT ? e.start[id + 1] : i + SN_EMBED_SEGMENT;
        if (at % SN_EMBED_SEGMENT)
            continue;
        for (int64_t v = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; v < width;
             v += (int64_t)gridDim.y * blockDim.x) {
            float sum[N] = {0};
            float *to =
                at ? e.partial + i / SN_EMBED_SEGMENT * dy.cols : (float *)dw.p + id * dw.ld;
            if (at == 0)
                sn_load_sums<N>(to + v * N, sum);
            add_rows<A>(dy, e.order, i, end, v * N, sum);
            sn_store_sums<N>(to + v * N, sum);
        }
    }
}

/* Slot p of `partial` finds the word, at most one, whose second segment begins there, and adds its
 * segments from there on: a word of more than one, which begins less than a segment before. */
static __global__ void __launch_bounds__(SN_BLOCK)
    add_partials(const struct sn_args a, int64_t slots, struct sorted e)
{
    const struct sn_mat &dw = a.out[SN_EMBED_GRAD_DW];
    int64_t cols = a.in[SN_EMBED_GRAD_DY].cols, rows = e.start[dw.rows];
    for (int64_t p = sn_first_row() + threadIdx.y; p < slots; p += sn_row_step()) {
        int64_t here = p * SN_EMBED_SEGMENT;
        int64_t id = here < rows ? row_of_word(a, dw, e.order[here]) : -1;
        int64_t first = id < 0 ? here : e.start[id], end = id < 0 ? here : e.start[id + 1];
        int64_t second = first + SN_EMBED_SEGMENT;
        if (first >= here || second < here || second >= end)
            continue;
        for (int64_t c = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; c < cols;
             c += (int64_t)gridDim.y * blockDim.x) {
            float *to = (float *)dw.p + id * dw.ld + c, sum = *to;
#pragma unroll 4
            for (int64_t i = second; i < end; i += SN_EMBED_SEGMENT)
                sum += e.partial[i / SN_EMBED_SEGMENT * cols + c];
            *to = sum;
        }
    }
}

/* One element a thread, so that the atomics of a warp meet in one piece of memory. */
struct embed_atomic : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const struct sn_mat &dw = a.out[SN_EMBED_GRAD_DW];
        int64_t id = row_of_word(a, dw, r);
        if (id >= 0)
            (void)atomicAdd((float *)dw.p + id * dw.ld + c,
                            sn_element(a.in[SN_EMBED_GRAD_DY], r, c));
    }
};

static int sort_rows(struct sn_cuda *cx, const struct sn_args *a, const struct sorted *e)
{
    int64_t rows = a->in[SN_EMBED_GRAD_DY].rows, words = a->out[SN_EMBED_GRAD_DW].rows,
            tiles = sn_ceil_div(rows, e->tile);
    struct sn_shape by_tile = {(uint32_t)tiles, 1, 1, SN_BLOCK_MOST, 1, 0};
    struct sn_shape by_word = {
        sn_cap(sn_ceil_div(words, SN_BLOCK), SN_EMBED_BLOCKS), 1, 1, SN_BLOCK, 1, 0};
    int rc = sn_launched(
        cx, cudaMemsetAsync(e->counts, 0, (size_t)(tiles * words) * sizeof(int32_t), cx->stream));
    rc = rc ? rc : sn_launch(cx, ranks, by_tile, *a, *e);
    rc = rc ? rc : sn_launch(cx, count_words, by_word, words, tiles, *e);
    rc = rc ? rc : sn_launch(cx, start_words, by_word, words, *e);
    return rc ? rc : sn_launch(cx, sort, sn_shape_line(rows), *a, *e);
}

SN_CUDA_OP(embed_grad)
{
    int64_t rows = a->in[SN_EMBED_GRAD_DY].rows, cols = a->in[SN_EMBED_GRAD_DY].cols;
    int64_t slots = sn_ceil_div(rows, SN_EMBED_SEGMENT);
    if (rows == 0 || cols == 0 || a->out[SN_EMBED_GRAD_DW].rows == 0)
        return 0;
    if (a->attr.any_order)
        return sn_plane_run<embed_atomic>(cx, a, rows, cols);
    const struct sorted e = sorted_of(a);
    int rc = sort_rows(cx, a, &e);
    const struct sn_mat *m[] = {&a->in[SN_EMBED_GRAD_DY]};
    if (rc == 0)
        SN_BY_TYPE(sn_common(m, 1),
                   rc = sn_launch(cx, add_segments<A>, sn_shape_plane(rows, cols / A::N), *a, e))
    return rc ? rc : sn_launch(cx, add_partials, sn_shape_plane(slots, cols), *a, slots, e);
}

/* --- gradient of the positions --------------------------------------------------------------- */

/* The first row of dy at a position, were dy without end; -1 when no row of this rank has it: the
 * inverse of sn_position(). */
static __device__ int64_t first_row_at(const struct sn_attr *at, int64_t position)
{
    int64_t rows = sn_rows_per_sample(&at->position), i = position;
    if (position >= at->position.seq)
        return -1;
    if (at->position.context > 1) {
        int64_t chunk = at->position.zigzag ? rows / 2 : rows, k = position / chunk;
        bool late =
            at->position.zigzag && k >= at->position.context; /* the second chunk of a rank */
        if ((late ? 2 * at->position.context - 1 - k : k) != at->position.context_rank)
            return -1;
        i = position % chunk + (late ? chunk : 0);
    }
    int64_t passed = at->position.row0 > i ? (at->position.row0 - i + rows - 1) / rows
                                           : 0; /* samples before row0 */
    return i + passed * rows - at->position.row0;
}

template <class A> struct pos_grad : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t s, int64_t c)
    {
        const struct sn_mat &dy = a.in[SN_POS_GRAD_DY], &dp = a.out[SN_POS_GRAD_DP];
        int64_t first = first_row_at(&a.attr, s), step = sn_rows_per_sample(&a.attr.position);
        bool none = first < 0 || first >= dy.rows;
        float *to = (float *)dp.p + s * dp.ld + c, x[N];
        double sum[N];
        if (none && a.acc[SN_POS_GRAD_DP] == SN_ADD)
            return;
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] = a.acc[SN_POS_GRAD_DP] == SN_ADD ? (double)to[i] : 0.0;
        for (int64_t r = none ? dy.rows : first; r < dy.rows; r += step) {
            A::load(dy, r, c, x);
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] += (double)x[i];
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = (float)sum[i];
    }
};

SN_CUDA_OP(pos_grad)
{
    const struct sn_mat *m[] = {&a->in[SN_POS_GRAD_DY]};
    SN_BY_TYPE(sn_common(m, 1), return sn_plane_run<pos_grad<A>>(cx, a, a->out[SN_POS_GRAD_DP].rows,
                                                                 a->out[SN_POS_GRAD_DP].cols))
    return 0;
}
