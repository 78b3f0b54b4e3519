/*
 * route.c - ROUTE, ROUTE_DX and ROUTE_LOSS: which experts a token visits, and how that is learnt.
 *
 *   p = softmax of all E logits        w = softmax of the k chosen logits among themselves
 *   chosen: the k largest logits; with a bias those of p + bias (Wang et al., "Auxiliary-Loss-Free
 *   Load Balancing", arXiv 2408.15664, equation 3), which w does not see
 *   dlogit_j = w_j (dw_j - sum_i w_i dw_i)                            of those k
 *   of_all   w_j = p_j                 dlogit_e = p_e (dw_e - sum_j p_j dw_j), dw 0 of others
 *   sigmoid  s_e = sigmoid(logit_e) for p_e in the choice; w_j = s_j / sum_i s_i of those k, or s_j
 *            ds_j = (dw_j - sum_i w_i dw_i) / sum_i s_i, or dw_j;   dlogit_j = s_j (1 - s_j) ds_j
 *            (DeepSeek-AI, "DeepSeek-V3", arXiv 2412.19437, 2.1.2)
 *   groups   the choice is among experts of those groups whose score is most: of a group its largest
 *            (DeepSeek-AI, "DeepSeek-V2", arXiv 2405.04434, 2.2.2), with sigmoid the sum of its two
 *   of a sparsemixer: kernels/mixer.h
 *   aux      L = a sum_e E f_e P_e     dlogit_e = p_e (c_e - sum_i p_i c_i),  c_e = a E f_e
 *            of each sequence (DeepSeek-V3, 17 to 20): f of its tokens, whose choice is without the bias
 *            sigmoid  P of q_e = s_e / sum_i s_i:  dlogit_e = q_e (1 - s_e) (c_e - sum_i q_i c_i)
 *   dense    w = p of all E            dlogit_e = p_e (dw_e - sum_i p_i dw_i), and of
 *            L = a mean_t sum_e p_te (log P_e - log p_te), P = mean p: minus the mutual information
 *            of tokens and experts, H(P) - mean H(p_t)
 *                                     as aux, with c_te = a (log P_e - log p_te)
 *   z-loss   L = b mean lse^2          dlogit_e = 2 b lse p_e
 *
 * (Fedus et al., "Switch Transformers", arXiv 2101.03961, 2.2; Zoph et al., "ST-MoE", arXiv
 * 2202.08906, 3.1; dense: Pan et al., "Dense Training, Sparse Inference", arXiv 2404.05567, 3.)
 * Sums over experts are in double: there are few.
 */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"
#include "kernels/mixer.h"
#include "kernels/position.h"

/* Largest logit and log of the sum of exponentials. */
struct row {
    float max;
    double lse;
};

static struct row row_of(const float *x, int64_t n)
{
    float max = x[0];
    double sum = 0;
    for (int64_t e = 1; e < n; e++)
        max = x[e] > max ? x[e] : max;
    for (int64_t e = 0; e < n; e++)
        sum += (double)sn_expf(x[e] - max);
    return (struct row){max, (double)max + log(sum)};
}

static const float *floats(const struct sn_mat *m, int64_t r)
{
    return sn_mat_row(m, r);
}

/* --- forward ---------------------------------------------------------------------------------- */

static bool is_taken(int32_t e, const int32_t *choice, int64_t j)
{
    bool taken = false;
    for (int64_t i = 0; i < j; i++)
        taken = taken || choice[i] == e;
    return taken;
}

/* Groups of `each` experts, those of which may be chosen as bits. */
struct groups {
    uint64_t open;
    int64_t each;
};

static bool may_be(const struct groups *g, int32_t e)
{
    return g->open >> e / g->each & 1;
}

/* The largest of x that is not among the first j choices; of NaNs the first. */
static int32_t best(const float *x, int64_t n, const struct groups *g, const int32_t *choice,
                    int64_t j)
{
    int32_t found = -1;
    for (int32_t e = 0; e < n; e++)
        if (may_be(g, e) && !is_taken(e, choice, j) && (found < 0 || x[e] > x[found]))
            found = e;
    return found;
}

