/*
 * exact.h - sums whose bits do not depend on the order of their terms.
 *
 * A term is rounded to a whole multiple of a quantum q, a power of two that no layout changes; terms
 * are added in fp64. As long as the magnitudes of the terms add up to less than 2^53 q every partial
 * sum is a multiple of q that fp64 holds, so that every addition is exact, in whatever order and on
 * whichever rank (the pre-rounding of Demmel and Nguyen, "Fast Reproducible Floating-Point
 * Summation", 2013, with one fold). Beyond that a sum is rounded as fp64 rounds, and right.
 *
 *   round(x) = (x + M) - M,   M = 1.5 2^52 q:   the unit of the last place of x + M is q
 */
#ifndef SN_EXACT_H
#define SN_EXACT_H

#include "kernels/ops.h"

#include <math.h>

/* Exponents of q: of values; of gradients of rows, beside that of loss_scale / targets_in_step; of
 * gradients of weights, beside that of loss_scale; of the losses of rows. */
enum {
    SN_EXACT_OF_VALUES = -40,
    SN_EXACT_OF_ROWS = -40,
    SN_EXACT_OF_WEIGHTS = -46,
    SN_EXACT_OF_LOSSES = -26
};

/* M of the sums that an operation is to take; 0: they are in the order of the kernel. */
static inline double sn_exact_shift(enum sn_exact of, const struct sn_scalars *s)
{
    switch (of) {
    case SN_EXACT_VALUES:
        return ldexp(1.5, 52 + SN_EXACT_OF_VALUES);
    case SN_EXACT_ROWS:
        return ldexp(1.5,
                     52 + SN_EXACT_OF_ROWS + ilogb((double)s->loss_scale / s->targets_in_step));
    case SN_EXACT_WEIGHTS:
        return ldexp(1.5, 52 + SN_EXACT_OF_WEIGHTS + ilogb((double)s->loss_scale));
    case SN_EXACT_LOSSES:
        return ldexp(1.5, 52 + SN_EXACT_OF_LOSSES);
    default:
        return 0;
    }
}

static inline double sn_exact_round(double x, double shift)
{
    return (x + shift) - shift;
}

#endif
