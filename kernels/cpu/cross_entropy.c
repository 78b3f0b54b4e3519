/*
 * cross_entropy.c - row_loss = lse - logit[target], and its gradient in one more pass.
 *
 *   m = max_c x_c      lse = m + ln sum_c e^(x_c - m)
 *   dlogits = (e^(x - lse) - onehot) * loss_scale / tokens_in_step
 *
 * A row belongs to one thread and is summed in pieces of PIECE columns: fp32 in a piece, double
 * over pieces. The losses enter scalars.loss_sum in row order, after all rows.
 */
#include "kernels/cpu/cpu.h"
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

/* Not inlined: two copies of a vectorised sum may add in two orders. */
static __attribute__((noinline)) double row_lse(const struct sn_mat *x, int64_t r, float *wide)
{
    float max = -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < x->cols; c += PIECE) {
        int64_t n = x->cols - c < PIECE ? x->cols - c : PIECE;
        const float *v = piece_of(x, r, c, n, wide);
        float m = max, part = 0;
#pragma omp simd reduction(max : m)
        for (int64_t i = 0; i < n; i++)
            m = v[i] > m ? v[i] : m;
        float base = m == -INFINITY ? 0.0f : m; /* nothing but -infinity yet */
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += sn_expf_low(v[i] - base);
        if (m > max)
            sum *= exp((double)max - (double)m);
        sum += (double)part;
        max = m;
    }
    return (double)max + log(sum);
}

static void row_gradient(const struct sn_args *a, int64_t r, double lse, float scale, float *wide)
{
    const struct sn_mat *x = &a->in[0], *dx = &a->out[0];
    int32_t target = *(const int32_t *)sn_mat_row(&a->in[1], r);
    float high = (float)lse, low = (float)(lse - (double)high);
    for (int64_t c = 0; c < x->cols; c += PIECE) {
        int64_t n = x->cols - c < PIECE ? x->cols - c : PIECE;
        const float *v = piece_of(x, r, c, n, wide);
        char *out = (char *)sn_mat_row(dx, r) + (size_t)c * sn_dtype_size(dx->dtype);
        float *to = dx->dtype == SN_F32 ? (float *)out : wide;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] = sn_expf_low((v[i] - high) - low) * scale;
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
