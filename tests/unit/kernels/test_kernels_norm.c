/*
 * The normalisations against formulas in double, and their gradients against finite differences.
 */
#include "tests/lib/kernel_test.h"

static const double eps = 1e-5, shift = 0.75; /* of weights of RMSNORM */
static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

/* Forward of one row in double; b NULL: RMSNORM. Returns the scale and, if asked, the mean. */
static double forward(const double *x, const double *w, const double *b, int64_t n, double *y,
                      double *mean_out)
{
    double mean = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n && b; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean) / (double)n;
    double scale = 1.0 / sqrt(squares + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * scale * w[i] + (b ? b[i] : 0.0);
    if (mean_out)
        *mean_out = mean;
    return scale;
}

static void row_of(const struct sn_mat *m, int64_t r, double *out)
{
    for (int64_t c = 0; c < m->cols; c++)
        out[c] = kt_get(m, r, c);
}

/* What the weights are, and what is to be added to them. */
static void weights_of(struct kt *k, const struct sn_mat *m, bool layer, double *out)
{
    row_of(m, 0, out);
    k->a.attr.shift = layer ? 0 : (float)shift;
    for (int64_t c = 0; c < m->cols && !layer; c++)
        out[c] += shift;
}

enum { WIDEST = 2100 };

/* The addend of a norm: none; or one, and the sum in a place of its own, in that of x, of the
 * addend; the result in the addend's. */
enum adds { NO_ADDEND, SUM_APART, SUM_IN_X, SUM_IN_ADDEND, RESULT_IN_ADDEND, N_ADDS };

/* x + g as ADD stores it. */
static void sum_row(const struct kt *k, int64_t r, double *out)
{
    const struct sn_mat *x = &k->a.in[0];
    char room[sizeof(float)];
    struct sn_mat one = {room, x->dtype, 1, 1, 1};
    for (int64_t c = 0; c < x->cols; c++) {
        kt_set(&one, 0, 0, (float)kt_get(x, r, c) + (float)kt_get(&k->a.in[3], r, c));
        out[c] = kt_get(&one, 0, 0);
    }
}

static void place_sum(struct kt *k, struct kt_shape s, enum adds adds)
{
    if (adds == NO_ADDEND)
        return;
    (void)kt_in(k, 3, s);
    if (adds == SUM_IN_X || adds == SUM_IN_ADDEND)
        kt_take(k, 2, adds == SUM_IN_X ? 0 : 3);
    else
        kt_out(k, 2, s, SN_WRITE);
    (void)kt_ref(k, 2);
}

static bool forward_case(bool layer, struct kt_shape s, enum adds adds)
{
    struct kt k = {.magnitude = 1.0};
    struct kt_shape vector = {s.dtype, 1, s.cols, 0};
    double x[WIDEST], w[WIDEST], b[WIDEST];
    const struct sn_mat *xm = kt_in(&k, 0, s), *wm = kt_in(&k, 1, vector);
    const struct sn_mat *bm = layer ? kt_in(&k, 2, vector) : NULL;
    for (int64_t c = 0; c < s.cols; c++) /* a mean that a one-pass variance would drown in */
        for (int64_t r = 0; r < s.rows; r++)
            kt_set(xm, r, c, kt_get(xm, r, c) + (r % 2 ? 10.0 : 0.0));
    k.a.attr.eps = (float)eps;
    place_sum(&k, s, adds);
    if (adds == RESULT_IN_ADDEND)
        kt_take(&k, 0, 3);
    else
        kt_out(&k, 0, s, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, s.rows, layer ? 2 : 1, 0}, SN_WRITE);
    double *y = kt_ref(&k, 0), *stats = kt_ref(&k, 1);
    weights_of(&k, wm, layer, w);
    if (layer)
        row_of(bm, 0, b);
    for (int64_t r = 0; r < s.rows; r++) {
        double mean = 0.0;
        if (adds != NO_ADDEND) {
            sum_row(&k, r, x);
            memcpy(k.ref[2] + r * s.cols, x, (size_t)s.cols * sizeof(*x));
        } else {
            row_of(xm, r, x);
        }
        double scale = forward(x, w, layer ? b : NULL, s.cols, y + r * s.cols, &mean);
        if (layer)
            stats[2 * r] = mean;
        stats[layer ? 2 * r + 1 : r] = scale;
    }
    /* fp32 arithmetic on values of up to 10 around a mean: a few roundings of the larger term; with
     * one column the LAYERNORM scale is 1/sqrt(eps) = 316, which multiplies them */
    double tol = layer && s.cols < 16 ? 1e-4 : 2e-6;
    bool good = kt_check(&k, layer ? SN_OP_LAYERNORM : SN_OP_RMSNORM, tol);
    kt_free(&k);
    return good;
}

