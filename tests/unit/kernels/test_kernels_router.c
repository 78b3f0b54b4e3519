/*
 * Routers other than the k largest. A sparsemixer: what kernels/mixer.h specifies, in double; its
 * gradient against differences of the probabilities, and that draws are fair. A dense one: softmax,
 * and the information of tokens and experts, whose gradient is held to differences too.
 */
#include "kernels/mixer.h"
#include "tests/lib/kernel_test.h"

#include <math.h>

enum { T = 48, E = 37, SEQ = 12 }; /* more experts than a warp has lanes */

static const struct sn_scalars step_9 = {
    .seed = 77, .step = 9, .first_sample = 1000, .tokens_in_step = 20, .loss_scale = 1};

static struct kt_shape shape(enum sn_dtype t, int64_t rows, int64_t cols, int64_t pad)
{
    return (struct kt_shape){t, rows, cols, pad};
}

/* Probabilities of choice j among n logits; returns the largest. */
struct mix {
    const double *z;
    int n, j;
    const int *choice;
    double range;
};

static int probabilities(const struct mix *m, double *p)
{
    int top = -1;
    double sum = 0;
    for (int e = 0; e < m->n; e++) {
        p[e] = 1;
        for (int i = 0; i < m->j; i++)
            p[e] = m->choice[i] == e ? 0 : p[e];
        if (p[e] > 0 && (top < 0 || m->z[e] > m->z[top]))
            top = e;
    }
    for (int e = 0; e < m->n; e++) {
        bool near = m->z[top] - m->z[e] <= m->range * (fabs(m->z[e]) + fabs(m->z[top]));
        p[e] = p[e] > 0 && near ? exp(m->z[e] - m->z[top]) : 0;
        sum += p[e];
    }
    for (int e = 0; e < m->n; e++)
        p[e] /= sum;
    return top;
}

/* Words of the specification, written once more. */
static struct sn_philox words(const struct sn_scalars *s, uint32_t site, int64_t sample, int64_t at)
{
    struct sn_philox k = sn_philox(s->seed, (uint64_t)s->step, 0x6d697872u);
    uint64_t key = (uint64_t)k.v[1] << 32 | k.v[0];
    return sn_philox(key, (uint64_t)site << 32 | (uint32_t)sample, (uint64_t)at);
}

static void row_of(const struct sn_mat *m, int64_t r, double *x)
{
    for (int64_t e = 0; e < m->cols; e++)
        x[e] = kt_get(m, r, e);
}

/* Choice j of row r as the specification says it; its factor and probability. */
struct chosen {
    int expert;
    double p, factor;
};

static struct chosen choose(const struct kt *k, int64_t r, int choices, const struct mix *m)
{
    double p[E], sum = 0;
    struct chosen c = {probabilities(m, p), 0, 1};
    int top = c.expert;
    struct sn_philox w =
        words(&k->scalars, k->a.attr.random.site, 1000 + r / SEQ, r % SEQ * choices + m->j);
    if (k->a.attr.draws) {
        for (c.expert = 0; c.expert < m->n; c.expert++)
            if ((sum += p[c.expert]) > (double)w.v[0] / 4294967296.0)
                break;
        c.factor = c.expert == top || w.v[1] < 0x40000000u ? 1 : 1.0 / 3;
    }
    c.p = p[c.expert];
    return c;
}

static void routing_is_as_specified(int choices, float range, bool draws)
{
    struct kt k = {.magnitude = 1e-3, .scalars = step_9};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 3));
    k.a.attr = (struct sn_attr){.position.seq = SEQ,
                                .random.site = 7,
                                .experts.sparsemixer = true,
                                .draws = draws,
                                .experts.range = range};
    kt_out(&k, 0, shape(SN_F32, T, choices, 2), SN_WRITE);
    kt_out(&k, 1, shape(SN_I32, T, choices, 1), SN_WRITE);
    kt_out(&k, 2, shape(SN_F32, 1, E, 0), SN_WRITE);
    double *w = kt_ref(&k, 0), *c = kt_ref(&k, 1), *n = kt_ref(&k, 2), *p = NULL, row[E];
    if (draws) {
        kt_out(&k, 3, shape(SN_F32, T, choices, 0), SN_WRITE);
        p = kt_ref(&k, 3);
    }
    int others = 0, thirds = 0;
    for (int64_t r = 0; r < T; r++) {
        int choice[2] = {-1, -1};
        row_of(x, r, row);
        for (int j = 0; j < choices; j++) {
            struct mix m = {row, E, j, choice, (double)range};
            struct chosen got = choose(&k, r, choices, &m);
            double all[E];
            others += got.expert != probabilities(&m, all);
            thirds += got.factor < 1;
            c[r * choices + j] = choice[j] = got.expert;
            w[r * choices + j] = got.factor * got.p;
            if (p)
                p[r * choices + j] = got.p;
            n[got.expert]++;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-6), "ROUTE of a sparsemixer, top %d, range %g, %s", choices,
           (double)range, draws ? "drawn" : "the largest");
    tap_ok(draws == (others > 0) && draws == (thirds > 0) && thirds <= others,
           "of %d choices %d are not the largest, %d of them count a third", T * choices, others,
           thirds);
    kt_free(&k);
}

