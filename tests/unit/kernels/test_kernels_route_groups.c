/*
 * Routers whose scores are sigmoids, and choices in groups of experts: ROUTE in double, ROUTE_DX against
 * differences of the weights.
 */
#include "tests/lib/kernel_test.h"

#include <math.h>

enum { T = 48 };
static const struct sn_scalars step_9 = {
    .seed = 77, .step = 9, .first_sample = 1000, .tokens_in_step = 20, .loss_scale = 1};

static struct kt_shape shape(enum sn_dtype t, int64_t rows, int64_t cols, int64_t pad)
{
    return (struct kt_shape){t, rows, cols, pad};
}

enum { N = 40, GROUPS = 8, OPEN = 3, K = 4 }; /* more experts than a warp has lanes */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The score of group g: its largest, or its two largest together. */
static double score_of_group(const double *s, int g, bool two)
{
    double first = -INFINITY, second = -INFINITY;
    for (int e = g * (N / GROUPS); e < (g + 1) * (N / GROUPS); e++) {
        if (s[e] > first) {
            second = first;
            first = s[e];
        } else if (s[e] > second) {
            second = s[e];
        }
    }
    return two ? first + second : first;
}

/* Which of n is largest and not yet taken. */
static int largest_left(const double *x, const bool *taken, int n)
{
    int found = -1;
    for (int i = 0; i < n; i++)
        if (!taken[i] && (found < 0 || x[i] > x[found]))
            found = i;
    return found;
}

static void choose_in_groups(const double *s, bool two, int choice[K])
{
    double score[GROUPS];
    bool open[GROUPS] = {false}, taken[N];
    for (int g = 0; g < GROUPS; g++)
        score[g] = score_of_group(s, g, two);
    for (int k = 0; k < OPEN; k++)
        open[largest_left(score, open, GROUPS)] = true;
    for (int e = 0; e < N; e++)
        taken[e] = !open[e / (N / GROUPS)];
    for (int j = 0; j < K; j++) {
        choice[j] = largest_left(s, taken, N);
        taken[choice[j]] = true;
    }
}

/* Weights of those chosen, by x. */
static void weigh(const struct sn_experts_attr *a, const double *x, const int choice[K],
                  double w[K])
{
    double sum = 0, of_all = 0;
    for (int e = 0; e < N; e++)
        of_all += exp(x[e]);
    for (int j = 0; j < K; j++)
        sum += a->sigmoid ? sigmoid(x[choice[j]]) : exp(x[choice[j]]);
    sum = !a->of_all ? sum : a->sigmoid ? 1 : of_all;
    for (int j = 0; j < K; j++)
        w[j] =
            (double)a->route_scale * (a->sigmoid ? sigmoid(x[choice[j]]) : exp(x[choice[j]])) / sum;
}

static struct sn_experts_attr in_groups(bool sigmoids, bool of_all)
{
    return (struct sn_experts_attr){.sigmoid = sigmoids,
                                    .of_all = of_all,
                                    .groups = GROUPS,
                                    .top_groups = OPEN,
                                    .route_scale = 2.5f};
}

static void choices_are_of_some_groups(bool sigmoids, bool of_all, bool biased)
{
    struct kt k = {.magnitude = 1e-2, .a.attr.experts = in_groups(sigmoids, of_all)};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, N, 3)),
                  *b = biased ? kt_in(&k, 1, shape(SN_F32, 1, N, 0)) : NULL;
    for (int e = 0; e < N && b && !sigmoids; e++) /* as small as probabilities are */
        kt_set(b, 0, e, 0.02 * kt_get(b, 0, e));
    kt_out(&k, 0, shape(SN_F32, T, K, 2), SN_WRITE);
    kt_out(&k, 1, shape(SN_I32, T, K, 0), SN_WRITE);
    kt_out(&k, 2, shape(SN_F32, 1, N, 0), SN_WRITE);
    double *w = kt_ref(&k, 0), *choice = kt_ref(&k, 1), *counts = kt_ref(&k, 2), row[N], s[N];
    int elsewhere = 0;
    for (int64_t r = 0; r < T; r++) {
        double all = 0;
        int chosen[K];
        bool none[N] = {false};
        for (int e = 0; e < N; e++)
            all += exp(row[e] = kt_get(x, r, e));
        for (int e = 0; e < N; e++)
            s[e] = (sigmoids ? sigmoid(row[e]) : exp(row[e]) / all) + (b ? kt_get(b, 0, e) : 0);
        choose_in_groups(s, sigmoids, chosen);
        weigh(&k.a.attr.experts, row, chosen, w + r * K);
        for (int j = 0; j < K; j++) {
            int best = largest_left(s, none, N);
            none[best] = true;
            elsewhere += best != chosen[j];
            choice[r * K + j] = chosen[j];
            counts[chosen[j]]++;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-5) && elsewhere > 0, "ROUTE in groups, of %s%s%s",
           sigmoids ? "sigmoids" : "a softmax", of_all ? ", each alone" : "",
           biased ? ", with a bias" : "");
    kt_free(&k);
}

static void gradient_in_groups_is_the_slope(bool sigmoids, bool of_all, enum sn_dtype t)
{
    struct kt k = {
        .magnitude = 0.1, .scalars = step_9, .a.attr.experts = in_groups(sigmoids, of_all)};
    struct sn_mat *dw = kt_in(&k, 0, shape(SN_F32, T, K, 1)),
                  *x = kt_in(&k, 1, shape(SN_F32, T, N, 0)),
                  *c = kt_in(&k, 2, shape(SN_I32, T, K, 0));
    kt_out(&k, 0, shape(t, T, N, 0), SN_WRITE);
    double *dx = kt_ref(&k, 0), row[N];
    for (int64_t r = 0; r < T; r++) {
        int chosen[K];
        for (int j = 0; j < K; j++)
            kt_set(c, r, j, chosen[j] = (int)((r * 7 + j * 11) % N));
        for (int e = 0; e < N; e++)
            row[e] = kt_get(x, r, e);
        for (int e = 0; e < N; e++) {
            double at = row[e], h = 1e-5, value[2] = {0, 0}, w[K];
            for (int side = 0; side < 2; side++) {
                row[e] = side ? at - h : at + h;
                weigh(&k.a.attr.experts, row, chosen, w);
                for (int j = 0; j < K; j++)
                    value[side] += kt_get(dw, r, j) * w[j];
            }
            dx[r * N + e] = (value[0] - value[1]) / (2 * h);
            row[e] = at;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX of them, of %s%s, to %s",
           sigmoids ? "sigmoids" : "a softmax", of_all ? ", each alone" : "", sn_dtype_name(t));
    kt_free(&k);
}

int main(void)
{
    for (int i = 0; i < 8; i++)
        choices_are_of_some_groups(i & 1, i & 2, i & 4);
    for (int i = 0; i < 4; i++)
        gradient_in_groups_is_the_slope(i & 1, i & 2, i < 2 ? SN_F32 : SN_BF16);
    return tap_done();
}
