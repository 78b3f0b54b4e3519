/*
 * config.h - the run file, read into one struct per section.
 *
 * The key table (config/keys.c) is the single source of every key: type, bounds, unit, default,
 * sentence. It feeds the parser, the bounds checks, --help-keys and docs/RUNFILE.md. A key whose
 * feature is not built yet has a row too, and is refused by name.
 *
 * Paths stay as written: relative to the working directory, checkpoint.dir to run.output.
 */
#ifndef SN_CONFIG_H
#define SN_CONFIG_H

#include "kernels/codec_kind.h"
#include "kernels/tensor.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "lib/config/data_sets.h"
#include "lib/config/family.h"
#include "lib/config/lr_schedule.h"
#include "lib/config/model_config.h"
#include "lib/config/optimizer.h"
#include "lib/config/pipeline_schedule.h"
#include "lib/config/prompt.h"
#include "lib/config/zero_stage.h"

#include <stdbool.h>
#include <stdint.h>

enum { SN_NAME_MAX = 128, SN_PATH_MAX = 1024, SN_FREEZE_MAX = 32 };

enum { SN_TILE_VALUES = 65536 }; /* a layout.optimizer_tile is a multiple of this */

enum sn_channels { SN_CHANNELS_AUTO, SN_CHANNELS_HOST };
enum sn_backend { SN_BACKEND_AUTO, SN_BACKEND_CPU, SN_BACKEND_CUDA };
enum sn_bits { SN_BITS_LAYOUT, SN_BITS_ALL };
enum sn_order { SN_ORDER_SHUFFLED, SN_ORDER_SEQUENTIAL };
enum sn_documents { SN_DOCUMENTS_TOGETHER, SN_DOCUMENTS_APART };
enum sn_loss_of { SN_LOSS_ALL, SN_LOSS_MASK };
enum sn_prefix { SN_PREFIX_NONE, SN_PREFIX_PROMPT };
enum sn_recompute { SN_RECOMPUTE_NONE, SN_RECOMPUTE_SELECTIVE, SN_RECOMPUTE_FULL };
enum sn_overlap { SN_OVERLAP_NONE, SN_OVERLAP_AUTO };
enum sn_expert_tokens { SN_TOKENS_GATHERED, SN_TOKENS_SPLIT, SN_TOKENS_AUTO };
enum sn_duplicates { SN_DUPLICATES_SENT, SN_DUPLICATES_DROPPED, SN_DUPLICATES_AUTO };
enum sn_process_placement { SN_PLACEMENT_AUTO, SN_PLACEMENT_DEFAULT };
enum sn_context_kind { SN_CONTEXT_RING, SN_CONTEXT_ALL_TO_ALL };
enum sn_scheme {
    SN_SCHEME_NONE,
    SN_SCHEME_NAIVE,     /* zfp-8 everywhere */
    SN_SCHEME_MZHYBRID,  /* gradients zfp-8, all else lossless */
    SN_SCHEME_ZHYBRID,   /* gradients zfp-8, all else zfp-16 */
    SN_SCHEME_BLOCKWISE, /* integers with a scale for each block, weights as differences */
    SN_SCHEME_AUTO       /* what the price says within `budget`: lib/search/codings.h */
};
enum sn_order_axis {
    SN_ORDER_TENSOR,
    SN_ORDER_TENSOR_X,
    SN_ORDER_CONTEXT,
    SN_ORDER_EXPERT,
    SN_ORDER_DATA_AXIS,
    SN_ORDER_PIPELINE,
    SN_NORDER_AXES
};

struct sn_run_config {
    char name[SN_NAME_MAX];
    uint64_t seed;
    char output[SN_PATH_MAX];
    enum sn_backend backend;
    enum sn_channels channels;
    int channel_ctas; /* 0: as NCCL chooses */
    bool channel_register;
    enum sn_library_use attention; /* on a device: own kernels, auto, cuDNN's */
    bool tf32;                     /* on a device, of fp32 products */
    bool deterministic;
    enum sn_bits bits;
    int threads;      /* 0: auto */
    int hang_timeout; /* seconds; 0: never */
    bool monitor;     /* lib/monitor */
    int fingerprints; /* lib/replay: those of every so many steps; 0: none */
};

