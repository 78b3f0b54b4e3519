/*
 * half.h - bf16 and fp16 to and from fp32, in plain C: on every machine the same bits.
 */
#ifndef SN_HALF_H
#define SN_HALF_H

#include "kernels/both.h"

#include <stdint.h>
#include <string.h>

SN_BOTH float sn_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Round to nearest even; NaN stays NaN. */
SN_BOTH uint16_t sn_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t quiet = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* fp16 by bit arithmetic that vectorises; round to nearest even, denormals and infinities kept. */
SN_BOTH float sn_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t mag = (uint32_t)(h & 0x7fffu) << 13;
    float f;
    memcpy(&f, &mag, 4);
    f *= 0x1p112f; /* exponent bias 15 -> 127; denormals come out right */
    uint32_t u;
    memcpy(&u, &f, 4);
    u = (h & 0x7c00u) == 0x7c00u ? mag | 0x7f800000u : u;
    u |= sign;
    memcpy(&f, &u, 4);
    return f;
}

SN_BOTH uint16_t sn_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    /* normal results: rebias the exponent and round to even on bit 13 */
    uint32_t normal = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
    /* denormal results: let the FPU align and round, by adding 0.5 */
    float mag;
    memcpy(&mag, &u, 4);
    float aligned = mag + 0.5f;
    uint32_t denormal;
    memcpy(&denormal, &aligned, 4);
    denormal -= 0x3f000000u;
    uint32_t h = u < 0x38800000u ? denormal : normal;
    h = u >= 0x477ff000u ? 0x7c00u : h; /* overflow and infinity */
    h = u > 0x7f800000u ? 0x7e00u : h;  /* NaN */
    return (uint16_t)(h | sign);
}

#endif
