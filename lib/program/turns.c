/*
 * turns.c - a forward and a backward segment that take turns, so that the messages of one are under
 * way while the other computes.
 *
 * In the steady state of a schedule that takes turns (pipeline_schedule.h) the forward of one
 * micro-batch and the backward of another stand beside each other and need nothing of each other
 * (combined 1F1B of Megatron-LM; DualPipe, arXiv 2412.19437, section 3.2.1). Each keeps the order
 * of its own operations, which order.c has found; here it is cut in pieces, and the schedule has
 * the pieces of both in turn, each with the micro-batch and the slot of its segment. So whoever
 * reads the schedule (executor, simulator, verifier, printer) needs to know nothing else, and a sum
 * has the terms and the order that it has without: the same bits.
 *
 * Turns change where a message is waited for, and behind what has been posted. Of all ways to do so
 * the one is looked for that ends first by the clock of order.c: dynamic programming over how far
 * both sides are. Of the ways to get equally far those are kept that no other beats in every
 * respect, few in a long text, many in a short one: those with the least time, counted until one of
 * the sides can go on, and with a share of what is still under way, which the way that is ahead may
 * have to pay for later. No side gets further ahead of the other than BAND units.
 *
 * Weights are read by both. Where one side writes state that the other touches the order of the
 * schedule stays: backward waits for the last such operation of forward.
 */
#include "lib/program/build.h"

#include "lib/base/mem.h"

#include <math.h>
#include <string.h>

enum { FORWARD, BACKWARD, SIDES };
enum {
    BAND = 48,
    PLACES = 2 * BAND + 2, /* how far forward may be at a sum of units, from the lowest on */
    UNDER_WAY = 16, /* messages of a side whose ends are kept: waits for older ones are over */
    KEPT = 16,      /* ways to get equally far, at most */
    WORK = 4096     /* and times the units of a text */
};
static const double TURN = 1e-6;   /* seconds that a turn has to win */
static const double BACKLOG = 0.2; /* seconds that a second of messages under way counts for */

/* What runs without a turn: a wait, a kernel, and what is posted behind it. */
struct unit {
    int first, n;       /* operations */
    int waits_for;      /* message of its side; -1 */
    double seconds;     /* of computing */
    int message, posts; /* the first that it posts, and how many */
    int after;          /* backward: units of forward that have to have run */
};

struct message {
    int stream;
    double seconds;
};

struct side {
    int segment;
    struct unit *unit;
    struct message *message;
    int n, n_messages;
};

/* Where one way stands. */
struct way {
    double now, free[SN_NCLOCKS];
    double done[SIDES][UNDER_WAY]; /* by message, in turn */
    double cost;                   /* by which ways are compared */
    int last, turns;               /* whose turn it was; how many there were */
};

/* The ways to one place, in no order. */
struct place {
    struct way *way; /* [kept] */
    int n;
};

struct turns {
    const struct sn_job *job;
    const struct sn_program *p;
    struct side side[SIDES];
    int *number;                   /* by operation: of the message that it posts; -1 */
    int *last;                     /* by state buffer: the forward operation to wait for; -1 */
    struct place place[2][PLACES]; /* at this sum of units, and the next */
    struct way *ways;              /* of all places */
    int kept;
    short *taken; /* [sums x PLACES x kept] whose unit came last, and 2 x which way it was before */
};

/* --- what both touch -------------------------------------------------------------------------- */

typedef void on_state(struct turns *t, int op, int buf, int by);
enum { READS = 1, WRITES = 4 }; /* of forward; of backward << 1 */

static bool is_conflict(const struct turns *t, int buf)
{
    return buf >= 0 && buf < t->p->n_state_bufs;
}

static void for_operands(struct turns *t, int at, const struct sn_op *op, on_state *call)
{
    for (int k = 0; k < SN_MAX_IN; k++)
        if (is_conflict(t, op->in[k].buf))
            call(t, at, op->in[k].buf, READS);
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (is_conflict(t, op->out[k].buf))
            call(t, at, op->out[k].buf, WRITES);
}

/* A WAIT ends what its message does. No backward can stand beside the forward of the first micro-batch. */
static void for_state(struct turns *t, const struct sn_segment *s, on_state *call)
{
    for (int i = s->first; i < s->first + s->n; i++) {
        const struct sn_op *op = &t->p->ops[i];
        op = op->kind == SN_OP_WAIT ? sn_op_find(t->p, op->waits_for) : op;
        if (op->when != SN_FIRST)
            for_operands(t, i, op, call);
    }
}

static const struct sn_segment *segment_of(const struct turns *t, int side)
{
    return &t->p->segments[t->side[side].segment];
}

