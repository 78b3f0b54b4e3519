/*
 * bench_elementwise.c - the memory-bound operations: GB/s, beside those of a copy of as many bytes
 * in turn with them, after each result was checked against the generic instruction set with one
 * thread.
 *
 *   build/tests/bench/bench_elementwise [THREADS [T [D]]]
 *
 * Bytes are those of the operands, each read or written once (a sum over rows or an update in place
 * reads and writes). Lines that the processor reads before it writes them are not counted, neither
 * here nor for the copy. The operation and the copy (of half the bytes, which it reads and writes,
 * by the same threads) take turns for a tenth of a second each: the ratio is the median of the
 * pairs', between the tenth and the ninetieth of a hundred. The rate is of the median time.
 */
/* Its conversions are wanted; tests are compiled without OpenMP. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "kernels/cpu/cpu.h"
#pragma GCC diagnostic pop

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double SECONDS /* per operation */ = 0.1;
enum { REPEATS_MIN = 5, REPEATS_MAX = 2000, VOCABULARY = 4096, SAMPLES = 4, HEAD = 64 };

/* Shapes of operands: activations in the storage type, vectors, statistics and
 * gradients in fp32. */
enum shape {
    NONE,
    TD,
    T2D,
    WD,
    PD,
    D1,
    D1_F32,
    N1_F32,
    N1,
    T1_F32,
    T2_F32,
    IDS,
    TABLE_F32,
    LOGITS, /* as many elements as TD, in rows of the vocabulary */
    WORDS,
    LOSSES
};

struct row {
    const char *name;
    enum sn_op_kind kind;
    enum shape in[SN_MAX_IN], out[SN_MAX_OUT];
    bool reads_out; /* outputs are read too */
};

/* clang-format off */
static const struct row rows[] = {
    {"zero",           SN_OP_ZERO,         {NONE},                         {TD},                     false},
    {"copy",           SN_OP_COPY,         {TD},                           {TD},                     false},
    {"embed",          SN_OP_EMBED,        {IDS, WD, PD},                  {TD},                     false},
    {"embed_grad",     SN_OP_EMBED_GRAD,   {IDS, TD},                      {TABLE_F32},              true},
    {"layernorm",      SN_OP_LAYERNORM,    {TD, D1, D1},                   {TD, T2_F32},             false},
    {"layernorm_dx",   SN_OP_LAYERNORM_DX, {TD, TD, D1, T2_F32, TD},       {TD},                     false},
    {"layernorm_dx + dw", SN_OP_LAYERNORM_DX, {TD, TD, D1, T2_F32, TD},    {TD, D1_F32, D1_F32},     false},
    {"layernorm_dw",   SN_OP_LAYERNORM_DW, {TD, TD, T2_F32},               {D1_F32, D1_F32},         false},
    {"rmsnorm",        SN_OP_RMSNORM,      {TD, D1},                       {TD, T1_F32},             false},
    {"rmsnorm_dx",     SN_OP_RMSNORM_DX,   {TD, TD, D1, T1_F32, TD},       {TD},                     false},
    {"rmsnorm_dx + dw", SN_OP_RMSNORM_DX, {TD, TD, D1, T1_F32, TD},        {TD, D1_F32},             false},
    {"rmsnorm_dw",     SN_OP_RMSNORM_DW,   {TD, TD, T1_F32},               {D1_F32},                 false},
    {"colsum",         SN_OP_COLSUM,       {TD},                           {D1_F32},                 false},
    {"rope",           SN_OP_ROPE,         {TD},                           {TD},                     false},
    {"gelu",           SN_OP_ACT,          {TD},                           {TD},                     false},
    {"gelu_dx",        SN_OP_ACT_DX,       {TD, TD},                       {TD},                     false},
    {"swiglu",         SN_OP_SWIGLU,       {T2D},                          {TD},                     false},
    {"swiglu_dx",      SN_OP_SWIGLU_DX,    {TD, T2D},                      {T2D},                    false},
    {"add",            SN_OP_ADD,          {TD, TD},                       {TD},                     false},
    {"dropout",        SN_OP_DROPOUT,      {TD},                           {TD},                     false},
    {"cross_entropy",  SN_OP_CROSS_ENTROPY, {LOGITS, WORDS},               {LOGITS, LOSSES},         false},
    {"sq_norm",        SN_OP_SQ_NORM,      {N1_F32},                       {NONE},                   false},
    {"adamw",          SN_OP_ADAMW,        {N1_F32},                       {N1_F32, N1_F32, N1_F32}, true},
    {"adamw + weights", SN_OP_ADAMW,       {N1_F32},                       {N1_F32, N1_F32, N1_F32, N1}, true},
};
/* clang-format on */