/* The largest score of a group, or the sum of its two largest. */
static float score_of_group(const float *x, int64_t n, bool two)
{
    float first = -INFINITY, second = -INFINITY;
    for (int64_t e = 0; e < n; e++) {
        second = x[e] > first ? first : x[e] > second ? x[e] : second;
        first = x[e] > first ? x[e] : first;
    }
    return two && n > 1 ? first + second : first;
}

static struct groups groups_of(const struct sn_experts_attr *a, const float *x, int64_t n)
{
    struct groups g = {1, n};
    float score[64];
    if (a->groups <= 1)
        return g;
    g = (struct groups){0, n / a->groups};
    for (int64_t i = 0; i < a->groups; i++)
        score[i] = score_of_group(x + i * g.each, g.each, a->sigmoid);
    for (int64_t k = 0; k < a->top_groups; k++) {
        int64_t found = -1;
        for (int64_t i = 0; i < a->groups; i++)
            if (!(g.open >> i & 1) && (found < 0 || score[i] > score[found]))
                found = i;
        g.open |= (uint64_t)1 << found;
    }
    return g;
}

static float sigmoid(float x)
{
    return (float)(1.0 / (1.0 + exp(-(double)x)));
}

/* What weights are multiplied by. */
static double scale_of(const struct sn_args *a)
{
    return a->attr.experts.route_scale > 0 ? (double)a->attr.experts.route_scale : 1.0;
}

/* What the choice goes by: the logits, or what a bias makes of them in `room`. */
static const float *scores(const struct sn_args *a, int64_t r, const float *bias, float room[SN_TILE_COLS])
{
    const float *x = floats(&a->in[SN_ROUTE_LOGITS], r);
    int64_t n = a->in[SN_ROUTE_LOGITS].cols;
    for (int64_t e = 0; e < n && a->attr.experts.sigmoid; e++)
        room[e] = sigmoid(x[e]) + (bias ? bias[e] : 0.0f);
    if (a->attr.experts.sigmoid)
        return room;
    if (!bias)
        return x;
    struct row row = row_of(x, n);
    double all = exp(row.lse - (double)row.max);
    for (int64_t e = 0; e < n; e++)
        room[e] = (float)((double)sn_expf(x[e] - row.max) / all) + bias[e];
    return room;
}

static void choose(const struct sn_args *a, int64_t r, const float *bias, const struct sn_mat *to)
{
    int32_t *choice = sn_mat_row(to, r);
    int64_t n = a->in[SN_ROUTE_LOGITS].cols;
    float room[SN_TILE_COLS];
    const float *score = scores(a, r, bias, room);
    struct groups g = groups_of(&a->attr.experts, score, n);
    for (int64_t j = 0; j < to->cols; j++)
        choice[j] = best(score, n, &g, choice, j);
}

/* The largest chosen logit. */
static float largest(const float *x, const int32_t *choice, int64_t k)
{
    float max = x[choice[0]];
    for (int64_t j = 1; j < k; j++)
        max = x[choice[j]] > max ? x[choice[j]] : max;
    return max;
}

/* A sparsemixer's choice j of a token with the logits x[n]. */
struct turn {
    const float *x;
    int64_t n;
    const int32_t *choice;
    int64_t j;
    float range;
};

/* Its probabilities, and the largest of them. */
static int32_t mix(const struct turn *t, float p[SN_TILE_COLS])
{
    const struct groups all = {1, t->n};
    int32_t top = best(t->x, t->n, &all, t->choice, t->j);
    float z = t->x[top];
    double sum = 0;
    for (int32_t e = 0; e < t->n; e++) {
        bool near = !is_taken(e, t->choice, t->j) && sn_mixer_is_near(t->x[e], z, t->range);
        p[e] = near ? sn_expf(t->x[e] - z) : 0;
        sum += (double)p[e];
    }
    for (int64_t e = 0; e < t->n; e++)
        p[e] = (float)((double)p[e] / sum);
    return top;
}

