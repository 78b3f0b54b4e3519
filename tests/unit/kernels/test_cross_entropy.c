/*
 * CROSS_ENTROPY against double loops.
 */
#include "tests/lib/kernel_test.h"

struct ce {
    int64_t rows, vocab, pad;
    bool gradient, in_place;
    float z; /* weight of lse^2 */
};

static const double tokens = 96, loss_scale = 8;

/* What stands for a logit. */
static double capped(double z, double cap)
{
    return cap > 0 ? cap * tanh(z / cap) : z;
}

static void reference(struct kt *k, double *grad, double *loss, double *square)
{
    double z = (double)k->a.attr.vocab.z_loss;
    const struct sn_mat *x = &k->a.in[0];
    double cap = (double)k->a.attr.vocab.cap;
    for (int64_t r = 0; r < x->rows; r++) {
        double max = -INFINITY, sum = 0;
        for (int64_t c = 0; c < x->cols; c++)
            max = fmax(max, capped(kt_get(x, r, c), cap));
        for (int64_t c = 0; c < x->cols; c++)
            sum += exp(capped(kt_get(x, r, c), cap) - max);
        double lse = max + log(sum);
        int64_t target = (int64_t)kt_get(&k->a.in[1], r, 0);
        loss[r] = lse - capped(kt_get(x, r, target), cap);
        if (square)
            square[r] = lse * lse;
        for (int64_t c = 0; c < x->cols && grad; c++) {
            double v = capped(kt_get(x, r, c), cap), slope = cap > 0 ? 1 - v / cap * v / cap : 1;
            double g = exp(v - lse) * (1 + 2 * z * lse) - (c == target);
            grad[r * x->cols + c] = g * slope * loss_scale / tokens;
        }
    }
}

/* Tolerance: e^(x - lse) carries the rounding of x - lse, 6e-8 of about 20, so 2e-6 relative. */
static bool right(const struct ce *p, enum sn_dtype t, float cap)
{
    struct kt k = {.magnitude = 1e-6, .a.attr.vocab.cap = cap};
    struct kt_shape shape = {t, p->rows, p->vocab, p->pad};
    struct sn_mat *x = kt_in(&k, 0, shape);
    struct sn_mat *targets = kt_in(&k, 1, (struct kt_shape){SN_I32, p->rows, 1, 0});
    for (int64_t r = 0; r < p->rows; r++)
        kt_set(targets, r, 0, (double)((r * 7919 + 3) % p->vocab));
    kt_set(x, 0, p->vocab / 2, 20); /* one row is nearly decided */
    k.scalars = (struct sn_scalars){
        .targets_in_step = tokens, .loss_scale = (float)loss_scale, .loss_sum = 2.5};
    if (p->in_place)
        kt_take(&k, 0, 0);
    else if (p->gradient)
        kt_out(&k, 0, shape, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, p->rows, 1, 0}, SN_WRITE);
    k.a.attr.vocab.z_loss = p->z;
    if (p->z > 0)
        kt_out(&k, 2, (struct kt_shape){SN_F32, p->rows, 1, 0}, SN_WRITE);
    double *grad = p->gradient ? kt_ref(&k, 0) : NULL, *loss = kt_ref(&k, 1);
    reference(&k, grad, loss, p->z > 0 ? kt_ref(&k, 2) : NULL);
    bool good = kt_check(&k, SN_OP_CROSS_ENTROPY, 4e-6);
    double want = 2.5;
    for (int64_t r = 0; r < p->rows; r++)
        want += kt_get(&k.a.out[1], r, 0);
    good = good && k.scalars.loss_sum == want; /* the same order: the same bits */
    want = 0;
    for (int64_t r = 0; r < p->rows && p->z > 0; r++)
        want += kt_get(&k.a.out[2], r, 0);
    good = good && k.scalars.head_z_sum == want;
    kt_free(&k);
    return good;
}

