#include "lib/replay/fingerprint.h"

#include "kernels/half.h"
#include "lib/base/hash.h"
#include "lib/base/rng.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, KEY_COLS = 71, KEY_ROWS = 72, KEY_REPEATS = 73 };

static float sign(uint64_t key, int64_t i)
{
    return sn_rng_mix(key, (uint64_t)i) & 1u ? 1.0f : -1.0f;
}

void sn_signs_init(struct sn_signs *s)
{
    for (int64_t i = 0; i < SN_SIGNS; i++)
        s->of[i] = sign(KEY_COLS, i);
}

/* n elements of a row as fp32; their own place where they are. */
static const float *as_floats(const void *p, enum sn_dtype t, int64_t n, float *room)
{
    switch (t) {
    case SN_F32:
        return p;
    case SN_BF16:
        for (int64_t i = 0; i < n; i++)
            room[i] = sn_bf16_to_f32(((const uint16_t *)p)[i]);
        break;
    case SN_F16:
        for (int64_t i = 0; i < n; i++)
            room[i] = sn_f16_to_f32(((const uint16_t *)p)[i]);
        break;
    case SN_F64:
        for (int64_t i = 0; i < n; i++)
            room[i] = (float)((const double *)p)[i];
        break;
    case SN_I32:
        for (int64_t i = 0; i < n; i++)
            room[i] = (float)((const int32_t *)p)[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            room[i] = ((const uint8_t *)p)[i];
    }
    return room;
}

struct sums {
    double projection, squares;
};

/* In lanes, in an order that no compiler changes. */
static struct sums sum_finite(const float *x, const float *sign_of, int64_t n)
{
    float p[LANES] = {0}, q[LANES] = {0};
    struct sums s = {0, 0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            p[k] += x[i + k] * sign_of[i + k];
            q[k] += x[i + k] * x[i + k];
        }
    for (int k = 0; k < LANES; k++) {
        s.projection += (double)p[k];
        s.squares += (double)q[k];
    }
    for (; i < n; i++) {
        s.projection += (double)(x[i] * sign_of[i]);
        s.squares += (double)x[i] * (double)x[i];
    }
    return s;
}

/* The same where some are not, or their squares are beyond fp32. */
static struct sums sum_any(const float *x, const float *sign_of, int64_t n)
{
    struct sums s = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            continue;
        s.projection += (double)x[i] * (double)sign_of[i];
        s.squares += (double)x[i] * (double)x[i];
    }
    return s;
}

/* n elements of a row, from column `col` of the whole on. */
static void add_row(struct sn_fingerprint *f, const struct sn_signs *signs, const struct sn_mat *m,
                    const char *at, int64_t row, int64_t col)
{
    float room[SN_SIGNS];
    double of_row = (double)sign(KEY_ROWS, row);
    for (int64_t i = 0, n; i < m->cols; i += n) {
        int64_t first = (col + i) % SN_SIGNS;
        n = m->cols - i < SN_SIGNS - first ? m->cols - i : SN_SIGNS - first;
        const float *x = as_floats(at + i * (int64_t)sn_dtype_size(m->dtype), m->dtype, n, room);
        struct sums s = sum_finite(x, signs->of + first, n);
        if (!isfinite(s.squares) || !isfinite(s.projection))
            s = sum_any(x, signs->of + first, n);
        f->projection += of_row * (double)sign(KEY_REPEATS, (col + i) / SN_SIGNS) * s.projection;
        f->squares += s.squares;
    }
}

void sn_fingerprint_add(struct sn_fingerprint *f, const struct sn_signs *s, const struct sn_mat *m,
                        int64_t row, int64_t col)
{
    const char *at = m->p;
    for (int64_t r = 0; r < m->rows; r++, at += m->ld * (int64_t)sn_dtype_size(m->dtype))
        add_row(f, s, m, at, row + r, col);
}

struct sn_fingerprint sn_fingerprint_of(const struct sn_signs *s, const struct sn_mat *m)
{
    struct sn_fingerprint f = {0, 0, 0};
    size_t row = (size_t)m->cols * sn_dtype_size(m->dtype);
    if (m->ld == m->cols) {
        f.hash = sn_hash64(m->p, (size_t)m->rows * row);
    } else {
        const char *at = m->p;
        for (int64_t r = 0; r < m->rows; r++, at += m->ld * (int64_t)sn_dtype_size(m->dtype))
            f.hash = sn_rng_mix(f.hash, sn_hash64(at, row));
    }
    sn_fingerprint_add(&f, s, m, 0, 0);
    return f;
}

double sn_fingerprint_off(const struct sn_fingerprint *a, const struct sn_fingerprint *b)
{
    double size = sqrt(fmax(a->squares, b->squares));
    double off =
        fmax(fabs(a->projection - b->projection), fabs(sqrt(a->squares) - sqrt(b->squares)));
    return size > 0 ? off / size : 0;
}
