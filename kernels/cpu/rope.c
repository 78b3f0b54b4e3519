/*
 * rope.c - ROPE: rotary positions, in the half-split convention of Hugging Face models, or interleaved,
 * as in the paper (Su et al., arXiv 2104.09864).
 *
 *   (y_i, y_{i+h}) = (x_i cos t - x_{i+h} sin t, x_{i+h} cos t + x_i sin t),
 *   t = +-(position of r) w_i,  w_i = theta^(-2i/rotary_dim) or given,  h = rotary_dim/2
 *   interleaved: (y_{2i}, y_{2i+1}) of (x_{2i}, x_{2i+1}) likewise
 *
 * Angles of a position p come from two small tables in double, of e^{i j w} for j < FINE and of
 * e^{i FINE j w}, filled by squaring and multiplying from e^{i w} alone:
 * e^{i p w} = coarse[p / FINE] fine[p % FINE], with an error near p 2^-53. One row of angles
 * serves all heads.
 */
#include "kernels/cpu/rows.h"
#include "kernels/position.h"

#include <math.h>

enum { FINE = 64, PAIRS = 256 /* pairs handled at a time */ };

/* e^{i t} for `half` frequencies: cosines, then sines. */
struct angles {
    const double *fine, *coarse;
    int64_t half;
};

size_t SN_K(sn_rope_scratch)(const struct sn_args *a)
{
    int64_t entries = FINE + 1 + a->attr.position.seq / FINE + 1;
    return (size_t)(entries * a->attr.attention.rotary_dim) * sizeof(double);
}

static void multiply(double *out, const double *a, const double *b, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        double re = a[i] * b[i] - a[half + i] * b[half + i];
        double im = a[i] * b[half + i] + a[half + i] * b[i];
        out[i] = re;
        out[half + i] = im;
    }
}

/* table[1] is given; table[0] and table[2 .. n-1] are its powers. */
static void fill_powers(double *table, int64_t n, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        table[i] = 1.0;
        table[half + i] = 0.0;
    }
    for (int64_t j = 2; j < n; j++)
        multiply(table + 2 * half * j, table + 2 * half * (j / 2), table + 2 * half * (j - j / 2),
                 half);
}

static struct angles fill_tables(const struct sn_args *a)
{
    int64_t half = a->attr.attention.rotary_dim / 2, n_coarse = a->attr.position.seq / FINE + 1;
    double *fine = a->scratch, *coarse = fine + 2 * half * (FINE + 1);
    for (int64_t i = 0; i < half; i++) {
        const double *given = a->attr.attention.frequencies;
        double w =
            given ? given[i] : pow((double)a->attr.attention.theta, -(double)i / (double)half);
        fine[2 * half + i] = cos(w);
        fine[3 * half + i] = a->attr.inverse ? -sin(w) : sin(w);
    }
    fill_powers(fine, FINE + 1, half);
    if (n_coarse > 1)
        memcpy(coarse + 2 * half, fine + 2 * half * FINE, (size_t)(2 * half) * sizeof(double));
    fill_powers(coarse, n_coarse, half);
    for (int64_t i = 0; a->attr.attention.amplitude > 0 && i < 2 * half * (FINE + 1); i++)
        fine[i] *= (double)a->attr.attention.amplitude;
    return (struct angles){fine, coarse, half};
}

/* Cosines and sines of frequencies first .. first + n - 1 at a position. */
static void angles_at(const struct angles *t, int64_t position, int64_t first, int64_t n, float *co,
                      float *si)
{
    const double *a = t->coarse + 2 * t->half * (position / FINE) + first;
    const double *b = t->fine + 2 * t->half * (position % FINE) + first;
    int64_t half = t->half;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        co[i] = (float)(a[i] * b[i] - a[half + i] * b[half + i]);
        si[i] = (float)(a[i] * b[half + i] + a[half + i] * b[i]);
    }
}

/* `n` pairs of a row: their cosines and sines. */
struct pairs {
    const struct sn_mat *x, *y;
    int64_t r, n;
    float co[PAIRS], si[PAIRS];
};

