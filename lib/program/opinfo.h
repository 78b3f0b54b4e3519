/*
 * opinfo.h - what is known of each kind of operation: one row a kind.
 *
 * kernels/ops.h says what an operation computes; the row says what those who handle programs have
 * to know of it: lowering and gradients, recomputation, placement, the verifier, the planner. Who
 * wants a property reads it here, and asks for the kind only where that very operation is meant. No
 * row knows a layout, a machine or a backend.
 */
#ifndef SN_OPINFO_H
#define SN_OPINFO_H

#include "lib/program/program.h"

struct sn_emit;

enum sn_operand_role {
    SN_ROLE_OPTIONAL = 1,    /* may be absent */
    SN_ROLE_ADDED = 2,       /* of an output: SN_ADD is legal */
    SN_ROLE_UPDATED = 4,     /* of an output: it is read, too */
    SN_ROLE_ANY_ORDER = 8,   /* of an output: a sum, for which attr.any_order frees the order */
    SN_ROLE_GRADIENT = 16,   /* the gradient rule reads it: it is kept, or computed again */
    SN_ROLE_OF_WEIGHTS = 32, /* for the gradient of weights alone */
    SN_ROLE_ROWS = 64        /* a row of it goes with the same row of the others that are so */
};

struct sn_operand_info {
    const char *name; /* NULL: the kind has no such operand */
    unsigned roles;
    signed char takes[2]; /* of an output: inputs whose place it may take, plus one; 0: none */
};

/* May a forward operation be computed again? */
enum sn_may_repeat {
    SN_REPEAT_FULL,  /* where all is that can be (layout.recompute: full) */
    SN_REPEAT_CHEAP, /* and under `selective`: it is cheap for the size of its result */
    SN_REPEAT_OUT,   /* as FULL, but not what it brings back (attr.inverse): no rule reads what that
                        was made of */
    SN_REPEAT_NEVER
};

/* What decides its time. */
enum sn_cost {
    SN_COST_ELEMENTWISE, /* bytes */
    SN_COST_NORM,
    SN_COST_LOSS,
    SN_COST_UPDATE,  /* bytes, of the optimizer */
    SN_COST_PRODUCT, /* FLOPs, at the rate of products */
    SN_COST_ATTENTION,
    SN_COST_MESSAGE /* what ranks send each other, and waiting for it */
};

struct sn_op_row {
    struct sn_operand_info in[SN_MAX_IN], out[SN_MAX_OUT];
    /* Emits the gradients of the inputs (grad.c); NULL: there are none. */
    void (*gradient)(struct sn_emit *e, const struct sn_op *f);
    int dx, dw; /* kinds that compute them, for rules of several kinds */
    enum sn_may_repeat repeat;
    enum sn_cost cost;
    double (*flops)(const struct sn_op *op); /* NULL: none that count */
    /* NULL: inputs once, outputs once, or twice where they are added to or updated */
    int64_t (*bytes)(const struct sn_program *p, const struct sn_op *op);
    /* m, n, k of struct sn_measured; NULL: elements of the largest operand, 0, 0 */
    void (*shape)(const struct sn_op *op, int64_t mnk[3]);
    bool adds_residual; /* a norm whose input may be a sum: an addend, and out the sum */
    bool codes;         /* between values and streams of a codec */
    /* of messages */
    enum sn_op_stream stream; /* that it runs on */
    bool moves;               /* data between ranks: posted, and complete at its WAIT */
    enum sn_collective as;    /* which it is for those who count and price it */
    bool is_sum;              /* over ranks */
    bool takes_input;         /* its memory is free once it is posted: the output may lie there */
    bool may_be_coded;        /* by ENCODE and DECODE on both sides of it (compress.c) */
    bool counts_rows;         /* how many go is known when it runs */
    bool synchronises;        /* names what others read and write, and uses none of it */
};

