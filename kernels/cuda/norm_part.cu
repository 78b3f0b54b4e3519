/*
 * norm_part.cu - NORM_PART and NORM_DX_PART: formulas as in kernels/cpu/norm_part.c.
 */
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/ops.cuh"

template <class A, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) norm_part(const struct sn_args a)
{
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_PART_X], &out = a.out[SN_NORM_PART_PART];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows, layer = out.cols == 2;
        sn_row<A, kept> row(x, r, there);
        struct sn_moments m = {0, 0};
        if (layer)
            m = sn_row_moments(row, there, room);
        else
            m.mean = sn_row_mean_square(row, there, room);
        if (!there || threadIdx.x != 0)
            continue;
        float *part = (float *)out.p + r * out.ld;
        part[0] = (float)m.mean;
        if (layer)
            part[1] = (float)m.variance;
    }
}

SN_CUDA_OP(norm_part)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_PART_X]};
    SN_BY_TYPE(sn_common(m, 1), return SN_LAUNCH_ROWS(norm_part, cx, a, a->in[SN_NORM_PART_X].rows,
                                                      a->in[SN_NORM_PART_X].cols))
    return 0;
}

template <class A, class Norm, bool kept>
static __global__ void __launch_bounds__(SN_BLOCK_MOST) norm_dx_part(const struct sn_args a)
{
    __shared__ double room[SN_WARP];
    const struct sn_mat &x = a.in[SN_NORM_DX_PART_X], &out = a.out[SN_NORM_DX_PART_PART];
    for (int64_t base = sn_first_row(); base < x.rows; base += sn_row_step()) {
        int64_t r = base + threadIdx.y;
        bool there = r < x.rows;
        sn_row<A, kept> row(x, r, there);
        Norm norm(a.in[SN_NORM_DX_PART_STATS], there ? r : 0);
        double mean[2];
        sn_weighted_means(a, row, there, norm, room, mean);
        if (!there || threadIdx.x != 0)
            continue;
        for (int k = 0; k < Norm::OUTS; k++)
            ((float *)out.p)[r * out.ld + k] = (float)mean[2 - Norm::OUTS + k];
    }
}

template <class A, class Norm> static int dx_part(struct sn_cuda *cx, const struct sn_args *a)
{
    int64_t width = a->in[SN_NORM_DX_PART_X].cols / A::N;
    struct sn_shape g = sn_shape_rows(a->in[SN_NORM_DX_PART_X].rows, width);
    return sn_row_is_kept(width) ? sn_launch(cx, norm_dx_part<A, Norm, true>, g, *a)
                                 : sn_launch(cx, norm_dx_part<A, Norm, false>, g, *a);
}

SN_CUDA_OP(norm_dx_part)
{
    const struct sn_mat *m[] = {&a->in[SN_NORM_DX_PART_DY], &a->in[SN_NORM_DX_PART_X],
                                &a->in[SN_NORM_DX_PART_W]};
    SN_BY_TYPE(sn_common(m, 3), return a->out[SN_NORM_DX_PART_PART].cols == 2
                                           ? dx_part<A, sn_layer_row>(cx, a)
                                           : dx_part<A, sn_rms_row>(cx, a))
    return 0;
}
