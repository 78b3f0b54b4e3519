/*
 * round.h - sizes in whole units, of kernels and of those who plan them.
 */
#ifndef SN_ROUND_H
#define SN_ROUND_H

#include <stdint.h>

/* The least multiple of `to` (at least 1) that is not below n (at least 0). */
static inline int64_t sn_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
