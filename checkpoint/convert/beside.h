/*
 * beside.h - what a Hugging Face directory says of no model, handed on: the numbers of tokens in its
 * config.json.
 */
#ifndef SN_BESIDE_H
#define SN_BESIDE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* Lines of a config.json with the tokens of that in `from`. SN_EINPUT where there is none. */
enum sn_status sn_beside_tokens(struct sn_str *out, const char *from, struct sn_err *err);

#endif