/* Samples cut into shorter pieces in the first steps (sn_length_of in lib/config/batch.h). */
struct sn_curriculum_config {
    int n_lengths; /* 0: none */
    int lengths[SN_SPLIT_MAX];
    int n_until; /* the last step of each */
    int until[SN_SPLIT_MAX];
};

enum { SN_EXPECTED_TOKENS_MOST = 1 << 24 }; /* what model.seq may be */

struct sn_data_config {
    struct sn_data_sets train, valid;
    struct sn_data_phases phases;
    struct sn_curriculum_config curriculum;
    enum sn_order order;
    enum sn_documents documents; /* of one sample: do they see each other? */
    enum sn_loss_of loss;        /* which tokens are targets */
    enum sn_prefix prefix;       /* what of a document is seen in both directions */
    int document_length, /* 0 .. SN_EXPECTED_TOKENS_MOST */
        prefix_length; /* tokens that a plan expects; 0: a sample is one document, none */
};

#define SN_HYPER_MEMBER(KIND, member, ...) double member;
struct sn_optimizer_config {
    enum sn_optimizer kind;
    double lr, weight_decay, clip; /* clip 0: off */
    SN_HYPERS(SN_HYPER_MEMBER)     /* 0 where this optimizer has no such number */
};
#undef SN_HYPER_MEMBER

struct sn_lr_config {
    enum sn_lr_kind kind;
    int64_t warmup; /* steps */
    double min_lr;
    int64_t decay; /* steps before the last; 0 where this schedule has no such number */
};

/* As what the frozen matrices of products are held (kernels/frozen.h). */
enum sn_lora_base { SN_BASE_FULL, SN_BASE_INT8, SN_BASE_INT4, SN_BASE_NF4 };

/* Adapters of weight matrices (Hu et al., "LoRA", arXiv 2106.09685). */
struct sn_lora_config {
    int r; /* rank of their products; 0: none */
    double alpha, dropout;
    int n_targets; /* name patterns of the matrices' tensors */
    char targets[SN_FREEZE_MAX][SN_NAME_MAX];
    char init_from[SN_PATH_MAX]; /* "": A random, B zero */
    enum sn_lora_base base;
};

/* Parameters with a learning rate or a decay of their own: those of the first pattern that matches. */
struct sn_groups_config {
    int n_names;
    char names[SN_FREEZE_MAX][SN_NAME_MAX];
    struct sn_floats lr;           /* factors; empty: 1 */
    struct sn_floats weight_decay; /* empty: as all others' */
};

/* Matrices whose zeros stay zeros (train.sparse, lib/model/sparse.c; rules_patterns.c). */
enum sn_sparse_kind { SN_SPARSE_UNSTRUCTURED, SN_SPARSE_2_4 };
struct sn_sparse_config {
    int n_targets; /* name patterns of their tensors; 0: there are none */
    char targets[SN_FREEZE_MAX][SN_NAME_MAX];
    enum sn_sparse_kind kind;
    double density; /* of unstructured ones: how many of their values are not 0, at most */
};

/* Hyperparameters that are those of a narrower model (rules_mup.c). */
struct sn_mup_config {
    int base_width;    /* its model.hidden; 0: none */
    int base_head_dim; /* features of its heads; 0: as many as here */
};

/* Smaller batches before those of global_batch sequences (lib/config/batch.h). */
enum { SN_RAMP_MAX = 64 };
struct sn_ramp_config {
    int n_batches; /* 0: none */
    int batches[SN_SPLIT_MAX];
    int n_until; /* the last step of each, */
    int until[SN_SPLIT_MAX];
    struct sn_floats until_tokens; /* or tokens after which a step is one's last */
    int64_t ends[SN_RAMP_MAX];     /* what follows: the last step of each */
};

