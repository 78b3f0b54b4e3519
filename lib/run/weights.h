/*
 * weights.h - the job's parameters in this process: initial values and the state that is saved.
 */
#ifndef SN_WEIGHTS_H
#define SN_WEIGHTS_H

#include "lib/run/exec.h"
#include "lib/run/state.h"

/* Random initial weights: a function of (seed, tensor name, element) alone. */
void sn_weights_init(struct sn_exec *x, const struct sn_job *j);
/* Copy the fp32 master weights into the storage copies that the forward pass reads. */
enum sn_status sn_weights_publish(struct sn_exec *x, const struct sn_job *j, struct sn_err *err);

/* Every logical tensor of the state (weights; moments of what trains), pointing into the arena.
 * Caller calls fini. scalars, model_text and config_hash are left for the caller to fill. */
enum sn_status sn_state_create(struct sn_state *out, struct sn_exec *x, const struct sn_job *j,
                               struct sn_err *err);
void sn_state_fini(struct sn_state *s);

#endif
