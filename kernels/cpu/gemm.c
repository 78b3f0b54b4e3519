/*
 * gemm.c - C = op(A) op(B) (+ bias) (+ addend), or added to C; epilogues are gemm_epilogue.c's.
 *
 * Blocks as in Goto and van de Geijn (2008): columns of C in blocks of NC, the sum over k in blocks
 * of KC, rows in blocks of MC; B's block and A's block are packed (converted to fp32, transposed
 * where needed) into scratch, then tiles of SN_MR x SN_NR are computed in registers. Each thread
 * owns one rectangle of C and packs for itself: no barrier, no shared state. A panel of B is packed
 * just before its first tile, while it is used the next one is fetched.
 *
 * An element of C is summed over k in the same order whatever the number of threads: results are
 * bit-identical for any number. When C is not fp32, sums over several blocks of k are kept in fp32
 * scratch and rounded once.
 */
#include "kernels/cpu/gemm_pack.h"

#include <omp.h>

enum {
    KC = 384,        /* A strip of A (8 x 384 floats) fits L1, a panel of B L2 */
    MC = 512,        /* A's block: 768 KiB of L2 */
    NC = 1152,       /* B's block: 1.7 MiB of L3 */
    DEEP = 768,      /* a k up to this is one block, half as wide: C is touched once */
    HC = 1024,       /* rows of the fp32 sums kept beside a C of another type, at most */
    SUMS = HC * 480, /* and all elements of them: 1.9 MiB */
};

SN_TILE(tile_1, SN_MR, 1)
SN_TILE(tile_2, SN_MR, 2)
SN_TILE_AHEAD(tile_3, SN_MR, 3, 16)

struct job {
    const struct sn_args *a;
    const struct sn_mat *c, *bias, *addend;
    int64_t m, n, k;
    int64_t kc;       /* depth of a block of k */
    int64_t mc, nc;   /* rows of A's block, columns of B's */
    bool accumulates; /* C += */
    bool wide_sums;   /* C is not fp32 and k has several blocks */
};

/* What one thread works on: its rectangle of C, its scratch. */
struct work {
    int64_t row, rows, col, cols; /* current block of C */
    int64_t l, depth;             /* current block of k */
    float *packed_a, *packed_b, *line;
    float *sums; /* for wide sums only */
    int64_t sums_row;
};

static struct job job_of(const struct sn_args *a)
{
    struct job j = {.a = a, .c = &a->out[0], .bias = &a->in[2], .addend = &a->in[3]};
    j.m = j.c->rows;
    j.n = j.c->cols;
    j.k = a->attr.trans_a ? a->in[0].rows : a->in[0].cols;
    bool half = j.c->dtype != SN_F32;
    int64_t deepest = j.k <= DEEP ? DEEP : KC;
    int64_t blocks = (j.k + deepest - 1) / deepest;
    j.kc = blocks ? (j.k + blocks - 1) / blocks : 0;
    j.mc = j.kc > KC ? MC * KC / DEEP : MC;
    j.nc = j.kc > KC ? NC * KC / DEEP : NC;
    j.accumulates = a->acc[0] == SN_ADD;
    j.wide_sums = half && blocks > 1;
    return j;
}

static inline void add_row(float *restrict t, const struct sn_mat *x, int64_t r, int64_t c, int n)
{
    float wide[SN_NR];
    sn_row_load(wide, (const char *)sn_mat_row(x, r) + (size_t)c * sn_dtype_size(x->dtype),
                x->dtype, n);
#pragma omp simd
    for (int i = 0; i < n; i++)
        t[i] += wide[i];
}

static bool is_last(const struct job *j, const struct work *w)
{
    return w->l + w->depth == j->k;
}

static float *sums_at(const struct work *w, int64_t r, int64_t c)
{
    return w->sums + (r - w->row) * w->sums_row + (c - w->col);
}

/*
 * Rows of a tile go to C. Earlier blocks of k are in the wide sums, or in C itself when it is fp32;
 * bias, addend and the old C join with the last block, or with the first.
 */
