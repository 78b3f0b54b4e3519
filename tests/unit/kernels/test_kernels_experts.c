/*
 * Routing and the experts' products, against plain loops in double; gradients of the router against
 * differences of what it minimises.
 */
#include "tests/lib/kernel_test.h"

enum { T = 37, E = 7, K = 3, D = 70, SEQ = 12 };

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};

/* What an operation leaves alone is what it was. */
static double *untouched_ref(struct kt *k, int o)
{
    double *ref = kt_ref(k, o);
    const struct sn_mat *m = &k->a.out[o];
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        ref[i] = kt_get(m, i / m->cols, i % m->cols);
    return ref;
}

/* --- the router ------------------------------------------------------------------------------- */

/* The j-th of the largest; of equal ones the first. */
static int chosen(const double *x, int j)
{
    int taken[E] = {0}, best = -1;
    for (int i = 0; i <= j; i++) {
        best = -1;
        for (int e = 0; e < E; e++)
            if (!taken[e] && (best < 0 || x[e] > x[best]))
                best = e;
        taken[best] = 1;
    }
    return best;
}

static void weights(const double *x, const int *choice, double *w)
{
    double sum = 0;
    for (int j = 0; j < K; j++)
        sum += w[j] = exp(x[choice[j]]);
    for (int j = 0; j < K; j++)
        w[j] /= sum;
}

static void row_of(const struct sn_mat *m, int64_t r, double *x)
{
    for (int e = 0; e < E; e++)
        x[e] = kt_get(m, r, e);
}

static void routing_takes_the_largest(bool ties)
{
    struct kt k = {.magnitude = 1e-3};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, T, E, 3});
    for (int64_t r = 0; ties && r < T; r++)
        for (int e = 0; e < E; e++)
            kt_set(x, r, e, (double)((r * 5 + e * 3) % 4));
    kt_out(&k, 0, (struct kt_shape){SN_F32, T, K, 2}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, T, K, 1}, SN_WRITE);
    kt_out(&k, 2, (struct kt_shape){SN_F32, 1, E, 0}, SN_WRITE);
    double *w = kt_ref(&k, 0), *c = kt_ref(&k, 1), *n = kt_ref(&k, 2), row[E];
    for (int64_t r = 0; r < T; r++) {
        int choice[K];
        row_of(x, r, row);
        for (int j = 0; j < K; j++) {
            choice[j] = chosen(row, j);
            c[r * K + j] = choice[j];
            n[choice[j]]++;
        }
        weights(row, choice, w + r * K);
    }
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-6), "ROUTE%s", ties ? " of equal logits" : "");
    kt_free(&k);
}

/* The probability of each, and the bias. */
static void biased(const double *x, const struct sn_mat *bias, double *score)
{
    double sum = 0;
    for (int e = 0; e < E; e++)
        sum += exp(x[e]);
    for (int e = 0; e < E; e++)
        score[e] = exp(x[e]) / sum + kt_get(bias, 0, e);
}

/* The bias is larger than any probability for expert 2, smaller for expert 5. */
static void a_bias_decides_the_choice_alone(void)
{
    struct kt k = {.magnitude = 1e-3};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, T, E, 3});
    struct sn_mat *bias = kt_in(&k, 1, (struct kt_shape){SN_F32, 1, E, 0});
    for (int e = 0; e < E; e++)
        kt_set(bias, 0, e, e == 2 ? 1.5 : e == 5 ? -1.5 : 0.05 * e - 0.1);
    kt_out(&k, 0, (struct kt_shape){SN_F32, T, K, 2}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, T, K, 1}, SN_WRITE);
    kt_out(&k, 2, (struct kt_shape){SN_F32, 1, E, 0}, SN_WRITE);
    double *w = kt_ref(&k, 0), *c = kt_ref(&k, 1), *n = kt_ref(&k, 2), row[E], score[E];
    int others = 0; /* tokens whose second and third choice are not the largest logits but 2 */
    for (int64_t r = 0; r < T; r++) {
        int choice[K];
        row_of(x, r, row);
        biased(row, bias, score);
        for (int j = 0; j < K; j++) {
            choice[j] = chosen(score, j);
            c[r * K + j] = choice[j];
            n[choice[j]]++;
        }
        others += choice[1] != chosen(row, 0) && choice[2] != chosen(row, 0);
        weights(row, choice, w + r * K);
    }
    tap_ok(n[2] == T && n[5] == 0 && others > 0,
           "a bias sends all tokens to expert 2, none to 5, and some pass by their best (%d)",
           others);
    tap_ok(kt_check(&k, SN_OP_ROUTE, 1e-6), "ROUTE with a bias");
    kt_free(&k);
}

