/*
 * monitor_inner.h - the monitor's own struct. Internal to lib/monitor.
 *
 *   monitor.c          the monitor, and what all ranks have in common
 *   monitor_paths.c    paths: who is on them, what they take
 *   monitor_finding.c  what departs, as findings
 */
#ifndef SN_MONITOR_INNER_H
#define SN_MONITOR_INNER_H

#include "lib/monitor/departure.h"
#include "lib/monitor/localise.h"
#include "lib/monitor/monitor.h"

struct sn_monitored_path {
    struct sn_path path;
    int first, n;   /* members, in the lists of the monitor */
    int samples;    /* of each member */
    bool is_remote; /* on several hosts: else it crosses no link */
    struct sn_departure departure;
};

struct sn_monitored_rank {
    uint64_t text;
    double planned, work[SN_NWORKS];
    int host, core;
    struct sn_departure departure;
    double left[SN_DEPARTURE_WINDOW]; /* rings: the agreement, by rank 0's clock and by its own */
    double offset;                    /* of its host's clock */
    double had[SN_DEPARTURE_WINDOW];
    float took[SN_DEPARTURE_WINDOW][SN_NWORKS]; /* rings */
};

struct sn_monitor {
    int ranks, hosts, leaves, n_paths, n_members;
    struct sn_monitor_plan *plan; /* by rank */
    struct sn_monitored_rank *rank;
    char (*host_name)[SN_MONITOR_NAME], (*leaf_name)[SN_MONITOR_NAME];
    int *leaf; /* by host */
    struct sn_monitored_path *path;
    int *member, *member_host;    /* ranks on paths, and their hosts */
    int *member_sample;           /* the first of the path among the rank's samples */
    double *votes;                /* by member */
    struct sn_slow_path *slow;    /* by path */
    struct sn_blamed *blamed;     /* room for all */
    struct sn_localise_room room; /* of localise.h */
    double *scratch, *value;      /* by rank or path, whichever are more */
    double unsure;                /* seconds by which moments of two hosts may be apart */
    int64_t steps;                /* that were taken */
    int64_t changed;              /* when a path became slow, or ceased to be */
    int n_found, n_ended;
    struct sn_finding *found, *ended, *before; /* room for all */
};

/* ---- monitor_paths.c ---- */

/* Those of all plans that cross a link. */
enum sn_status sn_monitor_make_paths(struct sn_monitor *m, struct sn_err *err);
/* m->value[i] = log(measured / planned) of path i; NAN: not measured. */
void sn_monitor_measure_paths(struct sn_monitor *m, const struct sn_monitor_record *records);

/* ---- monitor_finding.c ---- */

/* What departs after this step, and what is new of it. */
void sn_monitor_find(struct sn_monitor *m);

#endif
