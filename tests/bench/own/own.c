/*
 * own.c - train as sennit-train does, and count what the plan has promised: bytes of arenas as they
 * are mapped, bytes of messages as they are sent.
 *
 * usage: own RUN.yaml THREADS        (under mpirun for several ranks)
 *
 * The plan is made apart, from the first rank of each pipeline stage, as sennit-plan makes it; the
 * counts are of all ranks. Prints
 *   arena PLANNED ALLOCATED traffic PLANNED COUNTED
 * the largest arena of a rank and the bytes of one step over all ranks; exit 1 where any rank
 * differs.
 */
#include "lib/base/mem.h"
#include "lib/sim/plan.h"
#include "lib/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 64, MOST_CALLS = 64 };

/* --- what is counted: the linker leads sn_arena_map here (Makefile) --------------------------- */

static int64_t mapped;

void *__real_sn_arena_map(size_t bytes);
void *__wrap_sn_arena_map(size_t bytes);
void *__wrap_sn_arena_map(size_t bytes)
{
    mapped += (int64_t)bytes;
    return __real_sn_arena_map(bytes);
}

static struct {
    struct sn_comm_ops ops;
    void (*take)(struct sn_comm *c, int64_t bytes[SN_NAXES]);
    double sent[MOST_CALLS];
    int calls;
} counter;

/* The trainer takes the count once in each step, and a few times before and after them. */
static void take_and_count(struct sn_comm *c, int64_t bytes[SN_NAXES])
{
    int64_t now[SN_NAXES] = {0}, sum = 0;
    counter.take(c, now);
    for (int a = 0; a < SN_NAXES; a++) {
        sum += now[a];
        bytes[a] += now[a];
    }
    counter.sent[counter.calls++ % MOST_CALLS] = (double)sum;
}

/* --- a saver that saves nothing --------------------------------------------------------------- */

static enum sn_status reserve(void *self, int64_t bytes, struct sn_err *err)
{
    (void)self, (void)bytes, (void)err;
    return SN_OK;
}

static enum sn_status begin(void *self, const struct sn_state *s, enum sn_save_phase phase,
                            struct sn_err *err)
{
    (void)self, (void)s, (void)phase, (void)err;
    return SN_OK;
}

static void copied(void *self)
{
    (void)self;
}

static enum sn_status finish(void *self, bool wait, bool *ended, struct sn_err *err)
{
    (void)self, (void)wait, (void)err;
    *ended = true;
    return SN_OK;
}

static void times(void *self, struct sn_save_times *out)
{
    (void)self;
    *out = (struct sn_save_times){0};
}

static enum sn_status find(void *self, int64_t before, int64_t *step, struct sn_err *err)
{
    (void)self, (void)before, (void)err;
    *step = -1;
    return SN_OK;
}

/* --- comparing -------------------------------------------------------------------------------- */

static void must(enum sn_status st, const struct sn_err *err)
{
    if (st == SN_OK)
        return;
    (void)fprintf(stderr, "own: %s\n", err->text);
    if (sn_comm_launched_ranks() > 1)
        sn_comm_abort_mpi(1);
    exit(1);
}

/* One number of each rank, on all: sums of a table that is 0 but for the own place. */
static void share(struct sn_comm *c, double *table, int rank, double mine)
{
    static double staging[1 << 20];
    struct sn_err err;
    for (int i = 0; i < c->size; i++)
        table[i] = i == rank ? mine : 0;
    struct sn_transfer t = {.kind = SN_ALL_REDUCE,
                            .group = SN_GROUP_WORLD,
                            .dtype = SN_F64,
                            .n = c->size,
                            .out = table,
                            .staging = staging,
                            .label = "own"};
    if (c->size > 1)
        must(c->ops->wait(c, c->ops->post(c, &t), &err), &err);
    else
        table[0] = mine;
}

/* What most calls counted: that of the steps, which must all be alike. */
static double of_a_step(void)
{
    int n = counter.calls < MOST_CALLS ? counter.calls : MOST_CALLS, most = 0;
    double sent = 0;
    for (int i = 0; i < n; i++) {
        int alike = 0;
        for (int k = 0; k < n; k++)
            alike += counter.sent[k] == counter.sent[i];
        if (alike > most || (alike == most && counter.sent[i] > sent))
            sent = counter.sent[i];
        most = alike > most ? alike : most;
    }
    return sent;
}

static int compare(struct sn_comm *c, const struct sn_job_env *env)
{
    double arena[MOST_RANKS], sent[MOST_RANKS];
    struct sn_stages s;
    struct sn_plan p;
    struct sn_err err = {0};
    share(c, sent, c->rank, of_a_step());
    share(c, arena, c->rank, (double)mapped);
    must(sn_stages_create(&s, env, &err), &err);
    must(sn_plan_make(&p, &s, NULL, &err), &err);
    double planned = 0, counted = 0, most = 0, promised = 0;
    int wrong = 0;
    for (int r = 0; r < c->size; r++) {
        const struct sn_job *j = s.job[sn_grid_coord(&s.job[0]->grid, r, SN_AXIS_PIPELINE)];
        double bytes = (double)sn_job_arena_bytes(j);
        wrong += arena[r] != bytes;
        most = arena[r] > most ? arena[r] : most;
        promised = bytes > promised ? bytes : promised;
        counted += sent[r];
    }
    for (int a = 0; a < SN_NAXES; a++)
        planned += (double)p.traffic[a];
    wrong += counted != planned;
    if (c->rank == 0)
        (void)printf("arena %.0f %.0f traffic %.0f %.0f\n", promised, most, planned, counted);
    sn_stages_fini(&s);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    struct sn_err err = {0};
    static struct sn_config config;
    struct sn_comm *comm = NULL;
    struct sn_model *model = NULL;
    struct sn_trainer *t = NULL;
    int ranks = sn_comm_launched_ranks(), exit_code = 0;
    if (argc != 3 || ranks > MOST_RANKS) {
        (void)fprintf(stderr, "usage: own RUN.yaml THREADS (up to %d ranks)\n", MOST_RANKS);
        return 2;
    }
    must(sn_config_load(&config, argv[1], NULL, &err), &err);
    must(sn_config_resolve_ranks(&config, ranks, &err), &err);
    must(ranks > 1 ? sn_comm_create_mpi(&comm, &err) : sn_comm_create_self(&comm, &err), &err);
    counter.ops = *comm->ops;
    counter.take = comm->ops->take_sent_bytes;
    counter.ops.take_sent_bytes = take_and_count;
    comm->ops = &counter.ops;
    struct sn_saver saver = {.reserve = reserve,
                             .begin = begin,
                             .copied = copied,
                             .finish = finish,
                             .times = times,
                             .find = find};
    struct sn_trainer_env env = {.config = &config,
                                 .comm = comm,
                                 .ops = sn_ops_cpu(),
                                 .saver = &saver,
                                 .threads = atoi(argv[2])};
    must(sn_trainer_create(&t, &env, &err), &err);
    int64_t arenas = mapped; /* later ones are not the plan's: the measurement of the peak */
    must(sn_trainer_run(t, &(struct sn_trainer_options){0}, &exit_code, &err), &err);
    mapped = arenas;
    must(sn_model_create(&model, &config.model, &config.train, &err), &err);
    int wrong = compare(
        comm, &(struct sn_job_env){
                  .config = &config, .model = model, .ops = env.ops, .threads = env.threads});
    sn_model_destroy(model);
    sn_trainer_destroy(t);
    comm->ops->destroy(comm);
    return exit_code ? exit_code : wrong;
}
