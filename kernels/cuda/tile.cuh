/*
 * tile.cuh - products of tiles in shared memory, C (+)= op(A) op(B), on two engines.
 *
 * C is fp32. All threads of the block call this; sizes are multiples of 16 (sn_simt: of 4), and
 * whoever reads C or writes A or B next synchronises the block first. Each element of C belongs to
 * one thread or warp, which adds in the order of depth.
 */
#ifndef SN_CUDA_TILE_CUH
#define SN_CUDA_TILE_CUH

#include "kernels/cuda/device.cuh"

#include <mma.h>

/* A tile: rows x cols of E at `ld`; trans: it is the transpose of what is stored. */
template <class E> struct sn_operand {
    const E *p;
    int ld;
    bool trans;
};

struct sn_simt {
    typedef float element;
    enum { TENSOR = 0 };

    /* 4 x 4 elements of C a thread. */
    static __device__ __forceinline__ void product(float *c, int ldc, int m, int n, int k,
                                                   sn_operand<float> a, sn_operand<float> b,
                                                   bool add)
    {
        int across = n / 4, all = m / 4 * across;
        int a_row = a.trans ? 1 : a.ld, a_col = a.trans ? a.ld : 1;
        int b_row = b.trans ? 1 : b.ld, b_col = b.trans ? b.ld : 1;
        for (int i = (int)threadIdx.x; i < all; i += (int)blockDim.x) {
            const float *pa = a.p + i / across * 4 * a_row, *pb = b.p + i % across * 4 * b_col;
            float *pc = c + i / across * 4 * ldc + i % across * 4;
            float sum[4][4];
#pragma unroll
            for (int y = 0; y < 4; y++)
#pragma unroll
                for (int x = 0; x < 4; x++)
                    sum[y][x] = add ? pc[y * ldc + x] : 0.0f;
            for (int l = 0; l < k; l++) {
                float u[4], v[4];
#pragma unroll
                for (int y = 0; y < 4; y++) {
                    u[y] = pa[y * a_row + l * a_col];
                    v[y] = pb[y * b_col + l * b_row];
                }
#pragma unroll
                for (int y = 0; y < 4; y++)
#pragma unroll
                    for (int x = 0; x < 4; x++)
                        sum[y][x] += u[y] * v[x];
            }
#pragma unroll
            for (int y = 0; y < 4; y++)
#pragma unroll
                for (int x = 0; x < 4; x++)
                    pc[y * ldc + x] = sum[y][x];
        }
    }
};

/* 16 x 16 elements of C a warp; E is sn_f16, or sn_bf16 from sm_80 on. */
template <class E> struct sn_wmma {
    typedef E element;
    enum { TENSOR = 1 };

    template <class LA, class LB>
    static __device__ __forceinline__ void run(float *c, int ldc, int m, int n, int k,
                                               sn_operand<E> a, sn_operand<E> b, bool add)
    {
        using namespace nvcuda;
        int warps = (int)blockDim.x / SN_WARP, across = n / 16, all = m / 16 * across;
        for (int i = (int)threadIdx.x / SN_WARP; i < all; i += warps) {
            int row = i / across * 16, col = i % across * 16;
            float *pc = c + row * ldc + col;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
            if (add)
                wmma::load_matrix_sync(sum, pc, (unsigned)ldc, wmma::mem_row_major);
            else
                wmma::fill_fragment(sum, 0.0f);
            for (int l = 0; l < k; l += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, E, LA> fa;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, E, LB> fb;
                wmma::load_matrix_sync(fa, a.p + (a.trans ? l * a.ld + row : row * a.ld + l),
                                       (unsigned)a.ld);
                wmma::load_matrix_sync(fb, b.p + (b.trans ? col * b.ld + l : l * b.ld + col),
                                       (unsigned)b.ld);
                wmma::mma_sync(sum, fa, fb, sum);
            }
            wmma::store_matrix_sync(pc, sum, (unsigned)ldc, wmma::mem_row_major);
        }
    }

    static __device__ __forceinline__ void product(float *c, int ldc, int m, int n, int k,
                                                   sn_operand<E> a, sn_operand<E> b, bool add)
    {
        using namespace nvcuda;
        if (a.trans && b.trans)
            run<wmma::col_major, wmma::col_major>(c, ldc, m, n, k, a, b, add);
        else if (a.trans)
            run<wmma::col_major, wmma::row_major>(c, ldc, m, n, k, a, b, add);
        else if (b.trans)
            run<wmma::row_major, wmma::col_major>(c, ldc, m, n, k, a, b, add);
        else
            run<wmma::row_major, wmma::row_major>(c, ldc, m, n, k, a, b, add);
    }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <> struct sn_wmma<sn_bf16> { /* never launched there */
    typedef sn_bf16 element;
    enum { TENSOR = 1 };
    static __device__ __forceinline__ void product(float *, int, int, int, int, sn_operand<sn_bf16>,
                                                   sn_operand<sn_bf16>, bool)
    {
    }
};
#endif

#endif
