/*
 * other.h - vector registers of x86-64, and of what has no file of its own: 32 with AVX-512,
 * else 16.
 */
#ifndef SN_REGISTERS_OTHER_H
#define SN_REGISTERS_OTHER_H

enum { SN_REGISTERS = __BIGGEST_ALIGNMENT__ == 64 ? 32 : 16 };

#define SN_ADD_PRODUCT(sum, x, y) ((sum) += (x) * (y))

#endif
