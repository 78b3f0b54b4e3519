/*
 * EXPERT_GEMM of shapes that a device's grouped products take: rows of whole 16 bytes, results of
 * several tiles, depths of more steps than are kept at once. Against plain loops in double.
 */
#include "tests/lib/kernel_test.h"

enum { EXPERTS = 3, SEGMENTS = 2 * EXPERTS, ROWS = 340 };

struct sizes {
    int64_t n, k; /* of an expert's matrix */
};

/* Two segments for each expert, one of them empty, one expert's both; the last rows nobody's. */
static const int bounds[SEGMENTS + 1] = {0, 130, 130, 160, 299, 299, 335};

static void put_bounds(struct kt *k)
{
    struct sn_mat *m = kt_new(k, 2, (struct kt_shape){SN_I32, 1, SEGMENTS + 1, 0});
    for (int s = 0; s <= SEGMENTS; s++)
        kt_set(m, 0, s, bounds[s]);
}

static int expert_of(int64_t row)
{
    int s = 0;
    while (row >= bounds[s + 1])
        s++;
    return s % EXPERTS;
}

/* The values of a matrix: their conversion takes longer than the sums. */
static double *values_of(const struct sn_mat *m)
{
    double *v = kt_alloc((size_t)(m->rows * m->cols) * sizeof(*v));
    for (int64_t i = 0; i < m->rows * m->cols; i++)
        v[i] = kt_get(m, i / m->cols, i % m->cols);
    return v;
}

/* C = A W_e^T, or C = A W_e. */
static void rows_are_multiplied(enum sn_dtype t, enum sn_dtype to, struct sizes z, bool turned)
{
    struct kt k = {.magnitude = 8.0};
    int64_t in = turned ? z.k : z.n, out = turned ? z.n : z.k;
    k.a.attr = (struct sn_attr){.gemm.trans_b = turned, .experts.count = EXPERTS};
    double *a = values_of(kt_in(&k, 0, (struct kt_shape){t, ROWS, in, 8}));
    double *w = values_of(kt_in(&k, 1, (struct kt_shape){t, EXPERTS * z.n, z.k, 16}));
    put_bounds(&k);
    kt_out(&k, 0, (struct kt_shape){to, ROWS, out, 8}, SN_WRITE);
    double *c = kt_ref(&k, 0);
    for (int64_t i = 0; i < ROWS * out; i++) {
        int64_t r = i / out, j = i % out;
        c[i] = r < bounds[SEGMENTS] ? 0 : kt_get(&k.a.out[0], r, j);
        const double *own = r < bounds[SEGMENTS] ? w + expert_of(r) * z.n * z.k : NULL;
        for (int64_t l = 0; own && l < in; l++)
            c[i] += a[r * in + l] * (turned ? own[j * z.k + l] : own[l * z.k + j]);
    }
    tap_ok(kt_check(&k, SN_OP_EXPERT_GEMM, 1e-6), "EXPERT_GEMM of %s to %s, %d x %d, %s",
           sn_dtype_name(t), sn_dtype_name(to), (int)z.n, (int)z.k,
           turned ? "forward" : "gradient of its input");
    free(a);
    free(w);
    kt_free(&k);
}

/* W_e (+)= A_s^T B_s; of no rows at all zero, or what it was. */
static void weights_get_their_gradient(enum sn_dtype t, struct sizes z, enum sn_acc acc)
{
    struct kt k = {.magnitude = 100.0};
    k.a.attr = (struct sn_attr){.gemm.trans_a = true, .experts.count = EXPERTS + 1};
    double *a = values_of(kt_in(&k, 0, (struct kt_shape){t, ROWS, z.n, 0}));
    double *b = values_of(kt_in(&k, 1, (struct kt_shape){t, ROWS, z.k, 8}));
    struct sn_mat *m = kt_new(&k, 2, (struct kt_shape){SN_I32, 1, EXPERTS + 2, 0});
    const int own[EXPERTS + 2] = {0, 270, 270, 301, 335}; /* expert 1 has none */
    for (int s = 0; s < EXPERTS + 2; s++)
        kt_set(m, 0, s, own[s]);
    kt_out(&k, 0, (struct kt_shape){SN_F32, (EXPERTS + 1) * z.n, z.k, 8}, acc);
    double *w = kt_ref(&k, 0);
    for (int s = 0; s <= EXPERTS; s++)
        for (int64_t r = own[s]; r < own[s + 1]; r++)
            for (int64_t i = 0; i < z.n * z.k; i++)
                w[s * z.n * z.k + i] += a[r * z.n + i / z.k] * b[r * z.k + i % z.k];
    tap_ok(kt_check(&k, SN_OP_EXPERT_GEMM, 1e-6),
           "EXPERT_GEMM of %s, %d x %d, gradient of the weights, %s", sn_dtype_name(t), (int)z.n,
           (int)z.k, acc == SN_ADD ? "added" : "written");
    free(a);
    free(b);
    kt_free(&k);
}

/* Of two segments each, one after the other. */
static void segments_are_summed(enum sn_dtype t, struct sizes z)
{
    struct kt k = {.magnitude = 100.0};
    k.a.attr = (struct sn_attr){.gemm.trans_a = true, .experts.count = EXPERTS};
    double *a = values_of(kt_in(&k, 0, (struct kt_shape){t, ROWS, z.n, 0}));
    double *b = values_of(kt_in(&k, 1, (struct kt_shape){t, ROWS, z.k, 0}));
    put_bounds(&k);
    kt_out(&k, 0, (struct kt_shape){SN_F32, EXPERTS * z.n, z.k, 0}, SN_ADD);
    double *w = kt_ref(&k, 0);
    for (int64_t r = 0; r < bounds[SEGMENTS]; r++)
        for (int64_t i = 0; i < z.n * z.k; i++)
            w[expert_of(r) * z.n * z.k + i] += a[r * z.n + i / z.k] * b[r * z.k + i % z.k];
    tap_ok(kt_check(&k, SN_OP_EXPERT_GEMM, 1e-6),
           "EXPERT_GEMM of %s, %d x %d, gradient of the weights of several segments",
           sn_dtype_name(t), (int)z.n, (int)z.k);
    free(a);
    free(b);
    kt_free(&k);
}

int main(void)
{
    static const struct sizes sizes[] = {{200, 72}, {72, 328}};
    static const enum sn_dtype types[] = {SN_BF16, SN_F16};
    for (int i = 0; i < 2; i++)
        for (int s = 0; s < 2; s++) {
            rows_are_multiplied(types[i], types[i], sizes[s], true);
            rows_are_multiplied(types[i], types[i], sizes[s], false);
            weights_get_their_gradient(types[i], sizes[s], i == 0 ? SN_WRITE : SN_ADD);
            segments_are_summed(types[i], sizes[s]);
        }
    rows_are_multiplied(SN_BF16, SN_F32, sizes[0], true);
    weights_get_their_gradient(SN_BF16, sizes[0], SN_ADD);
    return tap_done();
}
