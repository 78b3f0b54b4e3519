/*
 * rows.h - what the row and pointwise kernels share: fp32 pieces of rows, and how rows, tiles and
 * columns are dealt to threads.
 *
 * A kernel works on tiles of at most SN_TILE_COLS columns. Of an fp32 matrix a tile is used where
 * it lies; any other storage type passes through a buffer on the stack. Pieces do not depend on the
 * number of threads, so neither do results.
 */
#ifndef SN_ROWS_H
#define SN_ROWS_H

#include "kernels/cpu/cpu.h"
#include "kernels/exact.h"

#include <omp.h>
#include <stdbool.h>

enum {
    SN_TILE_COLS = 1024, /* columns of a tile: four fp32 buffers are half of a first-level cache */
    SN_COPIED = 32768,   /* columns of a piece that is only copied or cleared */
    SN_SUBROWS = 64,     /* rows added in fp32 before the sum moves to double */
    SN_ALONE = 16384,    /* elements below which waking other threads costs more than it saves */
    SN_NORM_BLOCK = 65536
};

size_t SN_K(sn_rope_scratch)(const struct sn_args *a);
size_t SN_K(sn_sq_norm_scratch)(const struct sn_args *a);

static inline void *sn_at(const struct sn_mat *m, int64_t r, int64_t c)
{
    return (char *)m->p + (size_t)(r * m->ld + c) * sn_dtype_size(m->dtype);
}

/* Elements (r, c) .. (r, c + n - 1) as fp32; `buf` holds them if they are stored otherwise. */
static inline const float *sn_get(const struct sn_mat *m, int64_t r, int64_t c, int64_t n,
                                  float *buf)
{
    if (m->dtype == SN_F32)
        return sn_at(m, r, c);
    sn_row_load(buf, sn_at(m, r, c), m->dtype, n);
    return buf;
}

/* Where to compute elements (r, c) ...; sn_put() makes them final. */
static inline float *sn_dst(const struct sn_mat *m, int64_t r, int64_t c, float *buf)
{
    return m->dtype == SN_F32 ? sn_at(m, r, c) : buf;
}

static inline void sn_put(const struct sn_mat *m, int64_t r, int64_t c, int64_t n, const float *buf)
{
    if (m->dtype != SN_F32)
        sn_row_store(sn_at(m, r, c), m->dtype, buf, n);
}

static inline int64_t sn_piece(int64_t n, int64_t c)
{
    return n - c < SN_TILE_COLS ? n - c : SN_TILE_COLS;
}

static inline int sn_team(int threads, int64_t elements)
{
    return elements < SN_ALONE ? 1 : threads;
}

/* fn for every row, rows in contiguous shares. */
static inline void sn_each_row(const struct sn_args *a, int threads, int64_t rows, int64_t cols,
                               void (*fn)(const struct sn_args *, int64_t r))
{
#pragma omp parallel num_threads(sn_team(threads, rows *cols))
    {
        int64_t r, end;
        sn_share(rows, 1, omp_get_thread_num(), omp_get_num_threads(), &r, &end);
        for (; r < end; r++)
            fn(a, r);
    }
}

/* fn for every piece of `width` columns of the rows of `shape`, pieces in contiguous shares. */
static inline void sn_each_tile(const struct sn_args *a, int threads, const struct sn_mat *shape,
                                int64_t width,
                                void (*fn)(const struct sn_args *, int64_t r, int64_t c, int64_t n))
{
    int64_t cols = shape->cols, per_row = (cols + width - 1) / width;
#pragma omp parallel num_threads(sn_team(threads, shape->rows *cols))
    {
        int64_t t, end;
        sn_share(shape->rows * per_row, 1, omp_get_thread_num(), omp_get_num_threads(), &t, &end);
        for (; t < end; t++) {
            int64_t c = t % per_row * width;
            fn(a, t / per_row, c, cols - c < width ? cols - c : width);
        }
    }
}

/* fn for every strip of columns c .. c + n - 1, for sums over rows: a thread walks all rows of its
 * strips, in order. */
