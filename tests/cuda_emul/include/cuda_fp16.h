/* cuda_fp16.h - see tests/cuda_emul/emul.h. */
#ifndef SN_EMUL_FP16_H
#define SN_EMUL_FP16_H

#include "kernels/half.h"

struct __half {
    uint16_t bits;
};
static inline float __half2float(__half h)
{
    return sn_f16_to_f32(h.bits);
}
static inline __half __float2half_rn(float f)
{
    __half h = {sn_f32_to_f16(f)};
    return h;
}

#endif
