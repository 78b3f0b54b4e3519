/*
 * wgmma_shared.h - kernels/cuda/wgmma_shared.cuh, emulated.
 */
#ifndef SN_EMUL_WGMMA_SHARED_H
#define SN_EMUL_WGMMA_SHARED_H
#define SN_CUDA_WGMMA_SHARED_CUH /* this is it */

#include "tests/cuda_emul/wgmma.h"

static inline void sn_wgmma_commit(void)
{
    sn_emul_product_commit();
}
template <int n> static void sn_wgmma_wait(void)
{
    sn_emul_product_wait(n);
}
template <int later = 0, int N> static void sn_wgmma_finish(float (&)[N][4])
{
    sn_emul_product_wait(later);
}

template <int TA, int TB, int ADD = 1, class E, int N>
static void sn_wgmma_shared(float (&c)[N][4], uint64_t a, uint64_t b, const E *)
{
    struct sn_emul_product p = {
        sn_emul_numbers<E>(), c, N, a, b, TA != 0, TB != 0, false, !ADD, {}};
    sn_emul_product_issue(&p);
}

#endif
