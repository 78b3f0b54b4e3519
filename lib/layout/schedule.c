#include "lib/layout/schedule.h"

#include "lib/base/mem.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>

const char *sn_phase_name(enum sn_phase f)
{
    static const char *const name[SN_NPHASES] = {"forward", "backward", "weight"};
    return name[f];
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

enum sn_phase sn_schedule_last_phase(const struct sn_pipeline *p)
{
    return sn_schedule_traits(p->kind)->delays_weights ? SN_PHASE_WEIGHT : SN_PHASE_BACKWARD;
}

struct sn_pipeline sn_pipeline_of(const struct sn_layout_config *l, int micros)
{
    return (struct sn_pipeline){.kind = l->schedule,
                                .stages = l->pipeline,
                                .virtual_stages = l->virtual_stages > 1 ? l->virtual_stages : 1,
                                .micros = micros};
}

/* --- scopes ----------------------------------------------------------------------------------- */

int sn_scopes(const struct sn_pipeline *p)
{
    return p->virtual_stages;
}

struct sn_scope sn_scope_at(const struct sn_pipeline *p, int number)
{
    assert(number >= 0 && number < sn_scopes(p));
    return (struct sn_scope){.virtual_stage = number};
}

bool sn_scope_equal(struct sn_scope a, struct sn_scope b)
{
    return a.virtual_stage == b.virtual_stage;
}

/* --- tasks by number -------------------------------------------------------------------------- */

static int modules_of(const struct sn_pipeline *p)
{
    return p->stages * p->virtual_stages;
}

static int phases_of(const struct sn_pipeline *p)
{
    return (int)sn_schedule_last_phase(p) + 1;
}

/* By phase, stage module and micro-batch. */
static int64_t number_of(const struct sn_pipeline *p, enum sn_phase phase, int module, int micro)
{
    return ((int64_t)phase * modules_of(p) + module) * p->micros + micro;
}

int sn_task_module(const struct sn_pipeline *p, int stage, const struct sn_task *t)
{
    return t->scope.virtual_stage * p->stages + stage;
}

int64_t sn_task_number(const struct sn_pipeline *p, int stage, const struct sn_task *t)
{
    return number_of(p, t->phase, sn_task_module(p, stage, t), t->micro);
}

int64_t sn_pipeline_tasks(const struct sn_pipeline *p)
{
    return (int64_t)p->stages * sn_schedule_tasks(p);
}

const char *sn_task_name(char out[SN_TASK_NAME], const struct sn_pipeline *p, int64_t task)
{
    int64_t row = task / p->micros;
    (void)snprintf(out, SN_TASK_NAME, "%s of stage module %d, micro-batch %d",
                   sn_phase_name((enum sn_phase)(row / modules_of(p))), (int)(row % modules_of(p)),
                   (int)(task % p->micros));
    return out;
}

enum sn_status sn_task_check(const struct sn_pipeline *p, const struct sn_task *t,
                             struct sn_err *err)
{
    int phase = (int)t->phase, vstage = t->scope.virtual_stage;
    if (phase >= 0 && phase < phases_of(p) && vstage >= 0 && vstage < p->virtual_stages &&
        t->micro >= 0 && t->micro < p->micros)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "phase %d, virtual stage %d, micro-batch %d; phases 0..%d, virtual stages 0..%d "
                   "and micro-batches "
                   "0..%d would work",
                   phase, vstage, t->micro, phases_of(p) - 1, p->virtual_stages - 1, p->micros - 1);
}

int sn_task_needs(struct sn_need out[SN_NEEDS], const struct sn_pipeline *p, int stage,
                  const struct sn_task *t)
{
    int n = 0, module = sn_task_module(p, stage, t);
    if (t->phase == SN_PHASE_FORWARD && module > 0)
        out[n++] = (struct sn_need){.phase = SN_PHASE_FORWARD, .module = module - 1};
    if (t->phase == SN_PHASE_BACKWARD)
        out[n++] = (struct sn_need){.phase = SN_PHASE_FORWARD, .module = module};
    if (t->phase == SN_PHASE_BACKWARD && module < modules_of(p) - 1)
        out[n++] = (struct sn_need){.phase = SN_PHASE_BACKWARD, .module = module + 1};
    if (t->phase == SN_PHASE_WEIGHT)
        out[n++] = (struct sn_need){.phase = SN_PHASE_BACKWARD, .module = module};
    for (int i = 0; i < n; i++)
        out[i].task = number_of(p, out[i].phase, out[i].module, t->micro);
    return n;
}

/* --- which sizes make a schedule -------------------------------------------------------------- */

static enum sn_status check_multiple(const struct sn_pipeline *p, struct sn_err *err)
{
    const char *name = sn_schedule_names[p->kind];
    long below = (long)p->micros / p->stages * p->stages, above = below + p->stages;
    if (below == p->micros)
        return SN_OK;
    if (below == 0)
        return sn_fail(err, SN_EINPUT,
                       "layout.schedule: %s with %d micro-batches on %d pipeline stages, no "
                       "multiple; %ld micro-batches or schedule " SN_SCHEDULE_DEFAULT_NAME
                       " would work",
                       name, p->micros, p->stages, above);
    return sn_fail(err, SN_EINPUT,
                   "layout.schedule: %s with %d micro-batches on %d pipeline stages, no multiple; "
                   "%ld or %ld micro-batches or schedule " SN_SCHEDULE_DEFAULT_NAME " would work",
                   name, p->micros, p->stages, below, above);
}

