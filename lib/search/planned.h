/*
 * planned.h - whose operations a plan is made with: what they need of scratch is part of its
 * memory.
 */
#ifndef SN_PLANNED_H
#define SN_PLANNED_H

#include "lib/exec/accelerator.h"

/* With run.backend: cuda those of the plugin, which needs neither a device nor a driver for that;
 * else the processor's. Where the plugin is not there or does not open they are the processor's,
 * too, and a->why says so. `a` is closed by the caller when the operations are no longer used. */
const struct sn_ops *sn_planned_ops(struct sn_accelerator *a, const struct sn_config *c);
/* SN_ISA in the environment names an instruction set that this processor has, or is not set. */
enum sn_status sn_planned_check_isa(struct sn_err *err);
/* Warns of a plan that is not made with the operations of the run. */
void sn_planned_say(const struct sn_accelerator *a);

#endif
