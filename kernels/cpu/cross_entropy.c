/*
 * cross_entropy.c - row_loss = lse - logit[target], and its gradient in one more pass.
 *
 *   m = max_c x_c      lse = m + ln sum_c e^(x_c - m)
 *   dlogits = (e^(x - lse) - onehot) * loss_scale / tokens_in_step
 *
 * A row belongs to one thread and is summed in pieces of PIECE columns: fp32 in a piece, double
 * over pieces. The losses enter scalars.loss_sum in row order, after all rows.
 */
#include "kernels/cpu/tile.h"
#include "kernels/cpu/vmath.h"

enum { PIECE = 1024 };

/* Piece of row x from column c on as fp32: in place, or converted to `wide`. */
static const float *piece_of(const struct sn_mat *x, int64_t r, int64_t c, int64_t n, float *wide)
{
    const char *at = (const char *)sn_mat_row(x, r) + (size_t)c * sn_dtype_size(x->dtype);
    if (x->dtype == SN_F32)
        return (const float *)at;
    sn_row_load(wide, at, x->dtype, n);
    return wide;
}

static inline sn_vec powers(const float *v, float base)
{
    float e[SN_VL];
#pragma omp simd
    for (int i = 0; i < SN_VL; i++)
        e[i] = sn_expf_low(v[i] - base);
    return *(const sn_vec *)e;
}

/*
 * Add n elements to a running (max, sum of e^(x - max)). This and gradient_piece are not inlined:
 * gcc copies them for each storage type and then vectorises one of the copies.
 */
static __attribute__((noinline)) void add_piece(const float *v, int64_t n, float *max, double *sum)
{
    int64_t whole = n / SN_VL * SN_VL;
    float rest[SN_VL];
    for (int i = 0; i < SN_VL; i++)
        rest[i] = whole + i < n ? v[whole + i] : -INFINITY;
    sn_vec top = *max - (sn_vec){0}, part = {0};
    for (int64_t i = 0; i < whole; i += SN_VL)
        top = sn_vec_max(top, *(const sn_vec *)(v + i));
    float m = sn_vec_top(sn_vec_max(top, *(const sn_vec *)rest));
    float base = m == -INFINITY ? 0.0f : m; /* nothing but -infinity yet */
    for (int64_t i = 0; i < whole; i += SN_VL)
        part += powers(v + i, base);
    part += powers(rest, base);
    if (m > *max)
        *sum *= exp((double)*max - (double)m);
    *sum += (double)sn_vec_sum(part);
    *max = m;
}

static double row_lse(const struct sn_mat *x, int64_t r, float *wide)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < x->cols; c += PIECE) {
        int64_t n = x->cols - c < PIECE ? x->cols - c : PIECE;
        add_piece(piece_of(x, r, c, n, wide), n, &max, &sum);
    }
    return (double)max + log(sum);
}

/* lse in two floats: their sum is it to twice the precision. */
static __attribute__((noinline)) void gradient_piece(const float *v, int64_t n, const float lse[2],
                                                     float scale, float *to)
{
    float high = lse[0], low = lse[1];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = sn_expf_low((v[i] - high) - low) * scale;
}

static void row_gradient(const struct sn_args *a, int64_t r, double lse, float scale, float *wide)
{
    const struct sn_mat *x = &a->in[0], *dx = &a->out[0];
    int32_t target = *(const int32_t *)sn_mat_row(&a->in[1], r);
    float split[2] = {(float)lse, (float)(lse - (double)(float)lse)};
    for (int64_t c = 0; c < x->cols; c += PIECE) {
        int64_t n = x->cols - c < PIECE ? x->cols - c : PIECE;
        const float *v = piece_of(x, r, c, n, wide);
        char *out = (char *)sn_mat_row(dx, r) + (size_t)c * sn_dtype_size(dx->dtype);
        float *to = dx->dtype == SN_F32 ? (float *)out : wide;
        gradient_piece(v, n, split, scale, to);
        if (target >= c && target < c + n)
            to[target - c] -= scale;
        if (to == wide)
            sn_row_store(out, dx->dtype, wide, n);
    }
}

int SN_K(sn_cross_entropy)(const struct sn_args *a, int threads)
{
    const struct sn_mat *x = &a->in[0], *losses = &a->out[1];
    struct sn_scalars *s = a->scalars;
    float scale = (float)((double)s->loss_scale / s->tokens_in_step);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t r = 0; r < x->rows; r++) {
        float wide[PIECE];
        double lse = row_lse(x, r, wide);
        int32_t target = *(const int32_t *)sn_mat_row(&a->in[1], r);
        float chosen = *piece_of(x, r, target, 1, wide);
        *(float *)sn_mat_row(losses, r) = (float)(lse - (double)chosen);
        if (a->out[0].p)
            row_gradient(a, r, lse, scale, wide);
    }
    for (int64_t r = 0; r < x->rows; r++)
        s->loss_sum += (double)*(const float *)sn_mat_row(losses, r);
    return 0;
}

size_t SN_K(sn_cross_entropy_scratch)(const struct sn_args *a, int threads)
{
    (void)a;
    (void)threads;
    return 0;
}