/* sum over j of dw_j p_j, whose choices are what they are. */
static double objective(const double *dw, const double *z, const int *choice, double range)
{
    double sum = 0, p[E];
    for (int j = 0; j < 2; j++) {
        struct mix m = {z, E, j, choice, range};
        (void)probabilities(&m, p);
        sum += dw[j] * p[choice[j]];
    }
    return sum;
}

/* The probabilities of the largest, and of any that are near. */
static void gradient_is_the_slope_of_probabilities(enum sn_dtype t)
{
    struct kt k = {.magnitude = 1e-2, .scalars = step_9};
    k.a.attr = (struct sn_attr){.experts.sparsemixer = true, .experts.range = 0.6f};
    struct sn_mat *dw = kt_in(&k, 0, shape(SN_F32, T, 2, 1));
    struct sn_mat *x = kt_in(&k, 1, shape(SN_F32, T, E, 0));
    struct sn_mat *choice = kt_new(&k, 2, shape(SN_I32, T, 2, 0));
    kt_out(&k, 0, shape(t, T, E, 0), SN_WRITE);
    double *dx = kt_ref(&k, 0), row[E], g[2], p[E];
    for (int64_t r = 0; r < T; r++) {
        int c[2] = {0, 0};
        row_of(x, r, row);
        row_of(dw, r, g);
        for (int j = 0; j < 2; j++) {
            struct mix m = {row, E, j, c, 0.6f};
            c[j] = probabilities(&m, p);
            for (int e = 0; e < E && r % 3; e++)
                c[j] = p[e] > 0 && (e + r) % 2 ? e : c[j];
            kt_set(choice, r, j, c[j]);
        }
        for (int e = 0; e < E; e++) {
            double at = row[e], h = 1e-6;
            row[e] = at + h;
            double up = objective(g, row, c, 0.6f);
            row[e] = at - h;
            dx[r * E + e] = (up - objective(g, row, c, 0.6f)) / (2 * h);
            row[e] = at;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX of a sparsemixer to %s", sn_dtype_name(t));
    kt_free(&k);
}

/* --- fairness --------------------------------------------------------------------------------- */

/* All rows have the same logits, of which the last is too far away to be drawn first. */
static void draws_are_fair(void)
{
    enum { ROWS = 10000, N = 5 };
    static const double z[N] = {1.0, 1.4, 1.2, 1.3, 0.1};
    struct kt k = {.scalars = step_9};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, ROWS, N, 0));
    for (int64_t i = 0; i < (int64_t)ROWS * N; i++)
        kt_set(x, i / N, i % N, z[i % N]);
    k.a.attr = (struct sn_attr){.position.seq = 100,
                                .random.site = 3,
                                .experts.sparsemixer = true,
                                .draws = true,
                                .experts.range = 0.4f};
    struct sn_mat *w = kt_out(&k, 0, shape(SN_F32, ROWS, 2, 0), SN_WRITE);
    struct sn_mat *c = kt_out(&k, 1, shape(SN_I32, ROWS, 2, 0), SN_WRITE);
    kt_out(&k, 2, shape(SN_F32, 1, N, 0), SN_WRITE);
    struct sn_mat *p = kt_out(&k, 3, shape(SN_F32, ROWS, 2, 0), SN_WRITE);
    (void)kt_run(&k, sn_ops_cpu(), SN_OP_ROUTE, 2); /* its result is what the test reads */
    double first[N] = {0}, second[N] = {0}, want[2][N], others = 0, whole = 0;
    int one = 1, repeated = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        int a = (int)kt_get(c, r, 0), b = (int)kt_get(c, r, 1);
        first[a] += 1.0 / ROWS;
        second[b] += a == 1;
        repeated += a == b;
        others += a != 1;
        whole += a != 1 && kt_get(w, r, 0) == kt_get(p, r, 0);
    }
    (void)probabilities(&(struct mix){z, N, 0, NULL, 0.4}, want[0]);
    (void)probabilities(&(struct mix){z, N, 1, &one, 0.4}, want[1]);
    double far = 0;
    for (int e = 0; e < N; e++) {
        double n = first[1] * ROWS, q = want[0][e], s = want[1][e];
        far = fmax(far, fabs(first[e] - q) / (5 * sqrt(q * (1 - q) / ROWS) + 1e-12));
        far = fmax(far, fabs(second[e] / n - s) / (5 * sqrt(s * (1 - s) / n) + 1e-12));
    }
    tap_ok(first[4] == 0 && repeated == 0 && far < 1,
           "experts are drawn as often as they are probable, first and second (%.2f of 5 sigma)",
           far);
    tap_ok(fabs(whole / others - 0.25) < 5 * sqrt(0.1875 / others),
           "a quarter of those that are not the largest counts whole (%.4f)", whole / others);
    kt_free(&k);
}