enum sn_status sn_pipeline_check(const struct sn_pipeline *p, struct sn_err *err)
{
    if (p->stages < 1 || p->virtual_stages < 1 || p->micros < 1)
        return sn_fail(err, SN_EINPUT,
                       "layout: %d pipeline stages x %d virtual stages, %d micro-batches; at least "
                       "1 of each would work",
                       p->stages, p->virtual_stages, p->micros);
    /* Tasks, stage modules and the warm-up of a stage are counted in int. */
    long v = p->virtual_stages, limit = INT_MAX / 4;
    if (v * p->micros > limit || v * p->stages > limit)
        return sn_fail(err, SN_EINPUT,
                       "layout: %d virtual stages of %d pipeline stages and %d micro-batches are "
                       "more than can be scheduled; products up to %ld would work",
                       p->virtual_stages, p->stages, p->micros, limit);
    const struct sn_schedule_traits *t = sn_schedule_traits(p->kind);
    char have[SN_SCHEDULES_SIZE];
    if (p->virtual_stages > 1 && !t->virtual_stages)
        return sn_fail(err, SN_EINPUT,
                       "layout.virtual_stages: %d, but only the %s schedule has virtual stages; "
                       "virtual_stages 1 or schedule %s would work",
                       p->virtual_stages, sn_schedules_with_virtual_stages(have), have);
    return t->whole_groups ? check_multiple(p, err) : SN_OK;
}

/* --- the order of a stage's tasks ------------------------------------------------------------- */

/* What a schedule is, as functions of the sizes. */
struct order {
    /* Forwards before the first backward, less the one that it takes turns with. */
    int (*ahead)(const struct sn_pipeline *p, int stage);
    /* Micro-batches by which weight gradients are late; 0 if they are not apart. */
    int (*late)(const struct sn_pipeline *p, int stage);
};

static int everything(const struct sn_pipeline *p, int stage)
{
    (void)stage;
    return p->virtual_stages * p->micros;
}

static int stages_behind(const struct sn_pipeline *p, int stage)
{
    return p->stages - 1 - stage;
}

static int vstages_behind(const struct sn_pipeline *p, int stage)
{
    int behind = stages_behind(p, stage);
    return p->virtual_stages == 1 ? behind : 2 * behind + (p->virtual_stages - 1) * p->stages;
}

/* One more than where the micro-batch that comes back last stage first is the one that went. */
static int vstages_behind_and_one(const struct sn_pipeline *p, int stage)
{
    return 2 * stages_behind(p, stage) + (p->virtual_stages - 1) * p->stages + 1;
}

static int not_late(const struct sn_pipeline *p, int stage)
{
    (void)p;
    (void)stage;
    return 0;
}

static int stages_before(const struct sn_pipeline *p, int stage)
{
    (void)p;
    return stage;
}

static const struct order order_gpipe = {everything, not_late};
static const struct order order_1f1b = {stages_behind, not_late};
static const struct order order_interleaved = {vstages_behind, not_late};
static const struct order order_zero_bubble = {stages_behind, stages_before};
static const struct order order_combined = {vstages_behind_and_one, not_late};

#define ORDER_OF(id, word, ...) [id] = &order_##word,
static const struct order *const orders[SN_NSCHEDULES] = {SN_SCHEDULES(ORDER_OF)};

/* A stage's list, one task after the other: how many of each phase were given out. */
struct walk {
    const struct sn_pipeline *p;
    int total;       /* tasks of a phase */
    int ahead, late; /* struct order */
    enum sn_phase last;
    int done[SN_NPHASES];
};

static struct walk walk_begin(const struct sn_pipeline *p, int stage)
{
    assert(stage >= 0 && stage < p->stages);
    const struct order *o = orders[p->kind];
    int total = p->virtual_stages * p->micros;
    return (struct walk){.p = p,
                         .total = total,
                         .ahead = min(total, o->ahead(p, stage)),
                         .late = o->late(p, stage),
                         .last = sn_schedule_last_phase(p)};
}

static enum sn_phase next_phase(const struct walk *w)
{
    int forward = w->done[SN_PHASE_FORWARD], backward = w->done[SN_PHASE_BACKWARD];
    int late = backward - w->done[SN_PHASE_WEIGHT];
    if (w->last == SN_PHASE_WEIGHT && (late > w->late || backward == w->total))
        return SN_PHASE_WEIGHT;
    if (forward < w->total && forward - backward <= w->ahead)
        return SN_PHASE_FORWARD;
    return SN_PHASE_BACKWARD;
}

/* The next task without its slot; false at the end of the list. Task k of a phase: groups of p
 * micro-batches pass through all virtual stages, forwards up, backwards down. */
