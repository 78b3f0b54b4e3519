/*
 * fake_device.c - see fake_device.h. Longer than 500 lines because it is one file that a plugin is
 * made of. Work is a list of items for each stream; query() does some of
 * them, the stream drawn by dice among those whose first item may be done.
 */
#include "tests/lib/fake_device.h"

#include "kernels/half.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 1 << 16, BLOCKS = 16, ORIGIN = -1 };

enum item_kind { COPY, RUN, RECORD, AWAIT, MARK, LAUNCH, TRANSFER };

struct graph;

struct item {
    enum item_kind kind;
    int stream;
    long number; /* of a record: its; of a wait: the record that it waits for; of a mark */
    int event;   /* of records and waits; channel of a transfer */
    void *to;
    const void *from;
    size_t bytes;
    enum sn_op_kind op;
    struct sn_args args;
    struct graph *graph;
    struct sn_device_transfer transfer;
    struct sn_device_rows *rows; /* of a transfer: to, then from, of each member; ours */
    bool has_come;               /* a transfer: the others know of it */
};

struct queue {
    struct item *item;
    int n, room, first;
};

struct event {
    long recorded, done;
};

struct graph {
    struct queue all; /* in the order of enqueuing */
    /* while it runs: a step of its own, whose streams go their own ways, whose events are its own
     */
    bool is_running;
    struct queue queue[SN_DEVICE_STREAMS];
    struct event *events;
};

/* Members of a channel; of one process. */
struct hub {
    pthread_mutex_t lock;
    int size, came;
    long round;
    struct item item[64]; /* copies: queues grow meanwhile */
};

struct channel {
    struct hub *hub;
    int size, index;
    long round; /* transfers that are over here */
};

struct sn_device {
    struct fake_device_habits habits;
    uint64_t dice;
    struct queue queue[SN_DEVICE_STREAMS];
    struct event event[EVENTS];
    int n_events;
    struct {
        char *p;
        size_t bytes;
    } block[BLOCKS];
    struct graph *capture;
    bool in_capture[SN_DEVICE_STREAMS], is_joined[SN_DEVICE_STREAMS];
    int origin;
    uint32_t marked;
    bool has_failed, is_aborted;
    char why[200];
    struct fake_device_counts counts;
    struct channel channel[SN_DEVICE_CHANNELS];
};

static struct fake_device_habits habits = {.seed = 1, .devices = 4};
static const struct sn_ops *kernels;
static struct sn_ops table;

struct fake_device_habits *fake_device_habits(void)
{
    return &habits;
}

struct fake_device_counts fake_device_counts(const struct sn_device *d)
{
    return d->counts;
}

static int fail(struct sn_device *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct sn_device *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!d->has_failed)
        (void)vsnprintf(d->why, sizeof(d->why), fmt, ap);
    va_end(ap);
    d->has_failed = true;
    return -1;
}

static uint64_t roll(struct sn_device *d, uint64_t sides)
{
    d->dice = d->dice * 6364136223846793005u + 1442695040888963407u;
    return (d->dice >> 33) % sides;
}

static void push(struct queue *q, const struct item *i)
{
    if (q->n == q->room) {
        q->room = q->room ? 2 * q->room : 64;
        q->item = realloc(q->item, (size_t)q->room * sizeof(*q->item));
        if (!q->item)
            abort();
    }
    q->item[q->n++] = *i;
}

/* --- memory ------------------------------------------------------------------------------------
 */

static bool is_here(const struct sn_device *d, const void *p, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        if (d->block[i].p && (const char *)p >= d->block[i].p &&
            (const char *)p + bytes <= d->block[i].p + d->block[i].bytes)
            return true;
    return false;
}

