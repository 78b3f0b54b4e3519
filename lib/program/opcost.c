/*
 * opcost.c - FLOPs, bytes and shape of one operation, from its text alone. Time is lib/cost's.
 */
#include "lib/program/opinfo.h"

#include "kernels/codec.h"
#include "kernels/mask.h"

/* --- FLOPs ------------------------------------------------------------------------------------ */

double sn_flops_gemm(const struct sn_op *op)
{
    double k = (double)(op->attr.gemm.trans_a ? op->in[SN_GEMM_A].rows : op->in[SN_GEMM_A].cols);
    return 2.0 * (double)op->out[SN_GEMM_C].rows * (double)op->out[SN_GEMM_C].cols * k;
}

double sn_flops_expert_gemm(const struct sn_op *op)
{
    double rows =
        (double)(op->attr.experts.rows ? op->attr.experts.rows : op->in[SN_EXPERT_GEMM_A].rows);
    int64_t other =
        op->attr.gemm.trans_a ? op->in[SN_EXPERT_GEMM_B].cols : op->out[SN_EXPERT_GEMM_C].cols;
    return 2.0 * rows * (double)op->in[SN_EXPERT_GEMM_A].cols * (double)other;
}

int64_t sn_op_seq(const struct sn_op *op)
{
    return (int64_t)(2 * sn_mask_keys(op->attr.position.seq, op->attr.attention.window));
}

/* Twice the keys that a query sees on average in a step of the ring. */
static double keys_of(const struct sn_op *op)
{
    const struct sn_attr *a = &op->attr;
    double keys = 2 * sn_mask_keys(a->position.seq, a->attention.window);
    return keys / (a->position.context > 1 ? a->position.context : 1);
}

/* A multiply-add for each pair of query and key, in so many columns of a head. */
static double flops_of_pairs(const struct sn_op *op, int64_t columns)
{
    return (double)op->in[SN_ATTENTION_Q].rows * keys_of(op) * op->attr.attention.heads *
           (double)columns;
}

/* QK^T and PV; of a row that may be anywhere in its sample the mean. */
double sn_flops_attention(const struct sn_op *op)
{
    return flops_of_pairs(op, op->attr.attention.head_dim + sn_v_dim(&op->attr.attention));
}

/* Scores again, dQ and dK; dP and dV. */
double sn_flops_attention_dx(const struct sn_op *op)
{
    return flops_of_pairs(op, 3 * op->attr.attention.head_dim + 2 * sn_v_dim(&op->attr.attention));
}

