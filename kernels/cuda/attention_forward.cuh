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

template <int W>
static __device__ __forceinline__ void
sn_attn_start(const struct sn_args &a, const struct sn_attn &t, struct sn_attn_state<W> &s,
              int64_t first, int row0, int head, const struct sn_lane &w)
{
    bool add = a.acc[0] == SN_ADD;
    sn_tile_clear<W / 8>(s.o);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        bool there = row < t.rows;
        const float *lse = (const float *)a.out[1].p + (first + row) * a.out[1].ld + head;
        s.query[h] = there ? sn_at(t.query, row) : -1;
        s.m[h] = add && there ? *lse * SN_LOG2E : -INFINITY;
        s.l[h] = w.t == 0 && s.m[h] != -INFINITY ? 1.0f : 0.0f;
        if (!add || !there)
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            if (c >= t.d)
                continue;
            s.o[n][h * 2] = sn_element(a.out[0], first + row, (int64_t)head * t.d + c);
            s.o[n][h * 2 + 1] = sn_element(a.out[0], first + row, (int64_t)head * t.d + c + 1);
        }
    }
}

/* Scores to probabilities; `whole`: every query here sees every key of the tile. */
template <int W, int N>
static __device__ __forceinline__ void
sn_attn_soften(const struct sn_attn &t, struct sn_attn_state<W> &s, float p[N][4],
               struct sn_attn_mask &mask, int j0, bool whole, const struct sn_lane &w)
{
    float scale = t.scale * SN_LOG2E;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = s.m[h];
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int j = j0 + n * 8 + w.t * 2 + e;
                float x = p[n][h * 2 + e] * scale;
                if (!whole && (j >= t.rows || sn_at(t.key, j) > s.query[h]))
                    x = -INFINITY;
                p[n][h * 2 + e] = x;
                top = sn_max(top, x);
            }
        top = sn_quad_max(top);
        float base = top == -INFINITY ? 0.0f : top, shrink = exp2f(s.m[h] - base), sum = 0.0f;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float x = exp2f(p[n][h * 2 + e] - base);
                sum += x;
                if (mask.drop > 0.0f && x != 0.0f)
                    x *= sn_attn_factor(mask, s.query[h], sn_at(t.key, j0 + n * 8 + w.t * 2 + e));
                p[n][h * 2 + e] = x;
            }
        s.l[h] = s.l[h] * shrink + sum;
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
    bool paired = sn_is_paired<E>(a.out[0]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int row = row0 + w.g + h * 8;
        float l = sn_quad_sum(s.l[h]), inverse = l == 0.0f ? 0.0f : 1.0f / l;
        bool blind = sn_at(t.key, 0) > s.query[h];
        if (row >= t.rows || (blind && a.acc[0] == SN_ADD))
            continue;
#pragma unroll
        for (int n = 0; n < W / 8; n++) {
            int c = n * 8 + w.t * 2;
            float y[2] = {s.o[n][h * 2] * inverse, s.o[n][h * 2 + 1] * inverse};
            if (c < t.d)
                sn_put_pair<E>(a.out[0], SN_WRITE, paired, first + row, (int64_t)head * t.d + c, y);
        }
        if (w.t == 0)
            ((float *)a.out[1].p)[(first + row) * a.out[1].ld + head] =
                l == 0.0f ? -INFINITY : s.m[h] * SN_LN2 + logf(l);
    }
}

/* How many tiles of keys a position sees any of. */
static __device__ __forceinline__ int sn_attn_tiles_seen(const struct sn_attn &t, int last,
                                                         int tile)
{
    int n = 0;
    while (n * tile < t.rows && sn_at(t.key, n * tile) <= last)
        n++;
    return n;
}

#endif
