/*
 * dropout_row.h - the factors of kernels/dropout.h for a row of elements, in vectors.
 *
 * Philox works on 64-bit lanes that hold 32-bit words: a product then needs no shuffles, which
 * costs two thirds of what the words of philox.h cost a vector unit. The tests compare with those.
 */
#ifndef SN_DROPOUT_ROW_H
#define SN_DROPOUT_ROW_H

#include "kernels/dropout.h"

enum {
    SN_DROP_MOST = 1024,                   /* elements of a row at a time */
    SN_DROP_GROUPS = SN_DROP_MOST / 4 + 1, /* a row may begin inside a group of four */
    SN_DROP_ROOM = 4 * SN_DROP_GROUPS
};

struct sn_dropout_mask {
    uint64_t key;
    uint32_t site;
    float drop, scale; /* scale = 1 / (1 - drop) */
};

static inline struct sn_philox sn_philox_lanes(const struct sn_dropout_mask *m, int64_t sample,
                                               uint64_t group)
{
    const uint64_t low = 0xffffffffu;
    uint64_t c0 = group & low, c1 = group >> 32, c2 = (uint64_t)sample & low, c3 = m->site;
    uint64_t k0 = m->key & low, k1 = m->key >> 32;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53u * c0, p1 = 0xCD9E8D57u * c2;
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1 & low;
        c3 = p0 & low;
        k0 = (k0 + 0x9E3779B9u) & low;
        k1 = (k1 + 0xBB67AE85u) & low;
    }
    return (struct sn_philox){{(uint32_t)c0, (uint32_t)c1, (uint32_t)c2, (uint32_t)c3}};
}

/* Factors of elements first .. first + n - 1 of a sample, n <= SN_DROP_MOST: returns where in
 * `room` they start. */
static inline const float *sn_dropout_row(const struct sn_dropout_mask *m, int64_t sample,
                                          int64_t first, int64_t n, float room[SN_DROP_ROOM])
{
    uint32_t words[4][SN_DROP_GROUPS];
    int64_t group = first / 4, groups = (first + n + 3) / 4 - group;
#pragma omp simd
    for (int64_t j = 0; j < groups; j++) {
        struct sn_philox w = sn_philox_lanes(m, sample, (uint64_t)(group + j));
        words[0][j] = w.v[0];
        words[1][j] = w.v[1];
        words[2][j] = w.v[2];
        words[3][j] = w.v[3];
    }
#pragma omp simd
    for (int64_t j = 0; j < groups; j++) {
        room[4 * j] = sn_dropout_factor(words[0][j], m->drop, m->scale);
        room[4 * j + 1] = sn_dropout_factor(words[1][j], m->drop, m->scale);
        room[4 * j + 2] = sn_dropout_factor(words[2][j], m->drop, m->scale);
        room[4 * j + 3] = sn_dropout_factor(words[3][j], m->drop, m->scale);
    }
    return room + first % 4;
}

#endif