/* train.ema: an average of the weights beside them. */
struct sn_ema_config {
    double decay; /* e = decay e + (1 - decay) p behind each update; 0: there is none */
};

struct sn_train_config {
    int64_t steps;
    int global_batch; /* sequences */
    struct sn_ramp_config ramp;
    enum sn_dtype precision;  /* SN_F32, SN_BF16, SN_F16 */
    enum sn_fp8_scaling fp8;  /* of products of the layers' weights in 8-bit floats */
    enum sn_dtype grad_dtype; /* of matrices' gradients: SN_F32, SN_BF16 */
    struct sn_optimizer_config optimizer;
    struct sn_lr_config schedule;
    char init_from[SN_PATH_MAX];     /* "" : random weights */
    char continue_from[SN_PATH_MAX]; /* another run's checkpoint; "": none */
    int n_init_changes;              /* keys of the model that may be others than the weights' */
    char init_changes[SN_FREEZE_MAX][SN_NAME_MAX];
    int64_t eval_every; /* 0: never */
    int eval_sequences;
    double loss_scale; /* 0: dynamic */
    double z_loss;     /* weight of the square of the logits' log-sum-exp; 0: none */
    double mtp_loss;   /* of the mean loss of the blocks of model.mtp */
    struct sn_ema_config ema;
    int n_freeze;
    char freeze[SN_FREEZE_MAX][SN_NAME_MAX];
    struct sn_groups_config groups;
    struct sn_sparse_config sparse;
    struct sn_mup_config mup;
    struct sn_lora_config lora;
    struct sn_prompt_config prompt;
};

enum { SN_CACHE_AUTO = -1 };    /* of zero_cache: as many as fit (lib/search/fit_cache.h) */
enum { SN_CHUNKS_MOST = 8 };    /* of expert_chunks */
enum { SN_LOW_RANK_MOST = 64 }; /* of powersgd-R */

/* How one kind of message is compressed. */
struct sn_coding {
    bool on;
    bool diff;     /* ZERO: of masters less what the ranks compute with, which add it */
    bool feedback; /* DATA: what is lost of a gradient is added to the next */
    bool two;      /* DATA, ZERO: between nodes another codec than inside */
    int32_t rank;  /* DATA: of the factors of PowerSGD, in place of a codec; 0: a codec */
    struct sn_codec codec;
    struct sn_codec between; /* nodes: codec, unless `two` */
};

/* layout.compress; what a coding means is in lib/program/compress.c. */
struct sn_compress_config {
    enum sn_scheme scheme;
    char name[SN_NCODED][SN_NAME_MAX]; /* of a coding, as the run file has it; "": the scheme's */
    int node; /* replicas of a node, which sum among themselves first; 0: as they lie where a coding
                 has two codecs (lib/machine/levels.h), else all at once */
    bool feedback;
    double budget; /* AUTO: relative rise of the loss that is allowed */
    double guard;  /* relative error above which a milder codec takes over; 0: never */
    int sample;    /* steps from one measurement of it to the next */
    struct sn_coding coding[SN_NCODED]; /* what follows */
};

