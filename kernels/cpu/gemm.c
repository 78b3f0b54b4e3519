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
 *
 * Where the instruction set multiplies bf16 (bf16.h), two bf16 operands are packed as they are: an
 * element takes half the room, so blocks of k are twice as deep, and tiles have its own size.
 */
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/gemm_pack.h"

#include <omp.h>

enum {
    KC = 384,        /* A strip of A (8 x 384 floats) fits L1, a panel of B L2 */
    MC = 512,        /* A's block: 768 KiB of L2 */
    NC = 1152,       /* B's block: 1.7 MiB of L3 */
    DEEP = 768,      /* a k up to this is one block, half as wide: C is touched once */
    HC = 1024,       /* rows of the fp32 sums kept beside a C of another type, at most */
    SUMS = HC * 480, /* and all elements of them: 1.9 MiB */
    WIDEST = 64,     /* columns of a tile, at most */
    LARGEST = 1024,  /* and its elements */
};

struct job {
    const struct sn_args *a;
    const struct sn_mat *c, *bias, *addend;
    int64_t m, n, k;
    int64_t kc;                          /* depth of a block of k */
    int64_t mc, nc;                      /* rows of A's block, columns of B's */
    const struct sn_bf16_products *bf16; /* what multiplies; NULL: tiles of fp32 */
    int64_t mr, nr;                      /* rows and columns of a tile */
    bool accumulates;                    /* C += */
    bool wide_sums;                      /* C is not fp32 and k has several blocks */
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
    struct job j = {.a = a,
                    .c = &a->out[SN_GEMM_C],
                    .bias = &a->in[SN_GEMM_BIAS],
                    .addend = &a->in[SN_GEMM_ADDEND]};
    j.m = j.c->rows;
    j.n = j.c->cols;
    j.k = a->attr.gemm.trans_a ? a->in[SN_GEMM_A].rows : a->in[SN_GEMM_A].cols;
    bool half = j.c->dtype != SN_F32;
    if (a->in[SN_GEMM_A].dtype == SN_BF16 && a->in[SN_GEMM_B].dtype == SN_BF16)
        j.bf16 = SN_K(sn_bf16);
    j.mr = j.bf16 ? j.bf16->rows : SN_MR;
    j.nr = j.bf16 ? j.bf16->cols : SN_NR;
    int64_t times = j.bf16 ? 2 : 1, deepest = times * (j.k <= times * DEEP ? DEEP : KC);
    int64_t blocks = (j.k + deepest - 1) / deepest;
    j.kc = blocks ? (j.k + blocks - 1) / blocks : 0;
    j.kc = j.bf16 ? sn_bf16_depth(j.bf16, j.kc) : j.kc;
    j.mc = j.kc > times * KC ? MC * KC / DEEP : MC;
    j.nc = j.kc > times * KC ? NC * KC / DEEP : NC;
    j.accumulates = a->acc[SN_GEMM_C] == SN_ADD;
    j.wide_sums = half && blocks > 1;
    return j;
}

static inline void add_row(float *restrict t, const struct sn_mat *x, int64_t r, int64_t c, int n)
{
    float wide[WIDEST];
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
static bool is_plain(const struct job *j, const struct work *w)
{
    if (j->c->dtype != SN_F32)
        return false;
    bool same = j->addend->p == j->c->p && j->addend->ld == j->c->ld;
    return w->l > 0 || (!j->bias->p && (!j->addend->p || (same && !j->accumulates)));
}

/* Where a tile's product goes: C itself, the wide sums, or the buffer and from there to C. */
struct target {
    int64_t at[2], rows, cols; /* of C */
    float *c;
    int64_t c_row;
    bool add, is_buffer;
};

static struct target target_of(const struct job *j, const struct work *w, const int64_t at[2],
                               float *buffer)
{
    struct target t = {{at[0], at[1]}, .c = buffer, .c_row = j->nr};
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
        for (int64_t i = 0; i < j->mr; i++) {
            for (int64_t c = 0; c < j->nr; c += SN_VL)
                __builtin_prefetch(t.c + i * t.c_row + c, 1);
        }
    }
    t.is_buffer = !to_sums && !to_c;
    return t;
}

