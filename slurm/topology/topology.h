/*
 * topology.h - which switches lie above a host.
 *
 * A path is what Slurm calls a topology address without the node: the switches from the top down to
 * the leaf, joined by dots: "core.s0". It comes from SLURM_TOPOLOGY_ADDR, which every task has for
 * its own node, or for all hosts from a file: topology.conf, `scontrol show topology`, or one
 * address a line ("core.s0.n3"). Levels of plugins that know blocks are taken as switches.
 */
#ifndef SN_TOPOLOGY_H
#define SN_TOPOLOGY_H

#include "slurm/scheduler/hostlist.h"

enum { SN_TOPOLOGY_PATH = 192 };

struct sn_topology; /* hosts and their paths */

/* Cut an address by its pattern ("switch.switch.node"): as many fields from the left as the pattern
 * has before "node"; the rest is the node, whose name may have dots. "" when the pattern has no
 * switch or is missing. SN_EINPUT when the address has fewer fields, or does not fit. */
enum sn_status sn_topology_path(char path[SN_TOPOLOGY_PATH], const char *address,
                                const char *pattern, struct sn_err *err);

/* SN_EINPUT names the line. Hosts of several leaves, switches under two others and circles are
 * refused. The caller destroys *out. */
enum sn_status sn_topology_load(struct sn_topology **out, const char *path, struct sn_err *err);
enum sn_status sn_topology_parse(struct sn_topology **out, const char *text, const char *path,
                                 struct sn_err *err);
void sn_topology_destroy(struct sn_topology *t); /* NULL is allowed */
/* The path above a host; NULL: the file does not name it. Borrowed. */
const char *sn_topology_find(const struct sn_topology *t, const char *host);

#endif