static int32_t drawn(const float *p, int64_t n, int32_t top, double unit)
{
    int32_t found = top; /* of NaNs */
    double up_to = 0;
    for (int32_t e = 0; e < n && up_to <= unit; e++) {
        up_to += (double)p[e];
        found = p[e] > 0 ? e : found;
    }
    return found;
}

static void mix_row(const struct sn_args *a, int64_t r)
{
    float *w = sn_mat_row(&a->out[SN_ROUTE_W], r), p[SN_TILE_COLS];
    int32_t *choice = sn_mat_row(&a->out[SN_ROUTE_CHOICE], r);
    int64_t k = a->out[SN_ROUTE_W].cols;
    struct turn t = {floats(&a->in[SN_ROUTE_LOGITS], r), a->in[SN_ROUTE_LOGITS].cols, choice, 0,
                     a->attr.experts.range};
    for (int64_t j = t.j = 0; j < k; t.j = ++j) {
        int32_t top = choice[j] = mix(&t, p);
        float factor = 1;
        if (a->attr.draws) {
            struct sn_mixer_draw d = sn_mixer_draw(&a->attr, a->scalars, r, k, j);
            choice[j] = drawn(p, t.n, top, d.unit);
            factor = sn_mixer_factor(choice[j] == top, &d);
        }
        w[j] = factor * p[choice[j]];
        if (a->out[SN_ROUTE_P].p)
            ((float *)sn_mat_row(&a->out[SN_ROUTE_P], r))[j] = p[choice[j]];
    }
}

static void route_row(const struct sn_args *a, int64_t r)
{
    const float *x = floats(&a->in[SN_ROUTE_LOGITS], r);
    float *w = sn_mat_row(&a->out[SN_ROUTE_W], r);
    const int32_t *choice = sn_mat_row(&a->out[SN_ROUTE_CHOICE], r);
    int64_t k = a->out[SN_ROUTE_W].cols, n = a->in[SN_ROUTE_LOGITS].cols;
    bool sigmoids = a->attr.experts.sigmoid;
    double sum = 0, scale = scale_of(a);
    choose(a, r, a->in[SN_ROUTE_BIAS].p, &a->out[SN_ROUTE_CHOICE]);
    if (a->out[SN_ROUTE_OWN].p)
        choose(a, r, NULL, &a->out[SN_ROUTE_OWN]);
    double lse = a->attr.experts.of_all && !sigmoids ? row_of(x, n).lse : 0;
    for (int64_t j = 0; j < k && a->attr.experts.of_all; j++)
        w[j] = (float)(scale * (sigmoids ? (double)sigmoid(x[choice[j]])
                                         : exp((double)x[choice[j]] - lse)));
    float max = largest(x, choice, k);
    for (int64_t j = 0; j < k && !a->attr.experts.of_all; j++) {
        w[j] = sigmoids ? sigmoid(x[choice[j]]) : sn_expf(x[choice[j]] - max);
        sum += (double)w[j];
    }
    for (int64_t j = 0; j < k && !a->attr.experts.of_all; j++)
        w[j] = (float)(scale * ((double)w[j] / (sigmoids ? sum + 1e-20 : sum)));
}

static void dense_row(const struct sn_args *a, int64_t r)
{
    const float *x = floats(&a->in[SN_ROUTE_LOGITS], r);
    float *w = sn_mat_row(&a->out[SN_ROUTE_W], r);
    double lse = row_of(x, a->in[SN_ROUTE_LOGITS].cols).lse;
    for (int64_t e = 0; e < a->in[SN_ROUTE_LOGITS].cols; e++)
        w[e] = (float)exp((double)x[e] - lse);
}

