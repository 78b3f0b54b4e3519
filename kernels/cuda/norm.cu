/*
 * norm.cu - RMSNORM, LAYERNORM, HEAD_NORM and their gradients: formulas as in kernels/cpu/rmsnorm.c,
 * layernorm.c and head_norm.c. Sums along a row: norm.cuh.
 */
#include "kernels/cuda/norm_dx.cuh"
#include "kernels/cuda/ops.cuh"

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) rmsnorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X], &parts = a.in[SN_NORM_PARTS];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        double square = parts.p ? sn_parts_mean(&parts, x.rows, there ? r : 0, 0)
                                : sn_row_mean_square(row, there, room);
        float s = (float)(1.0 / sqrt(square + (double)a.attr.eps));
        if (there && threadIdx.x == 0)
            ((float *)a.out[SN_NORM_STATS].p)[r * a.out[SN_NORM_STATS].ld] = s;
        row.each(there, [&](int64_t c, const float *v) {
            float w[N], y[N];
            A::load(a.in[SN_NORM_W], 0, c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                y[i] = v[i] * s * (a.attr.shift + w[i]);
            A::store(a.out[SN_NORM_Y], r, c, y);
        });
    }
}

SN_CUDA_OP(rmsnorm)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_X], &a->in[SN_NORM_W], &a->in[SN_NORM_ADDEND],
                                &a->out[SN_NORM_Y], &a->out[SN_NORM_SUM]};
    SN_BY_TYPE(sn_common(m, 5),
               return SN_LAUNCH_ROWS(rmsnorm, cx, a, a->in[SN_NORM_X].rows, a->in[SN_NORM_X].cols))
    return 0;
}

template <class A> struct rmsnorm_dw {
    enum { N = A::N, OUTS = 1 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        float x[N], s = ((const float *)a.in[SN_NORM_DW_STATS].p)[r * a.in[SN_NORM_DW_STATS].ld];
        A::load(a.in[SN_NORM_DW_DY], r, c, t[0]);
        A::load(a.in[SN_NORM_DW_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] *= x[i] * s;
    }
};

SN_CUDA_OP(rmsnorm_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_DY], &a->in[SN_NORM_DX_X], &a->in[SN_NORM_DX_W],
                                &a->in[SN_NORM_DX_ADDEND], &a->out[SN_NORM_DX_DX]};
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, sn_rms_row, rmsnorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(rmsnorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<rmsnorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}

/* The moments of row r's parts. */
static __device__ __forceinline__ struct sn_moments merged(const struct sn_mat &parts, int64_t rows,
                                                           int64_t r)
{
    double mean = sn_parts_mean(&parts, rows, r, 0);
    struct sn_moments m = {mean, sn_parts_variance(&parts, rows, r, mean)};
    return m;
}

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) layernorm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X], &parts = a.in[SN_NORM_PARTS];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        row.add(a.in[SN_NORM_ADDEND], a.out[SN_NORM_SUM], there);
        struct sn_moments m =
            parts.p ? merged(parts, x.rows, there ? r : 0) : sn_row_moments(row, there, room);
        struct sn_layer_stats st = {(float)m.mean,
                                    (float)(1.0 / sqrt(m.variance + (double)a.attr.eps))};
        if (there && threadIdx.x == 0) {
            float *to = (float *)a.out[SN_NORM_STATS].p + r * a.out[SN_NORM_STATS].ld;
            to[0] = st.mean;
            to[1] = st.scale;
        }
        row.each(there, [&](int64_t c, const float *v) {
            float w[N], b[N];
            A::load(a.in[SN_NORM_W], 0, c, w);
            A::load(a.in[SN_NORM_B], 0, c, b);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] = (v[i] - st.mean) * st.scale * w[i] + b[i];
            A::store(a.out[SN_NORM_Y], r, c, w);
        });
    }
}

SN_CUDA_OP(layernorm)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_X],      &a->in[SN_NORM_W],  &a->in[SN_NORM_B],
                                &a->in[SN_NORM_ADDEND], &a->out[SN_NORM_Y], &a->out[SN_NORM_SUM]};
    SN_BY_TYPE(sn_common(m, 6), return SN_LAUNCH_ROWS(layernorm, cx, a, a->in[SN_NORM_X].rows,
                                                      a->in[SN_NORM_X].cols))
    return 0;
}

