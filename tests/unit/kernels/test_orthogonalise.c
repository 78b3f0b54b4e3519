/*
 * ORTHOGONALISE: orthonormal to 1e-6 whatever the columns were, the same span, and what becomes of
 * columns that are nothing new.
 */
#include "tests/lib/kernel_test.h"

struct shape {
    int64_t rows, cols, pad;
};

static void begin(struct kt *k, struct shape s)
{
    *k = (struct kt){.scalars = {.seed = 7, .step = 3}};
    k->a.attr.random.site = 99;
    (void)kt_in(k, 0, (struct kt_shape){SN_F32, s.rows, s.cols, s.pad});
    for (int o = 0; o < 2; o++)
        (void)kt_out(k, o, (struct kt_shape){SN_F32, s.rows, s.cols, s.pad}, SN_WRITE);
}

static double dot(const struct sn_mat *a, int64_t i, const struct sn_mat *b, int64_t j)
{
    double sum = 0;
    for (int64_t r = 0; r < a->rows; r++)
        sum += kt_get(a, r, i) * kt_get(b, r, j);
    return sum;
}

/* Largest element of y^T y - 1, of columns that are not 0. */
static double off_orthonormal(const struct sn_mat *y)
{
    double worst = 0;
    for (int64_t i = 0; i < y->cols; i++)
        for (int64_t j = 0; j <= i; j++) {
            double d = dot(y, i, y, j);
            worst = fmax(worst, i == j && d == 0 ? 0 : fabs(d - (i == j)));
        }
    return worst;
}

/* Of the columns of x what those of y lack, of their length. */
static double off_span(const struct sn_mat *x, const struct sn_mat *y)
{
    double worst = 0;
    for (int64_t j = 0; j < x->cols; j++) {
        double rest = 0, all = dot(x, j, x, j);
        double c[64];
        for (int64_t i = 0; i < y->cols; i++)
            c[i] = dot(y, i, x, j);
        for (int64_t r = 0; r < x->rows; r++) {
            double v = kt_get(x, r, j);
            for (int64_t i = 0; i < y->cols; i++)
                v -= c[i] * kt_get(y, r, i);
            rest += v * v;
        }
        worst = fmax(worst, all > 0 ? sqrt(rest / all) : 0);
    }
    return worst;
}

static int64_t zero_columns(const struct sn_mat *y)
{
    int64_t n = 0;
    for (int64_t j = 0; j < y->cols; j++)
        n += dot(y, j, y, j) == 0;
    return n;
}

/* Plain Gram-Schmidt in double. */
static void reference(struct kt *k)
{
    const struct sn_mat *x = &k->a.in[0];
    double *y = kt_ref(k, 0), *n = kt_ref(k, 1);
    for (int64_t j = 0; j < x->cols; j++) {
        double length = 0;
        for (int64_t r = 0; r < x->rows; r++)
            y[r * x->cols + j] = kt_get(x, r, j);
        for (int64_t i = 0; i < 2 * j; i++) {
            double c = 0;
            for (int64_t r = 0; r < x->rows; r++)
                c += y[r * x->cols + i % j] * y[r * x->cols + j];
            for (int64_t r = 0; r < x->rows; r++)
                y[r * x->cols + j] -= c * y[r * x->cols + i % j];
        }
        for (int64_t r = 0; r < x->rows; r++)
            length += y[r * x->cols + j] * y[r * x->cols + j];
        for (int64_t r = 0; r < x->rows; r++) {
            y[r * x->cols + j] /= sqrt(length);
            n[r * x->cols + j] = -y[r * x->cols + j];
        }
    }
}