/* The gradient of sum(dy y) by formula; checked against finite differences below. */
static void backward(const double *dy, const double *x, const double *w, bool layer, int64_t n,
                     double mean, double scale, double *dx)
{
    double m0 = 0.0, m1 = 0.0;
    for (int64_t i = 0; i < n; i++) {
        m0 += layer ? w[i] * dy[i] / (double)n : 0.0;
        m1 += w[i] * dy[i] * (x[i] - mean) * scale / (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        dx[i] = scale * (w[i] * dy[i] - m0 - (x[i] - mean) * scale * m1);
}

static double loss(const double *dy, const double *x, const double *w, const double *b, int64_t n)
{
    double y[WIDEST], sum = 0.0;
    forward(x, w, b, n, y, NULL);
    for (int64_t i = 0; i < n; i++)
        sum += dy[i] * y[i];
    return sum;
}

static void formula_is_the_derivative(void)
{
    enum { N = 13 };
    double worst = 0.0;
    for (int layer = 0; layer < 2; layer++) {
        double v[4][N], y[N], dx[N], mean = 0.0;
        float z[4 * N];
        sn_rng_normal(7, 0, 4 * N, 1.0f, z);
        for (int i = 0; i < 4 * N; i++)
            v[i / N][i % N] = (double)z[i];
        double *dy = v[0], *x = v[1], *w = v[2], *b = layer ? v[3] : NULL, h = 1e-5;
        double scale = forward(x, w, b, N, y, &mean);
        backward(dy, x, w, layer, N, mean, scale, dx);
        for (int i = 0; i < N; i++) {
            double keep = x[i];
            x[i] = keep + h;
            double up = loss(dy, x, w, b, N);
            x[i] = keep - h;
            double down = loss(dy, x, w, b, N);
            x[i] = keep;
            worst = fmax(worst, fabs((up - down) / (2 * h) - dx[i]));
            keep = w[i];
            w[i] = keep + h;
            up = loss(dy, x, w, b, N);
            w[i] = keep - h;
            down = loss(dy, x, w, b, N);
            w[i] = keep;
            worst = fmax(worst, fabs((up - down) / (2 * h) - dy[i] * (x[i] - mean) * scale));
        }
    }
    tap_ok(worst < 1e-8, "the gradient formulas of the norms are the derivatives (off by %.2g)",
           worst);
}

static double fill_stats(struct kt *k, int slot, const struct sn_mat *x, bool layer)
{
    struct sn_mat *m = kt_in(k, slot, (struct kt_shape){SN_F32, x->rows, layer ? 2 : 1, 0});
    double row[WIDEST], one[WIDEST], zero[WIDEST] = {0}, y[WIDEST], largest = 0.0;
    for (int64_t c = 0; c < x->cols; c++)
        one[c] = 1.0;
    for (int64_t r = 0; r < x->rows; r++) {
        double mean = 0.0;
        row_of(x, r, row);
        double scale = forward(row, one, layer ? zero : NULL, x->cols, y, &mean);
        if (layer)
            kt_set(m, r, 0, mean);
        kt_set(m, r, layer ? 1 : 0, scale);
        largest = fmax(largest, scale);
    }
    return largest;
}

/* Outputs o and o + 1, as far as `outputs` has bits 0 (dw) and 1 (db), begun with `acc`. */
static void sums_of(struct kt *k, bool layer, int o, int outputs, enum sn_acc acc)
{
    const struct sn_mat *dy = &k->a.in[0], *x = &k->a.in[1], *stats = &k->a.in[o ? 3 : 2];
    double *ref[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (outputs >> i & 1) {
            kt_out(k, o + i, (struct kt_shape){SN_F32, 1, x->cols, 0}, acc);
            ref[i] = kt_ref(k, o + i);
        }
    for (int64_t r = 0; r < x->rows; r++) {
        double mean = layer ? kt_get(stats, r, 0) : 0.0, scale = kt_get(stats, r, layer ? 1 : 0);
        for (int64_t c = 0; c < x->cols; c++) {
            if (ref[0])
                ref[0][c] += kt_get(dy, r, c) * (kt_get(x, r, c) - mean) * scale;
            if (ref[1])
                ref[1][c] += kt_get(dy, r, c);
        }
    }
}

/* What is asked of a gradient beside dx: bit 0 dw, bit 1 db (LAYERNORM). */
struct wanted {
    int outputs;
    enum sn_acc acc;
};
static const struct wanted nothing = {0, SN_WRITE};

/* place: -1 a fresh dx without addend, 0 dx takes dy, 4 dx takes the addend,
 * 5 a fresh dx with it */
static bool dx_case(bool layer, struct kt_shape s, int place, struct wanted sums)
{
    struct kt k = {.magnitude = 1.0};
    const struct sn_mat *dy = kt_in(&k, 0, s), *x = kt_in(&k, 1, s);
    const struct sn_mat *w = kt_in(&k, 2, (struct kt_shape){s.dtype, 1, s.cols, 0});
    k.magnitude = fill_stats(&k, 3, x, layer);
    const struct sn_mat *g = place >= 4 ? kt_in(&k, 4, s) : NULL;
    if (place == 0 || place == 4)
        kt_take(&k, 0, place);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *ref = kt_ref(&k, 0), row[3][WIDEST];
    weights_of(&k, w, layer, row[2]);
    for (int64_t r = 0; r < s.rows; r++) {
        row_of(dy, r, row[0]);
        row_of(x, r, row[1]);
        double mean = layer ? kt_get(&k.a.in[3], r, 0) : 0.0;
        backward(row[0], row[1], row[2], layer, s.cols, mean, kt_get(&k.a.in[3], r, layer ? 1 : 0),
                 ref + r * s.cols);
        for (int64_t c = 0; c < s.cols && g; c++)
            ref[r * s.cols + c] += kt_get(g, r, c);
    }
    sums_of(&k, layer, 1, sums.outputs, sums.acc);
    if (sums.outputs)
        k.magnitude *= sqrt((double)s.rows);
    bool good = kt_check(&k, layer ? SN_OP_LAYERNORM_DX : SN_OP_RMSNORM_DX, 3e-6);
    kt_free(&k);
    return good;
}

/* outputs: bit 0 dw, bit 1 db (LAYERNORM) */
static bool dw_case(bool layer, struct kt_shape s, enum sn_acc acc, int outputs)
{
    struct kt k = {0};
    (void)kt_in(&k, 0, s);
    const struct sn_mat *x = kt_in(&k, 1, s);
    k.magnitude = fill_stats(&k, 2, x, layer) * sqrt((double)s.rows);
    sums_of(&k, layer, 0, outputs, acc);
    bool good = kt_check(&k, layer ? SN_OP_LAYERNORM_DW : SN_OP_RMSNORM_DW, 2e-6);
    kt_free(&k);
    return good;
}

/* Widths that fill vectors exactly, partly and not at all, and more than one piece. */
static const int64_t widths[] = {1, 7, 64, 100, 257, 768, WIDEST};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]) };