static void mark_forward(struct turns *t, int op, int buf, int by)
{
    (void)op;
    t->last[buf] |= by;
}

static void mark_backward(struct turns *t, int op, int buf, int by)
{
    (void)op;
    t->last[buf] |= by << 1;
}

static void keep_last(struct turns *t, int op, int buf, int by)
{
    (void)by;
    if (t->last[buf] >= 0)
        t->last[buf] = op;
}

static int unit_of(const struct side *s, int op)
{
    int u = 0;
    while (u + 1 < s->n && s->unit[u + 1].first <= op)
        u++;
    return u;
}

/* Backward's first unit with the operation, and so those behind it, comes after forward's. */
static void hold_back(struct turns *t, int op, int buf, int by)
{
    struct side *b = &t->side[BACKWARD];
    (void)by;
    if (t->last[buf] < 0)
        return;
    int *after = &b->unit[unit_of(b, op)].after,
        least = 1 + unit_of(&t->side[FORWARD], t->last[buf]);
    *after = *after < least ? least : *after;
}

static void find_conflicts(struct turns *t)
{
    const int both = READS | WRITES;
    memset(t->last, 0, (size_t)t->p->n_state_bufs * sizeof(*t->last));
    for_state(t, segment_of(t, FORWARD), mark_forward);
    for_state(t, segment_of(t, BACKWARD), mark_backward);
    for (int b = 0; b < t->p->n_state_bufs; b++) {
        int forward = t->last[b] & both, backward = (t->last[b] >> 1) & both;
        t->last[b] = forward && backward && ((forward | backward) & WRITES) ? 0 : -1;
    }
    for_state(t, segment_of(t, FORWARD), keep_last);
    for_state(t, segment_of(t, BACKWARD), hold_back);
}

/* --- units ------------------------------------------------------------------------------------ */

static bool posts_message(const struct turns *t, int i)
{
    const struct sn_op *op = &t->p->ops[i];
    return !op->extra && sn_op_is_posted(op) && !sn_op_is_transfer(op) &&
           sn_op_meets_others(t->job, op);
}

/* The message of this side that an operation waits for; -1. */
static int waits_for(const struct turns *t, const struct side *s, int i)
{
    const struct sn_segment *c = &t->p->segments[s->segment];
    const struct sn_op *op = &t->p->ops[i];
    if (op->kind != SN_OP_WAIT || op->extra)
        return -1;
    int post = t->p->op_of_id[op->waits_for];
    return post >= c->first && post < i ? t->number[post] : -1;
}

static void add_to_unit(struct turns *t, struct side *s, struct unit *u, int i)
{
    const struct sn_op *op = &t->p->ops[i];
    u->n++;
    u->seconds += op->when == SN_EVERY ? sn_order_kernel(t->job, t->p, op) : 0;
    t->number[i] = -1;
    if (!posts_message(t, i))
        return;
    t->number[i] = s->n_messages;
    s->message[s->n_messages++] = (struct message){
        sn_op_clock(op), op->when == SN_EVERY ? sn_order_message(t->job, t->p, op) : 0};
    u->posts++;
}

static void cut(struct turns *t, struct side *s)
{
    const struct sn_segment *c = &t->p->segments[s->segment];
    for (int i = c->first; i < c->first + c->n; i++) {
        struct unit *u = s->n ? &s->unit[s->n - 1] : NULL;
        int message = waits_for(t, s, i);
        bool goes_on = u && t->p->ops[i].extra && t->p->ops[i - 1].extra;
        bool computes = sn_order_kernel(t->job, t->p, &t->p->ops[i]) > 0;
        bool posts = posts_message(t, i);
        bool begins = !u || message >= 0 || posts || u->posts || (computes && u->seconds > 0);
        if (begins && !goes_on) {
            u = &s->unit[s->n++];
            *u = (struct unit){.first = i, .waits_for = message, .message = s->n_messages};
        }
        add_to_unit(t, s, u, i);
    }
}

/* --- ways ------------------------------------------------------------------------------------- */

/* When what a unit waits for has come. */
static double message_end(const struct way *w, int side, const struct unit *u)
{
    bool kept = u->waits_for >= 0 && u->waits_for > u->message - UNDER_WAY;
    return kept ? w->done[side][u->waits_for % UNDER_WAY] : 0;
}

static void run(const struct turns *t, struct way *w, int side, int k)
{
    const struct side *s = &t->side[side];
    const struct unit *u = &s->unit[k];
    w->now = fmax(w->now, message_end(w, side, u)) + u->seconds;
    for (int m = u->message; m < u->message + u->posts; m++) {
        double *stream = &w->free[s->message[m].stream];
        *stream = fmax(*stream, w->now) + s->message[m].seconds;
        w->done[side][m % UNDER_WAY] = *stream;
    }
}

