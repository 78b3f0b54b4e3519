#include "tests/lib/bubble.h"

#include "lib/base/mem.h"

#include <math.h>

struct sn_pipeline job_pipeline(const struct sn_job *j)
{
    return sn_pipeline_of(&j->config->layout, j->train.micros);
}

/* --- from the program ------------------------------------------------------------------------- */

/* The phase of a segment's task; SN_NPHASES: it is none. Weight gradients that are a segment but
 * not delayed are the end of their BACKWARD. */
static enum sn_phase phase_of(enum sn_segment_kind kind, bool delays)
{
    switch (kind) {
    case SN_SEGMENT_FORWARD:
        return SN_PHASE_FORWARD;
    case SN_SEGMENT_BACKWARD:
    case SN_SEGMENT_INPUT_GRAD:
        return SN_PHASE_BACKWARD;
    case SN_SEGMENT_WEIGHT_GRAD:
        return delays ? SN_PHASE_WEIGHT : SN_NPHASES;
    default:
        return SN_NPHASES;
    }
}

static double flops_of(const struct sn_program *p, const struct sn_segment *c)
{
    double flops = 0;
    for (int i = c->first; i < c->first + c->n; i++)
        flops += sn_op_flops(&p->ops[i]);
    return flops;
}

static void add_segment(struct stage_work *w, const struct sn_program *p,
                        const struct sn_segment *c)
{
    struct vstage_work *vstage = &w->vstage[c->scope.virtual_stage];
    if (c->kind == SN_SEGMENT_FORWARD)
        vstage->forward += flops_of(p, c);
    else if (c->kind == SN_SEGMENT_BACKWARD || c->kind == SN_SEGMENT_INPUT_GRAD)
        vstage->backward += flops_of(p, c);
    else if (c->kind == SN_SEGMENT_WEIGHT_GRAD)
        vstage->weight += flops_of(p, c);
}

enum sn_status stage_work_init(struct stage_work *out, const struct sn_job *j, struct sn_err *err)
{
    const struct sn_program *p = &j->train;
    bool delays = j->config->layout.schedule == SN_ZERO_BUBBLE;
    struct stage_work w = {.vstages = p->vstages};
    w.tasks = sn_alloc_n((size_t)p->n_sched, sizeof(*w.tasks));
    if (!w.tasks)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for a schedule of %d entries", p->n_sched);
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *s = &p->sched[i];
        const struct sn_segment *c = &p->segments[s->segment];
        enum sn_phase phase = phase_of(c->kind, delays);
        if (phase != SN_NPHASES)
            w.tasks[w.n++] = (struct sn_task){phase, c->scope, s->micro, s->slot};
    }
    for (int c = 0; c < p->n_segments; c++)
        add_segment(&w, p, &p->segments[c]);
    *out = w;
    return SN_OK;
}

void stage_work_fini(struct stage_work *w)
{
    sn_free(w->tasks);
    *w = (struct stage_work){0};
}

/* --- played ----------------------------------------------------------------------------------- */

enum sn_status bubble_play(struct sn_pipeline_time *out, const struct sn_pipeline *p,
                           const struct stage_work *stage, const struct sn_pipeline_cost *c,
                           struct sn_err *err)
{
    const struct sn_task **tasks = sn_alloc_n((size_t)p->stages, sizeof(*tasks));
    int *n = sn_alloc_n((size_t)p->stages, sizeof(*n));
    enum sn_status st = SN_OK;
    if (!tasks || !n)
        st = sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", p->stages);
    for (int s = 0; st == SN_OK && s < p->stages; s++) {
        tasks[s] = stage[s].tasks;
        n[s] = stage[s].n;
    }
    if (st == SN_OK)
        st = sn_pipeline_simulate_lists(p, &(struct sn_task_lists){tasks, n}, c, out, err);
    sn_free(n);
    sn_free(tasks);
    return st;
}

/* Times are integers: the longest segment lasts 2^30 units. */
static double unit_of(const struct sn_pipeline *p, const struct stage_work *stage)
{
    double most = 0;
    for (int s = 0; s < p->stages; s++)
        for (int v = 0; v < stage[s].vstages; v++) {
            const struct vstage_work *w = &stage[s].vstage[v];
            most = fmax(most, fmax(w->forward, fmax(w->backward, w->weight)));
        }
    return most / (double)(1 << 30);
}

enum sn_status bubble_fraction(double *out, const struct sn_pipeline *p,
                               const struct stage_work *stage, struct sn_err *err)
{
    size_t modules = (size_t)p->stages * (size_t)p->virtual_stages;
    double unit = unit_of(p, stage);
    struct sn_task_cost *costs = sn_alloc_n(modules, sizeof(*costs));
    if (!costs)
        return sn_fail(err, SN_ENOMEM, "plan: no memory for %d stages", p->stages);
    for (size_t k = 0; unit > 0 && k < modules; k++) {
        const struct vstage_work *w = &stage[k % (size_t)p->stages].vstage[k / (size_t)p->stages];
        costs[k] = (struct sn_task_cost){.forward = llround(w->forward / unit),
                                         .backward = llround(w->backward / unit),
                                         .weight = llround(w->weight / unit)};
    }
    struct sn_pipeline_time time;
    enum sn_status st =
        bubble_play(&time, p, stage, &(struct sn_pipeline_cost){.modules = costs}, err);
    sn_free(costs);
    if (st != SN_OK)
        return st;
    *out = sn_pipeline_idle_fraction(&time, p->stages);
    sn_pipeline_time_fini(&time);
    return SN_OK;
}