struct bench {
    int threads;
    int64_t t, d;
    enum sn_dtype dtype;
};

static void *must(void *p)
{
    if (!p) {
        (void)fprintf(stderr, "bench_elementwise: no memory; give a smaller T or D\n");
        exit(1);
    }
    return p;
}

static struct sn_mat mat_of(enum shape s, const struct bench *b)
{
    int64_t t = b->t, d = b->d, r = (t * d + VOCABULARY - 1) / VOCABULARY;
    switch (s) {
    case NONE:
        return (struct sn_mat){0};
    case TD:
        return (struct sn_mat){NULL, b->dtype, t, d, d};
    case T2D:
        return (struct sn_mat){NULL, b->dtype, t, 2 * d, 2 * d};
    case WD:
        return (struct sn_mat){NULL, b->dtype, VOCABULARY, d, d};
    case PD:
        return (struct sn_mat){NULL, b->dtype, t / SAMPLES, d, d};
    case D1:
        return (struct sn_mat){NULL, b->dtype, 1, d, d};
    case D1_F32:
        return (struct sn_mat){NULL, SN_F32, 1, d, d};
    case N1_F32:
        return (struct sn_mat){NULL, SN_F32, 1, t * d, t * d};
    case N1:
        return (struct sn_mat){NULL, b->dtype, 1, t * d, t * d};
    case T1_F32:
        return (struct sn_mat){NULL, SN_F32, t, 1, 1};
    case T2_F32:
        return (struct sn_mat){NULL, SN_F32, t, 2, 2};
    case IDS:
        return (struct sn_mat){NULL, SN_I32, t, 1, 1};
    case TABLE_F32:
        return (struct sn_mat){NULL, SN_F32, VOCABULARY, d, d};
    case LOGITS:
        return (struct sn_mat){NULL, b->dtype, r, VOCABULARY, VOCABULARY};
    case WORDS:
        return (struct sn_mat){NULL, SN_I32, r, 1, 1};
    case LOSSES:
        return (struct sn_mat){NULL, SN_F32, r, 1, 1};
    }
    return (struct sn_mat){0};
}

static size_t bytes_of(const struct sn_mat *m)
{
    return (size_t)(m->rows * m->ld) * sn_dtype_size(m->dtype);
}

/* Values near 1 in magnitude, also for what must be positive; ids for i32. */
static void fill(struct sn_mat *m, bool positive)
{
    enum { PERIOD = 4099 };
    float z[PERIOD];
    sn_rng_normal(1, (uint64_t)bytes_of(m), PERIOD, 1.0f, z);
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        float v = positive ? fabsf(z[i % PERIOD]) : z[i % PERIOD];
        if (m->dtype == SN_I32)
            ((int32_t *)m->p)[i] = (int32_t)(sn_rng_bits(2, (uint64_t)i) % VOCABULARY);
        else
            sn_row_store((char *)m->p + (size_t)i * sn_dtype_size(m->dtype), m->dtype, &v, 1);
    }
}

