/*
 * test_config_errors.c - the sentence for everything that a run file may get wrong; the layout's
 * own rules are in test_config_layout.c. Longer than 500 lines because it is one table.
 */
#include "lib/config/aliases.h"
#include "lib/config/config.h"
#include "lib/config/files.h"
#include "lib/config/keys.h"
#include "tests/lib/tap.h"

#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
    "model: {family: llama, layers: 4, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128"
#define LATENT "model: {family: deepseek-v2, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 256, seq: 64, "
#define MIXTRAL                                                                                    \
    "model: {family: mixtral, layers: 2, hidden: 256, heads: 4, ffn: 688, vocab: 256, seq: 128"
#define TRAIN "train: {steps: 200, global_batch: 32"

/* clang-format off */
static const struct {
    const char *text, *want;
} bad[] = {
    /* names */
    {MODEL "}\n" TRAIN "}\nlayout: {tensr: 1}\n",
     "run.yaml:3:10: unknown key 'layout.tensr'; did you mean 'layout.tensor'?"},
    {"modle: {}\n",
     "run.yaml:1:1: unknown key 'modle'; did you mean 'model'?"},
    {"model: {hidden_size: 8}\n",
     "run.yaml:1:9: unknown key 'model.hidden_size'; it is called 'model.hidden' here"},
    {"layout: {tp: 8}\n",
     "run.yaml:1:10: unknown key 'layout.tp'; it is called 'layout.tensor' here"},
    {"learning_rate: 8\n",
     "run.yaml:1:1: unknown key 'learning_rate'; it is called 'train.optimizer.lr' here"},
    {MODEL "}\ntrain: {steps: 1e6}\n",
     "run.yaml:2:16: train.steps: got '1e6'; write 1000000"},
    {MODEL "}\ntrain: {steps: 1_000}\n",
     "run.yaml:2:16: train.steps: got '1_000'; write 1000"},
    {MODEL "}\ntrain: {steps: 1.5}\n",
     "run.yaml:2:16: train.steps: got '1.5'; want a whole number in 1..1000000000000 steps"},
    {"\xef\xbb\xbf" MODEL "}\ntrain: {steps: 1.5}\n",
     "run.yaml:2:16: train.steps: got '1.5'; want a whole number in 1..1000000000000 steps"},
    {"train:\n\tsteps: 1\n",
     "run.yaml:2:1: a tab in the indentation; YAML wants blanks"},
    {"train:\n  steps: 1\n \t x: 1\n",
     "run.yaml:3:2: a tab in the indentation; YAML wants blanks"},
    {MODEL "}\n" TRAIN "}\ndata: {train: ~/my}\n",
     "run.yaml:3:15: data.train: '~/my' begins with '~', which shells expand and run files do not; write the whole path"},
    /* sets of data */
    {MODEL "}\n" TRAIN "}\ndata: {train: {path: a}}\n",
     "run.yaml:3:15: data.train: got a mapping; want a path or a list of sets"},
    {MODEL "}\n" TRAIN "}\ndata: {train: []}\n",
     "run.yaml:3:15: data.train: got a list; want a path or a list of sets"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [a, b]}\n",
     "run.yaml:3:16: data.train: got 'a' in the list; want a mapping of path, weight, epochs, name or valid"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{weight: 1}]}\n",
     "run.yaml:3:16: data.train: path is missing in an entry; want path, weight, epochs, name or valid"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, wieght: 1}]}\n",
     "run.yaml:3:26: data.train: unknown key 'wieght'; want path, weight, epochs, name or valid"},
    {MODEL "}\n" TRAIN "}\ndata: {valid: [{path: a, weight: 1}]}\n",
     "run.yaml:3:26: data.valid: unknown key 'weight'; want path or name"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, weight: 0}]}\n",
     "run.yaml:3:34: data.train: weight: got 0; want more than 0, or leave it out"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, weight: -1}]}\n",
     "run.yaml:3:34: data.train: weight: -1 is outside 0..1e+09"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, weight: .nan}]}\n",
     "run.yaml:3:34: data.train: weight: got '.nan'; want a number in 0..1e+09"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, epochs: 0}]}\n",
     "run.yaml:3:34: data.train: epochs: got 0; want more than 0, or leave it out"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: x/tok}, {path: y/tok.bin}]}\n",
     "run.yaml:3:31: data.train: two sets are called 'tok'; want name: with another one"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: 'x/my text'}]}\n",
     "run.yaml:3:16: data.train: 'my text' is no name of a set; want name: with 1 to 63 letters, digits, '.', '_' or '-'"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, weight: 1}, {path: b}]}\n",
     "run.yaml:3:15: data.train: set 'b' has no weight where others have, and no phase names it; want a weight, or leave the set out"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, valid: v}], valid: [{path: a}]}\n",
     "run.yaml:3:45: data.valid: 'a' is validated in data.train (valid), too; want another name, or one of them"},
    {MODEL "}\n" TRAIN "}\ndata: {train: a, phases: [{from_step: 2, weights: {a: 1}}]}\n",
     "run.yaml:3:26: data.phases: needs sets with names; want data.train: [{path: PREFIX}, ...]"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a}], phases: [{from_step: 2, weights: {b: 1}}]}\n",
     "run.yaml:3:36: data.phases: data.train has no set 'b'; want names of its sets, such as 'a'"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a}], phases: [{from_step: 0, weights: {a: 1}}]}\n",
     "run.yaml:3:49: data.phases: 0 is outside 1..1000000000000"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a}], phases: [{from_step: 9, weights: {a: 1}}, {from_step: 9, weights: {a: 2}}]}\n",
     "run.yaml:3:82: data.phases: from_step: 9 is not behind 9, that of the phase before; want rising steps"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a}], phases: [{from_step: 9}]}\n",
     "run.yaml:3:37: data.phases: a phase without weights; want a mapping of names of sets to weights"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a}], phases: [{from_step: 9, weights: {a: 0}}]}\n",
     "run.yaml:3:65: data.phases: a: got 0; want more than 0, or leave it out"},
    {MODEL "}\n" TRAIN "}\ndata: {train: [{path: a, weight: 1}], phases: [{from_step: 1, weights: {a: 1}}]}\n",
     "run.yaml:3:47: data.phases: a phase from step 1 on leaves nothing to data.train's own weights; leave those out, or let it begin later"},
    {MODEL ", wheels: 4}\n",
     "run.yaml:1:90: unknown key 'model.wheels'; model has preset, file, config, "
     "family, layers, hidden, heads, head_dim, kv_heads, latent, ffn, dense_ffn, activation, vocab, seq, "
     "attention_bias, mlp_bias, tied_embeddings, "
     "rope_theta, rope_local_theta, rope_scaling, no_rope_every, attention_scale, embed_scale, residual_scale, logits_divisor, "
     "logit_cap, rotary_pct, parallel_residual, sliding_window, window_from, global_every, score_cap, norm_eps, init_std, dropout, "
     "share_layers, mtp, experts"},
    {MODEL "}\n" TRAIN ", lr: 1}\n",
     "run.yaml:2:39: unknown key 'train.lr'; did you mean 'train.optimizer.lr'?"},
    {MODEL "}\nlayout: {quux.tensor: 1}\n",
     "run.yaml:2:10: unknown key 'layout.quux.tensor'; layout has data, tensor, "
     "tensor_x, pipeline, expert, expert_tensor, context, micro_batch, virtual_stages, "
     "sequence_parallel, schedule, recompute, zero, zero_node, zero_cache, context_kind, split, axis_order, "
     "bucket, overlap, tensor_pieces, placement, drop_duplicates, expert_tokens, comm_aware_recompute, optimizer_tile, expert_buffer, "
     "expert_node, expert_chunks, offload, compress"},
    {"model: {file: a, preset: b}\n",
     "run.yaml:1:18: 'file' and 'preset' in one section; keep one"},
    {"data: {preset: b}\n",
     "run.yaml:1:8: unknown key 'data.preset'; data has train, valid, phases, order, documents, loss, prefix, document_length, "
     "prefix_length, curriculum"},
    /* types */
    {"model: 3\n",
     "run.yaml:1:8: model: got '3'; want a mapping of keys"},
    {"[1, 2]\n",
     "run.yaml:1:1: want a mapping of keys, such as 'model: ...'"},
    {"model: [1]\n",
     "run.yaml:1:8: model: got a list; want a mapping of keys"},
    {"model: {family: llama, layers: four}\n",
     "run.yaml:1:32: model.layers: got 'four'; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: \"4\"}\n",
     "run.yaml:1:32: model.layers: got the text '4'; want a whole number in 1..10000 "
     "layers"},
    {"model: {family: llama, layers: 4.5}\n",
     "run.yaml:1:32: model.layers: got '4.5'; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: 010}\n",
     "run.yaml:1:32: model.layers: got '010'; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: 0x10}\n",
     "run.yaml:1:32: model.layers: got '0x10'; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: }\n",
     "run.yaml:1:32: model.layers: got nothing; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: {a: 1}}\n",
     "run.yaml:1:32: model.layers: got a mapping; want a whole number in 1..10000 "
     "layers"},
    {"model: {family: llama, layers: [4]}\n",
     "run.yaml:1:32: model.layers: got a list; want a whole number in 1..10000 layers"},
    {MODEL ", norm_eps: nan}\n" TRAIN "}\n",
     "run.yaml:1:100: model.norm_eps: got 'nan'; want a number in 1e-12..0.1"},
    {MODEL ", norm_eps: 1e}\n" TRAIN "}\n",
     "run.yaml:1:100: model.norm_eps: got '1e'; want a number in 1e-12..0.1"},
    {MODEL ", tied_embeddings: yes}\n" TRAIN "}\n",
     "run.yaml:1:107: model.tied_embeddings: got 'yes'; want true or false"},
    {"run: {name: null}\n",
     "run.yaml:1:13: run.name: got 'null'; want a word"},
    {"run: {output: ''}\n",
     "run.yaml:1:15: run.output: got the text ''; want a path"},
    {"run: {threads: some}\n",
     "run.yaml:1:16: run.threads: got 'some'; want auto or a whole number in 1..4096 "
     "threads"},
    {MODEL "}\n" TRAIN ", loss_scale: static}\n",
     "run.yaml:2:51: train.loss_scale: got 'static'; want dynamic or a number in "
     "1..4294967296"},
    {MODEL "}\n" TRAIN ", freeze: head}\n",
     "run.yaml:2:47: train.freeze: got 'head'; want a list of names"},
    {MODEL "}\n" TRAIN ", freeze: [[head]]}\n",
     "run.yaml:2:48: train.freeze: got a list as a name; want a word"},
    {MODEL "}\n" TRAIN "}\nlayout: {bucket: 25 parsecs}\n",
     "run.yaml:3:18: layout.bucket: got '25 parsecs'; want a size like 25MiB in "
     "4KiB..16GiB"},
    {MODEL "}\n" TRAIN "}\nlayout: {bucket: 5000.3B}\n",
     "run.yaml:3:18: layout.bucket: 5000.3B is not a whole number of bytes; want one"},
    /* bounds */
    {"model: {family: llama, layers: 0}\n",
     "run.yaml:1:32: model.layers: 0 is outside 1..10000 layers"},
    {"model: {family: llama, layers: 99999999999999999999}\n",
     "run.yaml:1:32: model.layers: 99999999999999999999 is outside 1..10000 layers"},
    {"run: {seed: -1}\n",
     "run.yaml:1:13: run.seed: -1 is outside 0..9223372036854775807"},
    {MODEL ", dropout: 1.5}\n" TRAIN "}\n",
     "run.yaml:1:99: model.dropout: 1.5 is outside 0..0.99"},
    {MODEL "}\n" TRAIN ", optimizer: {lr: 1e999}}\n",
     "run.yaml:2:55: train.optimizer.lr: 1e999 is outside 0..100"},
    {MODEL "}\n" TRAIN "}\nlayout: {bucket: 1KiB}\n",
     "run.yaml:3:18: layout.bucket: 1KiB is outside 4KiB..16GiB"},
    /* enums */
    {"model: {family: lama}\n",
     "run.yaml:1:17: model.family: unknown name 'lama'; did you mean 'llama' (want "
     "gpt2, gpt-neox, llama, mixtral, qwen2, qwen2-moe, qwen3, qwen3-moe, dots1, deepseek-v2, deepseek-v3, olmo2, phi3, gemma2, gemma3 or starcoder2)?"},
    {MODEL "}\n" TRAIN ", precision: int4}\n",
     "run.yaml:2:50: train.precision: unknown name 'int4'; want fp32, bf16 or fp16"},
    {MODEL "}\n" TRAIN ", schedule: {kind: cosin}}\n",
     "run.yaml:2:56: train.schedule.kind: unknown name 'cosin'; did you mean 'cosine' "
     "(want constant, linear, cosine, rsqrt, wsd, wsd-sqrt or wsd-cosine)?"},
    /* missing */
    {"",
     "run.yaml: model.family: missing; want gpt2, gpt-neox, llama, mixtral, qwen2, qwen2-moe, qwen3, qwen3-moe, dots1, deepseek-v2, deepseek-v3, olmo2, phi3, gemma2, gemma3 or starcoder2"},
    {"model: {family: llama}\n",
     "run.yaml:1:1: model.layers: missing; want a whole number in 1..10000 layers"},
    {"model: {family: llama, layers: 4, hidden: 256, heads: 4, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:1: model.ffn: missing; want a number of features, such as 688 (8/3 x "
     "model.hidden, rounded up to 16)"},
    {MODEL "}\ntrain:\n",
     "run.yaml:2:1: train.steps: missing; want a whole number in 1..1000000000000 "
     "steps"},
    {MODEL "}\ntrain: {steps: 4}\n",
     "run.yaml:2:1: train.global_batch: missing; want a whole number in 1..1048576 "
     "sequences"},
    /* not built yet */
    {MODEL "}\n" TRAIN "}\nlayout: {expert: 2}\n",
     "run.yaml:3:18: layout.expert: 2 needs a model with experts (model.experts.count); use 1"},
    {MODEL "}\n" TRAIN "}\nlayout: {expert_tensor: 2}\n",
     "run.yaml:3:25: layout.expert_tensor: 2 needs a model with experts (model.experts.count); leave "
     "it out"},
    {MODEL "}\n" TRAIN "}\nlayout: {tensor: 2, expert_tensor: 1}\n",
     "run.yaml:3:36: layout.expert_tensor: 1 needs a model with experts (model.experts.count); leave "
     "it out"},
    {MODEL "}\n" TRAIN "}\nlayout: {optimizer_tile: 4096}\n",
     "run.yaml:3:26: layout.optimizer_tile: 4096 is not a multiple of 65536 values; nearest that "
     "are: 65536"},
    {MODEL "}\n" TRAIN "}\nlayout: {offload: optimizer}\n",
     "run.yaml:3:19: layout.offload: optimizer is not built yet; use none"},
    {MODEL "}\n" TRAIN "}\nlayout: {compress: gzip}\n",
     "run.yaml:3:20: layout.compress.scheme: unknown name 'gzip'; want none, naive, mzhybrid, "
     "zhybrid, blockwise or auto"},
    {MODEL "}\n" TRAIN "}\nlayout: {compress: {data: int5}}\n",
     "run.yaml:3:27: layout.compress.data: 'int5' is no codec; want none, bf16, fp8, fp8-e5m2, nf4, "
     "int8 and int4 (each also with -hadamard, -stochastic or -hadamard-stochastic), zfp-3 to zfp-32, mpc, mpc-2 "
     "to mpc-32, powersgd-R with R of 1 to 64"},
    {MODEL "}\n" TRAIN "}\nlayout: {compress: {scheme: naive, budget: 0.1}}\n",
     "run.yaml:3:44: layout.compress.budget: codecs are named, so that nothing is chosen; use "
     "scheme: auto, or leave the budget out"},
    {"layout: automatic\n", "run.yaml:1:9: layout: got 'automatic'; want a mapping of keys"},
    {MODEL ", experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:107: model.experts.count: 8 needs family mixtral, qwen2-moe, qwen3-moe, dots1, deepseek-v2 or deepseek-v3, not llama; leave "
     "model.experts out"},
    {MIXTRAL "}\n" TRAIN "}\n",
     "run.yaml:1:1: model.experts.count: missing; family mixtral wants a number of experts, such "
     "as 8"},
    {MODEL ", experts: {top_k: 4}}\n" TRAIN "}\n",
     "run.yaml:1:107: model.experts.top_k: has no effect in a model without experts; set "
     "model.experts.count and family mixtral, qwen2-moe, qwen3-moe, dots1, deepseek-v2 or deepseek-v3, or leave it out"},
    {MODEL ", experts: {balance: sequence}}\n" TRAIN "}\n",
     "run.yaml:1:109: model.experts.balance: has no effect in a model without experts; set "
     "model.experts.count and family mixtral, qwen2-moe, qwen3-moe, dots1, deepseek-v2 or deepseek-v3, or leave it out"},
    {MODEL ", dense_ffn: 96}\n" TRAIN "}\n",
     "run.yaml:1:101: model.dense_ffn: 96 is of layers without experts beside others with them; want "
     "model.ffn, or leave it out"},
    {MIXTRAL ", experts: {count: 8, aux_loss: 0, balance: sequence}}\n" TRAIN "}\n",
     "run.yaml:1:134: model.experts.balance: sequence is of the load-balancing loss, whose weight is 0; set "
     "model.experts.aux_loss, such as 0.001, or leave it out"},
    {MIXTRAL ", experts: {count: 8, top_groups: 2}}\n" TRAIN "}\n",
     "run.yaml:1:124: model.experts.top_groups: 2 is more than model.experts.groups (1); want at most that"},
    {MIXTRAL ", experts: {count: 8, top_k: 9}}\n" TRAIN "}\n",
     "run.yaml:1:119: model.experts.top_k: 9 is more than model.experts.count (8); want at most "
     "that"},
    {MIXTRAL ", experts: {count: 8, every: 3}}\n" TRAIN "}\n",
     "run.yaml:1:119: model.experts.every: 3 is more than model.layers (2), so that no layer has "
     "experts; want at most that"},
    {MIXTRAL ", share_layers: 2, experts: {count: 8, every: 2}}\n" TRAIN "}\n",
     "run.yaml:1:106: model.share_layers: 2 would share weights between layers with and without "
     "experts (model.experts.every: 2); use 1 for one of the two"},
    {MIXTRAL ", share_layers: 2, experts: {count: 8, from: 1}}\n" TRAIN "}\n",
     "run.yaml:1:106: model.share_layers: 2 would share weights between layers with and without "
     "experts (model.experts.from: 1); use 0 for one of the two"},
    {MIXTRAL ", experts: {count: 8, from: 2}}\n" TRAIN "}\n",
     "run.yaml:1:118: model.experts.from: 2 leaves no layer with experts, of 2 (model.layers) every "
     "1; want less"},
    {MIXTRAL ", experts: {count: 8, shared: 2, shared_ffn: 96}}\n" TRAIN "}\n",
     "run.yaml:1:135: model.experts.shared_ffn: is the width of all shared experts together; leave "
     "model.experts.shared (2) out, or this"},
    {"model: {family: qwen2-moe, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 256, seq: 64, experts: {count: 8, shared: 0}}\n" TRAIN "}\n",
     "run.yaml:1:119: model.experts.shared: 0, but family qwen2-moe has a gate over shared experts; "
     "want at least 1"},
    {MIXTRAL ", experts: {count: 8, router: sigmoid, z_loss: 0.1}}\n" TRAIN "}\n",
     "run.yaml:1:137: model.experts.z_loss: 0.1, but it is of a softmax, and this router is of sigmoids; "
     "want 0, and aux_loss or bias: loss-free"},
    {MIXTRAL ", experts: {count: 8, balance: step}}\n" TRAIN "}\n",
     "run.yaml:1:121: model.experts.balance: unknown name 'step'; want batch or sequence"},
    {MIXTRAL ", experts: {count: 8, router: dense, balance: sequence}}\n" TRAIN "}\n",
     "run.yaml:1:136: model.experts.balance: sequence counts what a token visits, but with router: dense "
     "every one visits all experts in training; want batch, or router: softmax"},
    {MIXTRAL ", experts: {count: 8, groups: 3}}\n" TRAIN "}\n",
     "run.yaml:1:120: model.experts.groups: 3 does not divide model.experts.count (8); nearest that "
     "do: 2 or 4"},
    {MIXTRAL ", experts: {count: 8, groups: 4, top_groups: 5}}\n" TRAIN "}\n",
     "run.yaml:1:135: model.experts.top_groups: 5 is more than model.experts.groups (4); want at most "
     "that"},
    {MIXTRAL ", experts: {count: 8, groups: 8}}\n" TRAIN "}\n",
     "run.yaml:1:92: model.experts.top_groups: 1 groups have 1 experts, fewer than a token visits "
     "(model.experts.top_k: 2); want more"},
    {MIXTRAL ", experts: {count: 8, router: dense, route_scale: 2}}\n" TRAIN "}\n",
     "run.yaml:1:140: model.experts.route_scale: is built for router: softmax and sigmoid; want 1, or "
     "one of them"},
    {MIXTRAL ", experts: {count: 8, router: dense, unnormalised: true}}\n" TRAIN "}\n",
     "run.yaml:1:141: model.experts.unnormalised: has no effect with router: dense; want router: softmax "
     "or sigmoid, or leave it out"},
    {MIXTRAL ", experts: {count: 8, router: sparsemixer, unnormalised: true}}\n" TRAIN "}\n",
     "run.yaml:1:147: model.experts.unnormalised: has no effect with router: sparsemixer; want router: "
     "softmax or sigmoid, or leave it out"},
    {"model: {family: dots1, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 256, seq: 64, experts: {count: 8, router: softmax}}\n" TRAIN "}\n",
     "run.yaml:1:115: model.experts.router: family dots1 routes by sigmoids; want sigmoid, or leave it out"},
    {"model: {family: dots1, layers: 2, hidden: 64, heads: 4, ffn: 96, vocab: 256, seq: 64, experts: {count: 8, bias: none}}\n" TRAIN "}\n",
     "run.yaml:1:113: model.experts.bias: none, but routers of family dots1 have one; want loss-free, with "
     "bias_rate: 0 for one that stays as it is"},
    {LATENT "experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:1: model.latent.kv_rank: missing; family deepseek-v2 wants the width of its latents, such as 512"},
    {MODEL ", latent: {q_rank: 8}}\n" TRAIN "}\n",
     "run.yaml:1:107: model.latent.q_rank: is of family deepseek-v2 or deepseek-v3, not llama; leave it out"},
    {LATENT "latent: {kv_rank: 16}, head_dim: 8, experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:126: model.head_dim: heads are model.latent.nope_dim + rope_dim wide; leave it out"},
    {LATENT "latent: {kv_rank: 16}, rotary_pct: 0.5, experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:128: model.rotary_pct: model.latent.rope_dim says what is rotated; leave it out"},
    {LATENT "latent: {kv_rank: 16}, attention_bias: true, experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:132: model.attention_bias: projections of latents have no biases; want false"},
    {LATENT "latent: {kv_rank: 16, rope_dim: 7}, experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:125: model.latent.rope_dim: 7, but the rotary embedding turns pairs; want an even number"},
    {LATENT "latent: {kv_rank: 16}, kv_heads: 2, experts: {count: 8}}\n" TRAIN "}\n",
     "run.yaml:1:126: model.kv_heads: 2 differs from model.heads (4), but deepseek-v2 has one key per query head; "
     "leave kv_heads out"},
    {LATENT "latent: {kv_rank: 16}, experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor_x: 2}\n",
     "run.yaml:3:20: layout.tensor_x: does not go with attention of latents yet; use 1"},
    {LATENT "latent: {kv_rank: 16}, experts: {count: 8}}\n" TRAIN "}\nrun: {bits: all}\n",
     "run.yaml:3:13: run.bits: all does not go with attention of latents yet; use layout"},
    {MODEL ", mtp: 5}\n" TRAIN "}\n", "run.yaml:1:95: model.mtp: 5 is outside 0..4 blocks"},
    {MODEL ", mtp: 1}\n" TRAIN ", mtp_loss: 0}\n", "run.yaml:2:49: train.mtp_loss: 0 is outside 1e-06..1000"},
    {MODEL ", mtp: 1}\n" TRAIN "}\ndata: {train: a, documents: apart, loss: mask, prefix: prompt}\n",
     "run.yaml:3:56: data.prefix: prompt shows blocks of model.mtp what they predict; use none, or model.mtp: 0"},
    {MIXTRAL ", experts: {count: 8, bias: free}}\n",
     "run.yaml:1:118: model.experts.bias: unknown name 'free'; want none or loss-free"},
    {MIXTRAL ", experts: {count: 8, bias: loss-free, bias_rate: -0.1}}\n",
     "run.yaml:1:140: model.experts.bias_rate: -0.1 is outside 0..1"},
    {MIXTRAL ", experts: {count: 8, router: hash}}\n",
     "run.yaml:1:120: model.experts.router: unknown name 'hash'; want softmax, sparsemixer, dense or sigmoid"},
    {MIXTRAL ", experts: {count: 8, top_k: 3, router: sparsemixer}}\n" TRAIN "}\n",
     "run.yaml:1:119: model.experts.top_k: 3, but a sparsemixer (model.experts.router) draws one "
     "expert or two for a token; want 1 or 2, or router: softmax"},
    {MIXTRAL ", experts: {count: 8, router: sparsemixer, bias: loss-free}}\n" TRAIN "}\n",
     "run.yaml:1:139: model.experts.bias: loss-free decides the choice that a sparsemixer "
     "(model.experts.router) draws; want bias: none, or router: softmax"},
    {MIXTRAL ", experts: {count: 8, capacity_factor: 1, router: dense}}\n" TRAIN "}\n",
     "run.yaml:1:129: model.experts.capacity_factor: 1, but with router: dense every token visits "
     "all experts in training; want 0, or router: softmax"},
    {MIXTRAL ", experts: {count: 8, router: dense, bias: loss-free}}\n" TRAIN "}\n",
     "run.yaml:1:133: model.experts.bias: loss-free moves by what experts were chosen, but with "
     "router: dense nothing is chosen in training; want bias: none, or router: softmax"},
    {MIXTRAL ", experts: {count: 8, router: dense}}\n" TRAIN "}\nlayout: {drop_duplicates: true}\n",
     "run.yaml:3:27: layout.drop_duplicates: true drops copies of rows that are exchanged, but with "
     "model.experts.router: dense tokens are gathered; want false"},
    {MIXTRAL ", experts: {count: 8, router: dense}}\n" TRAIN
             "}\nlayout: {expert_node: 2}\n",
     "run.yaml:3:23: layout.expert_node: 2 exchanges rows in two hops, but with "
     "model.experts.router: dense tokens are gathered; want 1 or auto"},
    {MIXTRAL ", experts: {count: 8, router: dense}}\n" TRAIN
             "}\nlayout: {expert_chunks: 2}\n",
     "run.yaml:3:25: layout.expert_chunks: 2 exchanges rows in parts, but with "
     "model.experts.router: dense tokens are gathered; want 1 or auto"},
    {MIXTRAL ", experts: {count: 8, bias: loss-free}}\n"
             "train: {steps: 4, global_batch: 1048576}\n",
     "run.yaml:1:118: model.experts.bias: counts an expert's tokens of a step, at most 16777216 on average, but "
     "train.global_batch x model.seq x top_k / count is 33554432; want fewer, or none"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 2, tensor: 2, sequence_parallel: false, expert_tokens: split}\n",
     "run.yaml:3:73: layout.expert_tokens: split needs sequence_parallel: true, by which tensor ranks (2) have tokens of their own"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor: 4, expert_tensor: 3}\n",
     "run.yaml:3:36: layout.expert_tensor: 3 does not divide layout.tensor (4); nearest that do: 2 or 4"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor: 4, expert_tensor: 8}\n",
     "run.yaml:3:36: layout.expert_tensor: 8 does not divide layout.tensor (4); nearest that do: 4"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor: 4, sequence_parallel: false, expert_tensor: 2}\n",
     "run.yaml:3:62: layout.expert_tensor: 2 needs sequence_parallel: true, by which tensor ranks (4) have tokens of their own"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 4, tensor: 4, expert_node: 2, expert_tensor: 2}\n",
     "run.yaml:3:45: layout.expert_node: 2 hops by way of ranks that hold other slices of experts (layout.expert_tensor: 2), which is not built yet; use 1"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor: 4, expert_tensor: 2, axis_order: [data, tensor, context, pipeline]}\n",
     "run.yaml:3:51: layout.axis_order: experts are shared out over tensor, context and data (layout.expert_tensor: 2); name these in this order, one right after the other"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {tensor: 4, pipeline: 2, expert_tensor: 2, zero: 2, schedule: zero-bubble}\n",
     "run.yaml:3:49: layout.expert_tensor: 2 with schedule zero-bubble and zero 2 is not built yet; use 1, zero 0 or 1, or 1f1b"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 2, tensor: 4, pipeline: 2, expert_tensor: 2, zero: 2, schedule: zero-bubble}\n",
     "run.yaml:3:18: layout.expert: 2 with schedule zero-bubble and zero 2 is not built yet; use zero 0 or 1, or 1f1b"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 4, tensor: 2, expert_node: 2, expert_tokens: split}\n",
     "run.yaml:3:45: layout.expert_node: 2 hops by way of ranks that hold other slices of experts (layout.expert_tokens: split), which is not built yet; use 1"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 2, expert_chunks: 9}\n",
     "run.yaml:3:36: layout.expert_chunks: 9 is outside 1..8 chunks"},
    {MIXTRAL ", experts: {count: 6}}\n" TRAIN "}\nlayout: {expert: 4}\n",
     "run.yaml:3:18: layout.expert: 4 does not divide model.experts.count (6); nearest that do: 3 "
     "or 6"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 2, pipeline: 2, zero: 2, schedule: "
             "zero-bubble}\n",
     "run.yaml:3:18: layout.expert: 2 with schedule zero-bubble and zero 2 is not built yet; use 1, "
     "zero 0 or 1, or 1f1b"},
    {MIXTRAL ", experts: {count: 8}}\n" TRAIN "}\nlayout: {expert: 2, context: 2, axis_order: "
             "[data, tensor, context, pipeline]}\n",
     "run.yaml:3:45: layout.axis_order: experts are shared out over data and context "
     "(layout.expert: 2); name data right after context"},
    {MODEL "}\n" TRAIN "}\ncheckpoint: {async: soon}\n",
     "run.yaml:3:21: checkpoint.async: got 'soon'; want true or false"},
    {MODEL "}\nmachine: {preset: lassen, file: m.yaml}\n",
     "run.yaml:2:27: 'preset' and 'file' in one section; keep one"},
    {MODEL "}\n" TRAIN "}\nmachine: {nodes: 0}\n",
     "run.yaml:3:18: machine.nodes: 0 is outside 1..1048576 nodes"},
    {MODEL "}\nmachine: {node: 2}\n",
     "run.yaml:2:11: unknown key 'machine.node'; did you mean 'machine.nodes'?"},
    {MODEL "}\nmachine: [lassen]\n", "run.yaml:2:10: machine: got a list; want a mapping of keys"},
    {MODEL "}\n" TRAIN "}\nmachine: {software: {attention: flash3}}\n",
     "run.yaml:3:33: machine.software.attention: unknown name 'flash3'; did you mean 'flash2' "
     "(want auto, flash2, flash1, fused or torch)?"},
    {MODEL "}\n" TRAIN "}\nmachine: {preset: [lassen]}\n",
     "run.yaml:3:19: machine.preset: got a list; want a word"},
    {MODEL "}\n" TRAIN "}\nslurm: {time: soon}\n",
     "run.yaml:3:15: slurm.time: 'soon' is no time limit; want minutes, H:MM:SS or D-HH:MM:SS, "
     "such as 12:00:00"},
    {MODEL "}\n" TRAIN "}\nslurm: {time: 10, signal_before: 600}\n",
     "run.yaml:3:34: slurm.signal_before: 600 seconds are not less than slurm.time (10); want a "
     "part of it"},
    {MODEL "}\n" TRAIN "}\nslurm: {partition: \"a; rm -rf b\"}\n",
     "run.yaml:3:20: slurm.partition: 'a; rm -rf b' has ;, which a batch script does not take; "
     "want letters, digits and _-.,:/@%+=[]&|*!()"},
    {MODEL "}\n" TRAIN "}\nslurm: {qos: -wn1}\n",
     "run.yaml:3:14: slurm.qos: '-wn1' begins with '-', as an option does; want a name"},
    {MODEL "}\n" TRAIN "}\nslurm: {exclude: [n1, $(id)]}\n",
     "run.yaml:3:18: slurm.exclude: '$(id)' has $, which a batch script does not take; want "
     "letters, digits and _-.,:/@%+=[]&|*!()"},
    {MODEL "}\n" TRAIN "}\nslurm: {account: geld\xc3\xb6}\n",
     "run.yaml:3:18: slurm.account: 'geld\xc3\xb6' has a character outside ASCII, which a batch "
     "script does not take; want letters, digits and _-.,:/@%+=[]&|*!()"},
    {MODEL "}\n" TRAIN "}\nslurm: {extra: [exclusive]}\n",
     "run.yaml:3:16: slurm.extra: 'exclusive' is no option; want one such as --mail-type=FAIL"},
    {MODEL "}\n" TRAIN "}\nslurm: {extra: [\"--comment='x'\"]}\n",
     "run.yaml:3:16: slurm.extra: '--comment='x'' has a quote or another character that sbatch "
     "would take for something else; want letters, digits and _-.,:/@%+=[]&|*!()<>^~;"},
    {MODEL "}\n" TRAIN "}\nslurm: {nodes: 0}\n",
     "run.yaml:3:16: slurm.nodes: 0 is outside 1..1048576 nodes"},
    {MODEL "}\n" TRAIN "}\nslurm: {accounts: me}\n",
     "run.yaml:3:9: unknown key 'slurm.accounts'; did you mean 'slurm.account'?"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero_node: 2}\n",
     "run.yaml:3:30: layout.zero_node: 2, but nothing is divided; set layout.zero: 1, 2 or 3, or "
     "leave it out"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero: 1, zero_node: 3}\n",
     "run.yaml:3:39: layout.zero_node: 3 of 4 replicas (data x context) are no whole groups of them; "
     "use a divisor that is a multiple or a divisor of layout.context"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero: 1, zero_node: 2, compress: {zero: mpc}}\n",
     "run.yaml:3:39: layout.zero_node: 2 with layout.compress.zero is not built yet; leave one of "
     "them out"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero: 2, zero_cache: 2}\n",
     "run.yaml:3:40: layout.zero_cache: 2, but with layout.zero: 2 ranks hold all weights, and gather "
     "none; set layout.zero: 3, or leave it out"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero: 3, zero_cache: -1}\n",
     "run.yaml:3:40: layout.zero_cache: -1 is outside 0..65536 layers"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 4, zero: 3, zero_cache: some}\n",
     "run.yaml:3:40: layout.zero_cache: got 'some'; want auto or a whole number in 0..65536 layers"},
    {MODEL "}\n" TRAIN ", grad_dtype: bf16}\nlayout: {zero: 2}\n",
     "run.yaml:2:51: train.grad_dtype: bf16 with layout.zero 2 is not built yet; use fp32, or zero "
     "0 or 1"},
    {MODEL "}\n" TRAIN ", optimizer: {kind: lion, eps: 1e-6}}\n",
     "run.yaml:2:68: train.optimizer.eps: lion has no such number; leave it out, or set "
     "train.optimizer.kind to one that has"},
    {MODEL "}\n" TRAIN ", optimizer: {kind: adam}}\n",
     "run.yaml:2:57: train.optimizer.kind: unknown name 'adam'; did you mean 'adamw' "
     "(want adamw, lion or sgd)?"},
    /* rules between keys */
    {"model: {family: gpt2, layers: 4, hidden: 256, heads: 3, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:54: model.heads: 3 does not divide model.hidden (256); nearest that "
     "do: 2 or 4"},
    {MODEL ", kv_heads: 3}\n" TRAIN "}\n",
     "run.yaml:1:100: model.kv_heads: 3 does not divide model.heads (4); nearest that "
     "do: 2 or 4"},
    {"model: {family: gpt2, layers: 4, hidden: 256, heads: 4, kv_heads: 2, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:67: model.kv_heads: 2 differs from model.heads (4), but gpt2 has one "
     "key per query head; leave kv_heads out"},
    {"model: {family: llama, layers: 4, hidden: 20, heads: 4, ffn: 688, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:54: model.heads: a head is 5 wide, but the "
     "rotary embedding turns pairs; want an even width"},
    {"model: {family: gpt-neox, layers: 4, hidden: 24, heads: 4, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:1: model.rotary_pct: 0.25 of a head of width 6 is 1, but the rotary "
     "embedding turns pairs; want an even number"},
    {"model: {family: gpt2, layers: 4, hidden: 24, heads: 4, vocab: 256, seq: 128, rotary_pct: 1}\n" TRAIN "}\n",
     "run.yaml:1:90: model.rotary_pct: gpt2 has no rotary embedding; leave it out"},
    {MODEL ", global_every: 2}\n" TRAIN "}\n",
     "run.yaml:1:104: model.global_every: says which layers have a sliding window, but there is none; "
     "want model.sliding_window, or leave it out"},
    {MODEL ", score_cap: 0}\n" TRAIN "}\n",
     "run.yaml:1:101: model.score_cap: 0 is outside 0.001..1e+09"},
    {MODEL "}\n" TRAIN ", mup: {base_head_dim: 4}}\n",
     "run.yaml:2:60: train.mup.base_head_dim: has no effect without train.mup.base_width; set it, or "
     "leave it out"},
    {MODEL "}\n" TRAIN ", optimizer: sgd, mup: {base_width: 4}}\n",
     "run.yaml:2:60: train.mup: is for rates of Adam's kind, and optimizer sgd has others; use adamw "
     "or lion"},
    /* matrices that stay sparse */
    {MODEL "}\n" TRAIN ", sparse: {density: 0.25}}\n",
     "run.yaml:2:39: train.sparse.targets: names no matrix; want patterns such as \"*.ffn.*.weight\""},
    {MODEL "}\n" TRAIN ", sparse: {targets: ['a'], kind: '2:4', density: 0.25}}\n",
     "run.yaml:2:86: train.sparse.density: 0.25, but of 2:4 it is 0.5; leave it out, or set "
     "train.sparse.kind: unstructured"},
    {MODEL "}\n" TRAIN ", sparse: {targets: ['a']}, lora: {rank: 2, targets: ['b']}}\n",
     "run.yaml:2:57: train.sparse.targets: has no effect beside train.lora, which freezes all but its "
     "adapters; leave one of the two out"},
    {MODEL "}\n" TRAIN ", sparse: {targets: ['a']}}\nlayout: {data: 2, zero: 1, compress: {zero: int8}}\n",
     "run.yaml:2:57: train.sparse.targets: keeps zeros, of which codecs of weights "
     "(layout.compress.zero) other than mpc and bf16 may make other values; want one of them, or none"},
    /* prompts */
    {MODEL "}\n" TRAIN ", prompt: {layers: [0]}}\n",
     "run.yaml:2:47: train.prompt: has no effect without positions; want train.prompt.soft or "
     "train.prompt.rows, such as 1"},
    {MODEL "}\n" TRAIN ", prompt: {rows: 2}}\n",
     "run.yaml:2:47: train.prompt: has rows: 2 of size: 0; want both, or soft tokens alone"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 2, levels: true}}\n",
     "run.yaml:2:65: train.prompt.levels: has no effect without features; leave it out"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 9999}}\n",
     "run.yaml:2:47: train.prompt: fills 9999 positions of a sample of model.seq: 128; want fewer"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1, layers: [0, 77]}}\n",
     "run.yaml:2:65: train.prompt.layers: 77 is no layer of model.layers: 4; want 0 .. 3"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1, layers: [1, 0]}}\n",
     "run.yaml:2:65: train.prompt.layers: 0 behind 1; want each more than the one before"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}, freeze: ['a']}\n",
     "run.yaml:2:66: train.freeze: has no effect beside train.prompt, which freezes all but prompts "
     "and adapters; leave it out"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}, sparse: {targets: ['a']}}\n",
     "run.yaml:2:76: train.sparse.targets: has no effect beside train.prompt, which freezes all but "
     "prompts and adapters; leave one of the two out"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}, mup: {base_width: 4}}\n",
     "run.yaml:2:63: train.mup: says nothing of prompts; leave train.prompt or it out"},
    {MODEL ", share_layers: 2}\n" TRAIN ", prompt: {soft: 1}}\n",
     "run.yaml:2:47: train.prompt: with model.share_layers is not built yet; want 1"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}}\nrun: {bits: all}\n",
     "run.yaml:2:47: train.prompt: with run.bits: all is not built yet; set run.bits: layout"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}}\ndata: {curriculum: {lengths: [2], until: [1]}}\n",
     "run.yaml:3:20: data.curriculum: cuts samples into pieces that do not see their prompt; leave it "
     "out, or train.prompt"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}}\nlayout: {tensor: 2, tensor_pieces: 2, overlap: auto}\n",
     "run.yaml:3:36: layout.tensor_pieces: 2 does not go with train.prompt and sequence_parallel, "
     "whose positions are dealt out anew; use 1"},
    /* groups of parameters */
    {MODEL "}\n" TRAIN ", groups: {names: ['a', 'b'], lr: [1]}}\n",
     "run.yaml:2:71: train.groups.lr: 1 numbers of 2 groups; want one for each of "
     "train.groups.names, or none"},
    {MODEL "}\n" TRAIN ", groups: {names: ['a']}}\n",
     "run.yaml:2:55: train.groups.names: has no effect without train.groups.lr or "
     "train.groups.weight_decay; want one of them"},
    /* prompts that are seen in both directions */
    {MODEL "}\n" TRAIN "}\ndata: {loss: mask, prefix: prompt}\n",
     "run.yaml:3:28: data.prefix: prompt is what of a document comes before its first token that "
     "counts; want data.documents: apart and data.loss: mask beside it"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, prefix: prompt}\n",
     "run.yaml:3:34: data.prefix: prompt is what of a document comes before its first token that "
     "counts; want data.documents: apart and data.loss: mask beside it"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, loss: mask, prefix: 64}\n",
     "run.yaml:3:46: data.prefix: unknown name '64'; want none or prompt"},
    /* what a plan expects of documents */
    {MODEL "}\n" TRAIN "}\ndata: {document_length: 2}\n",
     "run.yaml:3:25: data.document_length: has no effect where documents see each other; want "
     "data.documents: apart, or 0"},
    {MODEL "}\n" TRAIN ", prompt: {soft: 1}}\ndata: {documents: apart, document_length: 2}\n",
     "run.yaml:3:43: data.document_length: has no effect beside train.prompt, where each document "
     "is a sample; want 0"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, prefix_length: 2}\n",
     "run.yaml:3:41: data.prefix_length: has no effect without data.prefix: prompt; want that, or "
     "0"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, loss: mask, prefix: prompt, document_length: 2, "
           "prefix_length: 3}\n",
     "run.yaml:3:89: data.prefix_length: 3 is more than the 2 tokens of a document; want fewer"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, document_length: 16777217}\n",
     "run.yaml:3:43: data.document_length: 16777217 is outside 0..16777216 tokens"},
    {MODEL "}\n" TRAIN "}\ndata: {documents: apart, loss: mask, prefix: prompt, prefix_length: 4097}\n",
     "run.yaml:3:69: data.prefix_length: 4097 is more than the 128 tokens of a sample, which is one "
     "document where data.document_length is 0; set that, or fewer"},
    /* a curriculum of lengths */
    {MODEL "}\n" TRAIN "}\ndata: {curriculum: {lengths: [4], until: [3, 5]}}\n",
     "run.yaml:3:42: data.curriculum.until: 2 ends of 1 lengths; want one for each in "
     "data.curriculum.until"},
    {MODEL "}\n" TRAIN "}\ndata: {curriculum: {lengths: [4]}}\n",
     "run.yaml:3:20: data.curriculum: 0 ends of 1 lengths; want one for each in "
     "data.curriculum.until"},
    {MODEL "}\n" TRAIN "}\ndata: {curriculum: {lengths: [4, 128], until: [3, 5]}}\n",
     "run.yaml:3:30: data.curriculum.lengths: 128 comes before 128; want lengths that grow, up to less "
     "than model.seq"},
    {MODEL "}\n" TRAIN "}\ndata: {curriculum: {lengths: [2, 4], until: [3, 3]}}\n",
     "run.yaml:3:45: data.curriculum.until: pieces of 4 tokens have no step; want ends that grow"},
    /* a ramp of batches */
    {MODEL "}\n" TRAIN ", ramp: {until: [3]}}\n",
     "run.yaml:2:45: train.ramp: has no effect without train.ramp.batches; name them, or leave it "
     "out"},
    {MODEL "}\n" TRAIN ", ramp: {batches: [2, 4], until: [3]}}\n",
     "run.yaml:2:70: train.ramp.until: 1 ends of 2 batches; want one for each in train.ramp.until "
     "or train.ramp.until_tokens"},
    {MODEL "}\n" TRAIN ", ramp: {batches: [4, 2], until: [3, 4]}}\n",
     "run.yaml:2:55: train.ramp.batches: 4 comes before 2; want sizes that grow, up to less than "
     "train.global_batch"},
    {MODEL "}\n" TRAIN ", ramp: {batches: [2, 4], until: [3, 3]}}\n",
     "run.yaml:2:70: train.ramp.until: the batches of 4 sequences have no step; want ends that "
     "grow"},
    {MODEL "}\n" TRAIN ", ramp: {batches: [2], until: [3], until_tokens: [9]}}\n",
     "run.yaml:2:86: train.ramp.until_tokens: stands beside train.ramp.until; leave one of the two "
     "out"},
    {MODEL "}\n" TRAIN ", ramp: {batches: [3], until: [3]}}\nlayout: {micro_batch: 2}\n",
     "run.yaml:2:55: train.ramp.batches: 3 is not a multiple of data x micro_batch (1 x 2); "
     "nearest that are: 2 or 4"},
    {MODEL "}\n" TRAIN ", continue_from: a, init_from: b}\n",
     "run.yaml:2:54: train.continue_from: takes weights and state from a checkpoint, and "
     "train.init_from other weights; leave one of the two out"},
    {MODEL "}\n" TRAIN ", init_changes: [rope]}\n",
     "run.yaml:2:53: train.init_changes: 'rope' is no key in which models are compared; want keys of "
     "model, such as rope_theta or experts.top_k"},
    {MODEL "}\n" TRAIN ", init_changes: [rope_theta, dropout]}\n",
     "run.yaml:2:53: train.init_changes: 'dropout' is no key in which models are compared; want keys "
     "of model, such as rope_theta or experts.top_k"},
    {"model: {family: gpt2, layers: 4, hidden: 24, heads: 4, vocab: 256, seq: 128, rope_theta: 5e5}\n" TRAIN "}\n",
     "run.yaml:1:90: model.rope_theta: gpt2 has no rotary embedding; leave it out"},
    {"model: {family: llama, layers: 4, hidden: 64, heads: 4, ffn: 176, vocab: 256, seq: 64, rope_scaling: {factor: 8}}\n" TRAIN "}\n",
     "run.yaml:1:111: model.rope_scaling.factor: has no effect with type default; leave it out"},
    {"model: {family: gpt2, attention_bias: true, layers: 4, hidden: 256, heads: 4, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:39: model.attention_bias: gpt2 has these biases; leave it out"},
    {"model: {family: mixtral, mlp_bias: true, experts: {count: 4}, layers: 4, hidden: 64, heads: 4, ffn: 176, vocab: 256, seq: 64}\n" TRAIN "}\n",
     "run.yaml:1:36: model.mlp_bias: experts have no biases; want false"},
    {MODEL ", activation: gelu}\n" TRAIN "}\n",
     "run.yaml:1:102: model.activation: the gate of family llama is by silu, others are not built; want silu, or "
     "family gpt2, gpt-neox or starcoder2"},
    {"model: {family: gemma2, activation: silu, layers: 4, hidden: 64, heads: 4, ffn: 176, vocab: 256, seq: 64}\n" TRAIN "}\n",
     "run.yaml:1:37: model.activation: the gate of family gemma2 is by gelu_tanh, others are not built; want gelu_tanh, or "
     "family gpt2, gpt-neox or starcoder2"},
    {"model: {family: gpt2, activation: silu, layers: 4, hidden: 256, heads: 4, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:35: model.activation: silu is built for gates alone, and family gpt2 has none; want gelu or "
     "gelu_tanh, or family llama, mixtral, qwen2, qwen2-moe, qwen3, qwen3-moe, dots1, deepseek-v2, deepseek-v3, olmo2, phi3, gemma2 or gemma3"},
    {"model: {family: gpt2, activation: relu, layers: 4, hidden: 256, heads: 4, vocab: 256, seq: 128}\n" TRAIN "}\n",
     "run.yaml:1:35: model.activation: unknown name 'relu'; did you mean 'gelu' (want gelu_tanh, gelu or silu)?"},
    {MODEL ", parallel_residual: true}\n" TRAIN "}\n",
     "run.yaml:1:109: model.parallel_residual: true needs family gpt-neox, not llama; "
     "use false"},
    {MODEL ", share_layers: 3}\n" TRAIN "}\n",
     "run.yaml:1:104: model.share_layers: 3 does not divide model.layers (4); nearest "
     "that do: 2 or 4"},
    {MODEL "}\n" TRAIN "}\nlayout: {data: 5, micro_batch: 2}\n",
     "run.yaml:2:35: train.global_batch: 32 is not a multiple of data x micro_batch (5 "
     "x 2); nearest that are: 30 or 40"},
    {MODEL "}\n" TRAIN "}\nlayout: {micro_batch: 64}\n",
     "run.yaml:2:35: train.global_batch: 32 is not a multiple of data x micro_batch (1 "
     "x 64); nearest that are: 64"},
    {MODEL "}\n" TRAIN ", schedule: {warmup: 201}}\n",
     "run.yaml:2:58: train.schedule.warmup: 201 is more than train.steps (200); want "
     "at most that"},
    {MODEL "}\n" TRAIN ", optimizer: {lr: 1e-5}, schedule: {min_lr: 1e-4}}\n",
     "run.yaml:2:81: train.schedule.min_lr: 0.0001 is more than train.optimizer.lr "
     "(1e-05); want at most that"},
    {MODEL "}\n" TRAIN ", schedule: {decay: 10}}\n",
     "run.yaml:2:57: train.schedule.decay: cosine has no such number; leave it out, or set "
     "train.schedule.kind to one that has"},
    {MODEL "}\n" TRAIN ", schedule: {kind: wsd, warmup: 150, decay: 51}}\n",
     "run.yaml:2:81: train.schedule.decay: 51 is more than the steps after the warm-up (50); want "
     "at most that"},
    {MODEL "}\n" TRAIN ", eval_every: 10}\n",
     "run.yaml:2:51: train.eval_every: 10 needs data.valid; name validation data or "
     "use 0"},
    {MODEL "}\n" TRAIN ", loss_scale: 1024}\n",
     "run.yaml:2:51: train.loss_scale: 1024 is for precision fp16, not fp32; leave it "
     "out or use dynamic"},
    /* YAML itself */
    {"model: {layers: 4, layers: 5}\n",
     "run.yaml:1:20: key 'layers' is given twice, first in line 1; keep one"},
    {"model: &m {layers: 4}\n",
     "run.yaml:1:8: anchors are not read; write the value out"},
    {"run: {name: *m}\n",
     "run.yaml:1:13: aliases are not read; write the value out"},
    {"run: {seed: !!int 4}\n",
     "run.yaml:1:13: tags are not read; leave the '!' out"},
    {"run: {seed: 4}\n---\nrun: {seed: 4}\n",
     "run.yaml:2:1: a second document; want one per file"},
    {"run: {name: \"a\\0b\"}\n",
     "run.yaml:1:13: a NUL byte in a value; want text"},
    {"run: {name: \"a\\nb\"}\n",
     "run.yaml:1:13: a control character in a value; want one line of text"},
    {"run: {name: \"a\\u2028b\"}\n",
     "run.yaml:1:13: a control character in a value; want one line of text"},
    {"run: {name: a\x01}\n",
     "run.yaml:1:14: not YAML: control characters are not allowed; want printable "
     "UTF-8 text"},
    {"run:\n  name: \xff\n",
     "run.yaml:2:9: not YAML: invalid leading UTF-8 octet; want printable UTF-8 text"},
    {"run: {seed: 4\n",
     "run.yaml:2:1: not YAML: did not find expected ',' or '}'; check indentation, "
     "quotes and brackets here"},
    {"run:\n  seed: 4\n name: b\n",
     "run.yaml:3:2: not YAML: did not find expected key; check indentation, quotes and "
     "brackets here"},
    {"? [a]\n: b\n",
     "run.yaml:1:3: a key is a mapping or a list; want a word"},
    {"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddaaaaaaaaaabbbbbbbbbbccccccccccdddddddddd: 1\n",
     "run.yaml:1:1: key 'aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd...' is too long; "
     "want at most 63 characters"},
    {"run: {name: [[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]}\n",
     "run.yaml:1:27: more than 16 levels deep; want fewer"},
    {"model: {family: olmo2, layers: 2, hidden: 64, heads: 8, kv_heads: 2, ffn: 96, vocab: 256, seq: 64}\n" TRAIN
     "}\nlayout: {tensor: 4}\n",
     "run.yaml:3:18: layout.tensor: 4 does not divide model.kv_heads (2), of which olmo2 has a norm over all; "
     "nearest that work: 2"},
    /* inclusions */
    {"model: {preset: llama-7}\n",
     "run.yaml:1:17: model.preset: no preset 'llama-7'; did you mean 'llama-7b'?"},
    {"model: {preset: enormous-model}\n",
     "run.yaml:1:17: model.preset: no preset 'enormous-model'; sennit-plan --list models has those that "
     "ship"},
    {"model: {preset: ../models/llama-7b}\n",
     "run.yaml:1:17: model.preset: '../models/llama-7b' is not a preset's name; want "
     "letters, digits, '.', '-' and '_', or use 'file' for a path"},
    {"model: {preset: [llama-7b]}\n",
     "run.yaml:1:17: model.preset: want the name of a preset"},
    {"model: {file: /nonexistent/m.yaml}\n",
     "run.yaml:1:15: model.file: '/nonexistent/m.yaml' is not a file; name one that "
     "can be read"},
    {"model: {config: /dev}\n",
     "run.yaml:1:17: model.config: '/dev' is not a file; name one that can be read"},
};
/* clang-format on */

