/*
 * attr.h - what an operation needs to know beside its operands, by family; a member that a kind does
 * not name is 0. What each means to an operation is in the table of kernels/ops.h, which includes
 * this header: nobody else need to.
 */
#ifndef SN_ATTR_H
#define SN_ATTR_H

#include "kernels/both.h"
#include "kernels/codec_kind.h"
#include "kernels/tensor.h"

#include <stdbool.h>

enum sn_act { SN_ACT_GELU_TANH, SN_ACT_GELU_ERF };
/* What a gated activation takes of its gate. */
enum sn_gate { SN_GATE_SILU, SN_GATE_GELU_TANH };
enum sn_epilogue { SN_EPILOGUE_NONE, SN_EPILOGUE_ACT, SN_EPILOGUE_ACT_DX, SN_EPILOGUE_COLSUM };
/* Of what an operation's sums are, where they are to have the same bits in every order (exact.h). */
enum sn_exact { SN_EXACT_NONE, SN_EXACT_VALUES, SN_EXACT_ROWS, SN_EXACT_WEIGHTS, SN_EXACT_LOSSES };
enum sn_fp8 { SN_FP8_NONE, SN_FP8_FORWARD, SN_FP8_BACKWARD, SN_FP8_BLOCKS, SN_FP8_LINES };

/* GEMM, EXPERT_GEMM */
struct sn_gemm_attr {
    bool trans_a, trans_b;
    enum sn_fp8 fp8;
    enum sn_epilogue epilogue;
};

/* ROPE, HEAD_NORM and its gradients, MLA_JOIN, MLA_JOIN_DX, ATTENTION, ATTENTION_DX, ATTENTION_ROWS */
struct sn_attention_attr {
    int32_t heads, kv_heads, head_dim;
    int32_t v_dim;       /* MLA_JOIN, ATTENTION, their gradients: features of a head of v; 0: head_dim */
    int32_t rotary_dim;  /* ROPE */
    int32_t rotary_from; /* ROPE: the first column of a head that turns */
    bool interleaved;    /* ROPE: pairs are neighbours, (2i, 2i + 1) */
    float theta;         /* ROPE: base of the frequencies */
    float amplitude;     /* ROPE: of sines and cosines; 0: 1 */
    const double
        *frequencies; /* ROPE: of each pair, in place of those of theta; on the host; or NULL */
    float scale;      /* of the scores */
    enum sn_library_use library; /* whether a library may compute it */
    int32_t head0;               /* the first query head here */
    int32_t window; /* keys that a query sees at most, its own the last of them; 0: no bound */
    float cap;      /* of scores; 0: none */
};

/* Which position of which sample a row is (kernels/position.h). All zero but seq: everything is here. */
struct sn_position_attr {
    int64_t seq;          /* S, of the whole sample */
    int32_t context;      /* ranks that share each sequence; 0 and 1: not shared */
    int32_t context_rank; /* of this rank: its rows' positions */
    int32_t key_rank;     /* ATTENTION, ATTENTION_DX: whose positions the keys have */
    bool zigzag;          /* how positions are dealt to context ranks; else contiguous */
    int64_t row0;         /* the operand's first row among the rank's rows of the micro-batch; of one row
                             after another set when it runs */
};

/* EMBED, the head and cross entropy, where ranks share the vocabulary out */
struct sn_vocab_attr {
    int64_t words; /* of the whole vocabulary; 0: as many as there are columns or rows */
    int64_t first; /* the first word here */
    float cap;     /* of logits z, in whose place are cap tanh(z / cap); 0: none */
    int32_t sets;  /* CROSS_ENTROPY: of data, that rows are of; AGREE: whose losses are agreed on, too */
    float z_loss;  /* CROSS_ENTROPY: weight of lse^2; AGREE: not 0: its sum is agreed on, too */
    float weight;  /* CROSS_ENTROPY: of a loss beside the model's; 0: it is that. AGREE: as z_loss */
};

struct sn_random_attr { /* DROPOUT, JITTER, ATTENTION, ROUTE, ENCODE */
    uint32_t site;      /* of the random stream: unique in the model; ENCODE's: unique in the job */
    float drop;         /* probability of dropping, 0 = off */
    float jitter;       /* JITTER: more than 0 */
    int32_t col0, width; /* DROPOUT: x begins at this column of so many; 0: it has them all */
};