static void biases_move_towards_balance(bool ok)
{
    enum { LAYERS = 3 };
    struct kt k = {0};
    k.scalars.ok = ok;
    k.a.attr.experts.rate = 0.25f;
    struct sn_mat *counts = kt_in(&k, 0, (struct kt_shape){SN_F32, LAYERS, E, 2});
    kt_out(&k, 0, (struct kt_shape){SN_F32, LAYERS, E, 4}, SN_WRITE);
    for (int l = 0; l < LAYERS; l++)
        for (int e = 0; e < E; e++) {
            kt_set(counts, l, e, l == 0 ? 100000 * e : l == 1 ? 16777216 : (e == 3) * 7);
            kt_set(&k.a.out[0], l, e, 0.5 * l - 0.125 * e);
        }
    double *b = untouched_ref(&k, 0);
    for (int e = 0; e < E && ok; e++) {
        b[e] += e < 3 ? 0.25 : e > 3 ? -0.25 : 0; /* the mean is that of expert 3 */
        b[2 * E + e] += e == 3 ? -0.25 : 0.25;
    }
    tap_ok(kt_check(&k, SN_OP_ROUTER_BIAS, 0.0), "ROUTER_BIAS %s",
           ok ? "adds the rate to what got less than the mean, takes it from what got more"
              : "leaves everything alone when the step is not ok");
    kt_free(&k);
}

struct objective {
    const struct sn_mat *dw, *counts;
    const int *choice;
    int64_t row;
    double aux, z; /* with all their factors */
};

/* What a row adds to sum dw w + aux + z. */
static double objective(const struct objective *o, const double *x)
{
    double w[K], sum = 0, all = 0, total = 0;
    weights(x, o->choice, w);
    for (int j = 0; j < K; j++)
        total += w[j] * kt_get(o->dw, o->row, j);
    for (int e = 0; e < E; e++) {
        sum += exp(x[e]);
        all += kt_get(o->counts, 0, e);
    }
    for (int e = 0; e < E; e++)
        total += o->aux * E * kt_get(o->counts, 0, e) / all * exp(x[e]) / sum;
    return total + o->z * log(sum) * log(sum);
}

/* The choice is the largest logits, or any: with a bias it is not theirs. */
static void gradient_is_the_slope(enum sn_dtype t, bool losses, bool any)
{
    struct kt k = {.magnitude = 1e-2};
    k.scalars.loss_scale = 8;
    k.scalars.tokens_in_step = 20;
    k.a.attr.experts.aux_loss = 0.5f;
    k.a.attr.experts.z_loss = 0.25f;
    struct objective o = {.dw = kt_in(&k, 0, (struct kt_shape){SN_F32, T, K, 1})};
    struct sn_mat *x = kt_in(&k, 1, (struct kt_shape){SN_F32, T, E, 0});
    struct sn_mat *choice = kt_new(&k, 2, (struct kt_shape){SN_I32, T, K, 0});
    struct sn_mat *counts = kt_in(&k, 3, (struct kt_shape){SN_F32, 1, E, 0});
    for (int e = 0; e < E; e++)
        kt_set(counts, 0, e, 3 * e + 1);
    kt_out(&k, 0, (struct kt_shape){t, T, E, 0}, SN_WRITE);
    double *dx = kt_ref(&k, 0), row[E];
    o.counts = counts;
    o.aux = losses ? 0.5 * 8 / 20 : 0;
    o.z = losses ? 0.25 * 8 / 20 : 0;
    for (o.row = 0; o.row < T; o.row++) {
        int c[K];
        row_of(x, o.row, row);
        o.choice = c;
        for (int j = 0; j < K; j++)
            kt_set(choice, o.row, j, c[j] = any ? (int)(o.row + 2 * j) % E : chosen(row, j));
        for (int e = 0; e < E; e++) {
            double at = row[e], h = 1e-5, up, down;
            row[e] = at + h;
            up = objective(&o, row);
            row[e] = at - h;
            down = objective(&o, row);
            row[e] = at;
            dx[o.row * E + e] = (up - down) / (2 * h);
        }
    }
    if (!losses)
        k.a.in[3] = (struct sn_mat){0};
    tap_ok(kt_check(&k, SN_OP_ROUTE_DX, 1e-4), "ROUTE_DX to %s %s the losses%s", sn_dtype_name(t),
           losses ? "with" : "without", any ? ", of other experts than the largest" : "");
    kt_free(&k);
}

