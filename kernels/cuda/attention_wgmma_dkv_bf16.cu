/* attention_wgmma_dkv_bf16.cu - dk and dv of bf16 (attention_wgmma_dkv.cuh). */
#include "kernels/cuda/attention_wgmma_dkv.cuh"

int sn_attn_wgmma_dkv_bf16(struct sn_cuda *cx, const struct sn_args *a,
                           const struct sn_attn_row *known, bool *taken)
{
    return keys_of<sn_bf16>(cx, a, known, taken);
}
