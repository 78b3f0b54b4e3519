/*
 * hash.h - the checksum of checkpoints and of state that ranks compare: XXH3, 64 bits.
 *
 * It finds accidents (a flipped bit, a torn write), not attackers. The value of given bytes never
 * changes between versions or machines: XXH3 is frozen since xxHash 0.8.0.
 */
#ifndef SN_HASH_H
#define SN_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t sn_hash64(const void *p, size_t bytes);
/* 128 bits of it: for telling contents apart where there are very many. */
void sn_hash128(const void *p, size_t bytes, uint64_t out[2]);
/* Of a matrix whose rows begin ld floats apart: as sn_hash64 of its rows without the gaps. */
uint64_t sn_hash64_rows(const float *p, int64_t rows, int64_t cols, int64_t ld);
/* sn_hash64 of the first `bytes` of an open file. False when they cannot be read, with errno; 0:
 * the file ends before. */
bool sn_hash64_file(int fd, uint64_t bytes, uint64_t *out);

#endif
