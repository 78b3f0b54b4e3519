/*
 * weights.h - initial weights, and the list of tensors that make up a run's state.
 */
#ifndef SN_WEIGHTS_H
#define SN_WEIGHTS_H

#include "lib/exec/exec.h"
#include "lib/state/state.h"

/* List the boxes of logical tensors that this rank holds: fp32 weights and moments, and what
 * layout.compress adds to them. Frozen parameters have no moments. Caller runs sn_state_fini. */
enum sn_status sn_state_create(struct sn_state *out, struct sn_exec *x, const struct sn_job *j,
                               struct sn_err *err);
void sn_state_fini(struct sn_state *s);

/* Fill the "model" boxes from the run's seed: a function of (seed, tensor, element) alone. */
enum sn_status sn_weights_init(const struct sn_state *s, const struct sn_job *j,
                               struct sn_err *err);
/* Fill what the forward pass reads from the fp32 master weights: a cast, and under ZeRO 1 and 2 a
 * gather of all slices. Collective, after every change of masters from outside. */
enum sn_status sn_weights_publish(struct sn_exec *x, const struct sn_job *j, struct sn_comm *comm,
                                  struct sn_err *err);
/* The same after a load, which has filled "replica" too: where there is such a group, its values
 * are gathered in place of the masters'. */
enum sn_status sn_weights_publish_loaded(struct sn_exec *x, const struct sn_job *j,
                                         struct sn_comm *comm, struct sn_err *err);

#endif
