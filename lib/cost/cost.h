/*
 * cost.h - the bytes that an operation moves, from its text alone.
 */
#ifndef SN_COST_H
#define SN_COST_H

#include "lib/program/program.h"

/* Bytes that an operation moves when nothing stays in a cache: inputs once, outputs once, outputs
 * that it adds to or updates twice. Of an embedding table only the rows that the tokens name. */
int64_t sn_cost_bytes(const struct sn_program *p, const struct sn_op *op);

#endif
