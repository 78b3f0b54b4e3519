/*
 * orthogonalise.c - ORTHOGONALISE: Gram-Schmidt over the columns of a tall, narrow matrix.
 *
 * Column v, with q_k the columns before it:
 *
 *   v -= sum_k (q_k . v) q_k    twice        v /= |v|
 *
 * Done twice, the columns are orthogonal to rounding however much they were alike (Giraud, Langou,
 * Rozloznik 2005, "The loss of orthogonality in the Gram-Schmidt orthogonalization process").
 *
 * The same bits from every instruction set and number of threads: rows are summed in blocks of
 * BLOCK, rows of a block in their order, then blocks in theirs. Products are of two floats in
 * double, which is exact. Where a column's size lies does not matter: it is scaled by a power of
 * two before its coefficients are rounded to fp32.
 */
#include "kernels/cpu/rows.h"

#include <math.h>

enum { BLOCK = 256 /* rows */, DRAWS = 4, LANES = 8 };
static const double least = 0x1p-20; /* of a column's length: what remains is rounding */

struct panel {
    const struct sn_mat *m; /* what is worked on, in place */
    double *part;           /* [blocks][cols]: sums of a block */
    double *sum;            /* [cols] */
    float *coefficient;     /* [cols] */
    int64_t blocks;
    int team;
};

static int64_t block_count(int64_t rows)
{
    return (rows + BLOCK - 1) / BLOCK;
}

size_t SN_K(sn_orthogonalise_scratch)(const struct sn_args *a)
{
    size_t cols = (size_t)a->in[SN_ORTHOGONALISE_X].cols,
           blocks = (size_t)block_count(a->in[SN_ORTHOGONALISE_X].rows);
    return (blocks + 1) * cols * sizeof(double) + cols * sizeof(float);
}

/* v of one row, less what it has of the columns before. */
static float rest(const float *row, const float *c, int64_t j, float scale)
{
    double lane[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= j; k += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)c[k + l] * (double)row[k + l];
    for (int l = 0; k < j; k++, l++)
        lane[l] += (double)c[k] * (double)row[k];
    double all =
        ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    return (float)((double)(row[j] * scale) - all);
}

/* One pass over the rows of column j: with `takes`, v = scale v - sum_k coefficient_k q_k first;
 * then sum[k] = q_k . v, and sum[j] = v . v. */
static void pass(const struct panel *p, int64_t j, bool takes, float scale)
{
    int64_t cols = p->m->cols;
#pragma omp parallel for num_threads(p->team) schedule(static)
    for (int64_t b = 0; b < p->blocks; b++) {
        double *sum = p->part + b * cols;
        int64_t end = (b + 1) * BLOCK < p->m->rows ? (b + 1) * BLOCK : p->m->rows;
        memset(sum, 0, (size_t)(j + 1) * sizeof(*sum));
        for (int64_t r = b * BLOCK; r < end; r++) {
            float *row = sn_mat_row(p->m, r);
            if (takes)
                row[j] = rest(row, p->coefficient, j, scale);
            double v = (double)row[j];
#pragma omp simd
            for (int64_t k = 0; k <= j; k++)
                sum[k] += (double)row[k] * v;
        }
    }
    memset(p->sum, 0, (size_t)(j + 1) * sizeof(*p->sum));
    for (int64_t b = 0; b < p->blocks; b++)
        for (int64_t k = 0; k <= j; k++)
            p->sum[k] += p->part[b * cols + k];
}

static void take_coefficients(const struct panel *p, int64_t j, double scale)
{
    for (int64_t k = 0; k < j; k++)
        p->coefficient[k] = (float)(p->sum[k] * scale);
}

/* The power of two that brings a positive length to 1 .. 2, as far as fp32 has it. */
static float scale_of(double length)
{
    int e;
    (void)frexp(length, &e);
    return ldexpf(1.0f, 1 - e < 120 ? (1 - e > -120 ? 1 - e : -120) : 120);
}

