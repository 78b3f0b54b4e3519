/*
 * comm_groups.c - the groups of a grid: member lists are arithmetic, so nothing is exchanged but
 * the verdict, the ranks of the host and the mapping of the window.
 */
#include "lib/base/mem.h"
#include "lib/run/comm_engine.h"

#include <string.h>

/* The node rank of a rank of this host; -1 if it is on another. */
static int find_seat(const struct sn_port *p, int rank)
{
    int low = 0, high = p->node_size;
    while (low < high) {
        int middle = (low + high) / 2;
        if (p->node_ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->node_size && p->node_ranks[low] == rank ? low : -1;
}

static void make_group(struct sn_engine *e, enum sn_group q)
{
    struct sn_engine_group *g = &e->group[q];
    int rank = e->base.rank;
    uint64_t number = q == SN_GROUP_WORLD ? g->number : 0; /* barriers were counted before */
    *g = (struct sn_engine_group){.size = sn_group_size(&e->grid, rank, q),
                                  .index = sn_group_index(&e->grid, rank, q),
                                  .seat = e->seats + (int)q * e->port->node_size,
                                  .number = number};
    g->on_host = g->size > 1 && g->size <= e->port->node_size;
    for (int i = 0; i < g->size && g->on_host; i++) {
        g->seat[i] = find_seat(e->port, sn_engine_member(e, q, i));
        g->on_host = g->seat[i] >= 0;
    }
}

static enum sn_status get_ready(struct sn_engine *e, const struct sn_grid *g, struct sn_err *err)
{
    size_t host = (size_t)e->port->node_size;
    if (sn_grid_ranks(g) != e->base.size)
        return sn_fail(err, SN_EINPUT, "%s: the layout has %d ranks, but the job has %d",
                       e->ops.name, sn_grid_ranks(g), e->base.size);
    if (!e->seats)
        e->seats = sn_alloc_n(SN_NGROUPS * host, sizeof(*e->seats));
    if (!e->window.part)
        e->window.part = sn_alloc_n(host, sizeof(*e->window.part));
    if (!e->seats || !e->window.part)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the groups of %zu ranks of a host",
                       e->ops.name, host);
    return SN_OK;
}

/* Nobody uses the window now. */
static void open_window(struct sn_engine *e)
{
    struct sn_port *p = e->port;
    if (p->node_size == 1)
        return;
    if (!e->window.part[0])
        p->ops->open_window(p, sn_collective_window(p->size), e->window.part);
    if (p->failed)
        return;
    memset(e->window.part[p->node_rank], 0, SN_COLLECTIVE_HEAD);
    for (int s = 0; s < SN_COLLECTIVE_SLOTS; s++)
        e->window.user[s].phase = 0;
    e->window.awaited = -1;
    p->ops->barrier(p);                         /* before anybody raises a phase */
    (void)sn_engine_complete(e, SN_PORT_WORLD); /* the caller looks for a failure */
}

void sn_engine_set_grid(struct sn_engine *e, const struct sn_grid *g, struct sn_err *verdict)
{
    verdict->status = get_ready(e, g, verdict);
    sn_engine_agree(e, verdict);
    if (verdict->status != SN_OK || e->port->failed || sn_engine_has_failed(e))
        return;
    e->port->ops->find_neighbours(e->port);
    if (e->port->failed)
        return;
    e->grid = *g;
    e->base.node_first = e->port->node_ranks[0];
    for (int q = 0; q < SN_NGROUPS; q++)
        make_group(e, (enum sn_group)q);
    open_window(e);
}
