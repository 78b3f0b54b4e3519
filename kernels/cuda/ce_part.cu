/*
 * ce_part.cu - CE_PART: (m, sum e^(x - m), x_target or 0) of this rank's columns of a row.
 */
#include "kernels/cuda/cross_entropy.cuh"
#include "kernels/cuda/ops.cuh"

template <class A>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) ce_part(const struct sn_args a)
{
    __shared__ float max_room[SN_WARP];
    __shared__ double sum_room[SN_WARP];
    for (int64_t r = blockIdx.x; r < a.in[SN_CE_PART_LOGITS].rows; r += gridDim.x) {
        struct sn_ce_sum s =
            sn_ce_row<A>(a, r, max_room, sum_room);
        int64_t target = sn_ce_column(a, r);
        if (threadIdx.x != 0)
            continue;
        float *part = (float *)a.out[SN_CE_PART_PART].p + r * a.out[SN_CE_PART_PART].ld;
        part[0] = s.max;
        part[1] = (float)s.sum;
        part[2] = target < 0 ? 0.0f
                             : sn_ce_capped(sn_element(a.in[SN_CE_PART_LOGITS], r, target),
                                            a.attr.vocab.cap);
    }
}

SN_CUDA_OP(ce_part)
{
    const struct sn_mat *m[] = {&a->in[SN_CE_PART_LOGITS]};
    SN_BY_TYPE(sn_common(m, 1), return sn_launch(cx, ce_part<A>,
                                                 sn_shape_ce(a->in[SN_CE_PART_LOGITS].rows,
                                                             a->in[SN_CE_PART_LOGITS].cols / A::N),
                                                 *a))
    return 0;
}
