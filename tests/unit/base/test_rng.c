/*
 * Philox against its published vectors; permutations, normals and keys.
 */
#include "kernels/philox.h"
#include "lib/base/rng.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
static void philox_gives_the_published_vectors(void)
{
    static const struct {
        uint64_t key, hi, lo;
        uint32_t want[4];
    } kat[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822ull,
         0x0370734413198a2eull,
         0x85a308d3243f6a88ull,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        struct sn_philox r = sn_philox(kat[i].key, kat[i].hi, kat[i].lo);
        tap_ok(memcmp(r.v, kat[i].want, sizeof(r.v)) == 0,
               "Philox4x32-10 gives published vector %d", i);
    }
}

static void units_lie_in_the_half_open_interval(void)
{
    tap_ok(sn_philox_unit(0) == 0.0f && sn_philox_unit(~0u) < 1.0f, "24-bit units lie in [0, 1)");
    double least = 1.0, most = 0.0, sum = 0.0;
    enum { N = 100000 };
    for (uint64_t i = 0; i < N; i++) {
        double u = sn_rng_uniform(5, i);
        least = fmin(least, u);
        most = fmax(most, u);
        sum += u;
    }
    tap_ok(least >= 0.0 && least < 1e-3 && most < 1.0 && most > 0.999, "uniforms fill [0, 1)");
    tap_ok(fabs(sum / N - 0.5) < 5 * sqrt(1.0 / 12 / N), "uniforms have mean 1/2");
}

static void permutations_are_bijections(void)
{
    enum { MOST = 70000 };
    static unsigned char seen[MOST];
    static const uint64_t sizes[] = {1,    2,    3,     4,     5,     7,   15,  16,
                                     17,   63,   64,    65,    100,   255, 256, 1000,
                                     4096, 4097, 65535, 65536, 65537, MOST};
    bool good = true;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (uint64_t key = 1; key < 4; key++) {
            memset(seen, 0, sizeof(seen));
            for (uint64_t i = 0; i < sizes[s]; i++) {
                uint64_t j = sn_rng_permute(key, sizes[s], i);
                good = good && j < sizes[s] && !seen[j < MOST ? j : 0]++;
            }
        }
    tap_ok(good, "sn_rng_permute is a bijection for 1 .. %d elements and three keys", MOST);
}

static void permutations_shuffle(void)
{
    enum { N = 10000 };
    int fixed = 0, neighbours = 0, same = 0;
    for (uint64_t i = 0; i + 1 < N; i++) {
        uint64_t a = sn_rng_permute(8, N, i), b = sn_rng_permute(8, N, i + 1);
        fixed += a == i;
        neighbours += b == a + 1;
        same += a == sn_rng_permute(9, N, i);
    }
    tap_ok(fixed < 10 && neighbours < 10, "few elements stay or keep their neighbour (%d, %d)",
           fixed, neighbours);
    tap_ok(same < 10, "another key gives another permutation");
    uint64_t huge = (uint64_t)1 << 40;
    tap_ok(sn_rng_permute(8, huge, huge - 1) < huge, "a domain of 2^40 stays inside");
}

static void normals_have_the_right_moments(void)
{
    enum { N = 400000 };
    static float z[N];
    double m[5] = {0};
    long beyond = 0;
    sn_rng_normal(42, 0, N, 1.0f, z);
    for (int i = 0; i < N; i++) {
        double p = 1.0;
        for (int k = 1; k <= 4; k++)
            m[k] += (p *= (double)z[i]) / N;
        beyond += fabs((double)z[i]) > 1.959963985;
    }
    /* five standard errors of each moment of a normal: variances 1, 2, 15, 96 over N */
    tap_ok(fabs(m[1]) < 5 * sqrt(1.0 / N), "normals have mean 0 (%.2g)", m[1]);
    tap_ok(fabs(m[2] - 1) < 5 * sqrt(2.0 / N), "normals have variance 1 (off by %.2g)", m[2] - 1);
    tap_ok(fabs(m[3]) < 5 * sqrt(15.0 / N), "normals have skewness 0 (%.2g)", m[3]);
    tap_ok(fabs(m[4] - 3) < 5 * sqrt(96.0 / N), "normals have kurtosis 3 (off by %.2g)", m[4] - 3);
    tap_ok(fabs((double)beyond / N - 0.05) < 5 * sqrt(0.05 * 0.95 / N), "5 %% lie beyond 1.96");
    double lag = 0.0;
    for (int i = 0; i + 1 < N; i++)
        lag += (double)z[i] * (double)z[i + 1] / N;
    tap_ok(fabs(lag) < 5 * sqrt(1.0 / N), "neighbours are uncorrelated (%.2g)", lag);
}

static void normals_do_not_depend_on_how_ranges_are_cut(void)
{
    enum { N = 1000 };
    float whole[N], cut[N];
    bool good = true;
    sn_rng_normal(6, 13, N, 0.02f, whole);
    for (size_t step = 1; step < 12; step++) {
        memset(cut, 0, sizeof(cut));
        for (size_t i = 0; i < N; i += step)
            sn_rng_normal(6, 13 + i, N - i < step ? N - i : step, 0.02f, cut + i);
        good = good && memcmp(whole, cut, sizeof(cut)) == 0;
    }
    tap_ok(good, "normals do not depend on how ranges are cut");
    sn_rng_normal(6, 13, N, 0.04f, cut);
    for (int i = 0; i < N; i++)
        good = good && fabsf(cut[i] - 2 * whole[i]) <= 1e-8f;
    tap_ok(good, "the scale multiplies");
    sn_rng_normal(6, 13, 0, 1.0f, NULL);
    tap_ok(true, "no normals at all is fine");
}

static void keys_differ_by_seed_and_name(void)
{
    uint64_t a = sn_rng_key(1, "embed"), b = sn_rng_key(2, "embed"), c = sn_rng_key(1, "embee");
    tap_ok(a != b && a != c && b != c, "keys differ by seed and by name");
    tap_ok(a == sn_rng_key(1, "embed"), "a key is a function of its arguments");
    tap_ok(sn_rng_mix(1, 2) != sn_rng_mix(2, 1), "mixing is not symmetric");
    int ones = 0;
    for (uint64_t i = 0; i < 1000; i++)
        ones += __builtin_popcountll(sn_rng_bits(a, i));
    tap_ok(abs(ones - 32000) < 5 * 127, "half of the bits are set (%d of 64000)", ones);
}

int main(void)
{
    philox_gives_the_published_vectors();
    units_lie_in_the_half_open_interval();
    permutations_are_bijections();
    permutations_shuffle();
    normals_have_the_right_moments();
    normals_do_not_depend_on_how_ranges_are_cut();
    keys_differ_by_seed_and_name();
    return tap_done();
}
