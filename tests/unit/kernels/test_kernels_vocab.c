/*
 * A vocabulary cut over ranks: EMBED, EMBED_GRAD, CE_PART and CROSS_ENTROPY of each rank's columns
 * or rows, against the whole. Every rank has ceil(V / P) of them; beyond V there are no words.
 */
#include "tests/lib/kernel_test.h"

enum { RANKS = 3, MOST_ROWS = 16 };

static const enum sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};
static const double tokens = 96, loss_scale = 8;

static int64_t share(int64_t vocab)
{
    return (vocab + RANKS - 1) / RANKS;
}

static void put_ids(struct kt *k, int i, int64_t rows, int64_t vocab)
{
    struct sn_mat *ids = kt_new(k, i, (struct kt_shape){SN_I32, rows, 1, 0});
    for (int64_t r = 0; r < rows; r++) /* the first ones: first and last words of every rank */
        kt_set(ids, r, 0,
               (double)(r < 2 * RANKS ? (share(vocab) * ((r + 1) / 2) - (r % 2) + vocab) % vocab
                                      : (r * 7919 + 3) % vocab));
}

/* --- embedding -------------------------------------------------------------------------------- */

static bool embed_rank(const struct kt *whole, int64_t vocab, int rank, bool positions)
{
    const struct sn_mat *ids = &whole->a.in[0], *w = &whole->a.in[1];
    int64_t first = rank * share(vocab), rows = ids->rows, cols = w->cols;
    struct kt k = {.magnitude = 1.0};
    k.a.in[0] = *ids;
    const struct sn_mat *mine = kt_new(&k, 1, (struct kt_shape){w->dtype, share(vocab), cols, 5});
    for (int64_t i = 0; i < share(vocab) && first + i < vocab; i++) /* NaN in the padding */
        for (int64_t c = 0; c < cols; c++)
            kt_set(mine, i, c, kt_get(w, first + i, c));
    k.a.in[2] = positions ? whole->a.in[2] : (struct sn_mat){0};
    k.a.attr = (struct sn_attr){.position.seq = 4, .vocab.words = vocab, .vocab.first = first};
    kt_out(&k, 0, (struct kt_shape){w->dtype, rows, cols, 1}, SN_WRITE);
    double *y = kt_ref(&k, 0);
    for (int64_t i = 0; i < rows * cols; i++) {
        int64_t id = (int64_t)kt_get(ids, i / cols, 0);
        y[i] = id / share(vocab) == rank ? kt_get(w, id, i % cols) : 0.0;
        y[i] += positions ? kt_get(&k.a.in[2], i / cols % 4, i % cols) : 0.0;
    }
    bool good = kt_check(&k, SN_OP_EMBED, positions ? 1e-7 : 0.0);
    kt_free(&k);
    return good;
}

static void words_of_other_ranks_are_rows_of_zeros(enum sn_dtype t, int64_t vocab, int64_t cols)
{
    struct kt whole = {0};
    bool good = true;
    put_ids(&whole, 0, MOST_ROWS, vocab);
    kt_in(&whole, 1, (struct kt_shape){t, vocab, cols, 0});
    kt_in(&whole, 2, (struct kt_shape){t, 4, cols, 0});
    for (int rank = 0; rank < RANKS; rank++)
        good =
            embed_rank(&whole, vocab, rank, false) && embed_rank(&whole, vocab, rank, true) && good;
    kt_free(&whole);
    tap_ok(good, "EMBED of %s: %ld words over %d ranks", sn_dtype_name(t), (long)vocab, RANKS);
}

/* The ranks' gradients are the rows of the whole's, bit for bit:
 * the same rows in the same order. */