static int fake_alloc(struct sn_device *d, size_t bytes, void **out)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (d->block[i].p)
            continue;
        d->block[i].bytes = bytes ? bytes : 1;
        d->block[i].p = aligned_alloc(4096, (d->block[i].bytes + 4095) / 4096 * 4096);
        if (!d->block[i].p)
            abort();
        memset(d->block[i].p, 0, d->block[i].bytes);
        *out = d->block[i].p;
        d->counts.allocations++;
        return 0;
    }
    return fail(d, "more than %d blocks of memory", BLOCKS);
}

static void fake_release(struct sn_device *d, void *p)
{
    for (int i = 0; i < BLOCKS && p; i++)
        if (d->block[i].p == p) {
            free(p);
            d->block[i].p = NULL;
        }
}

static int fake_pin(struct sn_device *d, void *p, size_t bytes)
{
    return is_here(d, p, bytes) ? fail(d, "pinning memory of the device") : 0;
}

static void fake_unpin(struct sn_device *d, void *p)
{
    (void)d, (void)p;
}

/* --- enqueuing -----------------------------------------------------------------------------------
 */

static int enqueue(struct sn_device *d, const struct item *i)
{
    if (d->has_failed)
        return -1;
    if (i->stream < 0 || i->stream >= SN_DEVICE_STREAMS)
        return fail(d, "there is no stream %d", i->stream);
    if (!d->capture) {
        push(&d->queue[i->stream], i);
        return 0;
    }
    if (!d->in_capture[i->stream] && i->kind != AWAIT)
        return fail(d, "stream %d has waited for nothing of the graph that is kept", i->stream);
    d->in_capture[i->stream] = true;
    d->is_joined[i->stream] = false;
    push(&d->capture->all, i);
    return 0;
}

static int fake_copy(struct sn_device *d, int stream, void *to, const void *from, size_t bytes,
                     enum sn_device_way way)
{
    if (is_here(d, to, bytes) != (way != SN_TO_HOST) ||
        is_here(d, from, bytes) != (way != SN_TO_DEVICE))
        return fail(d, "a copy of %zu bytes: an address is on the other side", bytes);
    return enqueue(
        d, &(struct item){.kind = COPY, .stream = stream, .to = to, .from = from, .bytes = bytes});
}

static bool mat_is_here(const struct sn_device *d, const struct sn_mat *m)
{
    size_t bytes = (size_t)((m->rows - 1) * m->ld + m->cols) * sn_dtype_size(m->dtype);
    return !m->p || m->rows == 0 || is_here(d, m->p, bytes);
}

static int fake_run(struct sn_device *d, int stream, enum sn_op_kind kind, const struct sn_args *a)
{
    for (int k = 0; k < SN_MAX_IN; k++)
        if (!mat_is_here(d, &a->in[k]))
            return fail(d, "operation %d: input %d is no memory of the device", (int)kind, k);
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (!mat_is_here(d, &a->out[k]))
            return fail(d, "operation %d: output %d is no memory of the device", (int)kind, k);
    if (a->scalars && !is_here(d, a->scalars, sizeof(*a->scalars)))
        return fail(d, "operation %d: scalars are no memory of the device", (int)kind);
    return enqueue(d, &(struct item){.kind = RUN, .stream = stream, .op = kind, .args = *a});
}

static int fake_record(struct sn_device *d, int stream, int event)
{
    if (event < 0 || event >= d->n_events)
        return fail(d, "there is no event %d", event);
    d->event[event].recorded++;
    return enqueue(d, &(struct item){.kind = RECORD,
                                     .stream = stream,
                                     .event = event,
                                     .number = d->event[event].recorded});
}

