/*
 * opinfo.c - what the compiler knows of each kind of operation: its name, what it may overwrite,
 * its FLOPs. The meaning of operands is in kernels/ops.h.
 */
#include "lib/program/program.h"

struct op_info {
    const char *name;
    signed char takes[2]; /* inputs whose place output 0 may take, plus one; 0: none */
};

static const struct op_info info[SN_NKINDS] = {
    [SN_OP_ZERO] = {"zero", {0, 0}},
    [SN_OP_COPY] = {"copy", {0, 0}},
    [SN_OP_EMBED] = {"embed", {0, 0}},
    [SN_OP_EMBED_GRAD] = {"embed_grad", {0, 0}},
    [SN_OP_POS_GRAD] = {"pos_grad", {0, 0}},
    [SN_OP_LAYERNORM] = {"layernorm", {0, 0}},
    [SN_OP_LAYERNORM_DX] = {"layernorm_dx", {5, 1}},
    [SN_OP_LAYERNORM_DW] = {"layernorm_dw", {0, 0}},
    [SN_OP_RMSNORM] = {"rmsnorm", {0, 0}},
    [SN_OP_RMSNORM_DX] = {"rmsnorm_dx", {5, 1}},
    [SN_OP_RMSNORM_DW] = {"rmsnorm_dw", {0, 0}},
    [SN_OP_GEMM] = {"gemm", {4, 0}},
    [SN_OP_COLSUM] = {"colsum", {0, 0}},
    [SN_OP_ROPE] = {"rope", {1, 0}},
    [SN_OP_ATTENTION] = {"attention", {0, 0}},
    [SN_OP_ATTENTION_DX] = {"attention_dx", {0, 0}},
    [SN_OP_ACT] = {"act", {1, 0}},
    [SN_OP_ACT_DX] = {"act_dx", {1, 2}},
    [SN_OP_SWIGLU] = {"swiglu", {0, 0}},
    [SN_OP_SWIGLU_DX] = {"swiglu_dx", {2, 0}},
    [SN_OP_ADD] = {"add", {1, 2}},
    [SN_OP_DROPOUT] = {"dropout", {1, 2}},
    [SN_OP_CROSS_ENTROPY] = {"cross_entropy", {1, 0}},
    [SN_OP_CE_PART] = {"ce_part", {0, 0}},
    [SN_OP_SWAP] = {"swap", {0, 0}},
    [SN_OP_SQ_NORM] = {"sq_norm", {0, 0}},
    [SN_OP_DECIDE] = {"decide", {0, 0}},
    [SN_OP_ADAMW] = {"adamw", {0, 0}},
    [SN_OP_ALL_REDUCE] = {"all_reduce", {0, 0}},
    [SN_OP_WAIT] = {"wait", {0, 0}},
    [SN_OP_AGREE] = {"agree", {0, 0}},
};

const char *sn_op_name(int kind)
{
    return info[kind].name;
}

int sn_op_may_take(int kind, int out, int choice)
{
    return out == 0 ? info[kind].takes[choice] - 1 : -1;
}

const char *sn_class_name(enum sn_class c)
{
    static const char *const name[SN_NCLASSES] = {"param",   "grad", "optim", "batch",    "comm",
                                                  "scalars", "slot", "temp",  "workspace"};
    return name[c];
}

static double attention_flops(const struct sn_op *op)
{
    /* Causal: half of the S x S scores; QK^T and PV are 2 multiply-adds per element and head dim.
     */
    const struct sn_attr *a = &op->attr;
    return 2.0 * (double)op->in[0].rows * (double)a->seq * a->heads * a->head_dim;
}

double sn_op_flops(const struct sn_op *op)
{
    switch (op->kind) {
    case SN_OP_GEMM: {
        double k = (double)(op->attr.trans_a ? op->in[0].rows : op->in[0].cols);
        return 2.0 * (double)op->out[0].rows * (double)op->out[0].cols * k;
    }
    case SN_OP_ATTENTION:
        return attention_flops(op);
    case SN_OP_ATTENTION_DX: /* scores again, dP, dV, dQ, dK: five products for two */
        return 2.5 * attention_flops(op);
    default:
        return 0;
    }
}
