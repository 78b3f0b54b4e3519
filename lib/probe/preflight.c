/*
 * preflight.c - the measurements of all ranks, one kind after another, and the verdict of rank 0.
 */
#include "lib/probe/preflight.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/process.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PASSES = 5,              /* of the measurements, as long as somebody is only slow */
    MEMORY_LEAST = 32 << 20, /* bytes of a rank */
    MEMORY_MOST = 256 << 20, /* bytes of a node, shared by its ranks */
    STORAGE = 16 << 20       /* bytes of a node */
};
static const double product_seconds = 1.0;
static const double last_pass = 40; /* seconds after which no further one begins */

void sn_preflight_fini(struct sn_preflight *p)
{
    sn_free(p->rank);
    *p = (struct sn_preflight){0};
}

/* What all ranks share while they measure. */
struct flight {
    const struct sn_preflight_env *env;
    struct sn_preflight *all; /* of every rank, as of the last gathering */
    struct sn_preflight_rank mine;
    void *staging;
    int units;  /* nodes, or ranks if there is one node */
    int *first; /* rank of each unit's first member */
    double began;
};

static enum sn_status begin_phase(struct flight *f, struct sn_err *err)
{
    return f->env->comm->ops->barrier(f->env->comm, err);
}

static enum sn_status gather(struct flight *f, struct sn_err *err)
{
    _Static_assert(sizeof(f->mine) % sizeof(double) == 0, "travels as 8-byte words");
    struct sn_comm *c = f->env->comm;
    struct sn_transfer x = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64,
                            .n = (int64_t)(sizeof(f->mine) / sizeof(double)),
                            .in = &f->mine,
                            .out = f->all->rank,
                            .staging = f->staging,
                            .label = "preflight"};
    return c->ops->wait(c, c->ops->post(c, &x), err);
}

/* ---- before ---------------------------------------------------------------------------------- */

static enum sn_status make_room(struct flight *f, struct sn_err *err)
{
    struct sn_comm *c = f->env->comm;
    f->all->n = c->size;
    f->all->rank = sn_alloc_n((size_t)c->size, sizeof(*f->all->rank));
    f->staging = sn_alloc((size_t)sn_collective_staging(c->size));
    f->first = sn_alloc_n((size_t)c->size, sizeof(*f->first));
    enum sn_status st = SN_OK;
    if (!f->all->rank || !f->staging || !f->first)
        st = sn_fail(err, SN_ENOMEM, "preflight: no memory for %d ranks", c->size);
    return c->ops->agree(c, st, err);
}

