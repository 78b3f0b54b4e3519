/*
 * forecast.h - what a run will take of its nodes, as far as anybody knows: memory, and the time
 * of a step and a save.
 */
#ifndef SN_FORECAST_H
#define SN_FORECAST_H

#include "lib/machine/machine.h"
#include "slurm/supervisor/preempt.h"

struct sn_submit_plan {
    struct sn_save_time times;     /* measured by the run before, else planned; 0: not known */
    char machine[SN_MACHINE_NAME]; /* by which it was planned; "": by none */
    char why[256];                 /* then: why not */
    int64_t memory, limit;         /* bytes of the worst rank, and what it may fill */
    double useful;                 /* part of the time that training gets; 1: not known */
};

/* Planned for the machine that the run file or the site names; nothing where none is named, or the
 * site's cannot be planned for. `output` is the run's directory. */
enum sn_status sn_submit_plan(struct sn_submit_plan *out, const struct sn_config *c,
                              const struct sn_site *s, const char *output, struct sn_err *err);

#endif
