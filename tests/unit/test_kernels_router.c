/*
 * ROUTE of a sparsemixer: what kernels/mixer.h specifies, in double; its gradient against
 * differences of the probabilities, and that draws are fair.
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
        words(&k->scalars, k->a.attr.site, 1000 + r / SEQ, r % SEQ * choices + m->j);
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
    k.a.attr = (struct sn_attr){
        .seq = SEQ, .site = 7, .sparsemixer = true, .draws = draws, .range = range};
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
    k.a.attr = (struct sn_attr){.sparsemixer = true, .range = 0.6f};
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

/* --- fairness ------------------------------------------------------------------------------------
 */

/* All rows have the same logits, of which the last is too far away to be drawn first. */
static void draws_are_fair(void)
{
    enum { ROWS = 10000, N = 5 };
    static const double z[N] = {1.0, 1.4, 1.2, 1.3, 0.1};
    struct kt k = {.scalars = step_9};
    struct sn_mat *x = kt_in(&k, 0, shape(SN_F32, ROWS, N, 0));
    for (int64_t i = 0; i < (int64_t)ROWS * N; i++)
        kt_set(x, i / N, i % N, z[i % N]);
    k.a.attr =
        (struct sn_attr){.seq = 100, .site = 3, .sparsemixer = true, .draws = true, .range = 0.4f};
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
    struct sn_attr all = {.seq = 8, .site = 5}, part = {.seq = 8, .site = 5, .context = 2};
    int same = 0, n = 0;
    for (int rank = 0; rank < 2; rank++)
        for (int64_t r = 0; r < 8; r++) {
            struct sn_scalars here = step_9;
            part.context_rank = rank;
            part.zigzag = true;
            int64_t sample = r / 4, at = sn_position(&part, rank, r % 4);
            struct sn_mixer_draw a = sn_mixer_draw(&part, &here, r, 2, 1);
            here.first_sample += sample; /* another micro-batch */
            struct sn_mixer_draw b = sn_mixer_draw(&all, &here, at, 2, 1);
            same += a.unit == b.unit && a.whole == b.whole;
            n++;
        }
    tap_ok(same == n, "draws belong to sample and position, in any layout");
}

int main(void)
{
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
