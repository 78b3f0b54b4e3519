/*
 * calibrate_machine.h - a machine description of the machine that this process runs on.
 */
#ifndef SN_CALIBRATE_MACHINE_H
#define SN_CALIBRATE_MACHINE_H

#include "lib/comm/comm.h"
#include "lib/config/config.h"
#include "lib/exec/accelerator.h"
#include "lib/machine/machine.h"

struct sn_calibrate_order {
    struct sn_comm *comm; /* one rank, or all that mpirun started: then links are measured too */
    const struct sn_ops *ops;           /* of this processor */
    struct sn_accelerator *accelerator; /* without a device: the processor is measured */
    const struct sn_config *runs; /* resolved: whose kernels are measured; none: shapes of ours */
    int n_runs;
    int threads;        /* of a rank */
    double seconds;     /* in all, about */
    const char *source; /* one sentence: command, date */
};

/* Collective; ranks measure at the same time, as they will compute, and all get rank 0's figures.
 * The caller ends with sn_machine_fini. */
enum sn_status sn_calibrate_machine(struct sn_machine *out, const struct sn_calibrate_order *o,
                                    struct sn_err *err);

#endif
