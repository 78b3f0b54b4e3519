/*
 * cost.h - the price of an operation on a machine, from its text alone.
 *
 * seconds = overhead + max(FLOPs / rate, bytes / memory bandwidth): an operation is bound by
 * arithmetic or by memory, and begins with a fixed cost (the roofline of Williams et al., 2009).
 * Communication has no price here.
 */
#ifndef SN_COST_H
#define SN_COST_H

#include "lib/plan/machine.h"
#include "lib/program/program.h"

/* Bytes that an operation moves when nothing stays in a cache: inputs once, outputs once, outputs
 * that it adds to or updates twice. Of an embedding table only the rows that the tokens name. */
int64_t sn_cost_bytes(const struct sn_program *p, const struct sn_op *op);
/* 0 for what is no kernel. */
double sn_cost_seconds(const struct sn_machine *m, const struct sn_program *p,
                       const struct sn_op *op);

#endif
