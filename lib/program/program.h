/*
 * program.h - the step program: typed operations over named buffers.
 *
 * A program is a flat list of operations, cut into segments, and a schedule that says which segment
 * runs on which micro-batch. It is compiled before step 0 and never changes. The executor runs it,
 * the planner prices it, the printer shows it: all three read this struct and nothing else.
 *
 * Rules:
 * - An activation is written by the operations of one definition and never changed afterwards
 *   (single assignment). Whether an output shares memory with an input is decided by place.c alone.
 * - Adding to what is there is a property of an operand (enum sn_acc_rule), so no operation exists
 *   only to accumulate.
 * - What varies at run time is: an operation's `when`, the `ok` scalar, indices of views, and the
 *   scalars block.
 *
 * Longer than 500 lines because what a job and its programs are is one thing.
 */
#ifndef SN_PROGRAM_H
#define SN_PROGRAM_H

#include "kernels/ops.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/config/config.h"
#include "lib/layout/collective.h"
#include "lib/layout/grid.h"
#include "lib/layout/placement.h"
#include "lib/layout/schedule.h"
#include "lib/model/model.h"

/* Operations of ranks with each other; they follow the kernels' kinds. What moves data is posted,
 * and completed by a WAIT.
 *
 * SEND         in[0] to member `peer` of the group
 * RECV         out[0] from member `peer`
 * SHIFT        ring: in[0] to the next member, out[0] from the previous one
 * GATHER_ROWS  the shares of a window: in[0] the own one, in[1] bounds of all members, out[0] the
 *              window; attr.inverse: in[0] a window that is a sum over ranks, out[0] the own share
 *              of the sum. attr as EXCHANGE's
 * EXCHANGE     rows of tokens to the ranks of their experts: in[0] own rows, in[1] bounds of all
 *              members, out[0] the window; attr.inverse: back (lib/layout/exchange.h). experts: of
 *              a member; capacity: rows of the window; rows: those of a member; blocks_a: members;
 *              blocks_b: tensor ranks that share a window, of which each exchanges its share alone.
 *              How many rows go is known when it runs. Over EXPERT_NODE from rows to a transit,
 *              over EXPERT_RAIL from there to the window (blocks_a: members of that group)
 * WAIT         block until operation `waits_for` is complete
 * ALIAS        out[0] is in[0], the same memory: it only has another gradient
 * AGREE        step end: sum scalars.agree over all ranks, and wait */
/* clang-format off */
#define SN_MESSAGE_KINDS(X)                                                                   \
    X(ALL_REDUCE, all_reduce) X(ALL_GATHER, all_gather) X(REDUCE_SCATTER, reduce_scatter)     \
    X(ALL_TO_ALL, all_to_all) X(SEND, send) X(RECV, recv) X(SHIFT, shift)                     \
    X(GATHER_ROWS, gather_rows) X(EXCHANGE, exchange) X(WAIT, wait) X(ALIAS, alias)           \
    X(AGREE, agree)
/* clang-format on */
#define SN_MESSAGE_KIND_OF(KIND, name) SN_OP_##KIND,
enum { SN_BEFORE_MESSAGES = SN_NKERNELS - 1, SN_MESSAGE_KINDS(SN_MESSAGE_KIND_OF) SN_NKINDS };
#undef SN_MESSAGE_KIND_OF

/* What runs one operation after another, beside the other streams: kernels in the order of the
 * program, and what is posted until it is complete. */
enum sn_op_stream {
    SN_STREAM_COMPUTE,
    SN_STREAM_COLLECTIVES,
    SN_STREAM_RINGS,     /* of attention: beside the collectives of its axis */
    SN_STREAM_TRANSFERS, /* between two ranks (`peer`, `tag`): from when both have posted it */
    SN_NSTREAMS
};
struct sn_stream_row {
    bool takes_share; /* of the processor, while something is under way (machine.h) */
};

/* Positions of their operands. A WAIT names those of what it waits for: they live until it. */
enum { SN_MOVE_FROM, SN_MOVE_BOUNDS, SN_MOVE_TO = 0 };
enum { SN_WAIT_NAMES, SN_WAIT_NAMES_TOO };

