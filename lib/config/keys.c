/*
 * keys.c - the key table: every key of the run file, one row each.
 *
 * A row is written in the order name, type, place, sentence; what follows is named. ONLY(value)
 * marks a key whose feature is not built yet: the value that means "off" is taken, others are
 * refused by name. NOT_BUILT takes nothing.
 *
 * Longer than 500 lines because it is one table.
 */
#include "lib/config/keys.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(struct sn_train_config, freeze) ==
                       offsetof(struct sn_train_config, n_freeze) +
                           offsetof(struct sn_words, word) &&
                   offsetof(struct sn_lora_config, targets) ==
                       offsetof(struct sn_lora_config, n_targets) + offsetof(struct sn_words, word),
               "lists of names lie as struct sn_words does");
_Static_assert(offsetof(struct sn_groups_config, names) ==
                   offsetof(struct sn_groups_config, n_names) + offsetof(struct sn_words, word),
               "a list of names lies as struct sn_words does");
_Static_assert(offsetof(struct sn_sparse_config, targets) ==
                   offsetof(struct sn_sparse_config, n_targets) + offsetof(struct sn_words, word),
               "a list of names lies as struct sn_words does");
_Static_assert(offsetof(struct sn_train_config, init_changes) ==
                   offsetof(struct sn_train_config, n_init_changes) +
                       offsetof(struct sn_words, word),
               "a list of names lies as struct sn_words does");
_Static_assert(offsetof(struct sn_slurm_config, exclude) ==
                       offsetof(struct sn_slurm_config, n_exclude) +
                           offsetof(struct sn_words, word) &&
                   offsetof(struct sn_slurm_config, extra) ==
                       offsetof(struct sn_slurm_config, n_extra) +
                           offsetof(struct sn_words, word) &&
                   offsetof(struct sn_slurm_config, setup) ==
                       offsetof(struct sn_slurm_config, n_setup) + offsetof(struct sn_words, word),
               "lists of names lie as struct sn_words does");
_Static_assert(offsetof(struct sn_layout_config, split) ==
                   offsetof(struct sn_layout_config, n_split) + offsetof(struct sn_ints, v),
               "a list of numbers lies as struct sn_ints does");
_Static_assert(offsetof(struct sn_ramp_config, batches) ==
                       offsetof(struct sn_ramp_config, n_batches) + offsetof(struct sn_ints, v) &&
                   offsetof(struct sn_ramp_config, until) ==
                       offsetof(struct sn_ramp_config, n_until) + offsetof(struct sn_ints, v),
               "lists of numbers lie as struct sn_ints does");
_Static_assert(offsetof(struct sn_curriculum_config, lengths) ==
                       offsetof(struct sn_curriculum_config, n_lengths) +
                           offsetof(struct sn_ints, v) &&
                   offsetof(struct sn_curriculum_config, until) ==
                       offsetof(struct sn_curriculum_config, n_until) + offsetof(struct sn_ints, v),
               "lists of numbers lie as struct sn_ints does");
_Static_assert(offsetof(struct sn_prompt_config, layers) ==
                   offsetof(struct sn_prompt_config, n_layers) + offsetof(struct sn_ints, v),
               "a list of numbers lies as struct sn_ints does");
_Static_assert(offsetof(struct sn_layout_config, axis_order) ==
                       offsetof(struct sn_layout_config, n_axis_order) +
                           offsetof(struct sn_ranking, name) &&
                   sizeof(enum sn_order_axis) == sizeof(int),
               "a ranking lies as struct sn_ranking does");

static const char *const activations[] = {"gelu_tanh", "gelu", "silu", NULL};
static const char *const channels[] = {"auto", "host", NULL};
/* run.attention: enum sn_library_use */
static const char *const whose_kernels[] = {"own", "auto", "cudnn", NULL};
static const char *const bits[] = {"layout", "all", NULL};
static const char *const backends[] = {"auto", "cpu", "cuda", NULL};
static const char *const routers[] = {"softmax", "sparsemixer", "dense", "sigmoid", NULL};
static const char *const balances[] = {"batch", "sequence", NULL};
static const char *const biases[] = {"none", "loss-free", NULL};
static const char *const ropes[] = {"default", "linear",   "dynamic", "yarn",
                                    "llama3",  "longrope", NULL};
