#include "checkpoint/io/numbers.h"

#include "kernels/half.h"

#include <string.h>

enum { PART = 1024 }; /* values that are looked at together: searching one by one is for a find */
static const uint32_t exponent = 0x7f800000u; /* all ones in what is no number */

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u & 0x7fffffffu;
}

int64_t sn_find_nonfinite(const float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        uint32_t any = 0;
        for (int64_t k = 0; k < m; k++)
            any |= (bits_of(p[i + k]) & exponent) == exponent;
        for (int64_t k = 0; k < m && any; k++)
            if (bits_of(p[i + k]) >= exponent)
                return i + k;
    }
    return -1;
}

static void round_part(uint16_t *half, const float *p, int64_t n, enum sn_dtype dtype)
{
    if (dtype == SN_BF16)
        for (int64_t k = 0; k < n; k++)
            half[k] = sn_f32_to_bf16(p[k]);
    else
        for (int64_t k = 0; k < n; k++)
            half[k] = sn_f32_to_f16(p[k]);
}

/* Was it finite, and is no longer? */
static bool is_lost(uint16_t half, float f, enum sn_dtype dtype)
{
    return (half & 0x7fff) == (dtype == SN_BF16 ? 0x7f80 : 0x7c00) && bits_of(f) < exponent;
}

bool sn_narrow(uint16_t *out, const float *p, int64_t n, enum sn_dtype dtype, float *lost)
{
    uint16_t half[PART];
    bool fits = true;
    for (int64_t i = 0; i < n; i += PART) {
        int64_t m = n - i < PART ? n - i : PART;
        int count = 0;
        round_part(half, p + i, m, dtype);
        for (int64_t k = 0; k < m; k++)
            count += is_lost(half[k], p[i + k], dtype);
        for (int64_t k = 0; k < m && count > 0 && fits; k++)
            if (is_lost(half[k], p[i + k], dtype)) {
                *lost = p[i + k];
                fits = false;
            }
        memcpy(out + i, half, (size_t)m * sizeof(*half)); /* behind what is read next */
    }
    return fits;
}

enum sn_status sn_narrow_fail(const char *where, const char *tensor, enum sn_dtype dtype,
                              float lost, struct sn_err *err)
{
    return sn_fail(err, SN_EINPUT, "%s: tensor '%s' has a value (%g) too large for %s; use %s",
                   where, tensor, (double)lost, sn_dtype_name(dtype),
                   dtype == SN_F16 ? "bf16 or fp32" : "fp32");
}
