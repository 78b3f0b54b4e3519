/*
 * opinfo.c - the rows of all kinds of operations (opinfo.h), and what is read off them; those of
 * streams, and of classes of buffers and what memory is for (program.h).
 *
 * Operands stand in the order of kernels/ops.h; those of communication in that of program.h.
 *
 * Longer than 500 lines because it is one table.
 */
#include "lib/program/build.h"

#include "kernels/codec.h"
#include "lib/layout/exchange.h"

/* Roles, short enough for a table; UPDATED outputs are read and written. */
enum {
    OPT = SN_ROLE_OPTIONAL,
    SUM = SN_ROLE_ADDED,
    FREE = SN_ROLE_ADDED | SN_ROLE_ANY_ORDER,
    UPDATED = SN_ROLE_UPDATED,
    GRAD = SN_ROLE_GRADIENT,
    GRAD_W = SN_ROLE_GRADIENT | SN_ROLE_OF_WEIGHTS,
    ROWS = SN_ROLE_ROWS
};
#define TAKES(i) (1 + (i))

/* The k-th moment of an optimizer that has n. */
#define MOMENT(n, k, word)                                                                         \
    {                                                                                              \
        (n) > (k) ? (word) : NULL, (n) > (k) ? UPDATED : 0                                         \
    }
#define UPDATE(KIND, name, n, ...)                                                                 \
    [SN_OP_##KIND] = {.in = {{"g"}},                                                               \
                      .out = {{"p", UPDATED}, MOMENT(n, 0, "m"), MOMENT(n, 1, "v"), {"w", OPT}},   \
                      .cost = SN_COST_UPDATE},