static const char *const train_set[] = {"path", "weight", "epochs", "name", "valid", NULL};
static const char *const valid_set[] = {"path", "name", NULL};
static const char *const phase[] = {"from_step", "weights", NULL};
static const char *const orders[] = {"shuffled", "sequential", NULL};
static const char *const documents[] = {"together", "apart", NULL};
static const char *const losses[] = {"all", "mask", NULL};
static const char *const prefixes[] = {"none", "prompt", NULL};
static const char *const precisions[] = {"fp32", "bf16", "fp16", NULL};
static const char *const fp8_scalings[] = {"none", "tensorwise", "blockwise", NULL};
static const char *const sparse_kinds[] = {"unstructured", "2:4", NULL};
static const char *const bases[] = {"full", "int8", "int4", "nf4", NULL};
static const char *const grad_dtypes[] = {"fp32", "bf16", NULL};
static const char *const overlaps[] = {"none", "auto", NULL};
static const char *const expert_tokens[] = {"gathered", "split", "auto", NULL};
static const char *const duplicates[] = {"false", "true", "auto", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const context_kinds[] = {"ring", "all-to-all", NULL};
static const char *const placements[] = {"auto", "default", NULL};
static const char *const attentions[] = {"auto", "flash2", "flash1", "fused", "torch", NULL};
static const char *const choices[] = {"auto", "false", "true", NULL};
static const char *const schemes[] = {"none",      "naive", "mzhybrid", "zhybrid",
                                      "blockwise", "auto",  NULL};
static const char *const damaged[] = {"stop", "older", NULL}; /* enum sn_damaged */
/* AxoNN's grid of tensors (Singh et al., arXiv 2305.13525): Z is what ZeRO 3 does in groups of replicas. */
static const struct sn_key_member grid[] = {
    {"x", "layout.tensor_x"}, {"y", "layout.tensor"}, {"z", "layout.zero_node"}, {NULL, NULL}};
static const char *const axes[] = {"tensor", "tensor_x", "context", "expert",
                                   "data",   "pipeline", NULL};

#define AT(member) offsetof(struct sn_config, member)
#define ROW(key, kind, where, what)                                                                \
    .name = (key), .type = SN_KEY_##kind, .offset = (where), .sentence = (what)
#define NONE                SN_NOWHERE
#define RANGE(lo, hi, what) .min = (lo), .max = (hi), .unit = (what)
#define DEFAULT(v)          .value = (v)
#define DERIVED(v)          .derived = (v)
#define WORD(v)             .word = (v)
#define WORD_IS(n)          .word_is = (n)
#define SHORT_FOR(k)        .short_for = (k)
#define NAMES(n)            .names = (n)
#define LATER(bits)         .later = (bits)
#define MEMBERS(list)       .members = (list)
#define OPTIONAL(bits)      .optional = (bits)
#define ONLY(v)             .only = (v), .value = (v)
#define NOT_BUILT           .not_built = true
#define NULL_OK             .null_ok = true
#define DECIDES             .decides = true
#define FREE                .is_free = true
#define QUIET               .is_quiet = true

/* clang-format off */
#define HYPER(KIND, member, lo, hi, v, what) \
    {ROW("train.optimizer." #member, FLOAT, AT(train.optimizer.member), what), RANGE(lo, hi, NULL), DEFAULT(v), DECIDES},

const struct sn_key sn_keys[] = {
    {ROW("preset", INCLUDE, NONE, "Name of a shipped run file to start from.")},
    {ROW("file", INCLUDE, NONE, "Path of a run file to start from; keys beside it override.")},

    {ROW("run", MAP, NONE, "The run itself.")},
    {ROW("run.name", TEXT, AT(run.name), "Name of the run, for people."), DEFAULT("run")},
    {ROW("run.seed", LONG, AT(run.seed), "Seed of weights, shuffling and dropout."),
        RANGE(0, 9223372036854775807LL, NULL), DEFAULT("1234"), DECIDES},
    {ROW("run.output", PATH, AT(run.output), "Directory of metrics, checkpoints and state."),
        DERIVED("runs/ and run.name")},
    {ROW("run.backend", ENUM, AT(run.backend), "Where the step program is executed; auto: on a device where every rank has one, else on the processor."),
        NAMES(backends), DEFAULT("auto"), DECIDES},
    {ROW("run.channels", ENUM, AT(run.channels), "How ranks with devices talk; auto: from device to device, and where that cannot be the run is refused (with run.backend: auto it says so and goes on); host: through the processes' memory, which is slow."),
        NAMES(channels), DEFAULT("auto")},
    {ROW("run.channel_ctas", INT, AT(run.channel_ctas), "On a GPU, the most blocks of threads that one communication may take from the kernels beside it; 0: as many as NCCL chooses."),
        RANGE(0, 64, "blocks"), DEFAULT("0")},
    {ROW("run.channel_register", BOOL, AT(run.channel_register), "On a GPU, take the run's memory from NCCL and register it with every channel, so that links which can do so sum without copies (NVLink SHARP)."),
        DEFAULT("false")},
    {ROW("run.attention", ENUM, AT(run.attention), "On a GPU, whose kernels compute attention; own: ours; cudnn: those of NVIDIA's cuDNN 9.12 or later, and where it is not there or cannot the run is refused; auto: cuDNN's where they can, else ours, and the log says why. The processor has its own."),
        NAMES(whose_kernels), DEFAULT("own"), DECIDES},
    {ROW("run.tf32", BOOL, AT(run.tf32), "On a GPU, products of fp32 matrices may round their operands to TF32: faster, with 10 bits of mantissa."),
        DEFAULT("false"), DECIDES},
    {ROW("run.deterministic", BOOL, AT(run.deterministic), "The same bits from run to run; false: on a GPU the gradients of attention, embeddings, biases and norms' weights are summed by atomics, in any order, which is faster and takes memory for attention. The processor always keeps its order."),
        DEFAULT("true"), DECIDES},
    {ROW("run.bits", ENUM, AT(run.bits), "The same layout gives the same bits; all: every layout does. Sums over tokens, replicas and parts of matrices are then exact, of terms that no layout changes: gradients take 8 bytes a weight (docs/BITS.md). On the processor."),
        NAMES(bits), DEFAULT("layout"), DECIDES},
    {ROW("run.threads", INT, AT(run.threads), "Threads per rank; auto divides the cores of the node among its ranks."),
        RANGE(1, 4096, "threads"), WORD("auto"), DEFAULT("auto")},
    {ROW("run.hang_timeout", INT, AT(run.hang_timeout), "A rank that makes no progress for this long is reported and the job ends; while it loads or saves, each block that is read or written is progress; 0: never."),
        RANGE(0, 86400, "seconds"), DEFAULT("300")},
    {ROW("run.monitor", BOOL, AT(run.monitor), "Hold every step of several ranks on processors against the plan: a rank, link or switch that takes longer than its peers by it for some steps is named in the log, metrics.jsonl and sennit-run status."),
        DEFAULT("true")},
    {ROW("run.fingerprints", INT, AT(run.fingerprints), "Of every so many steps, keep what each operation of each rank gave as a fingerprint of 48 bytes in OUTPUT/fingerprints, for sennit-train --replay; those of the last 64 such steps stay; 0: none. On the processor."),
        RANGE(0, 1000000000, "steps"), DEFAULT("0")},

    {ROW("model", MAP, NONE, "The model's shape.")},
    {ROW("model.preset", INCLUDE, NONE, "Name of a shipped model, such as llama-7b.")},
    {ROW("model.file", INCLUDE, NONE, "Path of a YAML file with model keys (or a run file, of which the model is taken).")},
    {ROW("model.config", INCLUDE, NONE, "Path of a Hugging Face config.json (docs/HUGGINGFACE.md has the types that are known).")},
    {ROW("model.family", ENUM, AT(model.family), "Kind of block."),
        NAMES(sn_family_names), DECIDES},
    {ROW("model.layers", INT, AT(model.layers), "Transformer blocks."),
        RANGE(1, 10000, "layers"), DECIDES},
    {ROW("model.hidden", INT, AT(model.hidden), "Width of the residual stream."),
        RANGE(1, 1048576, "features"), DECIDES},
    {ROW("model.heads", INT, AT(model.heads), "Attention heads per block; divides model.hidden where model.head_dim is auto."),
        RANGE(1, 65536, "heads"), DECIDES},
    {ROW("model.head_dim", INT, AT(model.head_dim), "Features of a head; auto: model.hidden / model.heads."),
        RANGE(1, 65536, "features"), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.kv_heads", INT, AT(model.kv_heads), "Heads of keys and values (grouped-query attention); divides model.heads."),
        RANGE(1, 65536, "heads"), DERIVED("model.heads"), DECIDES},
    {ROW("model.latent", MAP, NONE, "Multi-head latent attention (deepseek-v2, deepseek-v3), whose queries, keys and values are products of latents.")},
    {ROW("model.latent.kv_rank", INT, AT(model.latent.kv), "Width of the latent of keys and values (kv_lora_rank of Hugging Face); none: attention is of the block's input."),
        RANGE(1, 1048576, "features"), WORD("none"), DEFAULT("none"), DECIDES},
    {ROW("model.latent.q_rank", INT, AT(model.latent.q), "Width of the latent of queries (q_lora_rank); none: they are a product of the block's input."),
        RANGE(1, 1048576, "features"), WORD("none"), DEFAULT("none"), DECIDES},
    {ROW("model.latent.nope_dim", INT, AT(model.latent.nope), "Features of a head of queries and keys that are not rotated (qk_nope_head_dim)."),
        RANGE(1, 65536, "features"), DEFAULT("128"), DECIDES},
    {ROW("model.latent.rope_dim", INT, AT(model.latent.rope), "Features behind them, which are rotated; those of keys are the same for all heads (qk_rope_head_dim)."),
        RANGE(2, 65536, "features"), DEFAULT("64"), DECIDES},
    {ROW("model.latent.v_dim", INT, AT(model.latent.v), "Features of a head of values (v_head_dim)."),
        RANGE(1, 65536, "features"), DEFAULT("128"), DECIDES},
    {ROW("model.ffn", INT, AT(model.ffn), "Inner width of the feed-forward part; of each expert."),
        RANGE(1, 4194304, "features"), DERIVED("4 x model.hidden for gpt2 and gpt-neox; required otherwise"), DECIDES},
    {ROW("model.dense_ffn", INT, AT(model.dense_ffn), "Inner width of the feed-forward part of layers without experts, where model.experts.every or model.experts.from lets some have none; auto: model.ffn."),
        RANGE(1, 4194304, "features"), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.activation", ENUM, AT(model.activation), "Between the two products of the feed-forward part; gelu: by erf, gelu_tanh: its approximation by tanh, silu: of a gate alone."),
        NAMES(activations), DERIVED("gelu_tanh for gpt2, gemma2, gemma3 and starcoder2, gelu for gpt-neox, silu otherwise"), DECIDES},
    {ROW("model.vocab", INT, AT(model.vocab), "Rows of the embedding."),
        RANGE(2, 16777216, "tokens"), DECIDES},
    {ROW("model.seq", INT, AT(model.seq), "Tokens per sequence."),
        RANGE(1, 16777216, "tokens"), DECIDES},
    {ROW("model.attention_bias", BOOL, AT(model.attention_bias), "Projections to q, k and v and that behind attention have biases (of families that have none)."), DEFAULT("false"), DECIDES, QUIET},
    {ROW("model.mlp_bias", BOOL, AT(model.mlp_bias), "Those of the feed-forward part have biases (of families that have none, without experts)."), DEFAULT("false"), DECIDES, QUIET},
    {ROW("model.tied_embeddings", BOOL, AT(model.tied_embeddings), "The head uses the embedding's weights."),
        DERIVED("true for gpt2, gemma2, gemma3 and starcoder2, false otherwise"), DECIDES},
    {ROW("model.rope_theta", FLOAT, AT(model.rope_theta), "Base of the rotary embedding's wavelengths (all families but gpt2)."),
        RANGE(1, 1e12L, NULL), DEFAULT("10000.0"), DECIDES},
    {ROW("model.rope_local_theta", FLOAT, AT(model.rope_local_theta), "The base in layers with a sliding window, whose wavelengths are not scaled (Gemma 3: 10000); none: as in other layers."),
        RANGE(1, 1e12L, NULL), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("model.rope_scaling", MAP, NONE, "Scaled wavelengths of the rotary embedding, for longer sequences than a model began with."), QUIET},
    {ROW("model.rope_scaling.type", ENUM, AT(model.rope_scaling.kind), "Which: default: none; linear: all by factor; dynamic: a larger base where model.seq is more than original_seq (NTK), fixed by model.seq; yarn, llama3: long ones by factor, short ones not; longrope: each by a number of its own."),
        NAMES(ropes), DEFAULT("default"), DECIDES, QUIET},
    {ROW("model.rope_scaling.factor", FLOAT, AT(model.rope_scaling.factor), "What wavelengths grow by; of longrope and yarn also what attention_factor follows from."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.rope_scaling.original_seq", INT, AT(model.rope_scaling.original_seq), "Tokens of the sequences before; auto: model.seq."),
        RANGE(1, 16777216, "tokens"), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.rope_scaling.low_freq_factor", FLOAT, AT(model.rope_scaling.low_freq_factor), "Of llama3: wavelengths above original_seq over it are scaled whole."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.rope_scaling.high_freq_factor", FLOAT, AT(model.rope_scaling.high_freq_factor), "Of llama3: wavelengths below original_seq over it are not scaled."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("4.0"), DECIDES, QUIET},
    {ROW("model.rope_scaling.beta_fast", FLOAT, AT(model.rope_scaling.beta_fast), "Of yarn: what turns more often in original_seq tokens is not scaled."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("32.0"), DECIDES, QUIET},
    {ROW("model.rope_scaling.beta_slow", FLOAT, AT(model.rope_scaling.beta_slow), "Of yarn: what turns less often is scaled whole."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.rope_scaling.attention_factor", FLOAT, AT(model.rope_scaling.attention_factor), "Of yarn and longrope: what sines and cosines are multiplied by; auto: by factor, as the papers say."),
        RANGE(1e-6L, 1e6L, NULL), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.rope_scaling.mscale", FLOAT, AT(model.rope_scaling.mscale), "Of yarn: weight of log(factor) in attention_factor; none: 1."),
        RANGE(1e-6L, 1e6L, NULL), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("model.rope_scaling.mscale_all_dim", FLOAT, AT(model.rope_scaling.mscale_all_dim), "The same of what it is divided by; both or none. In multi-head latent attention scores are multiplied by the square of that, too."),
        RANGE(1e-6L, 1e6L, NULL), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("model.rope_scaling.truncate", BOOL, AT(model.rope_scaling.truncate), "Of yarn: the bounds between scaled and not are whole pairs of features."), DEFAULT("true"), DECIDES, QUIET},
    {ROW("model.rope_scaling.short_factor", FLOATS, AT(model.rope_scaling.short_factor), "Of longrope: what the wavelength of each pair of features grows by, in sequences of at most original_seq tokens."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("model.rope_scaling.long_factor", FLOATS, AT(model.rope_scaling.long_factor), "The same in longer ones."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("model.no_rope_every", INT, AT(model.no_rope_every), "Every n-th layer rotates nothing; none: all do."),
        RANGE(1, 10000, "layers"), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("model.attention_scale", FLOAT, AT(model.attention_scale), "What scores are multiplied by; auto: one over the root of a head's width."),
        RANGE(1e-6L, 1e6L, NULL), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.embed_scale", FLOAT, AT(model.embed_scale), "What the embedding's rows are multiplied by; auto: 1, for gemma2 and gemma3 the root of model.hidden."),
        RANGE(1e-6L, 1e6L, NULL), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.residual_scale", FLOAT, AT(model.residual_scale), "What attention and feed-forward part are multiplied by before they are added."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.logits_divisor", FLOAT, AT(model.logits_divisor), "What logits are divided by."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.logit_cap", FLOAT, AT(model.logit_cap), "Logits z, divided, become cap tanh(z / cap) (Gemma 2: 30); none: they stay."),
        RANGE(1e-3L, 1e9L, NULL), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("model.rotary_pct", FLOAT, AT(model.rotary_pct), "Part of each head that is rotated (all families but gpt2)."),
        RANGE(0, 1, NULL), DERIVED("0.25 for gpt-neox, 0 for gpt2, 1 otherwise"), DECIDES},
    {ROW("model.parallel_residual", BOOL, AT(model.parallel_residual), "Attention and feed-forward read the same input (gpt-neox)."),
        DERIVED("true for gpt-neox, false otherwise"), DECIDES},
    {ROW("model.sliding_window", INT, AT(model.sliding_window), "Tokens that a token attends to, itself included (sliding_window of Hugging Face); none: all before it."),
        RANGE(1, 16777216, "tokens"), WORD("none"), DEFAULT("none"), NULL_OK, DECIDES},
    {ROW("model.window_from", INT, AT(model.window_from), "First layer with the sliding window, counted from 0."),
        RANGE(0, 100000, "layers"), DEFAULT("0"), DECIDES},
    {ROW("model.global_every", INT, AT(model.global_every), "Every so many-th layer attends to all tokens before, the others to the sliding window (2: Gemma 2; 6: Gemma 3); none: all have it."),
        RANGE(1, 100000, "layers"), WORD("none"), DEFAULT("none"), NULL_OK, DECIDES},
    {ROW("model.score_cap", FLOAT, AT(model.score_cap), "Attention's scores s, scaled, become cap tanh(s / cap) (Gemma 2: 50); none: they stay."),
        RANGE(1e-3L, 1e9L, NULL), WORD("none"), DEFAULT("none"), NULL_OK, DECIDES},
    {ROW("model.norm_eps", FLOAT, AT(model.norm_eps), "Added to the variance in norms."),
        RANGE(1e-12L, 0.1L, NULL), DEFAULT("1e-5"), DECIDES},
    {ROW("model.init_std", FLOAT, AT(model.init_std), "Standard deviation of random initial weights."),
        RANGE(0, 10, NULL), DEFAULT("0.02"), DECIDES, FREE},
    {ROW("model.dropout", FLOAT, AT(model.dropout), "Part of the activations that is dropped."),
        RANGE(0, 0.99L, NULL), DEFAULT("0.0"), DECIDES, FREE},
    {ROW("model.share_layers", INT, AT(model.share_layers), "This many consecutive layers share one set of weights; divides model.layers."),
        RANGE(1, 10000, "layers"), DEFAULT("1"), DECIDES},
    {ROW("model.mtp", INT, AT(model.mtp), "Blocks for multi-token prediction (DeepSeek-V3; num_nextn_predict_layers of Hugging Face) behind the last layer, on the last pipeline stage: the k-th reads what the one before it gives and the embedding of the token k further on, and predicts the one behind that by the model's own head. For training alone: evaluation, scores and generation leave them out."),
        RANGE(0, 4, "blocks"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("model.experts", MAP, NONE, "Mixture of experts (mixtral); absent: dense.")},
    {ROW("model.experts.count", INT, AT(model.experts.count), "Experts of a layer that has any; 0: the model is dense."),
        RANGE(0, 1024, "experts"), DEFAULT("0"), DECIDES},
    {ROW("model.experts.top_k", INT, AT(model.experts.top_k), "Experts that a token visits."),
        RANGE(1, 1024, "experts"), DEFAULT("2"), DECIDES},
    {ROW("model.experts.every", INT, AT(model.experts.every), "Every n-th layer has experts, the others are dense."),
        RANGE(1, 10000, "layers"), DEFAULT("1"), DECIDES},
    {ROW("model.experts.from", INT, AT(model.experts.from), "Layers before this one, counted from 0, are dense."),
        RANGE(0, 10000, "layers"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("model.experts.shared", INT, AT(model.experts.shared), "Experts that every token visits beside those that the router chooses, without weight; as wide as the others. In qwen2-moe a gate weighs what they give."),
        RANGE(0, 1024, "experts"), DERIVED("1 for qwen2-moe, 0 otherwise"), DECIDES},
    {ROW("model.experts.shared_ffn", INT, AT(model.experts.shared_ffn), "Inner width of the shared experts together; auto: model.experts.shared times model.ffn."),
        RANGE(1, 4194304, "features"), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("model.experts.capacity_factor", FLOAT, AT(model.experts.capacity_factor), "Tokens of a sequence that may visit an expert, times the mean; the others pass it by. 0: all of them."),
        RANGE(0, 1e6L, NULL), DEFAULT("0.0"), DECIDES},
    {ROW("model.experts.aux_loss", FLOAT, AT(model.experts.aux_loss), "Weight of the load-balancing loss, which is 1 for a layer in balance; with router: dense, of minus the mutual information of tokens and experts, which is at best -log(count); with router: sigmoid of sigmoids over their sum."),
        RANGE(0, 1e6L, NULL), DERIVED("0 with router: sigmoid, 0.01 otherwise"), DECIDES, FREE},
    {ROW("model.experts.balance", ENUM, AT(model.experts.balance), "Tokens that model.experts.aux_loss balances: those of a micro-batch on all replicas, or of each sequence apart (DeepSeek-V2 and V3), whose counts are of what a token would visit without a bias."),
        NAMES(balances), DEFAULT("batch"), DECIDES, FREE, QUIET},
    {ROW("model.experts.z_loss", FLOAT, AT(model.experts.z_loss), "Weight of the router's z-loss."),
        RANGE(0, 1e6L, NULL), DEFAULT("0.0"), DECIDES, FREE},
    {ROW("model.experts.router", ENUM, AT(model.experts.router), "Function of the router. softmax: the top_k largest logits, weighed among themselves; sparsemixer: GRIN's, which draws experts in training and estimates the gradient of the choice; dense: softmax, but in training all experts for every token (DS-MoE), weighed by the softmax of all logits; sigmoid: the top_k largest sigmoids of logits, over their sum (DeepSeek-V3)."),
        NAMES(routers), DERIVED("sigmoid for dots1 and deepseek-v3, softmax otherwise"), DECIDES},
    {ROW("model.experts.unnormalised", BOOL, AT(model.experts.unnormalised), "A token's experts are weighed by the softmax of all logits, not of theirs among themselves; with router: sigmoid by their sigmoids, not over their sum."), DEFAULT("false"), DECIDES, QUIET},
    {ROW("model.experts.groups", INT, AT(model.experts.groups), "Groups of experts, in order and as large; a token visits those of model.experts.top_groups of them: whose largest score, with router: sigmoid the sum of whose two largest, is most. For router: softmax and sigmoid."),
        RANGE(1, 64, "groups"), DEFAULT("1"), DECIDES, QUIET},
    {ROW("model.experts.top_groups", INT, AT(model.experts.top_groups), "Groups that a token's experts are of."),
        RANGE(1, 64, "groups"), DEFAULT("1"), DECIDES, QUIET},
    {ROW("model.experts.route_scale", FLOAT, AT(model.experts.route_scale), "What weights of experts are multiplied by, for router: softmax and sigmoid."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("1.0"), DECIDES, QUIET},
    {ROW("model.experts.mixer_range", FLOAT, AT(model.experts.mixer_range), "Experts whose logit z is at most mixer_range (|z| + |z*|) below the largest one, z*, are those that a sparsemixer draws among; no effect with another router."),
        RANGE(0, 1e6L, NULL), DEFAULT("0.01"), DECIDES},
    {ROW("model.experts.jitter", FLOAT, AT(model.experts.jitter), "Noise on what routers see in training: each feature times a number of 1 - jitter .. 1 + jitter; 0: none."),
        RANGE(0, 0.99L, NULL), DEFAULT("0.0"), DECIDES, FREE},
    {ROW("model.experts.bias", ENUM, AT(model.experts.bias), "Balancing by a bias that routers add to their probabilities for the choice alone; loss-free: moved after each step by what experts got. Set aux_loss to 0 to balance by it alone."),
        NAMES(biases), DERIVED("loss-free for dots1 and deepseek-v3, none otherwise"), DECIDES},
    {ROW("model.experts.bias_rate", FLOAT, AT(model.experts.bias_rate), "What a bias moves by in a step; no effect while bias is none."),
        RANGE(0, 1, NULL), DEFAULT("0.001"), DECIDES, FREE},

    {ROW("data", MAP, NONE, "Token files, written by sennit-data.")},
    {ROW("data.train", SETS, AT(data.train), "Prefix of the training data's .bin and .idx; sennit-train needs it. Or sets that are blended (docs/DATA.md), each {path: PREFIX, weight: its share of the tokens, relative to the others' (by size where none has one), epochs: how often it may be read, name: (the path's last part), valid: PREFIX of validation data}."),
        NAMES(train_set), DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("data.valid", SETS, AT(data.valid), "Prefix of the validation data's .bin and .idx; or sets, each {path: PREFIX, name: (the path's last part)}, whose losses are told one by one."),
        NAMES(valid_set), DEFAULT("null"), NULL_OK},
    {ROW("data.phases", PHASES, AT(data.phases), "Changes of the weights of data.train, such as at the end of a run: each {from_step: the first step of the phase, weights: {NAME: WEIGHT, ...}}; sets that weights does not name have no part in the phase."),
        NAMES(phase), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("data.order", ENUM, AT(data.order), "Order of the samples."),
        NAMES(orders), DEFAULT("shuffled"), DECIDES},
    {ROW("data.documents", ENUM, AT(data.documents), "Documents that share a sample. together: a token sees all before it in the sample; apart: those of its own document alone, and no document's first token is to be predicted (docs/DATA.md)."),
        NAMES(documents), DEFAULT("together"), DECIDES},
    {ROW("data.loss", ENUM, AT(data.loss), "Tokens to be predicted. all; mask: those that PREFIX.mask beside each .bin counts (docs/DATA.md). The loss is the mean over them, in the global batch."),
        NAMES(losses), DEFAULT("all"), DECIDES},
    {ROW("data.prefix", ENUM, AT(data.prefix), "What is seen in both directions. none; prompt: of each document what is before the first token that is to be predicted and that data.loss: mask counts, by itself and by what follows; the rest is causal (docs/DATA.md). Needs documents: apart and loss: mask."),
        NAMES(prefixes), DEFAULT("none"), DECIDES, QUIET},
    {ROW("data.document_length", INT, AT(data.document_length), "Tokens of a document that a plan expects with data.documents: apart, which sennit-data stats --seq N tells of a set; samples begin anywhere in one. 0: each sample is one document. What training computes does not depend on it."),
        RANGE(0, SN_EXPECTED_TOKENS_MOST, "tokens"), DEFAULT("0"), QUIET},
    {ROW("data.prefix_length", INT, AT(data.prefix_length), "Tokens of a document's prompt that a plan expects with data.prefix: prompt; sennit-data stats --seq N tells them; beside train.prompt no fewer than it fills. What training computes does not depend on it."),
        RANGE(0, SN_EXPECTED_TOKENS_MOST, "tokens"), DEFAULT("0"), QUIET},
    {ROW("data.curriculum", MAP, NONE, "Shorter sequences in the first steps; whole samples of model.seq tokens follow.")},
    {ROW("data.curriculum.lengths", INTS, AT(data.curriculum.n_lengths), "Tokens of the pieces that samples are cut into, one length after another, each more than the one before and less than model.seq: a token sees those before it in its piece alone. Steps keep their samples and tokens (docs/DATA.md)."),
        RANGE(1, 2147483647, "tokens"), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("data.curriculum.until", INTS, AT(data.curriculum.n_until), "The last step of each of data.curriculum.lengths."),
        RANGE(1, 2147483647, "steps"), WORD("none"), DEFAULT("none"), DECIDES, QUIET},

    {ROW("train", MAP, NONE, "How the weights are learnt.")},
    {ROW("train.steps", LONG, AT(train.steps), "Optimizer steps of the whole run."),
        RANGE(1, 1000000000000LL, "steps")},
    {ROW("train.global_batch", INT, AT(train.global_batch), "Sequences per step; a multiple of data x micro_batch."),
        RANGE(1, 1048576, "sequences"), DECIDES},
    {ROW("train.ramp", MAP, NONE, "Smaller batches in the first steps; train.global_batch follows.")},
    {ROW("train.ramp.batches", INTS, AT(train.ramp.n_batches), "Sequences per step, one size after another, each more than the one before and less than train.global_batch; each a multiple of data x micro_batch. The order of samples is that without a ramp, cut into other batches."),
        RANGE(1, 1048576, "sequences"), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("train.ramp.until", INTS, AT(train.ramp.n_until), "The last step of each of train.ramp.batches."),
        RANGE(1, 2147483647, "steps"), WORD("none"), DEFAULT("none"), DECIDES, QUIET},
    {ROW("train.ramp.until_tokens", FLOATS, AT(train.ramp.until_tokens), "In place of until: tokens of the run; the step that reaches them is the last of its size."),
        RANGE(1, 1e15L, "tokens"), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("train.precision", ENUM, AT(train.precision), "Type of activations and of the weights in products."),
        NAMES(precisions), DEFAULT("fp32"), DECIDES},
    {ROW("train.fp8", ENUM, AT(train.fp8), "With precision bf16: products of the layers' weights take operands in 8-bit floats times powers of two. tensorwise: one for each matrix, e4m3, gradients e5m2; on a GPU from sm_89 on. blockwise: one for each 128 x 128 of a weight and each 128 elements of the rest, all e4m3; on sm_90."),
        NAMES(fp8_scalings), DEFAULT("none"), DECIDES},
    {ROW("train.optimizer", MAP, NONE, "The optimizer."), SHORT_FOR("train.optimizer.kind")},
    {ROW("train.optimizer.kind", ENUM, AT(train.optimizer.kind), "Update rule."), NAMES(sn_optimizer_names),
        DEFAULT("adamw"), DECIDES},
    {ROW("train.optimizer.lr", FLOAT, AT(train.optimizer.lr), "Highest learning rate."),
        RANGE(0, 100, NULL), DEFAULT("3e-4"), DECIDES},
    SN_HYPERS(HYPER)
    {ROW("train.optimizer.weight_decay", FLOAT, AT(train.optimizer.weight_decay), "Decoupled weight decay of matrices, embeddings included; train.groups has exceptions."),
        RANGE(0, 10, NULL), DEFAULT("0.1"), DECIDES},
    {ROW("train.optimizer.clip", FLOAT, AT(train.optimizer.clip), "Largest global gradient norm; 0: no clipping."),
        RANGE(0, 1e6L, NULL), DEFAULT("1.0"), DECIDES},
    {ROW("train.schedule", MAP, NONE, "Learning rate over the steps.")},
    {ROW("train.schedule.kind", ENUM, AT(train.schedule.kind), "Shape of the decay after the warm-up; rsqrt: with the root of the steps, the warm-up's included, so that train.steps may grow; wsd: none before the last steps (train.schedule.decay), then linear; wsd-sqrt: then with the root of what is behind; wsd-cosine: then half a cosine."),
        NAMES(sn_lr_names), DEFAULT(SN_LR_DEFAULT_NAME), DECIDES},
    {ROW("train.schedule.warmup", LONG, AT(train.schedule.warmup), "Steps of linear warm-up."),
        RANGE(0, 1000000000000LL, "steps"), DEFAULT("0"), DECIDES},
    {ROW("train.schedule.min_lr", FLOAT, AT(train.schedule.min_lr), "Learning rate at the last step; of rsqrt: the least. No effect where kind is constant."),
        RANGE(0, 100, NULL), DEFAULT("0.0"), DECIDES},
    {ROW("train.schedule.decay", LONG, AT(train.schedule.decay), "Of wsd, wsd-sqrt and wsd-cosine: the last steps, in which the learning rate falls to min_lr; 0: none."),
        RANGE(0, 1000000000000LL, "steps"), DERIVED("a tenth of train.steps")},
    {ROW("train.init_from", PATH, AT(train.init_from), "Checkpoint or safetensors directory to take weights from; null: random weights. The model that comes with them (a checkpoint's own, or config.json beside safetensors) must be that of the run file, key by key (docs/CONVERT.md)."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("train.continue_from", PATH, AT(train.continue_from), "Checkpoint of another run, or directory of some (the newest), that a run with none of its own goes on from: weights, the optimizer's state, the step and so the samples; null: it begins. With wsd several decays can leave one checkpoint (docs/PRETRAIN.md)."),
        DEFAULT("null"), NULL_OK, DECIDES, QUIET},
    {ROW("train.init_changes", WORDS, AT(train.n_init_changes), "Keys of model, such as rope_theta or experts.top_k, in which it may be another than the one that comes with the weights of train.init_from."),
        DEFAULT("[]")},
    {ROW("train.eval_every", LONG, AT(train.eval_every), "Evaluate on data.valid after this many steps; 0: never."),
        RANGE(0, 1000000000000LL, "steps"), DEFAULT("0")},
    {ROW("train.eval_sequences", INT, AT(train.eval_sequences), "Sequences of one evaluation of each set, whatever the layout; all of a set that has fewer."),
        RANGE(1, 16777216, "sequences"), DEFAULT("64")},
    {ROW("train.grad_dtype", ENUM, AT(train.grad_dtype), "Type in which gradients of the blocks' and the head's matrices are accumulated and reduced; others stay fp32."),
        NAMES(grad_dtypes), DEFAULT("fp32"), DECIDES},
    {ROW("train.loss_scale", FLOAT, AT(train.loss_scale), "Loss scale of fp16; dynamic adapts it. A fixed one at which gradients overflow in 10 steps in a row ends the run (exit 79)."),
        RANGE(1, 4294967296.0L, NULL), WORD("dynamic"), DEFAULT("dynamic"), DECIDES},
    {ROW("train.z_loss", FLOAT, AT(train.z_loss), "Weight of the mean square of the logits' log-sum-exp, which is added to what is learnt, such as 1e-4 (PaLM): logits stay near 0. Its mean square is head_z_loss of metrics.jsonl, and no part of loss; 0: none."),
        RANGE(0, 1e3L, NULL), DEFAULT("0.0"), DECIDES, QUIET},
    {ROW("train.mtp_loss", FLOAT, AT(train.mtp_loss), "Weight of the mean loss of the blocks of model.mtp, which is added to what is learnt (DeepSeek-V3: 0.3 for the first two thirds of its tokens, then 0.1). That mean is mtp_loss of metrics.jsonl, and no part of loss; no effect without model.mtp."),
        RANGE(1e-6L, 1e3L, NULL), DEFAULT("0.1"), DECIDES, QUIET},
    {ROW("train.ema", MAP, NONE, "An exponential moving average of the trained weights, beside them.")},
    {ROW("train.ema.decay", FLOAT, AT(train.ema.decay), "What stays of the average in each step, such as 0.999, which the updated weights' rest is added to; it begins as the weights of the first update. An fp32 copy more, sharded as the optimizer's state and saved with it; sennit-convert --ema takes it as the weights. 0: none."),
        RANGE(0, 0.9999999L, NULL), DEFAULT("0.0"), DECIDES, QUIET},
    {ROW("train.freeze", WORDS, AT(train.n_freeze), "Name patterns (* and ?) of parameters that are not trained."),
        DEFAULT("[]"), DECIDES},
    {ROW("train.mup", MAP, NONE, "Maximal update parametrisation (Yang et al., arXiv 2203.03466): rates that were found for a narrower model.")},
    {ROW("train.mup.base_width", INT, AT(train.mup.base_width), "model.hidden of the model for which train.optimizer.lr and model.init_std were found; all widths grow alike. Matrices of layers learn slower by its ratio to model.hidden and begin smaller by its root, logits are divided by it (docs/PRETRAIN.md); 0: none."),
        RANGE(0, 1048576, "features"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("train.mup.base_head_dim", INT, AT(train.mup.base_head_dim), "Features of its heads: scores are multiplied by their root over those of a head here; auto: as many as here."),
        RANGE(1, 65536, "features"), WORD("auto"), DEFAULT("auto"), DECIDES, QUIET},
    {ROW("train.groups", MAP, NONE, "Parameters with a learning rate or a decay of their own.")},
    {ROW("train.groups.names", WORDS, AT(train.groups.n_names), "Name patterns (* and ?) of parameters, each a group; a parameter is of the first that matches."),
        DEFAULT("[]"), DECIDES, QUIET},
    {ROW("train.groups.lr", FLOATS, AT(train.groups.lr), "What the learning rate of each group is multiplied by; []: 1."),
        RANGE(1e-9L, 1e6L, NULL), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("train.groups.weight_decay", FLOATS, AT(train.groups.weight_decay), "Decoupled weight decay of each group, vectors included; []: as others have (train.optimizer.weight_decay for matrices, else 0)."),
        RANGE(0, 10, NULL), DEFAULT("[]"), DECIDES, QUIET},
    {ROW("train.sparse", MAP, NONE, "Matrices that stay sparse: what is 0 when the run begins is 0 for ever, by the zeros of train.init_from (sennit-convert --sparse makes some) or, of random weights, by lot.")},
    {ROW("train.sparse.targets", WORDS, AT(train.sparse.n_targets), "Name patterns (* and ?) of the matrices of attention, feed-forward parts and experts that are sparse, such as *.ffn.*.weight."),
        DEFAULT("[]"), DECIDES, QUIET},
    {ROW("train.sparse.kind", ENUM, AT(train.sparse.kind), "2:4: of each four neighbours in a row (what one output reads) at most two are not 0, as sparse tensor cores want them; they are multiplied as dense ones all the same."),
        NAMES(sparse_kinds), DEFAULT("unstructured"), DECIDES, QUIET},
    {ROW("train.sparse.density", FLOAT, AT(train.sparse.density), "Of unstructured ones: the share of their values that is not 0. A run whose weights have more is refused."),
        RANGE(0.0078125L, 1, NULL), DEFAULT("0.5"), DECIDES, QUIET},
    {ROW("train.lora", MAP, NONE, "Low-rank adapters (LoRA): y = x W^T + alpha / rank (x A^T) B^T. They alone are trained.")},
    {ROW("train.lora.rank", INT, AT(train.lora.r), "Rows of A and columns of B; 0: no adapters."),
        RANGE(0, 65536, NULL), DEFAULT("0"), DECIDES},
    {ROW("train.lora.alpha", FLOAT, AT(train.lora.alpha), "What adapters give is multiplied by alpha / rank."),
        RANGE(1e-6L, 1e6L, NULL), DEFAULT("16.0"), DECIDES},
    {ROW("train.lora.targets", WORDS, AT(train.lora.n_targets), "Name patterns (* and ?) of the weight matrices that get adapters, such as *.attn.q.weight."),
        DEFAULT("[]"), DECIDES},
    {ROW("train.lora.init_from", PATH, AT(train.lora.init_from), "Directory with adapters in PEFT's form (adapter_config.json, adapter_model.safetensors) to begin with; null: A random, B zero. Needs train.init_from."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("train.lora.dropout", FLOAT, AT(train.lora.dropout), "Dropout of what adapters read: one mask for those of a fused matrix."), RANGE(0, 0.999999L, NULL), DEFAULT("0.0"), DECIDES},
    {ROW("train.lora.base", ENUM, AT(train.lora.base), "As what ranks hold the frozen matrices of the layers' products (QLoRA): full: as train.precision; int8, int4, nf4: as codes, of which each 128 of a row share a scale, decoded in front of every product."),
        NAMES(bases), DEFAULT("full"), DECIDES, QUIET},

    {ROW("train.prompt", MAP, NONE, "Positions at the begin of each sample that are filled in front of some layers: by tokens that are learnt, and by features of another encoder (eP-ALM). They, their projection and adapters alone are trained.")},
    {ROW("train.prompt.soft", INT, AT(train.prompt.soft), "Soft tokens in front of each of train.prompt.layers, at the first positions of a sample."),
        RANGE(0, 65536, "tokens"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("train.prompt.rows", INT, AT(train.prompt.rows), "Rows of features behind them, which PREFIX.npy beside each .bin has for each document, a sample each (docs/FINETUNE.md); 0: none."),
        RANGE(0, 65536, "rows"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("train.prompt.size", INT, AT(train.prompt.size), "Numbers of a row of features; one linear map takes it to model.hidden, in front of all layers the same."),
        RANGE(0, 1048576, "numbers"), DEFAULT("0"), DECIDES, QUIET},
    {ROW("train.prompt.levels", BOOL, AT(train.prompt.levels), "Each of train.prompt.layers has rows of its own in PREFIX.npy, one layer's behind those of another; false: all have the same ones."),
        DEFAULT("false"), DECIDES, QUIET},
    {ROW("train.prompt.layers", INTS, AT(train.prompt.n_layers), "Layers, from 0 on, in front of which positions are filled."),
        RANGE(0, 2147483647, "layers"), WORD("first"), DEFAULT("first"), DECIDES, QUIET},

    {ROW("layout", MAP, NONE, "How the step is spread over ranks."), WORD("auto")},
    {ROW("layout.data", INT, AT(layout.data), "Copies of the model; auto follows from the number of ranks."),
        RANGE(1, 1048576, "ranks"), WORD("auto"), DEFAULT("auto"), NULL_OK, DECIDES},
    {ROW("layout.tensor", INT, AT(layout.tensor), "Ranks that share each weight matrix; divides model.heads, and model.kv_heads or is a multiple of it. {x, y, z} is AxoNN's grid: x is layout.tensor_x, y layout.tensor, z layout.zero_node with layout.zero 3; layout.data counts the ranks of z."),
        RANGE(1, 1048576, "ranks"), MEMBERS(grid), DEFAULT("1"), DECIDES},
    {ROW("layout.tensor_x", INT, AT(layout.tensor_x), "Ranks that share the features between blocks (X of AxoNN's grid, whose Y is layout.tensor): of a weight matrix its other dimension; divides model.hidden."),
        RANGE(1, 1048576, "ranks"), DEFAULT("1"), DECIDES},
    {ROW("layout.pipeline", INT, AT(layout.pipeline), "Pipeline stages; times layout.virtual_stages at most model.layers."),
        RANGE(1, 10000, "stages"), DEFAULT("1"), DECIDES},
    {ROW("layout.expert", INT, AT(layout.expert), "Ranks that share the experts, as many to each; divides data x context (and tensor / expert_tensor, where that is named), and model.experts.count."),
        RANGE(1, 1048576, "ranks"), DEFAULT("1"), DECIDES},
    {ROW("layout.expert_tensor", INT, AT(layout.expert_tensor), "Ranks that share each expert's matrices: a divisor of layout.tensor; auto: as layout.tensor; fewer (1: experts are whole): tensor ranks route tokens of their own, and blocks of so many take experts as data ranks do (layout.expert then divides data x context x tensor / expert_tensor)."),
        RANGE(1, 1048576, "ranks"), WORD("auto"), DEFAULT("auto"), NULL_OK, DECIDES},
    {ROW("layout.context", INT, AT(layout.context), "Ranks that share each sequence."),
        RANGE(1, 1048576, "ranks"), DEFAULT("1"), DECIDES},
    {ROW("layout.micro_batch", INT, AT(layout.micro_batch), "Sequences that run through the model at once."),
        RANGE(1, 1048576, "sequences"), DEFAULT("1"), DECIDES},
    {ROW("layout.virtual_stages", INT, AT(layout.virtual_stages), "Stage modules per pipeline stage; more than 1 needs layout.schedule interleaved or combined."),
        RANGE(1, 10000, "stages"), DEFAULT("1"), DECIDES},
    {ROW("layout.sequence_parallel", BOOL, AT(layout.sequence_parallel), "Norms work on slices of the sequence; no effect while layout.tensor is 1."),
        DEFAULT("true"), DECIDES},
    {ROW("layout.schedule", ENUM, AT(layout.schedule), "Order of the pipeline's segments; combined: with overlap auto a forward and the backward of another micro-batch take turns, also without a pipeline."),
        NAMES(sn_schedule_names), DEFAULT(SN_SCHEDULE_DEFAULT_NAME), DECIDES},
    {ROW("layout.recompute", ENUM, AT(layout.recompute), "Which activations are computed again in the backward pass."),
        NAMES(recomputes), DEFAULT("none"), DECIDES},
    {ROW("layout.zero", INT, AT(layout.zero), "ZeRO stage: what is divided among the data ranks; 1: optimizer state, 2: gradients too, 3: weights too."),
        RANGE(0, 3, NULL), DEFAULT("0"), DECIDES},
    {ROW("layout.zero_node", INT, AT(layout.zero_node), "Data ranks, neighbours of each other, that divide among themselves what layout.zero says; groups of them hold the same, so that weights are gathered near and only sums of slices go far (hybrid sharding). 0: all divide."),
        RANGE(0, 1 << 20, "ranks"), DEFAULT("0"), DECIDES},
    {ROW("layout.zero_cache", INT, AT(layout.zero_cache), "Of ZeRO 3 (and z of layout.tensor): layers of each pipeline stage whose weights are gathered once in a step, by its first micro-batch, and kept to its end; the embedding and the head count as a layer each. The bits of a result are the same. auto: as many as the named machine's memory leaves room for; without a machine none."),
        RANGE(0, 65536, "layers"), WORD("auto"), WORD_IS(SN_CACHE_AUTO), DEFAULT("0")},
    {ROW("layout.context_kind", ENUM, AT(layout.context_kind), "How attention crosses the context ranks; no effect while layout.context is 1."),
        NAMES(context_kinds), DEFAULT("ring"), DECIDES},
    {ROW("layout.split", INTS, AT(layout.n_split), "Layers of each stage module (pipeline x virtual_stages of them), in the order of the model."),
        RANGE(1, 10000, "layers"), WORD("auto"), DEFAULT("auto"), DECIDES},
    {ROW("layout.axis_order", RANKING, AT(layout.n_axis_order), "Axes from the innermost, whose ranks are neighbours, outwards; expert and tensor_x may be left out (tensor_x is then right behind tensor)."),
        NAMES(axes), OPTIONAL(1u << SN_ORDER_EXPERT | 1u << SN_ORDER_TENSOR_X), DEFAULT("[tensor, tensor_x, context, expert, data, pipeline]"), DECIDES},
    {ROW("layout.bucket", BYTES, AT(layout.bucket), "Size of the pieces in which gradients are reduced."),
        RANGE(4096, 17179869184.0L, NULL), DEFAULT("25MiB"), DECIDES},
    {ROW("layout.overlap", ENUM, AT(layout.overlap), "Order of operations; auto: messages behind products, by the named machine's rates, for up to twice the temporaries, and with zero 1 or 2 updated weights gathered in the next step; none, and without a machine: as the model has them. The bits of a result are the same. A search ranks layouts without it, and then those that it has found with it and with schedule combined."),
        NAMES(overlaps), DEFAULT("none")},
    {ROW("layout.tensor_pieces", INT, AT(layout.tensor_pieces), "Asynchronous tensor parallelism: pieces of a micro-batch's rows in which products give to tensor ranks' collectives and take from them, one on its way while the next is multiplied. More than 1 needs layout.overlap auto; a search tries 2 and 4. The bits of a result are the same but with sequence_parallel, where norms' gradients are sums over other rows."),
        RANGE(1, 64, "pieces"), DEFAULT("1"), DECIDES},
    {ROW("layout.placement", ENUM, AT(layout.placement), "Which process computes which rank; auto: so that the fewest bytes cross switches and nodes, default: rank n is process n of the launcher."),
        NAMES(placements), DEFAULT("auto")},
    {ROW("layout.drop_duplicates", ENUM, AT(layout.drop_duplicates), "TED: tensor ranks send each token to its experts' ranks once between them, and gather there; auto: where the machine's price says that it is faster, and it fits. No effect while layout.expert or layout.tensor is 1, or tokens are split."),
        NAMES(duplicates), DEFAULT("auto"), DECIDES},
    {ROW("layout.expert_tokens", ENUM, AT(layout.expert_tokens), "Where experts are cut over tensor ranks: gathered: each of them routes all tokens; split: each routes its own, and a token goes to all slices of its experts in one exchange (Parm's S1); auto: split where the machine's price says that it is faster, and it fits. No effect while layout.expert or layout.tensor is 1, or expert_tensor is less than tensor, where tokens are split."),
        NAMES(expert_tokens), DEFAULT("auto"), DECIDES},
    {ROW("layout.comm_aware_recompute", BOOL, AT(layout.comm_aware_recompute), "TED: recomputation keeps the results of collectives instead of communicating again; no effect while layout.recompute is none."),
        DEFAULT("false"), DECIDES},
    {ROW("layout.optimizer_tile", LONG, AT(layout.optimizer_tile), "TED: values of a bucket that are updated at once, a multiple of 65536: bounds the fp32 copy of bf16 gradients; 0: all."),
        RANGE(0, 1099511627776LL, "values"), DEFAULT("0")},
    {ROW("layout.expert_buffer", FLOAT, AT(layout.expert_buffer), "Tokens that a rank's experts take at once, times the mean; what exceeds them comes in further rounds. No effect while layout.expert is 1 and expert_tensor not between 1 and layout.tensor."),
        RANGE(1, 1e6L, NULL), DEFAULT("2.0")},
    {ROW("layout.expert_node", INT, AT(layout.expert_node), "Ranks of a node that exchange tokens for experts among themselves, before each exchanges with those of its place on other nodes (hierarchical all-to-all): a divisor of layout.expert; 1: every rank with every other; auto: what the machine's price says. No effect while layout.expert is 1."),
        RANGE(1, 1048576, "ranks"), WORD("auto"), DEFAULT("auto"), NULL_OK},
    {ROW("layout.expert_chunks", INT, AT(layout.expert_chunks), "Parts in which tokens go to their experts' ranks and come back, one while the experts compute another; 1: all at once; auto: what the machine's price says. No effect while layout.expert is 1 and expert_tensor not between 1 and layout.tensor."),
        RANGE(1, SN_CHUNKS_MOST, "chunks"), WORD("auto"), DEFAULT("auto"), NULL_OK},
    {ROW("layout.offload", TEXT, NONE, "What is kept in host memory."), ONLY("none")},
    {ROW("layout.compress", MAP, NONE, "Codecs of what ranks send (docs/COMPRESSION.md); a word alone is the scheme."), SHORT_FOR("layout.compress.scheme")},
    {ROW("layout.compress.scheme", ENUM, AT(layout.compress.scheme), "Codecs of what has none of its own below. naive: zfp-8 for all; mzhybrid: zfp-8 for gradients, mpc for the rest; zhybrid: zfp-8 for gradients, zfp-16 for the rest; blockwise: int4-diff for weights, int8 for the rest; auto: the fastest within budget, by the machine's price."),
        NAMES(schemes), DEFAULT("none"), DECIDES},
    {ROW("layout.compress.data", TEXT, AT(layout.compress.name[SN_CODED_DATA]), "Codec of gradients among data ranks, such as int8, int4-hadamard or zfp-8; two, such as int8/int4-hadamard: inside nodes, and between them; powersgd-R: factors of rank R in place of each matrix (layout.zero 0 and 1); none; null: the scheme's."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("layout.compress.zero", TEXT, AT(layout.compress.name[SN_CODED_ZERO]), "Codec of the weights that ZeRO gathers; with -diff (stages 1 and 2) of their difference to what the ranks have, so that errors do not add up; two: where all replicas are on one node, and where they are on several; none; null: the scheme's."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("layout.compress.tensor", TEXT, AT(layout.compress.name[SN_CODED_TENSOR]), "Codec of activations and their gradients among tensor ranks; none; null: the scheme's."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("layout.compress.pipeline", TEXT, AT(layout.compress.name[SN_CODED_PIPELINE]), "Codec of those that pass from stage to stage; none; null: the scheme's."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("layout.compress.expert", TEXT, AT(layout.compress.name[SN_CODED_EXPERT]), "Codec of tokens on their way to experts and back; none; null: the scheme's."),
        DEFAULT("null"), NULL_OK, DECIDES},
    {ROW("layout.compress.node", INT, AT(layout.compress.node), "Replicas of a node, which sum gradients among themselves first, before each sums with those of its place on other nodes, and hand on what it gathers: a divisor of data x context; 1: all at once, each on a node of its own; auto: where data or zero has two codecs as many as lie on a node of the named machine (all of them without a machine), else all at once."),
        RANGE(1, 1048576, "ranks"), WORD("auto"), DEFAULT("auto"), NULL_OK, DECIDES},
    {ROW("layout.compress.feedback", BOOL, AT(layout.compress.feedback), "What a codec loses of a rank's gradients is added to the next step's: 4 bytes a value."),
        DEFAULT("false"), DECIDES},
    {ROW("layout.compress.budget", FLOAT, AT(layout.compress.budget), "Of scheme auto: relative rise of the loss that codecs may cost together (templates/codec_losses.csv), such as 0.002; 0: what loses nothing."),
        RANGE(0, 1, NULL), DEFAULT("0"), DECIDES},
    {ROW("layout.compress.guard", FLOAT, AT(layout.compress.guard), "Relative error of messages above which their codec gives way to a milder one, for good; 0: never."),
        RANGE(0, 10, NULL), DEFAULT("0"), DECIDES},
    {ROW("layout.compress.sample", INT, AT(layout.compress.sample), "Steps from one measurement of that error to the next; 0: none."),
        RANGE(0, 1000000, "steps"), DEFAULT("0"), DECIDES},

    {ROW("machine", MAP, NONE, "The machine that the planner prices; a name alone is its preset."), SHORT_FOR("machine.preset")},
    {ROW("machine.preset", TEXT, AT(machine.preset), "Name of a shipped machine, such as lassen (docs/MACHINES.md); none: laptop-cpu, within this host's memory."),
        DEFAULT("null"), NULL_OK},
    {ROW("machine.file", PATH, AT(machine.file), "Path of a machine file, such as sennit-plan calibrate writes."),
        DEFAULT("null"), NULL_OK},
    {ROW("machine.nodes", INT, AT(machine.nodes), "Nodes of the job; auto: as many as the ranks need."),
        RANGE(1, 1048576, "nodes"), WORD("auto"), DEFAULT("auto")},
    {ROW("machine.memory_fraction", FLOAT, AT(machine.memory_fraction), "Part of the device's memory that a plan may fill."),
        RANGE(0.01L, 1, NULL), DEFAULT("1.0")},
    {ROW("machine.software", MAP, NONE, "Another trainer, whose run is priced; a name alone is its profile."), SHORT_FOR("machine.software.profile")},
    {ROW("machine.software.profile", TEXT, AT(machine.software.profile), "Name of a shipped software profile; none: sennit."),
        DEFAULT("null"), NULL_OK},
    {ROW("machine.software.file", PATH, AT(machine.software.file), "Path of a software profile."),
        DEFAULT("null"), NULL_OK},
    {ROW("machine.software.attention", ENUM, AT(machine.software.attention), "Its attention kernel; auto: the profile's."),
        NAMES(attentions), DEFAULT("auto")},
    {ROW("machine.software.fused_norm", ENUM, AT(machine.software.fused_norm), "Whether a norm is one kernel; auto: the profile's."),
        NAMES(choices), DEFAULT("auto")},

    {ROW("checkpoint", MAP, NONE, "Checkpoints.")},
    {ROW("checkpoint.dir", PATH, AT(checkpoint.dir), "Directory of the checkpoints, relative to run.output."),
        DEFAULT("ckpt")},
    {ROW("checkpoint.every", LONG, AT(checkpoint.every), "Steps between two checkpoints; 0: only at the end and when asked to leave."),
        RANGE(0, 1000000000000LL, "steps"), DEFAULT("100")},
    {ROW("checkpoint.keep", INT, AT(checkpoint.keep), "Newest checkpoints that are kept."),
        RANGE(1, 1000000, "checkpoints"), DEFAULT("2")},
    {ROW("checkpoint.async", BOOL, AT(checkpoint.async), "Write while training goes on: a save stops the steps for no longer than a copy in memory takes; costs, for the whole run, the memory of that copy of what a rank writes."),
        DEFAULT("false")},
    {ROW("checkpoint.snapshot_every", LONG, AT(checkpoint.snapshot_every), "Steps between two copies of the state in memory, one in that of each rank's own host and one in that of a partner on another host, from which a run that lost a host goes on (docs/SNAPSHOTS.md); 0: none. Costs, for the whole run, four times the memory of what a rank writes; needs two ranks."),
        RANGE(0, 1000000000000LL, "steps"), DEFAULT("0")},
    {ROW("checkpoint.single_file", BOOL, AT(checkpoint.single_file), "All ranks write into one file, for sites that limit the number of files; needs a file system on which every node sees at once what others wrote."),
        DEFAULT("false")},
    {ROW("checkpoint.damaged", ENUM, AT(checkpoint.damaged), "What a run does when the checkpoint that it would go on from is damaged. stop: it ends with a sentence that names the file and says how to step over it; older: it goes on from the newest that is whole and says so, and the damaged one is kept as step-N.damaged.PID."),
        NAMES(damaged), DEFAULT("stop")},

    {ROW("slurm", MAP, NONE, "What the batch script asks for, and how a job is kept going.")},
    {ROW("slurm.site", TEXT, AT(slurm.site), "Site profile: scheduler, launcher, rules and network of a machine (docs/SITES.md); none: the one that the environment tells of, else generic."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.time", TEXT, AT(slurm.time), "Time limit, as Slurm writes it: minutes, hours:minutes:seconds or days-hours:minutes:seconds; none: the partition's default."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.partition", TEXT, AT(slurm.partition), "Partition (LSF: queue); none: the profile's."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.account", TEXT, AT(slurm.account), "Account that pays; none where the site wants none."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.qos", TEXT, AT(slurm.qos), "Quality of service; none: the profile's."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.nodes", INT, AT(slurm.nodes), "Nodes that train; auto: as many as the layout's ranks need. With layout.data auto they decide how many ranks there are."),
        RANGE(1, 1048576, "nodes"), WORD("auto"), DEFAULT("auto")},
    {ROW("slurm.ranks_per_node", INT, AT(slurm.ranks_per_node), "Ranks of a node; auto: the devices of a node of machine, or else of the site."),
        RANGE(1, 65536, "ranks"), WORD("auto"), DEFAULT("auto")},
    {ROW("slurm.cpus_per_rank", INT, AT(slurm.cpus_per_rank), "Processors of a rank as the site counts them (hardware threads where there are several of a core); auto: the profile's, or else run.threads."),
        RANGE(1, 65536, "processors"), WORD("auto"), DEFAULT("auto")},
    {ROW("slurm.constraint", TEXT, AT(slurm.constraint), "Features that the nodes must have; none: the profile's."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.reservation", TEXT, AT(slurm.reservation), "Reservation to run in."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.exclude", WORDS, AT(slurm.n_exclude), "Nodes that are not wanted, as Slurm lists hosts."),
        DEFAULT("[]")},
    {ROW("slurm.signal_before", INT, AT(slurm.signal_before), "Seconds before the time limit at which the job is asked to save; auto: 2 steps, 2 saves and a minute, of the batch script at least 300 until a save was measured."),
        RANGE(1, 65535, "seconds"), WORD("auto"), DEFAULT("auto")},
    {ROW("slurm.spares", INT, AT(slurm.spares), "Nodes asked for beyond those that train: one of them takes the place of a node that fails."),
        RANGE(0, 65536, "nodes"), DEFAULT("0")},
    {ROW("slurm.chain", INT, AT(slurm.chain), "Jobs submitted at once that follow each other; for runs longer than a time limit where a job is not requeued."),
        RANGE(1, 1000, "jobs"), DEFAULT("1")},
    {ROW("slurm.attempts", INT, AT(slurm.attempts), "Attempts that may fail before nobody goes on, requeued ones included; being preempted or reaching the time limit is no failure; 0: any number."),
        RANGE(0, 1000000, "attempts"), DEFAULT("20")},
    {ROW("slurm.idle_attempts", INT, AT(slurm.idle_attempts), "Attempts in a row that may end without a newer checkpoint before nobody goes on; 0: any number."),
        RANGE(0, 1000000, "attempts"), DEFAULT("3")},
    {ROW("slurm.disk_wait", INT, AT(slurm.disk_wait), "Seconds for which a run waits for room when the file system of its checkpoints is full, trying again now and then; 0: not at all."),
        RANGE(0, 604800, "seconds"), DEFAULT("3600")},
    {ROW("slurm.shrink", BOOL, AT(slurm.shrink), "Go on with fewer nodes, in another layout with the same global batch, when too few are left."),
        DEFAULT("true")},
    {ROW("slurm.ledger", PATH, AT(slurm.ledger), "File of nodes that failed, which are not used for a while; several runs may share one; none: nodes.jsonl of run.output."),
        DEFAULT("null"), NULL_OK},
    {ROW("slurm.extra", WORDS, AT(slurm.n_extra), "Further options of sbatch (or bsub), verbatim, such as --mail-type=FAIL."),
        DEFAULT("[]")},
    {ROW("slurm.setup", WORDS, AT(slurm.n_setup), "Lines of shell that the batch script runs after the site's modules and before its variables, such as module load openmpi."),
        DEFAULT("[]")},
    {ROW("slurm.preflight", BOOL, AT(slurm.preflight), "Check all nodes before the first launch in an allocation: products, memory, messages and storage, in under a minute; a node that fails is avoided."),
        DEFAULT("true")},
};
/* clang-format on */

const int sn_n_keys = (int)(sizeof(sn_keys) / sizeof(sn_keys[0]));
_Static_assert(sizeof(sn_keys) / sizeof(sn_keys[0]) <= SN_KEYS_MAX, "SN_KEYS_MAX is too small");

int sn_key_find(const char *name, size_t len)
{
    for (int i = 0; i < sn_n_keys; i++) {
        if (strncmp(sn_keys[i].name, name, len) == 0 && !sn_keys[i].name[len])
            return i;
    }
    return -1;
}

bool sn_key_in(const struct sn_key *k, const char *section, const char **word)
{
    size_t n = strlen(section);
    if (n && (strncmp(k->name, section, n) != 0 || k->name[n] != '.'))
        return false;
    *word = k->name + n + (n ? 1 : 0);
    return !strchr(*word, '.');
}

void *sn_key_at(const struct sn_key *k, struct sn_config *c)
{
    return k->offset == SN_NOWHERE ? NULL : (char *)c + k->offset;
}

const void *sn_key_get(const struct sn_key *k, const struct sn_config *c)
{
    return k->offset == SN_NOWHERE ? NULL : (const char *)c + k->offset;
}
