/*
 * beside.h - the files of a Hugging Face directory that are of no model, handed on: a tokenizer,
 * generation_config.json, and the numbers of tokens that config.json says.
 */
#ifndef SN_BESIDE_H
#define SN_BESIDE_H

#include "lib/base/err.h"
#include "lib/base/str.h"

/* Those of `from` that are there, into the directory `to`, byte for byte. */
enum sn_status sn_beside_copy(const char *from, const char *to, struct sn_err *err);
/* Lines of a config.json with the tokens of that in `from`. SN_EINPUT where there is none. */
enum sn_status sn_beside_tokens(struct sn_str *out, const char *from, struct sn_err *err);

#endif
