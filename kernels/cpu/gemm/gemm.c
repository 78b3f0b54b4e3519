/*
 * gemm.c - C = op(A) op(B) (+ bias) (+ addend), or added to C; epilogues are gemm_epilogue.c's.
 *
 * Blocks as in Goto and van de Geijn (2008): columns of C in blocks of NC, the sum over k in blocks
 * of KC, rows in blocks of MC; B's block and A's block are packed (converted to fp32, transposed
 * where needed) into scratch, then tiles of SN_MR x SN_NR are computed in registers. Each thread
 * owns one rectangle of C and packs for itself: no barrier, no shared state.
 *
 * An element of C is summed over k in the same order whatever the number of threads: results are
 * bit-identical for any number. When C is not fp32, sums over several blocks of k are kept in fp32
 * scratch and rounded once. gemm_exact.c has sums
 * that are the same in every order.
 *
 * Where the instruction set multiplies bf16 (bf16.h), two bf16 operands are packed as they are: an
 * element takes half the room, so blocks of k are twice as deep, and tiles have its own size.
 */
#include "kernels/cpu/gemm/gemm_block.h"

#include "kernels/exact.h"

#include <omp.h>

enum {
    KC = 384,         /* A strip of A (8 x 384 floats) fits L1, a panel of B L2 */
    MC = SN_GEMM_MC,  /* A's block: 768 KiB of L2 */
    NC = 1152,        /* B's block: 1.7 MiB of L3 */
    DEEPEST = 2048,   /* of exact sums */
    DEEP = 768,       /* a k up to this is one block, half as wide: C is touched once */
    HC = 1024,        /* rows of the fp32 sums kept beside a C of another type, at most */
    SUMS = HC * 480,  /* and all elements of them: 1.9 MiB */
    SPARE = 64,       /* columns of bf16 that are SN_GEMM_NEAR floats or more */
    BEYOND = 1 << 20, /* floats that no cache keeps until they are wanted */
};

/* Blocks of k of exact sums: whole terms, and as many as there is room for, because their sums in fp64
 * cross memory once for each block. Panels are the narrower. */
static void exact_blocks(struct sn_gemm_job *j)
{
    int64_t depth = j->a->attr.exact.depth,
            most = depth < DEEPEST ? DEEPEST / depth * depth : depth;
    j->kc = j->k < most ? j->k : most;
    if (j->bf16) /* of which a block is a term */
        j->kc = depth;
    else if (j->kc > KC) {
        j->mc = MC * KC / j->kc / j->mr * j->mr;
        j->nc = NC * KC / j->kc / j->nr * j->nr;
    }
}

static struct sn_gemm_job job_of(const struct sn_args *a)
{
    struct sn_gemm_job j = {.a = a,
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
    j.exact = a->attr.exact.of != SN_EXACT_NONE;
    j.mc = j.kc > times * KC ? MC * KC / DEEP : MC;
    j.nc = j.kc > times * KC ? NC * KC / DEEP : NC;
    if (j.exact)
        exact_blocks(&j);
    if (j.bf16 && j.bf16->near)
        j.nc -= SPARE; /* beside them lie the sums of a row of tiles */
    j.accumulates = a->acc[SN_GEMM_C] == SN_ADD;
    j.wide_sums = j.exact ? j.c->dtype != SN_F64 && j.k > j.kc : half && blocks > 1;
    j.streams = !j.exact && j.bf16 && j.bf16->streams && blocks == 1 && j.m * j.n > BEYOND &&
                (uintptr_t)j.c->p % 64 == 0 && j.c->ld % SN_LINE == 0;
    return j;
}

/* One block of C (all of its depth). */
static void block(const struct sn_gemm_job *j, struct sn_gemm_work *w)
{
    int64_t parts = (w->rows + j->mc - 1) / j->mc;
    for (w->l = 0; w->l < j->k; w->l += j->kc) {
        w->depth = j->k - w->l < j->kc ? j->k - w->l : j->kc;
        for (int64_t p = 0; p < parts; p++) {
            int64_t first, end;
            sn_share(w->rows, j->mr, (int)p, (int)parts, &first, &end);
            if (j->bf16)
                SN_K(sn_gemm_rows_bf16)(j, w, w->row + first, end - first);
            else
                SN_K(sn_gemm_rows_fp32)(j, w, w->row + first, end - first);
        }
    }
}

/*
 * Threads form a grid of rows x columns over C. A thread with an m x n piece spends about
 * m n + 24 (m + n) per unit of k: 24 is the measured price of packing an element against a
 * multiply-add.
 */
static int grid_rows(const struct sn_gemm_job *j, int threads)
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

static const size_t floats_a = (size_t)MC * KC, floats_b = (size_t)KC * NC, floats_sums = SUMS;

static size_t floats_line(const struct sn_gemm_job *j)
{
    return (size_t)16 * (j->exact ? DEEPEST : DEEP);
}

/* The same for every instruction set, so that a plan holds on other nodes too: products of bf16
 * need wide sums for no k for which those of fp32 need none. */
static size_t floats_per_thread(const struct sn_gemm_job *j)
{
    bool sums = j->exact ? j->wide_sums : j->c->dtype != SN_F32 && j->k > DEEP;
    return floats_a + floats_b + floats_line(j) + (sums ? floats_sums : 0);
}

/* The rectangle of thread i, in blocks. */
static void thread_part(const struct sn_gemm_job *j, int i, int threads)
{
    int grid_m = grid_rows(j, threads), grid_n = threads / grid_m;
    int64_t row, row_end, col, col_end;
    sn_share(j->m, j->mr, i / grid_n, grid_m, &row, &row_end);
    sn_share(j->n, j->nr, i % grid_n, grid_n, &col, &col_end);
    float *scratch = (float *)j->a->scratch + (size_t)i * floats_per_thread(j);
    struct sn_gemm_work w = {.packed_a = scratch,
                             .packed_b = scratch + floats_a,
                             .line = scratch + floats_a + floats_b,
                             .near = scratch + floats_a + floats_b - SN_GEMM_NEAR,
                             .sums = scratch + floats_a + floats_b + floats_line(j)};
    int64_t most_rows = row_end - row, most_cols = j->nc;
    if (most_rows <= j->mc) /* no panel of B is used again */
        most_cols = (col_end - col) / j->nr * j->nr + j->nr;
    if (j->wide_sums && most_rows > 0) {
        most_rows = most_rows < HC ? most_rows : HC;
        int64_t sums = j->exact ? SUMS / 2 : SUMS;
        int64_t fitting = sums / ((most_rows + j->mr - 1) / j->mr * j->mr) / j->nr * j->nr;
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

static void no_terms(const struct sn_gemm_job *j)
{
    struct sn_gemm_work w = {.rows = j->m, .cols = j->n};
    for (int64_t r = 0; r < j->m; r += j->mr) {
        for (int64_t c = 0; c < j->n; c += j->nr) {
            double nothing[SN_GEMM_LARGEST] = {0};
            SN_K(sn_gemm_finish_exact)(j, &w, (int64_t[2]){r, c}, nothing);
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
    struct sn_gemm_job j = job_of(a);
    j.shift = sn_exact_shift(a->attr.exact.of, a->scalars);
    if (j.k == 0) {
        if (j.exact)
            no_terms(&j);
        else
            SN_K(sn_gemm_without_product)(&j);
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
    struct sn_gemm_job j = job_of(a);
    return SN_K(sn_fp8_scratch)(a) + floats_per_thread(&j) * sizeof(float) * (size_t)threads;
}
