/*
 * codec_int.c - int8, int4 and nf4: 128 values share a scale, the largest magnitude over the largest
 * code (symmetric: zero stays zero; nf4: over 1, and codes are of levels). Block quantisation as
 * ZeRO++ (arXiv 2306.10209) and SDP4Bit (arXiv 2410.15526) use it; the Hadamard transform, whose rows spread one large value over 32, and
 * stochastic rounding as in the latter. kernels/codec.h is the contract.
 */
#include "kernels/cpu/codec_inner.h"
#include "kernels/nf4.h"
#include "kernels/philox.h"

enum { BLOCK = SN_CODEC_BLOCK, LANES = 16 /* see struct sn_codec_draw */ };

/* Adding it rounds to an integer, to even in the middle, and leaves it in the low bits. */
static const float SHIFT = 0x1.8p23f;

static int top_code(const struct sn_codec *c)
{
    return c->kind == SN_CODEC_INT8 ? 127 : c->kind == SN_CODEC_INT4 ? 7 : 1;
}

/* --- H, in place, 32 values after 32: its own inverse but for 32 ------------------------------ */

static inline __attribute__((always_inline)) void stage(float *x, int h)
{
    for (int i = 0; i < BLOCK; i += 2 * h)
        for (int j = i; j < i + h; j++) {
            float a = x[j], b = x[j + h];
            x[j] = a + b;
            x[j + h] = a - b;
        }
}

static void rotate(float x[BLOCK])
{
    stage(x, 1);
    stage(x, 2);
    stage(x, 4);
    stage(x, 8);
    stage(x, 16);
}

/* Codes that m values have: whole transforms. */
static int codes_of(const struct sn_codec *c, int m)
{
    enum { POINTS = SN_CODEC_ROTATED };
    return c->hadamard ? (m + POINTS - 1) / POINTS * POINTS : m;
}

/* --- values to codes -------------------------------------------------------------------------- */

/* u of every value of block b. */
static void draw_block(const struct sn_codec_draw *draw, int64_t b, float u[BLOCK])
{
#pragma omp simd
    for (int g = 0; g < LANES; g++) {
        struct sn_philox w = sn_philox(draw->key, draw->message, (uint64_t)b * LANES + (uint64_t)g);
        for (int p = 0; p < 8; p++) {
            uint32_t half = w.v[p / 2] >> 16 * (p % 2) & 0xffffu;
            u[p * LANES + g] = ((float)(int32_t)half + 0.5f) * 0x1p-16f;
        }
    }
}

static inline float clamped(float v, float top)
{
    v = v > top ? top : v;
    return v < -top ? -top : v;
}

static void to_nearest(const float *x, float inverse, float top, uint8_t code[BLOCK])
{
#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        code[i] = (uint8_t)sn_float_bits(clamped(x[i] * inverse, top) + SHIFT);
}

static void to_either(const float *x, float inverse, float top, const float *u, uint8_t code[BLOCK])
{
#pragma omp simd
    for (int i = 0; i < BLOCK; i++) {
        float v = clamped(x[i] * inverse, top) + u[i];
        int32_t low = (int32_t)v; /* towards zero */
        low -= (float)low > v;
        code[i] = (uint8_t)low;
    }
}

static void to_levels(const float *x, float inverse, uint8_t code[BLOCK])
{
#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        code[i] = sn_nf4_code(x[i] * inverse);
}

/* max|x| / top, such that top times it is finite; 0 for what is too small to be told from zero. */
static uint32_t scale_of(int32_t most, float top)
{
    if (most >= 0x7f800000)
        return SN_NO_SCALE;
    float value = sn_bits_float((uint32_t)most), scale = value / top;
    if (value < 0x1p-100f)
        return 0;
    return sn_float_bits(scale) - (scale * top > 0x1.fffffep127f);
}

void SN_K(sn_int_put)(const struct sn_codec *c, const struct sn_codec_draw *draw, int64_t b,
                      const float *x, int m, unsigned char *to)
{
    float turned[BLOCK], u[BLOCK];
    uint8_t code[BLOCK];
    int32_t most = sn_largest(x);
    float top = (float)top_code(c);
    memset(code, c->kind == SN_CODEC_NF4 ? SN_NF4_ZERO : 0, sizeof(code));
    if (c->hadamard && most < 0x7f800000) {
        for (int i = 0; i < BLOCK; i++)
            turned[i] = x[i] * (1.0f / SN_CODEC_ROTATED);
        rotate(turned);
        most = sn_largest(turned);
        x = turned;
    }
    m = codes_of(c, m);
    uint32_t bits = scale_of(most, top);
    if (bits != SN_NO_SCALE && bits != 0) {
        float inverse = 1.0f / sn_bits_float(bits);
        if (c->kind == SN_CODEC_NF4) {
            to_levels(x, inverse, code);
        } else if (c->stochastic) {
            draw_block(draw, b, u);
            to_either(x, inverse, top, u, code);
        } else {
            to_nearest(x, inverse, top, code);
        }
    }
    memcpy(to, &bits, 4);
    to += 4;
    if (c->kind == SN_CODEC_INT8) {
        memcpy(to, code, (size_t)m);
        return;
    }
    int half = (m + 1) / 2;
    for (int j = 0; j < half; j++)
        to[j] = (uint8_t)((code[j] & 15) | code[j + half] << 4);
}

/* --- codes to values -------------------------------------------------------------------------- */

static int get_int8(const unsigned char *from, int m, float scale, float *y)
{
    const int8_t *code = (const int8_t *)from;
    int bad = 0;
#pragma omp simd reduction(| : bad)
    for (int i = 0; i < m; i++) {
        int32_t q = code[i];
        bad |= q == -128;
        y[i] = (float)q * scale;
    }
    return bad;
}

/* Two codes a byte: y[j] and y[j + half]; y has room for one more than m. */
static int get_int4(const unsigned char *from, int half, float scale, float *restrict y)
{
    int bad = 0;
#pragma omp simd reduction(| : bad)
    for (int j = 0; j < half; j++) {
        int32_t low = from[j] & 15, high = from[j] >> 4;
        bad |= (low == 8) | (high == 8);
        y[j] = (float)((low ^ 8) - 8) * scale;
        y[j + half] = (float)((high ^ 8) - 8) * scale;
    }
    return bad;
}

static int get_nf4(const unsigned char *from, int half, float scale, float *restrict y)
{
    static const float level[] = {SN_NF4_LEVELS};
    for (int j = 0; j < half; j++) {
        y[j] = level[from[j] & 15] * scale;
        y[j + half] = level[from[j] >> 4] * scale;
    }
    return 0; /* every code is one */
}

enum sn_codec_fault SN_K(sn_int_get)(const struct sn_codec *c, const unsigned char *from, int m,
                                     float *y)
{
    uint32_t bits;
    memcpy(&bits, from, 4);
    float scale = sn_bits_float(bits), top = (float)top_code(c);
    if (bits != SN_NO_SCALE && (bits >> 31 || !(scale * top <= 0x1.fffffep127f)))
        return SN_CODEC_BAD_SCALE;
    m = codes_of(c, m);
    int bad = c->kind == SN_CODEC_INT8   ? get_int8(from + 4, m, scale, y)
              : c->kind == SN_CODEC_INT4 ? get_int4(from + 4, (m + 1) / 2, scale, y)
                                         : get_nf4(from + 4, (m + 1) / 2, scale, y);
    if (c->hadamard) {
        memset(y + m, 0, (size_t)(BLOCK - m) * sizeof(float));
        rotate(y);
    }
    return bad ? SN_CODEC_BAD_CODE : SN_CODEC_FINE;
}