static void columns_are_gram_schmidt_s(void)
{
    static const struct shape shapes[] = {{1, 1, 0},     {5, 3, 0},    {300, 1, 2},  {257, 7, 0},
                                          {1025, 16, 5}, {4096, 8, 0}, {700, 64, 1}, {70, 33, 0}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct kt k;
        begin(&k, shapes[i]);
        reference(&k);
        k.magnitude = 1 / sqrt((double)shapes[i].rows);
        bool good = kt_check(&k, SN_OP_ORTHOGONALISE, 2e-5);
        double off = off_orthonormal(&k.a.out[0]), lacks = off_span(&k.a.in[0], &k.a.out[0]);
        tap_ok(good && off < 1e-6 && lacks < 1e-6,
               "%ld x %ld normals: orthonormal to %.1e, lacking %.1e of the span, n = -y",
               (long)shapes[i].rows, (long)shapes[i].cols, off, lacks);
        kt_free(&k);
    }
}

/* Every instruction set with 1 to 4 threads, in place too; the last one's outputs stay. */
static bool same_bits(struct kt *k)
{
    const struct sn_ops *table[KT_TABLES];
    struct sn_mat *y = &k->a.out[0];
    size_t bytes = (size_t)(y->rows * y->ld) * sizeof(float);
    float *first = kt_alloc(bytes), *x = kt_alloc(bytes);
    void *own = y->p;
    bool same = true;
    int n = kt_tables(table);
    memcpy(x, k->a.in[0].p, bytes);
    for (int i = 0; i < 8 * n; i++) {
        memcpy(k->a.in[0].p, x, bytes);
        y->p = i % 2 ? k->a.in[0].p : own;
        same = kt_run(k, table[i / 8], SN_OP_ORTHOGONALISE, i / 2 % 4 + 1) && same;
        if (i == 0)
            memcpy(first, y->p, bytes);
        for (int64_t r = 0; r < y->rows; r++)
            same = same && memcmp((float *)y->p + r * y->ld, first + r * y->ld,
                                  (size_t)y->cols * sizeof(float)) == 0;
    }
    memcpy(k->a.in[0].p, x, bytes);
    y->p = own;
    free(first);
    free(x);
    return kt_run(k, sn_ops_cpu(), SN_OP_ORTHOGONALISE, 2) && same;
}

static void nearly_alike(struct kt *k, double apart)
{
    struct sn_mat *x = &k->a.in[0];
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 1; c < x->cols; c++)
            kt_set(x, r, c, kt_get(x, r, 0) + apart * kt_get(x, r, c));
}

static void columns_that_are_alike_come_apart(void)
{
    for (double apart = 1e-1; apart > 5e-6; apart /= 10) {
        struct kt k;
        begin(&k, (struct shape){2000, 24, 0});
        nearly_alike(&k, apart);
        bool same = same_bits(&k);
        double off = off_orthonormal(&k.a.out[0]), lacks = off_span(&k.a.in[0], &k.a.out[0]);
        tap_ok(same && off < 1e-6 && lacks < 1e-6 && zero_columns(&k.a.out[0]) == 0,
               "columns that differ by %.0e: orthonormal to %.1e, lacking %.1e, the same bits from "
               "every instruction set",
               apart, off, lacks);
        kt_free(&k);
    }
}

/* Column 2 is 0, 5 a multiple of 1, 7 a sum of two. */
static void spoil(struct kt *k)
{
    struct sn_mat *x = &k->a.in[0];
    for (int64_t r = 0; r < x->rows; r++) {
        kt_set(x, r, 2, 0);
        kt_set(x, r, 5, -3 * kt_get(x, r, 1));
        kt_set(x, r, 7, kt_get(x, r, 0) + kt_get(x, r, 4));
    }
}