static void all_shapes(bool layer, enum sn_dtype t)
{
    const char *name = layer ? "LAYERNORM" : "RMSNORM", *type = sn_dtype_name(t);
    bool y = true, sums = true, dx = true, dw = true, both = true;
    for (int i = 0; i < N_WIDTHS; i++)
        for (int64_t rows = 1; rows < 80; rows += 72) {
            struct kt_shape s = {t, rows, widths[i], i % 2 ? 5 : 0};
            y = forward_case(layer, s, NO_ADDEND) && y;
            for (int a = SUM_APART; a < N_ADDS; a++)
                sums = forward_case(layer, s, (enum adds)a) && sums;
            for (int place = -1; place < 6; place += place < 0 ? 1 : place < 4 ? 4 : 1)
                dx = dx_case(layer, s, place, nothing) && dx;
            both = dx_case(layer, s, 0, (struct wanted){layer ? 3 : 1, SN_WRITE}) && both;
            both = dx_case(layer, s, 4, (struct wanted){layer ? 2 : 1, SN_ADD}) && both;
            dw = dw_case(layer, s, SN_WRITE, layer ? 3 : 1) && dw;
            dw = dw_case(layer, s, SN_ADD, layer ? 3 : 1) && dw;
            if (layer)
                dw = dw_case(layer, s, SN_ADD, 1) && dw_case(layer, s, SN_WRITE, 2) && dw;
        }
    tap_ok(y, "%s of %s equals the formula", name, type);
    tap_ok(sums, "%s of %s with an addend, in each place that sum and result may take", name, type);
    tap_ok(dx, "%s_DX of %s equals the formula, in each place it may take", name, type);
    tap_ok(both, "%s_DX of %s with the sums that _DW has, too", name, type);
    tap_ok(dw, "%s_DW of %s equals the formula, written and added", name, type);
}

