/*
 * router_bias.cu - ROUTER_BIAS: biases of routers after a step, as in kernels/cpu/router_bias.c. A warp has a
 * layer; a count is a whole number, so the order of its sum does not matter.
 */
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops.cuh"

enum { WARPS = SN_BLOCK / SN_WARP };

static __global__ void __launch_bounds__(SN_BLOCK) router_bias(const struct sn_args a)
{
    const struct sn_mat &counts = a.in[SN_ROUTER_BIAS_COUNTS];
    int lane = (int)threadIdx.x % SN_WARP;
    int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / SN_WARP;
    if (!a.scalars->ok)
        return;
    for (int64_t l = first; l < counts.rows; l += (int64_t)gridDim.x * WARPS) {
        const float *c = (const float *)counts.p + l * counts.ld;
        float *b = (float *)a.out[SN_ROUTER_BIAS_BIAS].p + l * a.out[SN_ROUTER_BIAS_BIAS].ld;
        double mean = 0;
        for (int64_t e = lane; e < counts.cols; e += SN_WARP)
            mean += (double)c[e];
        mean = sn_warp_sum(mean) / (double)counts.cols;
        for (int64_t e = lane; e < counts.cols; e += SN_WARP)
            b[e] += (double)c[e] < mean   ? a.attr.experts.rate
                    : (double)c[e] > mean ? -a.attr.experts.rate
                                          : 0.0f;
    }
}

SN_CUDA_OP(router_bias)
{
    return sn_launch(cx, router_bias, sn_shape_line(a->in[SN_ROUTER_BIAS_COUNTS].rows * SN_WARP),
                     *a);
}