static inline void sn_each_strip(const struct sn_args *a, int threads, int64_t rows, int64_t cols,
                                 void (*fn)(const struct sn_args *, int64_t c, int64_t n))
{
#pragma omp parallel num_threads(sn_team(threads, rows *cols))
    {
        int64_t c, end;
        sn_share(cols, 64, omp_get_thread_num(), omp_get_num_threads(), &c, &end);
        for (; c < end; c += SN_TILE_COLS)
            fn(a, c, sn_piece(end, c));
    }
}

/* What a norm reads of row r: in[0], or, with an addend in[3], out[2] = in[0] + in[3], which is
 * computed here as ADD does, piece by piece. */
static inline const struct sn_mat *sn_norm_input(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *x = &a->in[SN_NORM_X], *g = &a->in[SN_NORM_ADDEND],
                        *sum = &a->out[SN_NORM_SUM];
    float x_buf[SN_TILE_COLS], g_buf[SN_TILE_COLS], sum_buf[SN_TILE_COLS];
    if (!g->p)
        return x;
    for (int64_t c = 0; c < x->cols; c += SN_TILE_COLS) {
        int64_t n = sn_piece(x->cols, c);
        const float *xp = sn_get(x, r, c, n, x_buf), *gp = sn_get(g, r, c, n, g_buf);
        float *sp = sn_dst(sum, r, c, sum_buf);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sp[i] = xp[i] + gp[i];
        sn_put(sum, r, c, n, sp);
    }
    return sum;
}

/* A copy of the operands in which every matrix is one row, if none has gaps: narrow matrices then
 * fill whole pieces. */
static inline struct sn_args sn_flatten(const struct sn_args *a)
{
    struct sn_args flat = *a;
    struct sn_mat *m[SN_MAX_IN + SN_MAX_OUT];
    int n = 0;
    for (int i = 0; i < SN_MAX_IN; i++)
        m[n++] = &flat.in[i];
    for (int i = 0; i < SN_MAX_OUT; i++)
        m[n++] = &flat.out[i];
    for (int i = 0; i < n; i++)
        if (m[i]->p && m[i]->rows > 1 && m[i]->ld != m[i]->cols)
            return *a;
    for (int i = 0; i < n; i++) {
        m[i]->cols *= m[i]->rows;
        m[i]->ld = m[i]->cols;
        m[i]->rows = 1;
    }
    return flat;
}

/* Sums of columns: fp32 inside SN_SUBROWS rows, double across; exact ones (exact.h) of each row. */
struct sn_colsum {
    float sub[SN_TILE_COLS];
    double sum[SN_TILE_COLS];
    double shift; /* of exact sums; 0: others */
};

static inline void sn_colsum_start(struct sn_colsum *s, const struct sn_args *a, int64_t n)
{
    s->shift = sn_exact_shift(a->attr.exact.of, a->scalars);
    memset(s->sub, 0, (size_t)n * sizeof(s->sub[0]));
    memset(s->sum, 0, (size_t)n * sizeof(s->sum[0]));
}

/* After row r: move the sub-sums on when a group of rows is full. */
static inline void sn_colsum_row_done(struct sn_colsum *s, int64_t r, int64_t n)
{
    double shift = s->shift;
    if (shift != 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            s->sum[i] += sn_exact_round((double)s->sub[i], shift);
            s->sub[i] = 0.0f;
        }
        return;
    }
    if ((r + 1) % SN_SUBROWS)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        s->sum[i] += (double)s->sub[i];
        s->sub[i] = 0.0f;
    }
}

static inline void sn_colsum_store(const struct sn_colsum *s, const struct sn_mat *out,
                                   enum sn_acc acc, int64_t c, int64_t n)
{
    float *y = sn_at(out, 0, c);
    double *wide = sn_at(out, 0, c);
    for (int64_t i = 0; i < n && out->dtype == SN_F64; i++)
        wide[i] = acc == SN_ADD ? wide[i] + s->sum[i] : s->sum[i];
    for (int64_t i = 0; i < n && out->dtype != SN_F64; i++) {
        double sum = s->sum[i] + (double)s->sub[i];
        y[i] = (float)(acc == SN_ADD ? (double)y[i] + sum : sum);
    }
}

#endif
