/* attention_wgmma_dkv_f16.cu - dk and dv of f16 (attention_wgmma_dkv.cuh). */
#include "kernels/cuda/attention_wgmma_dkv.cuh"

int sn_attn_wgmma_dkv_f16(struct sn_cuda *cx, const struct sn_args *a,
                          const struct sn_attn_row *known, bool *taken)
{
    return keys_of<sn_f16>(cx, a, known, taken);
}
