/*
 * blas.h - what we know of the BLAS library that benchmarks compare GEMM with.
 *
 * No kernel calls BLAS: kernels/cpu/gemm/gemm.c is as fast, has the same bits for every number of
 * threads, and converts bf16 on the way. (Debian's serial OpenBLAS also hands one buffer to two
 * callers when threads enter it at the same moment: its list of buffers is unlocked.)
 */
#ifndef SN_BLAS_H
#define SN_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* "SkylakeX", "Haswell", ...: the kernels that OpenBLAS chose. NULL: there is no OpenBLAS here. */
const char *sn_blas_core(void);
/* The environment (OPENBLAS_CORETYPE) makes OpenBLAS use less than this processor has. */
bool sn_blas_is_held_back(void);

/* Row-major C[m,n] = op(A) op(B), one thread, packed rows. */
struct sn_blas_gemm {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb, ldc;
    float *c;
};
void sn_blas_sgemm(const struct sn_blas_gemm *g);

#endif
