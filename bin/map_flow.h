/*
 * map_flow.h - which process computes which rank, for a checked set of places: what sennit-train
 * does and sennit-run map shows.
 */
#ifndef SN_BIN_MAP_FLOW_H
#define SN_BIN_MAP_FLOW_H

#include "lib/config/config.h"
#include "slurm/topology/place.h"

/* process_of[rank] and what it saves. The programs of all pipeline stages are compiled only where
 * processes lie on several nodes. *grid is the layout's. */
enum sn_status sn_map_arrange(int *process_of, struct sn_arrangement *out, struct sn_grid *grid,
                              const struct sn_config *c, const struct sn_places *p,
                              struct sn_err *err);

#endif
