/*
 * resolve.h - what a run file leaves open of its layout, settled once the number of ranks is known.
 */
#ifndef SN_RESOLVE_H
#define SN_RESOLVE_H

#include "lib/base/err.h"
#include "lib/config/config.h"

/* Where layout: auto is asked for, put the best layout for so many ranks (0: those of the machine's
 * nodes) into *c. `machine` is the site's shipped one, for a run that names none; NULL: not known. */
enum sn_status sn_resolve_auto(struct sn_config *c, int ranks, const char *machine,
                               struct sn_err *err);
/* What the number of ranks settles of the layout: layout.data, and layout.expert_node and expert_chunks by
 * price. */
enum sn_status sn_resolve_layout(struct sn_config *c, int ranks, struct sn_err *err);
/* The limit where no machine says one: this host's memory over the ranks. */
int64_t sn_host_limit(int ranks);

#endif
