/*
 * sq_norm.c - SQ_NORM, and the scratch that the kernels of rows.h need.
 */
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath.h"

__extension__ typedef __int128 wide;

struct exact {
    wide sum; /* units of 2^-92 */
    int64_t nonfinite;
};

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
    return (size_t)block_count(a) *
           (a->attr.exact.of != SN_EXACT_NONE ? sizeof(struct exact) : sizeof(struct partial));
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

/*
 * Exact sums: a square is exact in double, and the sum of three numbers, whole multiples of 2^-12,
 * 2^-52 and 2^-92, what lies below being lost. Those of a piece add up exactly in double: of each
 * there are less than 2^52 units. Infinities and NaN are counted, not added.
 */
enum { PIECE = 4096, LOW = -92, DIGIT = 40 };

static void add_piece(const float *g, int64_t n, struct exact *to)
{
    double high = 0, middle = 0, low = 0;
    int32_t nonfinite = 0;
    const double shift[3] = {0x1.8p52 * 0x1p-12, 0x1.8p52 * 0x1p-52, 0x1.8p52 * 0x1p-92};
#pragma omp simd reduction(+ : high, middle, low, nonfinite)
    for (int64_t i = 0; i < n; i++) {
        bool finite = (sn_float_bits(g[i]) & 0x7f800000u) != 0x7f800000u;
        double x = finite ? (double)g[i] : 0.0, square = x * x;
        double h = sn_exact_round(square, shift[0]), rest = square - h;
        double m = sn_exact_round(rest, shift[1]);
        high += h;
        middle += m;
        low += sn_exact_round(rest - m, shift[2]);
        nonfinite += !finite;
    }
    to->sum += ((wide)(high * 0x1p12) << 2 * DIGIT) + (wide)(middle * 0x1p52) * ((wide)1 << DIGIT) +
               (wide)(low * 0x1p92);
    to->nonfinite += nonfinite;
}

static void exact_norm(const struct sn_args *a, int threads)
{
    const float *g = a->in[SN_SQ_NORM_G].p;
    struct exact *part = a->scratch, all = {0};
    int64_t n = a->in[SN_SQ_NORM_G].cols, blocks = block_count(a);
#pragma omp parallel num_threads(sn_team(threads, n))
    {
        int64_t b, end;
        sn_share(blocks, 1, omp_get_thread_num(), omp_get_num_threads(), &b, &end);
        for (; b < end; b++) {
            int64_t i = b * SN_NORM_BLOCK, last = i + SN_NORM_BLOCK < n ? i + SN_NORM_BLOCK : n;
            part[b] = (struct exact){0};
            for (; i < last; i += PIECE)
                add_piece(g + i, last - i < PIECE ? last - i : PIECE, &part[b]);
        }
    }
    for (int64_t b = 0; b < blocks; b++) {
        all.sum += part[b].sum;
        all.nonfinite += part[b].nonfinite;
    }
    for (int i = 0; i < SN_NAGREE_EXACT; i++)
        a->scalars->sq_exact[i] += (double)(uint32_t)(all.sum >> 32 * i);
    a->scalars->nonfinite += all.nonfinite;
}

SN_KERNEL(sn_sq_norm)
{
    if (a->attr.exact.of != SN_EXACT_NONE) {
        exact_norm(a, threads);
        return 0;
    }
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
