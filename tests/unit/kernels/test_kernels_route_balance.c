/*
 * The loss that balances experts in each sequence (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, equations 17 to 20), of
 * rows that are some of the sequences': counts as sums over tokens, the loss by its formula, its gradient
 * against differences of that.
 */
#include "tests/lib/kernel_test.h"

#include <math.h>

/* Three samples of 24 tokens, of which the second of two context ranks has two chunks of 6; of its 36 rows 23
 * from the fifth on. */
enum { SAMPLES = 3, SEQ = 24, ROW0 = 5, T = 23, E = 40, K = 3, HERE = SEQ / 2 };

static const struct sn_position_attr place = {
    .seq = SEQ, .context = 2, .context_rank = 1, .zigzag = true, .row0 = ROW0};

static struct kt_shape shape(enum sn_dtype t, int64_t rows, int64_t cols, int64_t pad)
{
    return (struct kt_shape){t, rows, cols, pad};
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* s' of a token: what experts have of 1. */
static void parts_of(const double *x, bool sigmoids, double *part)
{
    double sum = 0;
    for (int e = 0; e < E; e++)
        sum += part[e] = sigmoids ? sigmoid(x[e]) : exp(x[e]);
    for (int e = 0; e < E; e++)
        part[e] /= sum;
}

static void row_of(const struct sn_mat *m, int64_t r, double *x)
{
    for (int e = 0; e < E; e++)
        x[e] = kt_get(m, r, e);
}

static void top_k(const double *x, int choice[K])
{
    bool taken[E] = {false};
    for (int j = 0; j < K; j++) {
        int best = -1;
        for (int e = 0; e < E; e++)
            if (!taken[e] && (best < 0 || x[e] > x[best]))
                best = e;
        taken[choice[j] = best] = true;
    }
}

static void counts_are_of_each_sequence(bool sigmoids, bool biased)
{
    struct kt k = {.magnitude = 1e-2, .a.attr = {.position = place, .experts.sigmoid = sigmoids}};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 3)), *b = biased ? kt_in(&k, 1, shape(SN_F32, 1, E, 0)) : NULL;
    kt_out(&k, 0, shape(SN_F32, T, K, 2), SN_WRITE);
    kt_out(&k, 1, shape(SN_I32, T, K, 0), SN_WRITE);
    kt_out(&k, 2, shape(SN_F32, 1, E, 0), SN_WRITE);
    kt_out(&k, SN_ROUTE_SEQUENCES, shape(SN_F32, SAMPLES, E, 5), SN_WRITE);
    double *w = kt_ref(&k, 0), *choice = kt_ref(&k, 1), *counts = kt_ref(&k, 2),
           *sums = kt_ref(&k, SN_ROUTE_SEQUENCES), *own = NULL;
    if (biased) {
        kt_out(&k, SN_ROUTE_OWN, shape(SN_I32, T, K, 1), SN_WRITE);
        own = kt_ref(&k, SN_ROUTE_OWN);
    }
    int others = 0, used[SAMPLES] = {0};
    for (int64_t r = 0; r < T; r++) {
        double row[E], score[E], all = 0, sum = 0;
        int with[K], without[K];
        row_of(x, r, row);
        for (int e = 0; e < E; e++)
            all += exp(row[e]);
        for (int e = 0; e < E; e++)
            score[e] = (sigmoids ? sigmoid(row[e]) : exp(row[e]) / all) + (b ? kt_get(b, 0, e) : 0);
        top_k(score, with);
        top_k(row, without);
        for (int j = 0; j < K; j++)
            sum += sigmoids ? sigmoid(row[with[j]]) : exp(row[with[j]]);
        for (int j = 0; j < K; j++) {
            w[r * K + j] = (sigmoids ? sigmoid(row[with[j]]) : exp(row[with[j]])) / sum;
            choice[r * K + j] = with[j];
            counts[with[j]]++;
            if (own)
                own[r * K + j] = without[j];
            others += with[j] != without[j];
            sums[(ROW0 + r) / HERE * E + without[j]]++;
            used[(ROW0 + r) / HERE]++;
        }
    }
    tap_ok(used[0] == 7 * K && used[1] == 12 * K && used[2] == 4 * K && (others > 0) == biased,
           "rows are of three sequences, and %d choices are a bias's", others);
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-5), "ROUTE counts them in each sequence, by %s%s",
           sigmoids ? "sigmoids" : "a softmax", biased ? ", without the bias" : "");
    kt_free(&k);
}

