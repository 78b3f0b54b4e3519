/*
 * ops.cuh - one function for each operation, as table.cu collects them, and their scratch.
 */
#ifndef SN_CUDA_OPS_CUH
#define SN_CUDA_OPS_CUH

#include "kernels/cuda/cuda.h"

#define SN_CUDA_OP(name) int sn_cuda_##name(struct sn_cuda *cx, const struct sn_args *a)

SN_CUDA_OP(zero);
SN_CUDA_OP(copy);
SN_CUDA_OP(embed);
SN_CUDA_OP(embed_grad);
SN_CUDA_OP(pos_grad);
SN_CUDA_OP(layernorm);
SN_CUDA_OP(layernorm_dx);
SN_CUDA_OP(layernorm_dw);
SN_CUDA_OP(rmsnorm);
SN_CUDA_OP(rmsnorm_dx);
SN_CUDA_OP(rmsnorm_dw);
SN_CUDA_OP(gemm);
SN_CUDA_OP(colsum);
SN_CUDA_OP(rope);
SN_CUDA_OP(attention);
SN_CUDA_OP(attention_dx);
SN_CUDA_OP(act);
SN_CUDA_OP(act_dx);
SN_CUDA_OP(swiglu);
SN_CUDA_OP(swiglu_dx);
SN_CUDA_OP(add);
SN_CUDA_OP(dropout);
SN_CUDA_OP(jitter);
SN_CUDA_OP(cross_entropy);
SN_CUDA_OP(ce_part);
SN_CUDA_OP(swap);
SN_CUDA_OP(route);
SN_CUDA_OP(route_dx);
SN_CUDA_OP(route_loss);
SN_CUDA_OP(place);
SN_CUDA_OP(arrive);
SN_CUDA_OP(dispatch);
SN_CUDA_OP(combine);
SN_CUDA_OP(combine_dw);
SN_CUDA_OP(expert_gemm);
SN_CUDA_OP(sq_norm);
SN_CUDA_OP(decide);
SN_CUDA_OP(adamw);
SN_CUDA_OP(balance);
SN_CUDA_OP(encode);
SN_CUDA_OP(decode);

#endif
