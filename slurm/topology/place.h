/*
 * place.h - where every process of a job is: what each reports of itself, gathered and checked.
 *
 * A process says what it sees (its number, node, host, processors, GPUs, switches); nothing is
 * computed from node lists. One process has all reports and checks them: every number once, as many
 * as the launcher said, the same number on every node, a host for a node and a node for a host, no
 * GPU twice. The places make the levels (node, leaf switch, further switches) that lib/mapping/arrange
 * works on.
 *
 * `process` is the launcher's number (SLURM_PROCID), `rank` the logical one of the layout.
 */
#ifndef SN_PLACE_H
#define SN_PLACE_H

#include "lib/base/str.h"
#include "lib/layout/grid.h"
#include "lib/mapping/arrange.h"
#include "slurm/topology/locality.h"
#include "slurm/topology/topology.h"

enum { SN_PLACE_HOST = 64 };

/* Plain data of one size: it is sent as it is. */
struct sn_place {
    int32_t process, node, local; /* node -1: known by its host alone */
    int32_t launched;             /* processes that the launcher says it started; 0: unknown */
    int32_t shares;               /* processes that share memory with this one; 0: unknown */
    int32_t asked_cpus;           /* of each process; 0: nothing was asked for */
    char host[SN_PLACE_HOST];
    char path[SN_TOPOLOGY_PATH]; /* switches from the top; "": unknown */
    struct sn_local here;
};

struct sn_places {
    struct sn_place *v; /* by process */
    int n;
    /* filled by sn_places_check */
    int nodes, per_node;
    int *gpu;            /* by process: which of its list it takes; -1: none */
    struct sn_tree tree; /* its arrays are owned by this */
    int *domains;        /* the memory behind the tree's */
};

/* This process, number `process` of those that MPI knows. */
struct sn_place_self {
    const struct sn_allocation *allocation;
    const struct sn_locality *locality;
    const struct sn_environment *environment;
    int process, local, shares;
};
enum sn_status sn_place_report(struct sn_place *out, const struct sn_place_self *s,
                               struct sn_err *err);

/* Recorded places instead of those that are seen: "PROCESS SWITCH.SWITCH.NODE" a line, # begins a
 * comment. Sets node, local, host and path of those of `p`; SN_EINPUT if not every process has one
 * line. */
enum sn_status sn_places_load(struct sn_places *p, const char *path, struct sn_err *err);

/* The rules above; fills the members after them. SN_EINPUT with what does not match. `threads` are
 * those that the run file wants of each process (0: as many as there are). What is odd but works is
 * added to `warnings`, a line each. */
enum sn_status sn_places_check(struct sn_places *p, int threads, struct sn_str *warnings,
                               struct sn_err *err);
void sn_places_fini(struct sn_places *p); /* frees v too; a zeroed one is allowed */

/* The GPU that a process takes; NULL: none is known. */
const struct sn_local_gpu *sn_places_gpu(const struct sn_places *p, int process);

/* Who computes what, and where: what the printers below read. */
struct sn_map {
    const struct sn_places *places;
    const struct sn_grid *grid;
    const int *process_of; /* by rank */
    const struct sn_arrangement *arrangement;
    const char *predicted; /* how, where no process was asked; NULL: all were */
};
/* One JSON object: "ranks": [...], "levels": [...], "placement". */
void sn_map_json(struct sn_str *out, const struct sn_map *m);
/* One line a rank, columns aligned. */
void sn_map_table(struct sn_str *out, const struct sn_map *m);
/* Bytes by level, in Slurm's order and in this one. Nothing where there is one level. */
void sn_map_levels(struct sn_str *out, const struct sn_map *m);

#endif