static void losses_are_summed(void)
{
    struct kt k = {0};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){SN_F32, T, E, 0});
    struct sn_mat *counts = kt_in(&k, 1, (struct kt_shape){SN_F32, 1, E, 0});
    double balance = 0, z = 0, row[E];
    for (int e = 0; e < E; e++)
        kt_set(counts, 0, e, e + 1); /* in all 28 */
    for (int64_t r = 0; r < T; r++) {
        double sum = 0;
        row_of(x, r, row);
        for (int e = 0; e < E; e++)
            sum += exp(row[e]);
        for (int e = 0; e < E; e++)
            balance += E * (e + 1) / 28.0 * exp(row[e]) / sum;
        z += log(sum) * log(sum);
    }
    k.scalars.balance_sum = 3;
    bool ran = kt_run(&k, sn_ops_cpu(), SN_OP_ROUTE_LOSS, 2);
    tap_ok(ran && fabs(k.scalars.balance_sum - 3 - balance) < 1e-5 * balance &&
               fabs(k.scalars.z_sum - z) < 1e-5 * z,
           "ROUTE_LOSS adds %.6f and %.6f, want %.6f and %.6f", k.scalars.balance_sum - 3,
           k.scalars.z_sum, balance, z);
    kt_free(&k);
}

/* --- rows of experts -------------------------------------------------------------------------- */

static int choice_of(int64_t t, int j)
{
    return (int)((t * t + 2 * t * j + j) % E == 4 ? 5 : (t * t + j) % E); /* expert 4 is rare */
}

/* Is choice j of token t among the first `capacity` of its expert in its sequence? */
static bool fits(int64_t t, int j, int64_t capacity)
{
    int64_t before = 0, first = t / SEQ * SEQ;
    for (int i = 0; i <= j; i++)
        for (int64_t s = first; s < first + SEQ && (i < j || s < t); s++)
            before += choice_of(s, i) == choice_of(t, j);
    return capacity == 0 || before < capacity;
}

static void places_are_sorted_by_expert(int64_t capacity)
{
    enum { ROWS = 3 * SEQ };
    struct kt k = {0};
    k.a.attr =
        (struct sn_attr){.experts.count = E, .experts.capacity = capacity, .position.seq = SEQ};
    struct sn_mat *choice = kt_new(&k, 0, (struct kt_shape){SN_I32, ROWS, K, 1});
    kt_out(&k, 0, (struct kt_shape){SN_I32, ROWS, K, 2}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_I32, 1, E + 1, 0}, SN_WRITE);
    double *place = kt_ref(&k, 0), *bounds = kt_ref(&k, 1);
    int64_t n = 0, dropped = 0;
    for (int e = 0; e < E; e++) {
        for (int64_t t = 0; t < ROWS; t++)
            for (int j = 0; j < K; j++) {
                kt_set(choice, t, j, choice_of(t, j));
                if (choice_of(t, j) != e)
                    continue;
                bool room = fits(t, j, capacity);
                place[t * K + j] = room ? (double)n : -1;
                n += room;
                dropped += !room;
            }
        bounds[e + 1] = (double)n;
    }
    tap_ok(kt_check(&k, SN_OP_MOE_PERMUTE, 0) && (dropped > 0) == (capacity > 0),
           "MOE_PERMUTE with capacity %ld: %ld of %d pass by", (long)capacity, (long)dropped,
           ROWS * K);
    kt_free(&k);
}

enum { N = T * K };

/* Places all over the rows, some of them none. */
static int32_t place_of(int64_t t, int j)
{
    return (t + j) % 6 == 0 ? -1 : (int32_t)((t * K + j) * 5 % N);
}

static struct sn_mat *put_places(struct kt *k, int slot)
{
    struct sn_mat *m = kt_new(k, slot, (struct kt_shape){SN_I32, T, K, 0});
    for (int64_t t = 0; t < T; t++)
        for (int j = 0; j < K; j++)
            kt_set(m, t, j, place_of(t, j));
    return m;
}

