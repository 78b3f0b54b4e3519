/*
 * opinfo.c - what the compiler knows of each kind of operation: its name, what it may overwrite,
 * its FLOPs. The meaning of operands is in kernels/ops.h.
 */
#include "lib/program/program.h"

#include "kernels/codec.h"
#include "lib/layout/exchange.h"

struct op_info {
    const char *name;
    signed char takes[2];     /* inputs whose place output 0 may take, plus one; 0: none */
    unsigned grad_reads;      /* sn_op_grad_reads */
    signed char sum_takes[2]; /* the same for output 2, the sum that a norm gives */
};

#define IN(i)  (1u << (i))
#define OUT(o) (1u << (8 + (o)))

static const struct op_info info[SN_NKINDS] = {
    [SN_OP_ZERO] = {"zero", {0, 0}},
    [SN_OP_COPY] = {"copy", {0, 0}},
    [SN_OP_EMBED] = {"embed", {0, 0}, IN(0)},
    [SN_OP_EMBED_GRAD] = {"embed_grad", {0, 0}},
    [SN_OP_POS_GRAD] = {"pos_grad", {0, 0}},
    [SN_OP_LAYERNORM] = {"layernorm", {4, 0}, IN(0) | IN(1) | OUT(1), {1, 4}},
    [SN_OP_LAYERNORM_DX] = {"layernorm_dx", {5, 1}},
    [SN_OP_LAYERNORM_DW] = {"layernorm_dw", {0, 0}},
    [SN_OP_RMSNORM] = {"rmsnorm", {4, 0}, IN(0) | IN(1) | OUT(1), {1, 4}},
    [SN_OP_RMSNORM_DX] = {"rmsnorm_dx", {5, 1}},
    [SN_OP_RMSNORM_DW] = {"rmsnorm_dw", {0, 0}},
    [SN_OP_GEMM] = {"gemm", {4, 0}, IN(0) | IN(1)},
    [SN_OP_COLSUM] = {"colsum", {0, 0}},
    [SN_OP_ROPE] = {"rope", {1, 0}},
    [SN_OP_ATTENTION] = {"attention", {0, 0}, IN(0) | IN(1) | IN(2) | OUT(0) | OUT(1)},
    [SN_OP_ATTENTION_DX] = {"attention_dx", {0, 0}},
    [SN_OP_ACT] = {"act", {1, 0}, IN(0)},
    [SN_OP_ACT_DX] = {"act_dx", {1, 2}},
    [SN_OP_SWIGLU] = {"swiglu", {0, 0}, IN(0) | IN(1)},
    [SN_OP_SWIGLU_DX] = {"swiglu_dx", {2, 0}},
    [SN_OP_ADD] = {"add", {1, 2}},
    [SN_OP_DROPOUT] = {"dropout", {1, 2}},
    [SN_OP_JITTER] = {"jitter", {1, 2}},
    [SN_OP_CROSS_ENTROPY] = {"cross_entropy", {1, 0}},
    [SN_OP_CE_PART] = {"ce_part", {0, 0}},
    [SN_OP_SWAP] = {"swap", {0, 0}},
    [SN_OP_ROUTE] = {"route", {0, 0}, IN(0) | OUT(1)},
    [SN_OP_ROUTE_DX] = {"route_dx", {0, 0}},
    [SN_OP_ROUTE_LOSS] = {"route_loss", {0, 0}},
    [SN_OP_PLACE] = {"place", {0, 0}},
    [SN_OP_ARRIVE] = {"arrive", {0, 0}},
    [SN_OP_DISPATCH] = {"dispatch", {0, 0}, IN(1)},
    [SN_OP_COMBINE] = {"combine", {4, 0}, IN(0) | IN(1) | IN(2)},
    [SN_OP_COMBINE_DW] = {"combine_dw", {0, 0}},
    [SN_OP_EXPERT_GEMM] = {"expert_gemm", {0, 0}, IN(0) | IN(1) | IN(2)},
    [SN_OP_SQ_NORM] = {"sq_norm", {0, 0}},
    [SN_OP_DECIDE] = {"decide", {0, 0}},
    [SN_OP_ADAMW] = {"adamw", {0, 0}},
    [SN_OP_BALANCE] = {"balance", {0, 0}},
    [SN_OP_ENCODE] = {"encode", {0, 0}},
    [SN_OP_DECODE] = {"decode", {0, 0}},
    [SN_OP_ORTHOGONALISE] = {"orthogonalise", {1, 0}},
    [SN_OP_ALL_REDUCE] = {"all_reduce", {1, 0}},
    [SN_OP_ALL_GATHER] = {"all_gather", {0, 0}},
    [SN_OP_REDUCE_SCATTER] = {"reduce_scatter", {0, 0}},
    [SN_OP_ALL_TO_ALL] = {"all_to_all", {0, 0}},
    [SN_OP_SEND] = {"send", {0, 0}},
    [SN_OP_RECV] = {"recv", {0, 0}},
    [SN_OP_SHIFT] = {"shift", {0, 0}},
    [SN_OP_GATHER_ROWS] = {"gather_rows", {0, 0}},
    [SN_OP_EXCHANGE] = {"exchange", {0, 0}},
    [SN_OP_WAIT] = {"wait", {0, 0}},
    [SN_OP_ENTER] = {"enter", {1, 0}},
    [SN_OP_AGREE] = {"agree", {0, 0}},
};