/* PROMPT and its gradients */
struct sn_prompt_attr {
    int32_t first, rows;   /* the positions of a sample that it fills: the first, and how many */
    int32_t level, levels; /* of features, which of as many rows of an entry, levels times; 0: none */
};

/* Optimizers, CLIP_SCALE; AVERAGE: beta1 */
struct sn_optimizer_attr {
    float beta1, beta2, eps, momentum, decay;
    float rate;         /* what scalars.lr is multiplied by; 0: 1 */
    bool dynamic_scale; /* CLIP_SCALE: fp16 loss scaling is on */
};

/* ROUTE and its kin, MOE_PERMUTE, RECV_OFFSETS, ROUTER_BIAS, EXPERT_GEMM */
struct sn_experts_attr {
    int32_t count;          /* of the layer; EXPERT_GEMM: here */
    int64_t capacity;       /* MOE_PERMUTE, RECV_OFFSETS */
    int32_t round;          /* RECV_OFFSETS; set when it runs */
    int64_t rows;           /* EXPERT_GEMM */
    float aux_loss, z_loss; /* ROUTE_DX */
    bool by_sequence;       /* ROUTE_DX, ROUTE_LOSS: counts are of each sequence */
    bool sparsemixer;       /* ROUTE, ROUTE_DX */
    bool dense;             /* ROUTE and its kin, MOE_PERMUTE */
    bool of_all;            /* ROUTE, ROUTE_DX: weights are probabilities among all experts */
    bool sigmoid;           /* ROUTE, ROUTE_DX: an expert's score is a sigmoid of its logit */
    int32_t groups;         /* ROUTE: of experts, at most 64; 0 and 1: one */
    int32_t top_groups;     /* ROUTE: of which a token's experts are */
    float route_scale;      /* ROUTE, ROUTE_DX: of weights; 0: 1 */
    float range;            /* of a sparsemixer */
    float rate;             /* ROUTER_BIAS */
    int32_t
        member; /* RECV_OFFSETS, MOE_PERMUTE: this rank's, of the group that shares the experts out */
    int32_t chunk, chunks; /* RECV_OFFSETS */
    int32_t slices;        /* of an expert, on as many members; no kernel reads it */
};

/* ENCODE, DECODE */
struct sn_stream_attr {
    struct sn_codec codec[SN_CODEC_LEVELS]; /* in turn, `levels` of them */
    int32_t levels;
    enum sn_coded coded;
    enum sn_dtype type; /* of the values encoded */
    bool marked;        /* streams follow their length, and may not be there: 0 */
    int64_t share;      /* values of a stream */
    int64_t missing;    /* values at the end of the operand that are not there */
    int32_t member;     /* ENCODE: this rank's, of the group that sends */
};

/* GEMM, EXPERT_GEMM, sums over rows, losses and norms of gradients */
struct sn_exact_attr {
    enum sn_exact of;
    int32_t dx_depth; /* GEMM: of its input's gradient; no kernel reads it */
    int32_t
        depth; /* GEMM, EXPERT_GEMM: of a term of a product; CE_PART and CROSS_ENTROPY: of a part */
};

/* Columns of a head of v and o. */
SN_BOTH int64_t sn_v_dim(const struct sn_attention_attr *a)
{
    return a->v_dim > 0 ? a->v_dim : a->head_dim;
}

struct sn_attr {
    enum sn_act act; /* ACT, ACT_DX, GEMM with such an epilogue */
    enum sn_gate gate; /* SWIGLU, SWIGLU_DX */
    float eps;       /* norms */
    float shift;     /* norms of RMS: of their weights, which are shift + w */
    float scale;     /* SCALE */
    bool inverse;    /* ROPE, DECODE */
    bool draws;      /* ROUTE, ROUTE_DX: in training; ORTHOGONALISE */
    bool any_order;  /* EMBED_GRAD, COLSUM, ATTENTION_DX, gradients of norms' weights: sums
                                 * may be in whatever order is fastest, other from run to run */
    int64_t blocks_a, blocks_b; /* TRANSPOSE, ENCODE, DECODE */
    struct sn_gemm_attr gemm;
    struct sn_attention_attr attention;
    struct sn_position_attr position;
    struct sn_vocab_attr vocab;
    struct sn_random_attr random;
    struct sn_prompt_attr prompt;
    struct sn_optimizer_attr optimizer;
    struct sn_experts_attr experts;
    struct sn_stream_attr stream;
    struct sn_exact_attr exact;
};

#endif