static void stretch(const struct panel *p, int64_t j, double by)
{
#pragma omp parallel for num_threads(p->team) schedule(static)
    for (int64_t r = 0; r < p->m->rows; r++) {
        float *v = (float *)sn_mat_row(p->m, r) + j;
        *v = (float)((double)*v * by);
    }
}

enum found { FINE, DEPENDENT, NOT_FINITE };

static enum found one_column(const struct panel *p, int64_t j)
{
    pass(p, j, false, 1);
    double before = sqrt(p->sum[j]);
    if (!isfinite(before))
        return NOT_FINITE;
    if (before == 0)
        return DEPENDENT;
    float scale = scale_of(before);
    take_coefficients(p, j, (double)scale);
    pass(p, j, true, scale);
    take_coefficients(p, j, 1);
    pass(p, j, true, 1);
    double left = sqrt(p->sum[j]);
    if (!isfinite(left))
        return NOT_FINITE;
    if (left <= least * before * (double)scale)
        return DEPENDENT;
    stretch(p, j, 1 / left);
    return FINE;
}

/* In [-1/2, 1/2), with the number of the draw in the place of a third coordinate. */
static void draw(const struct panel *p, const struct sn_args *a, int64_t j, int number)
{
    const struct sn_scalars *s = a->scalars;
    uint64_t stream = (uint64_t)a->attr.random.site << 32 | (uint32_t)(number + 1);
    for (int64_t r = 0; r < p->m->rows; r++) {
        struct sn_philox x = sn_philox(s->seed ^ (uint64_t)s->step * 0x9E3779B97F4A7C15ull, stream,
                                       (uint64_t)(r * p->m->cols + j));
        ((float *)sn_mat_row(p->m, r))[j] = sn_philox_unit(x.v[0]) - 0.5f;
    }
}

static void fill(const struct panel *p, int64_t first, int64_t end, float with)
{
    for (int64_t r = 0; r < p->m->rows; r++)
        for (int64_t k = first; k < end; k++)
            ((float *)sn_mat_row(p->m, r))[k] = with;
}

/* false: x is not finite. */
static bool all_columns(const struct panel *p, const struct sn_args *a)
{
    for (int64_t j = 0; j < p->m->cols; j++) {
        enum found f = one_column(p, j);
        for (int i = 0; f == DEPENDENT && a->attr.draws && j < p->m->rows && i < DRAWS; i++) {
            draw(p, a, j, i);
            f = one_column(p, j);
        }
        if (f == NOT_FINITE)
            return false;
        if (f == DEPENDENT)
            fill(p, j, j + 1, 0);
    }
    return true;
}

static void take_negative(const struct sn_mat *y, const struct sn_mat *n)
{
    for (int64_t r = 0; r < y->rows && n->p; r++) {
        const float *from = sn_mat_row(y, r);
        float *to = sn_mat_row(n, r);
        for (int64_t k = 0; k < y->cols; k++)
            to[k] = -from[k];
    }
}

SN_KERNEL(sn_orthogonalise)
{
    const struct sn_mat *x = &a->in[SN_ORTHOGONALISE_X], *y = &a->out[SN_ORTHOGONALISE_Y];
    int64_t blocks = block_count(x->rows);
    struct panel p = {.m = y,
                      .part = a->scratch,
                      .sum = (double *)a->scratch + blocks * x->cols,
                      .coefficient = (float *)((double *)a->scratch + (blocks + 1) * x->cols),
                      .blocks = blocks,
                      .team = sn_team(threads, x->rows * x->cols)};
    for (int64_t r = 0; r < x->rows && x->p != y->p; r++)
        memcpy(sn_mat_row(y, r), sn_mat_row(x, r), (size_t)x->cols * sizeof(float));
    if (!all_columns(&p, a))
        fill(&p, 0, y->cols, NAN);
    take_negative(y, &a->out[SN_ORTHOGONALISE_MINUS]);
    return 0;
}
