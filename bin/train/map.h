/*
 * map.h - sennit-train finds out where its processes are, checks it, and numbers them.
 */
#ifndef SN_BIN_TRAIN_MAP_H
#define SN_BIN_TRAIN_MAP_H

#include "lib/comm/comm.h"
#include "lib/config/config.h"
#include "slurm/topology/place.h"

struct sn_train_map {
    struct sn_environment environment;
    struct sn_allocation allocation;
    struct sn_locality *locality;
    struct sn_err trouble; /* of sn_train_map_open: told when all can hear it */
    struct sn_str json;    /* on the process that gathered */
};

/* Look around: before MPI begins. Never fails by itself.
 * The caller ends with sn_train_map_close. */
void sn_train_map_open(struct sn_train_map *m);
/* Have all processes come? Collective, the first thing after the start: within 10 seconds (or
 * run.hang_timeout) the ones that have not are named with their hosts, SN_ELOST. */
enum sn_status sn_train_map_handshake(struct sn_comm *comm, const struct sn_config *c,
                                      struct sn_err *err);
/* Gather and check the places of all processes, and renumber the communicator by the arrangement;
 * collective. `st`: how this process has fared so far. `places`: a file instead of what the
 * processes see; NULL. The environment must be as it was. */
enum sn_status sn_train_map_make(struct sn_train_map *m, struct sn_comm *comm,
                                 const struct sn_config *c, const char *places, enum sn_status st,
                                 struct sn_err *err);
/* The switches above this host, as far as the scheduler tells (slurm/topology/topology.h); "". */
void sn_train_map_switches(const struct sn_train_map *m, char path[SN_TOPOLOGY_PATH]);
/* Write OUTPUT/map.json, on the process that has it. */
enum sn_status sn_train_map_save(const struct sn_train_map *m, const struct sn_config *c,
                                 struct sn_err *err);
void sn_train_map_close(struct sn_train_map *m);

#endif
