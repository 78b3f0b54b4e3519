/*
 * sim_stage.c - one pipeline stage of the simulation: its operations, one by one or a segment at a
 * time.
 */
#include "lib/sim/sim_stage.h"

#include "lib/base/mem.h"

#include <math.h>

struct at {
    const struct sn_segment *segment;
    int micro, slot;
};

static bool due(const struct sn_sim_player *g, const struct sn_op *op, int micro)
{
    if (op->extra || (op->when == SN_FIRST && micro != 0)) /* no expert has too many tokens */
        return false;
    if (op->when == SN_LAST && micro != g->job->train.micros - 1)
        return false;
    for (int q = 0; op->only && q < SN_NGROUPS; q++)
        if (op->only >> q & 1u && g->job->group_index[q] != 0)
            return false;
    return true;
}

/* Micro-batch of an event; the update belongs to none. */
static int micro_of(const struct at *at)
{
    return at->segment->kind == SN_SEGMENT_UPDATE ? -1 : at->micro;
}

/* --- events ----------------------------------------------------------------------------------- */

static void record(struct sn_sim_player *g, struct sn_sim_events *to, const struct sn_event *e)
{
    if (!g->records || g->failed)
        return;
    if (sn_grow((void **)&to->event, (int)to->n, &to->cap, sizeof(*to->event)))
        to->event[to->n++] = *e;
    else
        g->failed = true;
}

int64_t sn_sim_bytes(const struct sn_job *j, const struct sn_op *op)
{
    struct sn_communication c;
    if (!sn_op_communication(&c, &j->train, op))
        return 0;
    return sn_collective_bytes(c.kind == SN_RECV ? SN_SEND : c.kind, c.n, c.dtype,
                               j->group_size[op->group], j->group_index[op->group]);
}

static void record_transfer(struct sn_sim_player *g, int micro, const struct sn_op *op,
                            double begin, double end)
{
    if (!g->records)
        return;
    record(g, g->events,
           &(struct sn_event){.kind = SN_EVENT_TRANSFER,
                              .stage = op->kind == SN_OP_RECV ? op->peer : g->job->stage,
                              .vstage = -1,
                              .micro = micro,
                              .axis = sn_group_axis(op->group),
                              .begin = begin,
                              .end = end,
                              .bytes = sn_sim_bytes(g->job, op),
                              .label = op->label});
}

/* Computing stands until `until`; before `from` it is another stage that is late. */
static void stall(struct sn_sim_player *g, const struct at *at, const struct sn_op *op, double from,
                  double until)
{
    struct sn_sim_clock *c = &g->clock;
    if (until <= c->now)
        return;
    double begin = fmin(fmax(from, c->now), until);
    struct sn_event e = {.kind = SN_EVENT_IDLE,
                         .stage = g->job->stage,
                         .vstage = -1,
                         .micro = micro_of(at),
                         .axis = sn_group_axis(op->group),
                         .begin = c->now,
                         .end = begin,
                         .label = op->label};
    if (e.end > e.begin)
        record(g, g->events, &e);
    e.kind = SN_EVENT_WAIT;
    e.begin = begin;
    e.end = until;
    if (e.end > e.begin)
        record(g, g->events, &e);
    c->exposed[e.axis] += until - begin;
    c->now = until;
    if (g->waits)
        g->waits[op - g->job->train.ops].exposed += until - begin;
}

/* --- one operation ---------------------------------------------------------------------------- */

static double *posted_at(const struct sn_sim_board *b, double *side, int tag, int micro)
{
    return &side[(size_t)tag * (size_t)b->micros + (size_t)micro];
}

/* Of a post, to those who record it: micro-batches are behind the operation's number. */
static int64_t id_of(const struct sn_sim_player *g, const struct at *at, int i)
{
    return i + (micro_of(at) + 1) * (int64_t)g->job->train.n_ops;
}

static void has_ended(void *arg, int64_t id, double begin, double end)
{
    struct sn_sim_player *g = arg;
    int i = (int)(id % g->job->train.n_ops), micro = (int)(id / g->job->train.n_ops) - 1;
    g->done[i] = end;
    record_transfer(g, micro, &g->job->train.ops[i], begin, end);
    sn_sim_watch_ended(g, i, begin, end);
}

void sn_sim_player_listen(struct sn_sim_player *g)
{
    g->lanes.ended = has_ended;
    g->lanes.arg = g;
}

static bool is_under_way(struct sn_sim_player *g)
{
    sn_lanes_until(&g->lanes, g->clock.now);
    return g->lanes.busy > 0;
}