/* clang-format off */
static const struct sn_op_row rows[SN_NKINDS] = {
    [SN_OP_ZERO] = {.out = {{"x"}}},
    [SN_OP_COPY] = {
        .in = {{"x", ROWS}},
        .out = {{"y", SUM | ROWS}},
        .gradient = sn_grad_copy},
    [SN_OP_EMBED] = {
        .in = {{"ids", GRAD}, {"W"}, {"P", OPT}},
        .out = {{"y"}},
        .gradient = sn_grad_embed,
        .bytes = sn_bytes_embed},
    [SN_OP_EMBED_GRAD] = {
        .in = {{"ids"}, {"dy"}},
        .out = {{"dW", FREE}},
        .bytes = sn_bytes_embed_grad},
    [SN_OP_POS_GRAD] = {
        .in = {{"dy"}},
        .out = {{"dP", SUM}}},
    [SN_OP_LAYERNORM] = {
        .in = {{"x", GRAD | ROWS}, {"w", GRAD}, {"b"}, {"g", OPT | ROWS}, {"parts", OPT}},
        .out = {{"y", ROWS, {TAKES(SN_NORM_ADDEND)}}, {"stats", GRAD | ROWS},
                {"s", OPT | ROWS, {TAKES(SN_NORM_X), TAKES(SN_NORM_ADDEND)}}},
        .gradient = sn_grad_norm, .dx = SN_OP_LAYERNORM_DX, .dw = SN_OP_LAYERNORM_DW,
        .repeat = SN_REPEAT_CHEAP,
        .cost = SN_COST_NORM, .shape = sn_shape_norm, .adds_residual = true},
    [SN_OP_LAYERNORM_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}, {"w"}, {"stats", ROWS}, {"g", OPT | ROWS}, {"parts", OPT}},
        .out = {{"dx", ROWS, {TAKES(SN_NORM_DX_ADDEND), TAKES(SN_NORM_DX_DY)}}, {"dw", OPT | FREE},
                {"db", OPT | FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_LAYERNORM_DW] = {
        .in = {{"dy"}, {"x"}, {"stats"}},
        .out = {{"dw", OPT | FREE}, {"db", OPT | FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_RMSNORM] = {
        .in = {{"x", GRAD | ROWS}, {"w", GRAD}, {NULL}, {"g", OPT | ROWS}, {"parts", OPT}},
        .out = {{"y", ROWS, {TAKES(SN_NORM_ADDEND)}}, {"stats", GRAD | ROWS},
                {"s", OPT | ROWS, {TAKES(SN_NORM_X), TAKES(SN_NORM_ADDEND)}}},
        .gradient = sn_grad_norm, .dx = SN_OP_RMSNORM_DX, .dw = SN_OP_RMSNORM_DW,
        .repeat = SN_REPEAT_CHEAP,
        .cost = SN_COST_NORM, .shape = sn_shape_norm, .adds_residual = true},
    [SN_OP_RMSNORM_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}, {"w"}, {"stats", ROWS}, {"g", OPT | ROWS}, {"parts", OPT}},
        .out = {{"dx", ROWS, {TAKES(SN_NORM_DX_ADDEND), TAKES(SN_NORM_DX_DY)}}, {"dw", OPT | FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_RMSNORM_DW] = {
        .in = {{"dy"}, {"x"}, {"stats"}},
        .out = {{"dw", FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_NORM_PART] = {
        .in = {{"x"}},
        .out = {{"part"}},
        .repeat = SN_REPEAT_CHEAP,
        .cost = SN_COST_NORM},
    [SN_OP_NORM_DX_PART] = {
        .in = {{"dy"}, {"x"}, {"w"}, {"stats"}},
        .out = {{"part"}},
        .cost = SN_COST_NORM},
    [SN_OP_HEAD_NORM] = {
        .in = {{"x", GRAD | ROWS}, {"w", GRAD}},
        .out = {{"y", ROWS}, {"stats", GRAD | ROWS}},
        .gradient = sn_grad_norm, .dx = SN_OP_HEAD_NORM_DX, .dw = SN_OP_HEAD_NORM_DW,
        .repeat = SN_REPEAT_CHEAP,
        .cost = SN_COST_NORM},
    [SN_OP_HEAD_NORM_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}, {"w"}, {"stats", ROWS}},
        .out = {{"dx", ROWS, {TAKES(SN_NORM_DX_DY)}}, {"dw", OPT | FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_HEAD_NORM_DW] = {
        .in = {{"dy"}, {"x"}, {"stats"}},
        .out = {{"dw", FREE}},
        .cost = SN_COST_NORM},
    [SN_OP_GEMM] = {
        .in = {{"A", GRAD_W | ROWS}, {"B", GRAD}, {"bias", OPT}, {"addend", OPT | ROWS}, {"x", OPT | ROWS}},
        .out = {{"C", SUM | ROWS, {TAKES(SN_GEMM_ADDEND)}}, {"x or db", OPT | SUM | ROWS}},
        .gradient = sn_grad_gemm,
        .cost = SN_COST_PRODUCT, .flops = sn_flops_gemm, .shape = sn_shape_gemm},
    [SN_OP_COLSUM] = {
        .in = {{"dy"}},
        .out = {{"db", FREE}}},
    [SN_OP_ROPE] = {
        .in = {{"x", ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_ROPE_X)}}},
        .gradient = sn_grad_pointwise, .dx = SN_OP_ROPE},
    [SN_OP_MLA_JOIN] = {
        .in = {{"q", ROWS}, {"kv", ROWS}, {"r", ROWS}},
        .out = {{"y", ROWS}},
        .gradient = sn_grad_join,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_MLA_JOIN_DX] = {
        .in = {{"dy", ROWS}},
        .out = {{"dq", ROWS}, {"dkv", ROWS}, {"dr", ROWS}}},
    [SN_OP_ATTENTION] = {
        .in = {{"q", GRAD}, {"k", GRAD}, {"v", GRAD}, {"starts", OPT | GRAD}},
        .out = {{"o", SUM | GRAD}, {"lse", SUM | GRAD}},
        .gradient = sn_grad_attention,
        .cost = SN_COST_ATTENTION, .flops = sn_flops_attention, .shape = sn_shape_attention},
    [SN_OP_ATTENTION_DX] = {
        .in = {{"q"}, {"k"}, {"v"}, {"o"}, {"do"}, {"lse"}, {"starts", OPT}},
        .out = {{"dq", FREE}, {"dk", FREE}, {"dv", FREE}},
        .cost = SN_COST_ATTENTION, .flops = sn_flops_attention_dx, .shape = sn_shape_attention},
    [SN_OP_ATTENTION_ROWS] = {
        .in = {{"q"}, {"k"}, {"v"}},
        .out = {{"o"}},
        .flops = sn_flops_attention},
    [SN_OP_ACT] = {
        .in = {{"x", GRAD | ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_ACT_X)}}},
        .gradient = sn_grad_pointwise, .dx = SN_OP_ACT_DX,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_ACT_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}},
        .out = {{"dx", ROWS, {TAKES(SN_ACT_DX_DY), TAKES(SN_ACT_DX_X)}}}},
    [SN_OP_SWIGLU] = {
        .in = {{"x", GRAD | ROWS}, {"bounds", OPT | GRAD}},
        .out = {{"y", ROWS}},
        .gradient = sn_grad_pointwise, .dx = SN_OP_SWIGLU_DX,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_SWIGLU_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}, {"bounds", OPT}},
        .out = {{"dx", ROWS, {TAKES(SN_SWIGLU_DX_X)}}}},
    [SN_OP_ADD] = {
        .in = {{"a", ROWS}, {"b", ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_ADD_A), TAKES(SN_ADD_B)}}},
        .gradient = sn_grad_add,
        .repeat = SN_REPEAT_OUT},
    [SN_OP_SCALE] = {
        .in = {{"x", ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_SCALE_X)}}},
        .gradient = sn_grad_pointwise, .dx = SN_OP_SCALE,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_GATE] = {
        .in = {{"x", GRAD | ROWS}, {"z", GRAD | ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_GATE_X)}}},
        .gradient = sn_grad_gate, .dx = SN_OP_GATE_DX,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_GATE_DX] = {
        .in = {{"dy", ROWS}, {"x", ROWS}, {"z", ROWS}},
        .out = {{"dx", OPT | ROWS, {TAKES(SN_GATE_DX_DY), TAKES(SN_GATE_DX_X)}}, {"dz", OPT | ROWS}}},
    [SN_OP_DROPOUT] = {
        .in = {{"x", ROWS}, {"g", OPT | ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_NOISE_X), TAKES(SN_NOISE_ADDEND)}}},
        .gradient = sn_grad_dropout, .dx = SN_OP_DROPOUT},
    [SN_OP_JITTER] = {
        .in = {{"x"}, {"g", OPT}},
        .out = {{"y", 0, {TAKES(SN_NOISE_X), TAKES(SN_NOISE_ADDEND)}}},
        .gradient = sn_grad_dropout, .dx = SN_OP_JITTER},
    [SN_OP_PROMPT] = { /* not by rows: which of them it fills, the positions say */
        .in = {{"x"}, {"W"}, {"f", OPT}},
        .out = {{"y", 0, {TAKES(SN_PROMPT_X)}}},
        .gradient = sn_grad_prompt,
        .repeat = SN_REPEAT_CHEAP,
        .bytes = sn_bytes_prompt},
    [SN_OP_PROMPT_DX] = {
        .in = {{"dy"}},
        .out = {{"dx", 0, {TAKES(SN_PROMPT_DX_DY)}}},
        .bytes = sn_bytes_prompt},
    [SN_OP_PROMPT_DW] = {
        .in = {{"dy"}, {"f", OPT}},
        .out = {{"dW", SUM}},
        .bytes = sn_bytes_prompt},
    [SN_OP_CROSS_ENTROPY] = {
        .in = {{"logits"}, {"targets"}, {"parts", OPT}, {"sets", OPT}},
        .out = {{"dlogits", OPT, {TAKES(SN_CROSS_ENTROPY_LOGITS)}},
                {"row_loss"},
                {"row_z", OPT},
                {"row_ahead", OPT}},
        .cost = SN_COST_LOSS},
    [SN_OP_CE_PART] = {
        .in = {{"logits"}, {"targets"}},
        .out = {{"part"}},
        .cost = SN_COST_LOSS},
    [SN_OP_TRANSPOSE] = {
        .in = {{"x"}},
        .out = {{"y"}},
        .gradient = sn_grad_swap},
    [SN_OP_ROUTE] = {
        .in = {{"logits", GRAD}, {"bias", OPT}},
        .out = {{"w"}, {"choice", OPT | GRAD}, {"counts"}, {"p", OPT}, {"sequences", OPT}, {"own", OPT}},
        .gradient = sn_grad_route},
    [SN_OP_ROUTE_DX] = {
        .in = {{"dw"}, {"logits"}, {"choice", OPT}, {"counts", OPT}},
        .out = {{"dlogits"}}},
    [SN_OP_ROUTE_LOSS] = {.in = {{"logits"}, {"counts"}}},
    [SN_OP_MOE_PERMUTE] = {
        .in = {{"choice", OPT}, {"all", OPT}},
        .out = {{"place"}, {"bounds"}}},
    [SN_OP_RECV_OFFSETS] = {
        .in = {{"bounds"}},
        .out = {{"arrivals"}}},
    [SN_OP_DISPATCH] = {
        .in = {{"x"}, {"place", GRAD}, {"w", OPT}},
        .out = {{"y"}},
        .gradient = sn_grad_dispatch,
        .repeat = SN_REPEAT_CHEAP},
    [SN_OP_COMBINE] = {
        .in = {{"x", GRAD}, {"place", GRAD}, {"w", OPT | GRAD}, {"g", OPT}},
        .out = {{"y", 0, {TAKES(SN_COMBINE_ADDEND)}}},
        .gradient = sn_grad_combine},
    [SN_OP_COMBINE_DW] = {
        .in = {{"dy"}, {"x"}, {"place"}},
        .out = {{"dw"}}},
    [SN_OP_EXPERT_GEMM] = {
        .in = {{"A", GRAD_W}, {"B", GRAD}, {"bounds", GRAD}},
        .out = {{"C", SUM}},
        .gradient = sn_grad_expert_gemm,
        .cost = SN_COST_PRODUCT, .flops = sn_flops_expert_gemm, .shape = sn_shape_expert_gemm},
    [SN_OP_SQ_NORM] = {.in = {{"g"}}, .cost = SN_COST_UPDATE},
    [SN_OP_CLIP_SCALE] = {.cost = SN_COST_UPDATE},
    SN_OPTIMIZERS(UPDATE)
    [SN_OP_AVERAGE] = {.in = {{"p"}}, .out = {{"e", UPDATED}}, .cost = SN_COST_UPDATE},
    [SN_OP_PRUNE] = {.in = {{"p"}}, .out = {{"g", UPDATED}}, .cost = SN_COST_UPDATE},
    [SN_OP_ROUTER_BIAS] = {
        .in = {{"counts"}},
        .out = {{"b", UPDATED}},
        .bytes = sn_bytes_balance},
    [SN_OP_ENCODE] = {
        .in = {{"x"}, {"y", OPT}},
        .out = {{"s"}, {"e", OPT | UPDATED}},
        .bytes = sn_bytes_encode, .codes = true},
    [SN_OP_DECODE] = {
        .in = {{"s"}, {"w", OPT}, {"bounds", OPT}},
        .out = {{"y", SUM, {TAKES(SN_DECODE_ADDEND)}}},
        .bytes = sn_bytes_decode, .codes = true},
    [SN_OP_ORTHOGONALISE] = {
        .in = {{"x"}},
        .out = {{"y", 0, {TAKES(SN_ORTHOGONALISE_X)}}, {"n", OPT}},
        .bytes = sn_bytes_orthogonalise},

    [SN_OP_ALL_REDUCE] = {
        .in = {{"x", ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_MOVE_FROM)}}},
        .gradient = sn_grad_move,
        .cost = SN_COST_MESSAGE, .may_be_coded = true,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_ALL_REDUCE,
        .is_sum = true, .takes_input = true},
    [SN_OP_ALL_GATHER] = {
        .in = {{"x", ROWS}},
        .out = {{"y", ROWS}},
        .gradient = sn_grad_move,
        .repeat = SN_REPEAT_CHEAP,
        .cost = SN_COST_MESSAGE, .may_be_coded = true,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_ALL_GATHER},
    [SN_OP_REDUCE_SCATTER] = {
        .in = {{"x", ROWS}},
        .out = {{"y", SUM | ROWS}},
        .gradient = sn_grad_move,
        .cost = SN_COST_MESSAGE, .may_be_coded = true,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_REDUCE_SCATTER, .is_sum = true},
    [SN_OP_ALL_TO_ALL] = {
        .in = {{"x"}},
        .out = {{"y"}},
        .gradient = sn_grad_move,
        .cost = SN_COST_MESSAGE,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_ALL_TO_ALL},
    [SN_OP_SEND] = {
        .in = {{"x"}},
        .cost = SN_COST_MESSAGE, .may_be_coded = true,
        .stream = SN_STREAM_TRANSFERS, .moves = true, .as = SN_SEND},
    [SN_OP_RECV] = {
        .out = {{"y"}},
        .repeat = SN_REPEAT_NEVER,
        .cost = SN_COST_MESSAGE, .may_be_coded = true,
        .stream = SN_STREAM_TRANSFERS, .moves = true, .as = SN_RECV},
    [SN_OP_SHIFT] = {
        .in = {{"x"}},
        .out = {{"y"}},
        .cost = SN_COST_MESSAGE,
        .stream = SN_STREAM_RINGS, .moves = true, .as = SN_SEND},
    [SN_OP_GATHER_ROWS] = {
        .in = {{"x"}, {"all"}},
        .out = {{"y"}},
        .gradient = sn_grad_gather_rows,
        .cost = SN_COST_MESSAGE,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_ALL_GATHER, .counts_rows = true},
    [SN_OP_EXCHANGE] = {
        .in = {{"x"}, {"all"}},
        .out = {{"y"}},
        .gradient = sn_grad_exchange,
        .repeat = SN_REPEAT_OUT,
        .cost = SN_COST_MESSAGE,
        .stream = SN_STREAM_COLLECTIVES, .moves = true, .as = SN_ALL_TO_ALL, .counts_rows = true},
    [SN_OP_WAIT] = {
        .in = {{"y", OPT}, {"x", OPT}},
        .cost = SN_COST_MESSAGE, .synchronises = true},
    [SN_OP_ALIAS] = {
        .in = {{"x", ROWS}},
        .out = {{"y", ROWS, {TAKES(SN_MOVE_FROM)}}},
        .gradient = sn_grad_move,
        .repeat = SN_REPEAT_CHEAP, .cost = SN_COST_MESSAGE},
    [SN_OP_AGREE] = {
        .cost = SN_COST_MESSAGE, .stream = SN_STREAM_COLLECTIVES, .synchronises = true},
};
/* clang-format on */