/* f of an expert, by the counts of a sequence. */
static double load_of(const struct sn_mat *counts, int64_t s, int e)
{
    double all = 0;
    for (int i = 0; i < E; i++)
        all += kt_get(counts, s, i);
    return E * kt_get(counts, s, e) / all;
}

static void fill(struct sn_mat *counts)
{
    for (int s = 0; s < SAMPLES; s++)
        for (int e = 0; e < E; e++)
            kt_set(counts, s, e, (s * 5 + e * 3) % 11);
}

/* What a row adds to sum_s sum_e f_e sum_t s'. */
static double share_of(const struct sn_mat *counts, int64_t r, const double *x, bool sigmoids)
{
    double part[E], sum = 0;
    parts_of(x, sigmoids, part);
    for (int e = 0; e < E; e++)
        sum += load_of(counts, (ROW0 + r) / HERE, e) * part[e];
    return sum;
}

static void loss_is_the_formulas(bool sigmoids)
{
    struct kt k = {.a.attr = {.position = place, .experts = {.sigmoid = sigmoids, .by_sequence = true}}};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 1)), *counts = kt_in(&k, 1, shape(SN_F32, SAMPLES, E, 2));
    double want = 0, row[E];
    fill(counts);
    for (int64_t r = 0; r < T; r++) {
        row_of(x, r, row);
        want += share_of(counts, r, row, sigmoids);
    }
    k.scalars.balance_sum = 3;
    bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_ROUTE_LOSS, 2);
    tap_ok(ran && fabs(k.scalars.balance_sum - 3 - want) < 1e-6 * want, "ROUTE_LOSS of %s adds %.7f, want %.7f",
           sigmoids ? "sigmoids" : "a softmax", k.scalars.balance_sum - 3, want);
    kt_free(&k);
}

static void gradient_is_the_slope(bool sigmoids, enum sn_dtype t)
{
    struct kt k = {.magnitude = 1e-2,
                   .scalars = {.tokens_in_step = 20, .loss_scale = 8},
                   .a.attr = {.position = place,
                              .experts = {.aux_loss = 0.5f, .sigmoid = sigmoids, .by_sequence = true}}};
    struct sn_mat *dw = kt_in(&k, 0, shape(SN_F32, T, K, 1)), *x = kt_in(&k, 1, shape(SN_F32, T, E, 0)),
                  *c = kt_in(&k, 2, shape(SN_I32, T, K, 0)), *counts = kt_in(&k, 3, shape(SN_F32, SAMPLES, E, 2));
    kt_out(&k, 0, shape(t, T, E, 0), SN_WRITE);
    double *dx = kt_ref(&k, 0), row[E];
    fill(counts);
    for (int64_t r = 0; r < T; r++) {
        for (int j = 0; j < K; j++) {
            kt_set(dw, r, j, 0);
            kt_set(c, r, j, j);
        }
        row_of(x, r, row);
        for (int e = 0; e < E; e++) {
            double at = row[e], h = 1e-4;
            row[e] = at + h;
            double up = share_of(counts, r, row, sigmoids);
            row[e] = at - h;
            dx[r * E + e] = 0.5 * 8 / 20 * (up - share_of(counts, r, row, sigmoids)) / (2 * h);
            row[e] = at;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX of it, of %s, to %s", sigmoids ? "sigmoids" : "a softmax",
           sn_dtype_name(t));
    kt_free(&k);
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        counts_are_of_each_sequence(i & 1, i & 2);
    for (int i = 0; i < 2; i++) {
        loss_is_the_formulas(i);
        gradient_is_the_slope(i, SN_F32);
        gradient_is_the_slope(i, SN_BF16);
    }
    return tap_done();
}