static void tokens_go_to_their_places(enum sn_dtype t, bool weighted)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){t, T, D, 3});
    (void)put_places(&k, 1);
    struct sn_mat *w = weighted ? kt_in(&k, 2, (struct kt_shape){SN_F32, T, K, 1}) : NULL;
    kt_out(&k, 0, (struct kt_shape){t, N, D, 0}, SN_WRITE);
    double *y = untouched_ref(&k, 0);
    for (int64_t i = 0; i < T * K * D; i++) {
        int64_t r = i / D / K, j = i / D % K, c = i % D;
        if (place_of(r, (int)j) >= 0)
            y[place_of(r, (int)j) * D + c] = kt_get(x, r, c) * (w ? kt_get(w, r, j) : 1);
    }
    tap_ok(kt_check(&k, SN_OP_DISPATCH, 1e-6), "DISPATCH of %s%s", sn_dtype_name(t),
           weighted ? " with weights" : "");
    kt_free(&k);
}

static void rows_come_back(enum sn_dtype t, bool weighted)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_mat *x = kt_in(&k, 0, (struct kt_shape){t, N, D, 3});
    (void)put_places(&k, 1);
    struct sn_mat *w = weighted ? kt_in(&k, 2, (struct kt_shape){SN_F32, T, K, 1}) : NULL;
    struct sn_mat *g = weighted ? NULL : kt_in(&k, 3, (struct kt_shape){t, T, D, 0});
    if (g)
        kt_take(&k, 0, 3);
    else
        kt_out(&k, 0, (struct kt_shape){t, T, D, 0}, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < T * D; i++) {
        y[i] = g ? kt_get(g, i / D, i % D) : 0;
        for (int j = 0; j < K; j++)
            if (place_of(i / D, j) >= 0)
                y[i] += kt_get(x, place_of(i / D, j), i % D) * (w ? kt_get(w, i / D, j) : 1);
    }
    tap_ok(kt_check(&k, SN_OP_COMBINE, 1e-6), "COMBINE of %s%s", sn_dtype_name(t),
           weighted ? " with weights" : " in place of its addend");
    kt_free(&k);
}

static void weights_get_their_gradient(enum sn_dtype t)
{
    struct kt k = {.magnitude = 10.0};
    struct sn_mat *dy = kt_in(&k, 0, (struct kt_shape){t, T, D, 1});
    struct sn_mat *x = kt_in(&k, 1, (struct kt_shape){t, N, D, 0});
    (void)put_places(&k, 2);
    kt_out(&k, 0, (struct kt_shape){SN_F32, T, K, 1}, SN_WRITE);
    double *dw = kt_ref(&k, 0);
    for (int64_t i = 0; i < T * K * D; i++)
        if (place_of(i / D / K, (int)(i / D % K)) >= 0)
            dw[i / D] += kt_get(dy, i / D / K, i % D) *
                         kt_get(x, place_of(i / D / K, (int)(i / D % K)), i % D);
    tap_ok(kt_check(&k, SN_OP_COMBINE_DW, 1e-6), "COMBINE_DW of %s", sn_dtype_name(t));
    kt_free(&k);
}

/* --- products --------------------------------------------------------------------------------- */

enum { EXPERTS = 3, SEGMENTS = 2 * EXPERTS, ROWS = 60, WIDE = 40, LONG = 52 };

/* Two segments for each expert, one of them empty, one expert's both; the last rows nobody's. */
static const int bounds[SEGMENTS + 1] = {0, 13, 13, 20, 41, 41, 55};

static struct sn_mat *put_bounds(struct kt *k, int slot)
{
    struct sn_mat *m = kt_new(k, slot, (struct kt_shape){SN_I32, 1, SEGMENTS + 1, 0});
    for (int s = 0; s <= SEGMENTS; s++)
        kt_set(m, 0, s, bounds[s]);
    return m;
}

static int expert_of(int64_t row)
{
    int s = 0;
    while (row >= bounds[s + 1])
        s++;
    return s % EXPERTS;
}

/* C = A W_e^T, or C = A W_e. */
static void segments_multiply(enum sn_dtype t, bool turned)
{
    struct kt k = {.magnitude = 8.0};
    int64_t in = turned ? WIDE : LONG, out = turned ? LONG : WIDE;
    k.a.attr = (struct sn_attr){.gemm.trans_b = turned, .experts.count = EXPERTS};
    struct sn_mat *a = kt_in(&k, 0, (struct kt_shape){t, ROWS, in, 0});
    struct sn_mat *w = kt_in(&k, 1, (struct kt_shape){t, EXPERTS * LONG, WIDE, 0});
    (void)put_bounds(&k, 2);
    kt_out(&k, 0, (struct kt_shape){t, ROWS, out, 0}, SN_WRITE);
    double *c = untouched_ref(&k, 0);
    for (int64_t i = 0; i < bounds[SEGMENTS] * out; i++) {
        int64_t first = expert_of(i / out) * (int64_t)LONG;
        c[i] = 0;
        for (int64_t l = 0; l < in; l++)
            c[i] += kt_get(a, i / out, l) *
                    (turned ? kt_get(w, first + i % out, l) : kt_get(w, first + l, i % out));
    }
    tap_ok(kt_check(&k, SN_OP_EXPERT_GEMM, 1e-6), "EXPERT_GEMM of %s, %s", sn_dtype_name(t),
           turned ? "forward" : "gradient of its input");
    kt_free(&k);
}

