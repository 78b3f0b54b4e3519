/* cuda_runtime.h - see tests/cuda_emul/emul.h. */
#ifndef SN_EMUL_RUNTIME_H
#define SN_EMUL_RUNTIME_H

#include <cuda_runtime_api.h>

#include <stdint.h>

/* Aligned as on a device, where an access at another address is a fault. */
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    uint4 v = {x, y, z, w};
    return v;
}
static inline float2 make_float2(float x, float y)
{
    float2 v = {x, y};
    return v;
}

#endif