static void dense_counts(const struct sn_args *a)
{
    double sum[SN_TILE_COLS] = {0};
    for (int64_t r = 0; r < a->out[SN_ROUTE_W].rows; r++)
        for (int64_t e = 0; e < a->out[SN_ROUTE_W].cols; e++)
            sum[e] += (double)floats(&a->out[SN_ROUTE_W], r)[e];
    for (int64_t e = 0; e < a->out[SN_ROUTE_COUNTS].cols; e++)
        ((float *)a->out[SN_ROUTE_COUNTS].p)[e] = (float)sum[e];
}

/* How often each expert is chosen, in all or in each sequence. */
static void count(const struct sn_args *a, const struct sn_mat *choice, const struct sn_mat *counts, bool each)
{
    for (int64_t s = 0; s < counts->rows; s++)
        memset(sn_mat_row(counts, s), 0, (size_t)counts->cols * sizeof(float));
    for (int64_t r = 0; r < choice->rows; r++) {
        float *of = sn_mat_row(counts, each ? sn_row_sample(&a->attr.position, r) : 0);
        for (int64_t j = 0; j < choice->cols; j++)
            of[((const int32_t *)sn_mat_row(choice, r))[j]] += 1.0f;
    }
}

SN_KERNEL(sn_route)
{
    const struct sn_mat *choice = &a->out[SN_ROUTE_CHOICE], *own = &a->out[SN_ROUTE_OWN];
    if (a->attr.experts.dense) {
        sn_each_row(a, threads, a->in[SN_ROUTE_LOGITS].rows, a->in[SN_ROUTE_LOGITS].cols,
                    dense_row);
        dense_counts(a);
        return 0;
    }
    sn_each_row(a, threads, a->in[SN_ROUTE_LOGITS].rows, a->in[SN_ROUTE_LOGITS].cols,
                a->attr.experts.sparsemixer ? mix_row : route_row);
    count(a, choice, &a->out[SN_ROUTE_COUNTS], false);
    if (a->out[SN_ROUTE_SEQUENCES].p)
        count(a, own->p ? own : choice, &a->out[SN_ROUTE_SEQUENCES], true);
    return 0;
}

/* --- losses ----------------------------------------------------------------------------------- */

static double all_of(const float *counts, int64_t n)
{
    double all = 0;
    for (int64_t e = 0; e < n; e++)
        all += (double)counts[e];
    return all;
}

/* Of the tokens that row r is balanced with. */
static const float *counts_of(const struct sn_args *a, const struct sn_mat *counts, int64_t r)
{
    return floats(counts, a->attr.experts.by_sequence ? sn_row_sample(&a->attr.position, r) : 0);
}

static double sum_of_sigmoids(const float *x, int64_t n)
{
    double sum = 1e-20;
    for (int64_t e = 0; e < n; e++)
        sum += (double)sigmoid(x[e]);
    return sum;
}

/* log P_e - log p_e of a probability p_e > 0; 0 where P_e vanished beside the others. */
static double information(double count, double all, double log_p)
{
    return count > 0 ? log(count / all) - log_p : 0;
}

/* Minus the information of the rows. */
static double dense_loss(const struct sn_mat *x, const float *counts)
{
    double all = all_of(counts, x->cols), sum = 0;
    for (int64_t r = 0; r < x->rows; r++) {
        double lse = row_of(floats(x, r), x->cols).lse;
        for (int64_t e = 0; e < x->cols; e++) {
            double log_p = (double)floats(x, r)[e] - lse;
            sum += exp(log_p) * information((double)counts[e], all, log_p);
        }
    }
    return sum;
}