template <class A> struct layernorm_dw {
    enum { N = A::N, OUTS = 2 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        float x[N];
        struct sn_layer_stats st = sn_layer_stats_at(a.in[SN_NORM_DW_STATS], r);
        A::load(a.in[SN_NORM_DW_DY], r, c, t[1]);
        A::load(a.in[SN_NORM_DW_X], r, c, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] = t[1][i] * ((x[i] - st.mean) * st.scale);
    }
};

SN_CUDA_OP(layernorm_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_DY], &a->in[SN_NORM_DX_X], &a->in[SN_NORM_DX_W],
                                &a->in[SN_NORM_DX_ADDEND], &a->out[SN_NORM_DX_DX]};
    SN_BY_TYPE(sn_common(m, 5), return sn_norm_dx<A, sn_layer_row, layernorm_dw<A>>(cx, a))
    return 0;
}

SN_CUDA_OP(layernorm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(sn_common(m, 2), return sn_sum_columns<layernorm_dw<A>>(
                                    cx, a, a->in[SN_NORM_DW_X].rows, a->in[SN_NORM_DW_X].cols))
    return 0;
}

/* --- heads, each a row of its own to the threads that have it -------------------------------- */

/* One head of a row, of x and of the weights. */
struct head {
    int64_t row, block, first, weights;
};

static __host__ __device__ __forceinline__ int64_t blocks_of(const struct sn_args &a)
{
    return (int64_t)a.attr.attention.heads + a.attr.attention.kv_heads;
}

static __device__ __forceinline__ struct head head_at(const struct sn_args &a, int64_t n)
{
    int64_t blocks = blocks_of(a), d = a.attr.attention.head_dim;
    struct head h = {n / blocks, n % blocks, 0, 0};
    h.first = h.block * d;
    h.weights = h.block < a.attr.attention.heads ? 0 : d;
    return h;
}

/* The head as a matrix of one row. */
static __device__ __forceinline__ struct sn_mat slice(const struct sn_args &a,
                                                      const struct sn_mat &x, const struct head &h)
{
    struct sn_mat m = x;
    int64_t size = x.dtype == SN_F32 ? 4 : 2; /* sn_dtype_size() is the host's */
    m.p = (char *)x.p + (h.row * x.ld + h.first) * size;
    m.rows = 1;
    m.cols = a.attr.attention.head_dim;
    return m;
}

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) head_norm(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_X], &stats = a.out[SN_NORM_STATS];
    int64_t n = x.rows * blocks_of(a);
    for (int64_t base = sn_first_row(); base < n; base += sn_row_step()) {
        bool there = base + threadIdx.y < n;
        struct head h = head_at(a, there ? base + threadIdx.y : 0);
        sn_row<A, kept> row(slice(a, x, h), 0, there);
        double square = sn_row_mean_square(row, there, room);
        float s = (float)(1.0 / sqrt(square + (double)a.attr.eps));
        if (there && threadIdx.x == 0)
            ((float *)stats.p)[h.row * stats.ld + h.block] = s;
        row.each(there, [&](int64_t c, const float *v) {
            float w[N];
            A::load(a.in[SN_NORM_W], 0, h.weights + c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] = v[i] * s * (a.attr.shift + w[i]);
            A::store(a.out[SN_NORM_Y], h.row, h.first + c, w);
        });
    }
}

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) head_norm_dx(const struct sn_args a)
{
    enum { N = A::N };
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_DX_X], &stats = a.in[SN_NORM_DX_STATS];
    int64_t n = x.rows * blocks_of(a);
    for (int64_t base = sn_first_row(); base < n; base += sn_row_step()) {
        bool there = base + threadIdx.y < n;
        struct head h = head_at(a, there ? base + threadIdx.y : 0);
        float s = ((const float *)stats.p)[h.row * stats.ld + h.block];
        sn_row<A, kept> row(slice(a, x, h), 0, there);
        double sum = 0;
        row.each(there, [&](int64_t c, const float *v) {
            float dy[N], w[N], part = 0;
            A::load(a.in[SN_NORM_DX_DY], h.row, h.first + c, dy);
            A::load(a.in[SN_NORM_DX_W], 0, h.weights + c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                part += dy[i] * (a.attr.shift + w[i]) * v[i];
            sum += (double)part;
        });
        double mean = sn_row_sum(sum, room) / (double)a.attr.attention.head_dim;
        float k = (float)((double)s * (double)s * (double)s * mean);
        row.each(there, [&](int64_t c, const float *v) {
            float dy[N], w[N];
            A::load(a.in[SN_NORM_DX_DY], h.row, h.first + c, dy);
            A::load(a.in[SN_NORM_DX_W], 0, h.weights + c, w);
#pragma unroll
            for (int i = 0; i < N; i++)
                w[i] = s * (dy[i] * (a.attr.shift + w[i])) - k * v[i];
            A::store(a.out[SN_NORM_DX_DX], h.row, h.first + c, w);
        });
    }
}