/* What a rank's memory is for, in the order in which people are told; said although it is 0?
 * snapshot: copies of what a rank writes (boxes.h): checkpoint.async, snapshot_every. */
#define SN_MEMORY_USES(USE)                                                                        \
    USE(PARAMS, params, true)                                                                      \
    USE(GRADS, grads, true)                                                                        \
    USE(OPTIMIZER, optimizer, true)                                                                \
    USE(ACTIVATIONS, activations, true)                                                            \
    USE(WORKSPACE, workspace, true)                                                                \
    USE(COMM, comm, true)                                                                          \
    USE(SNAPSHOT, snapshot, false)                                                                 \
    USE(LIBRARY, library, true)
#define SN_MEMORY_USE(NAME, name, always) SN_USE_##NAME,
enum sn_memory_use { SN_MEMORY_USES(SN_MEMORY_USE) SN_NMEMORY_USES };
#undef SN_MEMORY_USE
struct sn_memory_use_row {
    const char *name;
    bool always;
};
#define SN_MEMORY_MEMBER(NAME, name, always) int64_t name;
struct sn_memory_plan { /* bytes: memory_bytes of docs/plan.schema.json */
    union {
        struct {
            SN_MEMORY_USES(SN_MEMORY_MEMBER)
        };
        int64_t of[SN_NMEMORY_USES];
    };
    int64_t total;
};
#undef SN_MEMORY_MEMBER

/* Blocks of memory that a rank maps before the first step, and that its buffers lie in. */
enum sn_arena {
    SN_ARENA_STATE,   /* what lives as long as the job */
    SN_ARENA_SCRATCH, /* what lives for one micro-batch or less */
    SN_NARENAS
};

/* What a buffer is for. Those of the first group live as long as the job. */
enum sn_class {
    SN_CLASS_PARAM, /* weights as the forward pass reads them */
    SN_CLASS_GRAD,  /* fp32, contiguous in the order in which backward finishes them */
    SN_CLASS_OPTIM, /* master weights (unless they are the weights), moments */
    SN_CLASS_PAST,  /* generate: keys and values of the tokens before, of each attention: not saved */
    SN_CLASS_BATCH, /* token ids, targets, starts and features of every micro-batch of a step */
    SN_CLASS_COMM,  /* staging of collectives */
    SN_CLASS_SCALARS,
    SN_CLASS_CACHE, /* gathered weights, from a step's first micro-batch on: not saved */
    SN_NSTATE_CLASSES,
    SN_CLASS_SLOT = SN_NSTATE_CLASSES, /* kept from forward to backward; one copy per slot */
    SN_CLASS_LATE, /* kept from a backward segment to its delayed weight gradients: fewer copies */
    SN_CLASS_TEMP, /* dies inside its segment */
    SN_CLASS_WORKSPACE, /* scratch of operations: one, the largest */
    SN_NCLASSES
};
struct sn_class_row {
    const char *name;
    enum sn_arena arena;
    enum sn_memory_use use; /* what its bytes are told as */
};

enum sn_when { SN_EVERY, SN_FIRST, SN_LAST }; /* micro-batch */
enum sn_acc_rule {
    SN_ACC_WRITE,
    SN_ACC_ADD,
    SN_ACC_FIRST_WRITES /* write on the first, then add */
};
enum sn_segment_kind {
    SN_SEGMENT_RECV_FORWARD,  /* posts the receive of a forward's input: apart, so that it can */
    SN_SEGMENT_RECV_BACKWARD, /* be hoisted; and of the gradient that a backward begins with */
    SN_SEGMENT_FORWARD,
    SN_SEGMENT_BACKWARD,   /* both kinds of gradients, interleaved: least memory */
    SN_SEGMENT_INPUT_GRAD, /* or apart, so that a schedule may delay the second */
    SN_SEGMENT_WEIGHT_GRAD,
    SN_SEGMENT_UPDATE,
    SN_SEGMENT_HEAD /* generate, generate_row: logits of one row */
};

