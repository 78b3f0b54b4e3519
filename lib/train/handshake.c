/*
 * handshake.c - before step 1 the ranks compare what they have compiled.
 *
 * Ranks with different programs or run files would wait for each other for ever; and what a run
 * plans, over all ranks, is known only when each has said its part.
 */
#include "lib/train/trainer_state.h"

#include <inttypes.h>
#include <string.h>

enum { SN_STAGES_MOST = 4096 };

/* On rank 0. */
static enum sn_status compare(const struct sn_trainer *t, const struct sn_rank_summary *all,
                              struct sn_err *err)
{
    const struct sn_grid *g = &t->job->grid;
    for (int r = 0; r < t->env.comm->size; r++) {
        int of_stage[SN_NGRID_AXES] = {[SN_AXIS_PIPELINE] = sn_grid_coord(g, r, SN_AXIS_PIPELINE)};
        int first = sn_grid_rank(g, of_stage);
        if (all[r].config != all[0].config || all[r].program != all[first].program)
            return sn_fail(err, SN_EINPUT,
                           "%s: rank %d compiled another program than rank %d; start all ranks "
                           "with the same binary, run file and threads",
                           t->env.config->path, r, first);
    }
    return SN_OK;
}

/* On rank 0: are these the programs that were proven? */
static enum sn_status certify(const struct sn_trainer *t, const struct sn_rank_summary *all,
                              struct sn_err *err)
{
    const struct sn_grid *g = &t->job->grid;
    uint64_t stages[SN_STAGES_MOST], due = t->env.certificate;
    int n = g->size[SN_AXIS_PIPELINE];
    for (int i = 0; i < n && i < SN_STAGES_MOST; i++)
        stages[i] = all[i * g->stride[SN_AXIS_PIPELINE]].program;
    uint64_t is = n <= SN_STAGES_MOST ? sn_certificate(stages, n) : 0;
    if (t->env.attempt)
        t->env.attempt->certificate = is;
    if (due == 0 || due == is)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: --certificate: %016" PRIx64
                   " was given, and the programs compiled here have "
                   "%016" PRIx64 "; prove these with sennit-plan --verify on a node like this one",
                   t->env.config->path, due, is);
}

/* On rank 0. */
static void add_traffic(struct sn_trainer *t, const struct sn_rank_summary *all)
{
    memset(t->traffic, 0, sizeof(t->traffic));
    for (int r = 0; r < t->env.comm->size; r++)
        for (int a = 0; a < SN_NAXES; a++)
            t->traffic[a] += all[r].traffic[a];
}

/* On rank 0. */
static void take_plan(struct sn_trainer *t, const struct sn_rank_summary *all)
{
    t->memory = all[0].memory;
    for (int r = 0; r < t->env.comm->size; r++) {
        if (all[r].memory.total > t->memory.total)
            t->memory = all[r].memory;
    }
    add_traffic(t, all);
}

enum sn_status sn_trainer_count_traffic(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    struct sn_rank_summary mine = {0};
    sn_job_traffic(t->job, mine.traffic);
    memcpy(t->sent_by_rank, mine.traffic, sizeof(t->sent_by_rank));
    enum sn_status st = c->ops->gather(c, &mine, (int64_t)sizeof(mine), t->summaries, 0, err);
    if (st == SN_OK && c->rank == 0)
        add_traffic(t, t->summaries);
    return c->ops->agree(c, st, err);
}

enum sn_status sn_trainer_handshake(struct sn_trainer *t, struct sn_err *err)
{
    struct sn_comm *c = t->env.comm;
    struct sn_rank_summary mine = {.program = sn_program_hash(&t->job->train),
                                   .config = t->state.config_hash};
    sn_job_traffic(t->job, mine.traffic);
    sn_job_memory(t->job, &mine.memory);
    memcpy(t->sent_by_rank, mine.traffic, sizeof(t->sent_by_rank));
    t->state.tag = (int64_t)(c->nonce >> 1);
    t->state.rank = c->rank;
    t->state.ranks = c->size;
    SN_TRY(c->ops->set_grid(c, &t->job->grid, err));
    enum sn_status st = c->ops->gather(c, &mine, (int64_t)sizeof(mine), t->summaries, 0, err);
    if (st == SN_OK && c->rank == 0)
        st = compare(t, t->summaries, err);
    if (st == SN_OK && c->rank == 0)
        st = certify(t, t->summaries, err);
    if (st == SN_OK && c->rank == 0)
        take_plan(t, t->summaries);
    SN_TRY(c->ops->agree(c, st, err)); /* connections need all ranks */
    return c->ops->agree(c, sn_exec_connect(t->exec, err), err);
}