/* Seconds in which something is under way, at most so many. */
static double under_way(struct sn_sim_player *g, double most)
{
    double now = g->clock.now, last = now;
    if (!is_under_way(g))
        return 0;
    sn_lanes_until(&g->lanes, now + most);
    for (int k = 0; k < SN_LINK_LANES; k++)
        last = fmax(last, g->lanes.ended_at[k]);
    return g->lanes.busy ? most : last - now;
}

/* A kernel begins when the host has issued it, which runs ahead of it where it can, and lasts
 * longer while a communication thread takes a share of its core. */
static void run_kernel(struct sn_sim_player *g, int i)
{
    struct sn_sim_clock *c = &g->clock;
    double seconds = g->seconds[i], at = c->now;
    double left = 1 - c->share;
    if (c->share > 0 && seconds > 0) {
        double window = under_way(g, seconds / left);
        seconds = window * left < seconds ? seconds + window * c->share : seconds / left;
    }
    c->host += g->host;
    seconds += g->host > 0 && c->host > c->now ? c->host - c->now : 0;
    c->now += seconds;
    c->busy += seconds;
    sn_sim_watch_kernel(g, i, at);
}

/* What needs no other stage, when its lane is free. */
static void run_beside(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    struct sn_sim_clock *c = &g->clock;
    double share = g->share[op->group];
    if (sn_stream_row(sn_op_row(op->kind)->stream)->takes_share)
        c->share = is_under_way(g) ? fmax(share, c->share) : share;
    struct sn_link_post what = {id_of(g, at, i), g->seconds[i], g->use[i]};
    g->done[i] = SN_SIM_NOT_YET;
    if (!sn_lanes_post(&g->lanes, sn_sim_lane(op), c->now, &what))
        g->failed = true;
}

/* When a collective is complete. */
static double end_of(struct sn_sim_player *g, int i)
{
    while (g->done[i] < 0 && sn_lanes_next(&g->lanes))
        continue;
    return g->done[i];
}

/* When a lane, or each of them (ALL_LANES), has done what it has now. */
enum { ALL_LANES = -1 };
static double end_of_lane(struct sn_sim_player *g, int lane)
{
    double last = 0;
    while (lane == ALL_LANES ? g->lanes.busy > 0 : sn_lanes_has(&g->lanes, lane))
        (void)sn_lanes_next(&g->lanes);
    for (int k = 0; k < SN_LINK_LANES; k++)
        if (lane == ALL_LANES || k == lane)
            last = fmax(last, g->lanes.ended_at[k]);
    return last;
}

static void post(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    if (sn_op_is_alone(g->job, op) || g->is_lazy[i])
        return;
    g->clock.host += g->host;
    if (sn_op_is_transfer(op)) {
        struct sn_sim_board *b = g->board;
        double *side = op->kind == SN_OP_SEND ? b->sent : b->received;
        *posted_at(b, side, op->tag, at->micro) = g->clock.now;
        g->micro[g->index[i] + at->slot] = at->micro;
    } else
        run_beside(g, at, i);
}

/* False while the other end has not been posted. */
static bool wait_for_transfer(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    struct sn_sim_board *b = g->board;
    int micro = g->micro[g->index[i] + at->slot];
    if (micro < 0)
        return true; /* the slot's first use */
    double sent = *posted_at(b, b->sent, op->tag, micro);
    double received = *posted_at(b, b->received, op->tag, micro);
    if (sent < 0 || received < 0)
        return false;
    double begin = fmax(sent, received), end = begin + b->seconds[op->tag];
    if (g->waits) { /* between stages: what has passed when it is waited for */
        g->waits[i].message += end - begin;
        g->waits[i].hidden += fmax(0, fmin(end, g->clock.now) - begin);
    }
    if (op->kind == SN_OP_RECV)
        record_transfer(g, micro_of(&(struct at){at->segment, micro, at->slot}), op, begin, end);
    stall(g, at, op, begin, end);
    return true;
}

static bool wait_for(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    if (sn_op_is_alone(g->job, op))
        return true;
    if (sn_op_is_transfer(op))
        return wait_for_transfer(g, at, i);
    if (g->is_lazy[i])
        run_beside(g, at, i);
    stall(g, at, op, g->clock.now, end_of(g, i));
    return true;
}

