/*
 * Exact sums (kernels/exact.h): the parts in which ranks and micro-batches have the terms, in whatever
 * order, give the bits of the whole; and these are near the sum in doubles.
 */
#include "tests/lib/kernel_test.h"

#include <math.h>

enum { ROWS = 96, COLS = 70, OUT = 53, DEPTH = 8, WORDS = 9, SCRATCH = 64 << 20 };

/* Where the rows are cut, in multiples of DEPTH, and in which order the parts come. */
static const int64_t cut[] = {0, 8, 56, 72, 96};
static const int order[] = {2, 0, 3, 1};
enum { PARTS = 4 };

static struct sn_scalars scalars = {.loss_scale = 1.0f, .targets_in_step = 384.0};
static void *scratch;

static struct sn_mat mat(enum sn_dtype type, int64_t rows, int64_t cols)
{
    struct sn_mat m = {kt_alloc((size_t)(rows * cols) * sn_dtype_size(type)), type, rows, cols,
                       cols};
    memset(m.p, 0, (size_t)(rows * cols) * sn_dtype_size(type));
    return m;
}

/* Of several magnitudes, so that sums in another order have other bits. */
static struct sn_mat drawn(enum sn_dtype type, int64_t rows, int64_t cols, unsigned seed)
{
    struct sn_mat m = mat(type, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        double x = (double)(seed >> 8) / (1 << 23) - 1.0;
        kt_set(&m, i / cols, i % cols, ldexp(x, (int)(seed % 7) - 4));
    }
    return m;
}

static struct sn_mat rows_of(struct sn_mat m, int64_t first, int64_t end)
{
    m.p = (char *)m.p + (size_t)(first * m.ld) * sn_dtype_size(m.dtype);
    m.rows = m.p && m.rows > 1 ? end - first : m.rows;
    return m;
}

static bool same(const struct sn_mat *a, const struct sn_mat *b)
{
    return memcmp(a->p, b->p, (size_t)(a->rows * a->cols) * sn_dtype_size(a->dtype)) == 0;
}

static void run(const struct sn_ops *ops, enum sn_op_kind kind, struct sn_args *a, int threads)
{
    a->scalars = &scalars;
    a->scratch = scratch;
    if (ops->scratch(kind, a, threads) > SCRATCH || ops->run[kind](a, threads) != 0)
        abort();
}

static void free_all(struct sn_args *a)
{
    for (int i = 0; i < SN_MAX_IN; i++)
        free(a->in[i].p);
    for (int i = 0; i < SN_MAX_OUT; i++)
        free(a->out[i].p);
}

/* Sums over rows: of the whole, then of parts that add to one another, on other threads. */
static bool parts_add_up(const struct sn_ops *ops, enum sn_op_kind kind, struct sn_args *a)
{
    bool good = true;
    struct sn_args part = *a, other = *a;
    a->attr.exact = (struct sn_exact_attr){SN_EXACT_WEIGHTS, .depth = DEPTH};
    for (int o = 0; o < SN_MAX_OUT; o++) {
        other.out[o] = a->out[o].p ? mat(SN_F64, a->out[o].rows, a->out[o].cols) : a->out[o];
        part.acc[o] = a->acc[o] = SN_ADD;
    }
    run(ops, kind, a, 1);
    for (int k = 0; k < PARTS; k++) {
        int64_t first = cut[order[k]], end = cut[order[k] + 1];
        part.attr = a->attr;
        part.attr.position.row0 = first;
        for (int i = 0; i < SN_MAX_IN; i++)
            part.in[i] = rows_of(a->in[i], first, end);
        for (int o = 0; o < SN_MAX_OUT; o++)
            part.out[o] = other.out[o];
        run(ops, kind, &part, 1 + k);
    }
    for (int o = 0; o < SN_MAX_OUT; o++)
        good = good && (!a->out[o].p || same(&a->out[o], &other.out[o]));
    for (int o = 0; o < SN_MAX_OUT; o++)
        free(other.out[o].p);
    return good;
}

static void sums_of_rows(const struct sn_ops *ops, enum sn_dtype type)
{
    struct sn_args a = {.in = {drawn(type, ROWS, OUT, 1)}, .out = {mat(SN_F64, 1, OUT)}};
    tap_ok(parts_add_up(ops, SN_OP_COLSUM, &a), "%s %s: colsum", ops->name, sn_dtype_name(type));
    double sum = 0;
    for (int64_t r = 0; r < ROWS; r++)
        sum += kt_get(&a.in[0], r, 5);
    tap_ok(fabs(sum - kt_get(&a.out[0], 0, 5)) <= ROWS * 0x1p-47, "and the sum of the rows");
    free_all(&a);
    a = (struct sn_args){
        .in = {drawn(type, ROWS, OUT, 1), drawn(type, ROWS, OUT, 2), drawn(SN_F32, ROWS, 1, 3)},
        .out = {mat(SN_F64, 1, OUT)}};
    tap_ok(parts_add_up(ops, SN_OP_RMSNORM_DW, &a), "%s: rmsnorm's weights", ops->name);
    free_all(&a);
    a = (struct sn_args){
        .in = {drawn(type, ROWS, OUT, 1), drawn(type, ROWS, OUT, 2), drawn(SN_F32, ROWS, 2, 3)},
        .out = {mat(SN_F64, 1, OUT), mat(SN_F64, 1, OUT)}};
    tap_ok(parts_add_up(ops, SN_OP_LAYERNORM_DW, &a), "%s: layernorm's weights and biases",
           ops->name);
    free_all(&a);
}