/* The columns behind the heads, of in[0] in out[0]. */
struct rest : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[1];
        if (c < blocks_of(a) * a.attr.attention.head_dim)
            return;
        sn_any::load(a.in[0], r, c, x);
        sn_any::store(a.out[0], r, c, x);
    }
};

static int copy_rest(struct sn_cuda *cx, const struct sn_args *a)
{
    bool none = blocks_of(*a) * a->attr.attention.head_dim == a->in[0].cols;
    return none || a->in[0].p == a->out[0].p
               ? 0
               : sn_plane_run<rest>(cx, a, a->in[0].rows, a->in[0].cols);
}

/* Heads begin where pieces do? */
static enum sn_dtype type_of(const struct sn_args *a, const struct sn_mat **m, int n)
{
    int64_t piece = 16 / (int64_t)sn_dtype_size(a->in[0].dtype);
    return a->attr.attention.head_dim % piece ? SN_NDTYPES : sn_common(m, n);
}

SN_CUDA_OP(head_norm)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_X], &a->in[SN_NORM_W], &a->out[SN_NORM_Y]};
    int rc = copy_rest(cx, a);
    if (rc)
        return rc;
    SN_BY_TYPE(type_of(a, m, 3),
               return SN_LAUNCH_ROWS(head_norm, cx, a, a->in[SN_NORM_X].rows * blocks_of(*a),
                                     a->attr.attention.head_dim))
    return 0;
}

/* Row r of the sums is a head of a row: as many for the weights of kv heads as for the others, of which those
 * that are not there add nothing. */
template <class A> struct head_norm_terms {
    enum { N = A::N, OUTS = 1 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t n, int64_t c,
                                                 float t[OUTS][N])
    {
        int64_t d = a.attr.attention.head_dim, heads = a.attr.attention.heads;
        int64_t r = n / heads, h = n % heads, at = h * d + c;
        bool there = c < d || h < a.attr.attention.kv_heads;
        float x[N];
        if (c >= d) { /* of the weights of kv heads */
            h += heads;
            at = h * d + c - d;
        }
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] = 0;
        if (!there)
            return;
        float s = ((const float *)a.in[SN_NORM_DW_STATS].p)[r * a.in[SN_NORM_DW_STATS].ld + h];
        A::load(a.in[SN_NORM_DW_DY], r, at, t[0]);
        A::load(a.in[SN_NORM_DW_X], r, at, x);
#pragma unroll
        for (int i = 0; i < N; i++)
            t[0][i] *= x[i] * s;
    }
};

SN_CUDA_OP(head_norm_dw)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DW_DY], &a->in[SN_NORM_DW_X]};
    SN_BY_TYPE(type_of(a, m, 2), return sn_sum_columns<head_norm_terms<A>>(
                                     cx, a, a->in[SN_NORM_DW_X].rows * a->attr.attention.heads,
                                     2 * (int64_t)a->attr.attention.head_dim))
    return 0;
}

/* The sums first: dx may take the place of dy. */
SN_CUDA_OP(head_norm_dx)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_DY], &a->in[SN_NORM_DX_X], &a->in[SN_NORM_DX_W],
                                &a->out[SN_NORM_DX_DX]};
    struct sn_args sums = sn_norm_dw_of(a);
    int rc = a->out[SN_NORM_DX_DW].p ? sn_cuda_head_norm_dw(cx, &sums) : 0;
    rc = rc ? rc : copy_rest(cx, a);
    if (rc)
        return rc;
    SN_BY_TYPE(type_of(a, m, 4),
               return SN_LAUNCH_ROWS(head_norm_dx, cx, a, a->in[SN_NORM_DX_X].rows * blocks_of(*a),
                                     a->attr.attention.head_dim))
    return 0;
}
