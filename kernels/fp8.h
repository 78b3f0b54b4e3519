/*
 * fp8.h - 8-bit floats: rounding to them and back, in plain C, the same bits on every processor.
 *
 * Formats of Micikevicius et al., "FP8 formats for deep learning" (2022), table 1, as PyTorch's
 * float8_e4m3fn and float8_e5m2 have them (tests/parity/fixtures/fp8): e4m3 has no infinity and
 * reaches 448, e5m2 is fp16 cut short and reaches 57344. Rounding is to nearest, ties to even. What
 * rounds to more than the largest value is NaN in e4m3 and infinity in e5m2, so that it is noticed
 * (PyTorch has had this and, in 2.15, 448 in e4m3); with a tensor's scale nothing finite
 * does.
 */
#ifndef SN_FP8_H
#define SN_FP8_H

#include "kernels/both.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum sn_fp8_format { SN_E4M3, SN_E5M2 };

SN_BOTH float sn_fp8_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

SN_BOTH uint8_t sn_f32_to_fp8(float x, enum sn_fp8_format t)
{
    uint32_t u, over = t == SN_E4M3 ? 0x7fu : 0x7cu;
    int cut = t == SN_E4M3 ? 20 : 21; /* bits of fp32's mantissa that go */
    memcpy(&u, &x, 4);
    uint32_t sign = u >> 24 & 0x80u;
    u &= 0x7fffffffu;
    /* normal results: rebias the exponent and round to even on the last bit kept */
    uint32_t bias = t == SN_E4M3 ? 120u << 23 : 112u << 23;
    uint32_t code = (u - bias + (1u << (cut - 1)) - 1 + (u >> cut & 1u)) >> cut;
    /* denormal results: an addition aligns and rounds; the sum's unit is the smallest value */
    uint32_t magic = t == SN_E4M3 ? 0x46800000u /* 2^14 */ : 0x43000000u /* 2^7 */;
    if (u < (t == SN_E4M3 ? 121u << 23 : 113u << 23)) {
        float sum = sn_fp8_bits(u) + sn_fp8_bits(magic);
        memcpy(&code, &sum, 4);
        code -= magic;
    }
    if (code > over || u >= 0x7f800000u)
        code = over;
    if (u > 0x7f800000u) /* NaN */
        code = 0x7fu;
    return (uint8_t)(code | sign);
}

SN_BOTH float sn_fp8_to_f32(uint8_t c, enum sn_fp8_format t)
{
    uint32_t sign = (uint32_t)(c & 0x80u) << 24, mag = c & 0x7fu, u;
    bool is_special = t == SN_E4M3 ? mag == 0x7fu : mag >= 0x7cu;
    float f = t == SN_E4M3 ? sn_fp8_bits(mag << 20) * 0x1p120f : sn_fp8_bits(mag << 21) * 0x1p112f;
    memcpy(&u, &f, 4);
    if (is_special)
        u = mag == 0x7cu ? 0x7f800000u : 0x7fc00000u;
    return sn_fp8_bits(u | sign);
}

/*
 * The power of two that a tensor is multiplied with before it is rounded: the largest e for which
 * amax 2^e is within the format (1.75 2^8 and 1.75 2^15), at most 100. `amax`: the bits of the
 * largest magnitude, with NaN above all; 0 and what is not finite give 0.
 */
SN_BOTH int sn_fp8_exponent(uint32_t amax, enum sn_fp8_format t)
{
    int p = (int)(amax >> 23) - 127, e = (t == SN_E4M3 ? 8 : 15) - p;
    if (amax == 0 || amax >= 0x7f800000u)
        return 0;
    e -= (amax & 0x7fffffu) > 0x600000u;
    return e > 100 ? 100 : e;
}

SN_BOTH float sn_power_of_two(int e) /* -126 .. 127 */
{
    return sn_fp8_bits((uint32_t)(e + 127) << 23);
}

/* x as the nearest value of the tensor's format: exact in bf16. */
SN_BOTH float sn_fp8_round(float x, int e, enum sn_fp8_format t)
{
    return sn_fp8_to_f32(sn_f32_to_fp8(x * sn_power_of_two(e), t), t) * sn_power_of_two(-e);
}

/*
 * Which elements of a GEMM's operand share a scale, as the operand lies in memory: parts of rows x
 * cols, 0: all. Parts begin at the operand's first element, so operands that are cut at multiples
 * of 128 have the same parts as the whole. Blocks and lines are those of DeepSeek-V3 (2024, section
 * 3.3.2): weights in blocks, so that forward and backward multiply the same values; activations and
 * gradients in lines along the depth of each product.
 */
enum { SN_FP8_PART = 128 };

struct sn_fp8_parts {
    enum sn_fp8_format format;
    int rows, cols;
};

/* `turned`: the operand's rows in memory are the depth. */
SN_BOTH struct sn_fp8_parts sn_fp8_parts_of(enum sn_fp8 how, int operand, bool turned)
{
    struct sn_fp8_parts p = {SN_E4M3, 0, 0};
    if (how == SN_FP8_BACKWARD && operand == 0)
        p.format = SN_E5M2;
    if (how != SN_FP8_BLOCKS && how != SN_FP8_LINES)
        return p;
    bool block = how == SN_FP8_BLOCKS && operand == 1;
    p.rows = block || turned ? SN_FP8_PART : 1;
    p.cols = block || !turned ? SN_FP8_PART : 1;
    return p;
}

#endif
