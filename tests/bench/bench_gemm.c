/*
 * bench_gemm.c - GFLOP/s of GEMM on the shapes of small models: f is Y = X W^T, d is dX = dY W, w
 * is dW += dY^T X; fp32 and bf16 storage, beside OpenBLAS where it is (serial, rows or columns
 * of C split plainly over the threads). In brackets: the share of the multiply-add peak of the
 * instruction that the set uses for that type (peak/peak.h), which takes turns with the products.
 *
 *   build/tests/bench/bench_gemm [THREADS [TOKENS]]
 *
 * A sample of elements is checked against a double loop before anything is timed. The contestants
 * take turns, so a neighbour's load meets all of them; printed are medians of 9 turns of at least
 * 4 ms, and at the end the median and the least of all shapes' shares.
 */
#include "kernels/cpu/cpu.h"
#include "lib/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/blas/blas.h"
#include "tests/bench/peak/peak.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 9, CONTESTANTS = 3, MOST_SHAPES = 64 };

/* Of each product's median, fp32 and bf16. */
struct shares {
    double of[2][MOST_SHAPES];
    int n;
};

/* One product, in fp32 and in bf16 storage. */
struct product {
    struct sn_args wide, half;
    int64_t m, n, k;
    int threads;
};

static struct sn_mat matrix(int64_t rows, int64_t cols, uint32_t seed)
{
    struct sn_mat x = {bench_room((size_t)(rows * cols) * 4), SN_F32, rows, cols, cols};
    float *p = x.p;
    for (int64_t i = 0; i < rows * cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
    return x;
}

static struct sn_mat halved(struct sn_mat x)
{
    struct sn_mat y = x;
    y.dtype = SN_BF16;
    y.p = bench_room((size_t)(x.rows * x.cols) * 2);
    sn_row_store(y.p, SN_BF16, x.p, x.rows * x.cols);
    return y;
}

static struct product product_of(char kind, int64_t tokens, int64_t in, int64_t out, int threads)
{
    struct product p = {.m = kind == 'w' ? out : tokens,
                        .n = kind == 'f' ? out : in,
                        .k = kind == 'f'   ? in
                             : kind == 'd' ? out
                                           : tokens,
                        .threads = threads};
    struct sn_attr attr = {.gemm.trans_a = kind == 'w', .gemm.trans_b = kind == 'f'};
    p.wide.attr = p.half.attr = attr;
    p.wide.in[0] = matrix(attr.gemm.trans_a ? p.k : p.m, attr.gemm.trans_a ? p.m : p.k, 1);
    p.wide.in[1] = matrix(attr.gemm.trans_b ? p.n : p.k, attr.gemm.trans_b ? p.k : p.n, 2);
    p.wide.out[0] = matrix(p.m, p.n, 3);
    for (int i = 0; i < 2; i++)
        p.half.in[i] = halved(p.wide.in[i]);
    p.half.out[0] = kind == 'w' ? p.wide.out[0] : halved(p.wide.out[0]);
    const struct sn_ops *ops = sn_ops_cpu();
    size_t wide = ops->scratch(SN_OP_GEMM, &p.wide, threads);
    size_t half = ops->scratch(SN_OP_GEMM, &p.half, threads);
    p.wide.scratch = p.half.scratch = bench_room(wide > half ? wide : half);
    return p;
}

static void product_free(struct product *p)
{
    if (p->half.out[0].p != p->wide.out[0].p)
        free(p->half.out[0].p);
    for (int i = 0; i < 2; i++) {
        free(p->wide.in[i].p);
        free(p->half.in[i].p);
    }
    free(p->wide.out[0].p);
    free(p->wide.scratch);
}

static void plain_split(const struct product *p)
{
    const struct sn_attr *t = &p->wide.attr;
    bool columns = p->n >= p->m;
#pragma omp parallel num_threads(p->threads)
    {
        int64_t first, end;
        sn_share(columns ? p->n : p->m, 16, omp_get_thread_num(), p->threads, &first, &end);
        struct sn_blas_gemm g = {t->gemm.trans_a,
                                 t->gemm.trans_b,
                                 columns ? p->m : end - first,
                                 columns ? end - first : p->n,
                                 p->k,
                                 p->wide.in[0].p,
                                 p->wide.in[1].p,
                                 p->wide.in[0].ld,
                                 p->wide.in[1].ld,
                                 p->wide.out[0].ld,
                                 p->wide.out[0].p};
        if (columns) {
            g.b += t->gemm.trans_b ? first * g.ldb : first;
            g.c += first;
        } else {
            g.a += t->gemm.trans_a ? first : first * g.lda;
            g.c += first * g.ldc;
        }
        if (end > first)
            sn_blas_sgemm(&g);
    }
}

static void run(const struct product *p, int contestant)
{
    if (contestant == 2)
        plain_split(p);
    else
        (void)sn_ops_cpu()->run[SN_OP_GEMM](contestant ? &p->half : &p->wide, p->threads);
}

static double element(const struct sn_mat *x, bool trans, int64_t r, int64_t c)
{
    const char *at = (const char *)x->p +
                     (size_t)(trans ? c * x->ld + r : r * x->ld + c) * sn_dtype_size(x->dtype);
    float v;
    sn_row_load(&v, at, x->dtype, 1);
    return (double)v;
}

/* 64 elements against a double loop. */
static void check(const struct product *p, const struct sn_args *a, const char *what)
{
    double tol = (a->out[0].dtype == SN_F32 ? 1e-5 : 0x1p-8) * sqrt((double)p->k);
    for (int64_t i = 0; i < 64; i++) {
        int64_t r = i * 7919 % p->m, c = i * 104729 % p->n;
        double want = 0, got = element(&a->out[0], false, r, c);
        for (int64_t l = 0; l < p->k; l++)
            want += element(&a->in[0], a->attr.gemm.trans_a, r, l) *
                    element(&a->in[1], a->attr.gemm.trans_b, l, c);
        if (!(fabs(got - want) <= tol)) {
            (void)fprintf(stderr, "bench_gemm: %s: (%ld, %ld) is %g, want %g\n", what, (long)r,
                          (long)c, got, want);
            exit(1);
        }
    }
}

static double median(double x[TURNS])
{
    qsort(x, TURNS, sizeof(x[0]), bench_by_value);
    return x[TURNS / 2];
}

static void bench(struct shares *shares, char kind, int64_t tokens, const int64_t shape[2],
                  int threads)
{
    int contestants = sn_blas_core() ? CONTESTANTS : CONTESTANTS - 1;
    struct product p = product_of(kind, tokens, shape[0], shape[1], threads);
    if (contestants > 2) {
        run(&p, 2);
        check(&p, &p.wide, "OpenBLAS");
    }
    run(&p, 0);
    check(&p, &p.wide, "fp32");
    run(&p, 1);
    check(&p, &p.half, "bf16");
    double flops = 2.0 * (double)p.m * (double)p.n * (double)p.k;
    int repeats = 1 + (int)(4e-3 * 1e11 * threads / flops);
    double rate[CONTESTANTS][TURNS], share[CONTESTANTS][TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        for (int c = 0; c < contestants; c++) {
            double start = sn_clock();
            for (int i = 0; i < repeats; i++)
                run(&p, c);
            rate[c][turn] = flops * repeats / (sn_clock() - start);
            double peak = bench_peak(c == 1 ? SN_BF16 : SN_F32, threads);
            share[c][turn] = peak > 0 ? rate[c][turn] / peak : 0;
        }
    }
    printf("%5ld x %5ld x %5ld %c |", (long)p.m, (long)p.n, (long)p.k, kind);
    for (int c = 0; c < contestants; c++) {
        double of_peak = median(share[c]);
        printf(" %6.0f (%4.2f)", median(rate[c]) * 1e-9, of_peak);
        if (c < 2)
            shares->of[c][shares->n] = of_peak;
    }
    shares->n++;
    printf("\n");
    (void)fflush(stdout);
    product_free(&p);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][2] = {{768, 2304}, {768, 768},   {768, 3072},
                                        {3072, 768}, {384, 1152},  {384, 1536},
                                        {1536, 384}, {768, 50304}, {384, 50304}};
    int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
    int64_t tokens = argc > 2 ? atol(argv[2]) : 256;
    struct shares shares = {.n = 0};
    bench_head();
    if (sn_blas_core())
        printf("OpenBLAS core %s%s\n", sn_blas_core(),
               sn_blas_is_held_back() ? ", held back by OPENBLAS_CORETYPE: unset it" : "");
    else
        printf("no OpenBLAS here to compare with (tools/deps bench)\n");
    printf("GEMM with %d threads, %ld tokens: median GFLOP/s (of the peak)\n", threads,
           (long)tokens);
    printf("    m       n       k      |    fp32          bf16        %s\n",
           sn_blas_core() ? "OpenBLAS" : "");
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (const char *kind = "fdw"; *kind; kind++)
            bench(&shares, *kind, tokens, shapes[s], threads);
    for (int c = 0; c < 2; c++) {
        enum sn_dtype t = c ? SN_BF16 : SN_F32;
        const char *instruction = bench_peak_instruction(t);
        qsort(shares.of[c], (size_t)shares.n, sizeof(double), bench_by_value);
        printf("%s: median %.2f, least %.2f of the peak of %s\n", sn_dtype_name(t),
               shares.of[c][shares.n / 2], shares.of[c][0],
               instruction ? instruction : "(unknown)");
    }
    return 0;
}