static int fake_await(struct sn_device *d, int stream, int event)
{
    if (event < 0 || event >= d->n_events || d->event[event].recorded == 0)
        return fail(d, "waiting for event %d, which nobody has recorded", event);
    struct item wait = {
        .kind = AWAIT, .stream = stream, .event = event, .number = d->event[event].recorded};
    bool found = !d->capture;
    for (int i = 0; d->capture && i < d->capture->all.n; i++) {
        const struct item *r = &d->capture->all.item[i];
        if (r->kind != RECORD || r->event != event || r->number != wait.number)
            continue;
        found = true;
        bool is_last = true;
        for (int k = i + 1; k < d->capture->all.n; k++)
            is_last &= d->capture->all.item[k].stream != r->stream;
        if (stream == d->origin && is_last)
            d->is_joined[r->stream] = true;
    }
    if (!found)
        return fail(d, "waiting in a graph for event %d of before it", event);
    bool joined[SN_DEVICE_STREAMS];
    memcpy(joined, d->is_joined, sizeof(joined));
    int rc = enqueue(d, &wait);
    memcpy(d->is_joined, joined, sizeof(joined));
    return rc;
}

static int fake_mark(struct sn_device *d, int stream, uint32_t number)
{
    return enqueue(d, &(struct item){.kind = MARK, .stream = stream, .number = (long)number});
}

/* --- graphs ------------------------------------------------------------------------------------
 */

static int fake_graph_begin(struct sn_device *d, int stream)
{
    if (d->capture)
        return fail(d, "a graph is being kept already");
    d->capture = calloc(1, sizeof(*d->capture));
    if (!d->capture)
        abort();
    memset(d->in_capture, 0, sizeof(d->in_capture));
    memset(d->is_joined, 0, sizeof(d->is_joined));
    d->in_capture[stream] = true;
    d->origin = stream;
    return 0;
}

static int fake_graph_end(struct sn_device *d, int stream, void **graph)
{
    if (!d->capture || stream != d->origin)
        return fail(d, "no graph is being kept on stream %d", stream);
    for (int s = 0; s < SN_DEVICE_STREAMS; s++)
        if (s != stream && d->in_capture[s] && !d->is_joined[s])
            return fail(d, "the graph ends before its stream %d", s);
    *graph = d->capture;
    d->capture = NULL;
    d->counts.graphs++;
    return 0;
}

static int fake_graph_launch(struct sn_device *d, int stream, void *graph)
{
    d->counts.launches++;
    if (d->capture)
        return fail(d, "a graph is launched while one is being kept");
    return enqueue(d, &(struct item){.kind = LAUNCH, .stream = stream, .graph = graph});
}

static void fake_graph_free(struct sn_device *d, void *graph)
{
    struct graph *g = graph;
    (void)d;
    for (int i = 0; i < g->all.n; i++)
        free(g->all.item[i].rows);
    for (int i = 0; i < SN_DEVICE_STREAMS; i++)
        free(g->queue[i].item);
    free(g->all.item);
    free(g);
}

/* --- channels ------------------------------------------------------------------------------------
 */

static int fake_channel_id(struct sn_device *d, char id[SN_DEVICE_ID])
{
    (void)d;
    struct hub *h = calloc(1, sizeof(*h)); /* lives as long as the process */
    if (!h)
        abort();
    (void)pthread_mutex_init(&h->lock, NULL);
    memset(id, 0, SN_DEVICE_ID);
    memcpy(id, &h, sizeof(struct hub *));
    return 0;
}

static int fake_join(struct sn_device *d, int channel, const char id[SN_DEVICE_ID], int size,
                     int index)
{
    struct channel *c = &d->channel[channel];
    memcpy(&c->hub, id, sizeof(struct hub *));
    c->hub->size = size;
    c->size = size;
    c->index = index;
    return 0;
}

static int fake_transfer(struct sn_device *d, int stream, int channel,
                         const struct sn_device_transfer *t)
{
    const struct channel *c = &d->channel[channel];
    if (!c->hub)
        return fail(d, "nobody has joined channel %d", channel);
    struct item i = {.kind = TRANSFER, .stream = stream, .event = channel, .transfer = *t};
    if (t->kind == SN_DEVICE_ROWS) {
        i.rows = calloc(2 * (size_t)c->size, sizeof(*i.rows));
        if (!i.rows)
            abort();
        memcpy(i.rows, t->to, (size_t)c->size * sizeof(*i.rows));
        memcpy(i.rows + c->size, t->from, (size_t)c->size * sizeof(*i.rows));
    }
    return enqueue(d, &i);
}

