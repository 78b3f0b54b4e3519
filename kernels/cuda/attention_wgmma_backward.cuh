/*
 * attention_wgmma_backward.cuh - what the backward's kernels on warpgroup products share: from
 * scores to probabilities, and from these to ds, element by element.
 *
 * Which product is computed where (formulas: attention_backward.cuh). No sum crosses blocks, so all
 * have one order without waiting; that takes seven products, two of them twice:
 *   dkv   a block has keys, walks queries: s^T = k q^T, dp^T = v do^T, dv += p^T do, dk += ds^T q
 *   dq    a block has queries, walks keys: s = q k^T, dp = do v^T, dq += ds k
 *
 * The operands of s and dp are in shared memory. p and ds, in registers as their fragments are, are
 * then A operands, whose B is the tile that lies there, turned.
 *
 * One kernel with five products would have to add dq across blocks in one order (FlashAttention-3:
 * a semaphore for each tile of queries). A tile of 128 x 128 with 64 columns takes a multiprocessor
 * 512 cycles a product: 3584 for seven, 2560 for five. But then 32 KB of dq's fp32 sums are read
 * and written for each: 26 bytes a cycle from each of 132 multiprocessors, 5.9 TB/s at 1.755 GHz,
 * beside 32 KB of operands; and blocks wait for each other.
 *
 * Registers of a thread (255 at most, two warpgroups of 64 rows each, one block a multiprocessor):
 *   dkv   64 columns: dk dv 64, s dp 128 (tiles of 128 queries), p packed 32
 *         128 columns: dk dv 128, s dp 64 (tiles of 64 queries), p packed 16
 *   dq    dq 32 or 64, s dp 128 (tiles of 128 keys), ds packed 32
 * Dropout, and for dkv positions, need some more: these have tiles of 64. Products of 64 columns
 * with both operands in shared memory read 4 KB in the 32 cycles that they take, which is all that
 * shared memory gives; those of 128 columns read 6 KB in 64. Bytes of shared memory:
 * sn_attn_wgmma_shared().
 */
#ifndef SN_CUDA_ATTENTION_WGMMA_BACKWARD_CUH
#define SN_CUDA_ATTENTION_WGMMA_BACKWARD_CUH

#include "kernels/cuda/attention_backward.cuh"
#include "kernels/cuda/attention_wgmma.cuh"

/*
 * Element e of a thread's fragment n is in row g + e / 2 * 8 of its warp's 16, column 8 n + 2 t +
 * e % 2 of the tile. PAIRS knows of it, with i = 2 n + e % 2:
 *   lse(n, x)     lse of the queries of fragment n's four elements
 *   delta(n, x)   their delta
 *   sees(n, e)    does this query see this key? (bit i of a word for each row)
 *   kept[2]       which ones dropout keeps, alike (sn_attn_kept)
 */

/* s becomes p. WHOLE: all pairs see each other. */
template <bool WHOLE, int N, class PAIRS>
static __device__ __forceinline__ void sn_attn_chances(const PAIRS &pairs, float (&s)[N][4],
                                                       float scale)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        float lse[4];
        pairs.lse(n, lse);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float p = sn_exp2(fmaf(s[n][e], scale, -lse[e]));
            s[n][e] = WHOLE || pairs.sees(n, e) ? p : 0.0f;
        }
    }
}

/* dp becomes ds; with dropout p becomes p f. */
template <enum sn_attn_kind K, bool WHOLE, int M, int N, class PAIRS>
static __device__ __forceinline__ void
sn_attn_slopes(const PAIRS &pairs, const struct sn_attn_mask &mask, float (&p)[N][4],
               float (&dp)[N][4], int first)
{
#pragma unroll
    for (int n = first; n < first + M; n++) {
        float delta[4];
        pairs.delta(n, delta);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float ds = p[n][e] * (dp[n][e] - delta[e]);
            if constexpr (K == SN_ATTN_DROPPED) {
                float f = sn_attn_kept_factor(mask, pairs.kept[e / 2], n * 2 + e % 2);
                ds = p[n][e] * fmaf(f, dp[n][e], -delta[e]);
                p[n][e] *= f;
            }
            dp[n][e] = WHOLE || pairs.sees(n, e) ? ds : 0.0f;
        }
    }
}

/* L A fragments of 16 columns each, from fragment `first` of x on. */
template <class E, int L, int N>
static __device__ __forceinline__ void sn_attn_pack_all(uint32_t (&a)[L][4], const float (&x)[N][4],
                                                        int first)
{
#pragma unroll
    for (int l = 0; l < L; l++)
        sn_attn_pack<E>(a[l], x + first + 2 * l);
}

#endif
