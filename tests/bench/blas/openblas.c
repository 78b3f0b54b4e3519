/*
 * openblas.c - the one file that includes cblas.h; see blas.h.
 */
#include "tests/bench/blas/blas.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

const char *sn_blas_core(void)
{
    return openblas_get_corename();
}

/* Only a pin can choose a core without AVX-512 where the processor has it. */
bool sn_blas_is_held_back(void)
{
    if (!getenv("OPENBLAS_CORETYPE"))
        return false;
    return !strstr("SkylakeX Cooperlake SapphireRapids", sn_blas_core());
}

void sn_blas_sgemm(const struct sn_blas_gemm *g)
{
    cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
                g->trans_b ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n, (blasint)g->k,
                1.0f, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, 0.0f, g->c, (blasint)g->ldc);
}
