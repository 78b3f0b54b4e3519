/*
 * GEMM with an epilogue against plain loops in double; on the processor, bit for bit, against the
 * two operations that it is.
 */
#include "tests/lib/kernel_test.h"

#include <math.h>

struct product {
    int64_t m, n, k, pad;
};

/* What is drawn, where it lies, and which parts of the contract are there. */
struct variant {
    enum sn_epilogue epilogue;
    enum sn_act act;
    bool bias, keeps;   /* keeps: x is wanted */
    enum sn_acc acc[2]; /* of C and of sums of columns */
};

/* Widths of whole 8 are what a device's library takes; others are a device's own. */
static const struct product shapes[] = {{37, 104, 50, 0},   {16, 96, 800, 8}, {64, 64, 64, 0},
                                        {5, 110, 70, 1},    {9, 47, 33, 5},   {1, 16, 16, 0},
                                        {128, 72, 130, 16}, {72, 24, 200, 0}, {40, 80, 40, 0}};
enum { NSHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static double gelu(double x, enum sn_act act)
{
    return act == SN_ACT_GELU_TANH ? x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
                                   : x / 2 * (1 + erf(x / sqrt(2)));
}

static double slope(double x, enum sn_act act)
{
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    if (act == SN_ACT_GELU_TANH)
        return (1 + t) / 2 + x / 2 * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

static double element(const struct sn_mat *m, bool trans, int64_t r, int64_t c)
{
    return trans ? kt_get(m, c, r) : kt_get(m, r, c);
}

static double sum_of(const struct kt *k, const struct product *g, int64_t r, int64_t c)
{
    double sum = k->a.in[2].p ? kt_get(&k->a.in[2], 0, c) : 0;
    for (int64_t l = 0; l < g->k; l++)
        sum += element(&k->a.in[0], k->a.attr.gemm.trans_a, r, l) *
               element(&k->a.in[1], k->a.attr.gemm.trans_b, l, c);
    return sum;
}

/* References of all outputs. */
static void reference(struct kt *k, const struct product *g)
{
    double *c = kt_ref(k, 0), *other = k->a.out[1].p ? kt_ref(k, 1) : NULL;
    enum sn_epilogue e = k->a.attr.gemm.epilogue;
    for (int64_t i = 0; i < g->m * g->n; i++) {
        double sum = sum_of(k, g, i / g->n, i % g->n);
        if (e == SN_EPILOGUE_ACT && other)
            other[i] = sum;
        c[i] += e == SN_EPILOGUE_ACT ? gelu(sum, k->a.attr.act)
                : e == SN_EPILOGUE_ACT_DX
                    ? sum * slope(kt_get(&k->a.in[4], i / g->n, i % g->n), k->a.attr.act)
                    : sum;
    }
    for (int64_t i = 0; e == SN_EPILOGUE_COLSUM && i < g->m * g->k; i++)
        other[i % g->m] += kt_get(&k->a.in[0], i / g->m, i % g->m);
}

/* The operands: forward A W^T, gradient of the input dy W, of the weights dy^T x. */
static void make(struct kt *k, const struct product *g, const struct variant *v, enum sn_dtype t)
{
    bool dw = v->epilogue == SN_EPILOGUE_COLSUM, forward = v->epilogue == SN_EPILOGUE_ACT;
    enum sn_dtype result = dw ? SN_F32 : t;
    *k = (struct kt){.magnitude = 1.0 + sqrt((double)g->k)};
    k->a.attr = (struct sn_attr){
        .gemm.trans_a = dw, .gemm.trans_b = forward, .gemm.epilogue = v->epilogue, .act = v->act};
    kt_in(k, 0, (struct kt_shape){t, dw ? g->k : g->m, dw ? g->m : g->k, g->pad});
    kt_in(k, 1, (struct kt_shape){t, forward ? g->n : g->k, forward ? g->k : g->n, g->pad});
    if (v->bias)
        kt_in(k, 2, (struct kt_shape){t, 1, g->n, 0});
    if (v->epilogue == SN_EPILOGUE_ACT_DX)
        kt_in(k, 4, (struct kt_shape){t, g->m, g->n, g->pad});
    kt_out(k, 0, (struct kt_shape){result, g->m, g->n, g->pad}, v->acc[0]);
    if (forward && v->keeps)
        kt_out(k, 1, (struct kt_shape){t, g->m, g->n, g->pad}, SN_WRITE);
    if (dw)
        kt_out(k, 1, (struct kt_shape){SN_F32, 1, g->m, 0}, v->acc[1]);
}

/* As test_gemm.c's tolerance, and of an activation one unit of storage of what it reads: that is
 * rounded, or not, before. */
static bool right(const struct product *g, const struct variant *v, enum sn_dtype t)
{
    struct kt k;
    double unit = t == SN_BF16 ? 0x1p-8 : t == SN_F16 ? 0x1p-11 : 0;
    make(&k, g, v, t);
    reference(&k, g);
    bool good =
        kt_check(&k, SN_OP_GEMM,
                 2e-6 + 2e-8 * (double)g->k + (v->epilogue == SN_EPILOGUE_COLSUM ? 0 : 1.2 * unit));
    kt_free(&k);
    if (!good)
        printf("# m %ld n %ld k %ld\n", (long)g->m, (long)g->n, (long)g->k);
    return good;
}

static const struct {
    const char *name;
    struct variant v;
} ways[] = {
    {"GELU, with x", {SN_EPILOGUE_ACT, SN_ACT_GELU_TANH, true, true, {SN_WRITE, SN_WRITE}}},
    {"GELU alone", {SN_EPILOGUE_ACT, SN_ACT_GELU_TANH, true, false, {SN_WRITE, SN_WRITE}}},
    {"GELU without a bias", {SN_EPILOGUE_ACT, SN_ACT_GELU_TANH, false, true, {SN_WRITE, SN_WRITE}}},
    {"GELU with erf", {SN_EPILOGUE_ACT, SN_ACT_GELU_ERF, true, true, {SN_WRITE, SN_WRITE}}},
    {"its slope", {SN_EPILOGUE_ACT_DX, SN_ACT_GELU_TANH, false, false, {SN_WRITE, SN_WRITE}}},
    {"its slope, with erf",
     {SN_EPILOGUE_ACT_DX, SN_ACT_GELU_ERF, false, false, {SN_WRITE, SN_WRITE}}},
    {"sums of columns", {SN_EPILOGUE_COLSUM, SN_ACT_GELU_TANH, false, false, {SN_WRITE, SN_WRITE}}},
    {"sums of columns, added",
     {SN_EPILOGUE_COLSUM, SN_ACT_GELU_TANH, false, false, {SN_ADD, SN_ADD}}},
    {"sums of columns, added beside new weights",
     {SN_EPILOGUE_COLSUM, SN_ACT_GELU_TANH, false, false, {SN_WRITE, SN_ADD}}},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
static const enum sn_dtype types[] = {SN_F32, SN_BF16, SN_F16};

static void every_epilogue_is_right(void)
{
    for (int w = 0; w < WAYS; w++)
        for (int t = 0; t < 3; t++) {
            bool good = true;
            for (int s = 0; s < NSHAPES; s++)
                good = right(&shapes[s], &ways[w].v, types[t]) && good;
            tap_ok(good, "%s, %s: all shapes", ways[w].name, sn_dtype_name(types[t]));
        }
}

/* The two operations, one after the other, on the operands of one. */
static bool run_apart(struct kt *k, const struct sn_ops *ops)
{
    struct kt product = *k, other = {0};
    enum sn_epilogue e = k->a.attr.gemm.epilogue;
    product.a.attr.gemm.epilogue = SN_EPILOGUE_NONE;
    product.a.out[1].p = product.a.in[4].p = NULL;
    if (e == SN_EPILOGUE_ACT && k->a.out[1].p)
        product.a.out[0] = k->a.out[1];
    other.a.attr.act = k->a.attr.act;
    other.a.in[0] = e == SN_EPILOGUE_COLSUM ? k->a.in[0] : product.a.out[0];
    other.a.in[1] = k->a.in[4];
    other.a.out[0] = k->a.out[e == SN_EPILOGUE_COLSUM];
    other.a.acc[0] = k->a.acc[e == SN_EPILOGUE_COLSUM];
    return kt_run(&product, ops, SN_OP_GEMM, 2) && kt_run(&other, ops,
                                                          e == SN_EPILOGUE_ACT      ? SN_OP_ACT
                                                          : e == SN_EPILOGUE_ACT_DX ? SN_OP_ACT_DX
                                                                                    : SN_OP_COLSUM,
                                                          2);
}

static bool same_bits(const struct product *g, const struct variant *v, enum sn_dtype t)
{
    struct kt k;
    make(&k, g, v, t);
    for (int s = SN_MAX_IN; s < KT_SLOTS; s++)
        if (k.image[s])
            memcpy(k.saved[s], k.image[s], k.bytes[s]);
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_GEMM, 2);
    for (int s = SN_MAX_IN; s < KT_SLOTS; s++)
        if (k.image[s]) {
            memcpy(k.first_run[s], k.image[s], k.bytes[s]);
            memcpy(k.image[s], k.saved[s], k.bytes[s]);
        }
    good = run_apart(&k, sn_ops_cpu()) && good;
    for (int s = SN_MAX_IN; s < KT_SLOTS; s++)
        good = good && (!k.image[s] || memcmp(k.first_run[s], k.image[s], k.bytes[s]) == 0);
    kt_free(&k);
    return good;
}

static void an_epilogue_has_the_bits_of_two_operations(void)
{
    for (int w = 0; w < WAYS; w++) {
        bool good = true;
        for (int s = 0; s < NSHAPES; s++)
            for (int t = 0; t < 3; t++)
                good = same_bits(&shapes[s], &ways[w].v, types[t]) && good;
        tap_ok(good, "%s: the bits of both operations apart", ways[w].name);
    }
}

int main(void)
{
    every_epilogue_is_right();
    if (!kt_slack) /* a device may round once where they round twice */
        an_epilogue_has_the_bits_of_two_operations();
    return tap_done();
}
