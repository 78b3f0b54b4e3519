/*
 * meet.c - before step 1 the ranks compare what they have compiled.
 *
 * Ranks with different programs or run files would wait for each other for ever; and what a run
 * plans, over all ranks, is known only when each has said its part.
 */
#include "lib/run/trainer_state.h"

#include "lib/base/mem.h"

#include <string.h>
#include <unistd.h>

/* What a rank says of itself; travels as 8-byte words. */
struct said {
    uint64_t program, config;
    int64_t traffic[SN_NAXES];
    struct sn_memory_plan memory;
};

static enum sn_status exchange(struct sn_trainer *t, const struct said *mine, struct said *all,
                               struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    int64_t dropped[SN_NAXES] = {0}; /* not a step's traffic */
    struct sn_transfer x = {.kind = SN_ALL_GATHER,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64,
                            .n = (int64_t)(sizeof(*mine) / sizeof(double)),
                            .in = mine,
                            .out = all,
                            .staging = sn_exec_address(t->exec, &t->job->train, t->job->staging),
                            .label = "meeting"};
    SN_TRY(c->ops->wait(c, c->ops->post(c, &x), err));
    c->ops->take_sent_bytes(c, dropped);
    return SN_OK;
}

static enum sn_status compare(const struct sn_trainer *t, const struct said *all,
                              struct sn_err *err)
{
    const struct said *mine = &all[t->env.comm->rank];
    for (int r = 0; r < t->env.comm->size; r++) {
        bool same_stage = sn_grid_coord(&t->job->grid, r, SN_AXIS_PIPELINE) == t->job->stage;
        if (all[r].config != mine->config || (same_stage && all[r].program != mine->program))
            return sn_fail(err, SN_EINPUT,
                           "%s: this rank compiled another program than rank %d; start all ranks "
                           "with the same binary, run file and threads",
                           t->env.config->path, r);
    }
    return SN_OK;
}

static void take_plan(struct sn_trainer *t, const struct said *all)
{
    memcpy(t->sent_by_rank, all[t->env.comm->rank].traffic, sizeof(t->sent_by_rank));
    t->memory = all[0].memory;
    for (int r = 0; r < t->env.comm->size; r++) {
        if (all[r].memory.total > t->memory.total)
            t->memory = all[r].memory;
        for (int a = 0; a < SN_NAXES; a++)
            t->traffic[a] += all[r].traffic[a];
    }
}

enum sn_status sn_trainer_meet(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    struct said mine = {sn_program_hash(&t->job->train), t->state.config_hash, {0}, {0}};
    int64_t tag = (int64_t)getpid();
    sn_job_traffic(t->job, mine.traffic);
    sn_job_memory(t->job, &mine.memory);
    SN_TRY(c->ops->set_grid(c, &t->job->grid, err));
    SN_TRY(c->ops->broadcast(c, &tag, (int64_t)sizeof(tag), 0, err));
    t->state.tag = tag;
    t->state.rank = c->rank;
    t->state.ranks = c->size;
    struct said *all = sn_alloc_n((size_t)c->size, sizeof(*all));
    enum sn_status st = all ? SN_OK : sn_fail(err, SN_ENOMEM, "trainer: no memory");
    st = c->ops->agree(c, st, err);
    if (st == SN_OK)
        st = exchange(t, &mine, all, err);
    if (st == SN_OK)
        st = c->ops->agree(c, compare(t, all, err), err);
    if (st == SN_OK)
        take_plan(t, all);
    if (st == SN_OK)
        st = c->ops->agree(c, sn_exec_connect(t->exec, err), err);
    sn_free(all);
    return st;
}