static void setup(struct sn_args *a, struct sn_scalars *s, const struct row *row,
                  const struct bench *b)
{
    *a = (struct sn_args){.scalars = s};
    *s = (struct sn_scalars){.seed = 1,
                             .step = 1,
                             .lr = 1e-3f,
                             .ok = 1,
                             .grad_scale = 1.0f,
                             .adam_count = 10,
                             .targets_in_step = 1.0,
                             .loss_scale = 1.0f};
    a->attr = (struct sn_attr){.attention.heads = (int32_t)(b->d / HEAD),
                               .attention.head_dim = HEAD,
                               .attention.rotary_dim = HEAD,
                               .position.seq = b->t / SAMPLES,
                               .attention.theta = 1e4f,
                               .eps = 1e-5f,
                               .random.drop = 0.1f,
                               .optimizer.eps = 1e-8f,
                               .optimizer.beta1 = 0.9f,
                               .optimizer.beta2 = 0.95f,
                               .optimizer.decay = 0.1f};
    for (int i = 0; i < SN_MAX_IN + SN_MAX_OUT; i++) {
        bool is_in = i < SN_MAX_IN;
        int o = i - SN_MAX_IN;
        struct sn_mat *m = is_in ? &a->in[i] : &a->out[o];
        *m = mat_of(is_in ? row->in[i] : row->out[o], b);
        if (!m->rows)
            continue;
        m->p = must(sn_arena_map(bytes_of(m)));
        if (is_in || row->reads_out)
            fill(m, row->kind == SN_OP_ADAMW && o == 2);
        if (row->kind == SN_OP_EMBED_GRAD && !is_in)
            a->acc[o] = SN_ADD;
    }
    size_t scratch = sn_ops_cpu()->scratch(row->kind, a, b->threads);
    a->scratch = must(sn_arena_map(scratch + 64));
}

static void teardown(struct sn_args *a, const struct row *row, const struct bench *b)
{
    sn_arena_unmap(a->scratch, sn_ops_cpu()->scratch(row->kind, a, b->threads) + 64);
    for (int i = 0; i < SN_MAX_IN; i++)
        sn_arena_unmap(a->in[i].p, bytes_of(&a->in[i]));
    for (int o = 0; o < SN_MAX_OUT; o++)
        sn_arena_unmap(a->out[o].p, bytes_of(&a->out[o]));
}

static float element(const struct sn_mat *m, int64_t i)
{
    float v;
    sn_row_load(&v, (char *)m->p + (size_t)i * sn_dtype_size(m->dtype), m->dtype, 1);
    return v;
}

extern const struct sn_ops sn_cpu_table_generic;

/* Both backends from the same state: do they agree? */
static bool agrees(const struct row *row, const struct bench *b)
{
    struct sn_args x, y;
    struct sn_scalars sx, sy;
    setup(&x, &sx, row, b);
    setup(&y, &sy, row, b);
    bool good = sn_cpu_table_generic.run[row->kind](&x, 1) == 0;
    good = sn_ops_cpu()->run[row->kind](&y, b->threads) == 0 && good;
    for (int o = 0; o < SN_MAX_OUT; o++) {
        const struct sn_mat *m = &x.out[o];
        /* a sum over T rows may cancel: its roundings are those of its terms */
        double size = row->out[o] == D1_F32 ? sqrt((double)b->t) : 1.0;
        double tol = m->dtype == SN_F32 ? 1e-5 : m->dtype == SN_BF16 ? 0x1p-7 : 0x1p-10;
        for (int64_t i = 0; i < m->rows * m->cols; i++) {
            double want = (double)element(m, i), got = (double)element(&y.out[o], i);
            good = good && fabs(got - want) <= tol * fmax(size, fabs(want));
        }
    }
    good = good && fabs(sx.sq_norm - sy.sq_norm) <= 1e-12 * sx.sq_norm;
    good = good && fabs(sx.loss_sum - sy.loss_sum) <= 1e-6 * sx.loss_sum;
    teardown(&x, row, b);
    teardown(&y, row, b);
    return good;
}

