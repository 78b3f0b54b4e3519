/*
 * prove.cu - one warpgroup product with a known result, sm_90a (prove.h). Compiled for another target
 * the kernel is empty, which the result shows.
 */
#include "kernels/cuda/prove.h"
#include "kernels/cuda/wgmma.cuh"

enum { THREADS = 128, ROW = 128 /* bytes: 64 elements deep */ };
enum { A_BYTES = SN_PROVE_ROWS * ROW, B_BYTES = SN_PROVE_COLS * ROW };
static_assert(SN_PROVE_DEPTH * 2 == ROW && A_BYTES % 1024 == 0, "tiles as wgmma.cuh wants them");

static __device__ __forceinline__ int at(int row, int k)
{
    return row * ROW + ((k / 8) ^ (row % 8)) * 16 + k % 8 * 2;
}

static __device__ __forceinline__ void multiply(unsigned char *shared, float *out)
{
    int warp = (int)threadIdx.x / SN_WARP, lane = (int)threadIdx.x % SN_WARP;
    float c[SN_PROVE_COLS / 8][4] = {};
    for (int i = (int)threadIdx.x; i < SN_PROVE_ROWS * SN_PROVE_DEPTH; i += THREADS) {
        int row = i / SN_PROVE_DEPTH, k = i % SN_PROVE_DEPTH;
        sn_narrow((sn_bf16 *)(shared + at(row, k)), (float)sn_prove_a(row, k));
    }
    for (int i = (int)threadIdx.x; i < SN_PROVE_COLS * SN_PROVE_DEPTH; i += THREADS) {
        int col = i / SN_PROVE_DEPTH, k = i % SN_PROVE_DEPTH;
        sn_narrow((sn_bf16 *)(shared + A_BYTES + at(col, k)), (float)sn_prove_b(k, col));
    }
    sn_wgmma_publish();
    __syncthreads();
    sn_wgmma_begin();
#pragma unroll
    for (int k = 0; k < SN_PROVE_DEPTH / 16; k++)
        sn_wgmma(c, sn_wgmma_descriptor(shared + k * 32, 8 * ROW, 16),
                 sn_wgmma_descriptor(shared + A_BYTES + k * 32, 8 * ROW, 16), (const sn_bf16 *)0);
    sn_wgmma_end(c);
    for (int n = 0; n < SN_PROVE_COLS / 8; n++)
        for (int i = 0; i < 4; i++)
            out[(warp * 16 + lane / 4 + i / 2 * 8) * SN_PROVE_COLS + n * 8 + lane % 4 * 2 + i % 2] =
                c[n][i];
}

static __global__ void __launch_bounds__(THREADS) prove(float *out)
{
    SN_DYNAMIC_SHARED(shared); /* begins at a multiple of 1024 bytes */
    if constexpr (SN_HAS_WGMMA)
        multiply(shared, out);
}

int sn_cuda_prove_warpgroup(struct sn_cuda *cx, float *out)
{
    struct sn_shape g = {1, 1, 1, THREADS, 1, A_BYTES + B_BYTES};
    return sn_launch(cx, prove, g, out);
}