static const char *in_of(const struct item *i)
{
    return i->transfer.in ? i->transfer.in : i->transfer.out;
}

static float load(const char *p, enum sn_dtype t)
{
    uint16_t half;
    memcpy(&half, p, sizeof(half));
    return t == SN_F32    ? *(const float *)(const void *)p
           : t == SN_BF16 ? sn_bf16_to_f32(half)
                          : sn_f16_to_f32(half);
}

static void store(char *p, enum sn_dtype t, float f)
{
    uint16_t half = t == SN_BF16 ? sn_f32_to_bf16(f) : sn_f32_to_f16(f);
    if (t == SN_F32)
        memcpy(p, &f, sizeof(f));
    else
        memcpy(p, &half, sizeof(half));
}

/* Sums in member order, in fp32, rounded once, as lib/run/comm.h asks of the processes'. */
static void sum_to(const struct hub *h, int64_t at, char *to, int64_t n, enum sn_dtype t)
{
    int64_t width = (int64_t)sn_dtype_size(t);
    for (int64_t e = 0; e < n; e++) {
        float f = load(in_of(&h->item[0]) + (at + e) * width, t);
        for (int m = 1; m < h->size; m++)
            f += load(in_of(&h->item[m]) + (at + e) * width, t);
        store(to + e * width, t, f);
    }
}

static void move_rows(const struct hub *h)
{
    for (int r = 0; r < h->size; r++)
        for (int s = 0; s < h->size; s++) {
            const struct item *a = &h->item[s], *b = &h->item[r];
            int64_t row = a->transfer.n * (int64_t)sn_dtype_size(a->transfer.dtype);
            struct sn_device_rows from = a->rows[r], to = b->rows[h->size + s];
            if (from.n != to.n)
                abort();
            memcpy((char *)b->transfer.out + to.at * row,
                   (const char *)a->transfer.in + from.at * row, (size_t)(to.n * row));
        }
}

static void add_into(const struct item *i, const char *sum)
{
    for (int64_t e = 0; e < i->transfer.n; e++)
        ((float *)i->transfer.out)[e] += ((const float *)(const void *)sum)[e];
}

/* All have come: move everything at once. */
static void meet(struct hub *h)
{
    const struct sn_device_transfer *t = &h->item[0].transfer;
    int64_t width = (int64_t)sn_dtype_size(t->dtype), n = t->n;
    char *all = malloc((size_t)(n * h->size * width) + 1);
    if (!all)
        abort();
    for (int m = 0; m < h->size; m++)
        if (t->kind == SN_DEVICE_ALL_GATHER)
            memcpy(all + m * n * width, in_of(&h->item[m]), (size_t)(n * width));
    if (t->kind == SN_DEVICE_ALL_REDUCE)
        sum_to(h, 0, all, n, t->dtype);
    if (t->kind == SN_DEVICE_REDUCE_SCATTER)
        for (int m = 0; m < h->size; m++)
            sum_to(h, m * n, all + m * n * width, n, t->dtype);
    for (int m = 0; m < h->size; m++) {
        const struct item *i = &h->item[m];
        char *out = i->transfer.out;
        if (t->kind == SN_DEVICE_ALL_GATHER)
            memcpy(out, all, (size_t)(n * h->size * width));
        else if (t->kind == SN_DEVICE_ALL_REDUCE)
            memcpy(out, all, (size_t)(n * width));
        else if (t->kind == SN_DEVICE_REDUCE_SCATTER && i->transfer.add)
            add_into(i, all + m * n * width);
        else if (t->kind == SN_DEVICE_REDUCE_SCATTER)
            memcpy(out, all + m * n * width, (size_t)(n * width));
        for (int s = 0; t->kind == SN_DEVICE_ALL_TO_ALL && s < h->size; s++)
            memcpy(out + s * n * width, (const char *)h->item[s].transfer.in + m * n * width,
                   (size_t)(n * width));
        if (i->transfer.kind == SN_DEVICE_RECV)
            memcpy(out, h->item[i->transfer.peer].transfer.in, (size_t)(n * width));
    }
    if (t->kind == SN_DEVICE_ROWS)
        move_rows(h);
    free(all);
}

