/*
 * DROPOUT and JITTER: the factors that kernels/dropout.h specifies, and nothing else decides.
 */
#include "kernels/dropout.h"
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

static const struct sn_scalars step_9 = {.seed = 77, .step = 9, .first_sample = 1000};

/* The specification, element by element, written out once more. */
static double unit(const struct sn_scalars *s, uint32_t purpose, uint32_t site, int64_t sample,
                   int64_t e)
{
    struct sn_philox k = sn_philox(s->seed, (uint64_t)s->step, purpose);
    uint64_t key = (uint64_t)k.v[1] << 32 | k.v[0];
    struct sn_philox w = sn_philox(key, (uint64_t)site << 32 | (uint32_t)sample, (uint64_t)(e / 4));
    return (double)(w.v[e % 4] >> 8) / 16777216.0;
}

static double factor(enum sn_op_kind op, const struct kt *k, int64_t sample, int64_t e)
{
    const struct sn_attr *a = &k->a.attr;
    if (op == SN_OP_JITTER)
        return 1.0 + (double)a->random.jitter *
                         (2.0 * unit(&k->scalars, 0x6a697472u, a->random.site, sample, e) - 1.0);
    double drop = (double)a->random.drop;
    return unit(&k->scalars, 0x64726f70u, a->random.site, sample, e) >= drop ? 1.0 / (1.0 - drop)
                                                                             : 0.0;
}

/* `amount`: of dropout or of noise; `place`: the operand that takes the result, -1 for none. */
static bool case_of(enum sn_op_kind op, struct kt_shape s, int64_t seq, float amount, bool addend,
                    int place)
{
    struct kt k = {.magnitude = 1.0, .scalars = step_9};
    const struct sn_mat *x = kt_in(&k, 0, s), *g = addend ? kt_in(&k, 1, s) : NULL;
    k.a.attr = (struct sn_attr){.position.seq = seq, .random.site = 5};
    *(op == SN_OP_JITTER ? &k.a.attr.random.jitter : &k.a.attr.random.drop) = amount;
    if (place >= 0)
        kt_take(&k, 0, place);
    else
        kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            double f = factor(op, &k, 1000 + r / seq, r % seq * s.cols + c);
            y[r * s.cols + c] = kt_get(x, r, c) * f + (g ? kt_get(g, r, c) : 0.0);
        }
    bool good = kt_check(&k, op, 1e-6); /* x f + g may cancel */
    kt_free(&k);
    return good;
}

static void equals_the_specification(enum sn_op_kind op, enum sn_dtype t)
{
    static const int64_t widths[] = {1, 7, 64, 257, 1027};
    bool good = true;
    for (int i = 0; i < 5; i++) {
        struct kt_shape s = {t, 36, widths[i], i % 2 ? 5 : 0};
        for (int place = -1; place < 1; place++)
            good = case_of(op, s, 9, 0.3f, false, place) && good;
        for (int place = -1; place < 2; place++)
            good = case_of(op, s, 36, 0.1f, true, place) && good;
        good = case_of(op, s, 4, 0.0f, true, -1) && good;
    }
    tap_ok(good, "%s of %s equals its specification", op == SN_OP_JITTER ? "JITTER" : "DROPOUT",
           sn_dtype_name(t));
}