/* W_e (+)= A_s^T B_s */
static void segments_give_gradients(enum sn_dtype t, enum sn_acc acc)
{
    struct kt k = {.magnitude = 8.0};
    k.a.attr = (struct sn_attr){.gemm.trans_a = true, .experts.count = EXPERTS};
    struct sn_mat *a = kt_in(&k, 0, (struct kt_shape){t, ROWS, LONG, 0});
    struct sn_mat *b = kt_in(&k, 1, (struct kt_shape){t, ROWS, WIDE, 0});
    (void)put_bounds(&k, 2);
    kt_out(&k, 0, (struct kt_shape){SN_F32, EXPERTS * LONG, WIDE, 0}, acc);
    double *w = kt_ref(&k, 0);
    for (int64_t r = 0; r < bounds[SEGMENTS]; r++)
        for (int64_t i = 0; i < LONG * WIDE; i++)
            w[expert_of(r) * (int64_t)LONG * WIDE + i] +=
                kt_get(a, r, i / WIDE) * kt_get(b, r, i % WIDE);
    tap_ok(kt_check(&k, SN_OP_EXPERT_GEMM, 1e-6), "EXPERT_GEMM of %s, gradient of the weights, %s",
           sn_dtype_name(t), acc == SN_ADD ? "added" : "written");
    kt_free(&k);
}

static void rows_of_nobody_are_left_alone(bool backward)
{
    struct kt k = {.magnitude = 1.0};
    struct sn_mat *x = kt_in(&k, backward, (struct kt_shape){SN_F32, ROWS, 2 * WIDE, 0});
    struct sn_mat *dy = backward ? kt_in(&k, 0, (struct kt_shape){SN_F32, ROWS, WIDE, 0}) : NULL;
    (void)put_bounds(&k, 1 + backward);
    kt_out(&k, 0, (struct kt_shape){SN_F32, ROWS, backward ? 2 * WIDE : WIDE, 0}, SN_WRITE);
    double *y = untouched_ref(&k, 0);
    for (int64_t i = 0; i < (int64_t)bounds[SEGMENTS] * WIDE; i++) {
        int64_t r = i / WIDE, c = i % WIDE;
        double g = kt_get(x, r, c), u = kt_get(x, r, WIDE + c), s = 1 / (1 + exp(-g));
        if (!dy) {
            y[i] = g * s * u;
            continue;
        }
        y[r * 2 * WIDE + c] = kt_get(dy, r, c) * u * (s + g * s * (1 - s));
        y[r * 2 * WIDE + WIDE + c] = kt_get(dy, r, c) * g * s;
    }
    tap_ok(kt_check(&k, backward ? SN_OP_SWIGLU_DX : SN_OP_SWIGLU, 1e-6),
           "SWIGLU%s ends at the last bound", backward ? "_DX" : "");
    kt_free(&k);
}

int main(void)
{
    routing_takes_the_largest(false);
    routing_takes_the_largest(true);
    a_bias_decides_the_choice_alone();
    biases_move_towards_balance(true);
    biases_move_towards_balance(false);
    losses_are_summed();
    for (int i = 0; i < 3; i++) {
        enum sn_dtype t = dtypes[i];
        gradient_is_the_slope(t, true, false);
        gradient_is_the_slope(t, false, false);
        gradient_is_the_slope(t, true, true);
        tokens_go_to_their_places(t, false);
        tokens_go_to_their_places(t, true);
        rows_come_back(t, false);
        rows_come_back(t, true);
        weights_get_their_gradient(t);
        segments_multiply(t, true);
        segments_multiply(t, false);
        segments_give_gradients(t, SN_WRITE);
        segments_give_gradients(t, SN_ADD);
    }
    places_are_sorted_by_expert(0);
    places_are_sorted_by_expert(5);
    rows_of_nobody_are_left_alone(false);
    rows_of_nobody_are_left_alone(true);
    return tap_done();
}
