/*
 * route_loss.cu - ROUTE_LOSS: formulas as in kernels/cpu/route.c.
 */
#include "kernels/cuda/route.cuh"

struct losses {
    double balance, z;
};

/* part[b]: of the rows of block b, in order within each warp, then over its warps. */
static __global__ void __launch_bounds__(SN_BLOCK)
    route_losses(const struct sn_args a, struct losses *part)
{
    __shared__ struct losses room[SN_ROUTE_WARPS];
    const struct sn_mat &x = a.in[SN_ROUTE_LOSS_LOGITS];
    int lane = (int)threadIdx.x % SN_WARP, warp = (int)threadIdx.x / SN_WARP;
    struct losses mine = {0, 0};
    bool dense = a.attr.experts.dense, sigmoids = a.attr.experts.sigmoid, each = a.attr.experts.by_sequence;
    for (int64_t r = sn_warp_number(); r < x.rows; r += (int64_t)gridDim.x * SN_ROUTE_WARPS) {
        const float *of = sn_floats(x, r), *counts = sn_counts_of(a, a.in[SN_ROUTE_LOSS_COUNTS], r);
        double all = dense || each ? sn_all_counts(counts, x.cols, lane) : 1;
        double lse = sn_lse_of(of, x.cols, lane), dot = 0;
        double parts = sigmoids ? sn_sum_of_sigmoids(of, x.cols, lane) : 1;
        for (int64_t e = lane; e < x.cols; e += SN_WARP) {
            double log_p = (double)of[e] - lse, count = (double)counts[e];
            double p = sigmoids ? (double)sn_sigmoid(of[e]) / parts : exp(log_p);
            dot += p * (dense ? sn_information(count, all, log_p) : count);
        }
        dot = sn_warp_sum(dot);
        mine.balance += !each ? dot : all > 0 ? (double)x.cols * dot / all : 0;
        mine.z += lse * lse;
    }
    if (lane == 0)
        room[warp] = mine;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < SN_ROUTE_WARPS; i++) {
        mine.balance += room[i].balance;
        mine.z += room[i].z;
    }
    part[blockIdx.x] = mine;
}

static __global__ void __launch_bounds__(SN_WARP)
    add_route_losses(const struct sn_args a, const struct losses *part, int64_t blocks)
{
    int64_t n = a.in[SN_ROUTE_LOSS_LOGITS].cols;
    bool done = a.attr.experts.dense || a.attr.experts.by_sequence;
    double all = sn_all_counts((const float *)a.in[SN_ROUTE_LOSS_COUNTS].p, n, (int)threadIdx.x),
           balance = 0, z = 0;
    for (int64_t b = 0; b < blocks; b++) {
        balance += part[b].balance;
        z += part[b].z;
    }
    if (threadIdx.x != 0)
        return;
    double factor = done ? 1 : all > 0 ? (double)n / all : 0;
    a.scalars->balance_sum += factor * balance;
    a.scalars->z_sum += z;
}

SN_CUDA_OP(route_loss)
{
    struct losses *part = (struct losses *)a->scratch;
    struct sn_shape many = sn_shape_route_loss(a->in[SN_ROUTE_LOSS_LOGITS].rows),
                    one = {many.x > 0, 1, 1, SN_WARP, 1, 0};
    int rc = sn_launch(cx, route_losses, many, *a, part);
    return rc ? rc : sn_launch(cx, add_route_losses, one, *a, part, (int64_t)many.x);
}
