/*
 * hfnames.h - our names for tensors and the field's: gpt2, gpt-neox and llama as Hugging Face
 * stores them, and a model's first weights from such files or from a checkpoint of ours.
 *
 * Ours are [out, in] with q, k and v apart (DESIGN.md 7); theirs may be transposed or fused. Rotary
 * halves are stored alike in both, so q and k rows keep their order.
 */
#ifndef SN_HFNAMES_H
#define SN_HFNAMES_H

#include "checkpoint/safetensors.h"
#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/run/state.h"

/* The tensor of the file that holds our piece "layers.3.attn.q.weight", alone or among others; NULL
 * when the family has no such piece or the file lacks it. */
const struct sn_st_tensor *sn_hf_source(const struct sn_safetensors *st, enum sn_family family,
                                        const char *piece);
/* For a tensor of the file that belongs to a layer not divisible by `share`: the same tensor of the
 * last layer before it that is. NULL for all others. *layer is the tensor's own layer. */
const struct sn_st_tensor *sn_hf_sibling(const struct sn_safetensors *st, enum sn_family family,
                                         const char *theirs, int share, int *layer);
/* Our piece, rows x cols fp32, out of the field's file. A shape that does not fit is SN_EINPUT. */
enum sn_status sn_hf_read_piece(const struct sn_safetensors *st, enum sn_family family,
                                const struct sn_model_config *m, const char *piece, int64_t rows,
                                int64_t cols, float *out, struct sn_err *err);

/* Fill the "model" tensors of s and nothing else. `path` is a safetensors file or directory, one of
 * our checkpoints (step-00000100), or a directory of them (the newest). Every tensor of the source
 * must be used, apart from known buffers, a head equal to the tied embedding, and layers that equal
 * the one whose weights they share; what is left over is SN_EINPUT and is listed. */
enum sn_status sn_init_from(const char *path, const struct sn_model_config *m, struct sn_state *s,
                            struct sn_err *err);

#endif
