/*
 * cross_entropy.c - row_loss = lse - logit[target], and its gradient in one more pass.
 *
 *   m = max_c x_c      lse = m + ln sum_c e^(x_c - m)
 *   dlogits = (e^(x - lse) (1 + 2 z lse) - onehot) * loss_scale / targets_in_step
 *
 * where z is the weight of lse^2 beside the loss (Chowdhery et al., PaLM, arXiv 2204.02311, 5).
 *
 * A row belongs to one thread and is summed in pieces (ce_part.c). With the parts (m_p, s_p, t_p)
 * of several ranks, in rank order and in double, so that every rank gets the same bits:
 *
 *   m = max_p m_p      lse = m + ln sum_p s_p e^(m_p - m)      logit[target] = sum_p t_p
 *
 * Of capped logits c tanh(z / c) = x, dlogits are times 1 - (x / c)^2.
 *
 * The losses enter scalars.loss_sum in row order, after all rows; those of another loss than the model's,
 * whose gradient has a weight, scalars.beside_sum.
 */
#include "kernels/cpu/cross_entropy.h"
#include "kernels/cpu/vmath.h"
#include "kernels/exact.h"

struct row {
    double lse;
    float chosen; /* the target's logit */
};

/* The sum of the row, of parts as ranks would have them. */
static struct sn_ce_sum sum_of_parts(const struct sn_args *a, int64_t r, float *wide)
{
    struct sn_ce_sum all = {0, -INFINITY}, part[SN_CE_PARTS];
    int64_t n = sn_ce_parts(a);
    for (int64_t p = 0; p < n; p++) {
        part[p] = SN_K(sn_ce_row)(a, r, p, wide);
        all.max = part[p].max > all.max ? part[p].max : all.max;
    }
    if (n == 1)
        return part[0];
    double base = all.max == -INFINITY ? 0.0 : (double)all.max;
    for (int64_t p = 0; p < n; p++)
        all.sum += (double)(float)part[p].sum * exp((double)part[p].max - base);
    return all;
}

static struct row row_here(const struct sn_args *a, int64_t r, float *wide)
{
    struct sn_ce_sum s = sum_of_parts(a, r, wide);
    int64_t target = sn_ce_column(a, r);
    /* A target that is no word must not pass as a loss. */
    float chosen = target < 0 ? NAN : *sn_ce_logits(a, r, target, 1, wide);
    return (struct row){(double)s.max + log(s.sum), chosen};
}

static struct row row_merged(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *parts = &a->in[SN_CROSS_ENTROPY_PARTS];
    int64_t rows = a->in[SN_CROSS_ENTROPY_LOGITS].rows;
    float max = -INFINITY, chosen = 0;
    double sum = 0;
    for (int64_t p = r; p < parts->rows; p += rows) {
        const float *part = sn_mat_row(parts, p);
        max = part[0] > max ? part[0] : max;
        chosen += part[2];
    }
    double base = max == -INFINITY ? 0.0 : (double)max; /* nothing but -infinity */
    for (int64_t p = r; p < parts->rows; p += rows) {
        const float *part = sn_mat_row(parts, p);
        sum += (double)part[1] * exp((double)part[0] - base);
    }
    return (struct row){(double)max + log(sum), chosen};
}

/* Words here that somebody who takes the likeliest takes before the target: no number is behind one. */
static int64_t words_ahead(const struct sn_args *a, int64_t r, float chosen, float *wide)
{
    int64_t target = sn_ce_target(a, r) - a->attr.vocab.first, words = sn_ce_words(a), ahead = 0;
    for (int64_t c = 0; c < words; c += SN_CE_PIECE) {
        int64_t n = words - c < SN_CE_PIECE ? words - c : SN_CE_PIECE;
        const float *v = sn_ce_logits(a, r, c, n, wide);
        for (int64_t i = 0; i < n; i++)
            ahead += !(v[i] < chosen || (v[i] == chosen && c + i >= target));
    }
    return ahead;
}

/* lse in two floats: their sum is it to twice the precision. Not inlined: gcc copies it for each
 * storage type and then vectorises one of the copies. */
static __attribute__((noinline)) void gradient_piece(const float *v, int64_t n, const float lse[2],
                                                     float scale, float *to)
{
    float high = lse[0], low = lse[1];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = sn_expf_low((v[i] - high) - low) * scale;
}

/* Of capped logits, that of what they are of. */
static __attribute__((noinline)) void through_cap(const float *v, int64_t n, float cap,
                                                  float *slope)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        slope[i] = 1.0f - (v[i] / cap) * (v[i] / cap);
}