/* How far forward is at least where `sum` units have run: on the line from none to all, less BAND.
 */
static int lowest(const struct turns *t, int sum)
{
    int64_t f = t->side[FORWARD].n, b = t->side[BACKWARD].n;
    return (int)(sum * f / (f + b)) - BAND;
}

/* How long both sides would stand: what is lost already, whoever goes on. */
static double standing(const struct turns *t, const struct way *w, int sum, int forward)
{
    double least = INFINITY;
    for (int k = 0; k < SIDES; k++) {
        const struct side *s = &t->side[k];
        int done = k == FORWARD ? forward : sum - forward;
        if (done < s->n)
            least = fmin(least, fmax(0, message_end(w, k, &s->unit[done]) - w->now));
    }
    return least < INFINITY ? least : 0;
}

/* Seconds of messages that are still to be moved. */
static double backlog(const struct way *w)
{
    double seconds = 0;
    for (int s = SN_STREAM_COMPUTE + 1; s < SN_NCLOCKS; s++)
        seconds += fmax(0, w->free[s] - w->now);
    return seconds;
}

/* Is a, wherever it goes, never later than b? */
static bool beats(const struct way *a, const struct way *b)
{
    if (a->now > b->now || a->turns > b->turns + 1)
        return false;
    for (int s = SN_STREAM_COMPUTE + 1; s < SN_NCLOCKS; s++)
        if (a->free[s] > fmax(b->free[s], b->now))
            return false;
    for (int k = 0; k < SIDES; k++)
        for (int m = 0; m < UNDER_WAY; m++)
            if (a->done[k][m] > fmax(b->done[k][m], b->now))
                return false;
    return true;
}

/* Where among those of its place a new way goes; -1: nowhere. */
static int room(const struct turns *t, const struct place *at, const struct way *x)
{
    int worst = 0;
    for (int w = 0; w < at->n; w++) {
        if (beats(&at->way[w], x))
            return -1;
        if (beats(x, &at->way[w]))
            return w;
        worst = at->way[w].cost > at->way[worst].cost ? w : worst;
    }
    if (at->n < t->kept)
        return at->n;
    return x->cost < at->way[worst].cost ? worst : -1;
}

static short *taken_at(const struct turns *t, int sum, int place, int way)
{
    return &t->taken[((size_t)sum * PLACES + (size_t)place) * (size_t)t->kept + (size_t)way];
}

static void step(struct turns *t, int sum, int side, int forward)
{
    const struct place *from = &t->place[sum & 1][forward - lowest(t, sum)];
    int done = side == FORWARD ? forward : sum - forward, to = forward + (side == FORWARD);
    int place = to - lowest(t, sum + 1);
    const struct side *s = &t->side[side];
    if (done == s->n || place < 0 || place >= PLACES || s->unit[done].after > forward)
        return;
    struct place *at = &t->place[(sum + 1) & 1][place];
    for (int w = 0; w < from->n; w++) {
        struct way next = from->way[w];
        run(t, &next, side, done);
        next.turns += side != next.last;
        next.cost = next.now + standing(t, &next, sum + 1, to) + BACKLOG * backlog(&next) +
                    TURN * next.turns;
        next.last = side;
        int k = room(t, at, &next);
        if (k < 0)
            continue;
        at->way[k] = next;
        at->n += k == at->n;
        *taken_at(t, sum + 1, place, k) = (short)(2 * w + side);
    }
}

static void find_ways(struct turns *t)
{
    int all = t->side[FORWARD].n + t->side[BACKWARD].n;
    struct place *first = &t->place[0][-lowest(t, 0)];
    first->way[0] = (struct way){.last = BACKWARD};
    first->n = 1;
    for (int sum = 0; sum < all; sum++) {
        for (int k = 0; k < PLACES; k++)
            t->place[(sum + 1) & 1][k].n = 0;
        for (int k = 0; k < PLACES; k++)
            for (int side = 0; side < SIDES && t->place[sum & 1][k].n; side++)
                step(t, sum, side, k + lowest(t, sum));
    }
}

/* The end; NULL: nobody gets there. */
static const struct place *end_of(const struct turns *t)
{
    int all = t->side[FORWARD].n + t->side[BACKWARD].n;
    const struct place *at = &t->place[all & 1][t->side[FORWARD].n - lowest(t, all)];
    return at->n ? at : NULL;
}

/* Which of its ways is the earliest. */
static int earliest(const struct place *at)
{
    int best = 0;
    for (int w = 1; w < at->n; w++)
        best = at->way[w].now < at->way[best].now ? w : best;
    return best;
}

/* --- pieces ----------------------------------------------------------------------------------- */

