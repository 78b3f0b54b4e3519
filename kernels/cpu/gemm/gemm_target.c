/*
 * gemm_target.c - where tiles of a product go, and what joins them on the way: bias, addend, the old
 * C, sums of earlier blocks of k; see gemm_block.h.
 */
#include "kernels/cpu/gemm/gemm_block.h"

static inline void add_row(float *restrict t, const struct sn_mat *x, int64_t r, int64_t c, int n)
{
    float wide[SN_GEMM_WIDEST];
    sn_row_load(wide, (const char *)sn_mat_row(x, r) + (size_t)c * sn_dtype_size(x->dtype),
                x->dtype, n);
#pragma omp simd
    for (int i = 0; i < n; i++)
        t[i] += wide[i];
}

static bool is_last(const struct sn_gemm_job *j, const struct sn_gemm_work *w)
{
    return w->l + w->depth == j->k;
}

static float *sums_at(const struct sn_gemm_work *w, int64_t r, int64_t c)
{
    return w->sums + (r - w->row) * w->sums_row + (c - w->col);
}

/*
 * Rows of a tile go to C. Earlier blocks of k are in the wide sums, or in C itself when it is fp32;
 * bias, addend and the old C join with the last block, or with the first.
 */
static inline __attribute__((always_inline)) void finish_rows(const struct sn_gemm_job *j,
                                                              const struct sn_gemm_work *w,
                                                              float *t, const int64_t at[2],
                                                              int rows, int n)
{
    bool first = w->l == 0;
    for (int i = 0; i < rows; i++, t += j->nr) {
        int64_t r = at[0] + i, c = at[1];
        char *out = (char *)sn_mat_row(j->c, r) + (size_t)c * sn_dtype_size(j->c->dtype);
        if (!first) {
            const float *sums = j->wide_sums ? sums_at(w, r, c) : (const float *)out;
#pragma omp simd
            for (int e = 0; e < n; e++)
                t[e] += sums[e];
        }
        if (j->wide_sums || first) {
            if (j->bias->p)
                add_row(t, j->bias, 0, c, n);
            if (j->addend->p)
                add_row(t, j->addend, r, c, n);
            if (j->accumulates)
                add_row(t, j->c, r, c, n);
        }
        sn_row_store(out, j->c->dtype, t, n);
    }
}

/* Tiles of the current block that read fp32 C and nothing else need no detour. */
static bool is_plain(const struct sn_gemm_job *j, const struct sn_gemm_work *w)
{
    if (j->c->dtype != SN_F32)
        return false;
    bool same = j->addend->p == j->c->p && j->addend->ld == j->c->ld;
    return w->l > 0 || (!j->bias->p && (!j->addend->p || (same && !j->accumulates)));
}

struct sn_gemm_target SN_K(sn_gemm_target)(const struct sn_gemm_job *j,
                                           const struct sn_gemm_work *w, const int64_t at[2],
                                           float *buffer)
{
    struct sn_gemm_target t = {{at[0], at[1]}, .c = buffer, .c_row = j->nr};
    int64_t rows = w->row + w->rows - at[0], cols = w->col + w->cols - at[1];
    bool whole = rows >= j->mr && cols >= j->nr;
    t.rows = rows < j->mr ? rows : j->mr;
    t.cols = cols < j->nr ? cols : j->nr;
    bool to_sums = j->wide_sums && !is_last(j, w), to_c = whole && is_plain(j, w);
    if (to_sums) { /* they have room for whole tiles */
        t.c = sums_at(w, at[0], at[1]);
        t.c_row = w->sums_row;
        t.add = w->l > 0;
    } else if (to_c) {
        t.c = (float *)sn_mat_row(j->c, at[0]) + at[1];
        t.c_row = j->c->ld;
        t.add = w->l > 0 || j->accumulates || j->addend->p;
        t.streams = !t.add && j->streams;
        for (int64_t i = 0; i < j->mr && !t.streams; i++) {
            for (int64_t c = 0; c < j->nr; c += SN_VL)
                __builtin_prefetch(t.c + i * t.c_row + c, 1);
        }
    }
    t.is_buffer = !to_sums && !to_c;
    return t;
}

void SN_K(sn_gemm_finish)(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                          const struct sn_gemm_target *t)
{
    if (!t->is_buffer)
        return;
    if (t->cols == SN_NR)
        finish_rows(j, w, t->c, t->at, (int)t->rows, SN_NR);
    else if (t->cols == 2 * SN_VL)
        finish_rows(j, w, t->c, t->at, (int)t->rows, 2 * SN_VL);
    else
        finish_rows(j, w, t->c, t->at, (int)t->rows, (int)t->cols);
}

/* K = 0: the product is nothing, the rest of the contract holds. */
void SN_K(sn_gemm_without_product)(const struct sn_gemm_job *j)
{
    struct sn_gemm_work w = {.l = 0};
    for (int64_t r = 0; r < j->m; r++) {
        for (int64_t c = 0; c < j->n; c += j->nr) {
            float zero[SN_GEMM_LARGEST] = {0};
            int n = (int)(j->n - c < j->nr ? j->n - c : j->nr);
            finish_rows(j, &w, zero, (int64_t[2]){r, c}, 1, n);
        }
    }
}
