/*
 * gemm_fp32.c - a block of a product by tiles of fp32; see gemm_block.h. A panel of B is packed just
 * before its first tile, while it is used the next one is fetched.
 */
#include "kernels/cpu/gemm/gemm_block.h"

/*
 * A strip of a stored row-major fp32 A is read in place: it is what packing would copy. Rows a
 * multiple of a page apart would share one set of the caches.
 */
static bool is_read_in_place(const struct sn_gemm_job *j)
{
    const struct sn_mat *a = &j->a->in[SN_GEMM_A];
    return !j->a->attr.gemm.trans_a && !SN_K(sn_gemm_by_steps) && a->dtype == SN_F32 &&
           a->ld % 1024 != 0;
}

/*
 * Rows of a stored panel lie a row of B apart, too far for the hardware to foresee: while tile
 * `part` of `parts` runs, it asks for its part of panel b.
 */
static void ask_for(const struct sn_block *b, int64_t part, int64_t parts, struct sn_tile *t)
{
    size_t size = sn_dtype_size(b->x->dtype);
    int64_t rows = (b->rows + parts - 1) / parts, first = rows * part;
    if (first + rows > b->rows)
        return;
    t->next = (const char *)sn_mat_row(b->x, b->row + first) + (size_t)b->col * size;
    t->next_step = (int64_t)((size_t)b->x->ld * size);
    t->next_every = (b->rows + rows - 1) / rows;
}

/* Of a tile that is a sum of terms: each `depth` of k is one. Only the first asks for the next panel. */
static void exact_tile(const struct sn_gemm_job *j, const struct sn_gemm_work *w,
                       struct sn_tile *of, const int64_t at[2])
{
    struct sn_tile t = *of;
    float product[SN_MR * SN_NR];
    double terms[SN_MR * SN_NR];
    int64_t depth = j->a->attr.exact.depth, whole = t.k;
    memset(product, 0, sizeof(product)); /* a tile writes its columns alone */
    for (int64_t i = 0; i < SN_MR && j->c->dtype == SN_F64 && at[0] + i < j->m; i++) {
        const double *c = (const double *)sn_mat_row(j->c, at[0] + i) + at[1];
        for (int64_t n = 0; n < SN_NR; n += SN_LINE / 2)
            __builtin_prefetch(c + n, 1);
    }
    t.c = product;
    t.c_row = SN_NR;
    t.add = false;
    for (int64_t l = 0; l < whole; l += depth) {
        t.k = whole - l < depth ? whole - l : depth;
        SN_K(sn_gemm_tile)(&t, w->col + w->cols - at[1]);
        SN_K(sn_gemm_terms)(terms, product, SN_MR * SN_NR, j->shift, l == 0);
        t.a += depth * t.a_step;
        t.b += depth * t.b_step;
        t.next = (const char *)t.b;
        t.next_step = 0;
    }
    SN_K(sn_gemm_finish_exact)(j, w, at, terms);
}

static void one_tile(const struct sn_gemm_job *j, const struct sn_gemm_work *w, struct sn_tile *t,
                     const int64_t at[2])
{
    float buffer[SN_MR * SN_NR];
    struct sn_gemm_target to = SN_K(sn_gemm_target)(j, w, at, buffer);
    t->c = to.c;
    t->c_row = to.c_row;
    t->add = to.add;
    SN_K(sn_gemm_tile)(t, to.cols);
    SN_K(sn_gemm_finish)(j, w, &to);
}

void SN_K(sn_gemm_rows_fp32)(const struct sn_gemm_job *j, const struct sn_gemm_work *w, int64_t row,
                             int64_t rows)
{
    const struct sn_mat *x = &j->a->in[SN_GEMM_A];
    bool trans = j->a->attr.gemm.trans_a, by_steps = trans || SN_K(sn_gemm_by_steps);
    int64_t in_place = is_read_in_place(j) ? rows / SN_MR * SN_MR : 0;
    struct sn_block a = {x, trans, row + in_place, rows - in_place, w->l, w->depth};
    SN_K(sn_gemm_pack_a)(&a, w->line, w->packed_a);
    for (int64_t c = 0; c < w->cols; c += SN_NR) {
        float *panel = w->packed_b + (rows < w->rows ? c * w->depth : 0);
        int64_t cols = w->cols - c < SN_NR ? w->cols - c : SN_NR;
        struct sn_block b = {
            &j->a->in[SN_GEMM_B], j->a->attr.gemm.trans_b, w->l, w->depth, w->col + c, cols};
        if (row == w->row)
            SN_K(sn_gemm_pack_b)(&b, w->line, panel);
        struct sn_tile t = {.k = w->depth, .b = panel, .b_step = SN_NR};
        b.col += SN_NR;
        b.cols = w->cols - c - SN_NR < SN_NR ? w->cols - c - SN_NR : SN_NR;
        for (int64_t r = 0; r < rows; r += SN_MR) {
            t.next = (const char *)panel; /* nothing: it is here */
            t.next_step = 0;
            t.next_every = w->depth;
            if (row == w->row && b.cols > 0 && !b.trans)
                ask_for(&b, r / SN_MR, (rows + SN_MR - 1) / SN_MR, &t);
            bool stored = r < in_place;
            t.a = stored ? (const float *)sn_mat_row(x, row + r) + w->l
                         : w->packed_a + (r - in_place) * w->depth;
            t.a_row = stored ? x->ld : by_steps ? 1 : w->depth;
            t.a_step = by_steps ? SN_MR : 1;
            (j->exact ? exact_tile : one_tile)(j, w, &t, (int64_t[2]){row + r, w->col + c});
        }
    }
}
