/* cuda_bf16.h - see tests/cuda_emul/emul.h. */
#ifndef SN_EMUL_BF16_H
#define SN_EMUL_BF16_H

#include "kernels/half.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
static inline float __bfloat162float(__nv_bfloat16 h)
{
    return sn_bf16_to_f32(h.bits);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    __nv_bfloat16 h = {sn_f32_to_bf16(f)};
    return h;
}

#endif
