/*
 * boxes_test.h - the states of several ranks, cut into boxes in many ways.
 */
#ifndef BOXES_TEST_H
#define BOXES_TEST_H

#include "checkpoint/io/box.h"
#include "tests/lib/checkpoint_test.h"
#include "tests/lib/dice.h"

enum { RANKS = 5, BOXES = 4 * N };
__attribute__((unused)) static const uint32_t untouched = 0x7fc0dead; /* a NaN that no state has */

/* The states of some ranks. */
struct party {
    int n;
    struct sn_state rank[RANKS];
    struct sn_state_tensor box[RANKS][BOXES];
};

__attribute__((unused)) static void make_party(struct party *p, int n)
{
    *p = (struct party){.n = n};
    for (int r = 0; r < n; r++)
        p->rank[r] = (struct sn_state){.model_text = MODEL,
                                       .config_hash = 7,
                                       .rank = r,
                                       .ranks = n,
                                       .tag = 4711,
                                       .tensors = p->box[r],
                                       .n_all = N,
                                       .all = (struct sn_state_shape *)shape};
}

__attribute__((unused)) static void free_party(struct party *p)
{
    for (int r = 0; r < p->n; r++)
        for (int i = 0; i < p->rank[r].n_tensors; i++)
            sn_free(p->box[r][i].p);
}

/* Rank r gets a box of tensor i, with `gap` floats between its rows. */
__attribute__((unused)) static struct sn_state_tensor *give(struct party *p, int r, int i,
                                                            struct sn_box b, int gap)
{
    struct sn_state_tensor *t = &p->box[r][p->rank[r].n_tensors++];
    *t = sn_state_whole(&shape[i], NULL);
    t->row = b.row, t->col = b.col;
    t->n_rows = b.rows, t->n_cols = b.cols;
    t->ld = b.cols + gap;
    t->p = sn_alloc_n((size_t)(t->n_rows * t->ld), sizeof(float));
    return t;
}

__attribute__((unused)) static int tensor_of(const struct sn_state_tensor *t)
{
    for (int i = 0; i < N; i++)
        if (strcmp(shape[i].group, t->group) == 0 && strcmp(shape[i].name, t->name) == 0)
            return i;
    return -1;
}

/* The key of a tensor's values in the state of a step, as set_state has it. */
__attribute__((unused)) static uint64_t key_of(const struct sn_state_tensor *t, int64_t step)
{
    return sn_rng_key((uint64_t)step * N + (uint64_t)tensor_of(t), "state");
}

/* What lies at p[e] of a box in the state of a step; step 0 is nothing, so all is untouched. */
__attribute__((unused)) static uint32_t expected(const struct sn_state_tensor *t, int64_t step,
                                                 uint64_t key, int64_t e)
{
    int64_t r = e / t->ld, c = e % t->ld;
    if (step == 0 || c >= t->n_cols)
        return untouched;
    return (uint32_t)sn_rng_bits(key, (uint64_t)((t->row + r) * t->cols + t->col + c));
}

__attribute__((unused)) static void set_party(struct party *p, int64_t step)
{
    for (int k = 0; k < p->n; k++) {
        p->rank[k].scalars =
            (struct sn_state_scalars){step, step * 10, step - 1, 3, 1, 0.1f, {0}, 0, 0};
        for (int i = 0; i < p->rank[k].n_tensors; i++) {
            struct sn_state_tensor *t = &p->box[k][i];
            uint64_t key = key_of(t, step);
            for (int64_t e = 0; e < t->n_rows * t->ld; e++) {
                uint32_t bits = expected(t, step, key, e);
                memcpy(&t->p[e], &bits, 4);
            }
        }
    }
}

/* Has rank k the state of a step, and are the gaps untouched? */
__attribute__((unused)) static bool holds(const struct party *p, int k, int64_t step)
{
    for (int i = 0; i < p->rank[k].n_tensors; i++) {
        const struct sn_state_tensor *t = &p->box[k][i];
        uint64_t key = key_of(t, step);
        for (int64_t e = 0; e < t->n_rows * t->ld; e++) {
            uint32_t want = expected(t, step, key, e);
            if (memcmp(&t->p[e], &want, 4) != 0)
                return false;
        }
    }
    return true;
}

