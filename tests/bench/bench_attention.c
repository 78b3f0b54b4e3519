/*
 * bench_attention.c - GFLOP/s of causal attention, forward and backward, beside GEMM's rate.
 *
 *   build/tests/bench/bench_attention [THREADS]
 *
 * Operations are counted as the causal half: 2 S^2 d for each head forward (two products), 5 S^2 d
 * backward (five). Results are right by tests/unit/kernels/test_attention.c; here gradients are checked to
 * be finite. Printed are the median and, in brackets, the best of 7 turns.
 */
#include "kernels/cpu/cpu.h"
#include "lib/base/clock.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 7, CONTESTANTS = 4 };

struct shape {
    int64_t seq, samples;
    int32_t heads, kv_heads, d;
};

/* Operands as a model has them: q, k and v are columns of one matrix. */
struct attention {
    struct sn_args forward, backward, gemm;
    void *owned[6];
};

static void fill(void *p, enum sn_dtype t, int64_t n)
{
    uint32_t seed = 7;
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float)(seed >> 8) * 0x1p-23f - 1.0f;
        sn_row_store((char *)p + (size_t)i * sn_dtype_size(t), t, &v, 1);
    }
}

static struct sn_mat slice(void *p, enum sn_dtype t, int64_t rows, int64_t ld, int64_t col,
                           int64_t cols)
{
    return (struct sn_mat){(char *)p + (size_t)col * sn_dtype_size(t), t, rows, cols, ld};
}

static struct attention attention_of(const struct shape *s, enum sn_dtype t, int threads)
{
    struct attention x = {0};
    int64_t rows = s->seq * s->samples, q = (int64_t)s->heads * s->d, kv = s->kv_heads * s->d;
    int64_t ld = q + 2 * kv;
    for (int i = 0; i < 4; i++) {
        x.owned[i] = bench_room((size_t)(rows * ld) * 4);
        fill(x.owned[i], t, rows * ld);
    }
    x.owned[4] = bench_room((size_t)(rows * s->heads) * 4);
    struct sn_args *f = &x.forward, *b = &x.backward;
    f->attr = b->attr = (struct sn_attr){.attention.heads = s->heads,
                                         .attention.kv_heads = s->kv_heads,
                                         .attention.head_dim = s->d,
                                         .position.seq = s->seq,
                                         .attention.scale = 1.0f / sqrtf((float)s->d)};
    f->in[0] = b->in[0] = slice(x.owned[0], t, rows, ld, 0, q);
    f->in[1] = b->in[1] = slice(x.owned[0], t, rows, ld, q, kv);
    f->in[2] = b->in[2] = slice(x.owned[0], t, rows, ld, q + kv, kv);
    f->out[0] = b->in[3] = slice(x.owned[1], t, rows, q, 0, q);
    f->out[1] = b->in[5] = slice(x.owned[4], SN_F32, rows, s->heads, 0, s->heads);
    b->in[4] = slice(x.owned[2], t, rows, q, 0, q);
    b->out[0] = slice(x.owned[3], t, rows, ld, 0, q);
    b->out[1] = slice(x.owned[3], t, rows, ld, q, kv);
    b->out[2] = slice(x.owned[3], t, rows, ld, q + kv, kv);
    /* a product of about the same number of operations, fp32: 768 x 768 x 768 */
    x.gemm.in[0] = x.gemm.in[1] = slice(bench_room(768 * 768 * 4), SN_F32, 768, 768, 0, 768);
    x.gemm.out[0] = slice(bench_room(768 * 768 * 4), SN_F32, 768, 768, 0, 768);
    const struct sn_ops *ops = sn_ops_cpu();
    size_t need = ops->scratch(SN_OP_ATTENTION, f, threads);
    size_t more = ops->scratch(SN_OP_ATTENTION_DX, b, threads);
    size_t most = ops->scratch(SN_OP_GEMM, &x.gemm, threads);
    need = need > more ? need : more;
    x.owned[5] = bench_room(need > most ? need : most);
    f->scratch = b->scratch = x.gemm.scratch = x.owned[5];
    return x;
}

static void attention_free(struct attention *x)
{
    for (int i = 0; i < 6; i++)
        free(x->owned[i]);
    free(x->gemm.in[0].p);
    free(x->gemm.out[0].p);
}

static void run(const struct attention *x, int what, int threads)
{
    const struct sn_ops *ops = sn_ops_cpu();
    if (what == 0 || what == 2)
        (void)ops->run[SN_OP_ATTENTION](&x->forward, threads);
    if (what == 1 || what == 2)
        (void)ops->run[SN_OP_ATTENTION_DX](&x->backward, threads);
    if (what == 3)
        (void)ops->run[SN_OP_GEMM](&x->gemm, threads);
}

static void bench(const struct shape *s, enum sn_dtype t, int threads)
{
    struct attention x = attention_of(s, t, threads);
    run(&x, 2, threads);
    float last;
    sn_row_load(&last, sn_mat_row(&x.backward.out[0], s->seq * s->samples - 1), t, 1);
    if (!isfinite(last)) {
        (void)fprintf(stderr, "bench_attention: a gradient is %g\n", (double)last);
        exit(1);
    }
    double unit = (double)(s->samples * s->heads * s->d) * (double)s->seq * (double)s->seq;
    double flops[CONTESTANTS] = {2 * unit, 5 * unit, 7 * unit, 2.0 * 768 * 768 * 768};
    double seconds[CONTESTANTS][TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        for (int c = 0; c < CONTESTANTS; c++) {
            int repeats = 1 + (int)(4e-3 * 1e11 * threads / flops[c]);
            double start = sn_clock();
            for (int i = 0; i < repeats; i++)
                run(&x, c, threads);
            seconds[c][turn] = (sn_clock() - start) / repeats;
        }
    }
    printf("%-4s %5ld %3ld %3d/%-3d %4d |", sn_dtype_name(t), (long)s->seq, (long)s->samples,
           s->heads, s->kv_heads, s->d);
    for (int c = 0; c < CONTESTANTS; c++) {
        qsort(seconds[c], TURNS, sizeof(double), bench_by_value);
        printf(" %6.0f (%4.0f)", flops[c] / seconds[c][TURNS / 2] * 1e-9,
               flops[c] / seconds[c][0] * 1e-9);
    }
    printf("\n");
    (void)fflush(stdout);
    attention_free(&x);
}

int main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {1024, 1, 12, 12, 64}, {256, 4, 6, 6, 64},  {64, 16, 12, 12, 64},
        {1024, 1, 16, 4, 128}, {2048, 1, 8, 2, 64}, {128, 8, 4, 4, 32},
    };
    int threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
    bench_head();
    printf("ATTENTION with %d threads: median (best) GFLOP/s, causal half counted\n", threads);
    printf("type   seq  n   heads    d |   forward       backward      both          GEMM\n");
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        bench(&shapes[s], SN_F32, threads);
        bench(&shapes[s], SN_BF16, threads);
    }
    return 0;
}
