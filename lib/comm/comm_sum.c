#include "lib/comm/comm_sum.h"

#include "kernels/half.h"

#include <assert.h>

/* Vectors of 16 bytes exist on every machine; memory, not arithmetic, is the limit. */
typedef float f32x4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef double f64x2 __attribute__((vector_size(16), aligned(8), may_alias));

static void add_f32(float *sum, const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        *(f32x4 *)(sum + i) = *(const f32x4 *)(a + i) + *(const f32x4 *)(b + i);
    for (; i < n; i++)
        sum[i] = a[i] + b[i];
}

static void add_f64(double *sum, const double *a, const double *b, int64_t n)
{
    int64_t i = 0;
    for (; i + 2 <= n; i += 2)
        *(f64x2 *)(sum + i) = *(const f64x2 *)(a + i) + *(const f64x2 *)(b + i);
    for (; i < n; i++)
        sum[i] = a[i] + b[i];
}

/* out = a + b */
static void add_pair(char *out, const char *a, const char *b, int64_t n, enum sn_dtype dtype)
{
    if (dtype == SN_F32)
        add_f32((float *)out, (const float *)a, (const float *)b, n);
    else
        add_f64((double *)out, (const double *)a, (const double *)b, n);
}

/* The part of rank p. */
static const char *part_of(const struct sn_comm_parts *parts, int p)
{
    if (p == parts->rank)
        return parts->own;
    return parts->others + (p < parts->rank ? p : p - 1) * parts->stride;
}

/* fp32 and fp64: partial sums pass through the first of the others, which is part 0 or 1. */
static void sum_wide(const struct sn_comm_parts *parts, int64_t n, enum sn_dtype dtype)
{
    const char *sum = part_of(parts, 0);
    for (int p = 1; p < parts->size; p++) {
        bool last = p == parts->size - 1 && !parts->add;
        char *to = last ? parts->out : parts->others;
        add_pair(to, sum, part_of(parts, p), n, dtype);
        sum = to;
    }
    if (parts->add)
        add_pair(parts->out, parts->out, sum, n, dtype);
    else if (parts->size == 1 && parts->out != parts->own)
        memcpy(parts->out, sum, (size_t)n * sn_dtype_size(dtype));
}

enum {
    BLOCK = 512, /* elements whose fp32 sums stay in the first-level cache */
    LANES = 16   /* the inner loops have a constant length, so that -O2 vectorises them */
};

static void add_bf16(float *restrict sum, const uint16_t *restrict part, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            sum[i + j] += sn_bf16_to_f32(part[i + j]);
    for (; i < n; i++)
        sum[i] += sn_bf16_to_f32(part[i]);
}

static void add_f16(float *restrict sum, const uint16_t *restrict part, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            sum[i + j] += sn_f16_to_f32(part[i + j]);
    for (; i < n; i++)
        sum[i] += sn_f16_to_f32(part[i]);
}

static void round_bf16(uint16_t *restrict out, const float *restrict sum, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            out[i + j] = sn_f32_to_bf16(sum[i + j]);
    for (; i < n; i++)
        out[i] = sn_f32_to_bf16(sum[i]);
}

static void round_f16(uint16_t *restrict out, const float *restrict sum, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            out[i + j] = sn_f32_to_f16(sum[i + j]);
    for (; i < n; i++)
        out[i] = sn_f32_to_f16(sum[i]);
}

/* bf16 and fp16, a block of n elements from byte `at` of each part. */
static void sum_half_block(const struct sn_comm_parts *parts, int64_t at, int64_t n,
                           enum sn_dtype dtype)
{
    float sum[BLOCK];
    for (int64_t i = 0; i < n; i++)
        sum[i] = -0.0f; /* adding to it changes nothing, not even the sign of a zero */
    for (int p = 0; p < parts->size; p++) {
        const uint16_t *part = (const uint16_t *)(part_of(parts, p) + at);
        if (dtype == SN_BF16)
            add_bf16(sum, part, n);
        else
            add_f16(sum, part, n);
    }
    uint16_t *out = (uint16_t *)(parts->out + at);
    if (dtype == SN_BF16)
        round_bf16(out, sum, n);
    else
        round_f16(out, sum, n);
}

void sn_comm_sum(const struct sn_comm_parts *parts, int64_t n, enum sn_dtype dtype)
{
    assert(!parts->add || ((dtype == SN_F32 || dtype == SN_F64) && parts->out != parts->own));
    if (dtype == SN_F32 || dtype == SN_F64) {
        sum_wide(parts, n, dtype);
        return;
    }
    assert(dtype == SN_BF16 || dtype == SN_F16);
    for (int64_t i = 0; i < n; i += BLOCK)
        sum_half_block(parts, i * 2, n - i < BLOCK ? n - i : BLOCK, dtype);
}
