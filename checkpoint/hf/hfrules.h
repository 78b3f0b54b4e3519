/*
 * hfrules.h - how our tensors lie in the field's files: the table that reading and writing share.
 * Internal to checkpoint/.
 */
#ifndef SN_HFRULES_H
#define SN_HFRULES_H

#include "checkpoint/format/safetensors.h"
#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/model/model.h"
#include "lib/state/state.h"

#include <stdbool.h>

enum sn_hf_form {
    SN_HF_SAME,         /* as ours */
    SN_HF_CONV,         /* Conv1D: [in, out] */
    SN_HF_CONV_QKV,     /* Conv1D: [in, q | k | v] */
    SN_HF_ROWS_QKV,     /* [q | k | v, in]; k and v may have fewer rows */
    SN_HF_ROWS_GATE_UP, /* [gate | up, in] */
    SN_HF_COLS_PAIR,    /* [out, in of the first | in of the second] */
    SN_HF_ROWS_LATENT,  /* [latent of keys and values | what all heads' keys share, in] */
    SN_HF_HEADS_QKV,    /* [heads, 3, d, in]: q, k and v of one head after the other */
    SN_HF_STACK,        /* [experts, out, in] */
    SN_HF_STACK_GATE_UP /* [experts, gate | up, in] */
};

struct sn_hf_rule {
    const char *ours,
        *theirs; /* # stands for the number of the layer, a second # for the expert's */
    enum sn_hf_form form;
    int part; /* of the _QKV forms: 0 q, 1 k, 2 v; of gate and up, latent and shared, pairs: 0, 1 */
};

struct sn_hf_name {
    char text[128];
};

/* What the numbers in a name are. */
struct sn_hf_at {
    int layer, expert;
};

/* Row i of a family, in the order of the file; the parts of one tensor of theirs lie side by side.
 * NULL behind the last. */
const struct sn_hf_rule *sn_hf_rule_at(enum sn_family family, int i);
/* The same of those that later versions of the field's library write instead of some of them. */
const struct sn_hf_rule *sn_hf_later_rule_at(enum sn_family family, int i);
/* The tensor of the file that holds our piece, by which row, and the tensor's numbers; NULL: none
 * is there. */
const struct sn_st_tensor *sn_hf_find(const struct sn_safetensors *st, enum sn_family family,
                                      const char *tensor, const struct sn_hf_rule **rule,
                                      struct sn_hf_at *at);
/* The row of our piece and the tensor's numbers; NULL for none. */
const struct sn_hf_rule *sn_hf_rule_of(enum sn_family family, const char *tensor,
                                       struct sn_hf_at *at);
struct sn_hf_name sn_hf_ours(const struct sn_hf_rule *r, struct sn_hf_at at);
/* As the field's own library writes it: with the family's prefix on all but the head. */
struct sn_hf_name sn_hf_theirs(enum sn_family family, const struct sn_hf_rule *r,
                               struct sn_hf_at at);
/* Of a block for multi-token prediction, behind the model's last layer: its number there, from 0; -1. */
int sn_hf_further(enum sn_family family, const char *theirs, int layers);
/* Of ours that each such block has a copy of in the files, a row i (the embedding, the head); NULL: no more. */
const struct sn_hf_rule *sn_hf_copy_rule_at(enum sn_family family, int i);
/* The tensor of the file that such a copy is of; NULL: it is none, or that is not there. */
const struct sn_st_tensor *sn_hf_copied(const struct sn_safetensors *st,
                                        const struct sn_model_config *m, const char *theirs);
/* Is the tensor one expert's? */
bool sn_hf_is_expert(const struct sn_hf_rule *r);
/* Rows and columns of the tensor that holds our rows x cols in this form. */
struct sn_hf_size {
    int64_t rows, cols;
};
struct sn_hf_size sn_hf_size(enum sn_hf_form form, int64_t rows, int64_t cols);
/* Of a model's rows `rows` in this row's form: the first of theirs, and how many theirs has. */
struct sn_hf_span {
    int64_t first, all;
};
struct sn_hf_span sn_hf_span(const struct sn_model_config *m, const struct sn_hf_rule *r,
                             int64_t rows);
/* Tensors of ours in one of theirs: 1, 3 for the _QKV forms, 2 for gate and up; of one expert,
 * where theirs are stacks. */
int sn_hf_parts(enum sn_hf_form form);
bool sn_hf_is_stack(enum sn_hf_form form);

/* Of an adapter (lib/model/lora.c), for which the field's weights have no tensor? */
bool sn_hf_is_adapter(const char *tensor);
/* Or of train.prompt? The field has no name for it. */
bool sn_hf_is_prompt(const char *tensor);
/* What PEFT calls it, "base_model.model." before the module's name: its part of it without prefix,
 * "layers.3.self_attn.q_proj", and whether the weight lies turned (gpt2's Conv1D; A and B do not). */
struct sn_hf_adapter_name {
    char text[192], module[96];
    bool is_turned;
};
/* SN_EINPUT, with `where`: the field has the matrix fused with others, or not at all. */
enum sn_status sn_hf_adapter_name(struct sn_hf_adapter_name *out, enum sn_family family,
                                  const char *tensor, const char *where, struct sn_err *err);
/* A directory of weights that has adapters, too, is refused: transformers would take other weights with these. */
enum sn_status sn_hf_no_adapters(const char *path, struct sn_err *err);

/* --- what a model holds, and what is left over ------------------------------------------------ */

/* Every tensor of a model's group "model", sorted by name. */
struct sn_hf_list {
    struct sn_model *model; /* owns the names */
    struct sn_state_shape *shapes;
    int n;
};
enum sn_status sn_hf_list_create(struct sn_hf_list *out, const struct sn_model_config *m,
                                 struct sn_err *err);
void sn_hf_list_fini(struct sn_hf_list *l);
/* May return NULL. */
const struct sn_state_shape *sn_hf_list_find(const struct sn_hf_list *l, const char *name);

/* Names of what is left over, the first few. */
struct sn_left_over {
    char text[400];
    int n;
};
void sn_left_over_add(struct sn_left_over *l, const char *name);
/* SN_EINPUT with the list, if there is anything in it. */
enum sn_status sn_left_over_explain(const struct sn_left_over *l, const char *where,
                                    struct sn_err *err);

/* Do the field's files hold the model's n tensors (those of group "model"; others are passed over)
 * and nothing else that counts? Blocks for multi-token prediction beyond model.mtp do not. See sn_init_from. `path` is used in messages. */
enum sn_status sn_hf_fit(const struct sn_safetensors *st, const char *path,
                         const struct sn_model_config *m, const struct sn_state_shape *all, int n,
                         struct sn_err *err);

#endif