SN_KERNEL(sn_route_loss)
{
    (void)threads; /* T x E exponentials, in one order */
    const struct sn_mat *x = &a->in[SN_ROUTE_LOSS_LOGITS], *counts = &a->in[SN_ROUTE_LOSS_COUNTS];
    double balance = 0, z = 0;
    for (int64_t r = 0; r < x->rows;) {
        const float *own = counts_of(a, counts, r);
        double p[SN_TILE_COLS] = {0}, all = all_of(own, x->cols), sum = 0;
        for (; r < x->rows && counts_of(a, counts, r) == own; r++) {
            const float *of = floats(x, r);
            double lse = row_of(of, x->cols).lse;
            double parts = a->attr.experts.sigmoid ? sum_of_sigmoids(of, x->cols) : 0;
            z += lse * lse;
            for (int64_t e = 0; e < x->cols; e++)
                p[e] += parts > 0 ? (double)sigmoid(of[e]) / parts : exp((double)of[e] - lse);
        }
        for (int64_t e = 0; e < x->cols; e++)
            sum += (double)own[e] * p[e];
        balance += all > 0 ? (double)x->cols * sum / all : 0;
    }
    a->scalars->balance_sum += a->attr.experts.dense ? dense_loss(x, counts->p) : balance;
    a->scalars->z_sum += z;
    return 0;
}

/* --- backward --------------------------------------------------------------------------------- */

/* What the two losses add to the gradient of a row. */
static void loss_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *x = floats(&a->in[SN_ROUTE_DX_LOGITS], r),
                *counts = counts_of(a, &a->in[SN_ROUTE_DX_COUNTS], r);
    int64_t n = a->in[SN_ROUTE_DX_LOGITS].cols;
    const struct sn_scalars *s = a->scalars;
    double lse = row_of(x, n).lse, parts = a->attr.experts.sigmoid ? sum_of_sigmoids(x, n) : 0;
    double scale = (double)s->loss_scale / s->tokens_in_step, all = all_of(counts, n);
    double aux = a->attr.experts.dense ? 0 : scale * (double)a->attr.experts.aux_loss, mean = 0,
           z = 2 * scale * (double)a->attr.experts.z_loss * lse;
    double each = all > 0 ? aux * (double)n / all : 0;
    for (int64_t e = 0; e < n; e++)
        mean += (parts > 0 ? (double)sigmoid(x[e]) / parts : exp((double)x[e] - lse)) * each *
                (double)counts[e];
    for (int64_t e = 0; e < n; e++) {
        double p = exp((double)x[e] - lse), own = each * (double)counts[e] - mean, q = (double)sigmoid(x[e]);
        d[e] += (float)(parts > 0 ? q / parts * (1 - q) * own + p * z : p * (own + z));
    }
}

static void weights_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *dw = floats(&a->in[SN_ROUTE_DX_DW], r), *x = floats(&a->in[SN_ROUTE_DX_LOGITS], r);
    const int32_t *choice = sn_mat_row(&a->in[SN_ROUTE_DX_CHOICE], r);
    int64_t k = a->in[SN_ROUTE_DX_DW].cols;
    float max = largest(x, choice, k);
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < k; j++)
        sum += (double)sn_expf(x[choice[j]] - max);
    for (int64_t j = 0; j < k; j++)
        mean += (double)sn_expf(x[choice[j]] - max) / sum * (double)dw[j];
    for (int64_t j = 0; j < k; j++)
        d[choice[j]] = (float)(scale_of(a) * ((double)sn_expf(x[choice[j]] - max) / sum *
                                              ((double)dw[j] - mean)));
}

/* Of weights by sigmoids, each alone or over their sum. */
static void sigmoid_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *dw = floats(&a->in[SN_ROUTE_DX_DW], r), *x = floats(&a->in[SN_ROUTE_DX_LOGITS], r);
    const int32_t *choice = sn_mat_row(&a->in[SN_ROUTE_DX_CHOICE], r);
    int64_t k = a->in[SN_ROUTE_DX_DW].cols;
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < k && !a->attr.experts.of_all; j++)
        sum += (double)sigmoid(x[choice[j]]);
    for (int64_t j = 0; j < k && !a->attr.experts.of_all; j++)
        mean += (double)sigmoid(x[choice[j]]) / sum * (double)dw[j];
    double each = scale_of(a) / (a->attr.experts.of_all ? 1 : sum);
    for (int64_t j = 0; j < k; j++) {
        double s = 1.0 / (1.0 + exp(-(double)x[choice[j]]));
        d[choice[j]] = (float)(each * s * (1 - s) * ((double)dw[j] - mean));
    }
}

