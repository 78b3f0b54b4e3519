/*
 * init_model.h - is the run file's model the one that first weights come with?
 *
 * Names and shapes of tensors say nothing of heads, rotary embeddings, norms or routing: weights
 * that fit may compute another function. So the model that comes with them, config.json beside
 * safetensors or the text in a checkpoint, is compared with the run file's, key by key.
 */
#ifndef SN_INIT_MODEL_H
#define SN_INIT_MODEL_H

#include "checkpoint/format/manifest.h"
#include "lib/base/err.h"
#include "lib/config/config.h"

/* SN_EINPUT where there is nothing of that name. */
enum sn_status sn_init_check_path(const char *path, struct sn_err *err);

/* SN_EINPUT with the key and both values, unless the key is one of these:
 *   those of training alone (dropout, init_std, aux_loss ...), of which no checkpoint speaks
 *   seq               less than theirs, where positions are rotated
 *   sliding_window    where neither cuts off anything within seq
 *   share_layers      of the field's files, whose layers are compared as they are read
 *   experts.bias      where theirs have none: it begins at 0
 * or train.init_changes names it, which `rank` 0 then says.
 *
 * `path` is the field's file or directory. Without a config.json there, rank 0 says what cannot be
 * compared. */
enum sn_status sn_init_check_field(const char *path, const struct sn_config *c, int rank,
                                   struct sn_err *err);
/* `text` is the model section of the checkpoint `where`. */
enum sn_status sn_init_check_text(const char *text, const char *where, const struct sn_config *c,
                                  int rank, struct sn_err *err);

/* The adapters of a checkpoint, if it has some, are those of train.lora, unless others take their place. */
enum sn_status sn_init_check_adapters(const struct sn_manifest *m, const char *where,
                                      const struct sn_config *c, struct sn_err *err);

#endif
