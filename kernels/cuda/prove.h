/*
 * prove.h - the warpgroup product of sn_cuda_prove_warpgroup (cuda.h), for who computes it and who
 * checks it.
 */
#ifndef SN_CUDA_PROVE_H
#define SN_CUDA_PROVE_H

#include "kernels/both.h"

/* C[64,128] = A[64,64] B[64,128] of small whole numbers, exact in bf16; sums in fp32. */
enum { SN_PROVE_ROWS = 64, SN_PROVE_COLS = 128, SN_PROVE_DEPTH = 64 };
SN_BOTH int sn_prove_a(int row, int k)
{
    return (row + 2 * k) % 5 - 2;
}
SN_BOTH int sn_prove_b(int k, int col)
{
    return (3 * k + col) % 7 - 3;
}

#endif