static void sums_of_embeddings(const struct sn_ops *ops, enum sn_dtype type)
{
    struct sn_args a = {.in = {mat(SN_I32, ROWS, 1), drawn(type, ROWS, OUT, 4)},
                        .out = {mat(SN_F64, WORDS, OUT)}};
    for (int64_t r = 0; r < ROWS; r++)
        kt_set(&a.in[0], r, 0, (double)(r * r % WORDS));
    tap_ok(parts_add_up(ops, SN_OP_EMBED_GRAD, &a), "%s: embeddings", ops->name);
    free_all(&a);
    a = (struct sn_args){.in = {drawn(type, ROWS, OUT, 5)}, .out = {mat(SN_F64, ROWS / 4, OUT)}};
    a.attr.position.seq = ROWS / 4;
    tap_ok(parts_add_up(ops, SN_OP_POS_GRAD, &a), "%s: positions", ops->name);
    free_all(&a);
}

/* Gradients of weights: sums over rows of both operands. */
static void products_over_tokens(const struct sn_ops *ops, enum sn_dtype type)
{
    struct sn_args a = {.in = {drawn(type, ROWS, OUT, 6), drawn(type, ROWS, COLS, 7)},
                        .out = {mat(SN_F64, OUT, COLS)}};
    a.attr.gemm.trans_a = true;
    tap_ok(parts_add_up(ops, SN_OP_GEMM, &a), "%s %s: products over tokens", ops->name,
           sn_dtype_name(type));
    double worst = 0;
    for (int64_t i = 0; i < OUT * COLS; i++) {
        double sum = 0;
        for (int64_t r = 0; r < ROWS; r++)
            sum += kt_get(&a.in[0], r, i / COLS) * kt_get(&a.in[1], r, i % COLS);
        worst = fmax(worst, fabs(sum - kt_get(&a.out[0], i / COLS, i % COLS)));
    }
    tap_ok(worst < 1e-5, "and near the product in doubles (%g)", worst);
    free_all(&a);
}

/* A product whose depth ranks share out: partial sums in fp64, added up, are those of one rank, which
 * rounds them itself. Bias and addend are on one of the ranks. */
static void products_in_parts(const struct sn_ops *ops, enum sn_dtype type)
{
    enum { M = 37 };
    struct sn_args whole = {.in = {drawn(type, M, ROWS, 8), drawn(type, ROWS, COLS, 9),
                                   drawn(type, 1, COLS, 10), drawn(type, M, COLS, 11)},
                            .out = {mat(type, M, COLS)}};
    whole.attr.exact = (struct sn_exact_attr){SN_EXACT_VALUES, .depth = DEPTH};
    struct sn_mat sum = mat(SN_F64, M, COLS), rounded = mat(type, M, COLS);
    run(ops, SN_OP_GEMM, &whole, 2);
    for (int k = 0; k < PARTS; k++) {
        struct sn_args part = whole;
        int64_t first = cut[order[k]], n = cut[order[k] + 1] - first;
        part.in[SN_GEMM_A].p = (char *)part.in[SN_GEMM_A].p + (size_t)first * sn_dtype_size(type);
        part.in[SN_GEMM_A].cols = n;
        part.in[SN_GEMM_B] = rows_of(part.in[SN_GEMM_B], first, first + n);
        if (k != 1)
            part.in[SN_GEMM_BIAS] = part.in[SN_GEMM_ADDEND] = (struct sn_mat){0};
        part.out[SN_GEMM_C] = sum;
        part.acc[SN_GEMM_C] = k ? SN_ADD : SN_WRITE;
        run(ops, SN_OP_GEMM, &part, 1 + k);
    }
    struct sn_args copy = {.in = {sum}, .out = {rounded}};
    run(ops, SN_OP_COPY, &copy, 1);
    tap_ok(same(&whole.out[0], &rounded), "%s %s: products in parts", ops->name,
           sn_dtype_name(type));
    free(sum.p);
    free(rounded.p);
    free_all(&whole);
}

