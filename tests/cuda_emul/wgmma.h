/*
 * wgmma.h - kernels/cuda/wgmma.cuh, emulated: descriptors are read as its head describes them, a
 * byte's address is swizzled by its bits 7 to 9; canonical.h reads them once more, another way, and
 * both must agree.
 *
 * Products happen when they are waited for, not before: then shared memory is read and sums are
 * written, which are NaN until then. What a device leaves undefined ends the program with a
 * message: a product without a fence since the last wait, operands that their writer did not
 * publish (fence.proxy.async) or that no barrier followed, sums that change while a product on them
 * is pending, products that nobody waits for, threads of one group that name different operands,
 * descriptors that it does not take.
 * Sources that include wgmma.cuh are compiled with -fsanitize=thread, whose calls tell who wrote
 * which byte (wgmma.cc).
 */
#ifndef SN_EMUL_WGMMA_H
#define SN_EMUL_WGMMA_H
#define SN_CUDA_WGMMA_CUH /* this is it */

#include "kernels/cuda/wgmma_descriptor.h"
#include "tests/cuda_emul/mma.h"

#define SN_HAS_WGMMA 1

struct sn_emul_product {
    const float *wide; /* the number that each 16 bits are as an element */
    float (*c)[4];     /* n fragments of 8 columns */
    int n;
    uint64_t a, b; /* descriptors; a is not used where A is in registers */
    bool a_turned, b_turned, in_registers;
    bool anew;      /* c = A B, whatever was in c */
    float x[2][16]; /* this thread's two rows of A, where it is in registers */
};

void sn_emul_product_fence(void);
void sn_emul_product_issue(const struct sn_emul_product *p);
void sn_emul_product_commit(void);
void sn_emul_product_wait(int pending); /* until all but the last so many groups are done */
void sn_emul_publish(void);             /* what this thread wrote to shared memory */

static inline uint64_t sn_wgmma_descriptor(const void *tile, int rows8, int columns64)
{
    return sn_wgmma_bits((uint64_t)((const unsigned char *)tile - sn_emul_shared()), rows8,
                         columns64);
}

/* Of every pattern of 16 bits, made once. */
template <class E> static const float *sn_emul_numbers(void)
{
    static float number[1 << 16];
    static bool made;
    for (int i = 0; i < 1 << 16 && !made; i++) {
        uint16_t bits = (uint16_t)i;
        E e;
        memcpy(&e, &bits, sizeof(e));
        number[i] = sn_emul_wide(e);
    }
    made = true;
    return number;
}

static inline void sn_wgmma_begin(void)
{
    sn_emul_product_fence();
}
template <int N> static void sn_wgmma_end(float (&)[N][4])
{
    sn_emul_product_commit();
    sn_emul_product_wait(0);
}
static inline void sn_wgmma_publish(void)
{
    sn_emul_publish();
}

template <class E> static void sn_wgmma(float c[16][4], uint64_t a, uint64_t b, const E *)
{
    struct sn_emul_product p = {sn_emul_numbers<E>(), c, 16, a, b, false, false, false, false, {}};
    sn_emul_product_issue(&p);
}

/* The rows of A that this thread multiplies, from the fragments of its warp. */
template <class E> static void sn_emul_rows_of(const uint32_t a[4], float x[2][16])
{
    E row[32][8];
    int lane = sn_emul_lane(), g = lane / 4;
    unsigned char *slots = (unsigned char *)sn_emul_slots();
    memcpy(slots + 64 * lane, a, 16);
    __syncwarp();
    for (int i = 0; i < 32; i++)
        memcpy(row[i], slots + 64 * i, 16);
    __syncwarp();
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 16; k++)
            x[h][k] = sn_emul_wide(row[g * 4 + k % 8 / 2][(h + k / 8 * 2) * 2 + k % 2]);
}

template <class E, int N>
static void sn_wgmma_turned(float (&c)[N][4], const uint32_t a[4], uint64_t b, const E *)
{
    struct sn_emul_product p = {sn_emul_numbers<E>(), c, N, 0, b, false, true, true, false, {}};
    sn_emul_rows_of<E>(a, p.x);
    sn_emul_product_issue(&p);
}

#include "tests/cuda_emul/wgmma_shared.h"

#endif