/* A weight that is a power of two multiplies exactly. */
static void a_loss_beside_has_a_weight_and_a_sum_of_its_own(void)
{
    enum { ROWS = 9, WORDS = 33 };
    double grad[2][ROWS * WORDS];
    struct sn_scalars told[2];
    for (int beside = 0; beside < 2; beside++) {
        struct kt k = {.magnitude = 1e-6, .a.attr.vocab.weight = beside ? 0.25F : 0};
        struct kt_shape shape = {SN_F32, ROWS, WORDS, 0};
        (void)kt_in(&k, 0, shape);
        struct sn_mat *targets = kt_in(&k, 1, (struct kt_shape){SN_I32, ROWS, 1, 0});
        for (int64_t r = 0; r < ROWS; r++)
            kt_set(targets, r, 0, r == 4 ? SN_NO_TARGET : (double)(r * 7 % WORDS));
        k.scalars = (struct sn_scalars){.targets_in_step = 100, .loss_scale = 64};
        kt_out(&k, 0, shape, SN_WRITE);
        kt_out(&k, 1, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
        bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 2);
        for (int64_t i = 0; i < ROWS * WORDS; i++)
            grad[beside][i] = ran ? kt_get(&k.a.out[0], i / WORDS, i % WORDS) : NAN;
        told[beside] = k.scalars;
        kt_free(&k);
    }
    int off = 0;
    for (int i = 0; i < ROWS * WORDS; i++)
        off += grad[1][i] != 0.25 * grad[0][i];
    tap_ok(off == 0, "gradients of a loss beside the model's are times its weight (%d are not)", off);
    tap_ok(told[0].loss_sum > 0 && told[0].beside_sum == 0 && told[1].loss_sum == 0 &&
               told[1].beside_sum == told[0].loss_sum,
           "and it is summed apart, without it");
}

static const struct ce cases[] = {
    {1, 1, 0, true, false, 0},    {7, 5, 3, true, false, 0},     {64, 64, 0, true, true, 0},
    {3, 1024, 0, true, true, 0},  {5, 1025, 1, true, false, 0},  {3, 2500, 0, false, false, 0},
    {2, 50257, 7, true, true, 0}, {100, 257, 0, true, false, 0}, {9, 1025, 1, true, true, 0.01F},
    {7, 5, 3, true, false, 2},
};

static void all_shapes_are_right(enum sn_dtype t)
{
    bool good = true;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
        good = right(&cases[c], t, 0) && right(&cases[c], t, 12) && good;
    tap_ok(good, "%s: all shapes, with a cap too; losses are added in the order of rows",
           sn_dtype_name(t));
}

static void extreme_logits_are_harmless(void)
{
    float x[4] = {1e30f, -1e30f, -INFINITY, 1e30f}, loss = 0;
    int32_t target = 0;
    struct sn_scalars s = {.targets_in_step = 1, .loss_scale = 1};
    struct sn_args a = {.in = {{x, SN_F32, 1, 4, 4}, {&target, SN_I32, 1, 1, 1}},
                        .out = {{x, SN_F32, 1, 4, 4}, {&loss, SN_F32, 1, 1, 1}},
                        .scalars = &s};
    bool ran = sn_ops_cpu()->run[SN_OP_CROSS_ENTROPY](&a, 1) == 0;
    tap_close((double)loss, 0.0, 1e-6, 1.0, "1e30 twice: the sum is not lost beside the maximum");
    tap_ok(ran && x[1] == 0 && x[2] == 0 && isfinite(x[0]), "gradients stay finite");
    x[0] = NAN;
    ran = sn_ops_cpu()->run[SN_OP_CROSS_ENTROPY](&a, 1) == 0;
    tap_ok(ran && isnan(loss), "a NaN arrives in the loss");
}