/* A row draws what its token draws, wherever it lies. */
static void draws_belong_to_the_token(void)
{
    struct sn_attr all = {.position.seq = 8, .random.site = 5},
                   part = {.position.seq = 8, .random.site = 5, .position.context = 2};
    int same = 0, n = 0;
    for (int rank = 0; rank < 2; rank++)
        for (int64_t r = 0; r < 8; r++) {
            struct sn_scalars here = step_9;
            part.position.context_rank = rank;
            part.position.zigzag = true;
            int64_t sample = r / 4, at = sn_position(&part.position, rank, r % 4);
            struct sn_mixer_draw a = sn_mixer_draw(&part, &here, r, 2, 1);
            here.first_sample += sample; /* another micro-batch */
            struct sn_mixer_draw b = sn_mixer_draw(&all, &here, at, 2, 1);
            same += a.unit == b.unit && a.whole == b.whole;
            n++;
        }
    tap_ok(same == n, "draws belong to sample and position, in any layout");
}

/* --- dense ------------------------------------------------------------------------------------ */

static void softmax(const double *x, double *p)
{
    double sum = 0;
    for (int e = 0; e < E; e++)
        sum += exp(x[e]);
    for (int e = 0; e < E; e++)
        p[e] = exp(x[e]) / sum;
}

static void dense_weights_are_the_softmax(void)
{
    struct kt k = {.magnitude = 1e-3};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 3));
    k.a.attr.experts.dense = true;
    kt_out(&k, 0, shape(SN_F32, T, E, 2), SN_WRITE);
    double *w = kt_ref(&k, 0), row[E];
    kt_out(&k, 2, shape(SN_F32, 1, E, 0), SN_WRITE);
    double *counts = kt_ref(&k, 2);
    for (int64_t r = 0; r < T; r++) {
        row_of(x, r, row);
        softmax(row, w + r * E);
        for (int e = 0; e < E; e++)
            counts[e] += w[r * E + e];
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-6), "ROUTE, dense");
    kt_free(&k);
}

/* Sums of probabilities of all rows. */
static void probabilities_of_all(const struct sn_mat *x, double *sums)
{
    double row[E], p[E];
    for (int64_t r = 0; r < T; r++) {
        row_of(x, r, row);
        softmax(row, p);
        for (int e = 0; e < E; e++)
            sums[e] += p[e];
    }
}

/* What row x, whose probabilities `sums` had as `was`, adds: dw p + aux (its part of the
 * information, and what it changes in that of the mean) + z lse^2. */
struct dense_objective {
    const double *dw, *sums, *was;
    double aux, z;
};

static double dense_objective(const struct dense_objective *o, const double *x)
{
    double p[E], value = 0, sum = 0;
    softmax(x, p);
    for (int e = 0; e < E; e++) {
        double c = o->sums[e] - o->was[e] + p[e];
        value += o->dw[e] * p[e] + o->aux * (c * log(c / T) - p[e] * log(p[e]));
        sum += exp(x[e]);
    }
    return value + o->z * log(sum) * log(sum);
}

