/*
 * sim_memory.c - what a stage holds over a simulated step.
 *
 * A slot is taken by the first entry of the schedule that is of its virtual stage and micro-batch,
 * a receive or a forward, and given back with the last one, which makes the last gradients; a late
 * copy lasts from the input gradients to the weight gradients.
 */
#include "lib/sim/sim.h"

#include "lib/base/mem.h"

struct span {
    double begin, end;
};

struct memory {
    const struct sn_job *job;
    struct span *span; /* [entries of the schedule] */
    int *last;         /* [vstages x micros] the last entry that needs the slot */
    bool *taken;       /* [vstages x micros] slots, by the micro-batch that is in one */
    struct sn_memory_point *point;
    int n;
    int64_t held;
    double now;
};

static size_t place_of(const struct memory *m, int vstage, int micro)
{
    return (size_t)vstage * (size_t)m->job->train.micros + (size_t)micro;
}

/* From `time` on `bytes` more (or fewer) are held. */
static void hold(struct memory *m, double time, int64_t bytes)
{
    m->held += bytes;
    if (m->n > 0 && m->point[m->n - 1].time == time)
        m->n--;
    m->point[m->n++] = (struct sn_memory_point){time, m->held};
}

static void take_slot(struct memory *m, int vstage, int micro, double time)
{
    bool *taken = &m->taken[place_of(m, vstage, micro)];
    if (!*taken)
        hold(m, time, m->job->train.slot_bytes[vstage]);
    *taken = true;
}

static bool receives(const struct sn_segment *c)
{
    return c->kind < SN_SEGMENT_FORWARD;
}

static void find_lasts(struct memory *m)
{
    const struct sn_program *p = &m->job->train;
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_segment *c = &p->segments[p->sched[i].segment];
        if (c->kind != SN_SEGMENT_UPDATE)
            m->last[place_of(m, c->scope.virtual_stage, p->sched[i].micro)] = i;
    }
}

static void run(struct memory *m, int entry)
{
    const struct sn_program *p = &m->job->train;
    const struct sn_segment *c = &p->segments[p->sched[entry].segment];
    struct span at = m->span[entry];
    int vstage = c->scope.virtual_stage, micro = p->sched[entry].micro;
    int64_t while_running = p->temp_bytes + p->workspace_bytes;
    if (c->kind != SN_SEGMENT_UPDATE)
        take_slot(m, vstage, micro, receives(c) ? m->now : at.begin);
    if (receives(c))
        return;
    bool is_first_half = c->kind == SN_SEGMENT_INPUT_GRAD,
         is_second_half = c->kind == SN_SEGMENT_WEIGHT_GRAD;
    hold(m, at.begin, while_running + (is_first_half ? p->late_bytes[vstage] : 0));
    int64_t given = while_running + (is_second_half ? p->late_bytes[vstage] : 0);
    if (entry == m->last[place_of(m, vstage, micro)])
        given += p->slot_bytes[vstage];
    hold(m, at.end, -given);
    m->now = at.end;
}

static void find_spans(struct memory *m, const struct sn_sim *s)
{
    for (int64_t i = 0; i < s->n_events; i++) {
        const struct sn_event *e = &s->event[i];
        if (e->stage == m->job->stage && e->kind <= SN_EVENT_UPDATE)
            m->span[e->entry] = (struct span){e->begin, e->end};
    }
}

enum sn_status sn_sim_memory(struct sn_memory_point **out, int *n, const struct sn_sim *s,
                             const struct sn_job *stage, struct sn_err *err)
{
    const struct sn_program *p = &stage->train;
    size_t slots = (size_t)p->vstages * (size_t)p->micros;
    struct sn_memory_plan plan;
    struct memory m = {.job = stage};
    enum sn_status st = SN_OK;
    m.span = sn_alloc_n((size_t)p->n_sched + 1, sizeof(*m.span));
    m.last = sn_alloc_n(slots, sizeof(*m.last));
    m.taken = sn_alloc_n(slots, sizeof(*m.taken));
    m.point = sn_alloc_n(3 * (size_t)p->n_sched + 1, sizeof(*m.point));
    if (!m.span || !m.last || !m.taken || !m.point) {
        st = sn_fail(err, SN_ENOMEM, "simulation: no memory for the memory of stage %d",
                     stage->stage);
        sn_free(m.point);
    } else {
        sn_job_memory(stage, &plan);
        find_spans(&m, s);
        hold(&m, 0, plan.total - plan.library - stage->arena_bytes[SN_ARENA_SCRATCH]);
        find_lasts(&m);
        for (int i = 0; i < p->n_sched; i++)
            run(&m, i);
        *out = m.point;
        *n = m.n;
    }
    sn_free(m.span);
    sn_free(m.last);
    sn_free(m.taken);
    return st;
}