/* Of weights that are probabilities among all experts. */
static void part_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *dw = floats(&a->in[SN_ROUTE_DX_DW], r), *x = floats(&a->in[SN_ROUTE_DX_LOGITS], r);
    const int32_t *choice = sn_mat_row(&a->in[SN_ROUTE_DX_CHOICE], r);
    int64_t k = a->in[SN_ROUTE_DX_DW].cols, n = a->in[SN_ROUTE_DX_LOGITS].cols;
    double lse = row_of(x, n).lse, mean = 0;
    for (int64_t j = 0; j < k; j++)
        mean += exp((double)x[choice[j]] - lse) * (double)dw[j];
    for (int64_t e = 0; e < n; e++)
        d[e] = (float)(scale_of(a) * (-exp((double)x[e] - lse) * mean));
    for (int64_t j = 0; j < k; j++)
        d[choice[j]] =
            (float)(scale_of(a) * (exp((double)x[choice[j]] - lse) * ((double)dw[j] - mean)));
}

/* Of the weights, all of which are probabilities, and of the information. */
static void dense_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *dw = floats(&a->in[SN_ROUTE_DX_DW], r), *x = floats(&a->in[SN_ROUTE_DX_LOGITS], r),
                *counts = a->in[SN_ROUTE_DX_COUNTS].p;
    const struct sn_scalars *s = a->scalars;
    int64_t n = a->in[SN_ROUTE_DX_LOGITS].cols;
    double lse = row_of(x, n).lse, mean = 0, aux = 0, all = counts ? all_of(counts, n) : 1;
    if (counts)
        aux = (double)a->attr.experts.aux_loss * (double)s->loss_scale / s->tokens_in_step;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t e = 0; e < n; e++) {
            double log_p = (double)x[e] - lse, g = (double)dw[e];
            if (counts)
                g += aux * information((double)counts[e], all, log_p);
            if (pass == 0)
                mean += exp(log_p) * g;
            else
                d[e] += (float)(exp(log_p) * (g - mean));
        }
}

static void mixer_gradient(const struct sn_args *a, int64_t r, float *d)
{
    const float *dw = floats(&a->in[SN_ROUTE_DX_DW], r);
    const int32_t *choice = sn_mat_row(&a->in[SN_ROUTE_DX_CHOICE], r);
    struct turn t = {floats(&a->in[SN_ROUTE_DX_LOGITS], r), a->in[SN_ROUTE_DX_LOGITS].cols, choice,
                     0, a->attr.experts.range};
    float p[SN_TILE_COLS];
    for (; t.j < a->in[SN_ROUTE_DX_DW].cols; t.j++) {
        (void)mix(&t, p); /* which is the largest is of no matter here */
        float g = dw[t.j] * p[choice[t.j]];
        for (int64_t e = 0; e < t.n; e++)
            d[e] += g * ((float)(e == choice[t.j]) - p[e]);
    }
}

static void dx_row(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dx = &a->out[SN_ROUTE_DX_DLOGITS];
    float wide[SN_TILE_COLS];
    float *d = dx->dtype == SN_F32 ? sn_mat_row(dx, r) : wide;
    for (int64_t e = 0; e < dx->cols; e++)
        d[e] = 0;
    (a->attr.experts.dense         ? dense_gradient
     : a->attr.experts.sparsemixer ? mixer_gradient
     : a->attr.experts.sigmoid     ? sigmoid_gradient
     : a->attr.experts.of_all      ? part_gradient
                                   : weights_gradient)(a, r, d);
    if (a->in[SN_ROUTE_DX_COUNTS].p)
        loss_gradient(a, r, d);
    if (d == wide)
        sn_row_store(sn_mat_row(dx, r), dx->dtype, wide, dx->cols);
}

SN_KERNEL(sn_route_dx)
{
    sn_each_row(a, threads, a->out[SN_ROUTE_DX_DLOGITS].rows, 4 * a->out[SN_ROUTE_DX_DLOGITS].cols,
                dx_row);
    return 0;
}
