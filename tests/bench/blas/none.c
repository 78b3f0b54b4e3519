/*
 * none.c - in the place of openblas.c where there is no OpenBLAS.
 */
#include "tests/bench/blas/blas.h"

#include <stddef.h>

const char *sn_blas_core(void)
{
    return NULL;
}

bool sn_blas_is_held_back(void)
{
    return false;
}

void sn_blas_sgemm(const struct sn_blas_gemm *g)
{
    (void)g; /* nobody calls: there is no core */
}