/* Which rank lies where. A job on one node compares its ranks instead of its nodes. */
static enum sn_status number_ranks(struct flight *f, struct sn_err *err)
{
    struct sn_comm *c = f->env->comm;
    int size[SN_NGRID_AXES];
    enum sn_axis order[SN_NGRID_AXES];
    struct sn_grid grid;
    for (int a = 0; a < SN_NGRID_AXES; a++) {
        size[a] = a == SN_AXIS_DATA ? c->size : 1;
        order[a] = (enum sn_axis)a;
    }
    SN_TRY(sn_grid_init(&grid, c->size, size, order, err));
    SN_TRY(c->ops->set_grid(c, &grid, err));
    SN_TRY(gather(f, err));
    enum sn_status st = sn_preflight_number(f->all, err);
    SN_TRY(c->ops->agree(c, st, err));
    f->mine.node = f->all->rank[c->rank].node;
    f->mine.local = f->all->rank[c->rank].local;
    int nodes = 0;
    for (int i = 0; i < c->size; i++)
        if (f->all->rank[i].local == 0)
            f->first[nodes++] = i;
    f->units = nodes;
    if (nodes == 1)
        for (f->units = 0; f->units < c->size; f->units++)
            f->first[f->units] = f->units;
    return SN_OK;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static enum sn_status compute(struct flight *f, struct sn_err *err)
{
    bool wrong = false;
    SN_TRY(begin_phase(f, err));
    enum sn_status st = sn_probe_product(&f->mine.gemm, &wrong, f->env, product_seconds, err);
    f->mine.wrong |= wrong ? SN_WRONG_PRODUCT : 0;
    return st;
}

static enum sn_status remember(struct flight *f, struct sn_err *err)
{
    bool wrong = false;
    size_t bytes = (size_t)MEMORY_MOST / (size_t)f->env->comm->node_size;
    bytes = bytes < MEMORY_LEAST ? MEMORY_LEAST : bytes;
    SN_TRY(begin_phase(f, err));
    enum sn_status st = sn_probe_memory(&f->mine.memory, &wrong, f->env, bytes, err);
    f->mine.wrong |= wrong ? SN_WRONG_MEMORY : 0;
    return st;
}

/* The rank with this one's place on the partner of its node; -1: there is none. */
static int peer_of(const struct flight *f, int round)
{
    bool by_rank = f->units == f->all->n;
    int64_t own = by_rank ? f->mine.rank : f->mine.node, local = by_rank ? 0 : f->mine.local;
    int unit = sn_preflight_partner(f->units, (int)own, round);
    if (unit < 0)
        return -1;
    for (int i = f->first[unit]; i < f->all->n; i++) {
        const struct sn_preflight_rank *r = &f->all->rank[i];
        if (by_rank || (r->node == unit && r->local == local))
            return i;
    }
    return -1;
}

static enum sn_status send_around(struct flight *f, struct sn_err *err)
{
    for (int round = 0; round < SN_PREFLIGHT_ROUNDS; round++) {
        int peer = peer_of(f, round);
        f->mine.partner[round] = peer;
        SN_TRY(begin_phase(f, err));
        if (peer >= 0)
            SN_TRY(sn_probe_link(&f->mine, f->env, round, peer, err));
    }
    return SN_OK;
}

static enum sn_status store(struct flight *f, struct sn_err *err)
{
    SN_TRY(begin_phase(f, err));
    if (f->mine.local != 0)
        return SN_OK;
    return sn_probe_storage(&f->mine, f->env->checkpoints, STORAGE, err);
}

/* Everything once; rates keep the best of all passes. */
static enum sn_status measure(struct flight *f, int pass, struct sn_err *err)
{
    static const struct {
        const char *name;
        enum sn_status (*run)(struct flight *f, struct sn_err *err);
        int kind; /* of its rates, which decide whether it runs again; -1: once is enough */
    } phase[] = {{"products", compute, SN_FLIGHT_PRODUCT},
                 {"memory", remember, SN_FLIGHT_MEMORY},
                 {"messages", send_around, SN_FLIGHT_MESSAGE},
                 {"storage", store, -1}};
    enum sn_status st = SN_OK;
    for (size_t i = 0; i < sizeof(phase) / sizeof(phase[0]) && st == SN_OK; i++) {
        int kind = phase[i].kind;
        if (pass > 0 && (kind < 0 || !(f->all->slow >> kind & 1)))
            continue;
        double began = sn_clock(), waited = sn_process_waited();
        st = phase[i].run(f, err);
        waited = (sn_process_waited() - waited) / fmax(sn_clock() - began, 1e-9);
        if (kind >= 0)
            f->mine.waited[kind] = pass ? fmin(f->mine.waited[kind], waited) : waited;
        if (f->mine.rank == 0)
            sn_log(SN_LOG_DEBUG, "preflight: pass %d, %s: %.3f s", pass + 1, phase[i].name,
                   sn_clock() - began);
    }
    return f->env->comm->ops->agree(f->env->comm, st, err);
}

static enum sn_status judge(struct flight *f, struct sn_err *err)
{
    struct sn_comm *c = f->env->comm;
    f->mine.spent = sn_clock() - f->began;
    SN_TRY(gather(f, err));
    SN_TRY(c->ops->agree(c, sn_preflight_judge(f->all, err), err));
    if (f->all->storage_error)
        return sn_fail(err, SN_EIO, "checkpoint.dir %s: no node can write there: %s",
                       f->env->checkpoints, strerror(f->all->storage_error));
    return SN_OK;
}

static enum sn_status fly(struct flight *f, struct sn_err *err)
{
    SN_TRY(make_room(f, err));
    SN_TRY(number_ranks(f, err));
    bool again = true;
    for (int pass = 0; pass < PASSES && again; pass++) {
        SN_TRY(measure(f, pass, err));
        SN_TRY(judge(f, err));
        again = f->all->slow && f->all->rank[0].spent < last_pass; /* the same on all */
    }
    return SN_OK;
}

enum sn_status sn_preflight_run(struct sn_preflight *out, const struct sn_preflight_env *env,
                                struct sn_err *err)
{
    *out = (struct sn_preflight){0};
    struct flight f = {
        .env = env, .all = out, .mine = {.rank = env->comm->rank}, .began = sn_clock()};
    for (int k = 0; k < SN_PREFLIGHT_ROUNDS; k++)
        f.mine.partner[k] = -1;
    if (gethostname(f.mine.host, sizeof(f.mine.host) - 1) != 0)
        (void)snprintf(f.mine.host, sizeof(f.mine.host), "unknown host");
    enum sn_status st = fly(&f, err);
    sn_free(f.first);
    sn_free(f.staging);
    out->seconds = sn_clock() - f.began;
    return st;
}
