/*
 * ZERO, COPY, ADD, ACT, SWIGLU, GATE and their gradients, COLSUM: against formulas in double, whose
 * derivatives are checked by finite differences.
 */
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};
static const int64_t widths[] = {1, 7, 64, 100, 257, 768, 1100};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

static double gelu(enum sn_act act, double x)
{
    if (act == SN_ACT_GELU_ERF)
        return 0.5 * x * erfc(-x / sqrt(2.0)); /* 1 + erf without cancellation */
    double u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(-2.0 * u));
}

static double gelu_slope(enum sn_act act, double x)
{
    if (act == SN_ACT_GELU_ERF)
        return 0.5 * erfc(-x / sqrt(2.0)) + x * exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
    double u = sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
    double du = sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
    double s = 1.0 / (1.0 + exp(-2.0 * u));
    return s + x * s * (1.0 - s) * 2.0 * du;
}

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double silu_slope(double x)
{
    double s = 1.0 / (1.0 + exp(-x));
    return s + x * s * (1.0 - s);
}

static void slopes_are_the_derivatives(void)
{
    double worst = 0.0, h = 1e-5;
    for (double x = -6.0; x <= 6.0; x += 0.01) {
        for (int act = 0; act < 2; act++) {
            double slope =
                (gelu((enum sn_act)act, x + h) - gelu((enum sn_act)act, x - h)) / (2 * h);
            worst = fmax(worst, fabs(slope - gelu_slope((enum sn_act)act, x)));
        }
        worst = fmax(worst, fabs((silu(x + h) - silu(x - h)) / (2 * h) - silu_slope(x)));
    }
    tap_ok(worst < 1e-9, "the slopes of GELU and SiLU are the derivatives (off by %.2g)", worst);
}

/* Inputs far out too, where an exponential overflows. */
static void stretch(const struct sn_mat *x)
{
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < x->cols; c++) {
            double v = kt_get(x, r, c) * 3.0;
            kt_set(x, r, c, (r + c) % 61 == 60 ? v * 100.0 : v);
        }
}

static bool act_case(struct kt_shape s, enum sn_act act, bool in_place)
{
    struct kt k = {.magnitude = 1.0};
    const struct sn_mat *x = kt_in(&k, 0, s);
    stretch(x);
    k.a.attr.act = act;
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        y[i] = gelu(act, kt_get(x, i / s.cols, i % s.cols));
    bool good = kt_check(&k, SN_OP_ACT, 3e-7);
    kt_free(&k);
    return good;
}

/* place: -1 a fresh dx, else the input it takes */
static bool act_dx_case(struct kt_shape s, enum sn_act act, int place)
{
    struct kt k = {.magnitude = 1.0};
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, s);
    stretch(x);
    k.a.attr.act = act;
    if (place >= 0)
        kt_take(&k, 0, place);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *dx = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++) {
        int64_t r = i / s.cols, c = i % s.cols;
        dx[i] = kt_get(dy, r, c) * gelu_slope(act, kt_get(x, r, c));
    }
    bool good = kt_check(&k, SN_OP_ACT_DX, 1e-6);
    kt_free(&k);
    return good;
}

/* What is multiplied by what it gates, and its slope. */
static double gated(enum sn_gate gate, double x)
{
    return gate == SN_GATE_SILU ? silu(x) : gelu(SN_ACT_GELU_TANH, x);
}

static double gate_slope(enum sn_gate gate, double x)
{
    return gate == SN_GATE_SILU ? silu_slope(x) : gelu_slope(SN_ACT_GELU_TANH, x);
}

static bool swiglu_case(struct kt_shape s, enum sn_gate gate)
{
    struct kt k = {.magnitude = 1.0, .a.attr.gate = gate};
    const struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){s.dtype, s.rows, 2 * s.cols, s.pad});
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++)
            kt_set(x, r, c, kt_get(x, r, c) * ((r + c) % 61 ? 3.0 : 100.0));
    kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++) {
        int64_t r = i / s.cols, c = i % s.cols;
        y[i] = gated(gate, kt_get(x, r, c)) * kt_get(x, r, s.cols + c);
    }
    bool good = kt_check(&k, SN_OP_SWIGLU, 1e-6);
    kt_free(&k);
    return good;
}