/* Whatever the logits are: a row that fills the batch may hold anything. */
static void a_row_without_a_target_counts_nothing(enum sn_dtype t, bool parts)
{
    enum { ROWS = 5, COLS = 33 };
    struct kt k = {.magnitude = 1e-6};
    struct kt_shape shape = {t, ROWS, COLS, 2};
    struct sn_mat *x = kt_in(&k, 0, shape);
    struct sn_mat *targets = kt_in(&k, 1, (struct kt_shape){SN_I32, ROWS, 1, 0});
    for (int64_t r = 0; r < ROWS; r++)
        kt_set(targets, r, 0, r % 2 ? SN_NO_TARGET : (double)r);
    kt_set(x, 1, 4, INFINITY);
    kt_set(x, 3, 0, NAN);
    k.scalars = (struct sn_scalars){
        .targets_in_step = tokens, .loss_scale = (float)loss_scale, .loss_sum = 2.5};
    if (parts) {
        struct sn_mat *part = kt_in(&k, 2, (struct kt_shape){SN_F32, ROWS, 3, 0});
        for (int64_t r = 0; r < ROWS; r++)
            for (int64_t c = 0; c < 3; c++)
                kt_set(part, r, c, r % 2 ? NAN : c == 1 ? 1 : 0);
    }
    kt_out(&k, 0, shape, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 2);
    double sum = 2.5;
    for (int64_t r = 0; r < ROWS; r++) {
        double loss = kt_get(&k.a.out[1], r, 0);
        int64_t zeros = 0;
        for (int64_t c = 0; c < COLS; c++)
            zeros += kt_get(&k.a.out[0], r, c) == 0;
        good = good && (r % 2 ? loss == 0 && zeros == COLS : isfinite(loss) && zeros == 0);
        sum += loss;
    }
    tap_ok(good && k.scalars.loss_sum == sum,
           "%s%s: rows without a target have no loss and no gradient", sn_dtype_name(t),
           parts ? " over ranks" : "");
    kt_free(&k);
}

static double ahead_of(const struct sn_mat *x, int64_t r, int64_t first, int64_t n, int64_t target)
{
    double chosen = kt_get(x, r, target), ahead = 0;
    for (int64_t c = first; c < first + n; c++)
        ahead += kt_get(x, r, c) > chosen || (kt_get(x, r, c) == chosen && c < target);
    return ahead;
}

