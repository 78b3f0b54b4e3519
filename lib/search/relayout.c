#include "lib/search/relayout.h"

#include "lib/search/search.h"

#include <stdio.h>
#include <string.h>

static enum sn_status on_nodes(struct sn_config *out, int nodes, const struct sn_relayout_want *w,
                               struct sn_err *err)
{
    int ranks = nodes * w->ranks_per_node;
    *out = *w->config;
    out->layout_auto = true;
    out->layout_named = 0;
    out->layout.data = 0;
    out->layout.expert_node = 0; /* by price, as the next three */
    out->layout.expert_chunks = 0;
    out->layout.expert_tokens = SN_TOKENS_AUTO;
    out->layout.drop_duplicates = SN_DUPLICATES_AUTO;
    out->layout.compress.node = 0; /* as the new replicas lie */
    out->layout.expert_tensor = 0;
    out->layout.tensor_pieces = 1;
    out->layout.n_split = 0; /* layers of the stage modules of the old one */
    out->machine.nodes = 0;
    if (ranks == 1)
        out->checkpoint.snapshot_every = 0; /* nobody is there to keep it */
    struct sn_search_auto_want a = {.ops = w->ops,
                                    .ranks = ranks,
                                    .threads = w->threads,
                                    .host_limit = w->node_memory / w->ranks_per_node,
                                    .machine = w->machine};
    return sn_search_auto(out, &a, err);
}

enum sn_status sn_relayout(struct sn_config *out, int *nodes, const struct sn_relayout_want *w,
                           struct sn_err *err)
{
    enum sn_status st = SN_EINPUT;
    SN_TRY(sn_search_check_machine(w->config, w->machine, err));
    for (int n = w->most_nodes; n > 0; n--) {
        st = on_nodes(out, n, w, err);
        if (st == SN_OK) {
            *nodes = n;
            return SN_OK;
        }
        if (st != SN_EINPUT)
            return st;
    }
    (void)sn_fail(err, SN_EINPUT,
                  "%s: no layout fits on %d nodes of %d ranks or fewer; the run needs more nodes",
                  w->config->path, w->most_nodes, w->ranks_per_node);
    return st;
}
