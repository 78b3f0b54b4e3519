/*
 * inputs.h - the files that a run reads, looked at before anybody waits for nodes.
 *
 * Token files, the checkpoint that it would go on from, and the weights that it begins with. What
 * is there and cannot work is an error; what is not on this host may be on the nodes, and is
 * counted.
 */
#ifndef SN_BIN_INPUTS_H
#define SN_BIN_INPUTS_H

#include "checkpoint/store/look.h"
#include "lib/data/data_fit.h"

struct sn_inputs {
    struct sn_data_fit data;
    struct sn_look start; /* the checkpoint that it goes on from */
    bool has_weights; /* train.init_from or train.continue_from is what it begins with, and here */
    bool lacks_weights; /* the same, but not on this host */
};

/* SN_EINPUT: something is there and does not go with the run file. */
enum sn_status sn_inputs_look(struct sn_inputs *out, const struct sn_config *c, struct sn_err *err);
/* How many of the files are not on this host. */
int sn_inputs_absent(const struct sn_inputs *in);
/* What is there, a line each: "data: ..."; and what somebody might not expect. */
void sn_inputs_text(struct sn_str *out, const struct sn_inputs *in, const struct sn_config *c);
void sn_inputs_warn(struct sn_str *out, const struct sn_inputs *in, const struct sn_config *c);

#endif