/* A collective over several stages, from post to wait; false until all have come. */
static bool run_over_stages(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    struct sn_sim_board *b = g->board;
    double *arrived = &b->arrived[(size_t)g->index[i] * (size_t)b->stages];
    double free = end_of_lane(g, op->kind == SN_OP_AGREE ? ALL_LANES : sn_sim_lane(op));
    double ready = fmax(g->clock.now, free), begin = ready;
    arrived[g->job->stage] = ready;
    for (int s = 0; s < b->stages; s++) {
        if (op->group == SN_GROUP_TIED && s != 0 && s != b->stages - 1)
            continue;
        if (arrived[s] < 0)
            return false;
        begin = fmax(begin, arrived[s]);
    }
    g->done[i] = begin + g->seconds[i];
    record_transfer(g, micro_of(at), op, begin, g->done[i]);
    sn_sim_watch_ended(g, i, begin, g->done[i]);
    stall(g, at, op, begin > ready ? begin : g->clock.now, g->done[i]);
    return true;
}

/* False if it cannot be said yet when it ends. */
static bool run_op(struct sn_sim_player *g, const struct at *at, int i)
{
    const struct sn_op *op = &g->job->train.ops[i];
    if (!due(g, op, at->micro))
        return true;
    if (op->kind < SN_NKERNELS)
        run_kernel(g, i);
    else if (sn_sim_spans_stages(g->job, op))
        return run_over_stages(g, at, i);
    else if (op->kind == SN_OP_WAIT)
        return wait_for(g, at, g->index[i]);
    else if (op->kind == SN_OP_AGREE) { /* of one stage: posted and waited for */
        (void)end_of_lane(g, ALL_LANES);
        post(g, at, i);
        return wait_for(g, at, i);
    } else if (sn_op_is_posted(op))
        post(g, at, i);
    return true;
}

/* --- a segment at a time ---------------------------------------------------------------------- */

static void play_body(struct sn_sim_player *g, const struct at *at)
{
    int segment = (int)(at->segment - g->job->train.segments);
    g->clock.host = g->clock.now; /* what it waited for in the head has held the host up, too */
    for (int i = g->head[segment]; i < at->segment->first + at->segment->n; i++)
        (void)run_op(g, at, i); /* nothing here depends on other stages */
}

/* Posts of a body that somebody else waits for. */
static void keep_left(struct sn_sim_player *g, struct sn_sim_run *r, const struct at *at)
{
    const struct sn_program *p = &g->job->train;
    int segment = (int)(at->segment - p->segments);
    r->first_left = g->n_left;
    for (int i = g->head[segment]; i < at->segment->first + at->segment->n; i++) {
        const struct sn_op *op = &p->ops[i];
        if (!sn_op_is_posted(op) || !due(g, op, at->micro) || sn_op_is_alone(g->job, op) ||
            g->is_lazy[i])
            continue;
        double when = sn_op_is_transfer(op)
                          ? *posted_at(g->board, g->board->sent, op->tag, at->micro)
                          : g->done[i];
        if (sn_op_is_transfer(op) || when < 0 || when > r->end.now) /* else it needs no wait */
            g->left[g->n_left++] = (struct sn_sim_left){i, when};
    }
    r->n_left = g->n_left - r->first_left;
}

/* What was posted before a run, in its head or an earlier one, has ended, or the run would be played
 * as it is: by a clock that begins with it, at its begin. */
static void forget_ends(struct sn_sim_player *g)
{
    for (int i = 0; i < g->job->train.n_ops; i++)
        g->done[i] = fmin(g->done[i], 0);
}

/* Play it at time 0 with free streams and keep what came of it. */
static void memoize(struct sn_sim_player *g, struct sn_sim_run *r, const struct at *at)
{
    struct sn_sim_clock now = g->clock;
    struct sn_lanes lanes = g->lanes;
    g->clock = (struct sn_sim_clock){0};
    g->lanes = (struct sn_lanes){0};
    sn_sim_player_listen(g);
    forget_ends(g);
    g->events = &g->model;
    r->first_event = g->model.n;
    play_body(g, at);
    r->n_events = g->model.n - r->first_event;
    r->end = g->clock;
    r->lanes = g->lanes;
    r->known = true;
    keep_left(g, r, at);
    g->events = &g->recorded;
    g->clock = now;
    g->lanes = lanes;
}

/* What is under way at the end of a run that begins now, of this micro-batch. */
static void take_over(struct sn_sim_player *g, const struct sn_sim_run *r, const struct at *at,
                      double begin)
{
    if (!sn_lanes_copy(&g->lanes, &r->lanes, begin)) {
        g->failed = true;
        return;
    }
    for (int k = 0; k < g->lanes.n; k++) {
        int64_t *id = &g->lanes.post[k].what.id;
        *id = id_of(g, at, (int)(*id % g->job->train.n_ops));
    }
}

