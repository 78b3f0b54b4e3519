/*
 * gemm_fp8.cuh - what gemm.cu and gemm_fp8.cu share: where the rounded copies of a GEMM's operands
 * lie in its scratch, behind the library's workspace.
 */
#ifndef SN_CUDA_GEMM_FP8_CUH
#define SN_CUDA_GEMM_FP8_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"
#include "kernels/fp8.h"

struct sn_fp8_call {
    struct sn_fp8_parts parts[2];
    bool turned[2];    /* its rows in memory are the depth */
    void *copy[2];     /* codes, [rows or columns of the result, depth]; or bf16, as it lies */
    unsigned *most;    /* bits of the largest magnitudes, where each operand has one scale */
    float *inverse[2]; /* what codes are multiplied with: for the library */
    int64_t depth;     /* of copies of codes */
};

/* Places, and the magnitudes of whole operands; then one of the two copies. `out`: the product of the copies in bf16. */
int sn_fp8_begin(struct sn_cuda *cx, const struct sn_args *a, struct sn_fp8_call *f);
int sn_fp8_codes(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f);
int sn_fp8_values(struct sn_cuda *cx, const struct sn_args *a, const struct sn_fp8_call *f,
                  struct sn_args *out);

#endif
