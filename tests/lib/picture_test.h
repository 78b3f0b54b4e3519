/*
 * picture_test.h - a step made up of a real schedule and made-up times, as the simulator would give
 * it.
 */
#ifndef PICTURE_TEST_H
#define PICTURE_TEST_H

#include "lib/base/mem.h"
#include "lib/layout/schedule.h"
#include "lib/report/picture.h"

#include <stdlib.h>
#include <string.h>

struct sim_fixture {
    struct sn_sim sim;
    struct sn_memory_curve *curve;
    struct sn_picture picture;
};

/* Seconds of one virtual stage's work on one micro-batch, of a transfer, and of an update with its
 * wait. */
static const struct {
    double forward, backward, weight, send, update, wait;
} sim_cost = {.010, .020, .010, .001, .030, .015};

static void sim_event(struct sn_sim *s, struct sn_event e)
{
    s->event[s->n_events++] = e;
}

static int sim_earlier(const void *a, const void *b)
{
    const struct sn_event *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* When a task may begin: the ends of what it needs; -1 while that is not known. */
static double sim_ready(const double *end, const struct sn_pipeline *p, int stage,
                        const struct sn_task *t)
{
    struct sn_need need[SN_NEEDS];
    double ready = 0;
    for (int i = 0, n = sn_task_needs(need, p, stage, t); i < n && ready >= 0; i++) {
        double there = end[need[i].task];
        ready = there < 0 || there > ready ? there : ready;
    }
    return ready;
}

static void sim_task(struct sim_fixture *f, const struct sn_pipeline *p, int stage,
                     const struct sn_task *t, double begin, double end)
{
    struct sn_sim *s = &f->sim;
    struct sn_memory_curve *m = &f->curve[stage];
    int64_t slot = (int64_t)3 << 30, last = m->n ? m->point[m->n - 1].bytes : m->state;
    int vstage = t->scope.virtual_stage;
    bool takes = t->phase == SN_PHASE_FORWARD;
    bool gives = t->phase == (p->kind == SN_ZERO_BUBBLE ? SN_PHASE_WEIGHT : SN_PHASE_BACKWARD);
    struct sn_memory_point *point = (struct sn_memory_point *)m->point + m->n;
    point[0] = (struct sn_memory_point){begin, last + (takes ? slot : 0) + slot / 4};
    point[1] = (struct sn_memory_point){end, point[0].bytes - slot / 4 - (gives ? slot : 0)};
    m->n += 2;
    sim_event(s, (struct sn_event){(enum sn_event_kind)t->phase, stage, vstage, t->micro, 0, 0,
                                   begin, end, 0, ""});
    sim_event(s, (struct sn_event){SN_EVENT_TRANSFER, stage, vstage, t->micro, 0, SN_AXIS_TENSOR,
                                   begin + .2 * (end - begin), begin + .4 * (end - begin), 1 << 20,
                                   "l0.attn.out"});
    sim_event(s, (struct sn_event){SN_EVENT_WAIT, stage, vstage, t->micro, 0, SN_AXIS_TENSOR,
                                   begin + .3 * (end - begin), begin + .4 * (end - begin), 0, ""});
    if (t->phase != SN_PHASE_WEIGHT)
        sim_event(s, (struct sn_event){SN_EVENT_TRANSFER, stage, vstage, t->micro, 0,
                                       SN_AXIS_PIPELINE, end, end + sim_cost.send, 4 << 20, ""});
    s->stage[stage].busy += .9 * (end - begin);
    s->stage[stage].exposed[SN_AXIS_TENSOR] += .1 * (end - begin);
}

static void sim_finish(struct sim_fixture *f, const double *clock)
{
    struct sn_sim *s = &f->sim;
    for (int i = 0; i < s->stages; i++) {
        double t = clock[i];
        sim_event(s, (struct sn_event){SN_EVENT_TRANSFER, i, -1, -1, 0, SN_AXIS_DATA, t - .02,
                                       t + sim_cost.wait, 1 << 28, "layer \"0\" & <more>"});
        sim_event(s, (struct sn_event){SN_EVENT_WAIT, i, -1, -1, 0, SN_AXIS_DATA, t,
                                       t + sim_cost.wait, 0, ""});
        t += sim_cost.wait;
        sim_event(
            s, (struct sn_event){SN_EVENT_UPDATE, i, -1, -1, 0, 0, t, t + sim_cost.update, 0, ""});
        s->stage[i].busy += s->stage[i].update = sim_cost.update;
        s->stage[i].exposed[SN_AXIS_DATA] = sim_cost.wait;
        s->step = t + sim_cost.update > s->step ? t + sim_cost.update : s->step;
    }
    for (int i = 0; i < s->stages; i++) {
        struct sn_sim_stage *t = &s->stage[i];
        t->idle = s->step - t->busy - t->exposed[SN_AXIS_TENSOR] - t->exposed[SN_AXIS_DATA];
        s->bubble += t->idle / s->step / s->stages;
    }
    memcpy(s->exposed, s->stage[0].exposed, sizeof(s->exposed));
    qsort(s->event, (size_t)s->n_events, sizeof(*s->event), sim_earlier);
}

/* Caller runs sim_fixture_fini. False: no memory. */
static bool sim_fixture_init(struct sim_fixture *f, struct sn_pipeline p)
{
    int n = sn_schedule_tasks(&p), at[256] = {0};
    size_t ends = (size_t)sn_pipeline_tasks(&p);
    double clock[256] = {0}, *end = sn_alloc_n(ends, sizeof(*end));
    struct sn_task *tasks[256] = {0};
    *f = (struct sim_fixture){.sim = {.stages = p.stages}};
    f->sim.event = sn_alloc_n((size_t)p.stages * (size_t)n * 4 + 1024, sizeof(*f->sim.event));
    f->sim.stage = sn_alloc_n((size_t)p.stages, sizeof(*f->sim.stage));
    f->curve = sn_alloc_n((size_t)p.stages, sizeof(*f->curve));
    for (size_t i = 0; i < ends; i++)
        end[i] = -1;
    for (int s = 0; s < p.stages; s++) {
        f->curve[s] = (struct sn_memory_curve){
            .point = sn_alloc_n((size_t)n * 2, sizeof(struct sn_memory_point)),
            .library = (int64_t)1 << 30,
            .state = (int64_t)9 << 30};
        if (sn_schedule_make(&tasks[s], &n, &p, s, NULL) != SN_OK)
            return false;
    }
    for (int left = p.stages * n; left > 0;)
        for (int s = 0; s < p.stages; s++)
            while (at[s] < n) {
                const struct sn_task *t = &tasks[s][at[s]];
                double ready = sim_ready(end, &p, s, t);
                if (ready < 0)
                    break;
                double cost[] = {sim_cost.forward, sim_cost.backward, sim_cost.weight};
                double begin = ready > clock[s] ? ready : clock[s];
                clock[s] = begin + cost[t->phase];
                end[sn_task_number(&p, s, t)] = clock[s] + sim_cost.send;
                sim_task(f, &p, s, t, begin, clock[s]);
                at[s]++;
                left--;
            }
    sim_finish(f, clock);
    for (int s = 0; s < p.stages; s++)
        sn_free(tasks[s]);
    sn_free(end);
    f->picture = (struct sn_picture){.title = "fixture <a> & \"b\"",
                                     .sim = &f->sim,
                                     .memory = f->curve,
                                     .limit = (int64_t)40 << 30,
                                     .micros = p.micros,
                                     .vstages = p.virtual_stages,
                                     .mfu = .512};
    return true;
}

static void sim_fixture_fini(struct sim_fixture *f)
{
    for (int s = 0; s < f->sim.stages; s++)
        sn_free((void *)f->curve[s].point);
    sn_free(f->curve);
    sn_free(f->sim.event);
    sn_free(f->sim.stage);
}

#endif
