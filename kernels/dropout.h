/*
 * dropout.h - which elements a DROPOUT (or the dropout inside ATTENTION) keeps, and what a JITTER
 * multiplies by: the specification, shared by CPU and CUDA code.
 *
 * Element e of global sample n at random site s, in step t of a run with a seed:
 *
 *   key  = first 64 bits of philox(key = seed, counter = (t, "drop"))
 *   bits = word e % 4 of philox(key, counter = (s << 32 | n mod 2^32, e / 4))
 *   kept iff (bits >> 8) 2^-24 >= drop; a kept value is multiplied by 1 / (1 - drop)
 *
 * For DROPOUT of x[T,D], row r has a sample and a position (kernels/position.h): n = first_sample +
 * sample, e = position D + c. For ATTENTION, e = (head S + query position) S + key position, with
 * the head's number in the whole model. No rank, layout or launch shape enters.
 *
 * A JITTER has the key of (t, "jitr"), and the factor 1 - jitter + 2 jitter (bits >> 8) 2^-24.
 */
#ifndef SN_DROPOUT_H
#define SN_DROPOUT_H

#include "kernels/ops.h"
#include "kernels/philox.h"

SN_BOTH uint64_t sn_noise_key(uint64_t seed, int64_t step, uint32_t tag)
{
    struct sn_philox r = sn_philox(seed, (uint64_t)step, tag);
    return (uint64_t)r.v[1] << 32 | r.v[0];
}

SN_BOTH uint64_t sn_dropout_key(uint64_t seed, int64_t step)
{
    return sn_noise_key(seed, step, 0x64726f70u);
}

/* Random words of elements 4 group .. 4 group + 3. */
SN_BOTH struct sn_philox sn_dropout_words(uint64_t key, uint32_t site, int64_t sample,
                                          int64_t group)
{
    return sn_philox(key, (uint64_t)site << 32 | (uint32_t)sample, (uint64_t)group);
}

SN_BOTH float sn_dropout_factor(uint32_t word, float drop, float scale)
{
    return sn_philox_unit(word) >= drop ? scale : 0.0f;
}

/* What a DROPOUT or, where jitter is more than 0, a JITTER draws factors with. */
struct sn_noise {
    uint64_t key;
    float drop, scale;
    float least, width; /* width 0: a DROPOUT */
};

SN_BOTH struct sn_noise sn_noise_of(const struct sn_attr *a, const struct sn_scalars *s)
{
    bool jitters = a->random.jitter > 0;
    struct sn_noise n = {jitters ? sn_noise_key(s->seed, s->step, 0x6a697472u)
                                 : sn_dropout_key(s->seed, s->step),
                         a->random.drop, 1.0f / (1.0f - a->random.drop), 1.0f - a->random.jitter,
                         2.0f * a->random.jitter};
    return n;
}

SN_BOTH float sn_noise_factor(uint32_t word, const struct sn_noise *n)
{
    return n->width > 0 ? n->least + n->width * sn_philox_unit(word)
                        : sn_dropout_factor(word, n->drop, n->scale);
}

#endif
