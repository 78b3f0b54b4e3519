#include "lib/search/resolve.h"

#include "lib/comm/comm.h"
#include "lib/exec/threads.h"
#include "lib/machine/levels.h"
#include "lib/search/chunks.h"
#include "lib/search/codings.h"
#include "lib/search/fit_cache.h"
#include "lib/search/overlap.h"
#include "lib/search/planned.h"
#include "lib/search/search.h"

#include <unistd.h>

int64_t sn_host_limit(int ranks)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / ranks;
}

static enum sn_status nodes_of(int *ranks, const struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    SN_TRY(sn_machine_of(&m, c, NULL, err));
    *ranks = (int)sn_machine_ranks(&m, c);
    sn_machine_fini(&m);
    if (*ranks > 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: layout: auto wants a number of ranks; use --ranks or machine.nodes",
                   c->path);
}

enum sn_status sn_resolve_auto(struct sn_config *c, int ranks, const char *machine,
                               struct sn_err *err)
{
    if (!c->layout_auto)
        return SN_OK;
    if (ranks == 0)
        SN_TRY(nodes_of(&ranks, c, err));
    struct sn_accelerator plugin;
    struct sn_search_auto_want w = {.ops = sn_planned_ops(&plugin, c),
                                    .ranks = ranks,
                                    .threads = sn_threads(c, ranks),
                                    .host_limit = sn_host_limit(ranks),
                                    .machine = machine};
    enum sn_status st = sn_search_auto(c, &w, err);
    if (sn_comm_launched_rank() == 0) /* of many ranks one */
        sn_planned_say(&plugin);
    sn_accelerator_close(&plugin);
    return st;
}

enum sn_status sn_resolve_layout(struct sn_config *c, int ranks, struct sn_err *err)
{
    SN_TRY(sn_config_resolve_ranks(c, ranks, err));
    SN_TRY(sn_chunks_resolve(c, err));
    SN_TRY(sn_levels_resolve(c, err));
    SN_TRY(sn_codings_resolve(c, err));
    SN_TRY(sn_overlap_resolve(c, err));
    return sn_cache_resolve(c, err); /* by what all else takes */
}