static void row_gradient(const struct sn_args *a, int64_t r, double lse, float scale, float *wide)
{
    double z = (double)a->attr.vocab.z_loss;
    float of_softmax = z != 0 ? (float)((double)scale * (1.0 + 2.0 * z * lse)) : scale;
    const struct sn_mat *x = &a->in[SN_CROSS_ENTROPY_LOGITS],
                        *dx = &a->out[SN_CROSS_ENTROPY_DLOGITS];
    int64_t target = sn_ce_column(a, r), words = sn_ce_words(a);
    size_t width = sn_dtype_size(dx->dtype);
    char *row = sn_mat_row(dx, r);
    float slope[SN_CE_PIECE], cap = a->attr.vocab.cap;
    float split[2] = {(float)lse, (float)(lse - (double)(float)lse)};
    for (int64_t c = 0; c < words; c += SN_CE_PIECE) {
        int64_t n = words - c < SN_CE_PIECE ? words - c : SN_CE_PIECE;
        const float *v = sn_ce_logits(a, r, c, n, wide);
        char *out = row + (size_t)c * width;
        float *to = dx->dtype == SN_F32 ? (float *)out : wide;
        if (cap > 0)
            through_cap(v, n, cap, slope);
        gradient_piece(v, n, split, of_softmax, to);
        if (target >= c && target < c + n)
            to[target - c] -= scale;
        for (int64_t i = 0; i < n && cap > 0; i++)
            to[i] *= slope[i];
        if (to == wide)
            sn_row_store(out, dx->dtype, wide, n);
    }
    memset(row + (size_t)words * width, 0, (size_t)(x->cols - words) * width);
}

static void row_of_nothing(const struct sn_args *a, int64_t r)
{
    const struct sn_mat *dx = &a->out[SN_CROSS_ENTROPY_DLOGITS];
    *(float *)sn_mat_row(&a->out[SN_CROSS_ENTROPY_ROW_LOSS], r) = 0.0f;
    if (a->out[SN_CROSS_ENTROPY_ROW_Z].p)
        *(float *)sn_mat_row(&a->out[SN_CROSS_ENTROPY_ROW_Z], r) = 0.0f;
    if (a->out[SN_CROSS_ENTROPY_ROW_AHEAD].p)
        *(float *)sn_mat_row(&a->out[SN_CROSS_ENTROPY_ROW_AHEAD], r) = 0.0f;
    if (dx->p)
        memset(sn_mat_row(dx, r), 0, (size_t)dx->cols * sn_dtype_size(dx->dtype));
}

SN_KERNEL(sn_cross_entropy)
{
    const struct sn_mat *x = &a->in[SN_CROSS_ENTROPY_LOGITS],
                        *losses = &a->out[SN_CROSS_ENTROPY_ROW_LOSS],
                        *squares = &a->out[SN_CROSS_ENTROPY_ROW_Z],
                        *ahead = &a->out[SN_CROSS_ENTROPY_ROW_AHEAD],
                        *sets = &a->in[SN_CROSS_ENTROPY_SETS];
    struct sn_scalars *s = a->scalars;
    bool beside = a->attr.vocab.weight > 0;
    double weight = beside ? (double)a->attr.vocab.weight : 1.0;
    float scale = (float)((double)s->loss_scale * weight / s->targets_in_step);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < x->rows; r++) {
        float wide[SN_CE_PIECE];
        if (sn_ce_target(a, r) == SN_NO_TARGET) {
            row_of_nothing(a, r);
            continue;
        }
        struct row row = a->in[SN_CROSS_ENTROPY_PARTS].p ? row_merged(a, r) : row_here(a, r, wide);
        *(float *)sn_mat_row(losses, r) = (float)(row.lse - (double)row.chosen);
        if (squares->p)
            *(float *)sn_mat_row(squares, r) = (float)(row.lse * row.lse);
        if (ahead->p)
            *(float *)sn_mat_row(ahead, r) = (float)words_ahead(a, r, row.chosen, wide);
        if (a->out[SN_CROSS_ENTROPY_DLOGITS].p)
            row_gradient(a, r, row.lse, scale, wide);
    }
    double shift = a->attr.exact.of ? sn_exact_shift(SN_EXACT_LOSSES, s) : 0;
    for (int64_t r = 0; r < x->rows; r++) {
        double loss = (double)*(const float *)sn_mat_row(losses, r);
        loss = shift != 0 ? sn_exact_round(loss, shift) : loss;
        *(beside ? &s->beside_sum : &s->loss_sum) += loss;
        if (sets->p)
            sn_set_losses(s)[*(const int32_t *)sn_mat_row(sets, r)] += loss;
    }
    for (int64_t r = 0; r < x->rows && squares->p; r++)
        s->head_z_sum += (double)*(const float *)sn_mat_row(squares, r);
    return 0;
}

size_t SN_K(sn_cross_entropy_scratch)(const struct sn_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
