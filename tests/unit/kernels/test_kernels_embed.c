/*
 * EMBED, EMBED_GRAD, POS_GRAD against loops in double.
 */
#include "tests/lib/kernel_test.h"

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};
static const int64_t widths[] = {1, 7, 64, 100, 257, 768, 1100};
enum { N_WIDTHS = sizeof(widths) / sizeof(widths[0]), V = 11, SAMPLES = 9 };

/* Ids that repeat, so that gradients pile up. */
static void put_ids(struct kt *k, int64_t rows)
{
    struct sn_mat *ids = kt_new(k, 0, (struct kt_shape){SN_I32, rows, 1, 0});
    for (int64_t r = 0; r < rows; r++)
        kt_set(ids, r, 0, (double)(sn_rng_bits(3, (uint64_t)r) % V));
}

static bool embed_case(struct kt_shape s, int64_t seq, bool positions)
{
    struct kt k = {.magnitude = 1.0};
    put_ids(&k, s.rows);
    const struct sn_mat *w = kt_in(&k, 1, (struct kt_shape){s.dtype, V, s.cols, s.pad});
    const struct sn_mat *p =
        positions ? kt_in(&k, 2, (struct kt_shape){s.dtype, seq + 3, s.cols, 0}) : NULL;
    k.a.attr.position.seq = seq;
    kt_out(&k, 0, s, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++) {
            int64_t id = (int64_t)kt_get(&k.a.in[0], r, 0);
            y[r * s.cols + c] = kt_get(w, id, c) + (p ? kt_get(p, r % seq, c) : 0.0);
        }
    bool good = kt_check(&k, SN_OP_EMBED, 1e-7);
    kt_free(&k);
    return good;
}

static bool embed_grad_case(struct kt_shape s)
{
    struct kt k = {.magnitude = sqrt((double)s.rows)};
    put_ids(&k, s.rows);
    const struct sn_mat *dy = kt_in(&k, 1, s);
    kt_out(&k, 0, (struct kt_shape){SN_F32, V, s.cols, 0}, SN_ADD);
    double *dw = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++)
            dw[(int64_t)kt_get(&k.a.in[0], r, 0) * s.cols + c] += kt_get(dy, r, c);
    bool good = kt_check(&k, SN_OP_EMBED_GRAD, 1e-6);
    kt_free(&k);
    return good;
}

/* Words of several hundred rows, of one and of none; over two tiles of rows
 * (kernels/cuda/embed.cu). */
static bool frequent_case(enum sn_dtype t, int64_t rows, int64_t cols)
{
    enum { WORDS = 300 };
    struct kt k = {.magnitude = sqrt((double)rows)};
    struct sn_mat *ids = kt_new(&k, 0, (struct kt_shape){SN_I32, rows, 1, 0});
    for (int64_t r = 0; r < rows; r++) {
        uint64_t dice = sn_rng_bits(5, (uint64_t)r);
        kt_set(ids, r, 0, (double)(dice % 3 ? dice % 5 : dice % WORDS));
    }
    const struct sn_mat *dy = kt_in(&k, 1, (struct kt_shape){t, rows, cols, 0});
    kt_out(&k, 0, (struct kt_shape){SN_F32, WORDS - 9, cols, 3}, SN_ADD);
    k.a.attr.vocab.first = 2; /* the first two and the last seven are another rank's */
    double *dw = kt_ref(&k, 0);
    for (int64_t r = 0; r < rows; r++) {
        int64_t id = (int64_t)kt_get(ids, r, 0) - 2;
        for (int64_t c = 0; c < cols && id >= 0 && id < WORDS - 9; c++)
            dw[id * cols + c] += kt_get(dy, r, c);
    }
    bool good = kt_check(&k, SN_OP_EMBED_GRAD, 1e-6);
    kt_free(&k);
    return good;
}

static bool pos_grad_case(struct kt_shape s, int64_t seq, enum sn_acc acc)
{
    struct kt k = {.magnitude = 3.0};
    const struct sn_mat *dy = kt_in(&k, 0, s);
    kt_out(&k, 0, (struct kt_shape){SN_F32, seq + 3, s.cols, 0}, acc);
    k.a.attr.position.seq = seq;
    double *dp = kt_ref(&k, 0);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t c = 0; c < s.cols; c++)
            dp[r % seq * s.cols + c] += kt_get(dy, r, c);
    bool good = kt_check(&k, SN_OP_POS_GRAD, 1e-6);
    kt_free(&k);
    return good;
}

int main(void)
{
    for (int t = 0; t < 3; t++) {
        bool embed = true, grad = true, pos = true;
        const char *type = sn_dtype_name(dtypes[t]);
        for (int i = 0; i < N_WIDTHS; i++)
            for (int64_t seq = 1; seq < 10; seq += 8) {
                struct kt_shape s = {dtypes[t], SAMPLES * seq, widths[i], i % 2 ? 5 : 0};
                embed = embed_case(s, seq, false) && embed_case(s, seq, true) && embed;
                grad = embed_grad_case(s) && grad;
                pos = pos_grad_case(s, seq, SN_WRITE) && pos_grad_case(s, seq, SN_ADD) && pos;
            }
        tap_ok(embed, "EMBED of %s takes rows, with and without positions", type);
        tap_ok(grad, "EMBED_GRAD of %s adds the rows of repeated ids", type);
        tap_ok(frequent_case(dtypes[t], 1500, 64) && frequent_case(dtypes[t], 1025, 9) &&
                   frequent_case(dtypes[t], 128, 4),
               "EMBED_GRAD of %s adds hundreds of rows of one word", type);
        tap_ok(pos, "POS_GRAD of %s adds over samples and leaves later positions 0 or alone", type);
    }
    return tap_done();
}
