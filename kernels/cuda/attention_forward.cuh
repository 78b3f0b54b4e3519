/*
 * attention_forward.cuh - what the forwards on mma and on warpgroup products share: the two rows of
 * a thread, from the first key to the last. Fragments of scores and of o are those of mma.cuh,
 * which warpgroup products have too: a warp's 16 rows in tiles of 8 columns.
 */
#ifndef SN_CUDA_ATTENTION_FORWARD_CUH
#define SN_CUDA_ATTENTION_FORWARD_CUH

#include "kernels/cuda/attention_mma.cuh"

/* What a thread holds of its two rows. */
template <int W> struct sn_attn_state {
    float o[W / 8][4], m[2], l[2]; /* l: this lane's part of the sum */
    int query[2];                  /* positions; -1: no such row */
};

template <enum sn_attn_kind K, int W>
static __device__ __forceinline__ void
sn_attn_start(const struct sn_args &a, const struct sn_attn &t, struct sn_attn_state<W> &s,
              int64_t first, int row0, int head, const struct sn_lane &w)
{
    bool add = K != SN_ATTN_PLAIN && a.acc[SN_ATTENTION_O] == SN_ADD;
    sn_tile_clear<W / 8>(s.o);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        bool there = row < t.rows;
        const float *lse = (const float *)a.out[SN_ATTENTION_LSE].p +
                           (first + row) * a.out[SN_ATTENTION_LSE].ld + head;
        s.query[h] = there ? sn_place<K>(t.query, row) : -1;
        s.m[h] = add && there ? *lse * SN_LOG2E : -INFINITY;
        s.l[h] = w.t == 0 && s.m[h] != -INFINITY ? 1.0f : 0.0f;
        if (!add || !there)
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            if (c >= t.d)
                continue;
            s.o[n][h * 2] = sn_element(a.out[SN_ATTENTION_O], first + row, (int64_t)head * t.d + c);
            s.o[n][h * 2 + 1] =
                sn_element(a.out[SN_ATTENTION_O], first + row, (int64_t)head * t.d + c + 1);
        }
    }
}

/*
 * Scores to probabilities 2^(scale score - m), with the scale in the same fused multiply-add as m;
 * WHOLE: every query here sees every key of the tile. Maxima and sums of a row are in two parts, of
 * even and odd columns, so that no instruction waits for the one before it.
 */
template <enum sn_attn_kind K, bool WHOLE, int W, int N>
static __device__ __forceinline__ void
sn_attn_soften(const struct sn_attn &t, struct sn_attn_state<W> &s, float p[N][4],
               struct sn_attn_mask &mask, int j0, const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float most[2], sum[2];
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int j = j0 + n * 8 + w.t * 2 + e;
                float *x = &p[n][h * 2 + e];
                if (!WHOLE && (j >= t.rows || sn_place<K>(t.key, j) > s.query[h]))
                    *x = -INFINITY;
                most[e] = n == 0 ? *x : sn_max(most[e], *x);
            }
        float top = sn_max(s.m[h], sn_quad_max(sn_max(most[0], most[1])) * scale);
        float base = top == -INFINITY ? 0.0f : top, shrink = sn_exp2(s.m[h] - base);
        uint32_t kept = 0;
        if constexpr (K == SN_ATTN_DROPPED)
            kept = sn_attn_kept<N, false>(mask, t.key, s.query[h], j0, w);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float x = sn_exp2(fmaf(p[n][h * 2 + e], scale, -base));
                sum[e] = n == 0 ? x : sum[e] + x;
                if (K == SN_ATTN_DROPPED)
                    x *= sn_attn_kept_factor(mask, kept, n * 2 + e);
                p[n][h * 2 + e] = x;
            }
        s.l[h] = s.l[h] * shrink + (sum[0] + sum[1]);
        s.m[h] = top;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            s.o[n][h * 2] *= shrink;
            s.o[n][h * 2 + 1] *= shrink;
        }
    }
}

template <class E, int W>
static __device__ __forceinline__ void
sn_attn_finish(const struct sn_args &a, const struct sn_attn &t, const struct sn_attn_state<W> &s,
               int64_t first, int row0, int head, const struct sn_lane &w)
{
    bool paired = sn_is_paired<E>(a.out[SN_ATTENTION_O]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        float l = sn_quad_sum(s.l[h]), inverse = l == 0.0f ? 0.0f : 1.0f / l;
        bool blind = sn_at(t.key, 0) > s.query[h];
        if (row >= t.rows || (blind && a.acc[SN_ATTENTION_O] == SN_ADD))
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            float y[2] = {s.o[n][h * 2] * inverse, s.o[n][h * 2 + 1] * inverse};
            if (c < t.d)
                sn_put_pair<E>(a.out[SN_ATTENTION_O], SN_WRITE, paired, first + row,
                               (int64_t)head * t.d + c, y);
        }
        if (w.t == 0)
            ((float *)a.out[SN_ATTENTION_LSE]
                 .p)[(first + row) * a.out[SN_ATTENTION_LSE].ld + head] =
                l == 0.0f ? -INFINITY : s.m[h] * SN_LN2 + logf(l);
    }
}

#endif
