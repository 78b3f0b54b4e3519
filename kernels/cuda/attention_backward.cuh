/*
 * attention_backward.cuh - what the kernels of ATTENTION_DX on mma and on warpgroup products share.
 *
 * With p = 2^(scale score - lse), f the factor of dropout and dp = do v:
 *   dv = (p f)^T do     ds = p (f dp - delta)     dq = scale ds k     dk = scale ds^T q
 * lse and scale in units of log2 here, delta of a query and head is sum_c do_c o_c.
 */
#ifndef SN_CUDA_ATTENTION_BACKWARD_CUH
#define SN_CUDA_ATTENTION_BACKWARD_CUH

#include "kernels/cuda/attention_mma.cuh"

#include <limits.h>

/* Blocks of a multiprocessor that registers are to suffice for. */
template <int W, enum sn_attn_kind K> constexpr int sn_attn_blocks(void)
{
    return W <= 64 && K != SN_ATTN_DROPPED ? 3 : W <= 128 ? 2 : 1;
}

struct sn_attn_pair {
    float p, ds;
};

/* p f and ds of one pair of query and key, with the scale in the multiply-add of -lse. */
template <enum sn_attn_kind K>
static __device__ __forceinline__ struct sn_attn_pair
sn_attn_pair_of(float score, float scale, const struct sn_attn_row &row, float dp, float factor)
{
    float p = sn_exp2(fmaf(score, scale, -row.lse));
    struct sn_attn_pair dropped = {p * factor, p * fmaf(factor, dp, -row.delta)};
    struct sn_attn_pair plain = {p, p * (dp - row.delta)};
    return K == SN_ATTN_DROPPED ? dropped : plain;
}

/* The row of a query, if it is there. */
static __device__ __forceinline__ struct sn_attn_row sn_attn_row_of(const struct sn_attn &t,
                                                                    const struct sn_attn_row *known,
                                                                    int64_t row, int head,
                                                                    bool there)
{
    struct sn_attn_row none = {0.0f, 0.0f};
    return there ? known[head * t.all + row] : none;
}

/* The first query of the first tile that sees a key at this position; t.rows or more: none does. */
template <enum sn_attn_kind K>
static __device__ __forceinline__ int sn_attn_first_seeing(const struct sn_attn &t, int key,
                                                           int tile)
{
    if (K == SN_ATTN_PLAIN)
        return key / tile * tile;
    int i = 0;
    while (i < t.rows && sn_at(t.query, min(i + tile, t.rows) - 1) < key)
        i += tile;
    return i;
}

/* Two neighbouring elements of y, from sums times their scale, rows row0 + g and + 8 of t.rows. */
template <class E, int W>
static __device__ __forceinline__ void
sn_attn_put_sums(const struct sn_mat &y, enum sn_acc acc, const struct sn_attn &t,
                 const float sum[W / 8][4], float scale, int64_t first, int row0, int64_t col,
                 const bool wanted[2], const struct sn_lane &w)
{
    bool paired = sn_is_paired<E>(y);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        if (row >= t.rows || !wanted[h])
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            float x[2] = {sum[n][h * 2] * scale, sum[n][h * 2 + 1] * scale};
            if (c < t.d)
                sn_put_pair<E>(y, acc, paired, first + row, col + c, x);
        }
    }
}

#endif