struct sn_layout_config {
    int data; /* 0: follows from the number of ranks */
    int tensor, tensor_x, pipeline, context;
    int expert;        /* ranks that share the experts out */
    int expert_tensor; /* ranks that share an expert's matrices: a divisor of tensor; 0: tensor */
    enum sn_expert_tokens expert_tokens; /* over tensor ranks, where a router sees them, if
                                            expert_tensor is tensor; auto: by price
                                            (lib/search/tokens.h), and gathered */
    enum sn_duplicates drop_duplicates;  /* tensor ranks share the rows that they exchange; auto:
                                            by price too, and not */
    int expert_node;   /* ranks of an expert group that exchange among themselves first; 1: all with
                          all at once; 0: by price (lib/cost/hops.h) */
    int expert_chunks; /* in which tokens go to the experts, one while another is computed; 1:
                          all at once; 0: by price (lib/search/chunks.h), and no chunks */
    double expert_buffer;   /* rows of a rank's window of experts' tokens, times the mean */
    int micro_batch;        /* sequences */
    int virtual_stages;     /* stage modules per pipeline stage */
    bool sequence_parallel; /* no effect while tensor is 1 */
    enum sn_schedule schedule;
    enum sn_recompute recompute;
    bool comm_aware_recompute; /* keep results of collectives; no effect while recompute is none */
    int zero;                  /* 0 .. 3 */
    int zero_node;             /* replicas, neighbours, that divide what zero says; 0: all do */
    int zero_cache; /* units of a stage that keep gathered weights (lib/layout/zero_cache.h) */
    enum sn_context_kind context_kind;
    int n_split;             /* 0: auto, else pipeline x virtual_stages */
    int split[SN_SPLIT_MAX]; /* layers of each stage module, in the order of the model */
    int n_axis_order;        /* 5, or 4 without expert */
    enum sn_order_axis axis_order[SN_NORDER_AXES]; /* innermost first; each axis once */
    int64_t bucket;                                /* bytes of a gradient bucket */
    int64_t optimizer_tile;                        /* values updated at once; 0: a bucket's */
    enum sn_overlap overlap; /* of messages and computing, by the order of operations */
    int tensor_pieces;       /* of a micro-batch's rows, round collectives of tensor ranks */
    enum sn_process_placement placement; /* which process computes which rank */
    struct sn_compress_config compress;
    bool split_backward; /* no key of its own: planners set it for a stage of a schedule that delays
                            weight gradients */
};

/* Keys of the layout that a search may choose; those that the run file names stand. Id, key. */
#define SN_LAYOUT_KEYS(ROW)                                                                        \
    ROW(DATA, data)                                                                                \
    ROW(TENSOR, tensor)                                                                            \
    ROW(TENSOR_X, tensor_x)                                                                        \
    ROW(PIPELINE, pipeline)                                                                        \
    ROW(CONTEXT, context)                                                                          \
    ROW(EXPERT, expert)                                                                            \
    ROW(MICRO_BATCH, micro_batch)                                                                  \
    ROW(VIRTUAL_STAGES, virtual_stages)                                                            \
    ROW(SEQUENCE_PARALLEL, sequence_parallel)                                                      \
    ROW(SCHEDULE, schedule)                                                                        \
    ROW(RECOMPUTE, recompute)                                                                      \
    ROW(ZERO, zero)                                                                                \
    ROW(ZERO_CACHE, zero_cache)                                                                    \
    ROW(CONTEXT_KIND, context_kind)                                                                \
    ROW(TENSOR_PIECES, tensor_pieces)                                                              \
    ROW(SPLIT, split)                                                                              \
    ROW(AXIS_ORDER, axis_order)
#define SN_LAYOUT_KEY_ID(ID, key) SN_KEY_##ID,
enum sn_layout_key { SN_LAYOUT_KEYS(SN_LAYOUT_KEY_ID) SN_NLAYOUT_KEYS };
#undef SN_LAYOUT_KEY_ID
const char *sn_layout_key_name(enum sn_layout_key k); /* "tensor" */

/* Where the run file says something; line 0: not there. */
struct sn_text_place {
    int line, col;
};

/* What the order of operations is weighed by (lib/program/order.c), in seconds and per second.
 * flops 0: no machine is named, and operations stay as they are emitted. By enum sn_group, of
 * which there are no more: */