const struct sn_op_row *sn_op_row(int kind)
{
    return &rows[kind];
}

const struct sn_stream_row *sn_stream_row(enum sn_op_stream s)
{
    static const struct sn_stream_row of[SN_NSTREAMS] = {
        [SN_STREAM_COLLECTIVES] = {.takes_share = true},
        [SN_STREAM_RINGS] = {.takes_share = true},
    };
    return &of[s];
}

int sn_op_update(enum sn_optimizer o)
{
#define OP_OF(KIND, ...) [SN_OPTIMIZER_##KIND] = SN_OP_##KIND,
    static const int kinds[SN_NOPTIMIZERS] = {SN_OPTIMIZERS(OP_OF)};
#undef OP_OF
    return kinds[o];
}

int sn_agree_words(const struct sn_op *op)
{
    int coded = op->attr.stream.levels ? SN_NAGREE_CODED : 0;
    int exact = op->attr.exact.of != SN_EXACT_NONE ? SN_NAGREE_EXACT : 0;
    int more = coded + exact + (op->attr.vocab.z_loss != 0 ? SN_NAGREE_HEAD_Z : 0) +
               (op->attr.vocab.weight != 0 ? SN_NAGREE_BESIDE : 0) + op->attr.vocab.sets;
    if (op->attr.experts.count)
        return SN_NAGREE + (int)op->attr.experts.rows + more;
    return more ? SN_NAGREE + more : SN_NAGREE_DENSE;
}

