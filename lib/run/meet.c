/*
 * meet.c - before step 1 the ranks compare what they have compiled.
 *
 * Ranks with different programs or run files would wait for each other for ever; and what a run
 * plans, over all ranks, is known only when each has said its part.
 */
#include "lib/run/trainer_state.h"

#include <string.h>
#include <unistd.h>

static enum sn_status exchange(struct sn_trainer *t, const struct sn_said *mine,
                               struct sn_said *all, struct sn_err *err)
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

static enum sn_status compare(const struct sn_trainer *t, const struct sn_said *all,
                              struct sn_err *err)
{
    const struct sn_said *mine = &all[t->env.comm->rank];
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

static void take_plan(struct sn_trainer *t, const struct sn_said *all)
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
    struct sn_said mine = {.program = sn_program_hash(&t->job->train),
                           .config = t->state.config_hash,
                           .tag = (int64_t)getpid()};
    sn_job_traffic(t->job, mine.traffic);
    sn_job_memory(t->job, &mine.memory);
    SN_TRY(c->ops->set_grid(c, &t->job->grid, err));
    SN_TRY(exchange(t, &mine, t->said, err));
    enum sn_status st = compare(t, t->said, err);
    if (t->env.accelerator) { /* whose channels need all ranks */
        SN_TRY(c->ops->agree(c, st, err));
        st = sn_exec_connect(t->exec, err);
    }
    SN_TRY(c->ops->agree(c, st, err));
    t->state.tag = t->said[0].tag;
    t->state.rank = c->rank;
    t->state.ranks = c->size;
    take_plan(t, t->said);
    return SN_OK;
}
