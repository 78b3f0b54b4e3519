/*
 * mma.h - kernels/cuda/mma.cuh, emulated: fragments as its head describes them; copies arrive when
 * they are waited for, not before.
 */
#ifndef SN_EMUL_MMA_SYNC_H
#define SN_EMUL_MMA_SYNC_H
#define SN_CUDA_MMA_CUH /* this is it */

#include "kernels/cuda/device.cuh"
#include "tests/cuda_emul/include/mma.h"

void sn_emul_copy(void *to, const void *from, int bytes, bool there);
void sn_emul_commit(void);
void sn_emul_wait(int pending);

static inline void sn_ldmatrix_any(uint32_t r[4], const void *row, bool turned)
{
    const uint16_t *rows[32];
    uint16_t pair[4][2];
    int lane = sn_emul_lane(), g = lane / 4, t = lane % 4;
    if ((uintptr_t)row % 16) {
        fprintf(stderr, "emul: a row of ldmatrix is not aligned to 16 bytes\n");
        abort();
    }
    for (int i = 0; i < 32; i++)
        rows[i] = (const uint16_t *)0;
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    memcpy(slots + 64 * lane, &row, sizeof(row));
    __syncwarp();
    for (int i = 0; i < 32; i++)
        memcpy(&rows[i], slots + 64 * i, sizeof(rows[i]));
    for (int i = 0; i < 4; i++)
        for (int e = 0; e < 2; e++)
            pair[i][e] = turned ? rows[i * 8 + 2 * t + e][g] : rows[i * 8 + g][2 * t + e];
    memcpy(r, pair, sizeof(pair));
    __syncwarp();
}
static inline void sn_ldmatrix(uint32_t r[4], const void *row)
{
    sn_ldmatrix_any(r, row, false);
}
static inline void sn_ldmatrix_turned(uint32_t r[4], const void *row)
{
    sn_ldmatrix_any(r, row, true);
}

template <class E>
static void sn_mma(float c[4], const uint32_t a[4], const uint32_t b[2], const E *)
{
    struct mine {
        float a[8], b[4]; /* each lane widens its own: others read them */
    } x;
    E narrow[12];
    memcpy(narrow, a, 16);
    memcpy(narrow + 8, b, 8);
    for (int i = 0; i < 8; i++)
        x.a[i] = sn_emul_wide(narrow[i]);
    for (int i = 0; i < 4; i++)
        x.b[i] = sn_emul_wide(narrow[8 + i]);
    int lane = sn_emul_lane(), g = lane / 4, t = lane % 4;
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    memcpy(slots + 64 * lane, &x, sizeof(x));
    __syncwarp();
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++) { /* sums that do not wait for each other */
            int row = g + i / 2 * 8, col = 2 * t + i % 2;
            const struct mine *u = (const struct mine *)(slots + 64 * (row % 8 * 4 + k % 8 / 2));
            const struct mine *v = (const struct mine *)(slots + 64 * (col * 4 + k % 8 / 2));
            c[i] += u->a[(row / 8 + k / 8 * 2) * 2 + k % 2] * v->b[k / 8 * 2 + k % 2];
        }
    __syncwarp();
}

static inline void sn_emul_copy_aligned(void *to, const void *from, int bytes, bool there)
{
    if ((uintptr_t)to % (unsigned)bytes || (there && (uintptr_t)from % (unsigned)bytes)) {
        fprintf(stderr, "emul: a copy of %d bytes is not aligned\n", bytes);
        abort();
    }
    sn_emul_copy(to, from, bytes, there);
}
static inline void sn_copy_async(void *to, const void *from, bool there)
{
    sn_emul_copy_aligned(to, from, 16, there);
}
static inline void sn_copy_async_8(void *to, const void *from, bool there)
{
    sn_emul_copy_aligned(to, from, 8, there);
}
static inline void sn_copy_async_4(void *to, const void *from, bool there)
{
    sn_emul_copy_aligned(to, from, 4, there);
}
static inline void sn_copy_commit(void)
{
    sn_emul_commit();
}
template <int n> static void sn_copy_wait(void)
{
    sn_emul_wait(n);
}

#endif