static void bad_files_are_explained(const char *share)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sn_config c;
        struct sn_err err = {0};
        const char *text = bad[i].text;
        enum sn_status st = sn_config_parse(&c, text, strlen(text), "run.yaml", share, &err);
        tap_ok(st == SN_EINPUT, "case %zu is bad input", i + 1);
        tap_text(err.text, bad[i].want, bad[i].want);
    }
}

static void aliases_are_of_keys(void)
{
    for (int i = 0; i < sn_n_aliases; i++) {
        bool there = false, taken = false;
        for (int k = 0; k < sn_n_keys; k++) {
            const char *dot = strrchr(sn_keys[k].name, '.');
            there = there || strcmp(sn_keys[k].name, sn_aliases[i].key) == 0;
            taken = taken || strcmp(dot ? dot + 1 : sn_keys[k].name, sn_aliases[i].word) == 0;
        }
        if (!there || taken)
            tap_ok(false, "'%s' means a key, and is none: %s", sn_aliases[i].word,
                   sn_aliases[i].key);
    }
    tap_ok(sn_n_aliases > 50, "%d words of other programs mean keys", sn_n_aliases);
}

static void sentences_end_without_full_stop(void)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t n = strlen(bad[i].want);
        if (bad[i].want[n - 1] == '.')
            tap_ok(false, "no full stop: %s", bad[i].want);
    }
    tap_ok(true, "sentences end without a full stop");
}

int main(void)
{
    char share[SN_PATH_MAX];
    struct sn_err err = {0};
    if (sn_share_find(share, sizeof(share), &err) != SN_OK)
        abort();
    bad_files_are_explained(share);
    aliases_are_of_keys();
    sentences_end_without_full_stop();
    return tap_done();
}
