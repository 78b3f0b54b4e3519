#include "lib/machine/levels.h"

#include "lib/machine/named.h"

/* Does every group have its members in runs of `node`, each run on one node of the machine? */
static bool runs_are_together(const struct sn_machine *m, const struct sn_grid *g, int node)
{
    for (int r = 0; r < sn_grid_ranks(g); r++) {
        int first = sn_group_index(g, r, SN_GROUP_REPLICA) / node * node;
        if (sn_group_member(g, r, SN_GROUP_REPLICA, first) / m->devices != r / m->devices)
            return false;
    }
    return true;
}

int sn_levels_even(const struct sn_machine *m, const struct sn_grid *g)
{
    int members = sn_group_size(g, 0, SN_GROUP_REPLICA), node = 1;
    int context = g->size[SN_AXIS_CONTEXT];
    if (m->devices < 1 || m->n_levels < 2)
        return members;
    while (node < members && sn_group_member(g, 0, SN_GROUP_REPLICA, node) < m->devices)
        node++;
    bool fits = members % node == 0 && (context % node == 0 || node % context == 0);
    return fits && runs_are_together(m, g, node) ? node : 1;
}

static bool is_open(const struct sn_config *c)
{
    const struct sn_compress_config *z = &c->layout.compress;
    return z->node == 0 && (z->coding[SN_CODED_DATA].two || z->coding[SN_CODED_ZERO].two);
}

enum sn_status sn_levels_choose(struct sn_config *c, const struct sn_machine *m, struct sn_err *err)
{
    struct sn_grid g;
    if (!is_open(c))
        return SN_OK;
    SN_TRY(sn_job_grid(&g, c, err));
    c->layout.compress.node = sn_levels_even(m, &g);
    return SN_OK;
}

enum sn_status sn_levels_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0}; /* one node */
    if (!is_open(c))
        return SN_OK;
    if (sn_names_machine(c))
        SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
    enum sn_status st = sn_levels_choose(c, &m, err);
    sn_machine_fini(&m);
    return st == SN_OK ? st : sn_err_prefix(err, "layout.compress.node: auto");
}
