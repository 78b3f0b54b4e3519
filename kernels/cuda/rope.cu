/*
 * rope.cu - ROPE: formulas as in kernels/cpu/rope.c.
 *
 * Angles: two small tables in double, e^{i j w} for j < FINE and e^{i FINE j w}, made by one
 * kernel; e^{i p w} = coarse[p / FINE] fine[p % FINE]. A thread takes A::N neighbouring frequencies
 * of one row and turns them in a range of heads: the angles are made once for all of these.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/position.h"

/* Frequencies that are given lie on the host: they travel with the launch. */
enum { GIVEN = 128 };
struct given {
    double w[GIVEN];
    bool is_there;
};

/* [entry][2][half]: cosines, then sines. */
static __global__ void __launch_bounds__(SN_BLOCK)
    fill(const struct sn_args a, const struct given f, double *table)
{
    double scale = a.attr.attention.amplitude > 0 ? (double)a.attr.attention.amplitude : 1.0;
    int64_t half = a.attr.attention.rotary_dim / 2, entries = sn_rope_entries(a.attr.position.seq);
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < entries * half;
         n += step) {
        int64_t entry = n / half, i = n % half;
        double j = (double)(entry < SN_ROPE_FINE ? entry : (entry - SN_ROPE_FINE) * SN_ROPE_FINE);
        double w =
            f.is_there ? f.w[i] : pow((double)a.attr.attention.theta, -(double)i / (double)half);
        double of = entry < SN_ROPE_FINE ? scale : 1.0;
        double *to = table + entry * 2 * half + i;
        to[0] = of * cos(j * w);
        to[half] = of * (a.attr.inverse ? -sin(j * w) : sin(j * w));
    }
}

/* TOGETHER: pairs are neighbours. */
template <class A, bool TOGETHER>
static __global__ void __launch_bounds__(SN_BLOCK)
    rotate(const struct sn_args a, const double *table, int64_t heads_each)
{
    enum { N = A::N };
    const struct sn_mat &x = a.in[SN_ROPE_X], &y = a.out[SN_ROPE_Y];
    int64_t half = a.attr.attention.rotary_dim / 2, d = a.attr.attention.head_dim;
    int64_t first = blockIdx.z * heads_each, end = first + heads_each;
    end = end < a.attr.attention.heads ? end : a.attr.attention.heads;
    for (int64_t r = sn_first_row() + threadIdx.y; r < x.rows; r += sn_row_step()) {
        int64_t p = sn_row_position(&a.attr.position, r);
        const double *fine = table + p % SN_ROPE_FINE * 2 * half;
        const double *coarse = table + (SN_ROPE_FINE + p / SN_ROPE_FINE) * 2 * half;
        for (int64_t i = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * N; i < half;
             i += (int64_t)gridDim.y * blockDim.x * N) {
            float co[N], si[N];
#pragma unroll
            for (int e = 0; e < N; e++) {
                double u = coarse[i + e], v = coarse[half + i + e];
                double s = fine[i + e], t = fine[half + i + e];
                co[e] = (float)(u * s - v * t);
                si[e] = (float)(u * t + v * s);
            }
            for (int64_t h = first; h < end; h++) {
                /* lo and hi: halves of N pairs, or the first and the second N of 2 N neighbours */
                int64_t c = h * d + a.attr.attention.rotary_from;
                int64_t at_lo = c + (TOGETHER ? 2 * i : i);
                int64_t at_hi = TOGETHER ? at_lo + N : c + half + i;
                float x2[2 * N], y2[2 * N];
                A::load(x, r, at_lo, x2);
                A::load(x, r, at_hi, x2 + N);
#pragma unroll
                for (int e = 0; e < N; e++) {
                    const int u = TOGETHER ? 2 * e : e, v = TOGETHER ? 2 * e + 1 : N + e;
                    y2[u] = x2[u] * co[e] - x2[v] * si[e];
                    y2[v] = x2[v] * co[e] + x2[u] * si[e];
                }
                A::store(y, r, at_lo, y2);
                A::store(y, r, at_hi, y2 + N);
            }
        }
    }
}

/* The columns that no rotation touches. */
struct rest : sn_all_rows {
    enum { N = 1 };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        const struct sn_attention_attr &t = a.attr.attention;
        int64_t at = c % t.head_dim - t.rotary_from; /* in what turns of a head */
        bool turned = c < (int64_t)t.heads * t.head_dim && at >= 0 && at < t.rotary_dim;
        float x[1];
        if (turned)
            return;
        sn_any::load(a.in[SN_ROPE_X], r, c, x);
        sn_any::store(a.out[SN_ROPE_Y], r, c, x);
    }
};

static struct given given_of(const struct sn_attention_attr *at)
{
    struct given f = {};
    f.is_there = at->frequencies != NULL;
    for (int i = 0; f.is_there && i < at->rotary_dim / 2 && i < GIVEN; i++)
        f.w[i] = at->frequencies[i];
    return f;
}

SN_CUDA_OP(rope)
{
    const struct sn_mat *m[] = {&a->in[SN_ROPE_X], &a->out[SN_ROPE_Y]}, *x = &a->in[SN_ROPE_X];
    double *table = (double *)a->scratch;
    int64_t half = a->attr.attention.rotary_dim / 2, d = a->attr.attention.head_dim;
    int64_t piece = 16 / (int64_t)sn_dtype_size(x->dtype);
    bool whole = half % piece == 0 && d % piece == 0 && a->attr.attention.rotary_from % piece == 0;
    enum sn_dtype how = whole ? sn_common(m, 2) : SN_NDTYPES;
    int rc = 0;
    if (x->rows == 0)
        return 0;
    if (half > 0 && a->attr.attention.heads > 0) {
        rc = sn_launch(cx, fill, sn_shape_line(sn_rope_entries(a->attr.position.seq) * half), *a,
                       given_of(&a->attr.attention), table);
        if (rc == 0)
            SN_BY_TYPE(how, struct sn_shape g =
                                sn_shape_rope(x->rows, half / A::N, a->attr.attention.heads);
                       int64_t each = sn_rope_heads(a->attr.attention.heads, g.z);
                       rc = a->attr.attention.interleaved
                                ? sn_launch(cx, rotate<A, true>, g, *a, table, each)
                                : sn_launch(cx, rotate<A, false>, g, *a, table, each))
    }
    bool all = (int64_t)a->attr.attention.heads * d == x->cols && a->attr.attention.rotary_dim == d;
    if (rc || x->p == a->out[SN_ROPE_Y].p || all)
        return rc;
    return sn_plane_run<rest>(cx, a, x->rows, x->cols);
}