int sn_agree_words(const struct sn_op *op)
{
    int coded = op->attr.levels ? SN_NAGREE_CODED : 0;
    if (op->attr.experts)
        return SN_NAGREE + (int)op->attr.rows + coded;
    return coded ? SN_NAGREE + coded : SN_NAGREE_DENSE;
}

int sn_load_words(const struct sn_model_config *m)
{
    return sn_expert_layers(m) * m->experts.count;
}

const char *sn_op_name(int kind)
{
    return info[kind].name;
}

int sn_op_may_take(int kind, int out, int choice)
{
    return out == 0   ? info[kind].takes[choice] - 1
           : out == 2 ? info[kind].sum_takes[choice] - 1
                      : -1;
}

unsigned sn_op_grad_reads(int kind)
{
    return info[kind].grad_reads;
}

static int64_t elements(const struct sn_view *v)
{
    return v->rows * v->cols;
}

/* Of n elements that all chunks have those of this one. */
static int64_t in_chunk(int64_t n, const struct sn_op *op)
{
    return sn_exchange_cut(n, op->attr.chunk + 1, op->attr.chunks) -
           sn_exchange_cut(n, op->attr.chunk, op->attr.chunks);
}

int64_t sn_coded_used(const struct sn_op *op, int64_t n, int level)
{
    const struct sn_attr *a = &op->attr;
    int64_t room = sn_coded_room(a->codec, a->levels, a->coded_type, a->share);
    return n / room * sn_coded_bytes(&a->codec[level], a->coded_type, a->share);
}

/* Of n bytes of streams as they are planned, those that are likely to go. */
static int64_t likely(const struct sn_op *op, int64_t n)
{
    const struct sn_attr *a = &op->attr;
    int64_t room = sn_coded_room(a->codec, a->levels, a->coded_type, a->share);
    return n / room * sn_coded_likely(&a->codec[0], a->coded_type, a->share);
}

bool sn_op_collective(const struct sn_op *op, enum sn_collective *kind, int64_t *n)
{
    if (op->kind < SN_OP_ALL_REDUCE || op->kind > SN_OP_EXCHANGE)
        return false;
    int64_t shares = op->attr.blocks_b > 1 ? op->attr.blocks_b : 1;
    if (op->kind == SN_OP_EXCHANGE) { /* on average */
        *kind = SN_ALL_TO_ALL;
        int64_t slices = op->attr.slices > 1 ? op->attr.slices : 1;
        *n = in_chunk(op->attr.rows * slices * op->in[0].cols / op->attr.blocks_a / shares, op);
        return true;
    }
    if (op->kind == SN_OP_GATHER_ROWS) {
        *kind = op->attr.inverse ? SN_REDUCE_SCATTER : SN_ALL_GATHER;
        *n = in_chunk(op->attr.rows * op->in[0].cols / shares, op);
        return true;
    }
    *kind = op->kind == SN_OP_SHIFT ? SN_SEND : (enum sn_collective)(op->kind - SN_OP_ALL_REDUCE);
    bool by_output = *kind == SN_REDUCE_SCATTER || *kind == SN_RECV;
    *n = elements(by_output ? &op->out[0] : &op->in[0]);
    if (*kind == SN_ALL_TO_ALL)
        *n /= op->attr.blocks_a;
    if (op->is_coded)
        *n = likely(op, *n);
    return true;
}

const char *sn_class_name(enum sn_class c)
{
    static const char *const name[SN_NCLASSES] = {"param",   "grad", "optim", "batch", "comm",
                                                  "scalars", "slot", "late",  "temp",  "workspace"};
    return name[c];
}

static double expert_flops(const struct sn_op *op)
{
    double rows = (double)(op->attr.rows ? op->attr.rows : op->in[0].rows);
    int64_t other = op->attr.trans_a ? op->in[1].cols : op->out[0].cols;
    return 2.0 * rows * (double)op->in[0].cols * (double)other;
}

static double attention_flops(const struct sn_op *op)
{
    /* Causal: half of the S x S scores; QK^T and PV are 2 multiply-adds per
     * element and head dim. */
    const struct sn_attr *a = &op->attr;
    double keys = (double)a->seq / (a->context > 1 ? a->context : 1);
    return 2.0 * (double)op->in[0].rows * keys * a->heads * a->head_dim;
}

double sn_op_flops(const struct sn_op *op)
{
    switch (op->kind) {
    case SN_OP_GEMM: {
        double k = (double)(op->attr.trans_a ? op->in[0].rows : op->in[0].cols);
        return 2.0 * (double)op->out[0].rows * (double)op->out[0].cols * k;
    }
    case SN_OP_EXPERT_GEMM:
        return expert_flops(op);
    case SN_OP_ATTENTION:
        return attention_flops(op);
    case SN_OP_ATTENTION_DX: /* scores again, dP, dV, dQ, dK: five products for two */
        return 2.5 * attention_flops(op);
    default:
        return 0;
    }
}
