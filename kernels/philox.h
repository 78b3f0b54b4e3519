/*
 * philox.h - the Philox4x32-10 counter-based generator (Salmon et al., SC'11).
 *
 * 128 random bits are a pure function of (key, counter): no state, so every layout draws the same
 * numbers. Shared by CPU and CUDA code.
 */
#ifndef SN_PHILOX_H
#define SN_PHILOX_H

#include "kernels/both.h"

#include <stdint.h>

struct sn_philox {
    uint32_t v[4];
};

SN_BOTH struct sn_philox sn_philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo)
{
    uint32_t c0 = (uint32_t)counter_lo, c1 = (uint32_t)(counter_lo >> 32);
    uint32_t c2 = (uint32_t)counter_hi, c3 = (uint32_t)(counter_hi >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct sn_philox r = {{c0, c1, c2, c3}};
    return r;
}

/* 24 random bits to a float in [0, 1). */
SN_BOTH float sn_philox_unit(uint32_t bits)
{
    return (float)(bits >> 8) * (1.0f / 16777216.0f);
}

#endif
