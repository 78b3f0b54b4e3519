/*
 * dropout.cu - DROPOUT and JITTER; kernels/dropout.h specifies the factors, the CPU draws the same.
 */
#include "kernels/dropout.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"
#include "kernels/position.h"

template <class A> struct dropout : sn_all_rows {
    enum { N = A::N };
    static __device__ __forceinline__ void at(const struct sn_args &a, int64_t r, int64_t c)
    {
        float x[N], g[N];
        const struct sn_noise noise = sn_noise_of(&a.attr, a.scalars);
        int64_t sample = a.scalars->first_sample + sn_row_sample(&a.attr.position, r);
        int64_t first = sn_noise_element(&a.attr, &a.in[SN_NOISE_X], r, c), group = -1;
        struct sn_philox w = {{0, 0, 0, 0}};
        A::load(a.in[SN_NOISE_X], r, c, x);
        if (a.in[SN_NOISE_ADDEND].p)
            A::load(a.in[SN_NOISE_ADDEND], r, c, g);
#pragma unroll
        for (int i = 0; i < N; i++) {
            int64_t e = first + i;
            if (e / 4 != group) {
                group = e / 4;
                w = sn_dropout_words(noise.key, a.attr.random.site, sample, group);
            }
            int k = (int)(e % 4); /* no index into registers */
            uint32_t word = k == 0 ? w.v[0] : k == 1 ? w.v[1] : k == 2 ? w.v[2] : w.v[3];
            float y = x[i] * sn_noise_factor(word, &noise);
            x[i] = a.in[SN_NOISE_ADDEND].p ? y + g[i] : y;
        }
        A::store(a.out[SN_NOISE_Y], r, c, x);
    }
};

SN_CUDA_OP(dropout)
{
    const struct sn_mat *m[] = {&a->in[SN_NOISE_X], &a->in[SN_NOISE_ADDEND], &a->out[SN_NOISE_Y]};
    SN_BY_TYPE(sn_common(m, 3), return sn_plane_run<dropout<A>>(cx, a, a->out[SN_NOISE_Y].rows,
                                                                a->out[SN_NOISE_Y].cols))
    return 0;
}

/* attr.random.jitter says which factors. */
SN_CUDA_OP(jitter)
{
    return sn_cuda_dropout(cx, a);
}
