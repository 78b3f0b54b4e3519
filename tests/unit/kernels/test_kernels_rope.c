/*
 * ROPE against the formula with libm's sine and cosine.
 */
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

struct rope {
    int32_t heads, head_dim, rotary_dim;
    int64_t seq, samples, rest; /* rest: columns after the heads */
    float theta;
    bool inverse;
    bool given; /* frequencies of their own, and an amplitude */
    int32_t from;
    bool together; /* pairs are neighbours */
};

static double frequency(const struct rope *p, int64_t i)
{
    double w = pow((double)p->theta, -2.0 * (double)i / (double)p->rotary_dim);
    return p->given ? w / (1.5 + (double)(i % 3)) : w;
}

static void reference(const struct kt *k, const struct rope *p, double *y)
{
    const struct sn_mat *x = &k->a.in[0];
    int64_t half = p->rotary_dim / 2;
    for (int64_t r = 0; r < x->rows; r++) {
        for (int64_t c = 0; c < x->cols; c++)
            y[r * x->cols + c] = kt_get(x, r, c);
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < half; i++) {
                double t = (double)(r % p->seq) * frequency(p, i) * (p->inverse ? -1.0 : 1.0);
                double of = p->given ? 1.25 : 1.0;
                int64_t c = h * p->head_dim + p->from + (p->together ? 2 * i : i);
                int64_t other = p->together ? c + 1 : c + half;
                double lo = kt_get(x, r, c), hi = kt_get(x, r, other);
                y[r * x->cols + c] = of * (lo * cos(t) - hi * sin(t));
                y[r * x->cols + other] = of * (hi * cos(t) + lo * sin(t));
            }
    }
}

static bool rope_case(const struct rope *p, enum sn_dtype t, int64_t pad, bool in_place)
{
    struct kt k = {.magnitude = 1.0};
    int64_t cols = (int64_t)p->heads * p->head_dim + p->rest;
    struct kt_shape s = {t, p->seq * p->samples, cols, pad};
    kt_in(&k, 0, s);
    k.a.attr = (struct sn_attr){.attention.heads = p->heads,
                                .attention.head_dim = p->head_dim,
                                .attention.rotary_dim = p->rotary_dim,
                                .attention.rotary_from = p->from,
                                .attention.interleaved = p->together,
                                .position.seq = p->seq,
                                .attention.theta = p->theta,
                                .inverse = p->inverse};
    double w[1100];
    for (int64_t i = 0; i < p->rotary_dim / 2; i++)
        w[i] = frequency(p, i);
    if (p->given) {
        k.a.attr.attention.frequencies = w;
        k.a.attr.attention.amplitude = 1.25f;
    }
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    reference(&k, p, kt_ref(&k, 0));
    bool good = kt_check(&k, SN_OP_ROPE, 3e-7);
    kt_free(&k);
    return good;
}

static const struct rope cases[] = {
    {1, 2, 2, 5, 1, 0, 10000.0f, false, false, 0, false},
    {3, 64, 64, 33, 2, 0, 10000.0f, false, false, 0, false},
    {3, 64, 64, 33, 2, 70, 10000.0f, true, false, 0, false},
    {2, 100, 50, 65, 3, 7, 500000.0f, false, false, 0, false},
    {5, 16, 4, 130, 1, 0, 1e6f, true, false, 0, false},
    {1, 1200, 1100, 17, 1, 1, 10000.0f, false, false, 0, false},
    {3, 64, 64, 133, 2, 70, 10000.0f, true, true, 0, false},
    {2, 100, 50, 65, 3, 7, 500000.0f, false, true, 0, false},
    /* from a column on, and neighbours */
    {3, 192, 64, 33, 2, 128, 10000.0f, false, false, 128, true},
    {3, 192, 64, 33, 2, 128, 10000.0f, true, true, 128, false},
    {2, 22, 6, 65, 1, 3, 10000.0f, true, false, 7, true},
    {1, 1200, 1100, 17, 1, 1, 10000.0f, false, false, 33, true},
};

static void every_case_equals_the_formula(enum sn_dtype t)
{
    bool good = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int place = 0; place < 2; place++)
            good = rope_case(&cases[i], t, (int64_t)(i % 3) * 3, place == 1) && good;
    tap_ok(good, "ROPE of %s equals the formula, both ways, in place too", sn_dtype_name(t));
}

static void far_positions_keep_their_angle(void)
{
    static const struct rope p = {1, 8, 8, 131072, 1, 0, 10000.0f, false, false, 0, false};
    tap_ok(rope_case(&p, SN_F32, 0, true), "the angle is right at position 131071");
}

static void inverse_undoes(void)
{
    struct kt k = {0};
    const struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, 200, 256, 0});
    k.a.attr = (struct sn_attr){.attention.heads = 4,
                                .attention.head_dim = 64,
                                .attention.rotary_dim = 64,
                                .position.seq = 100,
                                .attention.theta = 10000.0f};
    kt_take(&k, 0, 0);
    double *before = kt_ref(&k, 0), worst = 0.0;
    for (int64_t i = 0; i < x->rows * x->cols; i++)
        before[i] = kt_get(x, i / x->cols, i % x->cols);
    bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_ROPE, 2);
    k.a.attr.inverse = true;
    ran = kt_run(&k, sn_ops_cpu(), SN_OP_ROPE, 2) && ran;
    for (int64_t i = 0; i < x->rows * x->cols; i++)
        worst = fmax(worst, fabs(kt_get(x, i / x->cols, i % x->cols) - before[i]));
    kt_free(&k);
    tap_ok(ran && worst < 1e-6, "the inverse turns back (off by %.2g)", worst);
}

int main(void)
{
    for (int t = 0; t < 3; t++)
        every_case_equals_the_formula(dtypes[t]);
    far_positions_keep_their_angle();
    inverse_undoes();
    return tap_done();
}