struct sn_buffer {
    char name[112];
    enum sn_class cls;
    enum sn_dtype dtype;
    int64_t rows, cols; /* row-major without gaps */
    int64_t bytes;      /* rounded up to 64 */
    int bucket;         /* of weights or gradients: the bucket they are; -1 */
    int vstage;         /* virtual stage of this rank: whose slots hold it */
    bool needs_grad;    /* something trainable lies upstream */
    bool partial_grad;  /* ranks use it in ways of their own: its gradient is a sum over them */
    bool kept; /* a transfer may read it after its segment: its place is the slot's alone */
    /* filled by place.c */
    int first, last; /* operations that touch it first and last; -1: never touched */
    int place;       /* the buffer whose memory this one shares (itself if its own) */
    int64_t offset;  /* in its arena, its slot or late copy, or among the temporaries */
};

/* A matrix inside a buffer. `index` adds a run-time step to the address. */
enum sn_index {
    SN_AT_FIXED,
    SN_AT_MICRO, /* + micro-batch x stride */
    SN_AT_ROW,   /* + row x ld */
    SN_AT_SLICE  /* + index among those that the buffer's bucket is sliced over x stride */
};

struct sn_view {
    int buf;        /* -1: absent operand */
    int64_t offset; /* elements */
    int64_t rows, cols, ld;
    enum sn_index index;
    int64_t stride; /* elements, of SN_AT_MICRO and SN_AT_SLICE */
};

struct sn_op {
    int kind; /* enum sn_op_kind or one of the communication kinds */
    enum sn_when when;
    char label[64]; /* the point it comes from: "l0.attn.qkv" */
    struct sn_view in[SN_MAX_IN];
    struct sn_view out[SN_MAX_OUT];
    enum sn_acc_rule acc[SN_MAX_OUT];
    struct sn_attr attr;
    int id;                 /* unique in its program; stays when passes move the operation */
    int layer; /* of the model; -1 before the blocks, their number after, more in those of model.mtp */
    unsigned only;          /* bit g: runs only on member 0 of group g */
    unsigned in_first;      /* bit i: input i is there only on members 0 of all groups of */
    unsigned first_of;      /* this, of which bit g is group g; elsewhere it is absent */
    enum sn_group group;    /* communication only */
    int peer, tag;          /* SEND, RECV */
    enum sn_move grad_move; /* of a move of the model: what its gradient needs */
    int codable;   /* of communication: 1 + the enum sn_coded of what it moves; 0: exact, always */
    bool is_coded; /* operands are streams of attr's codec: only what they use of their room goes */
    int waits_for; /* WAIT: id of the posted operation */
    bool at_row;   /* attr.position.row0 is the row asked for (generate_row) */
    bool per_slot; /* posts and waits of different slots are apart */
    bool is_again; /* of the forward pass, computed once more in the backward one */
    bool is_weight_grad; /* may be delayed with the weight gradients */
    bool is_input_grad;  /* of a move of the model: its gradient's */
    bool extra; /* of rows beyond the experts' window: neighbours that are are run together, once
                 * for each further round */
};

struct sn_segment {
    enum sn_segment_kind kind;
    struct sn_scope scope;
    int first, n; /* operations */
    int runs[3];  /* in one step, of an operation with each enum sn_when */
};

struct sn_sched {
    int segment, micro;
    int first, n; /* operations that run: all of the segment, or the next piece of them, where two
                   * segments take turns (turns.c) */
    int slot;     /* which copy of the virtual stage's SLOT buffers */
    int late;     /* and of its LATE buffers, in backward and weight-gradient segments */
};

/* The schedule of steps whose batch has so many micro-batches. */
struct sn_batch_order {
    int micros;
    struct sn_sched *sched;
    int n_sched;
};

enum { SN_MAX_VSTAGES = 64 }; /* virtual stages of a rank */