static bool embed_grad_rank(const struct kt *whole, const struct sn_ops *ops, int64_t vocab,
                            int rank)
{
    const struct sn_mat *all = &whole->a.out[0];
    int64_t first = rank * share(vocab), cols = all->cols;
    struct kt k = {0};
    k.a.in[0] = whole->a.in[0];
    k.a.in[1] = whole->a.in[1];
    k.a.attr = (struct sn_attr){.vocab.words = vocab, .vocab.first = first};
    const struct sn_mat *dw =
        kt_out(&k, 0, (struct kt_shape){SN_F32, share(vocab), cols, 0}, SN_WRITE);
    k.a.acc[0] = SN_ADD;
    bool good = true;
    for (int threads = 1; threads <= 4; threads++) {
        memset(dw->p, 0, (size_t)(share(vocab) * cols) * sizeof(float));
        good = kt_run(&k, ops, SN_OP_EMBED_GRAD, threads) && good;
        for (int64_t i = 0; i < share(vocab); i++)
            for (int64_t c = 0; c < cols; c++)
                good = good &&
                       kt_get(dw, i, c) == (first + i < vocab ? kt_get(all, first + i, c) : 0.0);
    }
    kt_free(&k);
    return good;
}

static void gradients_of_words_go_to_their_rank(enum sn_dtype t, int64_t vocab, int64_t cols)
{
    struct kt whole = {0};
    const struct sn_ops *table[KT_TABLES];
    bool good = true;
    put_ids(&whole, 0, 300, vocab);
    kt_in(&whole, 1, (struct kt_shape){t, 300, cols, 0});
    const struct sn_mat *dw =
        kt_out(&whole, 0, (struct kt_shape){SN_F32, vocab, cols, 0}, SN_WRITE);
    whole.a.acc[0] = SN_ADD;
    for (int i = 0, n = kt_tables(table); i < n; i++) {
        memset(dw->p, 0, (size_t)(vocab * cols) * sizeof(float));
        good = kt_run(&whole, table[i], SN_OP_EMBED_GRAD, 1) && good;
        for (int rank = 0; rank < RANKS; rank++)
            good = embed_grad_rank(&whole, table[i], vocab, rank) && good;
    }
    kt_free(&whole);
    tap_ok(good, "EMBED_GRAD of %s: %ld words over %d ranks", sn_dtype_name(t), (long)vocab, RANKS);
}

/* --- cross-entropy ---------------------------------------------------------------------------- */

/* What stands for a logit. */
static double logit(const struct kt *whole, int64_t r, int64_t c)
{
    double z = kt_get(&whole->a.in[0], r, c), cap = (double)whole->a.attr.vocab.cap;
    return cap > 0 ? cap * tanh(z / cap) : z;
}

/* The whole: in 0 logits, in 1 targets, out 0 dlogits, out 1 losses. */
static void make_whole(struct kt *k, enum sn_dtype t, int64_t rows, int64_t vocab)
{
    struct sn_mat *x = kt_in(k, 0, (struct kt_shape){t, rows, vocab, 0});
    for (int64_t i = 0; i < rows * vocab; i++)
        kt_set(x, i / vocab, i % vocab, 3 * kt_get(x, i / vocab, i % vocab));
    kt_set(x, 0, vocab / 2, 20); /* one row is nearly decided */
    put_ids(k, 1, rows, vocab);
    kt_out(k, 0, (struct kt_shape){t, rows, vocab, 0}, SN_WRITE);
    kt_out(k, 1, (struct kt_shape){SN_F32, rows, 1, 0}, SN_WRITE);
    k->scalars = (struct sn_scalars){
        .targets_in_step = tokens, .loss_scale = (float)loss_scale, .loss_sum = 2.5};
}

/*
 * A rank's columns; NaN in those that are no words. Error floor: where few words leave a
 * probability near 1, loss and gradient carry the rounding of that 1 (6e-8, from a part's sum).
 */
static struct kt make_rank(const struct kt *whole, int rank)
{
    const struct sn_mat *x = &whole->a.in[0];
    int64_t cols = share(x->cols), first = rank * cols;
    struct kt k = {.magnitude = x->cols < 100 ? 0.02 : 1e-6, .scalars = whole->scalars};
    const struct sn_mat *mine = kt_new(&k, 0, (struct kt_shape){x->dtype, x->rows, cols, 3});
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < cols && first + c < x->cols; c++)
            kt_set(mine, r, c, kt_get(x, r, first + c));
    k.a.in[1] = whole->a.in[1];
    k.a.attr = (struct sn_attr){
        .vocab.words = x->cols, .vocab.first = first, .vocab.cap = whole->a.attr.vocab.cap};
    return k;
}

