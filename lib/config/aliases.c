#include "lib/config/aliases.h"

#include <string.h>

/* clang-format off */
const struct sn_alias sn_aliases[] = {
    {"hidden_size", "model.hidden"}, {"d_model", "model.hidden"}, {"n_embd", "model.hidden"}, {"dim", "model.hidden"},
    {"num_layers", "model.layers"}, {"num_hidden_layers", "model.layers"}, {"n_layer", "model.layers"}, {"n_layers", "model.layers"},
    {"num_attention_heads", "model.heads"}, {"n_head", "model.heads"}, {"n_heads", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"}, {"num_query_groups", "model.kv_heads"}, {"n_kv_heads", "model.kv_heads"},
    {"intermediate_size", "model.ffn"}, {"ffn_hidden_size", "model.ffn"}, {"d_ff", "model.ffn"},
    {"vocab_size", "model.vocab"}, {"tie_word_embeddings", "model.tied_embeddings"},
    {"seq_len", "model.seq"}, {"seq_length", "model.seq"}, {"max_seq_len", "model.seq"}, {"max_position_embeddings", "model.seq"},
    {"block_size", "model.seq"}, {"n_positions", "model.seq"}, {"context_length", "model.seq"},
    {"hidden_act", "model.activation"}, {"activation_function", "model.activation"}, {"hidden_activation", "model.activation"},
    {"rms_norm_eps", "model.norm_eps"}, {"layer_norm_eps", "model.norm_eps"}, {"layernorm_epsilon", "model.norm_eps"},
    {"num_experts", "model.experts.count"}, {"num_local_experts", "model.experts.count"},
    {"num_experts_per_tok", "model.experts.top_k"}, {"moe_router_topk", "model.experts.top_k"},
    {"learning_rate", "train.optimizer.lr"}, {"max_lr", "train.optimizer.lr"}, {"min_learning_rate", "train.schedule.min_lr"},
    {"grad_clip", "train.optimizer.clip"}, {"clip_grad", "train.optimizer.clip"}, {"max_grad_norm", "train.optimizer.clip"},
    {"lr_scheduler", "train.schedule.kind"}, {"lr_scheduler_type", "train.schedule.kind"}, {"lr_decay_style", "train.schedule.kind"},
    {"warmup_steps", "train.schedule.warmup"}, {"warmup_iters", "train.schedule.warmup"}, {"lr_warmup_iters", "train.schedule.warmup"},
    {"num_decay_steps", "train.schedule.decay"}, {"lr_wsd_decay_iters", "train.schedule.decay"},
    {"batch_size", "train.global_batch"}, {"global_batch_size", "train.global_batch"},
    {"micro_batch_size", "layout.micro_batch"}, {"per_device_train_batch_size", "layout.micro_batch"},
    {"max_steps", "train.steps"}, {"num_steps", "train.steps"}, {"train_iters", "train.steps"}, {"max_iters", "train.steps"},
    {"eval_interval", "train.eval_every"}, {"eval_steps", "train.eval_every"},
    {"dtype", "train.precision"}, {"bf16", "train.precision"}, {"fp16", "train.precision"},
    {"data_path", "data.train"}, {"dataset", "data.train"},
    {"output_dir", "run.output"}, {"out_dir", "run.output"}, {"save_dir", "run.output"},
    {"save_steps", "checkpoint.every"}, {"save_interval", "checkpoint.every"}, {"save_total_limit", "checkpoint.keep"},
    {"tp", "layout.tensor"}, {"tensor_parallel", "layout.tensor"}, {"tensor_parallel_size", "layout.tensor"},
    {"tensor_model_parallel_size", "layout.tensor"},
    {"pp", "layout.pipeline"}, {"pipeline_parallel", "layout.pipeline"}, {"pipeline_parallel_size", "layout.pipeline"},
    {"pipeline_model_parallel_size", "layout.pipeline"},
    {"dp", "layout.data"}, {"data_parallel", "layout.data"}, {"data_parallel_size", "layout.data"},
    {"cp", "layout.context"}, {"context_parallel", "layout.context"}, {"context_parallel_size", "layout.context"},
    {"ep", "layout.expert"}, {"expert_parallel", "layout.expert"}, {"expert_model_parallel_size", "layout.expert"},
    {"zero_stage", "layout.zero"}, {"gradient_checkpointing", "layout.recompute"}, {"activation_checkpointing", "layout.recompute"},
};
/* clang-format on */
const int sn_n_aliases = sizeof(sn_aliases) / sizeof(sn_aliases[0]);

const char *sn_alias_find(const char *word)
{
    for (int i = 0; i < sn_n_aliases; i++)
        if (strcmp(sn_aliases[i].word, word) == 0)
            return sn_aliases[i].key;
    return NULL;
}
