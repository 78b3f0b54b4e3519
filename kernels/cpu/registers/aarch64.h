/*
 * aarch64.h - vector registers of 64-bit Arm: 32 of 16 bytes (NEON).
 */
#ifndef SN_REGISTERS_AARCH64_H
#define SN_REGISTERS_AARCH64_H

enum { SN_REGISTERS = 32 };

#define SN_ADD_PRODUCT(sum, x, y) ((sum) += (x) * (y))

#endif