int sn_agreed_words(const struct sn_config *c)
{
    struct sn_op op = {
        .attr.experts = {.count = c->model.experts.count, .rows = sn_expert_load_words(&c->model)},
        .attr.vocab = {.z_loss = (float)c->train.z_loss,
                       .weight = (float)c->model.mtp,
                       .sets = sn_told_sets(&c->data)},
        .attr.exact.of = sn_config_exact(c) ? SN_EXACT_WEIGHTS : SN_EXACT_NONE};
    return sn_agree_words(&op);
}

int64_t sn_scalars_bytes(const struct sn_config *c)
{
    return (int64_t)(sizeof(struct sn_scalars) + sizeof(double) * (size_t)sn_told_sets(&c->data));
}

int sn_expert_load_words(const struct sn_model_config *m)
{
    return sn_expert_layers(m) * m->experts.count;
}

const char *sn_op_name(int kind)
{
#define NAME(KIND, name) [SN_OP_##KIND] = #name,
    static const char *const names[SN_NKINDS] = {SN_OP_KINDS(NAME) SN_MESSAGE_KINDS(NAME)};
#undef NAME
    return names[kind];
}

static int64_t elements(const struct sn_view *v)
{
    return v->rows * v->cols;
}

/* Of n elements that all chunks have those of this one. */
static int64_t in_chunk(int64_t n, const struct sn_op *op)
{
    return sn_exchange_cut(n, op->attr.experts.chunk + 1, op->attr.experts.chunks) -
           sn_exchange_cut(n, op->attr.experts.chunk, op->attr.experts.chunks);
}

