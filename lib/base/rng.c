#include "lib/base/rng.h"

#include "kernels/philox.h"

#include <math.h>

uint64_t sn_rng_mix(uint64_t a, uint64_t b)
{
    struct sn_philox r = sn_philox(a, b, 0x736e6e6974ull);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

uint64_t sn_rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
    return sn_rng_mix(seed, h);
}

uint64_t sn_rng_bits(uint64_t key, uint64_t i)
{
    struct sn_philox r = sn_philox(key, 0, i);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

double sn_rng_uniform(uint64_t key, uint64_t i)
{
    return (double)(sn_rng_bits(key, i) >> 11) * 0x1p-53;
}

void sn_rng_normal(uint64_t key, uint64_t first, size_t n, float scale, float *out)
{
    /* One Philox block makes two pairs of uniforms, so elements 4j .. 4j+3 share counter j. */
    for (size_t k = 0; k < n;) {
        uint64_t i = first + k;
        struct sn_philox r = sn_philox(key, 1, i / 4);
        double z[4];
        for (int pair = 0; pair < 2; pair++) {
            double u = ((double)r.v[2 * pair] + 0.5) * 0x1p-32; /* in (0, 1): the log is finite */
            double angle = 6.283185307179586 * ((double)r.v[2 * pair + 1] * 0x1p-32);
            double radius = sqrt(-2.0 * log(u));
            z[2 * pair] = radius * cos(angle);
            z[2 * pair + 1] = radius * sin(angle);
        }
        for (uint64_t lane = i % 4; lane < 4 && k < n; lane++, k++)
            out[k] = (float)(z[lane] * (double)scale);
    }
}

static uint64_t feistel(uint64_t key, unsigned half_bits, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < 4; round++) {
        struct sn_philox r = sn_philox(key, 2 + round, right);
        uint64_t f = ((uint64_t)r.v[1] << 32 | r.v[0]) & mask;
        uint64_t next = left ^ f;
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t sn_rng_permute(uint64_t key, uint64_t n, uint64_t i)
{
    unsigned half_bits = 1;
    while (half_bits < 32 && ((uint64_t)1 << (2 * half_bits)) < n)
        half_bits++;
    do
        i = feistel(key, half_bits, i);
    while (i >= n);
    return i;
}
