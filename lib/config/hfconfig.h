/*
 * hfconfig.h - a Hugging Face config.json read as model keys.
 */
#ifndef SN_HFCONFIG_H
#define SN_HFCONFIG_H

#include "lib/config/yaml.h"

/* Translate the text of a config.json into a document with the keys of the model section. What the
 * model says and sennit cannot do is refused by name. Caller destroys *out. */
enum sn_status sn_hfconfig_parse(struct sn_yaml_doc **out, const char *text, size_t len,
                                 const char *path, struct sn_err *err);

#endif
