/*
 * sim_memory.c - what a stage holds over a simulated step.
 *
 * A slot is taken when the receive of its forward is posted, or else the forward begins, and given
 * back with its last gradients; a late copy lasts from the input gradients to the weight gradients.
 */
#include "lib/sim/sim.h"

#include "lib/base/mem.h"

struct span {
    double begin, end;
};

struct memory {
    const struct sn_job *job;
    struct span *span; /* [kinds x parts x micros] of chunks */
    bool *taken;       /* [parts x micros] slots, by the micro-batch that is in one */
    struct sn_memory_point *point;
    int n;
    int64_t held;
    double now;
};

static size_t place_of(const struct memory *m, int part, int micro)
{
    return (size_t)part * (size_t)m->job->train.micros + (size_t)micro;
}

static struct span *span_of(const struct memory *m, enum sn_event_kind kind, int part, int micro)
{
    size_t each = (size_t)m->job->train.parts * (size_t)m->job->train.micros;
    return &m->span[(size_t)kind * each + place_of(m, part, micro)];
}

/* From `time` on `bytes` more (or fewer) are held. */
static void hold(struct memory *m, double time, int64_t bytes)
{
    m->held += bytes;
    if (m->n > 0 && m->point[m->n - 1].time == time)
        m->n--;
    m->point[m->n++] = (struct sn_memory_point){time, m->held};
}

static void take_slot(struct memory *m, int part, int micro, double time)
{
    bool *taken = &m->taken[place_of(m, part, micro)];
    if (!*taken)
        hold(m, time, m->job->train.slot_bytes[part]);
    *taken = true;
}

static enum sn_event_kind kind_of(enum sn_chunk_kind k)
{
    switch (k) {
    case SN_CHUNK_FORWARD:
        return SN_EVENT_FORWARD;
    case SN_CHUNK_WEIGHT_GRAD:
        return SN_EVENT_WEIGHT;
    case SN_CHUNK_UPDATE:
        return SN_EVENT_UPDATE;
    default:
        return SN_EVENT_BACKWARD;
    }
}

static void walk(struct memory *m)
{
    const struct sn_program *p = &m->job->train;
    int64_t while_running = p->temp_bytes + p->workspace_bytes;
    bool splits = false;
    for (int c = 0; c < p->n_chunks; c++)
        splits = splits || p->chunks[c].kind == SN_CHUNK_WEIGHT_GRAD;
    for (int i = 0; i < p->n_sched; i++) {
        const struct sn_sched *s = &p->sched[i];
        const struct sn_chunk *c = &p->chunks[s->chunk];
        bool updates = c->kind == SN_CHUNK_UPDATE;
        if (c->kind == SN_CHUNK_RECV_FORWARD)
            take_slot(m, c->part, s->micro, m->now);
        if (c->kind < SN_CHUNK_FORWARD)
            continue;
        struct span at =
            *span_of(m, kind_of(c->kind), updates ? 0 : c->part, updates ? 0 : s->micro);
        if (c->kind == SN_CHUNK_FORWARD)
            take_slot(m, c->part, s->micro, at.begin);
        bool first_half = c->kind == SN_CHUNK_INPUT_GRAD,
             second_half = c->kind == SN_CHUNK_WEIGHT_GRAD;
        hold(m, at.begin, while_running + (first_half ? p->late_bytes[c->part] : 0));
        int64_t given = while_running + (second_half ? p->late_bytes[c->part] : 0);
        if (second_half || (!splits && c->kind == SN_CHUNK_BACKWARD))
            given += p->slot_bytes[c->part];
        hold(m, at.end, -given);
        m->now = at.end;
    }
}

static void find_spans(struct memory *m, const struct sn_sim *s)
{
    for (int64_t i = 0; i < s->n_events; i++) {
        const struct sn_event *e = &s->event[i];
        if (e->stage == m->job->stage && e->kind <= SN_EVENT_UPDATE)
            *span_of(m, e->kind, e->part < 0 ? 0 : e->part, e->micro < 0 ? 0 : e->micro) =
                (struct span){e->begin, e->end};
    }
}

enum sn_status sn_sim_memory(struct sn_memory_point **out, int *n, const struct sn_sim *s,
                             const struct sn_job *stage, struct sn_err *err)
{
    const struct sn_program *p = &stage->train;
    size_t tasks = (size_t)p->parts * (size_t)p->micros;
    struct sn_memory_plan plan;
    struct memory m = {.job = stage};
    enum sn_status st = SN_OK;
    m.span = sn_alloc_n((SN_EVENT_UPDATE + 1) * tasks, sizeof(*m.span));
    m.taken = sn_alloc_n(tasks, sizeof(*m.taken));
    m.point = sn_alloc_n(3 * (size_t)p->n_sched + 1, sizeof(*m.point));
    if (!m.span || !m.taken || !m.point) {
        st = sn_fail(err, SN_ENOMEM, "simulation: no memory for the memory of stage %d",
                     stage->stage);
        sn_free(m.point);
    } else {
        sn_job_memory(stage, &plan);
        find_spans(&m, s);
        hold(&m, 0, plan.total - plan.library - stage->arena_bytes[SN_ARENA_SCRATCH]);
        walk(&m);
        *out = m.point;
        *n = m.n;
    }
    sn_free(m.span);
    sn_free(m.taken);
    return st;
}
