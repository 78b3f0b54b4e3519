/*
 * gemm_exact.c - exact sums of a product (kernels/exact.h): products over `depth` of k are terms, which
 * are rounded and added in fp64; so are bias, addend and the old C. The sums are C itself if it is fp64,
 * or lie in scratch until the last block of k, and are rounded to C then. See gemm_block.h.
 */
#include "kernels/cpu/gemm/gemm_block.h"

#include "kernels/exact.h"

void SN_K(sn_gemm_terms)(double *sum, const float *product, int64_t n, double shift, bool first)
{
    if (first) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] = sn_exact_round((double)product[i], shift);
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        sum[i] += sn_exact_round((double)product[i], shift);
}

static void add_operand(double *sum, const struct sn_mat *x, int64_t r, int64_t c, int n,
                        double shift)
{
    const char *from = (const char *)sn_mat_row(x, r) + (size_t)c * sn_dtype_size(x->dtype);
    float wide[SN_GEMM_WIDEST];
    if (x->dtype == SN_F64) {
        for (int i = 0; i < n; i++)
            sum[i] += sn_exact_round(((const double *)(const void *)from)[i], shift);
        return;
    }
    sn_row_load(wide, from, x->dtype, n);
    SN_K(sn_gemm_terms)(sum, wide, n, shift, false);
}

/* The sums of row r from column c on: in C, in scratch, or, with one block of k, the terms' own. */
static double *sums_at(const struct sn_gemm_job *j, const struct sn_gemm_work *w, int64_t r,
                       int64_t c, double *terms)
{
    if (j->c->dtype == SN_F64)
        return (double *)sn_mat_row(j->c, r) + c;
    if (!j->wide_sums)
        return terms;
    return (double *)(void *)w->sums + (r - w->row) * w->sums_row + (c - w->col);
}

void SN_K(sn_gemm_finish_exact)(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                                const int64_t at[2], double *terms)
{
    bool first = w->l == 0, last = w->l + w->depth == j->k, in_c = j->c->dtype == SN_F64;
    int64_t rows = w->row + w->rows - at[0], cols = w->col + w->cols - at[1], c = at[1];
    int n = (int)(cols < j->nr ? cols : j->nr);
    rows = rows < j->mr ? rows : j->mr;
    for (int64_t r = at[0]; r < at[0] + rows; r++, terms += j->nr) {
        double *sum = sums_at(j, w, r, c, terms);
        if (sum != terms && first && !(in_c && j->accumulates)) {
            memcpy(sum, terms, (size_t)n * sizeof(*sum));
        } else if (sum != terms) {
#pragma omp simd
            for (int e = 0; e < n; e++)
                sum[e] += terms[e];
        }
        if (first && j->bias->p)
            add_operand(sum, j->bias, 0, c, n, j->shift);
        if (first && j->addend->p)
            add_operand(sum, j->addend, r, c, n, j->shift);
        if (first && j->accumulates && !in_c)
            add_operand(sum, j->c, r, c, n, j->shift);
        if (!last || in_c)
            continue;
        float rounded[SN_GEMM_WIDEST];
#pragma omp simd
        for (int e = 0; e < n; e++)
            rounded[e] = (float)sum[e];
        sn_row_store((char *)sn_mat_row(j->c, r) + (size_t)c * sn_dtype_size(j->c->dtype),
                     j->c->dtype, rounded, n);
    }
}