static void dense_gradient_is_the_slope(enum sn_dtype t, bool losses)
{
    struct kt k = {.magnitude = 1e-2, .scalars = step_9};
    k.a.attr =
        (struct sn_attr){.experts.dense = true, .experts.aux_loss = 4.0f, .experts.z_loss = 0.25f};
    struct sn_mat *dw = kt_in(&k, 0, shape(SN_F32, T, E, 1));
    struct sn_mat *x = kt_in(&k, 1, shape(SN_F32, T, E, 0));
    struct sn_mat *counts = kt_in(&k, 3, shape(SN_F32, 1, E, 0));
    double sums[E] = {0}, row[E], was[E], g[E];
    probabilities_of_all(x, sums);
    for (int e = 0; e < E; e++)
        kt_set(counts, 0, e, sums[e]);
    kt_out(&k, 0, shape(t, T, E, 0), SN_WRITE);
    double *dx = kt_ref(&k, 0);
    struct dense_objective o = {g, sums, was, losses ? 4.0 / 20 : 0, losses ? 0.25 / 20 : 0};
    for (int64_t r = 0; r < T; r++) {
        row_of(x, r, row);
        row_of(dw, r, g);
        softmax(row, was);
        for (int e = 0; e < E; e++) {
            double at = row[e], h = 1e-5;
            row[e] = at + h;
            double up = dense_objective(&o, row);
            row[e] = at - h;
            dx[r * E + e] = (up - dense_objective(&o, row)) / (2 * h);
            row[e] = at;
        }
    }
    if (!losses)
        k.a.in[3] = (struct sn_mat){0};
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX, dense, to %s %s the losses",
           sn_dtype_name(t), losses ? "with" : "without");
    kt_free(&k);
}

/* --- the k largest, weighed among all ---------------------------------------------------------- */

/* The two largest of a row. */
static void two_largest(const double *x, int choice[2])
{
    choice[0] = x[1] > x[0];
    choice[1] = !choice[0];
    for (int e = 2; e < E; e++) {
        if (x[e] > x[choice[0]]) {
            choice[1] = choice[0];
            choice[0] = e;
        } else if (x[e] > x[choice[1]]) {
            choice[1] = e;
        }
    }
}

static void weights_may_be_among_all(void)
{
    struct kt k = {.magnitude = 1e-3};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 3));
    k.a.attr.experts.of_all = true;
    kt_out(&k, 0, shape(SN_F32, T, 2, 2), SN_WRITE);
    kt_out(&k, 1, shape(SN_I32, T, 2, 0), SN_WRITE);
    kt_out(&k, 2, shape(SN_F32, 1, E, 0), SN_WRITE);
    double *w = kt_ref(&k, 0), *choice = kt_ref(&k, 1), *counts = kt_ref(&k, 2), row[E], p[E];
    for (int64_t r = 0; r < T; r++) {
        int chosen[2];
        row_of(x, r, row);
        softmax(row, p);
        two_largest(row, chosen);
        for (int j = 0; j < 2; j++) {
            w[2 * r + j] = p[chosen[j]];
            choice[2 * r + j] = chosen[j];
            counts[chosen[j]]++;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-6), "ROUTE, weights among all experts");
    kt_free(&k);
}