enum { SN_OVERLAP_GROUPS = 24, SN_OVERLAP_LEVELS = 5 };
struct sn_overlap_rates {
    double flops, bytes;                                      /* of products; of memory */
    double start[SN_OVERLAP_GROUPS], link[SN_OVERLAP_GROUPS]; /* of a message, and its bytes sent */
    /* behind the start: how much of links of each level a message takes, 0 .. 1, and how many it is at once */
    float busy[SN_OVERLAP_GROUPS][SN_OVERLAP_LEVELS], messages[SN_OVERLAP_GROUPS];
};

/* What is named here is read by lib/machine/named.h. None of it changes what a run computes. */
struct sn_machine_config {
    char preset[SN_NAME_MAX], file[SN_PATH_MAX]; /* at most one of them; both "": none named */
    struct sn_text_place preset_at;
    int nodes; /* 0: as many as the ranks need */
    double memory_fraction;
    struct sn_software_config {
        char profile[SN_NAME_MAX], file[SN_PATH_MAX]; /* at most one of them; both "": our own */
        int attention;  /* 0: the profile's, else 1 + enum sn_attention_kernel */
        int fused_norm; /* 0: the profile's, 1: false, 2: true */
    } software;
};

/* What a run does when the checkpoint that it would go on from is damaged. */
enum sn_damaged { SN_DAMAGED_STOP, SN_DAMAGED_OLDER };

struct sn_checkpoint_config {
    char dir[SN_PATH_MAX];
    int64_t every; /* steps; 0: only at the end and when asked to leave */
    int keep;
    bool async;             /* costs memory: sn_memory_plan.snapshot; */
    int64_t snapshot_every; /* so does this: steps between copies in partners' memory; 0: none */
    bool single_file;       /* instead of one for each rank that writes */
    enum sn_damaged damaged;
};

/* What a batch script asks for; what is left out is the site profile's (slurm/site/site.h). None of
 * it changes what a run computes. Texts hold no character that has a meaning in a script
 * (rules_slurm.c), but for `setup`, which is shell. */
struct sn_slurm_config {
    struct sn_text_place site_at;
    char site[SN_NAME_MAX], time[SN_NAME_MAX], partition[SN_NAME_MAX], account[SN_NAME_MAX];
    char qos[SN_NAME_MAX], constraint[SN_NAME_MAX], reservation[SN_NAME_MAX]; /* "": not said */
    int64_t seconds;                          /* of `time`; 0: not said */
    int nodes, ranks_per_node, cpus_per_rank; /* 0: auto */
    int signal_before;                        /* seconds; 0: auto */
    int spares, chain;
    int n_exclude;
    char exclude[SN_FREEZE_MAX][SN_NAME_MAX];
    int n_extra;
    char extra[SN_FREEZE_MAX][SN_NAME_MAX];
    int n_setup;
    char setup[SN_FREEZE_MAX][SN_NAME_MAX];
    int attempts, idle_attempts; /* bounds of slurm/supervisor/decide.h; 0: none */
    int disk_wait;               /* seconds for which a full disk is waited for */
    bool shrink;
    char ledger[SN_PATH_MAX]; /* "": nodes.jsonl of run.output */
    bool preflight;
};

struct sn_config {
    char path[SN_PATH_MAX]; /* the run file, for messages */
    struct sn_run_config run;
    struct sn_model_config model;
    struct sn_data_config data;
    struct sn_train_config train;
    struct sn_layout_config layout;
    bool layout_auto;      /* `layout: auto`: a search chooses it (lib/search/search.h) */
    unsigned layout_named; /* bit k: the run file names enum sn_layout_key k */
    struct sn_machine_config machine;
    struct sn_overlap_rates overlap_rates; /* no key: of the machine, for layout.overlap: auto */
    struct sn_checkpoint_config checkpoint;
    struct sn_slurm_config slurm;
};

/* Read, check every key, apply presets and defaults, then check the rules between keys. The caller
 * owns *out. SN_EINPUT with "FILE:LINE:COL: what is wrong; what would work". `share_dir` holds the
 * shipped presets (models/NAME.yaml ...); NULL means the installed or in-tree one. */