struct sn_program {
    char name[32]; /* "train", "evaluate", "generate", "generate_row" */
    struct sn_buffer *bufs;
    struct sn_op *ops;
    struct sn_segment *segments;
    struct sn_sched *sched;
    int n_bufs, n_ops, n_segments, n_sched;
    int cap_bufs, cap_ops, cap_segments, cap_sched;
    int next_id;            /* of operations */
    int *op_of_id, cap_ids; /* where the operation of each id is, while the text is written */
    int logits;             /* buffer of `generate` and `generate_row`: fp32 logits of the row asked for */
    int n_state_bufs;       /* the first buffers are the job's state, the same in every program */
    int micros;             /* micro-batches per step */
    /* With train.ramp the text has a schedule for each size of batch, in the order of
     * sn_batch_size(); micros, sched, n_sched and segments' runs are those of one of them, and slots
     * enough for each. Else NULL. */
    struct sn_batch_order *orders;
    int n_orders;
    int vstages;            /* virtual stages */
    int slots[SN_MAX_VSTAGES]; /* micro-batches in flight at once */
    int lates[SN_MAX_VSTAGES]; /* backwards whose weight gradients are due, at once */
    bool takes_turns;          /* forward and backward segments do: temporaries of both live */
    int layer;                 /* of operations that are added now */
    struct sn_scope scope;     /* of buffers and segments that are added now */
    bool extra;                /* operations that are added now are */
    bool failed;               /* an allocation failed while building */
    struct sn_op spare;        /* what builders write into once it has */
    /* filled by place.c: bytes */
    int64_t slot_bytes[SN_MAX_VSTAGES]; /* of one slot */
    int64_t slot_base[SN_MAX_VSTAGES];  /* of slot 0 of a virtual stage, in the arena */
    int64_t late_bytes[SN_MAX_VSTAGES]; /* the same for copies of LATE buffers */
    int64_t late_base[SN_MAX_VSTAGES];
    int64_t slots_bytes; /* of all slots and late copies of all virtual stages */
    int64_t temp_bytes, workspace_bytes;
    int64_t temp_lower_bound; /* largest sum of temporaries live at once: no packing does better */
};

/* What a local shard of a parameter holds of a logical tensor. */
struct sn_shard_tensor {
    int tensor;          /* of sn_param.tensor */
    int64_t at, n;       /* local rows at .. at + n - 1 ... */
    int64_t from;        /* ... are rows from .. of the logical tensor */
    int64_t col, n_cols; /* columns 0 .. n_cols - 1 here are columns col .. there */
};

/* What this rank holds of a parameter. Usually a parameter is one shard; where key and value heads
 * have copies, q is one and k, v are another, because their gradients are summed differently. */
struct sn_shard {
    int param;
    int bucket;
    int64_t offset;     /* elements, in the bucket */
    int64_t rows, cols; /* padding included */
    int n_tensors;
    struct sn_shard_tensor *tensor; /* the job's memory */
};

/* Parameters whose gradients are reduced, and whose optimizer states are kept, as one flat array of
 * n elements. Divided by ZeRO into one slice for each member of `replicas`. */