static void norms(const struct sn_ops *ops)
{
    enum { N = 150000 };
    struct sn_scalars whole, parts;
    struct sn_args a = {.in = {drawn(SN_F32, 1, N, 12)}};
    float *g = a.in[0].p;
    double squares = 0;
    for (int i = 0; i < N; i++) {
        g[i] *= i % 3 ? 1e-6f : 1.0f;
        squares += (double)g[i] * (double)g[i];
    }
    a.attr.exact.of = SN_EXACT_WEIGHTS;
    memset(scalars.sq_exact, 0, sizeof(scalars.sq_exact));
    run(ops, SN_OP_SQ_NORM, &a, 3);
    whole = scalars;
    memset(scalars.sq_exact, 0, sizeof(scalars.sq_exact));
    const int at[] = {N, 100000, 99999, 17, 0};
    for (int k = 0; k < 4; k++) {
        a.in[0].p = g + at[k + 1];
        a.in[0].cols = a.in[0].ld = at[k] - at[k + 1];
        run(ops, SN_OP_SQ_NORM, &a, 1 + k);
    }
    parts = scalars;
    double of_whole = 0, of_parts = 0, carry[2] = {0}, unit = 0x1p-92;
    bool good = true;
    for (int i = 0; i < SN_NAGREE_EXACT; i++, unit *= 0x1p32) { /* digits of 32 bits, carried on */
        double x = whole.sq_exact[i] + carry[0], y = parts.sq_exact[i] + carry[1];
        carry[0] = floor(x * 0x1p-32);
        carry[1] = floor(y * 0x1p-32);
        good = good && x - carry[0] * 0x1p32 == y - carry[1] * 0x1p32;
        of_whole += (x - carry[0] * 0x1p32) * unit;
        of_parts += (y - carry[1] * 0x1p32) * unit;
    }
    tap_ok(good && of_whole == of_parts, "%s: norms", ops->name);
    tap_ok(fabs(of_whole - squares) <= 1e-12 * squares, "and the sum of squares: %.17g, %.17g",
           of_whole, squares);
    g[3] = INFINITY;
    g[4] = NAN;
    scalars.nonfinite = 0;
    a.in[0].p = g;
    a.in[0].cols = a.in[0].ld = N;
    run(ops, SN_OP_SQ_NORM, &a, 2);
    tap_ok(scalars.nonfinite == 2, "%s: what is not finite is counted", ops->name);
    free_all(&a);
}

/* A vocabulary in six parts, on one rank, and on ranks that have four and two of them. */
static void losses(const struct sn_ops *ops, enum sn_dtype type)
{
    enum { R = 5, V = 72, FIRST = 48, OF = 12, N = V / OF };
    struct sn_args whole = {.in = {drawn(type, R, V, 13), mat(SN_I32, R, 1)},
                            .out = {mat(type, R, V), mat(SN_F32, R, 1)}};
    for (int r = 0; r < R; r++)
        kt_set(&whole.in[1], r, 0, 13 * r + 2);
    whole.attr.exact = (struct sn_exact_attr){SN_EXACT_LOSSES, .depth = OF};
    whole.attr.vocab.words = V - 3;
    struct sn_mat parts = mat(SN_F32, R * N, 3), d = mat(type, R, V), row_loss = mat(SN_F32, R, 1);
    run(ops, SN_OP_CROSS_ENTROPY, &whole, 2);
    struct sn_args rank[2] = {whole, whole};
    for (int k = 0; k < 2; k++) {
        rank[k].attr.vocab.first = k ? FIRST : 0;
        rank[k].in[0].cols = k ? V - FIRST : FIRST;
        rank[k].in[0].p = (char *)whole.in[0].p + (size_t)(k ? FIRST : 0) * sn_dtype_size(type);
        struct sn_args part = rank[k];
        part.out[0] = rows_of(parts, k ? R * FIRST / OF : 0, k ? R * N : R * FIRST / OF);
        part.out[1] = (struct sn_mat){0};
        run(ops, SN_OP_CE_PART, &part, 1 + k);
    }
    bool good = true;
    for (int k = 0; k < 2; k++) {
        rank[k].in[SN_CROSS_ENTROPY_PARTS] = parts;
        rank[k].out[0] = rank[k].in[0];
        rank[k].out[0].p = (char *)d.p + (size_t)(k ? FIRST : 0) * sn_dtype_size(type);
        rank[k].out[1] = row_loss;
        run(ops, SN_OP_CROSS_ENTROPY, &rank[k], 1);
        good = good && same(&row_loss, &whole.out[1]);
    }
    tap_ok(good && same(&d, &whole.out[0]), "%s %s: losses", ops->name, sn_dtype_name(type));
    free(parts.p);
    free(d.p);
    free(row_loss.p);
    free_all(&whole);
}

int main(void)
{
    const struct sn_ops *table[KT_TABLES];
    int n = kt_tables(table);
    scratch = kt_alloc(SCRATCH);
    for (int i = 0; i < n; i++) {
        for (int t = 0; t < 2; t++) {
            enum sn_dtype type = t ? SN_BF16 : SN_F32;
            sums_of_rows(table[i], type);
            sums_of_embeddings(table[i], type);
            products_over_tokens(table[i], type);
            products_in_parts(table[i], type);
            losses(table[i], type);
        }
        norms(table[i]);
    }
    free(scratch);
    return tap_done();
}