static void many_rows_add_up_accurately(void)
{
    struct kt_shape s = {SN_F32, 5000, 70, 0};
    tap_ok(dw_case(true, s, SN_WRITE, 3) && dw_case(false, s, SN_WRITE, 1),
           "weight gradients over 5000 rows keep fp32 accuracy");
    const struct wanted both = {3, SN_ADD}, dw = {1, SN_ADD};
    tap_ok(dx_case(true, s, 4, both) && dx_case(true, s, -1, dw) && dx_case(false, s, 0, dw),
           "beside dx they do, too");
}

/* An ADD and then the norm, and the norm that adds: not within a tolerance, but the same bits. The
 * last row is wider than what a block of a GPU keeps in registers where it moves single elements.
 */
static void a_sum_has_the_bits_of_add(bool layer)
{
    static const int64_t wide[] = {1, 7, 64, 257, 768, 4099};
    enum { N_WIDE = sizeof(wide) / sizeof(wide[0]) };
    const struct sn_ops *table[KT_TABLES];
    enum sn_op_kind kind = layer ? SN_OP_LAYERNORM : SN_OP_RMSNORM;
    int n = kt_tables(table);
    bool equal = true;
    for (int i = 0; i < 3 * n * N_WIDE; i++) {
        struct kt_shape s = {dtypes[i % 3], 9, wide[i / 3 % N_WIDE], 0};
        struct kt_shape vector = {s.dtype, 1, s.cols, 0};
        struct kt_shape stats = {SN_F32, s.rows, layer ? 2 : 1, 0};
        struct kt one = {0}, add = {0}, two = {0};
        (void)kt_in(&one, 0, s), (void)kt_in(&one, 1, vector), (void)kt_in(&one, 3, s);
        if (layer)
            (void)kt_in(&one, 2, vector);
        one.a.attr.eps = two.a.attr.eps = (float)eps;
        one.a.attr.shift = two.a.attr.shift = layer ? 0 : (float)shift;
        (void)kt_out(&one, 0, s, SN_WRITE), (void)kt_out(&one, 1, stats, SN_WRITE);
        (void)kt_out(&one, 2, s, SN_WRITE);
        add.a.in[0] = one.a.in[0], add.a.in[1] = one.a.in[3];
        (void)kt_out(&add, 0, s, SN_WRITE);
        two.a.in[0] = add.a.out[0], two.a.in[1] = one.a.in[1], two.a.in[2] = one.a.in[2];
        (void)kt_out(&two, 0, s, SN_WRITE), (void)kt_out(&two, 1, stats, SN_WRITE);
        const struct sn_ops *ops = table[i / 3 / N_WIDE];
        equal = kt_run(&one, ops, kind, 2) && kt_run(&add, ops, SN_OP_ADD, 2) &&
                kt_run(&two, ops, kind, 2) && equal;
        for (int o = 0; o < 3; o++)
            equal = equal && memcmp(one.image[SN_MAX_IN + o],
                                    o < 2 ? two.image[SN_MAX_IN + o] : add.image[SN_MAX_IN],
                                    one.bytes[SN_MAX_IN + o]) == 0;
        kt_free(&one), kt_free(&add), kt_free(&two);
    }
    tap_ok(equal, "%s with an addend has the bits of ADD and %s", layer ? "LAYERNORM" : "RMSNORM",
           layer ? "LAYERNORM" : "RMSNORM");
}

int main(void)
{
    a_sum_has_the_bits_of_add(false);
    a_sum_has_the_bits_of_add(true);
    formula_is_the_derivative();
    for (int layer = 0; layer < 2; layer++)
        for (int t = 0; t < 3; t++)
            all_shapes(layer, dtypes[t]);
    many_rows_add_up_accurately();
    return tap_done();
}
