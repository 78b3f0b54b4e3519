#include "lib/exec/timeline.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/exec/exec_inner.h"

/* Operations of a step, those of one further round of experts' rows twice. */
static int64_t count_operations(const struct sn_program *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *c = &p->sched[i];
        const struct sn_at at = {.micro = c->micro, .micros = p->micros};
        for (int k = c->first; k < c->first + c->n; k++)
            if (sn_exec_due(&p->ops[k], &at))
                n += p->ops[k].extra ? 2 : 1;
    }
    return n;
}

enum sn_status sn_timeline_create(struct sn_timeline **out, struct sn_exec *x, struct sn_err *err)
{
    const struct sn_program *p = &x->job->train;
    struct sn_timeline *t = sn_alloc(sizeof(*t));
    int64_t room = p->n_sched + count_operations(p);
    if (!t || !(t->event = sn_alloc_n((size_t)room, sizeof(*t->event)))) {
        sn_timeline_destroy(t);
        return sn_fail(err, SN_ENOMEM, "timeline: no memory for %lld operations", (long long)room);
    }
    t->room = room;
    t->n_sched = p->n_sched;
    enum sn_status st = x->backend->make_stamps(x, room, err);
    if (st != SN_OK) {
        sn_timeline_destroy(t);
        return st;
    }
    *out = t;
    return SN_OK;
}

void sn_timeline_destroy(struct sn_timeline *t)
{
    if (t)
        sn_free(t->event);
    sn_free(t);
}

void sn_exec_set_timeline(struct sn_exec *x, struct sn_timeline *t)
{
    x->timeline = t;
}

/* --- a step ----------------------------------------------------------------------------------- */

void sn_timeline_start(struct sn_exec *x)
{
    struct sn_timeline *t = x->timeline;
    if (!t)
        return;
    t->n = t->n_sched;
    t->lost = 0;
    t->now = NULL;
    for (int64_t i = 0; i < t->n_sched; i++)
        t->event[i] = (struct sn_timed){
            .op = SN_TIMED_SEGMENT, .sched = (int32_t)i, .axis = SN_TIMED_COMPUTING};
    t->begin = sn_clock();
}

void sn_timeline_begin(struct sn_exec *x, int op, const struct sn_at *at, double now)
{
    struct sn_timeline *t = x->timeline;
    if (!t)
        return;
    if (t->n == t->room) {
        t->now = NULL;
        t->lost++;
        return;
    }
    t->now = &t->event[t->n++];
    *t->now = (struct sn_timed){.at = {.begin = now},
                                .op = op,
                                .sched = t->sched,
                                .round = (int16_t)at->round,
                                .axis = SN_TIMED_COMPUTING};
}

void sn_timeline_computed(struct sn_exec *x, double now)
{
    struct sn_timeline *t = x->timeline;
    if (t && t->now && t->now->axis == SN_TIMED_COMPUTING)
        t->now->at.end = now;
}

void sn_timeline_end(struct sn_exec *x)
{
    if (x->timeline)
        x->timeline->now = NULL;
}

struct sn_transfer_times *sn_timeline_moves(struct sn_exec *x, const struct sn_op *op)
{
    struct sn_timeline *t = x->timeline;
    if (!t || !t->now || x->job->group_size[op->group] == 1)
        return NULL;
    t->now->axis = (int16_t)sn_group_axis(op->group);
    t->now->at.begin = t->now->at.end = sn_clock(); /* of nothing, which nobody moves */
    return &t->now->at;
}

/* A segment lasts as long as what it computes. */
static void find_segments(struct sn_timeline *t)
{
    for (int64_t i = t->n_sched; i < t->n; i++) {
        const struct sn_timed *e = &t->event[i];
        struct sn_timed *segment = &t->event[e->sched];
        if (e->axis != SN_TIMED_COMPUTING)
            continue;
        if (segment->at.end == 0 || e->at.begin < segment->at.begin)
            segment->at.begin = e->at.begin;
        if (e->at.end > segment->at.end)
            segment->at.end = e->at.end;
    }
}

void sn_timeline_finish(struct sn_exec *x)
{
    if (!x->timeline)
        return;
    find_segments(x->timeline);
    x->timeline->end = sn_clock();
}