static bool swiglu_dx_case(struct kt_shape s, enum sn_gate gate, bool in_place)
{
    struct kt k = {.magnitude = 10.0, .a.attr.gate = gate};
    struct kt_shape wide = {s.dtype, s.rows, 2 * s.cols, s.pad};
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, wide);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++)
            kt_set(x, r, c, kt_get(x, r, c) * ((r + c) % 61 ? 3.0 : 100.0));
    if (in_place)
        kt_take(&k, 0, 1);
    else
        kt_out(&k, 0, wide, SN_WRITE);
    double *dx = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            double g = kt_get(x, r, c), u = kt_get(x, r, s.cols + c), d = kt_get(dy, r, c);
            dx[r * wide.cols + c] = d * u * gate_slope(gate, g);
            dx[r * wide.cols + s.cols + c] = d * gated(gate, g);
        }
    bool good = kt_check(&k, SN_OP_SWIGLU_DX, 1e-6);
    kt_free(&k);
    return good;
}

static bool add_case(struct kt_shape s, int place)
{
    struct kt k = {.magnitude = 1.0};
    const struct sn_mat *a = kt_in(&k, 0, s), *b = kt_in(&k, 1, s);
    if (place >= 0)
        kt_take(&k, 0, place);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        y[i] = kt_get(a, i / s.cols, i % s.cols) + kt_get(b, i / s.cols, i % s.cols);
    bool good = kt_check(&k, SN_OP_ADD, 0.0);
    kt_free(&k);
    return good;
}

static bool scale_case(struct kt_shape s, bool in_place)
{
    struct kt k = {.magnitude = 3.0};
    const struct sn_mat *x = kt_in(&k, 0, s);
    k.a.attr.scale = 2.75f;
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        y[i] = 2.75 * kt_get(x, i / s.cols, i % s.cols);
    bool good = kt_check(&k, SN_OP_SCALE, 0.0);
    kt_free(&k);
    return good;
}

static bool colsum_case(struct kt_shape s, enum sn_acc acc)
{
    struct kt k = {.magnitude = sqrt((double)s.rows)};
    const struct sn_mat *dy = kt_in(&k, 0, s);
    kt_out(&k, 0, (struct kt_shape){SN_F32, 1, s.cols, 0}, acc);
    double *db = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        db[i % s.cols] += kt_get(dy, i / s.cols, i % s.cols);
    bool good = kt_check(&k, SN_OP_COLSUM, 1e-6);
    kt_free(&k);
    return good;
}

static double sigmoid(double z)
{
    return 1.0 / (1.0 + exp(-z));
}

/* What rows are times the sigmoid of; some far from 0. */
static const struct sn_mat *gates(struct kt *k, int in, int64_t rows)
{
    const struct sn_mat *z = kt_in(k, in, (struct kt_shape){SN_F32, rows, 1, 0});
    for (int64_t r = 0; r < rows; r++)
        kt_set(z, r, 0, kt_get(z, r, 0) * (r % 7 == 6 ? 100.0 : 3.0));
    return z;
}

static bool gate_case(struct kt_shape s, bool in_place)
{
    struct kt k = {.magnitude = 1.0};
    const struct sn_mat *x = kt_in(&k, 0, s), *z = gates(&k, 1, s.rows);
    if (in_place)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        y[i] = sigmoid(kt_get(z, i / s.cols, 0)) * kt_get(x, i / s.cols, i % s.cols);
    bool good = kt_check(&k, SN_OP_GATE, 3e-7);
    kt_free(&k);
    return good;
}