struct sn_bucket {
    char name[64];
    bool trains;
    float decay, rate; /* weight decay; what the learning rate is multiplied by */
    bool is_bias;      /* of routers' choices: fp32, and whole whatever ZeRO does */
    bool is_sparse;    /* gradients of what is 0 are dropped (train.sparse) */
    bool is_coded;     /* one shard, whose weights are codes: sn_bucket_codec() */
    bool counts;       /* and not frozen: grad holds the step's counts, summed over `sums` */
    unsigned copies;   /* bit g: all members of group g hold the same values; member 0 owns them */
    unsigned sums;     /* bit g: gradients are summed over group g too */
    enum sn_group replicas; /* who holds the same weights and sees other tokens: REPLICA, of experts
                               EXPERT_DATA */
    enum sn_group sliced_over; /* whose members hold a slice each of divided arrays; SN_NGROUPS:
                                  none is divided */
    unsigned alike; /* bit g: all members of group g hold the same masters and moments, and the same
                       gradients once they are reduced: member 0 counts and owns them */
    enum sn_dtype grad_type; /* fp32, or train.grad_dtype */
    struct sn_holding held;  /* by a rank, of its weights, gradients and optimizer state */
    bool cached, deferred; /* gathered once in a step: as zero_cache.h says; in place (zero.c) */
    int layer;               /* where gradients are a temporary: buckets do not cross layers */
    int first, n_shards;     /* its shards, in order of offset: sn_bucket_shard */
    int64_t n;               /* elements, padding included: a multiple of 32 x members */
    int64_t slice;           /* elements that a rank holds of divided arrays: n, or n / members */
    /* state buffers, -1 where there is none; as long as `held` says */
    int weight, master, grad;
    int moment[SN_MAX_KEPT]; /* the optimizer's, and behind them the weights' average (train.ema) */
    int cache;    /* of `cached`: all weights [n], or -1 */
    int feedback; /* what codecs lost of this rank's gradients: fp32 [n], or -1 */
    int factors; /* PowerSGD: the right ones of its matrices, the same on all replicas: fp32 [sum of
                    cols, rank], or -1 */
};

/* Everything compiled for one rank. Ranks of one pipeline stage have the same text; what differs
 * are attributes of positions, heads, words and experts (struct sn_attr) and indices in groups. */
struct sn_job {
    const struct sn_config *config;
    const struct sn_model *model;
    const struct sn_ops *ops;
    int threads;
    struct sn_grid grid;
    struct sn_mesh mesh; /* the axes of the grid that tensors are placed on */
    int rank;
    int group_size[SN_NGROUPS], group_index[SN_NGROUPS];
    int stage, stages; /* of the pipeline */
    int modules; /* stages x virtual stages; module k is virtual stage k / stages of k % stages */
    unsigned same_loss;   /* bit g: all members of group g have the same loss: member 0 counts it */
    unsigned same_routes; /* bit g: they route the same tokens: member 0 counts what experts got */
    int *module_of_node;  /* by node of the model */
    int *module_of_value; /* by value: where it is made */
    int *first_node;      /* by unit + 1, layers + 3 of them: nodes of a unit follow one another */
    int64_t rows;         /* T: tokens of a micro-batch on this rank */
    int64_t head_block;   /* rows of logits that exist at once */
    bool text_only;       /* sn_job_create_text */
    enum sn_dtype dtype;  /* storage */
    const struct sn_holding *held; /* by a rank, of what is not frozen (ZeRO) */
    struct sn_shard *shards;
    struct sn_shard_tensor *shard_tensors; /* of all shards */
    struct sn_bucket *buckets;
    int n_shards, n_buckets;
    int *first_shard;     /* by parameter: its shards follow one another; -1: not on this rank */
    int *shard_of_bucket; /* numbers of shards, bucket after bucket */
    int ids, targets, starts, scalars, staging; /* buffers; starts: sn_starts() of build.h, or -1 */
    int features;   /* of the samples of each micro-batch, whole on every rank (train.prompt); -1 */
    int sets;       /* which set of data each token is of; -1: nobody asks */
    int further;    /* with model.mtp ids and targets of each depth (sn_job_further), else -1 */
    bool scores;    /* sn_job_env */
    bool keeps_past, generates; /* sn_job_env */
    int past;       /* buffers, one for each attention here, in the model's order: [S, k | v]; -1 */
    int row_scores; /* buffer of `evaluate` where it scores and has the head, else -1: [T, 2] fp32,
                       each row's loss and how many words here are likelier (CROSS_ENTROPY) */
    int expert_load; /* [layers with experts, experts] fp32: what a step's tokens here chose; or -1 */
    int agreed;      /* [1, sn_agree_words] fp64: what the ranks sum at its end; -1: scalars.agree is */
    int64_t class_bytes[SN_NSTATE_CLASSES];
    int64_t class_offset[SN_NSTATE_CLASSES]; /* in its arena */
    int64_t arena_bytes[SN_NARENAS];
    int64_t shm_bytes; /* shared memory that the communicator maps */
    /* Room for any rank's snapshot shard (boxes.h); 0 without snapshots, or programs. */
    int64_t snapshot_shard_bytes;
    struct sn_program train, evaluate, generate, generate_row;
};

