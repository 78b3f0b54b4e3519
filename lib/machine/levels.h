/*
 * levels.h - how many replicas lie on a node, for sums and gathers of coded values on two levels
 * (layout.compress.node, lib/program/compress_legs.c).
 *
 * No price is asked: who names two codecs wants the second one between nodes, and of what crosses
 * them two levels send 1 / L with L replicas on each. With one codec two levels would round sums
 * once more than one, so they are taken where the run file says so.
 */
#ifndef SN_LEVELS_H
#define SN_LEVELS_H

#include "lib/machine/machine.h"
#include "lib/program/program.h"

/* Consecutive members of the grid's replica groups that are on a node together, the same number on
 * each: all of them where every group is on one node; 1 where each member is alone, or they lie
 * unevenly. */
int sn_levels_even(const struct sn_machine *m, const struct sn_grid *g);
/* Put the answer into c->layout.compress.node of a resolved layout, if that says auto and a coding
 * has two codecs; without a named machine there is one node. */
enum sn_status sn_levels_resolve(struct sn_config *c, struct sn_err *err);
/* The same for a layout under search on this machine. */
enum sn_status sn_levels_choose(struct sn_config *c, const struct sn_machine *m,
                                struct sn_err *err);

#endif
