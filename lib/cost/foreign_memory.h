/*
 * foreign_memory.h - what a rank of another trainer holds: our layout, that trainer's habits
 * (software.h, memory).
 *
 *   states      P (param + grad + optimizer)        P: parameters of the rank, of each kind what
 *                                                   ZeRO leaves there
 *   a layer     T h (replicated + unfused)          / t with sequence parallelism; T: tokens of a
 *             + (T h sharded + scores T s heads) / t                             micro-batch
 *   kept        layers x slots x a layer            slots: micro-batches between their forward and
 *                                                   backward (1F1B: stages - stage)
 *   recomputing layers x slots x 2 T h + live x a layer     (2: the storage type; / t as above)
 *   logits      T V (logits + gathered, where t > 1)        on the stage that has the head
 *
 * This is section 4 of Korthikanti et al. (2205.05198) with constants of the trainer. What a
 * profile leaves at 0 is as compiled.
 */
#ifndef SN_FOREIGN_MEMORY_H
#define SN_FOREIGN_MEMORY_H

#include "lib/machine/software.h"
#include "lib/program/program.h"

/* Put what this trainer needs in place of what *m (of sn_job_memory) says that ours does; the
 * library's bytes stay. */
void sn_foreign_memory(struct sn_memory_plan *m, const struct sn_job *j,
                       const struct sn_software *s);

#endif
