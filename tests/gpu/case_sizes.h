/*
 * case_sizes.h - sizes, type and integers of the cases of test_kernels_cuda; for its files alone.
 */
#ifndef CASE_SIZES_H
#define CASE_SIZES_H

#include "tests/gpu/other_table.h"
#include "tests/lib/kernel_test.h"

static int64_t divisor = 1;
static enum sn_dtype type;

static int64_t size(int64_t n, int64_t least)
{
    int64_t s = n / divisor / least * least;
    return s < least ? least : s;
}

static struct kt_shape shape(enum sn_dtype t, int64_t rows, int64_t cols)
{
    return (struct kt_shape){t, rows, cols, 0};
}

/* Integers below n, the same ones each time. */
static void put_integers(struct kt *k, int slot, int64_t rows, int64_t cols, int64_t n)
{
    struct sn_mat *m = kt_new(k, slot, shape(SN_I32, rows, cols));
    for (int64_t i = 0; i < rows * cols; i++)
        kt_set(m, i / cols, i % cols, (double)((i * 7919 + i / 13) % n));
}

#endif