/* Rows that a table lends are counted, not the table. */
static double traffic(const struct row *row, const struct sn_args *a, const struct bench *b)
{
    double sum = 0.0;
    for (int i = 0; i < SN_MAX_IN; i++)
        sum += row->in[i] == WD ? (double)bytes_of(&a->out[0]) : (double)bytes_of(&a->in[i]);
    for (int o = 0; o < SN_MAX_OUT; o++) {
        bool is_table = row->out[o] == TABLE_F32;
        double bytes = is_table ? 4.0 * (double)(b->t * b->d) : (double)bytes_of(&a->out[o]);
        sum += bytes * (row->reads_out && row->out[o] != N1 ? 2.0 : 1.0);
    }
    return sum;
}

/* The copy that an operation takes turns with. */
static struct sn_args copy_of(double bytes)
{
    int64_t n = (int64_t)(bytes / (2 * sizeof(float)));
    struct sn_mat x = {NULL, SN_F32, 1, n, n}, y = x;
    x.p = must(sn_arena_map(bytes_of(&x)));
    y.p = must(sn_arena_map(bytes_of(&y)));
    return (struct sn_args){.in = {x}, .out = {y}};
}

static double seconds(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    double start = sn_clock();
    (void)sn_ops_cpu()->run[kind](a, threads); /* checked before */
    return sn_clock() - start;
}

static bool measure(const struct row *row, const struct bench *b)
{
    if (!agrees(row, b)) {
        printf("%-17s %-5s WRONG: differs from the generic kernel\n", row->name,
               sn_dtype_name(b->dtype));
        return false;
    }
    struct sn_args a;
    struct sn_scalars s;
    double time[REPEATS_MAX], ratio[REPEATS_MAX];
    int n = 0;
    setup(&a, &s, row, b);
    double bytes = traffic(row, &a, b);
    struct sn_args copy = copy_of(bytes);
    (void)seconds(row->kind, &a, b->threads); /* warms up, as the next does */
    (void)seconds(SN_OP_COPY, &copy, b->threads);
    double began = sn_clock();
    while (n < REPEATS_MIN || (n < REPEATS_MAX && sn_clock() - began < 2 * SECONDS)) {
        time[n] = seconds(row->kind, &a, b->threads);
        ratio[n] = seconds(SN_OP_COPY, &copy, b->threads) / time[n];
        n++;
    }
    qsort(time, (size_t)n, sizeof(time[0]), bench_by_value);
    qsort(ratio, (size_t)n, sizeof(ratio[0]), bench_by_value);
    printf("%-17s %-5s %8.3f ms %7.1f GB/s  %4.2f of a copy (%4.2f .. %4.2f, %d pairs)\n",
           row->name, sn_dtype_name(b->dtype), time[n / 2] * 1e3, bytes * 1e-9 / time[n / 2],
           ratio[n / 2], ratio[n / 10], ratio[n - 1 - n / 10], n);
    sn_arena_unmap(copy.in[0].p, bytes_of(&copy.in[0]));
    sn_arena_unmap(copy.out[0].p, bytes_of(&copy.out[0]));
    teardown(&a, row, b);
    return true;
}

int main(int argc, char **argv)
{
    bench_head();
    struct bench b = {.threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2,
                      .t = argc > 2 ? strtol(argv[2], NULL, 10) : 8192,
                      .d = argc > 3 ? strtol(argv[3], NULL, 10) : 1024};
    if (b.threads < 1 || b.t < SAMPLES || b.d < HEAD || b.t % SAMPLES || b.d % HEAD) {
        (void)fprintf(stderr,
                      "usage: bench_elementwise [THREADS [T [D]]]; T a multiple of %d, D of "
                      "%d\n",
                      SAMPLES, HEAD);
        return 2;
    }
    bool good = true;
    static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16};
    printf("# %d threads, T %ld, D %ld\n", b.threads, (long)b.t, (long)b.d);
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            b.dtype = dtypes[t];
            good = measure(&rows[i], &b) && good;
        }
    return good ? 0 : 1;
}
