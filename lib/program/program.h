/*
 * program.h - the step program: typed operations over named buffers.
 *
 * A program is a flat list of operations, cut into chunks, and a schedule that says which chunk
 * runs on which micro-batch. It is compiled before step 0 and never changes. The executor runs it,
 * the planner prices it, the printer shows it: all three read this struct and nothing else.
 *
 * Rules (DESIGN.md 6):
 * - An activation is written by the operations of one definition and never changed afterwards
 *   (single assignment). Whether an output shares memory with an input is decided by place.c alone.
 * - Adding to what is there is a property of an operand (enum sn_acc_rule), so no operation exists
 *   only to accumulate.
 * - What varies at run time is: an operation's `when`, the `ok` scalar, indices of views, and the
 *   scalars block.
 */
#ifndef SN_PROGRAM_H
#define SN_PROGRAM_H

#include "kernels/ops.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/config/config.h"
#include "lib/layout/grid.h"
#include "lib/model/model.h"

/* Operations that move data between ranks; they follow the kernels' kinds. */
enum {
    SN_OP_ALL_REDUCE =
        SN_NKERNELS, /* post: sum in[0] over the axis, in place; a WAIT completes it */
    SN_OP_WAIT,      /* block until operation `waits_for` is complete */
    SN_OP_AGREE,     /* step end: sum scalars.agree over all ranks, and wait */
    SN_NKINDS
};

/* What a buffer is for. The first group lives as long as the job (state arena), the second for one
 * micro-batch or less (scratch arena). */
enum sn_class {
    SN_CLASS_PARAM, /* weights as the forward pass reads them */
    SN_CLASS_GRAD,  /* fp32, contiguous in the order in which backward finishes them */
    SN_CLASS_OPTIM, /* master weights (unless they are the weights), first and second moments */
    SN_CLASS_BATCH, /* token ids and targets of every micro-batch of a step */
    SN_CLASS_COMM,  /* staging of collectives */
    SN_CLASS_SCALARS,
    SN_NSTATE_CLASSES,
    SN_CLASS_SLOT = SN_NSTATE_CLASSES, /* kept from forward to backward; one copy per slot */
    SN_CLASS_TEMP,                     /* dies inside its chunk */
    SN_CLASS_WORKSPACE,                /* scratch of operations: one, the largest */
    SN_NCLASSES
};

enum sn_when { SN_EVERY, SN_FIRST, SN_LAST }; /* micro-batch */
enum sn_acc_rule {
    SN_ACC_WRITE,
    SN_ACC_ADD,
    SN_ACC_FIRST_WRITES /* write on the first, then add */
};
enum sn_chunk_kind {
    SN_CHUNK_FORWARD,
    SN_CHUNK_BACKWARD,   /* both kinds of gradients, interleaved: least memory */
    SN_CHUNK_INPUT_GRAD, /* or apart, so that a schedule may delay the second */
    SN_CHUNK_WEIGHT_GRAD,
    SN_CHUNK_UPDATE,
    SN_CHUNK_HEAD /* generate: logits of one row */
};

struct sn_buffer {
    char name[112];
    enum sn_class cls;
    enum sn_dtype dtype;
    int64_t rows, cols; /* row-major without gaps */
    int64_t bytes;      /* rounded up to 64 */
    int param;          /* index of the model's parameter this belongs to; -1 */
    bool needs_grad;    /* something trainable lies upstream */
    /* filled by place.c */
    int first, last; /* operations that touch it first and last; -1: never touched */
    int place;       /* the buffer whose memory this one shares (itself if its own) */
    int64_t offset;  /* in the state arena, the slot, or the temporary part of the scratch arena */
};

/* A matrix inside a buffer. `index` adds a run-time step to the address. */
enum sn_index { SN_AT_FIXED, SN_AT_MICRO /* + micro-batch x stride */, SN_AT_ROW /* + row x ld */ };

struct sn_view {
    int buf;        /* -1: absent operand */
    int64_t offset; /* elements */
    int64_t rows, cols, ld;
    enum sn_index index;
    int64_t stride; /* elements per micro-batch for SN_AT_MICRO */
};

struct sn_op {
    int kind; /* enum sn_op_kind or one of the communication kinds */
    enum sn_when when;
    char label[64]; /* the point it comes from: "l0.attn.qkv" */
    struct sn_view in[SN_MAX_IN];
    struct sn_view out[SN_MAX_OUT];
    enum sn_acc_rule acc[SN_MAX_OUT];
    struct sn_attr attr;
    enum sn_axis axis; /* communication only */
    int waits_for;     /* WAIT: index of the posted operation */
};

