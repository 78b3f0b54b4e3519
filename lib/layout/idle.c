#include "lib/layout/idle.h"

#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdbool.h>

enum { WAITING = -1, MISSING = -2 }; /* an end: not run yet; in no list */

struct play {
    const struct sn_pipeline *p;
    const struct sn_task_lists *lists;
    const struct sn_pipeline_cost *c;
    int64_t *end;                /* [tasks] by number: when each ended, or as above */
    int *next;                   /* [stages] position in the list */
    struct sn_stage_time *stage; /* [stages] */
};

/* --- one task --------------------------------------------------------------------------------- */

static int modules_of(const struct sn_pipeline *p)
{
    return p->stages * p->virtual_stages;
}

static int64_t *end_of(const struct play *y, int stage, const struct sn_task *t)
{
    return &y->end[sn_task_number(y->p, stage, t)];
}

static int64_t cost_of(const struct play *y, int module, enum sn_phase phase)
{
    const struct sn_task_cost *c = y->c->modules ? &y->c->modules[module] : &y->c->each;
    if (phase == SN_PHASE_FORWARD)
        return c->forward;
    if (phase == SN_PHASE_WEIGHT)
        return c->weight;
    return c->backward + (sn_schedule_last_phase(y->p) == SN_PHASE_WEIGHT ? 0 : c->weight);
}

/* What a task waits for, and when the last of it is there. */
struct wait {
    struct sn_need need;
    int64_t there; /* WAITING: `need` says for what */
};

static struct wait wait_of(const struct play *y, int stage, const struct sn_task *t)
{
    struct sn_need of[SN_NEEDS];
    struct wait wait = {.there = 0};
    int n = sn_task_needs(of, y->p, stage, t);
    for (int i = 0; i < n && wait.there >= 0; i++) {
        int64_t end = y->end[of[i].task];
        if (end < 0 || end > wait.there)
            wait = (struct wait){of[i], end};
    }
    return wait;
}

/* --- is this a pipeline and a step? ----------------------------------------------------------- */

static enum sn_status check_costs(const struct sn_pipeline *p, const struct sn_pipeline_cost *c,
                                  struct sn_err *err)
{
    int n = c->modules ? modules_of(p) : 1;
    const struct sn_task_cost *cost = c->modules ? c->modules : &c->each;
    /* No sum over all tasks may overflow. */
    int64_t most = INT64_MAX / 4 / modules_of(p) / p->micros;
    for (int i = 0; i < n; i++) {
        bool good = cost[i].forward >= 0 && cost[i].forward <= most && cost[i].backward >= 0 &&
                    cost[i].backward <= most && cost[i].weight >= 0 && cost[i].weight <= most;
        if (!good)
            return sn_fail(err, SN_EINPUT,
                           "pipeline: stage module %d costs %" PRId64 ", %" PRId64 ", %" PRId64
                           " (forward, backward, weight); 0..%" PRId64 " each would work",
                           i, cost[i].forward, cost[i].backward, cost[i].weight, most);
    }
    return SN_OK;
}

static enum sn_status enter_task(struct play *y, int stage, int at, struct sn_err *err)
{
    const struct sn_task *t = &y->lists->tasks[stage][at];
    char name[SN_TASK_NAME];
    if (sn_task_check(y->p, t, err) != SN_OK)
        return sn_err_prefix(err, "pipeline: stage %d, task %d", stage, at);
    int64_t *end = end_of(y, stage, t);
    if (*end != MISSING)
        return sn_fail(err, SN_EINPUT,
                       "pipeline: stage %d, task %d: %s a second time; once would work", stage, at,
                       sn_task_name(name, y->p, sn_task_number(y->p, stage, t)));
    *end = WAITING;
    return SN_OK;
}

static enum sn_status enter_lists(struct play *y, struct sn_err *err)
{
    int tasks = sn_schedule_tasks(y->p);
    for (int64_t i = 0; i < sn_pipeline_tasks(y->p); i++)
        y->end[i] = MISSING;
    for (int s = 0; s < y->p->stages; s++) {
        for (int i = 0; i < y->lists->n[s]; i++)
            SN_TRY(enter_task(y, s, i, err));
        if (y->lists->n[s] != tasks) /* none stands twice, so some are missing */
            return sn_fail(err, SN_EINPUT, "pipeline: stage %d has %d tasks; %d would work", s,
                           y->lists->n[s], tasks);
    }
    return SN_OK;
}

/* --- play ------------------------------------------------------------------------------------- */

/* Run a stage's list as far as it goes; returns how many tasks ended. */
static int advance(struct play *y, int s)
{
    struct sn_stage_time *time = &y->stage[s];
    int ran = 0;
    for (; y->next[s] < y->lists->n[s]; y->next[s]++, ran++) {
        const struct sn_task *t = &y->lists->tasks[s][y->next[s]];
        struct wait wait = wait_of(y, s, t);
        if (wait.there < 0)
            break;
        int64_t start = wait.there > time->end ? wait.there : time->end;
        int64_t cost = cost_of(y, sn_task_module(y->p, s, t), t->phase);
        if (y->next[s] == 0)
            time->start = start;
        time->busy += cost;
        time->end = *end_of(y, s, t) = start + cost;
    }
    return ran;
}

