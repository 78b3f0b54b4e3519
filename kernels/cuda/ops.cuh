/*
 * ops.cuh - one function for each operation, as table.cu collects them, and their scratch.
 */
#ifndef SN_CUDA_OPS_CUH
#define SN_CUDA_OPS_CUH

#include "kernels/cuda/cuda.h"

#define SN_CUDA_OP(name) int sn_cuda_##name(struct sn_cuda *cx, const struct sn_args *a)

#define SN_CUDA_DECLARE(KIND, name) SN_CUDA_OP(name);
SN_OP_KINDS(SN_CUDA_DECLARE)
#undef SN_CUDA_DECLARE

#endif
