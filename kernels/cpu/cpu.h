/*
 * cpu.h - shared by the CPU kernels; compiled once per instruction set.
 *
 * Every file in this folder is built several times with -DSN_ISA=generic|avx2|avx512 and the
 * matching -march. External names carry the set: SN_K(sn_rmsnorm) is sn_rmsnorm_avx512. table.c
 * collects them; kernels/cpu.c (built once) picks a table at run time.
 *
 * Loops are plain C that the compiler vectorises (`#pragma omp simd`); threads come from
 * `#pragma omp parallel num_threads(threads)` with static partitions, so results are repeatable.
 */
#ifndef SN_CPU_H
#define SN_CPU_H

#include "kernels/ops.h"

#include <string.h>

#define SN_PASTE2(a, b) a##_##b
#define SN_PASTE(a, b)  SN_PASTE2(a, b)
#define SN_K(name)      SN_PASTE(name, SN_ISA)

#define SN_KERNEL(name) int SN_K(name)(const struct sn_args *a, int threads)

SN_KERNEL(sn_zero);
SN_KERNEL(sn_copy);
SN_KERNEL(sn_embed);
SN_KERNEL(sn_embed_grad);
SN_KERNEL(sn_pos_grad);
SN_KERNEL(sn_layernorm);
SN_KERNEL(sn_layernorm_dx);
SN_KERNEL(sn_layernorm_dw);
SN_KERNEL(sn_rmsnorm);
SN_KERNEL(sn_rmsnorm_dx);
SN_KERNEL(sn_rmsnorm_dw);
SN_KERNEL(sn_gemm);
SN_KERNEL(sn_colsum);
SN_KERNEL(sn_rope);
SN_KERNEL(sn_attention);
SN_KERNEL(sn_attention_dx);
SN_KERNEL(sn_act);
SN_KERNEL(sn_act_dx);
SN_KERNEL(sn_swiglu);
SN_KERNEL(sn_swiglu_dx);
SN_KERNEL(sn_add);
SN_KERNEL(sn_dropout);
SN_KERNEL(sn_cross_entropy);
SN_KERNEL(sn_sq_norm);
SN_KERNEL(sn_decide);
SN_KERNEL(sn_adamw);

/* Scratch bytes of the kinds that need any (see ops.h, `scratch`). */
size_t SN_K(sn_gemm_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_attention_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_attention_dx_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_cross_entropy_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_elementwise_scratch)(enum sn_op_kind kind, const struct sn_args *a, int threads);

/* --- storage types ------------------------------------------------------------------------ */

static inline float sn_bf16_to_f32(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* Round to nearest even; NaN stays NaN. */
static inline uint16_t sn_f32_to_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t quiet = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* fp16 by bit arithmetic that vectorises; round to nearest even, denormals and infinities kept. */
static inline float sn_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t mag = (uint32_t)(h & 0x7fffu) << 13;
    float f;
    memcpy(&f, &mag, 4);
    f *= 0x1p112f; /* exponent bias 15 -> 127; denormals come out right */
    uint32_t u;
    memcpy(&u, &f, 4);
    u = (h & 0x7c00u) == 0x7c00u ? mag | 0x7f800000u : u;
    u |= sign;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint16_t sn_f32_to_f16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = (u >> 16) & 0x8000u;
    u &= 0x7fffffffu;
    /* normal results: rebias the exponent and round to even on bit 13 */
    uint32_t normal = (u - 0x38000000u + 0xfffu + ((u >> 13) & 1u)) >> 13;
    /* denormal results: let the FPU align and round, by adding 0.5 */
    float mag;
    memcpy(&mag, &u, 4);
    float aligned = mag + 0.5f;
    uint32_t denormal;
    memcpy(&denormal, &aligned, 4);
    denormal -= 0x3f000000u;
    uint32_t h = u < 0x38800000u ? denormal : normal;
    h = u >= 0x477ff000u ? 0x7c00u : h;  /* overflow and infinity */
    h = u > 0x7f800000u ? 0x7e00u : h;   /* NaN */
    return (uint16_t)(h | sign);
}

/* Rows of any storage type to and from fp32: n elements, no overlap. */
static inline void sn_row_load(float *restrict out, const void *restrict p, enum sn_dtype t, int64_t n)
{
    const uint16_t *h = p;
    switch (t) {
    case SN_BF16:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = sn_bf16_to_f32(h[i]);
        break;
    case SN_F16:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = sn_f16_to_f32(h[i]);
        break;
    default:
        memcpy(out, p, (size_t)n * sizeof(float));
    }
}

static inline void sn_row_store(void *restrict p, enum sn_dtype t, const float *restrict in, int64_t n)
{
    uint16_t *h = p;
    switch (t) {
    case SN_BF16:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = sn_f32_to_bf16(in[i]);
        break;
    case SN_F16:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            h[i] = sn_f32_to_f16(in[i]);
        break;
    default:
        memcpy(p, in, (size_t)n * sizeof(float));
    }
}

/* Address of row r. */
static inline void *sn_mat_row(const struct sn_mat *m, int64_t r)
{
    return (char *)m->p + (size_t)(r * m->ld) * sn_dtype_size(m->dtype);
}

/* --- partition of n items over threads: thread i gets [*first, *end), in multiples of `grain` --- */
static inline void sn_share(int64_t n, int64_t grain, int i, int threads, int64_t *first, int64_t *end)
{
    int64_t units = (n + grain - 1) / grain;
    int64_t f = units * i / threads * grain, e = units * (i + 1) / threads * grain;
    *first = f < n ? f : n;
    *end = e < n ? e : n;
}

#endif
