/*
 * table.c - the operations table of one instruction set.
 */
#include "kernels/cpu/bf16.h"

static size_t scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    switch (kind) {
    case SN_OP_GEMM:
        return SN_K(sn_gemm_scratch)(a, threads);
    case SN_OP_EXPERT_GEMM:
        return SN_K(sn_expert_gemm_scratch)(a, threads);
    case SN_OP_ATTENTION:
        return SN_K(sn_attention_scratch)(a, threads);
    case SN_OP_ATTENTION_DX:
        return SN_K(sn_attention_dx_scratch)(a, threads);
    case SN_OP_ATTENTION_ROWS:
        return SN_R(sn_attention_rows_scratch)(a, threads);
    case SN_OP_CROSS_ENTROPY:
        return SN_R(sn_cross_entropy_scratch)(a, threads);
    case SN_OP_ENCODE:
    case SN_OP_DECODE:
        return SN_R(sn_coded_scratch)(a);
    case SN_OP_ORTHOGONALISE:
        return SN_R(sn_orthogonalise_scratch)(a);
    default:
        return SN_R(sn_elementwise_scratch)(kind, a, threads);
    }
}

static bool multiplies(enum sn_dtype t)
{
    return t == SN_BF16 && SN_K(sn_bf16);
}

#define UPDATE(KIND, name) [SN_OP_##KIND] = SN_R(sn_##name),
#define SN_STR2(x)         #x
#define SN_STR(x)          SN_STR2(x)

extern const struct sn_ops SN_K(sn_cpu_table);
const struct sn_ops SN_K(sn_cpu_table) = {
    .name = "cpu/" SN_STR(SN_ISA),
    .run = {[SN_OP_ZERO] = SN_R(sn_zero),
            [SN_OP_COPY] = SN_R(sn_copy),
            [SN_OP_EMBED] = SN_R(sn_embed),
            [SN_OP_EMBED_GRAD] = SN_R(sn_embed_grad),
            [SN_OP_POS_GRAD] = SN_R(sn_pos_grad),
            [SN_OP_LAYERNORM] = SN_R(sn_layernorm),
            [SN_OP_LAYERNORM_DX] = SN_R(sn_layernorm_dx),
            [SN_OP_LAYERNORM_DW] = SN_R(sn_layernorm_dw),
            [SN_OP_RMSNORM] = SN_R(sn_rmsnorm),
            [SN_OP_RMSNORM_DX] = SN_R(sn_rmsnorm_dx),
            [SN_OP_RMSNORM_DW] = SN_R(sn_rmsnorm_dw),
            [SN_OP_NORM_PART] = SN_R(sn_norm_part),
            [SN_OP_NORM_DX_PART] = SN_R(sn_norm_dx_part),
            [SN_OP_HEAD_NORM] = SN_R(sn_head_norm),
            [SN_OP_HEAD_NORM_DX] = SN_R(sn_head_norm_dx),
            [SN_OP_HEAD_NORM_DW] = SN_R(sn_head_norm_dw),
            [SN_OP_GEMM] = SN_K(sn_gemm),
            [SN_OP_COLSUM] = SN_R(sn_colsum),
            [SN_OP_ROPE] = SN_R(sn_rope),
            [SN_OP_MLA_JOIN] = SN_R(sn_mla_join),
            [SN_OP_MLA_JOIN_DX] = SN_R(sn_mla_join_dx),
            [SN_OP_ATTENTION] = SN_K(sn_attention),
            [SN_OP_ATTENTION_DX] = SN_K(sn_attention_dx),
            [SN_OP_ATTENTION_ROWS] = SN_R(sn_attention_rows),
            [SN_OP_ACT] = SN_R(sn_act),
            [SN_OP_ACT_DX] = SN_R(sn_act_dx),
            [SN_OP_SWIGLU] = SN_R(sn_swiglu),
            [SN_OP_SWIGLU_DX] = SN_R(sn_swiglu_dx),
            [SN_OP_ADD] = SN_R(sn_add),
            [SN_OP_SCALE] = SN_R(sn_scale),
            [SN_OP_GATE] = SN_R(sn_gate),
            [SN_OP_GATE_DX] = SN_R(sn_gate_dx),
            [SN_OP_DROPOUT] = SN_R(sn_dropout),
            [SN_OP_JITTER] = SN_R(sn_jitter),
            [SN_OP_PROMPT] = SN_R(sn_prompt),
            [SN_OP_PROMPT_DX] = SN_R(sn_prompt_dx),
            [SN_OP_PROMPT_DW] = SN_R(sn_prompt_dw),
            [SN_OP_CROSS_ENTROPY] = SN_R(sn_cross_entropy),
            [SN_OP_CE_PART] = SN_R(sn_ce_part),
            [SN_OP_TRANSPOSE] = SN_R(sn_transpose),
            [SN_OP_ROUTE] = SN_R(sn_route),
            [SN_OP_ROUTE_DX] = SN_R(sn_route_dx),
            [SN_OP_ROUTE_LOSS] = SN_R(sn_route_loss),
            [SN_OP_MOE_PERMUTE] = SN_R(sn_moe_permute),
            [SN_OP_RECV_OFFSETS] = SN_R(sn_recv_offsets),
            [SN_OP_DISPATCH] = SN_R(sn_dispatch),
            [SN_OP_COMBINE] = SN_R(sn_combine),
            [SN_OP_COMBINE_DW] = SN_R(sn_combine_dw),
            [SN_OP_EXPERT_GEMM] = SN_K(sn_expert_gemm),
            [SN_OP_SQ_NORM] = SN_R(sn_sq_norm),
            [SN_OP_CLIP_SCALE] = SN_R(sn_clip_scale),
            [SN_OP_AVERAGE] = SN_R(sn_average),
            [SN_OP_PRUNE] = SN_R(sn_prune),
            [SN_OP_ROUTER_BIAS] = SN_R(sn_router_bias),
            [SN_OP_ENCODE] = SN_R(sn_encode),
            [SN_OP_DECODE] = SN_R(sn_decode),
            [SN_OP_ORTHOGONALISE] = SN_R(sn_orthogonalise),
            SN_UPDATE_KINDS(UPDATE)},
    .scratch = scratch,
    .multiplies = multiplies,
    .head = {.bytes = 64 << 20, .least = 64, .multiple = 1}, /* GEMMs stay efficient from 64 rows */
};
