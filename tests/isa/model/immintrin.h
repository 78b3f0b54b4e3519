/*
 * immintrin.h - a model of the instructions that kernels/cpu/bf16 uses, for processors that lack
 * them: found before the compiler's header of this name, so that the kernels' very source is
 * compiled against it. Each function does what Intel's manual (SDM volume 2; ISA extensions
 * reference, AMX) says of its instruction, bit by bit.
 */
#ifndef MODEL_IMMINTRIN_H
#define MODEL_IMMINTRIN_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    float lane[16];
} __m512;
typedef int __m512i __attribute__((vector_size(64)));
typedef short __m512bh __attribute__((vector_size(64)));

/* --- AVX-512 ---------------------------------------------------------------------------------- */

static inline __m512 _mm512_setzero_ps(void)
{
    return (__m512){{0}};
}

static inline __m512 _mm512_loadu_ps(const void *p)
{
    __m512 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

static inline void _mm512_storeu_ps(void *p, __m512 v)
{
    memcpy(p, &v, sizeof(v));
}

/* Past the caches, to whole lines: what is not aligned is a fault. */
static inline void _mm512_stream_ps(void *p, __m512 v)
{
    if ((uintptr_t)p % sizeof(v) != 0)
        abort();
    memcpy(p, &v, sizeof(v));
}

static inline void _mm_sfence(void)
{
}

static inline __m512 _mm512_add_ps(__m512 a, __m512 b)
{
    for (int i = 0; i < 16; i++)
        a.lane[i] += b.lane[i];
    return a;
}

/* Values of 64 bytes go through memory: processors without AVX-512 have no way to return them. */
#define _mm512_loadu_si512(p)                                                                      \
    __extension__({                                                                                \
        __m512i v_;                                                                                \
        memcpy(&v_, (p), sizeof(v_));                                                              \
        v_;                                                                                        \
    })

#define _mm512_set1_epi32(x) ((x) - (__m512i){0})

/* --- bf16 ------------------------------------------------------------------------------------- */

/* As fp32; denormals are zeros of their sign. */
static inline float model_wide(uint16_t bf16)
{
    uint32_t u = (uint32_t)bf16 << 16;
    u = (u & 0x7f800000u) ? u : u & 0x80000000u;
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* A sum that is denormal is a zero of its sign. */
static inline float model_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/*
 * sum + x y, rounded once to nearest even. What is tiny is judged after rounding to 24 bits with
 * any exponent: from 0x1.ffffffp-127 on that gives the least normal number, which fmaf gives too.
 */
static inline float model_multiply_add(float x, float y, float sum)
{
    float in = model_flush(sum), out = fmaf(x, y, in);
    if (fabsf(out) <= 0x1p-126f && fabs(fma((double)x, (double)y, (double)in)) < 0x1.ffffffp-127)
        return copysignf(0.0f, out);
    return out;
}

/* VDPBF16PS: of each lane the upper product first. */
static inline __m512 model_dpbf16_ps(__m512 sum, const void *a, const void *b)
{
    uint16_t x[32], y[32];
    memcpy(x, a, sizeof(x));
    memcpy(y, b, sizeof(y));
    for (int i = 0; i < 16; i++) {
        float s =
            model_multiply_add(model_wide(x[2 * i + 1]), model_wide(y[2 * i + 1]), sum.lane[i]);
        sum.lane[i] = model_multiply_add(model_wide(x[2 * i]), model_wide(y[2 * i]), s);
    }
    return sum;
}

#define _mm512_dpbf16_ps(sum, a, b)                                                                \
    __extension__({                                                                                \
        __m512bh a_ = (a), b_ = (b);                                                               \
        model_dpbf16_ps((sum), &a_, &b_);                                                          \
    })

/* --- AMX: eight registers of up to 16 rows of 64 bytes, of this thread ------------------------ */

struct model_tiles {
    int is_configured;
    int rows[8], bytes[8];
    unsigned char data[8][16][64];
};
static _Thread_local struct model_tiles model;

/* Palette 1. What the processor answers with a fault ends the program. */
static inline void _tile_loadconfig(const void *config)
{
    const unsigned char *c = config;
    if (c[0] != 1 || c[1] != 0)
        abort();
    memset(&model, 0, sizeof(model));
    for (int i = 0; i < 8; i++) {
        uint16_t bytes;
        memcpy(&bytes, c + 16 + 2 * i, sizeof(bytes));
        model.bytes[i] = bytes;
        model.rows[i] = c[48 + i];
        if (bytes > 64 || model.rows[i] > 16)
            abort();
    }
    model.is_configured = 1;
}

static inline void _tile_release(void)
{
    memset(&model, 0, sizeof(model));
}

static inline void model_needs(int tile)
{
    if (!model.is_configured || model.rows[tile] == 0)
        abort();
}

static inline void _tile_zero(int tile)
{
    model_needs(tile);
    memset(model.data[tile], 0, sizeof(model.data[tile]));
}

/* The rest of the register becomes zero. */
static inline void _tile_loadd(int tile, const void *from, size_t stride)
{
    _tile_zero(tile);
    for (int r = 0; r < model.rows[tile]; r++)
        memcpy(model.data[tile][r], (const char *)from + (size_t)r * stride,
               (size_t)model.bytes[tile]);
}

static inline void _tile_stored(int tile, void *to, size_t stride)
{
    model_needs(tile);
    for (int r = 0; r < model.rows[tile]; r++)
        memcpy((char *)to + (size_t)r * stride, model.data[tile][r], (size_t)model.bytes[tile]);
}

/* TDPBF16PS: even and odd products are summed apart from zero, then both join the sum. */
static inline void _tile_dpbf16ps(int sums, int a, int b)
{
    model_needs(sums);
    model_needs(a);
    model_needs(b);
    int pairs = model.bytes[a] / 4, columns = model.bytes[sums] / 4;
    if (pairs != model.rows[b] || model.bytes[b] != model.bytes[sums] ||
        model.rows[a] != model.rows[sums])
        abort();
    for (int m = 0; m < model.rows[sums]; m++) {
        float part[2][16] = {{0}}, c[16];
        uint16_t x[32], y[32];
        memcpy(x, model.data[a][m], sizeof(x));
        for (int k = 0; k < pairs; k++) {
            memcpy(y, model.data[b][k], sizeof(y));
            for (int e = 0; e < 2; e++)
                for (int n = 0; n < columns; n++)
                    part[e][n] = model_multiply_add(model_wide(x[2 * k + e]),
                                                    model_wide(y[2 * n + e]), part[e][n]);
        }
        memcpy(c, model.data[sums][m], sizeof(c));
        for (int n = 0; n < columns; n++)
            c[n] = model_flush(model_flush(c[n]) + model_flush(part[0][n] + part[1][n]));
        memcpy(model.data[sums][m], c, sizeof(c));
    }
}

#endif