double sn_op_flops(const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    return row->flops ? row->flops(op) : 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static int64_t view_bytes(const struct sn_program *p, const struct sn_view *v)
{
    return v->buf < 0 ? 0 : v->rows * v->cols * (int64_t)sn_dtype_size(p->bufs[v->buf].dtype);
}

/* Is output o read, too? Where the first micro-batch writes and the others add, the price is that
 * of the others, so that all micro-batches cost the same. */
static bool is_read(const struct sn_program *p, const struct sn_op *op, int o)
{
    return sn_operand_is(&sn_op_row(op->kind)->out[o], SN_ROLE_UPDATED) ||
           op->acc[o] == SN_ACC_ADD || (op->acc[o] == SN_ACC_FIRST_WRITES && p->micros > 1);
}

/* Inputs from `in` on and outputs from `out` on, as they are. */
static int64_t operands_bytes(const struct sn_program *p, const struct sn_op *op, int in, int out)
{
    int64_t bytes = 0;
    for (int i = in; i < SN_MAX_IN; i++)
        bytes += view_bytes(p, &op->in[i]);
    for (int o = out; o < SN_MAX_OUT; o++)
        bytes += view_bytes(p, &op->out[o]) * (is_read(p, op, o) ? 2 : 1);
    return bytes;
}

/* A lookup touches as many rows of its tables as there are tokens. */
int64_t sn_bytes_embed(const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_view *table = &op->in[SN_EMBED_W], *rows = &op->out[SN_EMBED_Y];
    int64_t width = (int64_t)sn_dtype_size(p->bufs[table->buf].dtype);
    int64_t tables = op->in[SN_EMBED_P].buf >= 0 ? 2 : 1;
    return view_bytes(p, &op->in[SN_EMBED_IDS]) + view_bytes(p, rows) +
           tables * rows->rows * rows->cols * width;
}

/* And adds to them. */
int64_t sn_bytes_embed_grad(const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_view *table = &op->out[SN_EMBED_GRAD_DW], *rows = &op->in[SN_EMBED_GRAD_DY];
    int64_t width = (int64_t)sn_dtype_size(p->bufs[table->buf].dtype);
    return view_bytes(p, &op->in[SN_EMBED_GRAD_IDS]) + view_bytes(p, rows) +
           2 * rows->rows * rows->cols * width;
}

/* The rows that it fills, of which each reads or adds to the weights; the others are in their place. */
int64_t sn_bytes_prompt(const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_view *rows = &op->in[SN_PROMPT_X];
    const struct sn_view *weight =
        op->kind == SN_OP_PROMPT_DW ? &op->out[SN_PROMPT_DW_DW] : &op->in[SN_PROMPT_W];
    const struct sn_position_attr *at = &op->attr.position;
    int64_t samples = rows->rows * (at->context > 1 ? at->context : 1) / at->seq;
    int64_t filled = (samples > 0 ? samples : 1) * op->attr.prompt.rows;
    int64_t width = rows->cols * (int64_t)sn_dtype_size(p->bufs[rows->buf].dtype);
    return filled * width + (op->kind == SN_OP_PROMPT_DX ? 0 : filled * view_bytes(p, weight));
}

/* Two short rows: that one is read and written is not worth a number of its own. */
int64_t sn_bytes_balance(const struct sn_program *p, const struct sn_op *op)
{
    return view_bytes(p, &op->in[SN_ROUTER_BIAS_COUNTS]) +
           view_bytes(p, &op->out[SN_ROUTER_BIAS_BIAS]);
}

/* Streams are as long as they are likely to be, not as the room they have. */
static int64_t streams_bytes(const struct sn_op *op)
{
    const struct sn_attr *a = &op->attr;
    return a->blocks_a * sn_coded_likely(&a->stream.codec[0], a->stream.type, a->stream.share);
}

int64_t sn_bytes_encode(const struct sn_program *p, const struct sn_op *op)
{
    return streams_bytes(op) + operands_bytes(p, op, 0, 1);
}

int64_t sn_bytes_decode(const struct sn_program *p, const struct sn_op *op)
{
    return streams_bytes(op) + operands_bytes(p, op, 1, 0);
}

/* Columns that are made one after the other, each from those before it: time on one thread
 * (measured 14 + 0.6 C ns an element of C columns), as bytes of memory at 10 GB/s. */
int64_t sn_bytes_orthogonalise(const struct sn_program *p, const struct sn_op *op)
{
    (void)p;
    const struct sn_view *x = &op->in[SN_ORTHOGONALISE_X];
    return x->rows * x->cols * (140 + 6 * x->cols);
}

int64_t sn_op_bytes(const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    return row->bytes ? row->bytes(p, op) : operands_bytes(p, op, 0, 0);
}

/* --- shapes ----------------------------------------------------------------------------------- */

void sn_shape_gemm(const struct sn_op *op, int64_t mnk[3])
{
    mnk[0] = op->out[SN_GEMM_C].rows;
    mnk[1] = op->out[SN_GEMM_C].cols;
    mnk[2] = op->attr.gemm.trans_a ? op->in[SN_GEMM_A].rows : op->in[SN_GEMM_A].cols;
}

/* Rows that an expert gets on average, at least one. */
static int64_t rows_of_expert(const struct sn_op *op)
{
    int64_t rows = op->attr.experts.rows ? op->attr.experts.rows : op->in[SN_EXPERT_GEMM_A].rows;
    return rows > op->attr.experts.count ? rows / op->attr.experts.count : 1;
}

/* Of one expert. */
void sn_shape_expert_gemm(const struct sn_op *op, int64_t mnk[3])
{
    mnk[0] = op->attr.gemm.trans_a ? op->in[SN_EXPERT_GEMM_A].cols : rows_of_expert(op);
    mnk[1] = op->attr.gemm.trans_a ? op->in[SN_EXPERT_GEMM_B].cols : op->out[SN_EXPERT_GEMM_C].cols;
    mnk[2] = op->attr.gemm.trans_a ? rows_of_expert(op) : op->in[SN_EXPERT_GEMM_A].cols;
}

void sn_shape_attention(const struct sn_op *op, int64_t mnk[3])
{
    mnk[0] = op->in[SN_ATTENTION_Q].rows;
    mnk[1] = op->attr.attention.heads *
             (op->attr.attention.head_dim + sn_v_dim(&op->attr.attention)) / 2;
    mnk[2] = (int64_t)keys_of(op);
}

static int64_t largest_operand(const struct sn_op *op)
{
    int64_t most = 0;
    for (int i = 0; i < SN_MAX_IN; i++)
        if (op->in[i].buf >= 0 && op->in[i].rows * op->in[i].cols > most)
            most = op->in[i].rows * op->in[i].cols;
    for (int o = 0; o < SN_MAX_OUT; o++)
        if (op->out[o].buf >= 0 && op->out[o].rows * op->out[o].cols > most)
            most = op->out[o].rows * op->out[o].cols;
    return most;
}

/* One read and one written, or two and two. */
void sn_shape_norm(const struct sn_op *op, int64_t mnk[3])
{
    mnk[0] = largest_operand(op) * (op->in[SN_NORM_ADDEND].buf >= 0 ? 2 : 1);
    mnk[1] = mnk[2] = 0;
}

void sn_op_shape(const struct sn_op *op, int64_t mnk[3])
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    mnk[0] = row->shape ? 0 : largest_operand(op);
    mnk[1] = mnk[2] = 0;
    if (row->shape)
        row->shape(op, mnk);
}
