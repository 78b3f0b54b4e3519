/*
 * bench_forms.c - does it pay to transpose an operand of a product first? The products of a layer, f: Y =
 * X W^T (NT), d: dX = dY W (NN), w: dW = dY^T X (TN), each in all four forms of its operands.
 *
 *   build/tests/bench/bench_forms [THREADS [TOKENS]]
 *
 * Of each: microseconds in the form that the step program has, and by how much the fastest other form
 * is faster (below 0: slower), in percent of it: with an operand that lies there transposed already, and
 * when those that differ are brought over first, in tiles that stay in the cache. Forms take turns; printed are medians of 9 turns of at least 4 ms.
 */
#include "kernels/cpu/cpu.h"
#include "lib/base/clock.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 9, FORMS = 4, OPERANDS = 2, CONTESTANTS = FORMS + OPERANDS, TILE = 32 };

struct product {
    struct sn_args form[FORMS];        /* bit 0: A is stored transposed, bit 1: B is */
    struct sn_mat stored[OPERANDS][2]; /* as it is, and transposed */
    int native, threads;
    double flops;
};

static struct sn_mat matrix(enum sn_dtype t, int64_t rows, int64_t cols, uint32_t seed)
{
    struct sn_mat x = {bench_room((size_t)(rows * cols) * sn_dtype_size(t)), t, rows, cols, cols};
    float *line = bench_room((size_t)cols * sizeof(*line));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < cols; i++) {
            seed = seed * 1664525u + 1013904223u;
            line[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
        }
        sn_row_store((char *)x.p + (size_t)(r * cols) * sn_dtype_size(t), t, line, cols);
    }
    free(line);
    return x;
}

static void product_init(struct product *p, enum sn_dtype t, const int64_t mnk[3])
{
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct sn_mat a[2] = {matrix(t, m, k, 1), matrix(t, k, m, 1)};
    struct sn_mat b[2] = {matrix(t, k, n, 2), matrix(t, n, k, 2)};
    struct sn_mat c = matrix(t, m, n, 3);
    size_t most = 0;
    for (int f = 0; f < FORMS; f++) {
        struct sn_args *x = &p->form[f];
        *x = (struct sn_args){.attr = {.gemm.trans_a = f & 1, .gemm.trans_b = f >> 1}};
        x->in[0] = a[f & 1];
        x->in[1] = b[f >> 1];
        x->out[0] = c;
        size_t need = sn_ops_cpu()->scratch(SN_OP_GEMM, x, p->threads);
        most = need > most ? need : most;
    }
    for (int f = 0; f < FORMS; f++)
        p->form[f].scratch = f ? p->form[0].scratch : bench_room(most);
    for (int i = 0; i < 2; i++) {
        p->stored[0][i] = a[i];
        p->stored[1][i] = b[i];
    }
    p->flops = 2.0 * (double)m * (double)n * (double)k;
}

static void product_fini(struct product *p)
{
    for (int i = 0; i < 2; i++) {
        free(p->form[i].in[0].p);
        free(p->form[2 * i].in[1].p);
    }
    free(p->form[0].out[0].p);
    free(p->form[0].scratch);
}

#define TRANSPOSE_TILE(type)                                                                       \
    for (int64_t r = r0; r < r1; r++)                                                              \
        for (int64_t c = c0; c < c1; c++)                                                          \
            ((type *)y->p)[c * y->ld + r] = ((const type *)x->p)[r * x->ld + c];

static void bring_over(const struct sn_mat *x, const struct sn_mat *y, int threads)
{
#pragma omp parallel for num_threads(threads)
    for (int64_t r0 = 0; r0 < x->rows; r0 += TILE) {
        int64_t r1 = r0 + TILE < x->rows ? r0 + TILE : x->rows;
        for (int64_t c0 = 0; c0 < x->cols; c0 += TILE) {
            int64_t c1 = c0 + TILE < x->cols ? c0 + TILE : x->cols;
            if (x->dtype == SN_F32)
                TRANSPOSE_TILE(uint32_t)
            else
                TRANSPOSE_TILE(uint16_t)
        }
    }
}

