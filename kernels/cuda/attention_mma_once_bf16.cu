/* attention_mma_once_bf16.cu - dq, dk and dv in any order of bf16 (attention_mma_dkv.cuh). */
#include "kernels/cuda/attention_mma_dkv.cuh"

int sn_attn_mma_once_bf16(struct sn_cuda *cx, const struct sn_args *a,
                          const struct sn_attn_row *known, float *dq)
{
    return sn_by_width<keys_and_queries, sn_bf16>(cx, a, known, dq);
}