static bool walk_next(struct walk *w, struct sn_task *out)
{
    int p = w->p->stages, v = w->p->virtual_stages;
    if (w->done[w->last] == w->total)
        return false;
    enum sn_phase phase = next_phase(w);
    int k = w->done[phase]++, group = k / (p * v), in_group = k % (p * v), vstage = in_group / p;
    out->phase = phase;
    out->scope.virtual_stage = phase == SN_PHASE_FORWARD ? vstage : v - 1 - vstage;
    out->micro = group * p + in_group % p;
    out->slot = -1;
    return true;
}

bool sn_schedule_pairs(const struct sn_pipeline *p, int stage)
{
    return sn_schedule_traits(p->kind)->takes_turns &&
           orders[p->kind]->ahead(p, stage) < p->virtual_stages * p->micros;
}

int sn_schedule_tasks(const struct sn_pipeline *p)
{
    return phases_of(p) * sn_scopes(p) * p->micros;
}

/* Where virtual stages take turns, nothing new happens after four groups of micro-batches. */
struct sn_pipeline sn_pipeline_shortest(const struct sn_pipeline *p)
{
    struct sn_pipeline few = *p;
    if (p->virtual_stages > 1)
        few.micros = min(p->micros, 4 * p->stages);
    return few;
}

int sn_schedule_slots(const struct sn_pipeline *p, int stage, int vstage)
{
    assert(vstage >= 0 && vstage < p->virtual_stages);
    struct sn_pipeline few = sn_pipeline_shortest(p);
    struct walk w = walk_begin(&few, stage);
    struct sn_task t;
    int in_flight = 0, most = 0;
    while (walk_next(&w, &t)) {
        if (t.scope.virtual_stage != vstage)
            continue;
        in_flight += t.phase == SN_PHASE_FORWARD;
        most = in_flight > most ? in_flight : most;
        in_flight -= t.phase == w.last;
    }
    return most;
}

int sn_schedule_slots_of_one(const struct sn_pipeline *p, int stage)
{
    const struct order *o = orders[p->kind];
    assert(p->virtual_stages == 1);
    return min(p->micros, o->ahead(p, stage) + 1 + o->late(p, stage));
}

int sn_schedule_waiting(const struct sn_pipeline *p, int stage)
{
    return min(p->micros, orders[p->kind]->late(p, stage) + 1);
}

/* --- slots ------------------------------------------------------------------------------------ */

/* Of one virtual stage. */
struct slots {
    int *of;     /* [micros] the slot of each micro-batch in flight */
    bool *taken; /* [micros]; more are never needed */
    int lowest;  /* every slot below is taken */
};

static int take(struct slots *s, int micro)
{
    while (s->taken[s->lowest])
        s->lowest++;
    s->taken[s->lowest] = true;
    return s->of[micro] = s->lowest;
}

static void give_back(struct slots *s, int micro)
{
    s->taken[s->of[micro]] = false;
    s->lowest = min(s->lowest, s->of[micro]);
}

static void assign(struct sn_task *tasks, int n, const struct sn_pipeline *p, struct slots *vstages)
{
    enum sn_phase last = sn_schedule_last_phase(p);
    for (int i = 0; i < n; i++) {
        struct sn_task *t = &tasks[i];
        struct slots *s = &vstages[t->scope.virtual_stage];
        t->slot = t->phase == SN_PHASE_FORWARD ? take(s, t->micro) : s->of[t->micro];
        if (t->phase == last)
            give_back(s, t->micro);
    }
}

static bool assign_slots(struct sn_task *tasks, int n, const struct sn_pipeline *p)
{
    size_t v = (size_t)p->virtual_stages, m = (size_t)p->micros;
    struct slots *vstages = sn_alloc_n(v, sizeof(*vstages));
    int *of = sn_alloc_n(v * m, sizeof(*of));
    bool *taken = sn_alloc_n(v * m, sizeof(*taken));
    bool good = vstages && of && taken;
    for (size_t i = 0; good && i < v; i++)
        vstages[i] = (struct slots){of + i * m, taken + i * m, 0};
    if (good)
        assign(tasks, n, p, vstages);
    sn_free(taken);
    sn_free(of);
    sn_free(vstages);
    return good;
}

enum sn_status sn_schedule_make(struct sn_task **out, int *n, const struct sn_pipeline *p,
                                int stage, struct sn_err *err)
{
    SN_TRY(sn_pipeline_check(p, err));
    int count = sn_schedule_tasks(p), i = 0;
    struct sn_task *tasks = sn_alloc_n((size_t)count, sizeof(*tasks));
    struct walk w = walk_begin(p, stage);
    while (tasks && walk_next(&w, &tasks[i]))
        i++;
    if (!tasks || !assign_slots(tasks, count, p)) {
        sn_free(tasks);
        return sn_fail(err, SN_ENOMEM,
                       "schedule: no memory for %d tasks; fewer micro-batches would work", count);
    }
    assert(i == count);
    *out = tasks;
    *n = count;
    return SN_OK;
}