/* Is it over here? */
static bool try_transfer(struct sn_device *d, struct item *i)
{
    struct channel *c = &d->channel[i->event];
    struct hub *h = c->hub;
    (void)pthread_mutex_lock(&h->lock);
    if (!i->has_come && h->round == c->round) {
        i->has_come = true;
        h->item[c->index] = *i;
        if (++h->came == h->size) {
            meet(h);
            h->came = 0;
            h->round++;
        }
    }
    bool over = i->has_come && h->round > c->round;
    (void)pthread_mutex_unlock(&h->lock);
    if (over)
        c->round++;
    return over;
}

/* --- doing -------------------------------------------------------------------------------------
 */

static void run_kernel(struct sn_device *d, struct item *i)
{
    long n = ++d->counts.kernels;
    if (n == d->habits.fail_at) {
        (void)fail(d, "an illegal address was met");
        return;
    }
    if (kernels->run[i->op](&i->args, 1) != 0)
        (void)fail(d, "kernel %d failed", (int)i->op);
}

static bool do_some(struct sn_device *d, struct queue *q, struct event *events, bool in_graph);

static void begin_graph(struct sn_device *d, struct graph *g)
{
    g->is_running = true;
    g->events = calloc((size_t)d->n_events, sizeof(*g->events));
    if (!g->events)
        abort();
    for (int i = 0; i < g->all.n; i++)
        push(&g->queue[g->all.item[i].stream], &g->all.item[i]);
}

/* Is it over? */
static bool run_graph(struct sn_device *d, struct graph *g)
{
    bool more = false;
    if (!g->is_running)
        begin_graph(d, g);
    for (int k = 0; k < 64; k++)
        (void)do_some(d, g->queue, g->events, true);
    for (int s = 0; s < SN_DEVICE_STREAMS; s++)
        more |= g->queue[s].first < g->queue[s].n;
    if (more)
        return false;
    g->is_running = false;
    free(g->events);
    return true;
}

/* Is the item over? */
static bool carry_out(struct sn_device *d, struct item *i, struct event *events, bool in_graph)
{
    switch (i->kind) {
    case COPY:
        memcpy(i->to, i->from, i->bytes);
        return true;
    case RUN:
        if (d->habits.hang_at && d->counts.kernels + 1 == d->habits.hang_at)
            return false;
        d->counts.in_graphs += in_graph;
        run_kernel(d, i);
        return true;
    case RECORD:
        if (i->number > events[i->event].done)
            events[i->event].done = i->number;
        return true;
    case AWAIT:
        return events[i->event].done >= i->number;
    case MARK:
        d->marked = (uint32_t)i->number;
        return true;
    case LAUNCH:
        return run_graph(d, i->graph);
    case TRANSFER:
        return try_transfer(d, i);
    }
    return true;
}

/* Do what one stream, by dice, can do next; false if none can. */
static bool do_some(struct sn_device *d, struct queue *q, struct event *events, bool in_graph)
{
    int first = (int)roll(d, SN_DEVICE_STREAMS);
    for (int k = 0; k < SN_DEVICE_STREAMS && !d->has_failed; k++) {
        struct queue *s = &q[(first + k) % SN_DEVICE_STREAMS];
        int before = s->first;
        for (uint64_t n = 1 + roll(d, 12); n > 0 && s->first < s->n && !d->has_failed; n--) {
            struct item *i = &s->item[s->first];
            if (!carry_out(d, i, events, in_graph))
                break;
            if (!in_graph)
                free(i->rows);
            s->first++;
        }
        if (s->first > before) {
            if (s->first == s->n)
                s->first = s->n = 0;
            return true;
        }
    }
    return false;
}

