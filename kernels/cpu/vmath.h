/*
 * vmath.h - exp, log, tanh and erf of floats as branch-free polynomials that the compiler
 * vectorises inside `#pragma omp simd` loops, on every instruction set.
 *
 * Errors (tests/unit/kernels/test_vmath.c, floats of every exponent): within 2 ulp. NaN in gives NaN out.
 * A result of exp below the smallest normal float is 0 (denormals cost 100 cycles each).
 * Polynomials: weighted minimax fits made for this file; range reduction after Cody and Waite.
 */
#ifndef SN_VMATH_H
#define SN_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t sn_float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float sn_bits_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* e^x: x = n ln2 + r, |r| <= ln2/2. 0 below -87.33, infinity above 88.7228. */
static inline float sn_expf(float x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, left in the low bits */
    float t = x * 0x1.715476p0f + shift;
    float n = t - shift;
    float r = x - n * 0x1.62e400p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 0.001395164951f;
    p = p * r + 0.008369597815f;
    p = p * r + 0.04166618876f;
    p = p * r + 0.1666651286f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    p = sn_bits_float(sn_float_bits(p) + (sn_float_bits(t) << 23)); /* p 2^n */
    p = x >= -87.33f ? p : 0.0f;
    return x <= 88.72283f ? p : x + INFINITY; /* NaN too comes here */
}

/*
 * The same for x <= 88 (a maximum was subtracted), a quarter cheaper: 2^n is a float of its own, so
 * e^x = (e^r - 1) 2^n + 2^n is one multiply-add, and NaN needs no care.
 */
static inline float sn_expf_low(float x)
{
    const float shift = 0x1.8p23f;
    float t = x * 0x1.715476p0f + shift;
    float n = t - shift;
    float r = x - n * 0x1.62e400p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 0.001395164951f;
    p = p * r + 0.008369597815f;
    p = p * r + 0.04166618876f;
    p = p * r + 0.1666651286f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    float power = sn_bits_float((sn_float_bits(t) << 23) + 0x3f800000u);
    p = p * power + power;
    return x < -87.33f ? 0.0f : p;
}

/* ln x: x = 2^n m, m in [sqrt(1/2), sqrt 2). -infinity for 0, NaN below. */
static inline float sn_logf(float x)
{
    float scaled = x < 0x1p-126f ? x * 0x1p24f : x; /* denormals */
    float bias = x < 0x1p-126f ? -24.0f : 0.0f;
    uint32_t u = sn_float_bits(scaled) - 0x3f3504f3u; /* bits of sqrt(1/2) */
    float n = (float)((int32_t)u >> 23) + bias;
    float r = sn_bits_float((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = 0.0674697777f;
    p = p * r - 0.1167605141f;
    p = p * r + 0.1188821015f;
    p = p * r - 0.1240551058f;
    p = p * r + 0.1421953372f;
    p = p * r - 0.1666800052f;
    p = p * r + 0.2000211989f;
    p = p * r - 0.2500000951f;
    p = p * r + 0.3333331259f;
    float r2 = r * r;
    p = p * r * r2 + n * 0x1.7f7d1cp-20f;
    p = p - 0.5f * r2;
    p = (p + r) + n * 0x1.62e400p-1f;
    p = x == 0.0f ? -INFINITY : p;
    p = x < 0.0f ? NAN : p;
    return x < INFINITY ? p : x; /* infinity and NaN */
}

/* tanh x: a polynomial below 0.625, 1 - 2 / (e^2x + 1) above. */
static inline float sn_tanhf(float x)
{
    float t = fabsf(x);
    float z = x * x;
    float p = -0.0057050386f;
    p = p * z + 0.02063911923f;
    p = p * z - 0.05373971708f;
    p = p * z + 0.1333144204f;
    p = p * z - 0.3333328192f;
    p = p * z * x + x;
    float e = sn_expf(t + t);
    float q = copysignf(1.0f - 2.0f / (e + 1.0f), x);
    return t < 0.625f ? p : q;
}

/* erf x: x + x P(x^2) below 0.92, 1 - e^Q(x) above, where Q fits ln erfc. */
static inline float sn_erff(float x)
{
    float t = fabsf(x);
    float z = x * x;
    float p = -0.0005953726106f;
    p = p * z + 0.00498593695f;
    p = p * z - 0.02676171695f;
    p = p * z + 0.1128168245f;
    p = p * z - 0.3761248109f;
    p = p * z + 0.1283791477f;
    p = p * x + x;
    float c = t > 4.0f ? 4.0f : t; /* erf(4) rounds to 1; NaN stays */
    float q = -2.109963601e-5f;
    q = q * c + 0.000434511232f;
    q = q * c - 0.004171276965f;
    q = q * c + 0.02511993429f;
    q = q * c - 0.1082807885f;
    q = q * c - 0.6333463443f;
    q = q * c - 1.129515175f;
    q = q * c + 0.0001747288252f;
    q = copysignf(1.0f - sn_expf(q), x);
    return t < 0.92f ? p : q;
}

#endif