/* All of them; those that a job does not have are empty. */
enum { SN_NPROGRAMS = 4 };
struct sn_programs {
    const struct sn_program *of[SN_NPROGRAMS];
};
static inline struct sn_programs sn_job_programs(const struct sn_job *j)
{
    return (struct sn_programs){{&j->train, &j->evaluate, &j->generate, &j->generate_row}};
}

/* Resident memory of a rank beside its arenas: libraries, MPI, the text of the compiled programs,
 * the measurement of the processor, hwloc. Measured 17 to 25 MB, and 23 to 33 where HDF5 is a
 * shared library that brings others; tests/cli/test_train.sh holds every run's peak resident memory
 * between the plan and 16 MiB below it. */
#define SN_LIBRARY_BYTES ((int64_t)32 << 20)

/* Compile the set {train, evaluate, generate, generate_row} of one rank for a resolved configuration
 * (layout.data set). `generate` is empty unless the job has one rank or that is asked for,
 * `generate_row`, which computes one row of its window over what it has left in `past`, unless that
 * is asked for, too. `config`, `model` and `ops` are borrowed. Caller destroys *out. */
struct sn_job_env {
    const struct sn_config *config;
    const struct sn_model *model;
    const struct sn_ops *ops;
    int threads;
    int rank;    /* in the grid */
    bool scores; /* `evaluate` keeps what each row gives (row_scores) */
    bool keeps_past; /* `generate` keeps its keys and values, for `generate_row` */
    bool
        generates; /* `generate` also on several ranks: tensor and pipeline ranks alone, rows whole */
};
enum sn_status sn_job_create(struct sn_job **out, const struct sn_job_env *env, struct sn_err *err);
/* The train program alone, live ranges but no offsets of temporaries: its text can be read, not
 * run. Packing is most of what compiling takes. */
enum sn_status sn_job_create_text(struct sn_job **out, const struct sn_job_env *env,
                                  struct sn_err *err);
/* The same without programs: what the rank holds, shards, buckets and state buffers. A thousand
 * of them are made in a fraction of a second. `ops` may be NULL. */
enum sn_status sn_job_create_shards(struct sn_job **out, const struct sn_job_env *env,
                                    struct sn_err *err);
void sn_job_destroy(struct sn_job *j); /* NULL is allowed */
/* From now on the train program is that of steps with the k-th size of batch (sn_batch_size); a new
 * job's is that of the last, the largest. Its text, buffers and memory stay the same. */
void sn_job_set_batch(struct sn_job *j, int k);

/* Where in the staging buffer collectives of a group have theirs, which all of a queue share. */
int64_t sn_job_staging_at(const struct sn_job *j, enum sn_group q);

/* Do other groups of replicas hold the same slices (layout.zero_node)? */
static inline bool sn_slices_are_copied(const struct sn_bucket *b)
{
    return b->sliced_over == SN_GROUP_REPLICA_NODE;
}
/* Are its weights divided among several ranks? With which unit's are they cached (sn_unit_of)? */
bool sn_bucket_may_be_cached(const struct sn_job *j, const struct sn_bucket *b);
int sn_bucket_unit(const struct sn_job *j, const struct sn_bucket *b);
/* Weights that are codes (train.lora.base; kernels/frozen.h): their codec, or NULL. They are one stream,
 * of all elements or of the own slice; slices side by side are that of all. */
const struct sn_codec *sn_bucket_codec(const struct sn_job *j, const struct sn_bucket *b);
/* Elements of a bucket that one of its state buffers holds, all or a slice, and the bytes that so
 * many take in it: of codes whole blocks. */
int64_t sn_bucket_elements(const struct sn_job *j, const struct sn_bucket *b, int buf);
int64_t sn_bucket_bytes(const struct sn_job *j, const struct sn_bucket *b, int buf,
                        int64_t elements);
