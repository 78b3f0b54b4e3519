/*
 * hfconfig.h - a Hugging Face config.json read as model keys, and written from them.
 */
#ifndef SN_HFCONFIG_H
#define SN_HFCONFIG_H

#include "lib/config/config.h"
#include "lib/config/yaml.h"

/* Translate the text of a config.json into a document with the keys of the model section. What the
 * model says and sennit cannot do is refused by name. Caller destroys *out. */
enum sn_status sn_hfconfig_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                                 const char *path, struct sn_err *err);
/* Append the config.json of a model whose weights are stored as `dtype`; read back it gives the
 * same model, with its shared layers apart (the field knows no sharing). A model that the field's
 * classes cannot compute is SN_EINPUT. */
enum sn_status sn_hfconfig_format(struct sn_str *out, const struct sn_model_config *m,
                                  enum sn_dtype dtype, struct sn_err *err);

#endif
