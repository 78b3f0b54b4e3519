/*
 * nf4.h - NormalFloat of 4 bits (Dettmers et al., "QLoRA", arXiv 2305.14314, 3, and appendix E): sixteen
 * levels in [-1, 1] that as many normals lie next to each, with 0 among them. The same bits on every
 * processor.
 */
#ifndef SN_NF4_H
#define SN_NF4_H

#include "kernels/both.h"

#include <stdint.h>

/* clang-format off */
#define SN_NF4_LEVELS                                                                              \
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,                      \
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,                     \
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,        \
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f
/* clang-format on */
enum { SN_NF4_ZERO = 7 }; /* the code of 0 */

SN_BOTH float sn_nf4_level(int code)
{
    const float level[16] = {SN_NF4_LEVELS};
    return level[code & 15];
}

/* The nearest level; in the middle of two the lower one. */
SN_BOTH uint8_t sn_nf4_code(float x)
{
    const float level[16] = {SN_NF4_LEVELS};
    int code = 0;
    for (int k = 0; k < 15; k++)
        code += x > 0.5f * (level[k] + level[k + 1]);
    return (uint8_t)code;
}

#endif
