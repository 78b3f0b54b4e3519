/*
 * attention_cudnn.cuh - the one place where attention may go to cuDNN instead of our own kernels.
 */
#ifndef SN_CUDA_ATTENTION_CUDNN_CUH
#define SN_CUDA_ATTENTION_CUDNN_CUH

#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/cuda/sdpa.h"
}

/* Compute an ATTENTION or ATTENTION_DX by cuDNN, if the run lets it, it is there and it can. False:
 * our own kernels are to do it. True: *rc is the operation's result. */
bool sn_attn_cudnn(struct sn_cuda *cx, const struct sn_args *a, bool is_backward, int *rc);

/* Scratch of that, whatever the device; 0 where it is out of the question. */
size_t sn_attn_cudnn_scratch(const struct sn_args *a, bool is_backward);

#endif
