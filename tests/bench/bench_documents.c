/*
 * bench_documents.c - attention of packed documents beside that of whole samples, forward and backward.
 *
 *   build/tests/bench/bench_documents [THREADS]
 *
 * Documents of an eighth of the sequence have an eighth of the scores. First the results are checked:
 * those of documents in one sample are those of the same rows as samples of their own, which know no
 * documents. Exit 1 where they differ, or where documents take more than 0.4 of the whole sample's
 * time (ratio of medians of 9 turns, both in each).
 */
#include "kernels/ops.h"
#include "lib/base/clock.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TURNS = 9, DOCUMENTS = 8 };
static const double most = 0.4;

struct shape {
    int64_t seq;
    int32_t heads, kv_heads, d;
};

/* Operands as a model has them: q, k and v are columns of one matrix. out: o, dq | dk | dv, lse. */
struct attention {
    struct sn_args forward, backward;
    void *in[3], *out[3], *scratch, *starts;
    int64_t rows, ld, q;
};

static void fill(float *p, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

static struct sn_mat slice(void *p, int64_t rows, int64_t ld, int64_t col, int64_t cols)
{
    return (struct sn_mat){(float *)p + col, SN_F32, rows, cols, ld};
}

/* seq: of a sample, of which there are as many as s->seq holds. */
static struct attention attention_of(const struct shape *s, int64_t seq, bool apart, int threads)
{
    int64_t q = (int64_t)s->heads * s->d, kv = (int64_t)s->kv_heads * s->d;
    struct attention x = {.rows = s->seq, .ld = q + 2 * kv, .q = q};
    for (int i = 0; i < 3; i++)
        x.out[i] = bench_room((size_t)(x.rows * x.ld) * sizeof(float));
    x.in[0] = bench_room((size_t)(x.rows * x.ld) * sizeof(float));
    x.in[1] = bench_room((size_t)(x.rows * q) * sizeof(float));
    fill(x.in[0], x.rows * x.ld, 7);
    fill(x.in[1], x.rows * q, 11);
    int32_t *starts = x.starts = bench_room((size_t)x.rows * sizeof(int32_t));
    int64_t document = s->seq / DOCUMENTS;
    for (int64_t i = 0; i < x.rows; i++)
        starts[i] = (int32_t)(i / document * document);
    struct sn_args *f = &x.forward, *b = &x.backward;
    f->attr = b->attr = (struct sn_attr){.attention.heads = s->heads,
                                         .attention.kv_heads = s->kv_heads,
                                         .attention.head_dim = s->d,
                                         .position.seq = seq,
                                         .attention.scale = 1.0f / sqrtf((float)s->d)};
    f->in[SN_ATTENTION_Q] = b->in[SN_ATTENTION_DX_Q] = slice(x.in[0], x.rows, x.ld, 0, q);
    f->in[SN_ATTENTION_K] = b->in[SN_ATTENTION_DX_K] = slice(x.in[0], x.rows, x.ld, q, kv);
    f->in[SN_ATTENTION_V] = b->in[SN_ATTENTION_DX_V] = slice(x.in[0], x.rows, x.ld, q + kv, kv);
    f->out[SN_ATTENTION_O] = b->in[SN_ATTENTION_DX_O] = slice(x.out[0], x.rows, q, 0, q);
    f->out[SN_ATTENTION_LSE] = b->in[SN_ATTENTION_DX_LSE] =
        slice(x.out[2], x.rows, s->heads, 0, s->heads);
    b->in[SN_ATTENTION_DX_DO] = slice(x.in[1], x.rows, q, 0, q);
    b->out[SN_ATTENTION_DX_DQ] = slice(x.out[1], x.rows, x.ld, 0, q);
    b->out[SN_ATTENTION_DX_DK] = slice(x.out[1], x.rows, x.ld, q, kv);
    b->out[SN_ATTENTION_DX_DV] = slice(x.out[1], x.rows, x.ld, q + kv, kv);
    if (apart)
        f->in[SN_ATTENTION_STARTS] = b->in[SN_ATTENTION_DX_STARTS] =
            (struct sn_mat){starts, SN_I32, x.rows, 1, 1};
    const struct sn_ops *ops = sn_ops_cpu();
    size_t need = ops->scratch(SN_OP_ATTENTION, f, threads);
    size_t more = ops->scratch(SN_OP_ATTENTION_DX, b, threads);
    x.scratch = bench_room(need > more ? need : more);
    f->scratch = b->scratch = x.scratch;
    return x;
}

static void attention_free(struct attention *x)
{
    for (int i = 0; i < 3; i++) {
        free(x->in[i]);
        free(x->out[i]);
    }
    free(x->scratch);
    free(x->starts);
}

static double run(const struct attention *x, int threads)
{
    const struct sn_ops *ops = sn_ops_cpu();
    double begin = sn_clock();
    (void)ops->run[SN_OP_ATTENTION](&x->forward, threads);
    (void)ops->run[SN_OP_ATTENTION_DX](&x->backward, threads);
    return sn_clock() - begin;
}

/* Largest difference, relative to the largest element. */
static double off(const float *a, const float *b, int64_t n)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    return worst / largest;
}

static void check(const struct shape *s, const struct attention *packed, int threads)
{
    struct attention alone = attention_of(s, s->seq / DOCUMENTS, false, threads);
    (void)run(packed, threads);
    (void)run(&alone, threads);
    double o = off(packed->out[0], alone.out[0], packed->rows * packed->q);
    double d = off(packed->out[1], alone.out[1], packed->rows * packed->ld);
    if (!(o <= 1e-5) || !(d <= 1e-5)) {
        (void)fprintf(
            stderr, "bench_documents: packed documents are off by %.1e, their gradients by %.1e\n",
            o, d);
        exit(1);
    }
    attention_free(&alone);
}

static bool bench(const struct shape *s, int threads)
{
    struct attention packed = attention_of(s, s->seq, true, threads);
    struct attention whole = attention_of(s, s->seq, false, threads);
    double t_packed[TURNS], t_whole[TURNS];
    check(s, &packed, threads);
    (void)run(&whole, threads);
    for (int turn = 0; turn < TURNS; turn++) {
        t_packed[turn] = run(&packed, threads);
        t_whole[turn] = run(&whole, threads);
    }
    qsort(t_packed, TURNS, sizeof(double), bench_by_value);
    qsort(t_whole, TURNS, sizeof(double), bench_by_value);
    double ratio = t_packed[TURNS / 2] / t_whole[TURNS / 2];
    printf("%5ld tokens, %2d/%-2d heads of %3d: %8.3f ms, whole %8.3f ms, ratio %.3f\n",
           (long)s->seq, s->heads, s->kv_heads, s->d, t_packed[TURNS / 2] * 1e3,
           t_whole[TURNS / 2] * 1e3, ratio);
    attention_free(&packed);
    attention_free(&whole);
    return ratio <= most;
}

int main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {1024, 8, 8, 64}, {2048, 8, 2, 64}, {2048, 4, 4, 128}, {4096, 4, 4, 64}};
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    bool good = true;
    bench_head();
    printf(
        "attention, forward and backward, fp32, %d thread%s: documents of 1/%d of the sequence\n",
        threads, threads == 1 ? "" : "s", DOCUMENTS);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        good = bench(&shapes[i], threads) && good;
    if (!good)
        (void)fprintf(stderr, "bench_documents: a ratio is more than %.1f\n", most);
    return good ? 0 : 1;
}
