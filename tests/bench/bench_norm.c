/*
 * bench_norm.c - a residual's sum by an operation of its own and then the norm, beside the norm
 * that adds (kernels/ops.h, addend of LAYERNORM and RMSNORM). Both ways first have to give the same
 * bits.
 *
 *   build/tests/bench/bench_norm [THREADS [T [D]]]
 *
 * The two ways alternate, so that a busy machine slows both; times are medians.
 */
/* Its conversions are wanted; tests are compiled without OpenMP. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "kernels/cpu/cpu.h"
#pragma GCC diagnostic pop

#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 41, X = 0, G, W, B, S, Y, STATS, Y2, S2, STATS2, N_ARRAYS };

struct bench {
    int threads;
    int64_t t, d;
    enum sn_dtype dtype;
    bool layer;
    struct sn_mat m[N_ARRAYS];
};

static void make(struct bench *b)
{
    for (int i = 0; i < N_ARRAYS; i++) {
        bool stats = i == STATS || i == STATS2, vector = i == W || i == B;
        struct sn_mat *m = &b->m[i];
        int64_t cols = stats ? (b->layer ? 2 : 1) : b->d;
        *m = (struct sn_mat){NULL, stats ? SN_F32 : b->dtype, vector ? 1 : b->t, cols, cols};
        size_t bytes = (size_t)(m->rows * m->cols) * sn_dtype_size(m->dtype);
        m->p = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!m->p) {
            (void)fprintf(stderr, "bench_norm: no memory; give a smaller T or D\n");
            exit(1);
        }
        memset(m->p, 0, bytes);
        for (int64_t r = 0; r < m->rows && i <= B; r++)
            for (int64_t c = 0; c < m->cols; c++) {
                float z = (float)(sn_rng_bits((uint64_t)i, (uint64_t)(r * m->cols + c)) % 4001) /
                              1000.0f -
                          2.0f;
                sn_row_store((char *)m->p + (size_t)(r * m->cols + c) * sn_dtype_size(m->dtype),
                             m->dtype, &z, 1);
            }
    }
}

static enum sn_op_kind norm(const struct bench *b)
{
    return b->layer ? SN_OP_LAYERNORM : SN_OP_RMSNORM;
}

static double apart(const struct bench *b)
{
    struct sn_args add = {.in = {b->m[X], b->m[G]}, .out = {b->m[S]}};
    struct sn_args a = {.in = {b->m[S], b->m[W]}, .out = {b->m[Y], b->m[STATS]}};
    double begin = sn_clock();
    if (b->layer)
        a.in[2] = b->m[B];
    a.attr.eps = 1e-5f;
    (void)sn_ops_cpu()->run[SN_OP_ADD](&add, b->threads);
    (void)sn_ops_cpu()->run[norm(b)](&a, b->threads);
    return sn_clock() - begin;
}

static double together(const struct bench *b)
{
    struct sn_args a = {.in = {b->m[X], b->m[W]}, .out = {b->m[Y2], b->m[STATS2], b->m[S2]}};
    double begin = sn_clock();
    if (b->layer)
        a.in[2] = b->m[B];
    a.in[3] = b->m[G];
    a.attr.eps = 1e-5f;
    (void)sn_ops_cpu()->run[norm(b)](&a, b->threads);
    return sn_clock() - begin;
}

static bool equal(const struct bench *b)
{
    static const int same[][2] = {{S, S2}, {Y, Y2}, {STATS, STATS2}};
    bool good = true;
    for (int i = 0; i < 3; i++) {
        const struct sn_mat *m = &b->m[same[i][0]];
        size_t bytes = (size_t)(m->rows * m->cols) * sn_dtype_size(m->dtype);
        good = good && memcmp(m->p, b->m[same[i][1]].p, bytes) == 0;
    }
    return good;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(struct bench *b)
{
    double one[ROUNDS], two[ROUNDS];
    make(b);
    (void)apart(b);
    (void)together(b);
    bool good = equal(b);
    for (int i = 0; i < ROUNDS; i++) {
        two[i] = apart(b);
        one[i] = together(b);
    }
    qsort(one, ROUNDS, sizeof(*one), by_time);
    qsort(two, ROUNDS, sizeof(*two), by_time);
    printf("%-9s %-4s %6lld x %-5lld add and norm %8.3f ms  norm that adds %8.3f ms  %.2f times as "
           "fast%s\n",
           b->layer ? "layernorm" : "rmsnorm", sn_dtype_name(b->dtype), (long long)b->t,
           (long long)b->d, two[ROUNDS / 2] * 1e3, one[ROUNDS / 2] * 1e3,
           two[ROUNDS / 2] / one[ROUNDS / 2], good ? "" : "  DIFFERENT RESULTS");
    for (int i = 0; i < N_ARRAYS; i++)
        free(b->m[i].p);
    return good;
}

int main(int argc, char **argv)
{
    bench_head();
    struct bench b = {.threads = argc > 1 ? atoi(argv[1]) : 1,
                      .t = argc > 2 ? atoll(argv[2]) : 4096,
                      .d = argc > 3 ? atoll(argv[3]) : 1024};
    bool good = b.threads > 0 && b.t > 0 && b.d > 0;
    if (!good)
        (void)fprintf(stderr, "usage: bench_norm [THREADS [T [D]]], each at least 1\n");
    for (int i = 0; i < 4 && good; i++) {
        b.layer = i < 2;
        b.dtype = i % 2 ? SN_BF16 : SN_F32;
        good = measure(&b) && good;
    }
    return good ? 0 : 1;
}
