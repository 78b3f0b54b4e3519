/*
 * gemm_inner.cuh - what gemm.cu and gemm_epilogue.cu have of each other.
 */
#ifndef SN_CUDA_GEMM_INNER_CUH
#define SN_CUDA_GEMM_INNER_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"

/* gemm.cu. A product with its epilogue, if it has one, as the library would compute it: */
/* Are operands and alignments such as it takes? */
bool sn_gemm_is_for_library(const struct sn_args *a);
/* Compute it, unless the library refuses. */
int sn_gemm_by_library(struct sn_cuda *cx, const struct sn_args *a, bool *refused);
/* What is kept of this shape; NULL: nothing yet. */
const struct sn_cuda_plan *sn_gemm_plan(struct sn_cuda *cx, const struct sn_args *a);
/* Time the library's algorithms and keep the fastest, if there is one that works. */
int sn_gemm_find_plan(struct sn_cuda *cx, const struct sn_args *a);
/* Keep that the epilogue is a kernel of its own. */
void sn_gemm_keep_apart(struct sn_cuda *cx, const struct sn_args *a);
/* For sn_cuda_gemm_note(). */
void sn_gemm_remember(struct sn_cuda *cx, const struct sn_args *a, bool is_refused);

/* gemm_epilogue.cu: a product that has one. */
int sn_gemm_with_epilogue(struct sn_cuda *cx, const struct sn_args *a);

#endif
