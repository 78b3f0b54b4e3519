/*
 * localise.h - which link, host or switch explains that some paths are slow and others are not? Pure.
 *
 * A path is a set of ranks on several hosts that communicate. Every slow one crosses what is to be
 * blamed, and no quiet one of the same kind does: so a host, or a switch, is cleared by a quiet path
 * that touches it (leaves it). Of what is left, what explains most is blamed first: the host that
 * all slow paths share; where several hosts share the same ones, the host whose parts come last at
 * the others, if most of them agree (on a slow link it is those of its host that are late,
 * everywhere); a switch that all slow paths leave. What nothing explains is told as it is: the path.
 */
#ifndef SN_LOCALISE_H
#define SN_LOCALISE_H

#include "lib/base/err.h"

#include <stdbool.h>

struct sn_slow_path {
    int kind;               /* quiet paths clear those of the same kind alone */
    bool is_slow, is_quiet; /* neither: it is not known yet, and says nothing */
    int n;                  /* members */
    const int *host;
    const double *votes; /* of each member, how often its part came last at another host */
};

enum sn_blame { SN_BLAME_HOST, SN_BLAME_PAIR, SN_BLAME_LEAF, SN_BLAME_PATH, SN_BLAME_ALL };

struct sn_blamed {
    enum sn_blame what;
    int host, other; /* HOST; PAIR: two hosts and what is between them */
    int leaf;        /* LEAF */
    int path;        /* one that it explains; of PATH: it. ALL: none is quiet, no host stands out */
};

/* Memory for so many paths and hosts. The caller ends with fini, a zeroed one is allowed. */
struct sn_localise_room {
    bool *is_open;    /* by path: slow, and not explained yet */
    bool *is_cleared; /* by host */
    double *votes;    /* by host */
};
enum sn_status sn_localise_init(struct sn_localise_room *out, int n_paths, int n_hosts,
                                struct sn_err *err);
void sn_localise_fini(struct sn_localise_room *r);

struct sn_paths {
    const struct sn_slow_path *path;
    int n_paths;
    const int *leaf; /* by host: number of the switch that it hangs on, -1: not known */
    int n_hosts;
};
/* Returns how many findings it has written, at most one for each slow path. */
int sn_localise(struct sn_blamed *out, const struct sn_paths *p, struct sn_localise_room *room);

#endif