struct sn_chunk {
    enum sn_chunk_kind kind;
    int first, n; /* operations */
};

struct sn_sched {
    int chunk, micro, slot;
};

struct sn_program {
    char name[32]; /* "train", "evaluate", "generate" */
    struct sn_buffer *bufs;
    struct sn_op *ops;
    struct sn_chunk *chunks;
    struct sn_sched *sched;
    int n_bufs, n_ops, n_chunks, n_sched;
    int cap_bufs, cap_ops, cap_chunks, cap_sched;
    int n_state_bufs;   /* the first buffers are the job's state, the same in every program */
    int micros;         /* micro-batches per step */
    int slots;          /* micro-batches between their forward and backward at the same time */
    bool failed;        /* an allocation failed while building */
    struct sn_op spare; /* what builders write into once it has */
    /* filled by place.c: bytes */
    int64_t slot_bytes, temp_bytes, workspace_bytes;
    int64_t temp_lower_bound; /* largest sum of temporaries live at once: no packing does better */
};

/* Buffers of one parameter, as indices; -1 where there is none. */
struct sn_param_state {
    int weight, master, grad, exp_avg, exp_avg_sq; /* master == weight in fp32 */
};

/* Everything compiled for one rank. */
struct sn_job {
    const struct sn_config *config;
    const struct sn_model *model;
    const struct sn_ops *ops;
    int threads;
    struct sn_grid grid;
    int ranks;           /* of the data axis */
    int64_t rows;        /* T: tokens of a micro-batch */
    int64_t head_block;  /* rows of logits that exist at once */
    enum sn_dtype dtype; /* storage */
    struct sn_param_state *params;
    int ids, targets, scalars, staging; /* buffers */
    int first_grad;                     /* the gradient buffer at offset 0; -1: nothing trains */
    int logits;                         /* buffer of `generate`: fp32 logits of the row asked for */
    int64_t class_bytes[SN_NSTATE_CLASSES];
    int64_t class_offset[SN_NSTATE_CLASSES]; /* in the state arena */
    int64_t state_bytes, scratch_bytes;
    struct sn_program train, evaluate, generate;
};

/* Resident memory of a rank beside its arenas: libraries, MPI, the text of the compiled programs,
 * the start-up measurement of the processor. Measured 23 to 31 MB; tests/cli/test_train.sh holds
 * every run's peak resident memory between the plan and 16 MiB below it. */
#define SN_LIBRARY_BYTES ((int64_t)32 << 20)

struct sn_memory_plan { /* bytes; DESIGN.md 4, memory_bytes */
    int64_t params, grads, optimizer, activations, workspace, comm, library, total;
};

/* Compile the set {train, evaluate, generate} for a resolved configuration (layout.data set).
 * `config`, `model` and `ops` are borrowed. Caller destroys *out. */
enum sn_status sn_job_create(struct sn_job **out, const struct sn_config *config,
                             const struct sn_model *model, const struct sn_ops *ops, int threads,
                             struct sn_err *err);
void sn_job_destroy(struct sn_job *j); /* NULL is allowed */

void sn_job_memory(const struct sn_job *j, struct sn_memory_plan *out);
/* Bytes that leave one rank in one step, per axis. */
void sn_job_traffic(const struct sn_job *j, int rank, int64_t bytes[SN_NAXES]);
/* Hash over every operation, view and offset: what ranks agree on before step 0. */
uint64_t sn_program_hash(const struct sn_program *p);

/* Shapes and types of an operation's operands, with no pointers. */
void sn_op_shapes(const struct sn_program *p, const struct sn_op *op, struct sn_args *a);

/* The program as text, one operation a line. */
void sn_program_print(struct sn_str *out, const struct sn_program *p);
const char *sn_op_name(int kind);
const char *sn_class_name(enum sn_class c);
/* Multiply-add FLOPs of an operation (2 per multiply-add); 0 for the memory-bound ones. */
double sn_op_flops(const struct sn_op *op);
/* The input whose memory output `out` may take, given the shapes; -1 for none; tried in order of
 * `choice` = 0, 1. */
int sn_op_may_take(int kind, int out, int choice);

#endif
