/*
 * embed.cu - EMBED, EMBED_GRAD, POS_GRAD; PROMPT, PROMPT_DX, PROMPT_DW, as kernels/cpu/embed.c.
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

template <class A> struct pos_grad : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t s, int64_t c)
    {
        const struct sn_mat &dy = a.in[SN_POS_GRAD_DY], &dp = a.out[SN_POS_GRAD_DP];
        int64_t first = sn_first_row_at(&a.attr.position, s),
                step = sn_rows_per_sample(&a.attr.position);
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

/* --- positions that are filled ------------------------------------------------------------------ */

/* Few rows are: a thread sums an element of theirs, or of dW, by itself, in the order of the CPU's rows. */
template <class A>
static __device__ __forceinline__ void copied(const struct sn_mat &x, const struct sn_mat &y,
                                              int64_t r, int64_t c)
{
    float v[A::N];
    if (x.p == y.p)
        return;
    A::load(x, r, c, v);
    A::store(y, r, c, v);
}

/* Element d of W times a row of features, or without them of a column of W. */
static __device__ __forceinline__ float filled(const struct sn_args &a, int64_t r, int64_t i,
                                               int64_t d)
{
    const struct sn_mat &w = a.in[SN_PROMPT_W], &f = a.in[SN_PROMPT_F];
    if (!f.p)
        return sn_element(w, d, i);
    const float *row = (const float *)f.p + sn_prompt_row(&a.attr, r, i) * f.ld;
    float sum = 0;
    for (int64_t k = 0; k < w.cols; k++)
        sum += sn_element(w, d, k) * row[k];
    return sum;
}

template <class A> struct prompt : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float y[N];
        int64_t i = sn_prompt_at(&a.attr, r);
        if (i < 0) {
            copied<A>(a.in[SN_PROMPT_X], a.out[SN_PROMPT_Y], r, c);
            return;
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            y[k] = filled(a, r, i, c + k);
        A::store(a.out[SN_PROMPT_Y], r, c, y);
    }
};

SN_CUDA_OP(prompt)
{
    const struct sn_mat *m[] = {&a->in[SN_PROMPT_X], &a->out[SN_PROMPT_Y]};
    SN_BY_TYPE(sn_common(m, 2), return sn_plane_run<prompt<A>>(cx, a, a->out[SN_PROMPT_Y].rows,
                                                               a->out[SN_PROMPT_Y].cols))
    return 0;
}

template <class A> struct prompt_dx : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const float zeros[N] = {0};
        if (sn_prompt_at(&a.attr, r) < 0)
            copied<A>(a.in[SN_PROMPT_DX_DY], a.out[SN_PROMPT_DX_DX], r, c);
        else
            A::store(a.out[SN_PROMPT_DX_DX], r, c, zeros);
    }
};

SN_CUDA_OP(prompt_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_PROMPT_DX_DY], &a->out[SN_PROMPT_DX_DX]};
    SN_BY_TYPE(sn_common(m, 2),
               return sn_plane_run<prompt_dx<A>>(cx, a, a->out[SN_PROMPT_DX_DX].rows,
                                                 a->out[SN_PROMPT_DX_DX].cols))
    return 0;
}

/* What position i adds to an element of dW. */
static __device__ __forceinline__ double of_position(const struct sn_args &a, int64_t i, int64_t d,
                                                     int64_t k, double sum)
{
    const struct sn_mat &dy = a.in[SN_PROMPT_DW_DY], &f = a.in[SN_PROMPT_DW_F];
    int64_t first = sn_first_row_at(&a.attr.position, a.attr.prompt.first + i);
    int64_t step = sn_rows_per_sample(&a.attr.position);
    for (int64_t r = first < 0 ? dy.rows : first; r < dy.rows; r += step) {
        double g = (double)sn_element(dy, r, d);
        sum += f.p ? g * (double)((const float *)f.p)[sn_prompt_row(&a.attr, r, i) * f.ld + k] : g;
    }
    return sum;
}

struct prompt_dw : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t d, int64_t k)
    {
        const struct sn_mat &dw = a.out[SN_PROMPT_DW_DW];
        float *to = (float *)dw.p + d * dw.ld + k;
        double sum = a.acc[SN_PROMPT_DW_DW] == SN_ADD ? (double)*to : 0.0;
        if (!a.in[SN_PROMPT_DW_F].p) {
            *to = (float)(k < a.attr.prompt.rows ? of_position(a, k, d, k, sum) : sum);
            return;
        }
        for (int64_t i = 0; i < a.attr.prompt.rows; i++)
            sum = of_position(a, i, d, k, sum);
        *to = (float)sum;
    }
};

SN_CUDA_OP(prompt_dw)
{
    return sn_plane_run<prompt_dw>(cx, a, a->out[SN_PROMPT_DW_DW].rows,
                                   a->out[SN_PROMPT_DW_DW].cols);
}