static void reference_part(const struct kt *whole, int rank, double *part)
{
    const struct sn_mat *x = &whole->a.in[0];
    int64_t first = rank * share(x->cols), end = first + share(x->cols);
    end = end < x->cols ? end : x->cols;
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t target = (int64_t)kt_get(&whole->a.in[1], r, 0);
        double max = -INFINITY, sum = 0;
        for (int64_t c = first; c < end; c++)
            max = fmax(max, logit(whole, r, c));
        for (int64_t c = first; c < end; c++)
            sum += exp(logit(whole, r, c) - max);
        part[3 * r] = max;
        part[3 * r + 1] = sum;
        part[3 * r + 2] = target >= first && target < end ? logit(whole, r, target) : 0.0;
    }
}

/* Checks CE_PART and leaves its results, of the best instruction set,
 * in the rank's rows of parts. */
static bool part_is_right(const struct kt *whole, int rank, const struct sn_mat *parts)
{
    struct kt k = make_rank(whole, rank);
    int64_t rows = whole->a.in[0].rows;
    kt_out(&k, 0, (struct kt_shape){SN_F32, rows, 3, 1}, SN_WRITE);
    reference_part(whole, rank, kt_ref(&k, 0));
    bool good = kt_check(&k, SN_OP_CE_PART, 4e-6);
    for (int64_t i = 0; i < rows * 3; i++)
        kt_set(parts, rank * rows + i / 3, i % 3, kt_get(&k.a.out[0], i / 3, i % 3));
    kt_free(&k);
    return good;
}

/* CROSS_ENTROPY of a rank's columns against formulas over the whole; its losses as they are. */
static bool rank_is_right(const struct kt *whole, int rank, const struct sn_mat *parts, float *loss)
{
    const struct sn_mat *x = &whole->a.in[0];
    struct kt k = make_rank(whole, rank);
    int64_t cols = share(x->cols), first = rank * cols;
    k.a.in[2] = *parts;
    if (rank % 2)
        kt_take(&k, 0, 0);
    else
        kt_out(&k, 0, (struct kt_shape){x->dtype, x->rows, cols, 2}, SN_WRITE);
    kt_out(&k, 1, (struct kt_shape){SN_F32, x->rows, 1, 0}, SN_WRITE);
    double *grad = kt_ref(&k, 0), *losses = kt_ref(&k, 1), want = 2.5;
    for (int64_t r = 0; r < x->rows; r++) {
        int64_t target = (int64_t)kt_get(&whole->a.in[1], r, 0);
        double sum = 0;
        for (int64_t c = 0; c < x->cols; c++)
            sum += exp(logit(whole, r, c));
        losses[r] = log(sum) - logit(whole, r, target);
        for (int64_t c = 0; c < cols && first + c < x->cols; c++) {
            double v = logit(whole, r, first + c), cap = (double)whole->a.attr.vocab.cap;
            grad[r * cols + c] = (exp(v) / sum - (first + c == target)) * loss_scale / tokens *
                                 (cap > 0 ? 1 - v / cap * v / cap : 1);
        }
    }
    bool good = kt_check(&k, SN_OP_CROSS_ENTROPY, 4e-6);
    for (int64_t r = 0; r < x->rows; r++) {
        loss[r] = (float)kt_get(&k.a.out[1], r, 0);
        want += (double)loss[r];
        good = good && fabs((double)loss[r] - losses[r]) <= 1e-6 * fmax(1.0, fabs(losses[r]));
    }
    good = good && k.scalars.loss_sum == want;
    kt_free(&k);
    return good;
}

static bool vocabulary_case(enum sn_dtype t, int64_t rows, int64_t vocab, float cap)
{
    struct kt whole = {.a.attr.vocab.cap = cap}, room = {0};
    float loss[RANKS][MOST_ROWS];
    bool good = true;
    make_whole(&whole, t, rows, vocab);
    const struct sn_mat *parts = kt_new(&room, 0, (struct kt_shape){SN_F32, RANKS * rows, 3, 2});
    for (int rank = 0; rank < RANKS; rank++)
        good = part_is_right(&whole, rank, parts) && good;
    for (int rank = 0; rank < RANKS; rank++) {
        good = rank_is_right(&whole, rank, parts, loss[rank]) && good;
        good = good && memcmp(loss[rank], loss[0], (size_t)rows * sizeof(float)) == 0;
    }
    good = kt_run(&whole, sn_ops_cpu(), SN_OP_CROSS_ENTROPY, 1) && good;
    for (int64_t r = 0; r < rows; r++) {
        double want = kt_get(&whole.a.out[1], r, 0);
        good = good && fabs((double)loss[0][r] - want) <= 1e-6 * fmax(1.0, want);
    }
    kt_free(&room);
    kt_free(&whole);
    return good;
}

