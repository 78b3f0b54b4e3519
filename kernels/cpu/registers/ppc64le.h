/*
 * ppc64le.h - vector registers of POWER: 64 of 16 bytes (VSX).
 *
 * VSX has two multiply-adds: one overwrites the sum, the other a factor. gcc 12 takes the latter
 * for a third of a tile's and then copies sums from register to register, up to 18 copies a step.
 * So the instruction is named.
 */
#ifndef SN_REGISTERS_PPC64LE_H
#define SN_REGISTERS_PPC64LE_H

enum { SN_REGISTERS = 64 };

#define SN_ADD_PRODUCT(sum, x, y) __asm__("xvmaddasp %x0,%x1,%x2" : "+wa"(sum) : "wa"(x), "wa"(y))

#endif