/* The number of the k-th shard of a bucket, in order of offset. */
int sn_bucket_shard(const struct sn_job *j, int bucket, int k);
/* The first element of a bucket's divided arrays that this rank holds. */
int64_t sn_bucket_slice_at(const struct sn_job *j, const struct sn_bucket *b);
/* Elements of a bucket that a shard of so many takes. */
int64_t sn_shard_room(int64_t elements);
/* All its shards are dealt: b->n is padded, and b->slice set, for so many slices of divided
 * arrays. */
void sn_bucket_close(struct sn_bucket *b, int slices);
/* The shard of a bucket that begins at an element; -1. */
int sn_bucket_shard_at(const struct sn_job *j, int bucket, int64_t offset);
/* Rows that a rank sends to experts in a layer and micro-batch: all that are routed, or what the
 * capacity leaves of them. */
int64_t sn_expert_rows(const struct sn_config *c);
/* Does the expert axis lie outside the data axis? */
bool sn_experts_outside_data(const struct sn_layout_config *l);
/* The grid of a resolved layout. */
enum sn_status sn_job_grid(struct sn_grid *out, const struct sn_config *c, struct sn_err *err);

/* Multiply-adds of the head, and of model.mtp's blocks, in units of one block's: what `split: auto` counts it for. */
double sn_head_layers(const struct sn_model *m, const struct sn_model_config *c);
void sn_job_memory(const struct sn_job *j, struct sn_memory_plan *out);
/* Tokens of the samples of a micro-batch, whole on every context rank. */
static inline int64_t sn_job_starts(const struct sn_job *j)
{
    return (int64_t)j->config->layout.micro_batch * j->config->model.seq;
}
/* Rows of features of the samples of a micro-batch. */
static inline int64_t sn_job_feature_rows(const struct sn_job *j)
{
    return j->config->layout.micro_batch * sn_prompt_entry(&j->config->train.prompt);
}
/* For each token of a micro-batch so many numbers in `further`, micro-batch after micro-batch: of all tokens
 * ids 1, 2, .. further on, and targets of these. */
static inline int sn_job_further(const struct sn_job *j)
{
    return 2 * j->config->model.mtp;
}
/* The total of what is told. */
void sn_memory_add_up(struct sn_memory_plan *m);
/* Bytes that leave this rank in one step, per axis, without those of EXCHANGE: routing decides. Of
 * lossless codecs what is likely. */
void sn_job_traffic(const struct sn_job *j, int64_t bytes[SN_NAXES]);
/* Summed over all ranks of this job's pipeline stage; those of EXCHANGE as if all experts got as
 * many rows. */
void sn_job_traffic_of_stage(const struct sn_job *j, int64_t bytes[SN_NAXES]);
/* Bytes that a stage's ranks send in one exchange of snapshots; 0 without
 * checkpoint.snapshot_every. Billed to the world axis of the step that it runs beside, and no part
 * of sn_job_traffic. */
int64_t sn_job_snapshot_traffic_of_stage(const struct sn_job *j);
/* Words that an AGREE sums: scalars.agree, behind it what experts got (attr.experts.rows words)
 * and the losses of attr.vocab.sets sets, and with attr.stream.levels SN_NAGREE_CODED words of codecs, with attr.exact those of the norm. */
int sn_agree_words(const struct sn_op *op);
/* Of a step's end, codecs left out. */
int sn_agreed_words(const struct sn_config *c);
/* Of the block of scalars, with what lies behind it (sn_set_losses). */
int64_t sn_scalars_bytes(const struct sn_config *c);
/* Of a model: layers with experts x experts. */
int sn_expert_load_words(const struct sn_model_config *m);
/* The communication of an operation: false if it is none. *n is as enum sn_collective says; of
 * streams with their first codec, as long as they are likely to be where its rate is not fixed. */
bool sn_op_collective(const struct sn_op *op, enum sn_collective *kind, int64_t *n);
/* The same with the type of the elements; an AGREE is an all-reduce of its words. */
struct sn_communication {
    enum sn_collective kind;
    int64_t n;
    enum sn_dtype dtype;
};
bool sn_op_communication(struct sn_communication *out, const struct sn_program *p,
                         const struct sn_op *op);
