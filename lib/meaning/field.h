/*
 * field.h - arithmetic modulo the prime 2^61 - 1, and numbers that stand for names.
 *
 * Values of a proof (meaning.h) are elements of this field. Two expressions that differ have the
 * same value with a probability of about their degree over 2^61 (Schwartz 1980; Zippel 1979).
 */
#ifndef SN_FIELD_H
#define SN_FIELD_H

#include <stdint.h>

#define SN_FIELD_PRIME ((UINT64_C(1) << 61) - 1)

static inline uint64_t sn_field_add(uint64_t a, uint64_t b)
{
    uint64_t s = a + b;
    return s >= SN_FIELD_PRIME ? s - SN_FIELD_PRIME : s;
}

static inline uint64_t sn_field_sub(uint64_t a, uint64_t b)
{
    return a >= b ? a - b : a + SN_FIELD_PRIME - b;
}

static inline uint64_t sn_field_mul(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide x = (wide)a * b;
    return sn_field_add((uint64_t)(x & SN_FIELD_PRIME), (uint64_t)(x >> 61));
}

/* 1 / a; a is not 0. */
static inline uint64_t sn_field_inverse(uint64_t a)
{
    uint64_t r = 1;
    for (uint64_t e = SN_FIELD_PRIME - 2; e > 0; e >>= 1) {
        if (e & 1)
            r = sn_field_mul(r, a);
        a = sn_field_mul(a, a);
    }
    return r;
}

/* Mixes b into a (splitmix64, Steele et al. 2014). */
static inline uint64_t sn_field_mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b + UINT64_C(0x632be59bd9b4e019);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* An element that stands for a name: any but 0. */
static inline uint64_t sn_field_of(uint64_t name)
{
    return sn_field_mix(name, 1) % (SN_FIELD_PRIME - 1) + 1;
}

#endif