static bool add_piece(struct sn_turns *out, int segment, int first, int n)
{
    struct sn_piece *last = out->n ? &out->piece[out->n - 1] : NULL;
    if (last && last->segment == segment) {
        last->n += n;
        return true;
    }
    if (!sn_grow((void **)&out->piece, out->n, &out->cap, sizeof(*out->piece)))
        return false;
    out->piece[out->n++] = (struct sn_piece){segment, first, n};
    return true;
}

/* From the end of the best way back; `order` is room for whose turn each unit is. */
static bool write_pieces(struct sn_turns *out, const struct turns *t, signed char *order)
{
    int all = t->side[FORWARD].n + t->side[BACKWARD].n, at[SIDES] = {0};
    for (int sum = all, forward = t->side[FORWARD].n, way = earliest(end_of(t)); sum > 0; sum--) {
        int taken = *taken_at(t, sum, forward - lowest(t, sum), way);
        order[sum - 1] = (signed char)(taken % 2);
        forward -= order[sum - 1] == FORWARD;
        way = taken / 2;
    }
    for (int k = 0; k < all; k++) {
        const struct side *s = &t->side[order[k]];
        const struct unit *u = &s->unit[at[order[k]]++];
        if (!add_piece(out, s->segment, u->first, u->n))
            return false;
    }
    return true;
}

static bool write_whole(struct sn_turns *out, const struct turns *t)
{
    for (int k = 0; k < SIDES; k++)
        if (!add_piece(out, t->side[k].segment, segment_of(t, k)->first, segment_of(t, k)->n))
            return false;
    return true;
}

/* One side after the other. */
static double whole(const struct turns *t)
{
    struct way w = {0};
    for (int side = 0; side < SIDES; side++)
        for (int k = 0; k < t->side[side].n; k++)
            run(t, &w, side, k);
    return w.now;
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool turns_init(struct turns *t, const int segment[2])
{
    const struct sn_program *p = t->p;
    bool good = true;
    t->number = sn_alloc_n((size_t)p->n_ops + 1, sizeof(*t->number));
    t->last = sn_alloc_n((size_t)p->n_state_bufs + 1, sizeof(*t->last));
    for (int k = 0; k < SIDES; k++) {
        size_t ops = (size_t)p->segments[segment[k]].n + 1;
        struct side *s = &t->side[k];
        *s = (struct side){.segment = segment[k]};
        s->unit = sn_alloc_n(ops, sizeof(*s->unit));
        s->message = sn_alloc_n(ops, sizeof(*s->message));
        good = good && s->unit && s->message;
    }
    return good && t->number && t->last;
}

static void turns_fini(struct turns *t)
{
    for (int k = 0; k < SIDES; k++) {
        sn_free(t->side[k].unit);
        sn_free(t->side[k].message);
    }
    sn_free(t->ways);
    sn_free(t->number);
    sn_free(t->last);
    sn_free(t->taken);
}

/* Room for the ways, once the units are known. */
static bool ways_init(struct turns *t)
{
    int all = t->side[FORWARD].n + t->side[BACKWARD].n, kept = WORK / (all + 1);
    t->kept = kept < 1 ? 1 : kept > KEPT ? KEPT : kept;
    t->ways = sn_alloc_n((size_t)2 * PLACES * (size_t)t->kept, sizeof(*t->ways));
    t->taken = sn_alloc_n(((size_t)all + 1) * PLACES * (size_t)t->kept, sizeof(*t->taken));
    for (int k = 0; k < 2 * PLACES && t->ways; k++)
        t->place[k / PLACES][k % PLACES].way = t->ways + (size_t)k * (size_t)t->kept;
    return t->ways && t->taken;
}

static bool look(struct sn_turns *out, struct turns *t)
{
    cut(t, &t->side[FORWARD]);
    cut(t, &t->side[BACKWARD]);
    find_conflicts(t);
    signed char *order = sn_alloc_n((size_t)(t->side[FORWARD].n + t->side[BACKWARD].n) + 1, 1);
    bool good = order && ways_init(t);
    if (good) {
        find_ways(t);
        const struct place *end = end_of(t);
        bool wins = end && end->way[earliest(end)].now < whole(t);
        good = wins ? write_pieces(out, t, order) : write_whole(out, t);
    }
    sn_free(order);
    return good;
}

bool sn_turns_find(struct sn_turns *out, const struct sn_job *j, const struct sn_program *p,
                   const int segment[2])
{
    struct turns *t = sn_alloc(sizeof(*t));
    *out = (struct sn_turns){0};
    if (!t)
        return false;
    t->job = j;
    t->p = p;
    bool good = turns_init(t, segment) && look(out, t);
    turns_fini(t);
    sn_free(t);
    return good;
}
