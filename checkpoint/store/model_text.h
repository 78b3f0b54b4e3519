/*
 * model_text.h - the model section that a checkpoint carries, as a value.
 */
#ifndef SN_MODEL_TEXT_H
#define SN_MODEL_TEXT_H

#include "lib/base/err.h"
#include "lib/config/config.h"

/* `text` as sn_config_format_model wrote it, possibly long ago or by a stranger: plain values only,
 * so that no key in it opens another file. The other sections of *out are made up: one rank, one
 * sequence, one step. `where` names the text in messages. */
enum sn_status sn_model_text_parse(struct sn_config *out, const char *text, const char *where,
                                   struct sn_err *err);
/* The text of c->model; caller frees *out. A model that the key table does not allow (a width past
 * its bound) is SN_EINPUT. */
enum sn_status sn_model_text_format(char **out, const struct sn_config *c, const char *where,
                                    struct sn_err *err);

#endif
