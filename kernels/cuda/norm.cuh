/*
 * norm.cuh - a row in the registers of its threads, and what the norms take of it: as
 * kernels/cpu/norm.h.
 *
 * Thread t of a row has the items t, t + threads, ... of A::N elements. Up to SN_ROW_KEPT of them
 * are loaded once and kept (`kept`); wider rows are read again in each pass, from cache as a rule.
 *
 * A thread adds its part of a row in fp32 over A::N elements and in double beyond, threads add up
 * in double: the price hides behind the loads where double has half or a quarter of the rate, and
 * is one addition in A::N elsewhere.
 *
 * For gradients Norm says what differs (sn_rms_row, sn_layer_row): OUTS numbers of statistics, and
 * outputs of sums; Norm(stats, row); at(x), what dw multiplies dy with; along(x), what dy w is
 * multiplied with in the mean along the row; close(means of dy w and of dy w along(x));
 * dx(dy w, x).
 */
#ifndef SN_CUDA_NORM_CUH
#define SN_CUDA_NORM_CUH

#include "kernels/cuda/device.cuh"
#include "kernels/norm_parts.h"

template <class A, bool kept> struct sn_row {
    float x[kept ? SN_ROW_KEPT : 1][A::N];
    struct sn_mat m;
    int64_t r;

    __device__ __forceinline__ sn_row(const struct sn_mat &of, int64_t row, bool there)
        : m(of), r(row)
    {
        if constexpr (kept) {
#pragma unroll
            for (int i = 0; i < SN_ROW_KEPT; i++) {
                int64_t c = ((int64_t)i * blockDim.x + threadIdx.x) * A::N;
                if (there && c < m.cols)
                    A::load(m, r, c, x[i]);
            }
        }
    }

    /* The row is x + g from here on, rounded and written to `sum`; nothing happens without g. `sum`
     * may be the memory of x or g: a thread has read what it overwrites. */
    __device__ __forceinline__ void add(const struct sn_mat &g, const struct sn_mat &sum,
                                        bool there)
    {
        if (!g.p)
            return;
        each(there, [&](int64_t c, float *v) {
            float more[A::N];
            A::load(g, r, c, more);
#pragma unroll
            for (int i = 0; i < A::N; i++)
                v[i] += more[i];
            A::round(sum, v);
            A::store(sum, r, c, v);
        });
        m.p = sum.p;
        m.ld = sum.ld;
        m.dtype = sum.dtype;
    }

    /* f(first column, its A::N elements) for every item of this thread. */
    template <class F> __device__ __forceinline__ void each(bool there, F f)
    {
        if constexpr (kept) {
#pragma unroll
            for (int i = 0; i < SN_ROW_KEPT; i++) {
                int64_t c = ((int64_t)i * blockDim.x + threadIdx.x) * A::N;
                if (there && c < m.cols)
                    f(c, x[i]);
            }
        } else {
            for (int64_t c = (int64_t)threadIdx.x * A::N; there && c < m.cols;
                 c += (int64_t)blockDim.x * A::N) {
                A::load(m, r, c, x[0]);
                f(c, x[0]);
            }
        }
    }
};

/* Launches kernel<A, kept> with rows of `cols` columns. */
#define SN_LAUNCH_ROWS(kernel, cx, a, rows, cols)                                                  \
    (sn_row_is_kept((cols) / A::N)                                                                 \
         ? sn_launch(cx, kernel<A, true>, sn_shape_rows(rows, (cols) / A::N), *(a))                \
         : sn_launch(cx, kernel<A, false>, sn_shape_rows(rows, (cols) / A::N), *(a)))

struct sn_moments {
    double mean, variance;
};

/* As they are stored. */
struct sn_layer_stats {
    float mean, scale;
};

static __device__ __forceinline__ struct sn_layer_stats sn_layer_stats_at(const struct sn_mat &m,
                                                                          int64_t r)
{
    const float *p = (const float *)m.p + r * m.ld;
    struct sn_layer_stats st = {p[0], p[1]};
    return st;
}

/* mean(x^2), for all threads of the row; `room` as in sn_row_sum(). */
template <class A, bool kept>
static __device__ __forceinline__ double sn_row_mean_square(sn_row<A, kept> &row, bool there,
                                                            double *room)
{
    double sum = 0;
    row.each(there, [&](int64_t, const float *v) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < A::N; i++)
            part += v[i] * v[i];
        sum += (double)part;
    });
    return sn_row_sum(sum, room) / (double)row.m.cols;
}

