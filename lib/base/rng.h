/*
 * rng.h - random numbers for the host: weights, shuffles, sampling.
 *
 * A stream is a 64-bit key; element i of a stream is a pure function of (key, i).
 */
#ifndef SN_RNG_H
#define SN_RNG_H

#include <stddef.h>
#include <stdint.h>

/* Key of the stream that belongs to a name, such as a tensor's.
 * FNV-1a, then mixed with the seed. */
uint64_t sn_rng_key(uint64_t seed, const char *name);
/* 64 random bits of element i. */
uint64_t sn_rng_bits(uint64_t key, uint64_t i);
/* Uniform in [0, 1), 53 bits. */
double sn_rng_uniform(uint64_t key, uint64_t i);
/* Standard normals of elements first .. first + n - 1 (Box-Muller;
 * element i depends on i alone). */
void sn_rng_normal(uint64_t key, uint64_t first, size_t n, float scale, float *out);
/* Position of element i under a pseudo-random permutation of 0 .. n-1, in constant memory: a
 * 4-round Feistel network over Philox on the smallest even-bit domain >= n, walked until inside
 * (cycle walking, Black & Rogaway 2002). n >= 1, i < n. */
uint64_t sn_rng_permute(uint64_t key, uint64_t n, uint64_t i);
/* 64-bit mixing of two words, for deriving keys. */
uint64_t sn_rng_mix(uint64_t a, uint64_t b);

#endif
