/*
 * HEAD_NORM and its gradients against their formulas in double, and SCALE.
 */
#include "tests/lib/kernel_test.h"

static const double eps = 1e-5, shift = 0.75;
static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

struct heads {
    int32_t query, kv, d;
    int64_t rows, rest; /* rest: columns behind the heads */
};

static const struct heads cases[] = {
    {1, 1, 2, 3, 0}, {4, 2, 8, 70, 16}, {3, 1, 128, 9, 128}, {2, 2, 1100, 5, 7}, {6, 3, 64, 130, 0},
};

static int64_t cols_of(const struct heads *p)
{
    return (int64_t)(p->query + p->kv) * p->d + p->rest;
}

static struct sn_attr attr_of(const struct heads *p)
{
    return (struct sn_attr){.eps = (float)eps,
                            .shift = (float)shift,
                            .attention.heads = p->query,
                            .attention.kv_heads = p->kv,
                            .attention.head_dim = p->d};
}

static double scale_of(const struct sn_mat *x, int64_t r, int64_t first, int64_t d)
{
    double square = 0;
    for (int64_t i = 0; i < d; i++)
        square += kt_get(x, r, first + i) * kt_get(x, r, first + i) / (double)d;
    return 1 / sqrt(square + eps);
}

static bool forward_case(const struct heads *p, enum sn_dtype t)
{
    struct kt k = {.magnitude = 1.0};
    struct kt_shape s = {t, p->rows, cols_of(p), 3};
    const struct sn_mat *x = kt_in(&k, 0, s),
                        *w = kt_in(&k, 1, (struct kt_shape){t, 1, 2 * p->d, 0});
    k.a.attr = attr_of(p);
    kt_out(&k, 0, s, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, p->rows, p->query + p->kv, 0}, SN_WRITE);
    double *y = kt_ref(&k, 0), *stats = kt_ref(&k, 1);
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < s.cols; c++)
            y[r * s.cols + c] = kt_get(x, r, c);
        for (int64_t h = 0; h < p->query + p->kv; h++) {
            double scale = scale_of(x, r, h * p->d, p->d);
            stats[r * (p->query + p->kv) + h] = scale;
            for (int64_t i = 0; i < p->d; i++)
                y[r * s.cols + h * p->d + i] *=
                    scale * (shift + kt_get(w, 0, (h < p->query ? 0 : p->d) + i));
        }
    }
    bool good = kt_check(&k, SN_OP_HEAD_NORM, 2e-6);
    kt_free(&k);
    return good;
}

/* Operands dy, x, (w,) stats; what is given of x is what the forward kernel gives. */
static bool backward_case(const struct heads *p, enum sn_dtype t, bool sums, bool in_place)
{
    struct kt k = {.magnitude = sums ? 10.0 : 1.0}; /* sums of up to 780 terms */
    struct kt_shape s = {t, p->rows, cols_of(p), in_place ? 0 : 3};
    int64_t blocks = p->query + p->kv;
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, s),
                        *w = kt_in(&k, 2, (struct kt_shape){t, 1, 2 * p->d, 0});
    const struct sn_mat *stats = kt_in(&k, 3, (struct kt_shape){SN_F32, p->rows, blocks, 0});
    k.a.attr = attr_of(p);
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *dx = kt_ref(&k, 0), *dw = NULL;
    if (sums) {
        const struct sn_mat *to = kt_out(&k, 1, (struct kt_shape){SN_F32, 1, 2 * p->d, 0}, SN_ADD);
        dw = kt_ref(&k, 1);
        for (int64_t i = 0; i < 2 * p->d; i++)
            dw[i] = kt_get(to, 0, i);
    }
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < s.cols; c++)
            dx[r * s.cols + c] = kt_get(dy, r, c);
        for (int64_t h = 0; h < blocks; h++) {
            int64_t first = h * p->d, of = h < p->query ? 0 : p->d;
            double scale = (float)scale_of(x, r, first, p->d), mean = 0;
            kt_set(stats, r, h, scale);
            for (int64_t i = 0; i < p->d; i++)
                mean += (shift + kt_get(w, 0, of + i)) * kt_get(dy, r, first + i) *
                        kt_get(x, r, first + i) / (double)p->d;
            for (int64_t i = 0; i < p->d; i++) {
                double g = kt_get(dy, r, first + i), v = kt_get(x, r, first + i);
                dx[r * s.cols + first + i] =
                    scale * ((shift + kt_get(w, 0, of + i)) * g - v * scale * scale * mean);
                if (dw)
                    dw[of + i] += g * v * scale;
            }
        }
    }
    bool good = kt_check(&k, SN_OP_HEAD_NORM_DX, 5e-6);
    kt_free(&k);
    return good;
}

/* The sums alone are those of the gradient with them. */
static bool sums_case(const struct heads *p, enum sn_dtype t)
{
    struct kt k = {.magnitude = 10.0};
    struct kt_shape s = {t, p->rows, cols_of(p), 0};
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, s);
    int64_t blocks = p->query + p->kv;
    const struct sn_mat *stats = kt_in(&k, 2, (struct kt_shape){SN_F32, p->rows, blocks, 0});
    k.a.attr = attr_of(p);
    kt_out(&k, 0, (struct kt_shape){SN_F32, 1, 2 * p->d, 0}, SN_WRITE);
    double *dw = kt_ref(&k, 0);
    for (int64_t i = 0; i < 2 * p->d; i++)
        dw[i] = 0;
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t h = 0; h < blocks; h++) {
            kt_set(stats, r, h, 1.0 + 0.1 * (double)(h % 3));
            for (int64_t i = 0; i < p->d; i++)
                dw[(h < p->query ? 0 : p->d) + i] +=
                    kt_get(dy, r, h * p->d + i) * kt_get(x, r, h * p->d + i) * kt_get(stats, r, h);
        }
    bool good = kt_check(&k, SN_OP_HEAD_NORM_DW, 5e-6);
    kt_free(&k);
    return good;
}

static void every_case_equals_the_formula(enum sn_dtype t)
{
    bool forward = true, backward = true, sums = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        forward = forward_case(&cases[i], t) && forward;
        for (int form = 0; form < 4; form++)
            backward = backward_case(&cases[i], t, form & 1, form & 2) && backward;
        sums = sums_case(&cases[i], t) && sums;
    }
    tap_ok(forward, "HEAD_NORM of %s equals the formula", sn_dtype_name(t));
    tap_ok(backward, "and its gradients, in place too");
    tap_ok(sums, "and those of its weights alone");
}

static void scaled_by_a_number(enum sn_dtype t)
{
    struct kt k = {.magnitude = 1.0};
    struct kt_shape s = {t, 7, 1030, 5};
    const struct sn_mat *x = kt_in(&k, 0, s);
    k.a.attr.scale = 0.22f;
    kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        y[i] = (double)0.22f * kt_get(x, i / s.cols, i % s.cols);
    tap_ok(kt_check(&k, SN_OP_SCALE, 1e-7), "SCALE of %s is a product", sn_dtype_name(t));
    kt_free(&k);
}

int main(void)
{
    for (int t = 0; t < 3; t++) {
        every_case_equals_the_formula(dtypes[t]);
        scaled_by_a_number(dtypes[t]);
    }
    return tap_done();
}
