/*
 * dice.h - random numbers for tests: the same in every run, named by a key.
 */
#ifndef DICE_H
#define DICE_H

#include "lib/base/rng.h"

/* Random numbers of one test, in order. */
struct dice {
    uint64_t key, i;
};

__attribute__((unused)) static int64_t roll(struct dice *d, int64_t n)
{
    return (int64_t)(sn_rng_bits(d->key, d->i++) % (uint64_t)n);
}

#endif