static void finish(const struct job *j, const struct work *w, const struct target *t)
{
    if (!t->is_buffer)
        return;
    if (t->cols == SN_NR)
        finish_rows(j, w, t->c, t->at, (int)t->rows, SN_NR);
    else
        finish_rows(j, w, t->c, t->at, (int)t->rows, (int)t->cols);
}

static void one_tile(const struct job *j, const struct work *w, struct sn_tile *t,
                     const int64_t at[2])
{
    float buffer[SN_MR * SN_NR];
    struct target to = target_of(j, w, at, buffer);
    t->c = to.c;
    t->c_row = to.c_row;
    t->add = to.add;
    SN_K(sn_gemm_tile)(t, to.cols);
    finish(j, w, &to);
}

static void one_tile_bf16(const struct job *j, const struct work *w, struct sn_bf16_tile *t,
                          const int64_t at[2])
{
    float buffer[LARGEST];
    struct target to = target_of(j, w, at, buffer);
    t->c = to.c;
    t->c_row = to.c_row;
    t->add = to.add;
    t->rows = to.rows;
    t->cols = to.cols;
    j->bf16->tile(t);
    finish(j, w, &to);
}

/*
 * A strip of a stored row-major fp32 A is read in place: it is what packing would copy. Rows a
 * multiple of a page apart would share one set of the caches.
 */
static bool is_read_in_place(const struct job *j)
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

/* Rows [row, row + rows) of the current block against all of B's, which the first rows pack. */
static void multiply(const struct job *j, const struct work *w, int64_t row, int64_t rows)
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
            one_tile(j, w, &t, (int64_t[2]){row + r, w->col + c});
        }
    }
}

/* Whole strips of a stored row-major A whose rows the instructions read as they lie. */
static int64_t rows_in_place_bf16(const struct job *j, const struct work *w, int64_t rows)
{
    const struct sn_mat *a = &j->a->in[SN_GEMM_A];
    bool lies = j->bf16->reads_rows && !j->a->attr.gemm.trans_a && a->ld % 2048 != 0 &&
                w->depth % j->bf16->step == 0;
    return lies ? rows / j->mr * j->mr : 0;
}

/* What multiply() does, with products of bf16. */
static void multiply_bf16(const struct job *j, const struct work *w, int64_t row, int64_t rows)
{
    const struct sn_mat *x = &j->a->in[SN_GEMM_A];
    const struct sn_bf16_products *f = j->bf16;
    bool trans_a = j->a->attr.gemm.trans_a, in_rows = f->reads_rows && !trans_a;
    uint16_t *line = (uint16_t *)w->line, *packed_a = (uint16_t *)w->packed_a;
    int64_t in_place = rows_in_place_bf16(j, w, rows), whole = sn_bf16_depth(f, w->depth);
    int64_t a_group = in_rows ? whole : f->a_group;
    struct sn_bf16_block a = {x,     trans_a, row + in_place, rows - in_place, w->l, w->depth,
                              j->mr, a_group, whole};
    SN_K(sn_bf16_pack)(&a, line, packed_a);
    for (int64_t c = 0; c < w->cols; c += j->nr) {
        uint16_t *panel = (uint16_t *)w->packed_b + (rows < w->rows ? c * whole : 0);
        int64_t cols = w->cols - c < j->nr ? w->cols - c : j->nr;
        struct sn_bf16_block b = {&j->a->in[SN_GEMM_B],
                                  !j->a->attr.gemm.trans_b,
                                  w->col + c,
                                  cols,
                                  w->l,
                                  w->depth,
                                  j->nr,
                                  f->b_group,
                                  whole};
        if (row == w->row)
            SN_K(sn_bf16_pack)(&b, line, panel);
        for (int64_t r = 0; r < rows; r += j->mr) {
            struct sn_bf16_tile t = {.depth = whole, .b = panel};
            bool stored = r < in_place;
            t.a = stored ? (const uint16_t *)sn_mat_row(x, row + r) + w->l
                         : packed_a + (r - in_place) * whole;
            t.a_row = stored ? x->ld : a_group;
            t.a_step = in_rows ? f->a_group : f->a_group * j->mr;
            one_tile_bf16(j, w, &t, (int64_t[2]){row + r, w->col + c});
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
            sn_share(w->rows, j->mr, (int)p, (int)parts, &first, &end);
            if (j->bf16)
                multiply_bf16(j, w, w->row + first, end - first);
            else
                multiply(j, w, w->row + first, end - first);
        }
    }
}

