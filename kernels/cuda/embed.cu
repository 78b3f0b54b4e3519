/*
 * embed.cu - EMBED, EMBED_GRAD, POS_GRAD, as kernels/cpu/embed.c.
 *
 * EMBED_GRAD without atomics: rows of one word form a chain in the order of rows. A warp for each
 * row looks for the next row with its word (next[r], T if there is none; has_earlier[next[r]] is
 * set by that one warp alone); then the first row of each chain adds its rows up in order, which
 * gives the CPU's bits. Frequent words find their next row soon; rare ones read the rest of the
 * ids, T^2 / 2 numbers at worst: 16 k tokens are some 0.1 ms of second-level cache. In any order
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
    int64_t id = id_at(a.in[0], r) - a.attr.vocab_first;
    return id >= 0 && id < table.rows ? id : -1;
}

template <class A> struct embed : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float w[N] = {0}, p[N];
        int64_t id = row_of_word(a, a.in[1], r);
        if (id >= 0)
            A::load(a.in[1], id, c, w);
        if (a.in[2].p) {
            A::load(a.in[2], sn_row_position(&a.attr, r), c, p);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] += p[i];
        }
        A::store(a.out[0], r, c, w);
    }
};

SN_CUDA_OP(embed)
{
    const struct sn_mat *m[] = {&a->in[1], &a->in[2], &a->out[0]};
    SN_BY_TYPE(sn_common(m, 3),
               return sn_plane_run<embed<A>>(cx, a, a->out[0].rows, a->out[0].cols))
    return 0;
}

/* --- gradient of the words ------------------------------------------------------------------- */

static __global__ void __launch_bounds__(SN_BLOCK)
    chain(const struct sn_args a, int32_t *next, int32_t *has_earlier)
{
    int64_t rows = a.in[1].rows;
    int lane = (int)threadIdx.x % SN_WARP, warps = (int)blockDim.x / SN_WARP;
    int64_t first = (int64_t)blockIdx.x * warps + threadIdx.x / SN_WARP;
    for (int64_t r = first; r < rows; r += (int64_t)gridDim.x * warps) {
        int64_t id = id_at(a.in[0], r), found = rows;
        for (int64_t base = r + 1; base < rows && found == rows; base += SN_WARP) {
            bool same = base + lane < rows && id_at(a.in[0], base + lane) == id;
            unsigned who = __ballot_sync((unsigned)SN_ALL_LANES, same);
            if (who)
                found = base + __ffs((int)who) - 1;
        }
        if (lane == 0) {
            next[r] = (int32_t)found;
            if (found < rows)
                has_earlier[found] = 1;
        }
    }
}

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK)
    add_chains(const struct sn_args a, const int32_t *next, const int32_t *has_earlier)
{
    enum { N = A::N };
    const struct sn_mat &dy = a.in[1], &dw = a.out[0];
    int64_t width = dy.cols / N;
    for (int64_t r = sn_first_row() + threadIdx.y; r < dy.rows; r += sn_row_step()) {
        int64_t id = row_of_word(a, dw, r);
        if (id < 0 || has_earlier[r])
            continue;
        for (int64_t v = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; v < width;
             v += (int64_t)gridDim.y * blockDim.x) {
            float *to = (float *)dw.p + id * dw.ld + v * N;
            float sum[N], x[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                sum[i] = to[i];
            for (int64_t s = r; s < dy.rows; s = next[s]) {
                A::load(dy, s, v * N, x);
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum[i] += x[i];
            }
#pragma unroll
            for (int i = 0; i < N; i++)
                to[i] = sum[i];
        }
    }
}

/* One element a thread, so that the atomics of a warp meet in one piece of memory. */
struct embed_atomic : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const struct sn_mat &dw = a.out[0];
        int64_t id = row_of_word(a, dw, r);
        if (id >= 0)
            (void)atomicAdd((float *)dw.p + id * dw.ld + c, sn_element(a.in[1], r, c));
    }
};

SN_CUDA_OP(embed_grad)
{
    int64_t rows = a->in[1].rows, cols = a->in[1].cols;
    int32_t *next = (int32_t *)a->scratch, *has_earlier = next + rows;
    if (rows == 0 || cols == 0)
        return 0;
    if (a->attr.any_order)
        return sn_plane_run<embed_atomic>(cx, a, rows, cols);
    int rc =
        sn_launched(cx, cudaMemsetAsync(has_earlier, 0, (size_t)rows * sizeof(*next), cx->stream));
    if (rc == 0)
        rc = sn_launch(cx, chain, sn_shape_line(rows * SN_WARP), *a, next, has_earlier);
    const struct sn_mat *m[] = {&a->in[1]};
    if (rc == 0)
        SN_BY_TYPE(sn_common(m, 1),
                   rc = sn_launch(cx, add_chains<A>, sn_shape_plane(rows, cols / A::N), *a, next,
                                  has_earlier))
    return rc;
}

/* --- gradient of the positions --------------------------------------------------------------- */

/* The first row of dy at a position, were dy without end; -1 when no row of this rank has it: the
 * inverse of sn_position(). */
static __device__ int64_t first_row_at(const struct sn_attr *at, int64_t position)
{
    int64_t rows = sn_rows_per_sample(at), i = position;
    if (position >= at->seq)
        return -1;
    if (at->context > 1) {
        int64_t chunk = at->zigzag ? rows / 2 : rows, k = position / chunk;
        bool late = at->zigzag && k >= at->context; /* the second chunk of a rank */
        if ((late ? 2 * at->context - 1 - k : k) != at->context_rank)
            return -1;
        i = position % chunk + (late ? chunk : 0);
    }
    int64_t passed = at->row0 > i ? (at->row0 - i + rows - 1) / rows : 0; /* samples before row0 */
    return i + passed * rows - at->row0;
}

template <class A> struct pos_grad : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t s, int64_t c)
    {
        const struct sn_mat &dy = a.in[0], &dp = a.out[0];
        int64_t first = first_row_at(&a.attr, s), step = sn_rows_per_sample(&a.attr);
        bool none = first < 0 || first >= dy.rows;
        float *to = (float *)dp.p + s * dp.ld + c, x[N];
        double sum[N];
        if (none && a.acc[0] == SN_ADD)
            return;
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] = a.acc[0] == SN_ADD ? (double)to[i] : 0.0;
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
    const struct sn_mat *m[] = {&a->in[0]};
    SN_BY_TYPE(sn_common(m, 1),
               return sn_plane_run<pos_grad<A>>(cx, a, a->out[0].rows, a->out[0].cols))
    return 0;
}