/* What sn_grad_pointwise asks of a kind, and of the one that is its gradient: these come first. */
enum { SN_POINTWISE_X, SN_POINTWISE_Y = 0 };
enum { SN_POINTWISE_DX_DY, SN_POINTWISE_DX_DX = 0 };

const struct sn_op_row *sn_op_row(int kind);
const struct sn_stream_row *sn_stream_row(enum sn_op_stream s);
/* What runs one operation after another: a stream, or of collectives the queue of an axis. */
enum { SN_CLOCK_QUEUE = SN_NSTREAMS, SN_NCLOCKS = SN_CLOCK_QUEUE + SN_NAXES };
/* The kind that updates the weights. */
int sn_op_update(enum sn_optimizer o);
/* Does a row say all of this of an operand? False for an absent one. */
static inline bool sn_operand_is(const struct sn_operand_info *x, unsigned roles)
{
    return (x->roles & roles) == roles;
}
/* Of communication, in the widest sense: it belongs to a group of ranks. */
static inline bool sn_op_communicates(const struct sn_op *op)
{
    const struct sn_op_row *r = sn_op_row(op->kind);
    return r->moves || r->synchronises;
}
/* Does it run beside what follows it, until its WAIT? */
static inline bool sn_op_is_posted(const struct sn_op *op)
{
    const struct sn_op_row *r = sn_op_row(op->kind);
    return r->stream != SN_STREAM_COMPUTE && !r->synchronises;
}
/* Which of SN_NCLOCKS it runs on: its stream, or SN_CLOCK_QUEUE + the axis of its queue. */
static inline int sn_op_clock(const struct sn_op *op)
{
    enum sn_op_stream s = sn_op_row(op->kind)->stream;
    return s == SN_STREAM_COLLECTIVES ? SN_CLOCK_QUEUE + (int)sn_group_queue(op->group) : (int)s;
}
/* Between two ranks? */
static inline bool sn_op_is_transfer(const struct sn_op *op)
{
    return sn_op_row(op->kind)->stream == SN_STREAM_TRANSFERS;
}
/* Do other ranks take part? What is posted otherwise is a copy of in[0] in out[0]. */
static inline bool sn_op_meets_others(const struct sn_job *j, const struct sn_op *op)
{
    return sn_op_row(op->kind)->moves && j->group_size[op->group] > 1;
}
/* A message in a group of one: it takes no time. */
static inline bool sn_op_is_alone(const struct sn_job *j, const struct sn_op *op)
{
    return sn_op_communicates(op) && j->group_size[op->group] == 1;
}

/* What a message carries. */
enum sn_carried {
    SN_CARRIED_OTHER,       /* activations, statistics, gradients of experts' rows */
    SN_CARRIED_INPUT_GRADS, /* of a move of the model, whose ranks' parts are summed or gathered */
    SN_CARRIED_WEIGHT_GRADS,
    SN_CARRIED_WEIGHTS,
    SN_NCARRIED
};
enum sn_carried sn_op_carries(const struct sn_op *op);
const char *sn_carried_name(enum sn_carried c);

/* opcost.c, for rows: */
double sn_flops_gemm(const struct sn_op *op);
double sn_flops_expert_gemm(const struct sn_op *op);
/* Of attention: the length of whole sequences in which queries see as many keys on average. */
int64_t sn_op_seq(const struct sn_op *op);
double sn_flops_attention(const struct sn_op *op);
double sn_flops_attention_dx(const struct sn_op *op);
int64_t sn_bytes_embed(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_embed_grad(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_prompt(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_balance(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_encode(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_decode(const struct sn_program *p, const struct sn_op *op);
int64_t sn_bytes_orthogonalise(const struct sn_program *p, const struct sn_op *op);
void sn_shape_gemm(const struct sn_op *op, int64_t mnk[3]);
void sn_shape_expert_gemm(const struct sn_op *op, int64_t mnk[3]);
void sn_shape_attention(const struct sn_op *op, int64_t mnk[3]);
void sn_shape_norm(const struct sn_op *op, int64_t mnk[3]);

#endif
