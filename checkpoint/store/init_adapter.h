/*
 * init_adapter.h - adapters to begin with, in PEFT's form: what adapter_config.json says must be what
 * the run file has, and each key of it be known to change nothing, or off.
 */
#ifndef SN_INIT_ADAPTER_H
#define SN_INIT_ADAPTER_H

#include "lib/base/err.h"
#include "lib/config/config.h"
#include "lib/state/state.h"

/* Fill the adapters' "model" boxes of s from the directory c->train.lora.init_from. A tensor that is
 * missing, left over, of another shape or no number is SN_EINPUT. */
enum sn_status sn_init_adapter(const struct sn_config *c, struct sn_state *s, struct sn_err *err);

#endif
