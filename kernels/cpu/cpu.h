/*
 * cpu.h - shared by the CPU kernels; compiled once per instruction set.
 *
 * Every file in this folder is built several times with -DSN_ISA=NAME (kernels/isa) and the
 * matching -march. External names carry the set: SN_K(sn_rmsnorm) is sn_rmsnorm_avx512. table.c
 * collects them; kernels/cpu.c (built once) picks a table at run time.
 *
 * Sets that add products of bf16 to another one are built of the files of products alone
 * (PRODUCTS in the Makefile), with -DSN_REST naming the set that has the rest: SN_R(sn_rmsnorm).
 *
 * Loops are plain C that the compiler vectorises (`#pragma omp simd`); threads come from
 * `#pragma omp parallel num_threads(threads)` with static partitions, so results are repeatable.
 */
#ifndef SN_CPU_H
#define SN_CPU_H

#include "kernels/half.h"
#include "kernels/ops.h"

#include <string.h>

#define SN_PASTE2(a, b) a##_##b
#define SN_PASTE(a, b)  SN_PASTE2(a, b)
#define SN_K(name)      SN_PASTE(name, SN_ISA)
#define SN_R(name)      SN_PASTE(name, SN_REST)

#define SN_KERNEL(name)         int SN_K(name)(const struct sn_args *a, int threads)
#define SN_KERNEL_OF_REST(name) int SN_R(name)(const struct sn_args *a, int threads)

/* Every kind of this set, and of the one that has the rest: of each one exists, or both are one. */
#define SN_DECLARE(KIND, name)                                                                     \
    SN_KERNEL(sn_##name);                                                                          \
    SN_KERNEL_OF_REST(sn_##name);
SN_OP_KINDS(SN_DECLARE)
#undef SN_DECLARE

/* Scratch bytes of the kinds that need any (see ops.h, `scratch`). */
size_t SN_K(sn_gemm_scratch)(const struct sn_args *a, int threads);
SN_KERNEL(sn_gemm_alone); /* gemm.c: without an epilogue */
/* gemm_fp8.c: a GEMM with attr.gemm.fp8 as one of rounded operands, which begin in its scratch. */
size_t SN_K(sn_fp8_scratch)(const struct sn_args *a);
struct sn_args SN_K(sn_fp8_operands)(const struct sn_args *a, int threads);
size_t SN_K(sn_expert_gemm_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_attention_scratch)(const struct sn_args *a, int threads);
size_t SN_K(sn_attention_dx_scratch)(const struct sn_args *a, int threads);
size_t SN_R(sn_attention_rows_scratch)(const struct sn_args *a, int threads);
size_t SN_R(sn_cross_entropy_scratch)(const struct sn_args *a, int threads);
size_t SN_R(sn_coded_scratch)(const struct sn_args *a);
size_t SN_R(sn_orthogonalise_scratch)(const struct sn_args *a);
size_t SN_R(sn_elementwise_scratch)(enum sn_op_kind kind, const struct sn_args *a, int threads);

/* --- storage types (kernels/half.h converts elements) ---------------------------------------- */

/* Rows of any storage type to and from fp32: n elements, no overlap. */
static inline void sn_row_load(float *restrict out, const void *restrict p, enum sn_dtype t,
                               int64_t n)
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

static inline void sn_row_store(void *restrict p, enum sn_dtype t, const float *restrict in,
                                int64_t n)
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

/* --- shares of n items: thread i gets [*first, *end), in multiples of `grain` -------------- */
static inline void sn_share(int64_t n, int64_t grain, int i, int threads, int64_t *first,
                            int64_t *end)
{
    int64_t units = (n + grain - 1) / grain;
    int64_t f = units * i / threads * grain, e = units * (i + 1) / threads * grain;
    *first = f < n ? f : n;
    *end = e < n ? e : n;
}

#endif
