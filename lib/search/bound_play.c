/*
 * bound_play.c - a schedule played through with transfers, in seconds (idle.c: without, exactly).
 */
#include "lib/search/bound.h"

#include "lib/base/mem.h"

#include <math.h>

struct table {
    const struct sn_pipeline *p;
    const struct sn_module_costs *c;
    double *done; /* [tasks] by number; below 0: not yet */
    struct sn_task **tasks;
    int *next;
    double *end, *comm; /* [stages] */
    sn_task_player *player;
    const void *context;
};

/* From the end of what a task of `module` needs: the way, and from a backward it begins before the
 * end. */
static double way(const struct table *t, const struct sn_need *need, int module)
{
    double transfer = t->p->stages > 1 ? t->c->transfer : 0;
    if (need->module == module)
        return 0;
    return need->phase == SN_PHASE_BACKWARD ? transfer - t->c->after[need->module] : transfer;
}

/* When what a task needs is there; -1: not known yet. */
static double there(const struct table *t, const struct sn_task *k, int stage)
{
    struct sn_need of[SN_NEEDS];
    double last = 0;
    int n = sn_task_needs(of, t->p, stage, k), module = sn_task_module(t->p, stage, k);
    for (int i = 0; i < n; i++) {
        if (of[i].phase == SN_PHASE_BACKWARD && of[i].module != module && module < t->c->still)
            continue;
        double done = t->done[of[i].task];
        if (done < 0)
            return -1;
        last = fmax(last, done + way(t, &of[i], module));
    }
    return last;
}

/* Run a task that begins at `begin`; when it has sent. */
static double run(const struct table *t, const struct sn_task *k, int stage, double begin)
{
    const double *const cost[] = {t->c->forward, t->c->backward, t->c->weight};
    int module = sn_task_module(t->p, stage, k);
    bool last = k->micro == t->p->micros - 1;
    double busy = fmax(t->comm[stage] - begin, 0);
    if (!t->player || (!last && busy == 0)) {
        bool longer = last && k->phase == SN_PHASE_BACKWARD && !t->player;
        bool first = k->micro == 0 && k->phase == SN_PHASE_FORWARD && t->c->first;
        double more = longer ? t->c->extra[module] : first ? t->c->first[module] : 0;
        return t->end[stage] = begin + cost[k->phase][module] + more;
    }
    struct sn_task_time time = t->player(t->context, k->phase, module, last, busy);
    t->end[stage] = begin + time.kernels;
    t->comm[stage] = begin + time.collectives;
    return t->end[stage] - time.after;
}

static bool advance(const struct table *t, int stage, int n)
{
    int first = t->next[stage];
    for (; t->next[stage] < n; t->next[stage]++) {
        const struct sn_task *k = &t->tasks[stage][t->next[stage]];
        double begin = there(t, k, stage);
        if (begin < 0)
            break;
        t->done[sn_task_number(t->p, stage, k)] = run(t, k, stage, fmax(begin, t->end[stage]));
    }
    return t->next[stage] > first;
}

static enum sn_status play(struct table *t, struct sn_err *err)
{
    int n = 0;
    for (int s = 0; s < t->p->stages; s++) {
        t->end[s] = t->comm[s] = 0;
        SN_TRY(sn_schedule_make(&t->tasks[s], &n, t->p, s, err));
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < t->p->stages; s++)
            moved = advance(t, s, n) || moved;
    }
    return SN_OK;
}

enum sn_status sn_pipeline_play(double *end, double *done, const struct sn_pipeline *p,
                                const struct sn_module_costs *c, sn_task_player *player,
                                const void *context, struct sn_err *err)
{
    struct table t = {
        .p = p, .c = c, .end = end, .comm = done, .player = player, .context = context};
    int64_t tasks = sn_pipeline_tasks(p);
    t.done = sn_alloc_n((size_t)tasks, sizeof(*t.done));
    t.tasks = sn_alloc_n((size_t)p->stages, sizeof(*t.tasks));
    t.next = sn_alloc_n((size_t)p->stages, sizeof(*t.next));
    enum sn_status st = SN_OK;
    if (!t.done || !t.tasks || !t.next)
        st = sn_fail(err, SN_ENOMEM, "search: no memory to play %d stages", p->stages);
    for (int64_t i = 0; st == SN_OK && i < tasks; i++)
        t.done[i] = -1;
    if (st == SN_OK)
        st = play(&t, err);
    for (int s = 0; t.tasks && s < p->stages; s++)
        sn_free(t.tasks[s]);
    sn_free(t.next);
    sn_free(t.tasks);
    sn_free(t.done);
    return st;
}
