/*
 * trace.h - sennit-train --trace: the planned step and a measured one in one file.
 */
#ifndef SN_BIN_TRAIN_TRACE_H
#define SN_BIN_TRAIN_TRACE_H

#include "lib/cost/price.h"
#include "lib/machine/named.h"
#include "lib/sim/sim.h"
#include "lib/sim/stages.h"
#include "lib/train/trainer.h"

#include <stdio.h>

struct sn_train_trace {
    const char *path; /* NULL: not asked for; borrowed, as what follows */
    struct sn_comm *comm;
    /* what sn_train_traced keeps */
    const struct sn_config *config;
    bool is_written;
    /* on rank 0 */
    FILE *f;
    struct sn_stages stages;
    struct sn_machine machine;
    struct sn_software software;
    struct sn_pricer pricer;
    struct sn_sim sim;
};

/* sn_trainer_run, of which a step is drawn where t->path says so; collective. What cannot be
 * planned or opened ends it before step 1; a file that cannot be written later does not: rank 0
 * says so. `machine` is what --pace names, or NULL. */
enum sn_status sn_train_traced(struct sn_trainer *trainer, struct sn_trainer_options *o,
                               struct sn_train_trace *t, const struct sn_machine *machine,
                               int *exit_code, struct sn_err *err);

#endif