int64_t sn_coded_used(const struct sn_op *op, int64_t n, int level)
{
    const struct sn_attr *a = &op->attr;
    int64_t room =
        sn_coded_room(a->stream.codec, a->stream.levels, a->stream.type, a->stream.share);
    return n / room * sn_coded_bytes(&a->stream.codec[level], a->stream.type, a->stream.share);
}

/* Of n bytes of streams as they are planned, those that are likely to go. */
static int64_t likely(const struct sn_op *op, int64_t n)
{
    const struct sn_attr *a = &op->attr;
    int64_t room =
        sn_coded_room(a->stream.codec, a->stream.levels, a->stream.type, a->stream.share);
    return n / room * sn_coded_likely(&a->stream.codec[0], a->stream.type, a->stream.share);
}

/* Elements of a move, as enum sn_collective counts them. */
static int64_t moved(const struct sn_op *op, enum sn_collective as)
{
    int64_t shares = op->attr.blocks_b > 1 ? op->attr.blocks_b : 1;
    int64_t slices = op->attr.experts.slices > 1 ? op->attr.experts.slices : 1;
    if (op->kind == SN_OP_EXCHANGE) /* on average */
        return in_chunk(op->attr.experts.rows * slices * op->in[SN_MOVE_FROM].cols /
                            op->attr.blocks_a / shares,
                        op);
    if (op->kind == SN_OP_GATHER_ROWS)
        return in_chunk(op->attr.experts.rows * op->in[SN_MOVE_FROM].cols / shares, op);
    bool by_output = as == SN_REDUCE_SCATTER || as == SN_RECV;
    int64_t n = elements(by_output ? &op->out[SN_MOVE_TO] : &op->in[SN_MOVE_FROM]);
    n = as == SN_ALL_TO_ALL ? n / op->attr.blocks_a : n;
    return op->is_coded ? likely(op, n) : n;
}

