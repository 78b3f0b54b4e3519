/*
 * codec_mpc.cuh - mpc's halves of ENCODE and DECODE (codec_mpc.cu), which codec_ops.cu calls.
 */
#ifndef SN_CUDA_CODEC_MPC_CUH
#define SN_CUDA_CODEC_MPC_CUH

#include "kernels/cuda/cuda.h"

int sn_cuda_mpc_encode(struct sn_cuda *cx, const struct sn_args *a);
int sn_cuda_mpc_decode(struct sn_cuda *cx, const struct sn_args *a);

#endif