static void their_gradient_is_the_slope(enum sn_dtype t)
{
    struct kt k = {.magnitude = 1e-2, .scalars = step_9};
    k.a.attr.experts.of_all = true;
    struct sn_mat *dw = kt_in(&k, 0, shape(SN_F32, T, 2, 1));
    struct sn_mat *x = kt_in(&k, 1, shape(SN_F32, T, E, 0)),
                  *c = kt_in(&k, 2, shape(SN_I32, T, 2, 0));
    kt_out(&k, 0, shape(t, T, E, 0), SN_WRITE);
    double *dx = kt_ref(&k, 0), row[E], p[E];
    for (int64_t r = 0; r < T; r++) {
        int chosen[2];
        row_of(x, r, row);
        two_largest(row, chosen);
        for (int j = 0; j < 2; j++)
            kt_set(c, r, j, chosen[j]);
        for (int e = 0; e < E; e++) {
            double at = row[e], h = 1e-5, value[2];
            for (int side = 0; side < 2; side++) {
                row[e] = side ? at - h : at + h;
                softmax(row, p);
                value[side] = kt_get(dw, r, 0) * p[chosen[0]] + kt_get(dw, r, 1) * p[chosen[1]];
            }
            dx[r * E + e] = (value[0] - value[1]) / (2 * h);
            row[e] = at;
        }
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX of them, to %s", sn_dtype_name(t));
    kt_free(&k);
}

/* H(mean p) - mean H(p) of rows: 0 where all are alike, log n where each has one of n experts. */
static double information_of(struct kt *k, double *want)
{
    struct sn_mat *x = &k->a.in[0];
    double sums[E] = {0}, row[E], p[E];
    probabilities_of_all(x, sums);
    for (int e = 0; e < E; e++)
        kt_set(&k->a.in[1], 0, e, sums[e]);
    *want = 0;
    for (int e = 0; e < E; e++)
        *want -= sums[e] > 0 ? sums[e] / T * log(sums[e] / T) : 0;
    for (int64_t r = 0; r < T; r++) {
        row_of(x, r, row);
        softmax(row, p);
        for (int e = 0; e < E; e++)
            *want += p[e] > 0 ? p[e] * log(p[e]) / T : 0;
    }
    k->scalars.balance_sum = 0;
    k->a.attr.experts.dense = true;
    return kt_run(k, sn_ops_cpu(), SN_OP_ROUTE_LOSS, 2) ? -k->scalars.balance_sum / T : 99;
}

static void information_is_measured(void)
{
    struct kt k = {0};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, T, E, 0));
    kt_in(&k, 1, shape(SN_F32, 1, E, 0));
    double want, got = information_of(&k, &want);
    tap_ok(fabs(got - want) < 1e-6, "ROUTE_LOSS, dense: %.8f, want %.8f", got, want);
    for (int64_t i = 0; i < (int64_t)T * E; i++)
        kt_set(x, i / E, i % E, (double)(i % E) / 4);
    tap_ok(fabs(information_of(&k, &want)) < 1e-6, "rows that are alike tell nothing");
    for (int64_t i = 0; i < (int64_t)T * E; i++)
        kt_set(x, i / E, i % E, i / E % 16 == i % E ? 200 : 0);
    got = information_of(&k, &want);
    tap_ok(fabs(got - log(16)) < 1e-5, "16 experts, each of a sixteenth: log 16 (%.6f)", got);
    kt_free(&k);
}

/* The experts here are the fifth to the eighth. */
static void every_token_has_a_place_at_every_expert_here(void)
{
    enum { HERE = 4, ALL = 12 };
    struct kt k = {0};
    k.a.attr = (struct sn_attr){.experts.dense = true, .experts.count = HERE, .experts.member = 1};
    kt_out(&k, 0, shape(SN_I32, T, ALL, 2), SN_WRITE);
    double *place = kt_ref(&k, 0);
    kt_out(&k, 1, shape(SN_I32, 1, HERE + 1, 0), SN_WRITE);
    double *bounds = kt_ref(&k, 1);
    for (int64_t r = 0; r < T; r++)
        for (int e = 0; e < ALL; e++)
            place[r * ALL + e] = e / HERE == 1 ? (double)(e % HERE * T + r) : -1;
    for (int e = 0; e <= HERE; e++)
        bounds[e] = e * T;
    tap_ok(kt_check(&k, SN_OP_MOE_PERMUTE, 0), "MOE_PERMUTE, dense");
    kt_free(&k);
}

int main(void)
{
    dense_weights_are_the_softmax();
    information_is_measured();
    weights_may_be_among_all();
    for (int t = 0; t < 3; t++)
        their_gradient_is_the_slope((enum sn_dtype[]){SN_F32, SN_BF16, SN_F16}[t]);
    every_token_has_a_place_at_every_expert_here();
    for (int t = 0; t < 3; t++)
        for (int losses = 0; losses < 2; losses++)
            dense_gradient_is_the_slope((enum sn_dtype[]){SN_F32, SN_BF16, SN_F16}[t], losses);
    for (int choices = 1; choices <= 2; choices++) {
        routing_is_as_specified(choices, 0.6f, true);
        routing_is_as_specified(choices, 0.6f, false);
        routing_is_as_specified(choices, 1e6f, true);
    }
    for (int t = 0; t < 3; t++)
        gradient_is_the_slope_of_probabilities((enum sn_dtype[]){SN_F32, SN_BF16, SN_F16}[t]);
    draws_are_fair();
    draws_belong_to_the_token();
    return tap_done();
}