/* The same of both moments; the variance around the mean, in a second pass over the row. */
template <class A, bool kept>
static __device__ __forceinline__ struct sn_moments sn_row_moments(sn_row<A, kept> &row, bool there,
                                                                   double *room)
{
    double sum = 0, squares = 0;
    row.each(there, [&](int64_t, const float *v) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < A::N; i++)
            part += v[i];
        sum += (double)part;
    });
    double mean = sn_row_sum(sum, room) / (double)row.m.cols;
    float high = (float)mean, low = (float)(mean - (double)high);
    row.each(there, [&](int64_t, const float *v) {
        float part = 0;
#pragma unroll
        for (int i = 0; i < A::N; i++) {
            float off = v[i] - high - low;
            part += off * off;
        }
        squares += (double)part;
    });
    struct sn_moments m = {mean, sn_row_sum(squares, room) / (double)row.m.cols};
    return m;
}

/* k: s^3 mean_j(w_j dy_j x_j) */
struct sn_rms_row {
    enum { OUTS = 1 };
    float s, k;
    __device__ __forceinline__ sn_rms_row(const struct sn_mat &stats, int64_t r)
        : s(((const float *)stats.p)[r * stats.ld]), k(0)
    {
    }
    __device__ __forceinline__ float at(float x) const
    {
        return x * s;
    }
    __device__ __forceinline__ float along(float x) const
    {
        return x;
    }
    __device__ __forceinline__ void close(const double mean[2])
    {
        k = (float)((double)s * (double)s * (double)s * mean[1]);
    }
    __device__ __forceinline__ float dx(float u, float x) const
    {
        return s * u - k * x;
    }
};

/* m0, m1: mean_j(w_j dy_j), mean_j(w_j dy_j h_j) */
struct sn_layer_row {
    enum { OUTS = 2 };
    struct sn_layer_stats st;
    float m0, m1;
    __device__ __forceinline__ sn_layer_row(const struct sn_mat &stats, int64_t r)
        : st(sn_layer_stats_at(stats, r)), m0(0), m1(0)
    {
    }
    __device__ __forceinline__ float at(float x) const
    {
        return (x - st.mean) * st.scale;
    }
    __device__ __forceinline__ float along(float x) const
    {
        return at(x);
    }
    __device__ __forceinline__ void close(const double mean[2])
    {
        m0 = (float)mean[0];
        m1 = (float)mean[1];
    }
    __device__ __forceinline__ float dx(float u, float x) const
    {
        return st.scale * (u - m0 - at(x) * m1);
    }
};

/* Both means that close() wants, of a row of x; operands are those of NORM_DX_PART. */
template <class A, class Norm, bool kept>
static __device__ __forceinline__ void
sn_weighted_means(const struct sn_args &a, sn_row<A, kept> &row, bool there, const Norm &norm,
                  double *room, double mean[2])
{
    enum { N = A::N };
    double sum[2] = {0, 0};
    row.each(there, [&](int64_t c, const float *v) {
        float dy[N], w[N], plain = 0, dot = 0;
        A::load(a.in[SN_NORM_DX_PART_DY], row.r, c, dy);
        A::load(a.in[SN_NORM_DX_PART_W], 0, c, w);
#pragma unroll
        for (int e = 0; e < N; e++) {
            w[e] += a.attr.shift;
            plain += dy[e] * w[e];
            dot += dy[e] * w[e] * norm.along(v[e]);
        }
        sum[0] += (double)plain;
        sum[1] += (double)dot;
    });
    mean[0] = sn_row_sum(sum[0], room) / (double)row.m.cols;
    mean[1] = sn_row_sum(sum[1], room) / (double)row.m.cols;
}

/* The same of row r's parts, of which there are Norm::OUTS: the last ones. */
template <class Norm>
static __device__ __forceinline__ void sn_parts_means(const struct sn_args &a, int64_t r,
                                                      double mean[2])
{
    mean[0] = 0;
#pragma unroll
    for (int k = 0; k < Norm::OUTS; k++)
        mean[2 - Norm::OUTS + k] =
            sn_parts_mean(&a.in[SN_NORM_DX_PARTS], a.in[SN_NORM_DX_X].rows, r, k);
}

#endif
