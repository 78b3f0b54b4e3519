/*
 * order_find.c - an order of a segment's operations, by list scheduling against a clock.
 *
 * Of what may come next that comes which posts a message; then what need not be waited for; then what
 * has the longest way to the end. Where computing would stand, what fits the gap best comes before what
 * is longer, which is left for longer gaps, and a gap that is short beside all that could fill it is waited
 * for. As short texts allow more tries, other orders are looked for without that, with gathers of weights that
 * are posted no earlier than in the text, with
 * ranks off the longest way, with posts that wait for their turn and waits that do not, and in very
 * short ones single operations are moved. Where micro-batches differ an order is looked for by the mean, by the first and by the last
 * one, and judged by all of them. The best by the clock is taken: of 200 programs of 14
 * operations none takes longer than the best of all orders (tests/unit/program/test_order_best.c).
 */
#include "lib/program/order_inner.h"

#include "lib/base/rng.h"

#include <math.h>

static const double SLACK = 1;
enum {
    AHEAD = 512, /* nodes of the text that are looked at: some layers */
    TRIES = 512, /* orders that are looked for, at most; */
    WORK = 8192, /* and over the nodes of a text */
    SHORT = 16   /* nodes of a text in which single ones are moved, too */
};

/* --- seconds by which orders are weighed: the rates of the named machine (sn_overlap_rates) ------- */

bool sn_order_is_weighed(const struct sn_job *j)
{
    return j->config->layout.overlap != SN_OVERLAP_NONE && j->config->overlap_rates.flops > 0;
}

bool sn_takes_turns(const struct sn_job *j)
{
    const struct sn_layout_config *l = &j->config->layout;
    return sn_schedule_traits(l->schedule)->takes_turns && !l->split_backward &&
           sn_order_is_weighed(j);
}

/* Of attention by its shape: where its keys begin differs between context ranks. */
static double flops_of(const struct sn_op *op)
{
    int64_t mnk[3];
    if (sn_op_row(op->kind)->cost != SN_COST_ATTENTION)
        return sn_op_flops(op);
    sn_op_shape(op, mnk);
    return 2.0 * (double)mnk[0] * (double)mnk[1] * (double)mnk[2];
}

double sn_order_kernel(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_overlap_rates *r = &j->config->overlap_rates;
    if (op->kind >= SN_NKERNELS || op->extra)
        return 0;
    return fmax(flops_of(op) / r->flops, (double)sn_op_bytes(p, op) / r->bytes);
}

double sn_order_message(const struct sn_job *j, const struct sn_program *p, const struct sn_op *op)
{
    const struct sn_overlap_rates *r = &j->config->overlap_rates;
    struct sn_communication c;
    if (sn_op_is_transfer(op) || !sn_op_communication(&c, p, op))
        return 0;
    int64_t bytes = sn_collective_bytes(c.kind, c.n, c.dtype, j->group_size[op->group], 0);
    return r->start[op->group] + (double)bytes / r->link[op->group];
}

struct sn_link_use sn_order_use(const struct sn_job *j, const struct sn_program *p,
                                const struct sn_op *op)
{
    const struct sn_overlap_rates *r = &j->config->overlap_rates;
    double all = sn_order_message(j, p, op), start = r->start[op->group];
    struct sn_link_use use = {.messages = r->messages[op->group]};
    for (int i = 0; i < SN_LINK_LEVELS && all > start; i++)
        use.of[i] = r->busy[op->group][i] * (float)((all - start) / all);
    return use;
}

static double share_of(const struct sn_ordering *o, const struct sn_order_node *x)
{
    static const enum sn_when only[] = {
        [SN_ORDER_FIRST] = SN_FIRST, [SN_ORDER_LAST] = SN_LAST, [SN_ORDER_BETWEEN] = SN_EVERY};
    if (x->when == SN_EVERY)
        return 1;
    return o->rule.scene == SN_ORDER_MEAN ? 1.0 / o->p->micros : x->when == only[o->rule.scene];
}