static void ranks_agree_on_the_loss_of_the_whole(enum sn_dtype t)
{
    const char *type = sn_dtype_name(t);
    tap_ok(vocabulary_case(t, MOST_ROWS, 61, 0), "cross-entropy of %s: 61 words over 3 ranks",
           type);
    tap_ok(vocabulary_case(t, MOST_ROWS, 61, 6), "and with a cap of logits");
    tap_ok(vocabulary_case(t, 7, 50257, 0), "cross-entropy of %s: 50257 words over 3 ranks", type);
    tap_ok(vocabulary_case(t, 7, 7, 0), "cross-entropy of %s: a rank with one word, two of padding",
           type);
    tap_ok(vocabulary_case(t, 4, 2, 0), "cross-entropy of %s: a rank without a word", type);
    tap_ok(vocabulary_case(t, 7, 4, 0), "cross-entropy of %s: ranks with two, two and no word",
           type);
}

/* --- extremes --------------------------------------------------------------------------------- */

static float merged_loss(float parts[RANKS][3], float dx[2])
{
    int32_t target = 0;
    float loss = 0, x[2] = {1.0f, NAN};
    struct sn_scalars s = {.targets_in_step = 1, .loss_scale = 1};
    struct sn_args a = {
        .in = {{x, SN_F32, 1, 2, 2}, {&target, SN_I32, 1, 1, 1}, {parts, SN_F32, RANKS, 3, 3}},
        .out = {{dx, SN_F32, 1, 2, 2}, {&loss, SN_F32, 1, 1, 1}},
        .attr = {.vocab.words = 3, .vocab.first = 2},
        .scalars = &s};
    return sn_ops_cpu()->run[SN_OP_CROSS_ENTROPY](&a, 1) == 0 ? loss : -1.0f;
}

static void extreme_parts_are_harmless(void)
{
    float dx[2], far[RANKS][3] = {{1e30f, 2, 1e30f}, {-1e30f, 1, 0}, {-INFINITY, 0, 0}};
    float bad[RANKS][3] = {{0, NAN, 0}, {1, 1, 0}, {-INFINITY, 0, 0}};
    tap_close((double)merged_loss(far, dx), 0.0, 1e-6, 1.0,
              "parts far apart, and one without words, merge");
    tap_ok(dx[0] == 0 && dx[1] == 0, "the gradient of padding is 0, of what is far below too");
    tap_ok(isnan(merged_loss(bad, dx)), "a NaN of another rank arrives in the loss");
}

static void a_target_that_is_no_word_is_loud(void)
{
    float x[4] = {0, 1, 2, 3}, loss = 0;
    int32_t target = 3;
    struct sn_scalars s = {.targets_in_step = 1, .loss_scale = 1};
    struct sn_args a = {.in = {{x, SN_F32, 1, 4, 4}, {&target, SN_I32, 1, 1, 1}},
                        .out = {{0}, {&loss, SN_F32, 1, 1, 1}},
                        .attr = {.vocab.words = 3},
                        .scalars = &s};
    bool ran = sn_ops_cpu()->run[SN_OP_CROSS_ENTROPY](&a, 1) == 0;
    tap_ok(ran && isnan(loss), "a target in the padding makes the loss NaN");
}

int main(void)
{
    for (int t = 0; t < 3; t++) {
        words_of_other_ranks_are_rows_of_zeros(dtypes[t], 61, 1100);
        words_of_other_ranks_are_rows_of_zeros(dtypes[t], 50257, 3);
        gradients_of_words_go_to_their_rank(dtypes[t], 61, 257);
        gradients_of_words_go_to_their_rank(dtypes[t], 50257, 3);
        ranks_agree_on_the_loss_of_the_whole(dtypes[t]);
    }
    extreme_parts_are_harmless();
    a_target_that_is_no_word_is_loud();
    return tap_done();
}
