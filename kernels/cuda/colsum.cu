/*
 * colsum.cu - COLSUM: the gradient of a bias.
 */
#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/ops.cuh"

template <class A> struct colsum {
    enum { N = A::N, OUTS = 1 };
    static __device__ __forceinline__ void terms(const struct sn_args &a, int64_t r, int64_t c,
                                                 float t[OUTS][N])
    {
        A::load(a.in[SN_COLSUM_DY], r, c, t[0]);
    }
};

SN_CUDA_OP(colsum)
{
    const struct sn_mat *m[] = {&a->in[SN_COLSUM_DY]};
    SN_BY_TYPE(sn_common(m, 1), return sn_sum_columns<colsum<A>>(cx, a, a->in[SN_COLSUM_DY].rows,
                                                                 a->in[SN_COLSUM_DY].cols))
    return 0;
}