/*
 * Threads form a grid of rows x columns over C. A thread with an m x n piece spends about
 * m n + 24 (m + n) per unit of k: 24 is the measured price of packing an element against a
 * multiply-add.
 */
static int grid_rows(const struct job *j, int threads)
{
    int best = 1;
    double least = 0;
    for (int g = 1; g <= threads; g++) {
        if (threads % g)
            continue;
        double rows = (double)(((j->m + j->mr - 1) / j->mr + g - 1) / g * j->mr);
        int h = threads / g;
        double cols = (double)(((j->n + j->nr - 1) / j->nr + h - 1) / h * j->nr);
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

/* The same for every instruction set, so that a plan holds on other nodes too: products of bf16
 * need wide sums for no k for which those of fp32 need none. */
static size_t floats_per_thread(const struct job *j)
{
    bool sums = j->c->dtype != SN_F32 && j->k > DEEP;
    return floats_a + floats_b + floats_line + (sums ? floats_sums : 0);
}

/* The rectangle of thread i, in blocks. */
static void thread_part(const struct job *j, int i, int threads)
{
    int grid_m = grid_rows(j, threads), grid_n = threads / grid_m;
    int64_t row, row_end, col, col_end;
    sn_share(j->m, j->mr, i / grid_n, grid_m, &row, &row_end);
    sn_share(j->n, j->nr, i % grid_n, grid_n, &col, &col_end);
    float *scratch = (float *)j->a->scratch + (size_t)i * floats_per_thread(j);
    struct work w = {.packed_a = scratch,
                     .packed_b = scratch + floats_a,
                     .line = scratch + floats_a + floats_b,
                     .sums = scratch + floats_a + floats_b + floats_line};
    int64_t most_rows = row_end - row, most_cols = j->nc;
    if (most_rows <= j->mc) /* no panel of B is used again */
        most_cols = (col_end - col) / j->nr * j->nr + j->nr;
    if (j->wide_sums && most_rows > 0) {
        most_rows = most_rows < HC ? most_rows : HC;
        int64_t fitting = SUMS / ((most_rows + j->mr - 1) / j->mr * j->mr) / j->nr * j->nr;
        most_cols = fitting < most_cols ? fitting : most_cols;
        w.sums_row = most_cols;
    }
    int parts_n = (int)((col_end - col + most_cols - 1) / most_cols);
    for (w.row = row; w.row < row_end; w.row += most_rows) {
        w.rows = row_end - w.row < most_rows ? row_end - w.row : most_rows;
        for (int p = 0; p < parts_n; p++) {
            int64_t first, end;
            sn_share(col_end - col, j->nr, p, parts_n, &first, &end);
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
        for (int64_t c = 0; c < j->n; c += j->nr) {
            float zero[LARGEST] = {0};
            int n = (int)(j->n - c < j->nr ? j->n - c : j->nr);
            finish_rows(j, &w, zero, (int64_t[2]){r, c}, 1, n);
        }
    }
}

SN_KERNEL(sn_gemm_alone)
{
    struct sn_args rounded;
    if (a->attr.gemm.fp8) {
        rounded = SN_K(sn_fp8_operands)(a, threads);
        a = &rounded;
    }
    struct job j = job_of(a);
    if (j.k == 0) {
        without_product(&j);
        return 0;
    }
#pragma omp parallel num_threads(threads)
    {
        if (j.bf16 && j.bf16->begin)
            j.bf16->begin();
        for (int i = omp_get_thread_num(); i < threads; i += omp_get_num_threads())
            thread_part(&j, i, threads);
        if (j.bf16 && j.bf16->end)
            j.bf16->end();
    }
    return 0;
}

size_t SN_K(sn_gemm_scratch)(const struct sn_args *a, int threads)
{
    struct job j = job_of(a);
    return SN_K(sn_fp8_scratch)(a) + floats_per_thread(&j) * sizeof(float) * (size_t)threads;
}
