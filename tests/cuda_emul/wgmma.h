/*
 * wgmma.h - kernels/cuda/wgmma.cuh, emulated: descriptors are read as its head describes them, a
 * byte's address is swizzled by its bits 7 to 9.
 */
#ifndef SN_EMUL_WGMMA_H
#define SN_EMUL_WGMMA_H
#define SN_CUDA_WGMMA_CUH /* this is it */

#include "tests/cuda_emul/mma.h"

#define SN_HAS_WGMMA 1

static inline uint64_t sn_wgmma_descriptor(const void *tile, int rows8, int columns64)
{
    uint64_t at = (uint64_t)((const unsigned char *)tile - sn_emul_shared());
    return at >> 4 | (uint64_t)(columns64 >> 4) << 16 | (uint64_t)(rows8 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* Element (row, 16-deep column) of a tile whose rows are not depth; or of one whose rows are. */
template <class E> static float sn_emul_at(uint64_t d, int row, int depth, bool turned)
{
    uint64_t start = (d & 0x3fff) << 4, far = (d >> 16 & 0x3fff) << 4, rows8 = (d >> 32 & 0x3fff) << 4;
    uint64_t at = turned ? start + (uint64_t)(row / 64) * far + (uint64_t)(row % 64) * 2 +
                               (uint64_t)(depth / 8) * rows8 + (uint64_t)(depth % 8) * 128
                         : start + (uint64_t)(row / 8) * rows8 + (uint64_t)(row % 8) * 128 +
                               (uint64_t)depth * 2;
    E e;
    at ^= (at >> 7 & 7) << 4;
    memcpy(&e, sn_emul_shared() + at, sizeof(e));
    return sn_emul_wide(e);
}

static inline void sn_wgmma_begin(void)
{
    sn_emul_group_barrier(128);
}
template <int N> static void sn_wgmma_end(float (&)[N][4])
{
    sn_emul_group_barrier(128);
}
static inline void sn_wgmma_publish(void) {}

template <class E> static void sn_wgmma(float c[16][4], uint64_t a, uint64_t b, const E *)
{
    int warp = (int)threadIdx.x / 32 % 4, g = sn_emul_lane() / 4, t = sn_emul_lane() % 4;
    float x[2][16], y[2][16];
    for (int i = 0; i < 32; i++)
        x[i / 16][i % 16] = sn_emul_at<E>(a, warp * 16 + g + i / 16 * 8, i % 16, false);
    for (int n = 0; n < 16; n++) {
        for (int i = 0; i < 32; i++)
            y[i / 16][i % 16] = sn_emul_at<E>(b, n * 8 + t * 2 + i / 16, i % 16, false);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++)
                c[n][i] += x[i / 2][k] * y[i % 2][k];
    }
}

template <class E, int N>
static void sn_wgmma_turned(float (&c)[N][4], const uint32_t a[4], uint64_t b, const E *)
{
    E mine[8], row[32][8];
    int lane = sn_emul_lane(), g = lane / 4, t = lane % 4;
    float x[2][16], y[2][16];
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    memcpy(mine, a, 16);
    memcpy(slots + 64 * lane, mine, 16);
    __syncwarp();
    for (int i = 0; i < 32; i++)
        memcpy(row[i], slots + 64 * i, 16);
    __syncwarp();
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++)
            x[h][k] = sn_emul_wide(row[g * 4 + k % 8 / 2][(h + k / 8 * 2) * 2 + k % 2]);
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < 32; i++)
            y[i / 16][i % 16] = sn_emul_at<E>(b, n * 8 + t * 2 + i / 16, i % 16, true);
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 16; k++)
                c[n][i] += x[i / 2][k] * y[i % 2][k];
    }
}

#endif