/* --- ways to cut a tensor -------------------------------------------------------------------- */

/* cut[0] = 0 <= cut[1] <= ... <= cut[n] = size; some parts may be empty. */
__attribute__((unused)) static void cut_range(struct dice *d, int64_t size, int n,
                                              int64_t cut[RANKS + 1])
{
    cut[0] = 0;
    for (int i = 1; i < n; i++) {
        int64_t at = roll(d, size + 1);
        int k = i;
        for (; k > 1 && cut[k - 1] > at; k--)
            cut[k] = cut[k - 1];
        cut[k] = at;
    }
    cut[n] = size;
}

/* Elements first .. end - 1: part of a row, whole rows, part of a row. */
__attribute__((unused)) static void give_flat(struct party *p, int r, int i, int64_t first,
                                              int64_t end)
{
    int64_t cols = shape[i].cols;
    while (first < end) {
        struct sn_box b = {first / cols, first % cols, 1, cols - first % cols};
        if (b.col == 0 && end - first >= cols)
            b.rows = (end - first) / cols;
        else if (b.cols > end - first)
            b.cols = end - first;
        (void)give(p, r, i, b, 0);
        first += sn_box_size(b);
    }
}

__attribute__((unused)) static void cut_replicas(struct party *p, struct dice *d, int i)
{
    int owner = (int)roll(d, p->n);
    for (int r = 0; r < p->n; r++)
        if (r == owner || roll(d, 2))
            give(p, r, i, (struct sn_box){0, 0, shape[i].rows, shape[i].cols}, (int)roll(d, 2))
                ->owned = r == owner;
}

__attribute__((unused)) static void cut_rows_or_cols(struct party *p, struct dice *d, int i,
                                                     bool rows)
{
    int64_t cut[RANKS + 1];
    cut_range(d, rows ? shape[i].rows : shape[i].cols, p->n, cut);
    for (int r = 0; r < p->n; r++) {
        int64_t first = cut[r], n = cut[r + 1] - first;
        struct sn_box b = {first, 0, n, shape[i].cols};
        if (!rows)
            b = (struct sn_box){0, first, shape[i].rows, n};
        (void)give(p, r, i, b, (int)roll(d, 3));
    }
}

/* Columns over the ranks, rows apart in each: a rank has up to two boxes. */
__attribute__((unused)) static void cut_both(struct party *p, struct dice *d, int i)
{
    int64_t cut[RANKS + 1];
    cut_range(d, shape[i].cols, p->n, cut);
    for (int r = 0; r < p->n; r++) {
        int64_t rows = roll(d, shape[i].rows), n = cut[r + 1] - cut[r];
        (void)give(p, r, i, (struct sn_box){0, cut[r], rows, n}, 1);
        (void)give(p, (r + 1) % p->n, i, (struct sn_box){rows, cut[r], shape[i].rows - rows, n}, 0);
    }
}

__attribute__((unused)) static void cut_flat(struct party *p, struct dice *d, int i)
{
    int64_t cut[RANKS + 1];
    cut_range(d, shape[i].rows * shape[i].cols, p->n, cut);
    for (int r = 0; r < p->n; r++)
        give_flat(p, r, i, cut[r], cut[r + 1]);
}

__attribute__((unused)) static void cut_at_random(struct party *p, struct dice *d)
{
    for (int i = 0; i < N; i++)
        switch (roll(d, 5)) {
        case 0:
            cut_replicas(p, d, i);
            break;
        case 1:
            cut_rows_or_cols(p, d, i, true);
            break;
        case 2:
            cut_rows_or_cols(p, d, i, false);
            break;
        case 3:
            cut_both(p, d, i);
            break;
        default:
            cut_flat(p, d, i);
        }
}

#endif