enum sn_status sn_config_load(struct sn_config *out, const char *path, const char *share_dir,
                              struct sn_err *err);
/* The same from memory; `path` is used in messages only. */
enum sn_status sn_config_parse(struct sn_config *out, const char *text, size_t len,
                               const char *path, const char *share_dir, struct sn_err *err);

/* The layout for a model that is known already: `path` is a run file, or has some of its sections;
 * what it lacks is the model's (`model_text` as sn_config_format_model writes it, from
 * `model_name`) or a default. A model key in the file that says otherwise is SN_EINPUT with its
 * place. NULL for `path` is one rank. *out is resolved; an omitted layout.data is 1. */
enum sn_status sn_config_load_layout(struct sn_config *out, const char *path,
                                     const char *model_text, const char *model_name,
                                     struct sn_err *err);

/* Ranks of a resolved layout. */
int sn_config_ranks(const struct sn_config *c);
/* Ranks that share one copy of the model: all axes but data. */
int sn_config_copy_ranks(const struct sn_layout_config *l);
/* Those that the layout names itself: one copy where it leaves layout.data to the number of
 * ranks. */
int sn_config_least_ranks(const struct sn_layout_config *l);
/* Tokens of a micro-batch that a rank has, before sequence parallelism cuts them. */
int64_t sn_config_tokens(const struct sn_config *c);
/* "data 2 x tensor 4 x context 1 x pipeline 2"; returns buf. */
enum { SN_AXES_SIZE = 128 };
const char *sn_config_axes(char buf[SN_AXES_SIZE], const struct sn_layout_config *l);
/* Rules that need the number of ranks: fills layout.data when it was omitted; names the nearest
 * layouts that work otherwise. *c is one that sn_config_load or sn_config_parse gave. */
enum sn_status sn_config_resolve_ranks(struct sn_config *c, int ranks, struct sn_err *err);
/* Where expert_tokens and drop_duplicates say auto, tokens are gathered and copies sent. */
void sn_config_settle_tokens(struct sn_layout_config *l);

/* Would the run file be good with this layout (data set) on so many ranks? The rules between its
 * keys, and those that need the number of ranks. */
enum sn_status sn_config_check_layout(const struct sn_config *c, int ranks, struct sn_err *err);

/* Every key with default, unit and sentence, as text (--help-keys) or as Markdown (the page). */
void sn_config_help(struct sn_str *out, bool markdown);
/* The resolved file as YAML, every key of a built feature written out;
 * loading it gives *c again. */
void sn_config_format(struct sn_str *out, const struct sn_config *c);
/* The same as a file, whole or not at all. SN_ENOMEM, SN_EIO. */
enum sn_status sn_config_save(const struct sn_config *c, const char *path, struct sn_err *err);
/* The model section alone, resolved: what a checkpoint carries to refuse another model. dropout,
 * init_std, the weights of routers' losses, the rate of their bias and their noise are written as
 * 0: a run may change them. */
void sn_config_format_model(struct sn_str *out, const struct sn_config *c);
/* A key that two models do not share, and its values. */
struct sn_model_difference {
    char key[64]; /* "model.rope_theta" */
    char ours[64], theirs[64];
};
/* The first row of the key table, from `from` on, in which what a checkpoint would carry of the two
 * models differs; -1: none. */
int sn_model_differs(struct sn_model_difference *out, int from, const struct sn_model_config *ours,
                     const struct sn_model_config *theirs);
/* The layout section alone, resolved: what a checkpoint carries for people, and what sennit-convert
 * is given. */
void sn_config_format_layout(struct sn_str *out, const struct sn_config *c);
/* Hash of everything that decides the numbers of a run (not run.name, output, threads, steps, eval
 * or checkpoint keys). Two ranks or two attempts with the same hash compute the same thing. */
