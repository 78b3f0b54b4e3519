/*
 * hfkeys_table.h - how rows of the table are written. Internal to lib/config.
 */
#ifndef SN_HFKEYS_TABLE_H
#define SN_HFKEYS_TABLE_H

#include "lib/config/hfkeys.h"

#define USED(key, to, otherwise)                                                                   \
    .name = (key), .class = SN_HF_USED, .ours = (to), .value = (otherwise), .is_written = true
#define FIXED(key, reason, ...)                                                                    \
    .name = (key), .class = SN_HF_FIXED, .why = (reason), .values = {__VA_ARGS__}
#define REPEAT(key, of)    .name = (key), .class = SN_HF_REPEAT, .ours = (of)
#define CODE(key, reason)  .name = (key), .class = SN_HF_CODE, .why = (reason)
#define OBJECT(key)        .name = (key), .class = SN_HF_OBJECT
#define ALIAS(key, of)     .name = (key), .class = SN_HF_ALIAS, .ours = (of)
#define PART(key, of, otherwise)                                                                   \
    .name = (key), .class = SN_HF_PART, .ours = (of), .value = (otherwise)
#define LAYERS(key, ...)   .name = (key), .class = SN_HF_LAYERS, .layers = {__VA_ARGS__}
#define INERT(key, reason) .name = (key), .class = SN_HF_INERT, .why = (reason)
#define WRITTEN            .is_written = true
#define SCALED             .scale = SN_HF_TOP_K_OVER_LAYERS
#define INVERSE_ROOT       .scale = SN_HF_INVERSE_ROOT
#define NULL_OK            .may_be_null = true
#define WINDOW             .words = {{"null", "none"}}
#define NEGATED            .words = {{"false", "true"}, {"true", "false"}}
#define GELUS                                                                                      \
    .words = {{"gelu_new", "gelu_tanh"},                                                           \
              {"gelu_pytorch_tanh", "gelu_tanh"},                                                  \
              {"gelu_fast", "gelu_tanh"},                                                          \
              {"gelu", "gelu"},                                                                    \
              {"gelu_python", "gelu"}}
#define GELUS_OF_TORCH /* the tanh of the same name as the class's default is written */             \
    .words = {{"gelu_pytorch_tanh", "gelu_tanh"},                                                  \
              {"gelu_new", "gelu_tanh"},                                                           \
              {"gelu_fast", "gelu_tanh"},                                                          \
              {"gelu", "gelu"},                                                                    \
              {"gelu_python", "gelu"}}
#define ROPES                                                                                      \
    .words = {{"default", "default"}, {"linear", "linear"}, {"dynamic", "dynamic"},                \
              {"yarn", "yarn"},       {"llama3", "llama3"}, {"longrope", "longrope"}}
#define DENSE_LAYERS(key, of) .name = (key), .class = SN_HF_DENSE, .ours = (of)
#define GROUPED(key, of, all, grouped)                                                             \
    .name = (key), .class = SN_HF_GROUPED, .ours = (of), .values = {(all), (grouped)}
#define EVERY(key, of) .name = (key), .class = SN_HF_EVERY, .ours = (of)
#define REQUIRED NULL


/* hfkeys_common.c: of classes with rotary embeddings, of the class that all are derived from, and of the GPTs. */
extern const struct sn_hf_key sn_hf_rope_type_keys[], sn_hf_rope_keys[], sn_hf_base_keys[];
extern const struct sn_hf_key sn_hf_gpt2_keys[], sn_hf_neox_keys[];

#endif
