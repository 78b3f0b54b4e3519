/*
 * hfconfig.h - a Hugging Face config.json read as model keys, and written from them, by the table
 * of hfkeys.h.
 */
#ifndef SN_HFCONFIG_H
#define SN_HFCONFIG_H

#include "lib/config/config.h"
#include "lib/config/yaml.h"

/* Translate the text of a config.json into a document with the keys of the model section. A key
 * that is in no list, a value that sennit cannot compute, and two names of one thing that disagree
 * are refused by name. Caller destroys *out. */
enum sn_status sn_hfconfig_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                                 const char *path, struct sn_err *err);
/* Append the config.json of a model whose weights are stored as `dtype`, with the lines `tokens` of
 * sn_hfconfig_tokens (NULL: none are known); read back it gives the
 * same model, with its shared layers apart (the field knows no sharing). What may be unknown
 * (init_std 0, the weight of the balancing loss 0) is left out. A model that the field's classes
 * cannot compute is SN_EINPUT. */
enum sn_status sn_hfconfig_format(struct sn_str *out, const struct sn_model_config *m,
                                  enum sn_dtype dtype, const char *tokens, struct sn_err *err);

/* Of a config.json, as lines of another: which tokens begin and end a text, and fill a batch; null where
 * it does not say. SN_EINPUT: it is no such file. */
enum sn_status sn_hfconfig_tokens(struct sn_str *out, const char *text, size_t len, const char *path,
                                  struct sn_err *err);
/* Does a kind of scaled wavelengths read our key rope_scaling.`key`? ALWAYS: a file has to say it. */
enum sn_hf_reads { SN_HF_READS_NOT, SN_HF_READS, SN_HF_READS_ALWAYS };
enum sn_hf_reads sn_hfconfig_rope_reads(const char *kind, const char *key);
/* Of a document that was made so, the section rope_scaling: without what its kind does not read, and with what
 * follows from the `positions` that the file is for. SN_EINPUT: something is missing. */
enum sn_status sn_hfconfig_settle_rope(struct sn_yaml_doc *doc, double positions, const char *path,
                                       struct sn_err *err);

#endif