uint64_t sn_config_hash(const struct sn_config *c);

const char *sn_coded_name(enum sn_coded c); /* "data", "zero", ... */
/* "int4-diff", or "none". */
void sn_coding_format(const struct sn_coding *c, char text[SN_NAME_MAX]);
/* The codecs that a kind of message is coded with in turn, each milder: how many. */
int sn_coding_levels(const struct sn_config *c, enum sn_coded of,
                     struct sn_codec out[SN_CODEC_LEVELS]);
/* As what the frozen matrices of products are held; NULL: as values. */
const struct sn_codec *sn_lora_codec(const struct sn_lora_config *l);
/* What adapters are multiplied by; 0: there are none. */
float sn_lora_scale(const struct sn_lora_config *l);
/* Has what a coding of weights gives the zeros of what it is given? Sparse weights want it. */
bool sn_coding_keeps_zeros(const struct sn_coding *z);
/* As with layout.compress: none. */
void sn_compress_nothing(struct sn_layout_config *l);
/* The same of messages of replicas in two levels, between nodes or inside: as many. */
int sn_coding_levels_at(const struct sn_config *c, enum sn_coded of, bool between,
                        struct sn_codec out[SN_CODEC_LEVELS]);
/* Of a resolved layout, replicas that sum among themselves first: a divisor of data x context; all
 * of them: they lie on one node; 1: each lies on one of its own. */
int sn_config_replica_node(const struct sn_config *c);
/* Of a resolved layout, replicas that divide weights, gradients or optimizer state among themselves,
 * where that is fewer than all: else 0. */
int sn_config_zero_node(const struct sn_config *c);
/* Of a resolved layout, units of a stage whose gathered weights stay for a step; 0 where no weights are
 * divided, and where nobody has said how many (auto). */
int sn_config_zero_cache(const struct sn_config *c);
/* Are so many consecutive replicas whole parts of sequences, or whole sequences,
 * of several nodes? */
bool sn_replica_node_fits(const struct sn_layout_config *l, int node);
/* layout.compress: "A/B" or "A/B-diff" as A, or A-diff, in `first` and B in `second`: false, and
 * all in `first`, if it is one codec. */
bool sn_coding_split(const char *text, char first[SN_NAME_MAX], char second[SN_NAME_MAX]);
/* Does every layout give the same bits (run.bits)? Then sums are exact (kernels/exact.h), those over
 * tokens of products of so many: a divisor of the sequence. */
bool sn_config_exact(const struct sn_config *c);
int sn_config_token_block(const struct sn_config *c);
/* Of a sum over n values of a matrix that tensor ranks share out by `units`: how deep its terms are, and in
 * how many parts of whole terms it comes: so many ranks may share it out as divide that. Deep terms cost
 * little: wide matrices come in fewer parts, four at least. */
int sn_config_term_depth(int64_t n, int64_t units);
int sn_config_term_parts(int64_t n, int64_t units);
/* Is anything compressed? */
bool sn_config_compresses(const struct sn_config *c);
/* Does a coding give back other values than it got? */
static inline bool sn_coding_loses(const struct sn_coding *c)
{
    bool lossless = c->codec.kind == SN_CODEC_MPC && c->between.kind == SN_CODEC_MPC;
    return c->on && (c->rank > 0 || !lossless);
}
/* Tensor ranks that route tokens of their own, because experts are cut over fewer of them
 * (layout.expert_tensor) or the run file says so (expert_tokens: split); else 1: all route the same
 * tokens. */
int sn_config_fold(const struct sn_config *c);
/* Ranks with slices of an expert to which a token that is routed by one of them goes: expert_tensor
 * where tensor ranks have tokens of their own; else 1. */
int sn_config_slices(const struct sn_config *c);
/* Ranks that exchange tokens for experts: layout.expert of them for each slice. */
int sn_config_expert_members(const struct sn_config *c);

#endif