/* place: -1 a fresh dx, 0 and 1 the input it takes, 2 none */
static bool gate_dx_case(struct kt_shape s, int place)
{
    struct kt k = {.magnitude = sqrt((double)s.cols)};
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, s), *z = gates(&k, 2, s.rows);
    if (place == 0 || place == 1)
        kt_take(&k, 0, place);
    else if (place < 0)
        kt_out(&k, 0, s, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){s.dtype, s.rows, 1, 0}, SN_WRITE);
    double *dx = place == 2 ? NULL : kt_ref(&k, 0), *dz = kt_ref(&k, 1);
    for (int64_t r = 0; r < s.rows; r++) {
        double gate = sigmoid(kt_get(z, r, 0)), sum = 0;
        for (int64_t c = 0; c < s.cols; c++) {
            sum += kt_get(dy, r, c) * kt_get(x, r, c);
            if (dx)
                dx[r * s.cols + c] = gate * kt_get(dy, r, c);
        }
        dz[r] = sum * gate * sigmoid(-kt_get(z, r, 0));
    }
    bool good = kt_check(&k, SN_OP_GATE_DX, 1e-6);
    kt_free(&k);
    return good;
}

static void all_shapes(enum sn_dtype t)
{
    bool gelu_y = true, gelu_dx = true, glu_y = true, glu_dx = true, add = true, colsum = true, scale = true,
         gated_y = true, gate_dx = true;
    const char *type = sn_dtype_name(t);
    for (int i = 0; i < N_WIDTHS; i++)
        for (int64_t rows = 1; rows < 80; rows += 72) {
            struct kt_shape s = {t, rows, widths[i], i % 2 ? 5 : 0};
            for (int act = 0; act < 2; act++) {
                enum sn_act form = (enum sn_act)act;
                gelu_y = act_case(s, form, false) && act_case(s, form, true) && gelu_y;
                for (int place = -1; place < 2; place++)
                    gelu_dx = act_dx_case(s, form, place) && gelu_dx;
            }
            for (int gate = SN_GATE_SILU; gate <= SN_GATE_GELU_TANH; gate++) {
                glu_y = swiglu_case(s, gate) && glu_y;
                glu_dx = swiglu_dx_case(s, gate, false) && swiglu_dx_case(s, gate, true) && glu_dx;
            }
            for (int place = -1; place < 2; place++)
                add = add_case(s, place) && add;
            scale = scale_case(s, false) && scale_case(s, true) && scale;
            gated_y = gate_case(s, false) && gate_case(s, true) && gated_y;
            for (int place = -1; place < 3; place++)
                gate_dx = gate_dx_case(s, place) && gate_dx;
            colsum = colsum_case(s, SN_WRITE) && colsum_case(s, SN_ADD) && colsum;
        }
    tap_ok(gelu_y, "ACT of %s equals both forms of GELU", type);
    tap_ok(gelu_dx, "ACT_DX of %s equals the slope, in each place it may take", type);
    tap_ok(glu_y, "SWIGLU of %s equals the formula", type);
    tap_ok(glu_dx, "SWIGLU_DX of %s equals the formula, in place too", type);
    tap_ok(add, "ADD of %s is rounded once, in each place it may take", type);
    tap_ok(scale, "SCALE of %s is rounded once, in place too", type);
    tap_ok(gated_y, "GATE of %s equals the formula, in place too", type);
    tap_ok(gate_dx, "GATE_DX of %s equals the formula, in each place it may take, and without dx", type);
    tap_ok(colsum, "COLSUM of %s equals the sum, written and added", type);
}

/* --- ZERO and COPY --------------------------------------------------------------------------- */

static bool zero_case(struct kt_shape s)
{
    struct kt k = {0};
    kt_out(&k, 0, s, SN_WRITE);
    kt_ref(&k, 0);
    bool good = kt_check(&k, SN_OP_ZERO, 0.0);
    kt_free(&k);
    return good;
}