/* Ones become numbers of 1 - jitter .. 1 + jitter with a mean of 1; steps and sites differ. */
static void noise_is_fair(void)
{
    enum { N = 1 << 15 };
    double sum[3] = {0}, least = 2, most = 0, alike = 0;
    static double values[3][N];
    for (int i = 0; i < 3; i++) {
        struct kt k = {.scalars = step_9};
        const struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, 64, N / 64, 0});
        for (int e = 0; e < N; e++)
            kt_set(x, e / (N / 64), e % (N / 64), 1.0);
        k.scalars.step += i == 1;
        k.a.attr = (struct sn_attr){
            .position.seq = 16, .random.site = 7 + (uint32_t)(i == 2), .random.jitter = 0.25f};
        kt_take(&k, 0, 0);
        (void)kt_run(&k, sn_ops_cpu(), SN_OP_JITTER, 2); /* its result is what the test reads */
        for (int e = 0; e < N; e++) {
            double f = values[i][e] = kt_get(x, e / (N / 64), e % (N / 64));
            sum[i] += f / N;
            least = f < least ? f : least;
            most = f > most ? f : most;
            alike += i > 0 && f == values[0][e];
        }
        kt_free(&k);
    }
    double sigma = 0.5 / sqrt(12.0 * N);
    tap_ok(least >= 0.75 && least < 0.751 && most < 1.25 && most > 1.249,
           "noise of 0.25 is in 0.75 .. 1.25 (%.5f .. %.5f)", least, most);
    tap_ok(fabs(sum[0] - 1) < 5 * sigma && fabs(sum[1] - 1) < 5 * sigma &&
               fabs(sum[2] - 1) < 5 * sigma && alike < 20,
           "with a mean of 1, another in each step and site");
}

/* Fraction kept of ones, and how many elements two masks share. */
enum { ROWS = 64, COLS = 512 };

static void mask_of(struct sn_scalars scalars, uint32_t site, float drop, bool *kept)
{
    struct kt k = {.scalars = scalars};
    const struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, ROWS, COLS, 0});
    for (int64_t i = 0; i < ROWS * COLS; i++)
        kt_set(x, i / COLS, i % COLS, 1.0);
    k.a.attr = (struct sn_attr){.position.seq = 16, .random.site = site, .random.drop = drop};
    kt_take(&k, 0, 0);
    (void)kt_run(&k, sn_ops_cpu(), SN_OP_DROPOUT, 2); /* its result is what the test reads */
    for (int64_t i = 0; i < ROWS * COLS; i++)
        kept[i] = kt_get(x, i / COLS, i % COLS) != 0.0;
    kt_free(&k);
}

static void masks_are_fair_and_independent(void)
{
    static bool mask[5][ROWS * COLS];
    struct sn_scalars next_step = step_9, other_seed = step_9, other_sample = step_9;
    next_step.step++;
    other_seed.seed++;
    other_sample.first_sample += 4;
    mask_of(step_9, 1, 0.25f, mask[0]);
    mask_of(step_9, 2, 0.25f, mask[1]);
    mask_of(next_step, 1, 0.25f, mask[2]);
    mask_of(other_seed, 1, 0.25f, mask[3]);
    mask_of(other_sample, 1, 0.25f, mask[4]);
    double n = ROWS * COLS, sigma = sqrt(n * 0.25 * 0.75);
    bool fair = true, independent = true;
    for (int m = 0; m < 5; m++) {
        double kept = 0.0, both = 0.0;
        for (int i = 0; i < ROWS * COLS; i++) {
            kept += mask[m][i];
            both += mask[m][i] && mask[0][i];
        }
        fair = fair && fabs(kept - 0.75 * n) < 5 * sigma;
        independent = independent && (m == 0 || fabs(both - 0.5625 * n) < 6 * sigma);
    }
    tap_ok(fair, "a mask keeps its share");
    tap_ok(independent, "site, step, seed and sample each change the mask");
}

/* Samples 1001 .. as the second of a batch or the first of the next: the layout is invisible. */
static void mask_belongs_to_the_global_sample(void)
{
    static bool a[ROWS * COLS], b[ROWS * COLS];
    struct sn_scalars shifted = step_9;
    shifted.first_sample += 1;
    mask_of(step_9, 1, 0.25f, a);
    mask_of(shifted, 1, 0.25f, b);
    tap_ok(memcmp(a + 16 * COLS, b, sizeof(bool) * (ROWS - 16) * COLS) == 0,
           "a sample has one mask wherever it stands in the batch");
}

int main(void)
{
    for (int t = 0; t < 3; t++) {
        equals_the_specification(SN_OP_DROPOUT, dtypes[t]);
        equals_the_specification(SN_OP_JITTER, dtypes[t]);
    }
    noise_is_fair();
    masks_are_fair_and_independent();
    mask_belongs_to_the_global_sample();
    return tap_done();
}
