/*
 * hfnames.h - our names for tensors and the field's: families as Hugging Face stores them, and a
 * model's first weights from such files or from a checkpoint of ours.
 *
 * Ours are [out, in] with q, k and v apart (docs/FORMAT.md); theirs may be transposed or fused.
 * Rotary halves are stored alike in both, so q and k rows keep their order.
 */
#ifndef SN_HFNAMES_H
#define SN_HFNAMES_H

#include "checkpoint/format/safetensors.h"
#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/state/state.h"

/* The tensor of the file that holds our piece "layers.3.attn.q.weight", alone or among others; NULL
 * when the family has no such piece or the file lacks it. */
const struct sn_st_tensor *sn_hf_source(const struct sn_safetensors *st, enum sn_family family,
                                        const char *tensor);
/* For a tensor of the file that belongs to a layer not divisible by `share`: the same tensor of the
 * last layer before it that is. NULL for all others. *layer is the tensor's own layer. */
const struct sn_st_tensor *sn_hf_sibling(const struct sn_safetensors *st, enum sn_family family,
                                         const char *theirs, int share, int *layer);
/* Has the field's file our tensor `t`, in a shape that fits? If not, SN_EINPUT. */
enum sn_status sn_hf_check(const struct sn_safetensors *st, const struct sn_model_config *m,
                           const struct sn_state_shape *t, struct sn_err *err);
/* The box that t describes, of our tensor, out of the field's file; rows of `out` are t->ld values
 * apart, and t->p is not touched. Reads no more than the box. What sn_hf_check refuses is
 * SN_EINPUT.
 */
enum sn_status sn_hf_read_box(const struct sn_safetensors *st, const struct sn_model_config *m,
                              const struct sn_state_tensor *t, float *out, struct sn_err *err);

/* Fill the "model" boxes of s and nothing else. c->train.init_from is a safetensors file or
 * directory, one of our checkpoints (step-00000100), or a directory of them (the newest). The model
 * that comes with the weights must be that of the run file (checkpoint/store/init_model.h). Every
 * tensor of the source must have its place in the model (s->all), apart from known buffers, a head
 * equal to the tied embedding, and layers that equal the one whose weights they share; what is left
 * over is SN_EINPUT and is listed. */
enum sn_status sn_init_from(const struct sn_config *c, struct sn_state *s, struct sn_err *err);

#endif