static enum sn_status explain_deadlock(const struct play *y, struct sn_err *err)
{
    int s = 0;
    while (y->next[s] == y->lists->n[s])
        s++;
    const struct sn_task *t = &y->lists->tasks[s][y->next[s]];
    struct sn_need need = wait_of(y, s, t).need;
    char at[SN_TASK_NAME], missing[SN_TASK_NAME];
    return sn_fail(err, SN_EFAIL,
                   "pipeline: stage %d waits for ever at its task %d, %s: %s on stage %d never "
                   "runs; an order in which that comes first would work",
                   s, y->next[s], sn_task_name(at, y->p, sn_task_number(y->p, s, t)),
                   sn_task_name(missing, y->p, need.task), need.module % y->p->stages);
}

static enum sn_status play(struct play *y, int64_t *makespan, struct sn_err *err)
{
    SN_TRY(enter_lists(y, err));
    int64_t left = sn_pipeline_tasks(y->p);
    while (left > 0) {
        int ran = 0;
        for (int s = 0; s < y->p->stages; s++)
            ran += advance(y, s);
        if (ran == 0)
            return explain_deadlock(y, err);
        left -= ran;
    }
    for (int s = 0; s < y->p->stages; s++)
        if (y->stage[s].end > *makespan)
            *makespan = y->stage[s].end;
    for (int s = 0; s < y->p->stages; s++)
        y->stage[s].idle = *makespan - y->stage[s].busy;
    return SN_OK;
}

static enum sn_status no_memory(const struct sn_pipeline *p, struct sn_err *err)
{
    return sn_fail(err, SN_ENOMEM,
                   "pipeline: no memory to simulate %d stages of %d tasks; fewer micro-batches "
                   "would work",
                   p->stages, sn_schedule_tasks(p));
}

enum sn_status sn_pipeline_simulate_lists(const struct sn_pipeline *p,
                                          const struct sn_task_lists *lists,
                                          const struct sn_pipeline_cost *c,
                                          struct sn_pipeline_time *out, struct sn_err *err)
{
    SN_TRY(sn_pipeline_check(p, err));
    SN_TRY(check_costs(p, c, err));
    struct play y = {p, lists, c, NULL, NULL, NULL};
    size_t stages = (size_t)p->stages;
    int64_t makespan = 0;
    y.end = sn_alloc_n((size_t)sn_pipeline_tasks(p), sizeof(*y.end));
    y.next = sn_alloc_n(stages, sizeof(*y.next));
    y.stage = sn_alloc_n(stages, sizeof(*y.stage));
    enum sn_status st = y.end && y.next && y.stage ? play(&y, &makespan, err) : no_memory(p, err);
    sn_free(y.next);
    sn_free(y.end);
    if (st == SN_OK)
        *out = (struct sn_pipeline_time){makespan, y.stage};
    else
        sn_free(y.stage);
    return st;
}

static enum sn_status make_lists(struct sn_task **tasks, int *n, const struct sn_pipeline *p,
                                 struct sn_err *err)
{
    for (int s = 0; s < p->stages; s++)
        SN_TRY(sn_schedule_make(&tasks[s], &n[s], p, s, err));
    return SN_OK;
}

enum sn_status sn_pipeline_simulate(const struct sn_pipeline *p, const struct sn_pipeline_cost *c,
                                    struct sn_pipeline_time *out, struct sn_err *err)
{
    SN_TRY(sn_pipeline_check(p, err));
    struct sn_task **tasks = sn_alloc_n((size_t)p->stages, sizeof(struct sn_task *));
    int *n = sn_alloc_n((size_t)p->stages, sizeof(*n));
    enum sn_status st = tasks && n ? make_lists(tasks, n, p, err) : no_memory(p, err);
    struct sn_task_lists lists = {(const struct sn_task *const *)tasks, n};
    if (st == SN_OK)
        st = sn_pipeline_simulate_lists(p, &lists, c, out, err);
    for (int s = 0; tasks && s < p->stages; s++)
        sn_free(tasks[s]);
    sn_free(n);
    sn_free(tasks);
    return st;
}

void sn_pipeline_time_fini(struct sn_pipeline_time *t)
{
    sn_free(t->stage);
    *t = (struct sn_pipeline_time){0, NULL};
}

double sn_pipeline_idle_fraction(const struct sn_pipeline_time *t, int stages)
{
    double idle = 0;
    for (int s = 0; s < stages; s++)
        idle += (double)t->stage[s].idle;
    return t->makespan > 0 ? idle / ((double)t->makespan * stages) : 0;
}