/* First halves from column lo on, second ones from hi on. */
static void turn_halves(const struct pairs *p, int64_t lo, int64_t hi)
{
    float lo_buf[PAIRS], hi_buf[PAIRS], out_lo[PAIRS], out_hi[PAIRS];
    const float *xlo = sn_get(p->x, p->r, lo, p->n, lo_buf);
    const float *xhi = sn_get(p->x, p->r, hi, p->n, hi_buf);
    float *ylo = sn_dst(p->y, p->r, lo, out_lo), *yhi = sn_dst(p->y, p->r, hi, out_hi);
#pragma omp simd
    for (int64_t i = 0; i < p->n; i++) {
        float u = xlo[i], v = xhi[i];
        ylo[i] = u * p->co[i] - v * p->si[i];
        yhi[i] = v * p->co[i] + u * p->si[i];
    }
    sn_put(p->y, p->r, lo, p->n, ylo);
    sn_put(p->y, p->r, hi, p->n, yhi);
}

/* Neighbours, from column c on. */
static void turn_neighbours(const struct pairs *p, int64_t c)
{
    float x_buf[2 * PAIRS], out[2 * PAIRS];
    const float *x = sn_get(p->x, p->r, c, 2 * p->n, x_buf);
    float *y = sn_dst(p->y, p->r, c, out);
#pragma omp simd
    for (int64_t i = 0; i < p->n; i++) {
        float u = x[2 * i], v = x[2 * i + 1];
        y[2 * i] = u * p->co[i] - v * p->si[i];
        y[2 * i + 1] = v * p->co[i] + u * p->si[i];
    }
    sn_put(p->y, p->r, c, 2 * p->n, y);
}

static void rotate_row(const struct sn_args *a, const struct angles *t, int64_t r)
{
    const struct sn_attention_attr *at = &a->attr.attention;
    int64_t position = sn_row_position(&a->attr.position, r);
    struct pairs p = {.x = &a->in[SN_ROPE_X], .y = &a->out[SN_ROPE_Y], .r = r};
    for (int64_t first = 0; first < t->half; first += PAIRS) {
        p.n = t->half - first < PAIRS ? t->half - first : PAIRS;
        angles_at(t, position, first, p.n, p.co, p.si);
        for (int64_t h = 0; h < at->heads; h++) {
            int64_t c = h * at->head_dim + at->rotary_from;
            if (at->interleaved)
                turn_neighbours(&p, c + 2 * first);
            else
                turn_halves(&p, c + first, c + first + t->half);
        }
    }
}

/* The columns that no rotation touches. */
static void copy_rest(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *x = &a->in[SN_ROPE_X], *y = &a->out[SN_ROPE_Y];
    size_t size = sn_dtype_size(x->dtype);
    int64_t d = a->attr.attention.head_dim, from = a->attr.attention.rotary_from,
            end = from + a->attr.attention.rotary_dim, rotated = a->attr.attention.heads * d;
    if (x->p == y->p)
        return;
    for (int64_t c = 0; c < rotated && end - from < d; c += d) {
        memcpy(sn_at(y, r, c), sn_at(x, r, c), (size_t)from * size);
        memcpy(sn_at(y, r, c + end), sn_at(x, r, c + end), (size_t)(d - end) * size);
    }
    if (rotated < x->cols)
        memcpy(sn_at(y, r, rotated), sn_at(x, r, rotated), (size_t)(x->cols - rotated) * size);
}

SN_KERNEL(sn_rope)
{
    int64_t rows = a->in[SN_ROPE_X].rows, cols = a->in[SN_ROPE_X].cols;
    struct angles t = fill_tables(a);
#pragma omp parallel num_threads(sn_team(threads, rows *cols))
    {
        int64_t r, end;
        sn_share(rows, 1, omp_get_thread_num(), omp_get_num_threads(), &r, &end);
        for (; r < end; r++) {
            rotate_row(a, &t, r);
            copy_rest(a, r);
        }
    }
    return 0;
}