/* Small whole numbers, so that many are equal. The same of two ranks' words, of which each counts its own. */
static void words_ahead_of_the_target_are_counted(enum sn_dtype t)
{
    enum { ROWS = 9, COLS = 70 };
    struct kt k = {.magnitude = 1e-6}, half[2] = {{.magnitude = 1e-6}, {.magnitude = 1e-6}};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){t, ROWS, COLS, 0});
    struct sn_mat *targets = kt_in(&k, 1, (struct kt_shape){SN_I32, ROWS, 1, 0});
    for (int64_t r = 0; r < ROWS; r++) {
        kt_set(targets, r, 0, r == 4 ? SN_NO_TARGET : (double)(r * 29 % COLS));
        for (int64_t c = 0; c < COLS; c++)
            kt_set(x, r, c, (double)((r * 31 + c * c * 7) % 11));
    }
    kt_set(x, 7, 3, NAN);
    k.scalars = (struct sn_scalars){.targets_in_step = tokens, .loss_scale = 1};
    kt_out(&k, 1, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
    kt_out(&k, 3, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
    bool good = kt_run(&k, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 2);
    for (int64_t r = 0; r < ROWS; r++) {
        double want = r == 4   ? 0
                      : r == 7 ? ahead_of(x, r, 0, COLS, 7 * 29 % COLS) + 1
                               : ahead_of(x, r, 0, COLS, r * 29 % COLS);
        good = good && kt_get(&k.a.out[3], r, 0) == want;
    }
    tap_ok(good, "%s: words ahead of the target are counted, a NaN among them", sn_dtype_name(t));
    for (int p = 0; p < 2; p++) {
        struct kt *h = &half[p];
        struct sn_mat *y = kt_in(h, 0, (struct kt_shape){t, ROWS, COLS / 2, 0});
        struct sn_mat *to = kt_in(h, 1, (struct kt_shape){SN_I32, ROWS, 1, 0});
        struct sn_mat *parts = kt_in(h, 2, (struct kt_shape){SN_F32, 2 * ROWS, 3, 0});
        h->a.attr.vocab.first = (int32_t)(p * COLS / 2);
        h->a.attr.vocab.words = COLS;
        h->scalars = k.scalars;
        for (int64_t r = 0; r < ROWS; r++) {
            int64_t target = r * 29 % COLS;
            kt_set(to, r, 0, kt_get(targets, r, 0));
            for (int64_t c = 0; c < COLS / 2; c++)
                kt_set(y, r, c, kt_get(x, r, c + p * COLS / 2));
            for (int64_t q = 0; q < 2; q++) {
                kt_set(parts, q * ROWS + r, 0, 10);
                kt_set(parts, q * ROWS + r, 1, 1);
                kt_set(parts, q * ROWS + r, 2, target / (COLS / 2) == q ? kt_get(x, r, target) : 0);
            }
        }
        kt_out(h, 1, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
        kt_out(h, 3, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
        good = good && kt_run(h, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 2);
    }
    for (int64_t r = 0; r < ROWS; r++)
        good = good && kt_get(&half[0].a.out[3], r, 0) + kt_get(&half[1].a.out[3], r, 0) ==
                           kt_get(&k.a.out[3], r, 0);
    tap_ok(good, "%s: two ranks count their own words", sn_dtype_name(t));
    kt_free(&k);
    kt_free(&half[0]);
    kt_free(&half[1]);
}

/* Of four sets, one of which has no row. */
static void losses_are_told_by_set(enum sn_dtype t)
{
    enum { ROWS = 700, COLS = 9 };
    struct kt k = {.magnitude = 1e-6, .a.attr.vocab.sets = 4};
    struct kt_shape shape = {t, ROWS, COLS, 0}, column = {SN_I32, ROWS, 1, 0};
    double want[4] = {2, 0, -1, 7};
    (void)kt_in(&k, 0, shape);
    struct sn_mat *targets = kt_in(&k, 1, column), *sets = kt_in(&k, SN_CROSS_ENTROPY_SETS, column);
    for (int64_t r = 0; r < ROWS; r++) {
        kt_set(targets, r, 0, r % 5 == 1 ? SN_NO_TARGET : (double)(r % COLS));
        kt_set(sets, r, 0, (double)(r * r % 7 % 3));
    }
    k.scalars = (struct sn_scalars){.targets_in_step = tokens, .loss_scale = 1};
    memcpy(k.set_losses, want, sizeof(want));
    kt_out(&k, 1, (struct kt_shape){SN_F32, ROWS, 1, 0}, SN_WRITE);
    bool good = sn_set_losses(&k.scalars) == k.set_losses &&
                kt_run(&k, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 2);
    for (int64_t r = 0; r < ROWS; r++)
        want[(int)kt_get(sets, r, 0)] += kt_get(&k.a.out[1], r, 0);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        good = good && fabs(k.set_losses[i] - want[i]) <= 1e-12 * fabs(want[i]);
        sum += k.set_losses[i];
    }
    tap_ok(good && want[3] == 7 && fabs(sum - 8 - k.scalars.loss_sum) <= 1e-9,
           "%s: each set's losses are added, and together they are those of all", sn_dtype_name(t));
    kt_free(&k);
}

int main(void)
{
    all_shapes_are_right(SN_F32);
    all_shapes_are_right(SN_BF16);
    all_shapes_are_right(SN_F16);
    words_ahead_of_the_target_are_counted(SN_F32);
    words_ahead_of_the_target_are_counted(SN_BF16);
    extreme_logits_are_harmless();
    a_row_without_a_target_counts_nothing(SN_F32, false);
    a_row_without_a_target_counts_nothing(SN_BF16, false);
    a_row_without_a_target_counts_nothing(SN_F16, true);
    losses_are_told_by_set(SN_F32);
    losses_are_told_by_set(SN_BF16);
    a_loss_beside_has_a_weight_and_a_sum_of_its_own();
    return tap_done();
}