/* Small whole numbers fit every type, so every cast is exact. */
static bool copy_case(enum sn_dtype from, struct kt_shape s, enum sn_acc acc)
{
    struct kt k = {0};
    const struct sn_mat *x = kt_new(&k, 0, (struct kt_shape){from, s.rows, s.cols, 3});
    const struct sn_mat *y = kt_out(&k, 0, s, SN_WRITE);
    k.a.acc[0] = acc;
    for (int64_t i = 0; i < s.rows * s.cols; i++) {
        kt_set(x, i / s.cols, i % s.cols, (double)(i % 120));
        kt_set(y, i / s.cols, i % s.cols, (double)(i % 7));
    }
    double *ref = kt_ref(&k, 0);
    for (int64_t i = 0; i < s.rows * s.cols; i++)
        ref[i] += (double)(i % 120);
    bool good = kt_check(&k, SN_OP_COPY, 0.0);
    kt_free(&k);
    return good;
}

static void zero_and_copy_know_every_type(void)
{
    bool zero = true, copy = true;
    for (int to = 0; to < SN_NDTYPES; to++)
        for (int i = 0; i < N_WIDTHS; i += 2) {
            struct kt_shape s = {(enum sn_dtype)to, 23, widths[i], i % 4 ? 5 : 0};
            zero = zero_case(s) && zero;
            for (int from = 0; from < SN_NDTYPES; from++) {
                copy = copy_case((enum sn_dtype)from, s, SN_WRITE) && copy;
                copy = copy_case((enum sn_dtype)from, s, SN_ADD) && copy;
            }
        }
    tap_ok(zero, "ZERO clears every type and nothing between rows");
    tap_ok(copy, "COPY casts every type to every type, written and added");
}

static void casts_round_to_nearest_even(void)
{
    struct kt k = {0};
    struct kt_shape s = {SN_F32, 3, 3000, 0};
    const struct sn_mat *x = kt_in(&k, 0, s);
    bool good = true;
    kt_set(x, 0, 0, 1.0 + 0x1p-8);     /* half way in bf16: to even, down */
    kt_set(x, 0, 1, 1.0 + 3 * 0x1p-8); /* half way: to even, up */
    kt_set(x, 0, 2, 1.0 + 0x1.8p-8);   /* above half way */
    static const double want[] = {1.0, 1.0 + 0x1p-6, 1.0 + 0x1p-7};
    s.dtype = SN_BF16;
    const struct sn_mat *y = kt_out(&k, 0, s, SN_WRITE);
    good = kt_run(&k, sn_ops_cpu(), SN_OP_COPY, 2);
    for (int i = 0; i < 3; i++)
        good = good && kt_get(y, 0, i) == want[i];
    kt_free(&k);
    tap_ok(good, "a cast to bf16 rounds to nearest even");
}

static void casts_to_integers_saturate(void)
{
    struct kt k = {0};
    static const double in[] = {1e300, -1e300, NAN, -2.9, 255.5, 2.9, INFINITY, -INFINITY};
    static const double as_i32[] = {INT32_MAX, INT32_MIN, 0, -2, 255, 2, INT32_MAX, INT32_MIN};
    static const double as_u8[] = {255, 0, 0, 0, 255, 2, 255, 0};
    bool good = true;
    const struct sn_mat *x = kt_new(&k, 0, (struct kt_shape){SN_F64, 1, 8, 0});
    for (int i = 0; i < 8; i++)
        kt_set(x, 0, i, in[i]);
    for (int t = SN_I32; t <= SN_U8; t++) {
        struct kt one = k;
        const struct sn_mat *y =
            kt_new(&one, SN_MAX_IN, (struct kt_shape){(enum sn_dtype)t, 1, 8, 0});
        good = kt_run(&one, sn_ops_cpu(), SN_OP_COPY, 1) && good;
        for (int i = 0; i < 8; i++)
            good = good && kt_get(y, 0, i) == (t == SN_I32 ? as_i32[i] : as_u8[i]);
        one.image[0] = one.saved[0] = one.first_run[0] = NULL; /* k's */
        kt_free(&one);
    }
    kt_free(&k);
    tap_ok(good, "a cast to an integer truncates and saturates");
}

int main(void)
{
    slopes_are_the_derivatives();
    for (int t = 0; t < 3; t++)
        all_shapes(dtypes[t]);
    zero_and_copy_know_every_type();
    casts_round_to_nearest_even();
    casts_to_integers_saturate();
    return tap_done();
}
