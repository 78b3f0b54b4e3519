/*
 * position.h - which position of which sample a row is, when a sequence is cut over ranks.
 *
 * A micro-batch is b samples of S tokens. With C context ranks each holds S / C positions of every
 * sample, so its matrices have b S / C rows, sample after sample. Which positions those are:
 *
 *   contiguous  rank k holds k S/C .. (k+1) S/C - 1
 *   zigzag      the sample is 2C chunks of S / (2C); rank k holds chunk k, then chunk 2C - 1 - k:
 *               every rank has the same causal work (Zhu, "ring flash attention"; Llama 3, 3.3.2)
 *
 * Both orders are increasing, so a mask by position is a mask by local row among rows of one rank.
 * row0 > 0: the matrix begins at that row of the rank's rows (sequence parallelism).
 */
#ifndef SN_POSITION_H
#define SN_POSITION_H

#include "kernels/both.h"
#include "kernels/ops.h"

/* Rows of one sample on one context rank. S is a multiple of C (2C for zigzag). */
SN_BOTH int64_t sn_rows_per_sample(const struct sn_position_attr *a)
{
    return a->context > 1 ? a->seq / a->context : a->seq;
}

/* Position, in its sample, of row i (0 .. S/C - 1) of a sample on context rank k. */
SN_BOTH int64_t sn_position(const struct sn_position_attr *a, int k, int64_t i)
{
    if (a->context <= 1)
        return i;
    int64_t rows = a->seq / a->context, chunk = rows / 2;
    if (!a->zigzag)
        return k * rows + i;
    return i < chunk ? k * chunk + i : (2 * a->context - 1 - k) * chunk + i - chunk;
}

/* The sample, inside the micro-batch, and the position of row r of a matrix of this rank. */
SN_BOTH int64_t sn_row_sample(const struct sn_position_attr *a, int64_t r)
{
    return (a->row0 + r) / sn_rows_per_sample(a);
}

SN_BOTH int64_t sn_row_position(const struct sn_position_attr *a, int64_t r)
{
    return sn_position(a, a->context_rank, (a->row0 + r) % sn_rows_per_sample(a));
}

/* The other way round: the first row at a position, were the matrix without end; others are
 * sn_rows_per_sample() apart. -1: no row of this rank has it. */
SN_BOTH int64_t sn_first_row_at(const struct sn_position_attr *a, int64_t position)
{
    int64_t rows = sn_rows_per_sample(a), i = position;
    if (position >= a->seq)
        return -1;
    if (a->context > 1) {
        int64_t chunk = a->zigzag ? rows / 2 : rows, k = position / chunk;
        bool late = a->zigzag && k >= a->context; /* the second chunk of a rank */
        if ((late ? 2 * a->context - 1 - k : k) != a->context_rank)
            return -1;
        i = position % chunk + (late ? chunk : 0);
    }
    int64_t passed = a->row0 > i ? (a->row0 - i + rows - 1) / rows : 0; /* samples before row0 */
    return i + passed * rows - a->row0;
}

/* Of a row at one of the positions that PROMPT fills, which of them; -1: it is at another. And its row of f. */
SN_BOTH int64_t sn_prompt_at(const struct sn_attr *a, int64_t r)
{
    int64_t i = sn_row_position(&a->position, r) - a->prompt.first;
    return i >= 0 && i < a->prompt.rows ? i : -1;
}
SN_BOTH int64_t sn_prompt_row(const struct sn_attr *a, int64_t r, int64_t i)
{
    const struct sn_prompt_attr *p = &a->prompt;
    return (sn_row_sample(&a->position, r) * p->levels + p->level) * p->rows + i;
}

/* DROPOUT, JITTER: which element of its sample (r, c) of x is. */
SN_BOTH int64_t sn_noise_element(const struct sn_attr *a, const struct sn_mat *x, int64_t r,
                                 int64_t c)
{
    int64_t width = a->random.width > 0 ? a->random.width : x->cols;
    return sn_row_position(&a->position, r) * width + a->random.col0 + c;
}

/* The other way round: which row position p of a sample is, where rank after rank has `rows` rows
 * and in each the sample begins at `first`. */
SN_BOTH int64_t sn_row_of(const struct sn_position_attr *a, int64_t p, int64_t rows, int64_t first)
{
    if (a->context <= 1)
        return first + p;
    int64_t part = a->seq / a->context, chunk = part / 2;
    if (!a->zigzag)
        return p / part * rows + first + p % part;
    int64_t q = p / chunk, back = 2 * a->context - 1 - q;
    return q < a->context ? q * rows + first + p % chunk : back * rows + first + chunk + p % chunk;
}

#endif