static inline __attribute__((always_inline)) void finish_rows(const struct job *j,
                                                              const struct work *w, float *t,
                                                              const int64_t at[2], int rows, int n)
{
    bool first = w->l == 0;
    for (int i = 0; i < rows; i++, t += SN_NR) {
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
static bool is_plain(const struct job *j, const struct work *w)
{
    if (j->c->dtype != SN_F32)
        return false;
    bool same = j->addend->p == j->c->p && j->addend->ld == j->c->ld;
    return w->l > 0 || (!j->bias->p && (!j->addend->p || (same && !j->accumulates)));
}

static void run_tile(const struct sn_tile *t, int64_t cols)
{
    if (cols > 2 * SN_VL)
        tile_3(t);
    else if (cols > SN_VL)
        tile_2(t);
    else
        tile_1(t);
}

static void one_tile(const struct job *j, const struct work *w, struct sn_tile *t,
                     const int64_t at[2])
{
    float buffer[SN_MR * SN_NR];
    int64_t rows = w->row + w->rows - at[0], cols = w->col + w->cols - at[1];
    bool whole = rows >= SN_MR && cols >= SN_NR;
    rows = rows < SN_MR ? rows : SN_MR;
    cols = cols < SN_NR ? cols : SN_NR;
    bool to_sums = j->wide_sums && !is_last(j, w), to_c = whole && is_plain(j, w);
    t->c = buffer;
    t->c_row = SN_NR;
    t->add = false;
    if (to_sums) { /* they have room for whole tiles */
        t->c = sums_at(w, at[0], at[1]);
        t->c_row = w->sums_row;
        t->add = w->l > 0;
    } else if (to_c) {
        t->c = (float *)sn_mat_row(j->c, at[0]) + at[1];
        t->c_row = j->c->ld;
        t->add = w->l > 0 || j->accumulates || j->addend->p;
        for (int64_t i = 0; i < SN_MR; i++) {
            for (int64_t c = 0; c < SN_NR; c += SN_VL)
                __builtin_prefetch(t->c + i * t->c_row + c, 1);
        }
    }
    run_tile(t, cols);
    if (to_sums || to_c)
        return;
    if (cols == SN_NR)
        finish_rows(j, w, buffer, at, (int)rows, SN_NR);
    else
        finish_rows(j, w, buffer, at, (int)rows, (int)cols);
}

/*
 * A strip of a stored row-major fp32 A is read in place: it is what packing would copy. Rows a
 * multiple of a page apart would share one set of the caches.
 */
static bool is_read_in_place(const struct job *j)
{
    const struct sn_mat *a = &j->a->in[0];
    return !j->a->attr.trans_a && a->dtype == SN_F32 && a->ld % 1024 != 0;
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

/* Rows [row, row + rows) of the current block against all of B's, which the first rows pack. */
static void multiply(const struct job *j, const struct work *w, int64_t row, int64_t rows)
{
    const struct sn_mat *x = &j->a->in[0];
    bool trans = j->a->attr.trans_a;
    int64_t in_place = is_read_in_place(j) ? rows / SN_MR * SN_MR : 0;
    struct sn_block a = {x, trans, row + in_place, rows - in_place, w->l, w->depth};
    SN_K(sn_gemm_pack_a)(&a, w->line, w->packed_a);
    for (int64_t c = 0; c < w->cols; c += SN_NR) {
        float *panel = w->packed_b + (rows < w->rows ? c * w->depth : 0);
        int64_t cols = w->cols - c < SN_NR ? w->cols - c : SN_NR;
        struct sn_block b = {&j->a->in[1], j->a->attr.trans_b, w->l, w->depth, w->col + c, cols};
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
            t.a_row = stored ? x->ld : trans ? 1 : w->depth;
            t.a_step = trans ? SN_MR : 1;
            one_tile(j, w, &t, (int64_t[2]){row + r, w->col + c});
        }
    }
}

/* One block of C (all of its depth). */
static void block(const struct job *j, struct work *w)
{
    int64_t parts = (w->rows + j->mc - 1) / j->mc;
    for (w->l = 0; w->l < j->k; w->l += j->kc) {
        w->depth = j->k - w->l < j->kc ? j->k - w->l : j->kc;
        for (int64_t p = 0; p < parts; p++) {
            int64_t first, end;
            sn_share(w->rows, SN_MR, (int)p, (int)parts, &first, &end);
            multiply(j, w, w->row + first, end - first);
        }
    }
}

/*
 * Threads form a grid of rows x columns over C. A thread with an m x n piece spends about
 * m n + 24 (m + n) per unit of k: 24 is the measured price of packing an element against a
 * multiply-add.
 */
static int grid_rows(int64_t m, int64_t n, int threads)
{
    int best = 1;
    double least = 0;
    for (int g = 1; g <= threads; g++) {
        if (threads % g)
            continue;
        double rows = (double)(((m + SN_MR - 1) / SN_MR + g - 1) / g * SN_MR);
        int h = threads / g;
        double cols = (double)(((n + SN_NR - 1) / SN_NR + h - 1) / h * SN_NR);
        double cost = rows * cols + 24 * (rows + cols);
        if (g == 1 || cost < least) {
            least = cost;
            best = g;
        }
    }
    return best;
}

static const size_t floats_a = (size_t)MC * KC, floats_b = (size_t)KC * NC,
                    floats_line = (size_t)16 * DEEP, floats_sums = SUMS;

static size_t floats_per_thread(const struct job *j)
{
    return floats_a + floats_b + floats_line + (j->wide_sums ? floats_sums : 0);
}

/* The rectangle of thread i, in blocks. */
static void thread_part(const struct job *j, int i, int threads)
{
    int grid_m = grid_rows(j->m, j->n, threads), grid_n = threads / grid_m;
    int64_t row, row_end, col, col_end;
    sn_share(j->m, SN_MR, i / grid_n, grid_m, &row, &row_end);
    sn_share(j->n, SN_NR, i % grid_n, grid_n, &col, &col_end);
    float *scratch = (float *)j->a->scratch + (size_t)i * floats_per_thread(j);
    struct work w = {.packed_a = scratch,
                     .packed_b = scratch + floats_a,
                     .line = scratch + floats_a + floats_b,
                     .sums = scratch + floats_a + floats_b + floats_line};
    int64_t most_rows = row_end - row, most_cols = j->nc;
    if (most_rows <= j->mc) /* no panel of B is used again */
        most_cols = (col_end - col) / SN_NR * SN_NR + SN_NR;
    if (j->wide_sums && most_rows > 0) {
        most_rows = most_rows < HC ? most_rows : HC;
        int64_t fitting = SUMS / ((most_rows + SN_MR - 1) / SN_MR * SN_MR) / SN_NR * SN_NR;
        most_cols = fitting < most_cols ? fitting : most_cols;
        w.sums_row = most_cols;
    }
    int parts_n = (int)((col_end - col + most_cols - 1) / most_cols);
    for (w.row = row; w.row < row_end; w.row += most_rows) {
        w.rows = row_end - w.row < most_rows ? row_end - w.row : most_rows;
        for (int p = 0; p < parts_n; p++) {
            int64_t first, end;
            sn_share(col_end - col, SN_NR, p, parts_n, &first, &end);
            w.col = col + first;
            w.cols = end - first;
            block(j, &w);
        }
    }
}

/* K = 0: the product is nothing, the rest of the contract holds. */
static void without_product(const struct job *j)
{
    struct work w = {.l = 0};
    for (int64_t r = 0; r < j->m; r++) {
        for (int64_t c = 0; c < j->n; c += SN_NR) {
            float zero[SN_NR] = {0};
            int n = (int)(j->n - c < SN_NR ? j->n - c : SN_NR);
            finish_rows(j, &w, zero, (int64_t[2]){r, c}, 1, n);
        }
    }
}

SN_KERNEL(sn_gemm_alone)
{
    struct sn_args rounded;
    if (a->attr.fp8) {
        rounded = SN_K(sn_fp8_operands)(a, threads);
        a = &rounded;
    }
    struct job j = job_of(a);
    if (j.k == 0) {
        without_product(&j);
        return 0;
    }
#pragma omp parallel num_threads(threads)
    for (int i = omp_get_thread_num(); i < threads; i += omp_get_num_threads())
        thread_part(&j, i, threads);
    return 0;
}

size_t SN_K(sn_gemm_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    return SN_K(sn_fp8_scratch)(a) + floats_per_thread(&j) * sizeof(float) * (size_t)threads;
}