static void what_is_nothing_new_is_zero_or_drawn(void)
{
    struct kt k;
    begin(&k, (struct shape){900, 10, 0});
    spoil(&k);
    for (int64_t c = 0; c < 10; c++)
        kt_set(&k.a.in[0], 17, c, 0);
    struct sn_mat *y = &k.a.out[0];
    bool same = same_bits(&k), zeros = true;
    for (int64_t c = 0; c < 10; c++)
        zeros = zeros && kt_get(y, 17, c) == 0;
    tap_ok(same && zero_columns(y) == 3 && dot(y, 2, y, 2) == 0 && dot(y, 5, y, 5) == 0 &&
               dot(y, 7, y, 7) == 0 && off_orthonormal(y) < 1e-6 && off_span(&k.a.in[0], y) < 1e-6,
           "a column of zeros, a multiple and a sum of others are 0; the others are orthonormal");
    tap_ok(zeros, "a row of zeros stays one");
    k.a.attr.draws = true;
    same = same_bits(&k);
    double first = kt_get(y, 3, 5);
    tap_ok(
        same && zero_columns(y) == 0 && off_orthonormal(y) < 1e-6 && off_span(&k.a.in[0], y) < 1e-6,
        "with draws all columns are orthonormal (%.1e), the same bits from every instruction set",
        off_orthonormal(y));
    k.scalars.step++;
    bool other_step = same_bits(&k) && kt_get(y, 3, 5) != first;
    k.scalars.step--;
    k.a.attr.random.site++;
    tap_ok(other_step && same_bits(&k) && kt_get(y, 3, 5) != first,
           "another step, and another site, draw others");
    kt_free(&k);
}

static void more_columns_than_rows_are_zero(void)
{
    struct kt k;
    begin(&k, (struct shape){3, 6, 1});
    k.a.attr.draws = true;
    tap_ok(same_bits(&k) && zero_columns(&k.a.out[0]) == 3 && off_orthonormal(&k.a.out[0]) < 1e-6,
           "of 6 columns of 3 rows 3 are orthonormal, and the others 0");
    kt_free(&k);
    begin(&k, (struct shape){40, 2, 0});
    for (int64_t r = 0; r < 40; r++)
        for (int64_t c = 0; c < 2; c++)
            kt_set(&k.a.in[0], r, c, 0);
    bool nothing = same_bits(&k) && zero_columns(&k.a.out[0]) == 2;
    k.a.attr.draws = true;
    tap_ok(nothing && same_bits(&k) && zero_columns(&k.a.out[0]) == 0 &&
               off_orthonormal(&k.a.out[0]) < 1e-6,
           "of nothing comes nothing, or, drawn, orthonormal columns");
    kt_free(&k);
}

static void size_does_not_matter(void)
{
    struct kt k, other;
    bool same = true;
    begin(&k, (struct shape){500, 6, 0});
    same = same_bits(&k);
    for (int e = -110; e <= 110; e += 55) {
        begin(&other, (struct shape){500, 6, 0});
        for (int64_t r = 0; r < 500; r++)
            for (int64_t c = 0; c < 6; c++)
                kt_set(&other.a.in[0], r, c, ldexp(kt_get(&other.a.in[0], r, c), e));
        same = same_bits(&other) && same;
        same = same && memcmp(k.a.out[0].p, other.a.out[0].p, 500 * 6 * sizeof(float)) == 0;
        kt_free(&other);
    }
    kt_free(&k);
    tap_ok(same, "the same bits of x times 2^-110 to 2^110");
}

static void what_is_not_finite_shows(void)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    bool shows = true;
    for (int i = 0; i < 9; i++) {
        struct kt k;
        begin(&k, (struct shape){600, 5, 0});
        kt_set(&k.a.in[0], i * 66, i % 5, bad[i % 3]);
        k.a.attr.draws = i % 2;
        shows = kt_run(&k, sn_ops_cpu(), SN_OP_ORTHOGONALISE, 2) && shows;
        for (int64_t r = 0; r < 600; r++)
            for (int64_t c = 0; c < 5; c++)
                shows =
                    shows && isnan(kt_get(&k.a.out[0], r, c)) && isnan(kt_get(&k.a.out[1], r, c));
        kt_free(&k);
    }
    tap_ok(shows, "what is not finite makes all of it NaN");
}

int main(void)
{
    columns_are_gram_schmidt_s();
    columns_that_are_alike_come_apart();
    what_is_nothing_new_is_zero_or_drawn();
    more_columns_than_rows_are_zero();
    size_does_not_matter();
    what_is_not_finite_shows();
    return tap_done();
}
