/*
 * comm_groups.c - the groups of a grid: member lists are arithmetic, so nothing is exchanged but
 * the verdict, the ranks of the host and the mapping of the shared memory.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"

#include <string.h>

static void make_group(struct sn_engine *e, enum sn_group q)
{
    struct sn_engine_group *g = &e->group[q];
    int rank = e->base.rank;
    uint64_t number = q == SN_GROUP_WORLD ? g->number : 0; /* barriers were counted before */
    *g = (struct sn_engine_group){.size = sn_group_size(&e->grid, rank, q),
                                  .index = sn_group_index(&e->grid, rank, q),
                                  .seat = e->seats + (int)q * e->base.node_size,
                                  .number = number};
    g->on_host = g->size > 1 && g->size <= e->base.node_size && e->shm.area[0];
    for (int i = 0; i < g->size && g->on_host; i++) {
        g->seat[i] = sn_hosts_seat(e, sn_engine_member(e, q, i));
        g->on_host = g->seat[i] >= 0;
    }
}

/* *is_mapped: the shared memory is new, because this grid is the first that needs as much. */
static enum sn_status get_ready(struct sn_engine *e, const struct sn_grid *g, bool *is_mapped,
                                struct sn_err *err)
{
    size_t host = (size_t)e->base.node_size;
    if (sn_grid_ranks(g) != e->base.size)
        return sn_fail(err, SN_EINPUT, "%s: the layout has %d ranks, but the job has %d",
                       e->ops.name, sn_grid_ranks(g), e->base.size);
    if (!e->seats)
        e->seats = sn_alloc_n(SN_NGROUPS * host, sizeof(*e->seats));
    if (!e->shm.area)
        e->shm.area = sn_alloc_n(host, sizeof(*e->shm.area));
    if (!e->seats || !e->shm.area)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for the groups of %zu ranks of a host",
                       e->ops.name, host);
    int queues = sn_grid_queues(g, SN_NAXES);
    *is_mapped = sn_hosts_share(e) && queues > e->shm.queues;
    if (!*is_mapped)
        return SN_OK;
    e->shm.queues = queues;
    return sn_hosts_map(e, sn_collective_shm_bytes(queues), err);
}

static void make_lanes(struct sn_engine *e)
{
    for (int a = 0; a < SN_NAXES; a++) {
        struct sn_comm_lane *l = &e->lane[a];
        l->place = sn_grid_queues(&e->grid, (enum sn_axis)a);
        for (int s = 0; s < SN_COLLECTIVE_SLOTS; s++)
            l->user[s].phase = 0;
    }
}

/* After an earlier grid: nobody uses the shared memory now. */
static void clear_shm(struct sn_engine *e)
{
    memset(e->shm.area[e->base.node_rank], 0, SN_COLLECTIVE_HEAD);
    e->port->ops->barrier(e->port);             /* before anybody raises a phase */
    (void)sn_engine_complete(e, SN_PORT_WORLD); /* the caller looks for a failure */
}

void sn_engine_set_grid(struct sn_engine *e, const struct sn_grid *g, struct sn_err *verdict)
{
    bool is_mapped = false;
    verdict->status = get_ready(e, g, &is_mapped, verdict);
    sn_engine_agree(e, verdict);
    sn_hosts_mapped(e);
    if (verdict->status != SN_OK || e->port->failed || sn_engine_has_failed(e))
        return;
    e->grid = *g;
    for (int q = 0; q < SN_NGROUPS; q++)
        make_group(e, (enum sn_group)q);
    make_lanes(e);
    if (!is_mapped && e->shm.area[0])
        clear_shm(e);
}