static void replay(struct sn_sim_player *g, const struct sn_sim_run *r, const struct at *at)
{
    struct sn_sim_clock *c = &g->clock;
    double begin = c->now;
    for (int k = r->first_left; k < r->first_left + r->n_left; k++) {
        const struct sn_sim_left *l = &g->left[k];
        const struct sn_op *op = &g->job->train.ops[l->op];
        if (op->kind == SN_OP_SEND) {
            *posted_at(g->board, g->board->sent, op->tag, at->micro) = begin + l->at;
            g->micro[g->index[l->op] + at->slot] = at->micro;
        } else
            g->done[l->op] = l->at < 0 ? SN_SIM_NOT_YET : begin + l->at;
    }
    for (int64_t k = r->first_event; g->records && k < r->first_event + r->n_events; k++) {
        struct sn_event e = g->model.event[k];
        e.begin += begin;
        e.end += begin;
        e.micro = micro_of(at);
        record(g, &g->recorded, &e);
    }
    c->now = begin + r->end.now;
    take_over(g, r, at, begin);
    c->share = r->end.share;
    c->host = begin + r->end.host;
    c->busy += r->end.busy;
    for (int a = 0; a < SN_NAXES; a++)
        c->exposed[a] += r->end.exposed[a];
}

static void run_body(struct sn_sim_player *g, const struct at *at)
{
    int micro = at->micro, last = g->job->train.micros - 1;
    int segment = (int)(at->segment - g->job->train.segments);
    struct sn_sim_run *r = &g->run[segment * SN_SIM_WAYS + (micro == 0) + 2 * (micro == last)];
    if (g->waits || is_under_way(g)) {
        play_body(g, at); /* what it posts has to wait for what came before */
        return;
    }
    if (!r->known)
        memoize(g, r, at);
    if (!g->failed)
        replay(g, r, at);
}

static void record_segment(struct sn_sim_player *g, const struct at *at, double begin)
{
    static const enum sn_event_kind kind[] = {[SN_SEGMENT_FORWARD] = SN_EVENT_FORWARD,
                                              [SN_SEGMENT_BACKWARD] = SN_EVENT_BACKWARD,
                                              [SN_SEGMENT_INPUT_GRAD] = SN_EVENT_BACKWARD,
                                              [SN_SEGMENT_WEIGHT_GRAD] = SN_EVENT_WEIGHT,
                                              [SN_SEGMENT_UPDATE] = SN_EVENT_UPDATE};
    bool receives = at->segment->kind < SN_SEGMENT_FORWARD,
         updates = at->segment->kind == SN_SEGMENT_UPDATE;
    if (!receives)
        record(g, &g->recorded,
               &(struct sn_event){.kind = kind[at->segment->kind],
                                  .stage = g->job->stage,
                                  .vstage = updates ? -1 : at->segment->scope.virtual_stage,
                                  .micro = micro_of(at),
                                  .entry = g->entry,
                                  .begin = begin,
                                  .end = g->clock.now,
                                  .label = ""});
}

bool sn_sim_player_is_done(const struct sn_sim_player *g)
{
    return g->entry == g->job->train.n_sched;
}

bool sn_sim_player_advance(struct sn_sim_player *g)
{
    const struct sn_program *p = &g->job->train;
    int entry = g->entry, op = g->op;
    for (; !sn_sim_player_is_done(g) && !g->failed; g->entry++, g->op = 0) {
        const struct sn_sched *s = &p->sched[g->entry];
        struct at at = {&p->segments[s->segment], s->micro, s->slot};
        bool updates = at.segment->kind == SN_SEGMENT_UPDATE;
        if (g->op == 0) {
            g->segment_begin = g->clock.now;
            g->busy_before = g->clock.busy;
        }
        bool is_piece = s->n < at.segment->n;
        int head = is_piece ? s->n : g->head[s->segment] - s->first;
        for (; g->op < head; g->op++)
            if (!run_op(g, &at, s->first + g->op))
                return g->entry != entry || g->op != op;
        double begin = updates || is_piece ? g->segment_begin : g->clock.now;
        if (head < s->n)
            run_body(g, &at);
        record_segment(g, &at, begin);
        if (updates)
            g->update = g->clock.busy - g->busy_before;
    }
    if (sn_sim_player_is_done(g))
        sn_sim_watch_done(g);
    return g->entry != entry || g->op != op;
}