static int fake_query(struct sn_device *d, int stream)
{
    if (d->has_failed)
        return -1;
    for (int k = 0; k < 8; k++)
        (void)do_some(d, d->queue, d->event, false);
    if (d->has_failed)
        return -1;
    return d->queue[stream].first < d->queue[stream].n;
}

static uint32_t fake_marked(const struct sn_device *d)
{
    return d->marked;
}

/* --- begin and end -------------------------------------------------------------------------------
 */

static int fake_count(char *why, size_t room)
{
    if (habits.devices > 0)
        return habits.devices;
    (void)snprintf(why, room, "there is no fake device; say so in its habits");
    return -1;
}

static int fake_open(struct sn_device *d, int number, const struct sn_device_options *how)
{
    (void)how;
    d->habits = habits;
    d->dice = habits.seed * 2654435761u + (uint64_t)number;
    return 0;
}

static int fake_make_events(struct sn_device *d, int n)
{
    d->n_events = n;
    return n <= EVENTS ? 0 : fail(d, "%d events are too many", n);
}

static void fake_close(struct sn_device *d)
{
    for (int i = 0; i < BLOCKS; i++)
        free(d->block[i].p);
    for (int s = 0; s < SN_DEVICE_STREAMS; s++)
        free(d->queue[s].item);
}

static void fake_describe(struct sn_device *d, struct sn_device_info *out)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "a fake device");
    if (!d->habits.shares_uuid)
        memcpy(out->uuid, &d, sizeof(struct sn_device *));
    out->bytes = out->free_bytes = (int64_t)1 << 30;
    out->peak[SN_F32] = out->peak[SN_BF16] = out->peak[SN_F16] = 1e12;
}

static const char *fake_explain(const struct sn_device *d)
{
    return d->why;
}

static const char *fake_refuses(const struct sn_device *d, enum sn_dtype storage)
{
    (void)d, (void)storage;
    return NULL;
}

static int fake_look(struct sn_device *d)
{
    (void)d;
    return 0;
}

static void fake_abort(struct sn_device *d)
{
    d->is_aborted = true;
}

const struct sn_device_ops *fake_device_ops(const struct sn_ops *cpu)
{
    static struct sn_device_ops ops = {.abi = SN_DEVICE_ABI,
                                       .maker = "fake",
                                       .size = sizeof(struct sn_device),
                                       .ops = &table,
                                       .count = fake_count,
                                       .open = fake_open,
                                       .refuses = fake_refuses,
                                       .make_events = fake_make_events,
                                       .close = fake_close,
                                       .describe = fake_describe,
                                       .explain = fake_explain,
                                       .alloc = fake_alloc,
                                       .release = fake_release,
                                       .pin = fake_pin,
                                       .unpin = fake_unpin,
                                       .copy = fake_copy,
                                       .run = fake_run,
                                       .record = fake_record,
                                       .await = fake_await,
                                       .mark = fake_mark,
                                       .graph_begin = fake_graph_begin,
                                       .graph_end = fake_graph_end,
                                       .graph_launch = fake_graph_launch,
                                       .graph_free = fake_graph_free,
                                       .query = fake_query,
                                       .marked = fake_marked,
                                       .look = fake_look,
                                       .abort = fake_abort};
    kernels = cpu;
    table = (struct sn_ops){.name = "fake", .scratch = cpu->scratch};
    bool joins = !habits.has_no_channels;
    ops.channel_id = joins ? fake_channel_id : NULL;
    ops.join = joins ? fake_join : NULL;
    ops.transfer = joins ? fake_transfer : NULL;
    return &ops;
}