bool sn_op_collective(const struct sn_op *op, enum sn_collective *kind, int64_t *n)
{
    const struct sn_op_row *row = sn_op_row(op->kind);
    if (!row->moves)
        return false;
    *kind = op->kind == SN_OP_GATHER_ROWS && op->attr.inverse ? SN_REDUCE_SCATTER : row->as;
    *n = moved(op, *kind);
    return true;
}

bool sn_op_communication(struct sn_communication *out, const struct sn_program *p,
                         const struct sn_op *op)
{
    if (op->kind == SN_OP_AGREE) {
        *out = (struct sn_communication){SN_ALL_REDUCE, sn_agree_words(op), SN_F64};
        return true;
    }
    struct sn_communication c;
    if (!sn_op_collective(op, &c.kind, &c.n))
        return false;
    c.dtype = p->bufs[c.kind == SN_RECV ? op->out[SN_MOVE_TO].buf : op->in[SN_MOVE_FROM].buf].dtype;
    *out = c;
    return true;
}

const struct sn_class_row *sn_class_row(enum sn_class c)
{
    static const struct sn_class_row of[SN_NCLASSES] = {
        [SN_CLASS_PARAM] = {"param", SN_ARENA_STATE, SN_USE_PARAMS},
        [SN_CLASS_GRAD] = {"grad", SN_ARENA_STATE, SN_USE_GRADS},
        [SN_CLASS_OPTIM] = {"optim", SN_ARENA_STATE, SN_USE_OPTIMIZER},
        [SN_CLASS_PAST] = {"past", SN_ARENA_STATE, SN_USE_ACTIVATIONS},
        [SN_CLASS_BATCH] = {"batch", SN_ARENA_STATE, SN_USE_ACTIVATIONS},
        [SN_CLASS_COMM] = {"comm", SN_ARENA_STATE, SN_USE_COMM},
        [SN_CLASS_SCALARS] = {"scalars", SN_ARENA_STATE, SN_USE_ACTIVATIONS},
        [SN_CLASS_CACHE] = {"cache", SN_ARENA_STATE, SN_USE_PARAMS},
        [SN_CLASS_SLOT] = {"slot", SN_ARENA_SCRATCH, SN_USE_ACTIVATIONS},
        [SN_CLASS_LATE] = {"late", SN_ARENA_SCRATCH, SN_USE_ACTIVATIONS},
        [SN_CLASS_TEMP] = {"temp", SN_ARENA_SCRATCH, SN_USE_ACTIVATIONS},
        [SN_CLASS_WORKSPACE] = {"workspace", SN_ARENA_SCRATCH, SN_USE_WORKSPACE},
    };
    return &of[c];
}

enum sn_carried sn_op_carries(const struct sn_op *op)
{
    bool sums = op->is_weight_grad &&
                sn_op_row(op->kind)->is_sum; /* gathers of activations may be delayed, too */
    if (sums || op->codable == 1 + SN_CODED_DATA)
        return SN_CARRIED_WEIGHT_GRADS;
    if (op->codable == 1 + SN_CODED_ZERO)
        return SN_CARRIED_WEIGHTS;
    return op->is_input_grad ? SN_CARRIED_INPUT_GRADS : SN_CARRIED_OTHER;
}

const char *sn_carried_name(enum sn_carried c)
{
    static const char *const name[SN_NCARRIED] = {"other", "input gradients", "weight gradients",
                                                  "weights"};
    return name[c];
}

const char *sn_arena_name(enum sn_arena a)
{
    static const char *const name[SN_NARENAS] = {"state", "scratch"};
    return name[a];
}

const struct sn_memory_use_row *sn_memory_use_row(enum sn_memory_use u)
{
#define USE(NAME, name, always) {#name, always},
    static const struct sn_memory_use_row of[] = {SN_MEMORY_USES(USE)};
#undef USE
    return &of[u];
}
