/*
 * peft.h - adapters alone, in the form of the field's PEFT library: adapter_config.json and
 * adapter_model.safetensors, for models whose matrices are single tensors there (llama, mixtral's
 * attention, qwen2).
 */
#ifndef SN_PEFT_H
#define SN_PEFT_H

#include "checkpoint/convert/convert.h"

/* Write the adapters of `s`, a checkpoint with the model m, into the new directory dst, which is
 * written aside and renamed. SN_EINPUT: it has none, one belongs to a matrix that is fused with
 * others in the field's form (gpt2's c_attn), or layers share weights. One process does it. */
enum sn_status sn_peft_write(struct sn_source *s, const struct sn_model_config *m, const char *dst,
                             enum sn_dtype dtype, struct sn_convert_report *report,
                             struct sn_err *err);

#endif