void sn_order_set_scene(struct sn_ordering *o, enum sn_order_scene scene)
{
    o->rule.scene = scene;
    for (int i = 0; i < o->n; i++) {
        struct sn_order_node *x = &o->node[i];
        double share = share_of(o, x);
        x->seconds = share * x->kernel;
        x->message = share * x->whole;
    }
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Local buffers of all nodes, each as often as operands show it. */
static void list_buffers(struct sn_ordering *o)
{
    int n = 0, here = (int)(o->segment - o->p->segments);
    for (int b = 0; b < o->p->n_bufs; b++)
        o->use[b] = (struct sn_order_use){.bytes = o->p->bufs[b].bytes,
                                          .is_local = b >= o->p->n_state_bufs &&
                                                      !o->p->bufs[b].kept && o->home[b] == here};
    for (int i = 0; i < o->n; i++) {
        struct sn_order_node *x = &o->node[i];
        x->touches = n;
        for (int k = 0; k < x->n * (SN_MAX_IN + SN_MAX_OUT); k++) {
            const struct sn_op *op = &o->p->ops[x->first + k / (SN_MAX_IN + SN_MAX_OUT)];
            int at = k % (SN_MAX_IN + SN_MAX_OUT);
            int buf = at < SN_MAX_IN ? op->in[at].buf : op->out[at - SN_MAX_IN].buf;
            if (buf >= 0 && o->use[o->alias[buf]].is_local)
                o->touched[n++] = o->alias[buf];
        }
        x->n_touches = n - x->touches;
    }
    o->n_touched = n;
}

static void count_uses(struct sn_ordering *o)
{
    for (int k = 0; k < o->n_touched; k++) {
        o->use[o->touched[k]].left = 0;
        o->use[o->touched[k]].is_live = false;
    }
    for (int k = 0; k < o->n_touched; k++)
        o->use[o->touched[k]].left++;
}

static void take(struct sn_ordering *o, const struct sn_order_node *x)
{
    for (int k = x->touches; k < x->touches + x->n_touches; k++) {
        struct sn_order_use *use = &o->use[o->touched[k]];
        o->clock.live += use->is_live ? 0 : use->bytes;
        use->is_live = true;
    }
}

static void give_back(struct sn_ordering *o, const struct sn_order_node *x)
{
    for (int k = x->touches; k < x->touches + x->n_touches; k++) {
        struct sn_order_use *use = &o->use[o->touched[k]];
        o->clock.live -= --use->left == 0 ? use->bytes : 0;
    }
}

/* --- the clock -------------------------------------------------------------------------------- */

static void is_done(void *arg, int64_t node, double begin, double end)
{
    struct sn_ordering *o = arg;
    (void)begin;
    o->node[node].done = end;
}

/* A message is under way, beside others that it may share links with: until when all of them are, by now. */
static void post(struct sn_ordering *o, int node)
{
    struct sn_order_node *x = &o->node[node];
    struct sn_link_post what = {.id = node, .seconds = x->message, .use = x->use};
    int lane = x->stream < SN_CLOCK_QUEUE ? (int)SN_LINK_RINGS : x->stream - SN_CLOCK_QUEUE;
    x->done = o->clock.now;
    if (x->message <= 0)
        return;
    sn_lanes_clear(&o->ahead);
    if (!sn_lanes_post(&o->links, lane, o->clock.now, &what) ||
        !sn_lanes_copy(&o->ahead, &o->links, 0)) {
        o->failed = true;
        return;
    }
    while (sn_lanes_next(&o->ahead))
        continue;
}

static void place(struct sn_ordering *o, int node)
{
    struct sn_order_clock *c = &o->clock;
    struct sn_order_node *x = &o->node[node];
    take(o, x);
    c->peak = c->live > c->peak ? c->live : c->peak;
    give_back(o, x);
    c->now += x->seconds;
    if (x->is_wait && x->posted >= 0)
        c->now = fmax(c->now, o->node[x->posted].done);
    if (x->stream != SN_STREAM_COMPUTE)
        post(o, node);
    else if (node >= c->reach)
        c->reach = node + 1;
    x->is_placed = true;
}

static void start_clock(struct sn_ordering *o)
{
    o->clock = (struct sn_order_clock){0};
    sn_lanes_clear(&o->links);
    o->links.ended = o->ahead.ended = is_done;
    o->links.arg = o->ahead.arg = o;
    count_uses(o);
}

/* The order that was found, in this scene. */
static double play(struct sn_ordering *o)
{
    start_clock(o);
    for (int n = 0; n < o->n; n++)
        place(o, o->found[n]);
    return o->clock.now;
}

/* In the mean of all micro-batches, each played by itself. */
static double play_scenes(struct sn_ordering *o)
{
    enum sn_order_scene scene = o->rule.scene;
    double sum = 0;
    int micros = o->p->micros;
    if (!o->has_scenes)
        return play(o);
    for (int k = SN_ORDER_FIRST; k < SN_ORDER_SCENES; k++) {
        int times = k == SN_ORDER_BETWEEN ? micros - 2 : 1;
        if (times == 0)
            continue;
        sn_order_set_scene(o, (enum sn_order_scene)k);
        sum += times * play(o);
    }
    sn_order_set_scene(o, scene);
    return sum / micros;
}

double sn_order_play_text(struct sn_ordering *o)
{
    list_buffers(o);
    for (int i = 0; i < o->n; i++)
        o->found[i] = i;
    double seconds = play_scenes(o);
    o->limit = o->clock.peak + (int64_t)((double)o->clock.peak * SLACK);
    return seconds;
}

static bool fits(const struct sn_ordering *o, int node)
{
    const struct sn_order_node *x = &o->node[node];
    int64_t bytes = o->clock.live;
    for (int k = x->touches; k < x->touches + x->n_touches; k++)
        bytes += o->use[o->touched[k]].is_live ? 0 : o->use[o->touched[k]].bytes;
    return bytes <= o->limit;
}

/* How long computing would stand before a node. */
static double stands(const struct sn_ordering *o, const struct sn_order_node *x)
{
    return x->is_wait && x->posted >= 0 ? fmax(0, o->node[x->posted].done - o->clock.now) : 0;
}

/* Is a before b? What posts; then what need not be waited for; then what has the longest way. With
 * patience a message is waited for where the other takes longer than that. */
static bool is_better(const struct sn_ordering *o, int a, int b)
{
    const struct sn_order_node *x = &o->node[a], *y = &o->node[b];
    bool posts[2] = {x->stream != SN_STREAM_COMPUTE, y->stream != SN_STREAM_COMPUTE};
    if (posts[0] != posts[1] && !o->rule.posts_late)
        return posts[0];
    double late[2] = {stands(o, x), stands(o, y)};
    late[0] = late[0] < o->rule.patience * (y->seconds + y->message) ? 0 : late[0];
    late[1] = late[1] < o->rule.patience * (x->seconds + x->message) ? 0 : late[1];
    if (late[0] > 0 || late[1] > 0)
        return late[0] < late[1] || (late[0] == late[1] && a < b);
    return x->rank > y->rank || (x->rank == y->rank && a < b);
}

/* What may come next, as far as a gap of computing is concerned. */
struct sn_order_gap {
    int first;  /* what takes no time: it posts, or waits for what is there */
    int kernel; /* that has the longest way */
    int wait;   /* that stands, with the longest way */
};

static void look_at(const struct sn_ordering *o, struct sn_order_gap *g, int i)
{
    const struct sn_order_node *x = &o->node[i];
    bool is_free = x->seconds <= 0 && stands(o, x) <= 0;
    int *best = is_free ? &g->first : x->is_wait ? &g->wait : &g->kernel;
    if (*best < 0 || x->rank > o->node[*best].rank)
        *best = i;
}

/* Is a kernel of a seconds before one of b where computing would stand so long? The longest that fits, else the
 * shortest. */
static bool fills_better(double a, double b, double gap)
{
    return (a <= gap) == (b <= gap) ? (a <= gap ? a > b : a < b) : a <= gap;
}

/* The text has come so far that it gathers weights up to here. */
static int gathers_until(const struct sn_ordering *o)
{
    int i = o->clock.reach;
    while (i < o->n && (o->node[i].is_placed || o->node[i].gathers_weights))
        i++;
    return o->rule.in_time ? i : o->n;
}

/* As choose, with gaps that are filled by what fits them: what is long is left for long ones. */
static int choose_fitting(struct sn_ordering *o, int end)
{
    struct sn_order_gap g = {-1, -1, -1};
    int gathers = gathers_until(o);
    for (int k = 0, i; k < o->n_ready && (i = o->ready[k]) < end; k++)
        if (k == 0 || (fits(o, i) && (i < gathers || !o->node[i].gathers_weights)))
            look_at(o, &g, i);
    if (g.first >= 0)
        return g.first;
    if (g.wait < 0 || g.kernel < 0 || o->node[g.kernel].rank >= o->node[g.wait].rank)
        return g.kernel >= 0 ? g.kernel : g.wait;
    double gap = stands(o, &o->node[g.wait]);
    for (int k = 0, i; k < o->n_ready && (i = o->ready[k]) < end; k++)
        if (o->node[i].seconds > 0 &&
            fills_better(o->node[i].seconds, o->node[g.kernel].seconds, gap) && fits(o, i))
            g.kernel = i;
    return gap < o->rule.patience * o->node[g.kernel].seconds ? g.wait : g.kernel;
}

/* The node that comes next; the first of the text that is left always may. */
static int choose(struct sn_ordering *o)
{
    int best = o->ready[0], end = o->n - best < AHEAD ? o->n : best + AHEAD;
    if (o->rule.fills)
        return choose_fitting(o, end);
    for (int k = 1, i; k < o->n_ready && (i = o->ready[k]) < end; k++)
        if (is_better(o, i, best) && fits(o, i))
            best = i;
    return best;
}

/* Into its place among those that may come next, which stand as in the text. */
static void is_ready(struct sn_ordering *o, int node)
{
    int k = o->n_ready++;
    for (; k > 0 && o->ready[k - 1] > node; k--)
        o->ready[k] = o->ready[k - 1];
    o->ready[k] = node;
}

static void leaves_ready(struct sn_ordering *o, int node)
{
    int k = 0;
    while (o->ready[k] != node)
        k++;
    for (o->n_ready--; k < o->n_ready; k++)
        o->ready[k] = o->ready[k + 1];
}

static void find_order(struct sn_ordering *o)
{
    start_clock(o);
    o->n_ready = 0;
    for (int i = 0; i < o->n; i++) {
        o->node[i].is_placed = false;
        o->node[i].n_before = o->node[i].needs;
        if (o->node[i].needs == 0)
            o->ready[o->n_ready++] = i;
    }
    for (int n = 0; n < o->n; n++) {
        int node = choose(o);
        place(o, node);
        o->found[n] = node;
        leaves_ready(o, node);
        for (int e = o->node[node].edges; e >= 0; e = o->edge[e].next)
            if (--o->node[o->edge[e].to].n_before == 0)
                is_ready(o, o->edge[e].to);
    }
}

/* The k-th way to choose. The first ones go by the longest way alone; later ones have ranks off it by up
 * to a quarter, a half, ... */
static void set_rule(struct sn_ordering *o, int k)
{
    static const double patience[] = {0, 1, 4, 16}, fills[] = {0.25, 0.5, 1, 0.125};
    enum { FILL, FILL_IN_TIME, POST_FIRST, POST_LATE, KINDS, WAYS = 4 };
    int kind = k / WAYS % KINDS, way = k % WAYS;
    double off = k < WAYS * KINDS ? 0 : 0.25 * (1 + k % 5);
    o->rule = (struct sn_order_rule){
        .patience = kind <= FILL_IN_TIME ? fills[way] : patience[way],
        .fills = kind <= FILL_IN_TIME,
        .in_time = kind == FILL_IN_TIME,
        .posts_late = kind == POST_LATE && way > 0,
    };
    for (int i = 0; i < o->n; i++)
        o->node[i].rank =
            o->node[i].tail * (1 + off * (2 * sn_rng_uniform((uint64_t)k, (uint64_t)i) - 1));
}

/* Has a to come before b? */
static bool is_before(const struct sn_ordering *o, int a, int b)
{
    for (int e = o->node[a].edges; e >= 0; e = o->edge[e].next)
        if (o->edge[e].to == b)
            return true;
    return false;
}

/* The node at place `from` to place `to` of the order; false: not past what it is tied to. */
static bool move(struct sn_ordering *o, int from, int to)
{
    int node = o->found[from], by = from < to ? 1 : -1;
    for (int i = from; i != to; i += by) {
        int other = o->found[i + by];
        if (by > 0 ? is_before(o, node, other) : is_before(o, other, node))
            return false;
    }
    for (int i = from; i != to; i += by)
        o->found[i] = o->found[i + by];
    o->found[to] = node;
    return true;
}

static double play_found(struct sn_ordering *o)
{
    double seconds = play_scenes(o);
    return o->clock.peak <= o->limit ? seconds : INFINITY;
}

/* Of a short order: moves single nodes to where they gain something, until none does. */
static double improve(struct sn_ordering *o, double now)
{
    for (bool gains = o->n <= SHORT; gains;) {
        gains = false;
        for (int from = 0; from < o->n; from++)
            for (int to = 0; to < o->n; to++) {
                if (to == from || !move(o, from, to))
                    continue;
                double moved = play_found(o);
                gains |= moved < now;
                if (moved < now)
                    now = moved;
                else
                    (void)move(o, to, from);
            }
    }
    return now;
}

/* One try, by the clock of a scene; is it the best? */
static void look(struct sn_ordering *o, int k, enum sn_order_scene scene, double *best)
{
    set_rule(o, k);
    sn_order_set_scene(o, scene);
    find_order(o);
    double now = improve(o, o->has_scenes ? play_scenes(o) : o->clock.now);
    if (now >= *best)
        return;
    int *found = o->found;
    *best = now;
    o->found = o->best;
    o->best = found;
}

double sn_order_find(struct sn_ordering *o)
{
    double best = INFINITY;
    int tries = WORK / (o->n + 1), scenes = o->has_scenes ? SN_ORDER_LAST : SN_ORDER_MEAN;
    tries = tries < 1 ? 1 : tries > TRIES ? TRIES : tries;
    for (int k = 0; k < tries; k++)
        for (int scene = SN_ORDER_MEAN; scene <= scenes; scene++)
            look(o, k, (enum sn_order_scene)scene, &best);
    return best;
}