static double once(const struct product *p, int contestant, int repeats)
{
    double start = sn_clock();
    for (int i = 0; i < repeats; i++)
        if (contestant < FORMS)
            (void)sn_ops_cpu()->run[SN_OP_GEMM](&p->form[contestant], p->threads);
        else {
            const struct sn_mat *of = p->stored[contestant - FORMS];
            bring_over(&of[0], &of[1], p->threads);
        }
    return (sn_clock() - start) / repeats;
}

struct gains {
    double most[2]; /* already there, brought over */
    int better, n;
};

static void bench(struct gains *g, const char *what, char kind, struct product *p,
                  const int64_t mnk[3])
{
    double seconds[CONTESTANTS][TURNS], median[CONTESTANTS], best[2] = {1e30, 1e30};
    int repeats = 1 + (int)(4e-3 * 1e11 * p->threads / p->flops);
    for (int turn = 0; turn < TURNS + 1; turn++)
        for (int c = 0; c < CONTESTANTS; c++) /* the first turn warms up */
            seconds[c][turn ? turn - 1 : 0] = once(p, c, turn ? repeats : 1);
    for (int c = 0; c < CONTESTANTS; c++) {
        qsort(seconds[c], TURNS, sizeof(double), bench_by_value);
        median[c] = seconds[c][TURNS / 2];
    }
    double native = median[p->native];
    for (int f = 0; f < FORMS; f++) {
        int differs = f ^ p->native;
        double moved = (differs & 1 ? median[FORMS] : 0) + (differs & 2 ? median[FORMS + 1] : 0);
        if (!differs)
            continue;
        best[0] = median[f] < best[0] ? median[f] : best[0];
        best[1] = median[f] + moved < best[1] ? median[f] + moved : best[1];
    }
    printf("%-12s %5ld x %5ld x %5ld %c | %9.0f us | %6.1f %% | %6.1f %%\n", what, (long)mnk[0],
           (long)mnk[1], (long)mnk[2], kind, 1e6 * native, 100 * (1 - best[0] / native),
           100 * (1 - best[1] / native));
    (void)fflush(stdout);
    for (int i = 0; i < 2; i++)
        g->most[i] = 1 - best[i] / native > g->most[i] ? 1 - best[i] / native : g->most[i];
    g->better += best[1] < native;
    g->n++;
}

static void bench_layer(struct gains *g, const char *name, enum sn_dtype t, const int64_t shape[3],
                        int threads)
{
    static const char kinds[] = "fdw";
    static const int native[] = {2, 0, 1};
    int64_t tokens = shape[0], in = shape[1], out = shape[2];
    const int64_t mnk[][3] = {{tokens, out, in}, {tokens, in, out}, {out, in, tokens}};
    for (int k = 0; k < 3; k++) {
        struct product p = {.native = native[k], .threads = threads};
        char what[32];
        (void)snprintf(what, sizeof(what), "%.7s %s", name, sn_dtype_name(t));
        product_init(&p, t, mnk[k]);
        bench(g, what, kinds[k], &p, mnk[k]);
        product_fini(&p);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int64_t in, out;
    } shapes[] = {{"124m", 768, 2304}, {"124m", 768, 3072}, {"124m", 3072, 768},
                  {"0.5b", 896, 1152}, {"0.5b", 896, 9728}, {"0.5b", 4864, 896},
                  {"1b", 2048, 6144},  {"1b", 2048, 8192},  {"1b", 8192, 2048},
                  {"8b", 4096, 6144},  {"8b", 4096, 28672}, {"8b", 14336, 4096}};
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    int64_t tokens = argc > 2 ? atol(argv[2]) : 256;
    struct gains g = {.n = 0};
    bench_head();
    printf("products with %d threads, %ld tokens, as they are and in the fastest other form\n",
           threads, (long)tokens);
    printf("layer            m       n       k    |    as it is  |  there   |  brought over\n");
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
        for (int t = 0; t < 2; t++) {
            int64_t shape[] = {tokens, shapes[s].in, shapes[s].out};
            bench_layer(&g, shapes[s].name, t ? SN_BF16 : SN_F32, shape, threads);
        }
    printf("%d of %d products gain when operands are brought over, %.1f %% at most; %.1f %% where "
           "they are "
           "there\n",
           g.better, g.n, 100 * g.most[1], 100 * g.most[0]);
    return 0;
}
