/*
 * wgmma_descriptor.h - the 64 bits that tell a warpgroup product where a tile lies in shared memory
 * (PTX ISA, 9.7.15.5.1.2), for tiles as wgmma.cuh has them. Plain C: the emulation reads what the
 * kernels write.
 */
#ifndef SN_CUDA_WGMMA_DESCRIPTOR_H
#define SN_CUDA_WGMMA_DESCRIPTOR_H

#include "kernels/both.h"

#include <stdint.h>

/* Bytes: the address in shared memory, from 8 rows to the next 8, from 64 columns to the next. In
 * the descriptor they are pieces of 16; 1 in the highest two bits is the 128-byte swizzle. */
SN_BOTH uint64_t sn_wgmma_bits(uint64_t address, int rows8, int columns64)
{
    return (address & 0x3ffff) >> 4 | (uint64_t)(columns64 >> 4) << 16 |
           (uint64_t)(rows8 >> 4) << 32 | (uint64_t)1 << 62;
}

#endif
