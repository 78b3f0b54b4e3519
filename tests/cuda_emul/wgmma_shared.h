/*
 * wgmma_shared.h - kernels/cuda/wgmma_shared.cuh, emulated.
 */
#ifndef SN_EMUL_WGMMA_SHARED_H
#define SN_EMUL_WGMMA_SHARED_H
#define SN_CUDA_WGMMA_SHARED_CUH /* this is it */

#include "tests/cuda_emul/wgmma.h"

static inline void sn_wgmma_commit(void)
{
    sn_emul_group_barrier(128);
}
template <int n> static void sn_wgmma_wait(void)
{
    sn_emul_group_barrier(128);
}
template <int N> static void sn_wgmma_finish(float (&)[N][4])
{
    sn_emul_group_barrier(128);
}

template <int TA, int TB, class E, int N>
static void sn_wgmma_shared(float (&c)[N][4], uint64_t a, uint64_t b, const E *)
{
    int warp = (int)threadIdx.x / 32 % 4, g = sn_emul_lane() / 4, t = sn_emul_lane() % 4;
    float x[2][16], y[2][16];
    for (int i = 0; i < 32; i++)
        x[i / 16][i % 16] = sn_emul_at<E>(a, warp * 16 + g + i / 16 * 8, i % 16, TA);
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < 32; i++)
            y[i / 16][i % 16] = sn_emul_at<E>(b, n * 8 + t * 2 + i / 16, i % 16, TB);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++)
                c[n][i] += x[i / 2][k] * y[i % 2][k];
    }
}

#endif
