/*
 * sq_norm.c - SQ_NORM, and the scratch that the kernels of rows.h need.
 */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

struct partial {
    double squares;
    int64_t nonfinite;
};

static int64_t block_count(const struct sn_args *a)
{
    return (a->in[SN_SQ_NORM_G].cols + SN_NORM_BLOCK - 1) / SN_NORM_BLOCK;
}

size_t SN_K(sn_sq_norm_scratch)(const struct sn_args *a)
{
    return (size_t)block_count(a) * sizeof(struct partial);
}

static struct partial block(const float *g, int64_t n)
{
    double squares = 0.0;
    int32_t nonfinite = 0; /* at most SN_NORM_BLOCK */
#pragma omp simd reduction(+ : squares, nonfinite)
    for (int64_t i = 0; i < n; i++) {
        squares += (double)g[i] * (double)g[i];
        nonfinite += (sn_float_bits(g[i]) & 0x7f800000u) == 0x7f800000u;
    }
    return (struct partial){squares, nonfinite};
}

SN_KERNEL(sn_sq_norm)
{
    const float *g = a->in[SN_SQ_NORM_G].p;
    struct partial *part = a->scratch;
    int64_t n = a->in[SN_SQ_NORM_G].cols, blocks = block_count(a);
#pragma omp parallel num_threads(sn_team(threads, n))
    {
        int64_t b, end;
        sn_share(blocks, 1, omp_get_thread_num(), omp_get_num_threads(), &b, &end);
        for (; b < end; b++) {
            int64_t first = b * SN_NORM_BLOCK;
            part[b] = block(g + first, n - first < SN_NORM_BLOCK ? n - first : SN_NORM_BLOCK);
        }
    }
    for (int64_t b = 0; b < blocks; b++) {
        a->scalars->sq_norm += part[b].squares;
        a->scalars->nonfinite += part[b].nonfinite;
    }
    return 0;
}

size_t SN_K(sn_elementwise_scratch)(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    (void)threads; /* pieces do not depend on the number of threads */
    switch (kind) {
    case SN_OP_ROPE:
        return SN_K(sn_rope_scratch)(a);
    case SN_OP_SQ_NORM:
        return SN_K(sn_sq_norm_scratch)(a);
    default:
        return 0;
    }
}