/* Of n bytes of streams as they are planned (their room), those that go where level `level` of the
 * operation's codecs is used. */
int64_t sn_coded_used(const struct sn_op *op, int64_t n, int level);
/* Do the ranks agree on what codecs lost and sent? Where that is measured, or is not as planned. */
bool sn_job_agrees_on_codecs(const struct sn_job *j);
/* How a bucket's updated weights are coded when replicas gather them (ZeRO 1 and 2), if that loses
 * something; NULL: it does not. */
const struct sn_coding *sn_bucket_coding(const struct sn_job *j, const struct sn_bucket *b);
/* A matrix of a bucket whose gradient travels as factors (lower_powersgd.c). Rows left .. left +
 * rows - 1 of the bucket's left factors are its own, and right .. right + cols - 1 of the right. */
struct sn_low_rank {
    int shard, block; /* the block-th of those in a shard, which is */
    int k;            /* the k-th of the bucket */
    int64_t at;       /* element of the bucket */
    int64_t rows, cols, left, right;
};
/* The next matrix of a bucket, after {0} the first; false: there is none. */
bool sn_low_rank_next(const struct sn_job *j, int bucket, struct sn_low_rank *m);
/* The rank of a bucket's factors; 0: its gradients travel otherwise, or not at all. */
int sn_low_rank_of(const struct sn_job *j, const struct sn_bucket *b);
/* The logical tensor that a matrix begins with. */
const char *sn_low_rank_name(const struct sn_job *j, const struct sn_low_rank *m);
/* Where a buffer lies: bytes from the begin of an arena. Of what is kept, in a slot and a late copy
 * of its virtual stage. */
struct sn_address {
    enum sn_arena arena;
    int64_t offset;
};
struct sn_address sn_buffer_address(const struct sn_program *p, int buf, int slot, int late);
/* Of all arenas. */
int64_t sn_job_arena_bytes(const struct sn_job *j);
/* Is this rank member 0 of all groups of these bits? */
bool sn_job_is_first(const struct sn_job *j, unsigned groups);
/* How often each operation of a segment with this `when` runs in one step. */
int sn_program_runs(const struct sn_program *p, int segment, enum sn_when when);
/* Hash over every operation, view and offset, without what may differ between ranks of a stage:
 * what they agree on before step 0. */
uint64_t sn_program_hash(const struct sn_program *p);
/* Of the programs of all ranks, as sn_program_hash() (so without attributes): from the hashes of the pipeline's stages, in order. Never 0. */
uint64_t sn_certificate(const uint64_t *stages, int n);

/* Shapes and types of an operation's operands, with no pointers. */
void sn_op_shapes(const struct sn_program *p, const struct sn_op *op, struct sn_args *a);

/* The program as text, one operation a line. */
void sn_program_print(struct sn_str *out, const struct sn_job *j, const struct sn_program *p);
const char *sn_op_name(int kind);
const struct sn_class_row *sn_class_row(enum sn_class c);
const char *sn_arena_name(enum sn_arena a);
const struct sn_memory_use_row *sn_memory_use_row(enum sn_memory_use u);
/* Multiply-add FLOPs of an operation (2 per multiply-add); 0 for the memory-bound ones. */
double sn_op_flops(const struct sn_op *op);
/* Bytes that an operation moves when nothing stays in a cache: inputs once, outputs once, outputs
 * that it adds to or updates twice. Of an embedding table only the rows that the tokens name. */
int64_t sn_op_bytes(const struct sn_program *p, const struct sn_op *op);
/* m, n, k of a kernel as struct sn_measured means them: GEMM its own; EXPERT_GEMM those of one
 * expert's product; attention rows, heads x head_dim (the mean of that of keys and of values), keys; all
 * others elements of the largest operand (a norm with an addend: twice, as it moves), 0, 0. */
void sn_op_shape(const struct sn_op *op, int64_t mnk[3]);

#endif
