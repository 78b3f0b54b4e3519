#include "lib/exec/timeline.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/exec/exec_device.h"

/* Operations of a step, those of one further round of experts' rows twice. */
static int64_t count_operations(const struct sn_program *p)
{
    int64_t n = 0;
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_chunk *c = &p->chunks[p->sched[i].chunk];
        const struct sn_at at = {.micro = p->sched[i].micro, .micros = p->micros};
        for (int k = c->first; k < c->first + c->n; k++)
            if (sn_exec_due(&p->ops[k], &at))
                n += p->ops[k].extra ? 2 : 1;
    }
    return n;
}

enum sn_status sn_timeline_create(struct sn_timeline **out, struct sn_exec *x, struct sn_err *err)
{
    const struct sn_program *p = &x->job->train;
    struct sn_exec_device *v = x->device;
    struct sn_timeline *t = sn_alloc(sizeof(*t));
    int64_t room = p->n_sched + count_operations(p);
    if (!t || !(t->event = sn_alloc_n((size_t)room, sizeof(*t->event)))) {
        sn_timeline_destroy(t);
        return sn_fail(err, SN_ENOMEM, "timeline: no memory for %lld operations", (long long)room);
    }
    t->room = room;
    t->n_sched = p->n_sched;
    if (v && v->ops->make_clocks(v->d, 2 * (int)room + 1) != 0) { /* the last one: the reference */
        sn_timeline_destroy(t);
        return sn_device_fail(x, NULL, err);
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

enum sn_status sn_timeline_start(struct sn_exec *x, struct sn_err *err)
{
    struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    if (!t)
        return SN_OK;
    t->n = t->n_sched;
    t->lost = 0;
    t->now = NULL;
    for (int64_t i = 0; i < t->n_sched; i++)
        t->event[i] = (struct sn_timed){
            .op = SN_TIMED_CHUNK, .sched = (int32_t)i, .axis = SN_TIMED_COMPUTING};
    t->begin = sn_clock();
    if (!v)
        return SN_OK;
    /* Nothing is under way: the device comes to the stamp between these two looks at the clock. */
    if (v->ops->stamp(v->d, SN_STREAM_COMPUTE, 2 * (int)t->room) != 0)
        return sn_device_fail(x, NULL, err);
    SN_TRY(sn_device_wait(x, err));
    t->unsure = (sn_clock() - t->begin) / 2;
    t->begin += t->unsure;
    return SN_OK;
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

void sn_timeline_end(struct sn_exec *x, double now)
{
    struct sn_timeline *t = x->timeline;
    if (!t || !t->now)
        return;
    if (!x->device && t->now->axis == SN_TIMED_COMPUTING)
        t->now->at.end = now;
    t->now = NULL;
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

/* A time of the host has been written; a stamp has not. */
static bool is_of_host(const struct sn_timed *e)
{
    return e->at.end != 0;
}

enum sn_status sn_timeline_stamp(struct sn_exec *x, int stream, bool is_end, struct sn_err *err)
{
    const struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    if (!t || !t->now || is_of_host(t->now))
        return SN_OK;
    if (stream == SN_STREAM_COMPUTE && t->now->axis != SN_TIMED_COMPUTING)
        return SN_OK;
    int clock = 2 * (int)(t->now - t->event) + (is_end ? 1 : 0);
    return v->ops->stamp(v->d, stream, clock) == 0
               ? SN_OK
               : sn_device_fail(x, &x->job->train.ops[t->now->op], err);
}

void sn_timeline_moves_on(struct sn_exec *x, const struct sn_op *op)
{
    if (x->timeline && x->timeline->now)
        x->timeline->now->axis = (int16_t)sn_group_axis(op->group);
}

/* What the stamps say, when all are done. */
static enum sn_status read_stamps(struct sn_exec *x, struct sn_err *err)
{
    struct sn_timeline *t = x->timeline;
    struct sn_exec_device *v = x->device;
    int reference = 2 * (int)t->room;
    for (int64_t i = t->n_sched; i < t->n; i++) {
        struct sn_timed *e = &t->event[i];
        if (is_of_host(e))
            continue;
        if (v->ops->between(v->d, reference, 2 * (int)i, &e->at.begin) != 0 ||
            v->ops->between(v->d, reference, 2 * (int)i + 1, &e->at.end) != 0)
            return sn_device_fail(x, &x->job->train.ops[e->op], err);
        e->at.begin += t->begin;
        e->at.end += t->begin;
    }
    return SN_OK;
}

/* A chunk lasts as long as what it computes. */
static void find_chunks(struct sn_timeline *t)
{
    for (int64_t i = t->n_sched; i < t->n; i++) {
        const struct sn_timed *e = &t->event[i];
        struct sn_timed *chunk = &t->event[e->sched];
        if (e->axis != SN_TIMED_COMPUTING)
            continue;
        if (chunk->at.end == 0 || e->at.begin < chunk->at.begin)
            chunk->at.begin = e->at.begin;
        if (e->at.end > chunk->at.end)
            chunk->at.end = e->at.end;
    }
}

enum sn_status sn_timeline_finish(struct sn_exec *x, struct sn_err *err)
{
    if (!x->timeline)
        return SN_OK;
    if (x->device)
        SN_TRY(read_stamps(x, err));
    find_chunks(x->timeline);
    x->timeline->end = sn_clock();
    return SN_OK;
}
