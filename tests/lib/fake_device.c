/*
 * fake_device.c - see fake_device.h. Work is a list of items for each stream; query() does some of
 * them, the stream drawn by dice among those whose first item may be done.
 */
#include "kernels/codec.h"
#include "tests/lib/fake_device_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int fake_device_fail(struct sn_device *d, const char *fmt, ...)
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

/* --- memory ----------------------------------------------------------------------------------- */

bool fake_device_is_here(const struct sn_device *d, const void *p, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++)
        if (d->block[i].p && (const char *)p >= d->block[i].p &&
            (const char *)p + bytes <= d->block[i].p + d->block[i].bytes)
            return true;
    return false;
}

/* CUDA breaks off a graph that is being kept when the same thread does such a thing (CUDA C++
 * Programming Guide, "Prohibited and Unhandled Operations"). */
int fake_device_not_now(struct sn_device *d, const char *what)
{
    return d->capture ? fake_device_fail(d, "%s while a graph is being kept", what) : 0;
}

static int fake_alloc(struct sn_device *d, size_t bytes, void **out)
{
    if (fake_device_not_now(d, "allocating") != 0)
        return -1;
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
    return fake_device_fail(d, "more than %d blocks of memory", BLOCKS);
}

static void fake_release(struct sn_device *d, void *p)
{
    (void)fake_device_not_now(d, "releasing"); /* which the next call says */
    fake_device_wait();
    for (int i = 0; i < BLOCKS && p; i++)
        if (d->block[i].p == p) {
            free(p);
            d->block[i].p = NULL;
        }
}

/* --- enqueuing -------------------------------------------------------------------------------- */

int fake_device_enqueue(struct sn_device *d, const struct item *i)
{
    if (d->has_failed)
        return -1;
    if (i->stream < 0 || i->stream >= SN_DEVICE_STREAMS)
        return fake_device_fail(d, "there is no stream %d", i->stream);
    if (!d->capture) {
        push(&d->queue[i->stream], i);
        return 0;
    }
    if (!d->in_capture[i->stream] && i->kind != AWAIT)
        return fake_device_fail(d, "stream %d has waited for nothing of the graph that is kept",
                                i->stream);
    d->in_capture[i->stream] = true;
    d->is_joined[i->stream] = false;
    d->counts.kept_marks += i->kind == MARK;
    d->counts.kept_kernels += i->kind == RUN;
    push(&d->capture->all, i);
    return 0;
}

static int fake_copy(struct sn_device *d, int stream, void *to, const void *from, size_t bytes,
                     enum sn_device_way way)
{
    if (fake_device_is_here(d, to, bytes) != (way != SN_TO_HOST) ||
        fake_device_is_here(d, from, bytes) != (way != SN_TO_DEVICE))
        return fake_device_fail(d, "a copy of %zu bytes: an address is on the other side", bytes);
    return fake_device_enqueue(
        d, &(struct item){.kind = COPY, .stream = stream, .to = to, .from = from, .bytes = bytes});
}

static bool mat_is_here(const struct sn_device *d, const struct sn_mat *m)
{
    size_t bytes = (size_t)((m->rows - 1) * m->ld + m->cols) * sn_dtype_size(m->dtype);
    return !m->p || m->rows == 0 || fake_device_is_here(d, m->p, bytes);
}

static int fake_run(struct sn_device *d, int stream, enum sn_op_kind kind, const struct sn_args *a)
{
    for (int k = 0; k < SN_MAX_IN; k++)
        if (!mat_is_here(d, &a->in[k]))
            return fake_device_fail(d, "operation %d: input %d is no memory of the device",
                                    (int)kind, k);
    for (int k = 0; k < SN_MAX_OUT; k++)
        if (!mat_is_here(d, &a->out[k]))
            return fake_device_fail(d, "operation %d: output %d is no memory of the device",
                                    (int)kind, k);
    if (a->scalars && !fake_device_is_here(d, a->scalars, sizeof(*a->scalars)))
        return fake_device_fail(d, "operation %d: scalars are no memory of the device", (int)kind);
    return fake_device_enqueue(
        d, &(struct item){.kind = RUN, .stream = stream, .op = kind, .args = *a});
}

static int fake_record(struct sn_device *d, int stream, int event)
{
    if (event < 0 || event >= d->n_events)
        return fake_device_fail(d, "there is no event %d", event);
    d->event[event].recorded++;
    return fake_device_enqueue(d, &(struct item){.kind = RECORD,
                                                 .stream = stream,
                                                 .event = event,
                                                 .number = d->event[event].recorded});
}

static int fake_await(struct sn_device *d, int stream, int event)
{
    if (event < 0 || event >= d->n_events || d->event[event].recorded == 0)
        return fake_device_fail(d, "waiting for event %d, which nobody has recorded", event);
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
        return fake_device_fail(d, "waiting in a graph for event %d of before it", event);
    bool joined[SN_DEVICE_STREAMS];
    memcpy(joined, d->is_joined, sizeof(joined));
    int rc = fake_device_enqueue(d, &wait);
    memcpy(d->is_joined, joined, sizeof(joined));
    return rc;
}

static int fake_mark(struct sn_device *d, int stream, uint32_t number)
{
    return fake_device_enqueue(
        d, &(struct item){.kind = MARK, .stream = stream, .number = (long)number});
}

/* --- graphs ----------------------------------------------------------------------------------- */

static int fake_graph_begin(struct sn_device *d, int stream)
{
    if (d->capture)
        return fake_device_fail(d, "a graph is being kept already");
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
        return fake_device_fail(d, "no graph is being kept on stream %d", stream);
    for (int s = 0; s < SN_DEVICE_STREAMS; s++)
        if (s != stream && d->in_capture[s] && !d->is_joined[s])
            return fake_device_fail(d, "the graph ends before its stream %d", s);
    *graph = d->capture;
    d->capture = NULL;
    d->counts.graphs++;
    return 0;
}

static int fake_graph_launch(struct sn_device *d, int stream, void *graph)
{
    d->counts.launches++;
    if (d->capture)
        return fake_device_fail(d, "a graph is launched while one is being kept");
    return fake_device_enqueue(d, &(struct item){.kind = LAUNCH, .stream = stream, .graph = graph});
}

static void fake_graph_free(struct sn_device *d, void *graph)
{
    struct graph *g = graph;
    (void)d;
    fake_device_wait();
    for (int i = 0; i < g->all.n; i++)
        free(g->all.item[i].rows);
    for (int i = 0; i < SN_DEVICE_STREAMS; i++)
        free(g->queue[i].item);
    if (g->is_running) /* the device has failed in its midst */
        free(g->events);
    free(g->all.item);
    free(g);
}

/* --- doing ------------------------------------------------------------------------------------ */

static void run_kernel(struct sn_device *d, struct item *i)
{
    long n = ++d->counts.kernels;
    if (n == d->habits.fail_at) {
        (void)fake_device_fail(d, "an illegal address was met");
        return;
    }
    if (kernels->run[i->op](&i->args, 1) != 0)
        (void)fake_device_fail(d, "kernel %d failed", (int)i->op);
    if (n == d->habits.refuse_at)
        i->args.scalars->codec_fault = SN_CODEC_BAD_SCALE;
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
        if (d->is_lazy && i->stream != d->asked && !fake_device_is_here(d, i->to, i->bytes))
            return false;
        memcpy(i->to, i->from, i->bytes);
        return true;
    case RUN:
        if (d->habits.hang_at && d->counts.kernels + 1 == d->habits.hang_at) {
            fake_device_hang();
            return false;
        }
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
    case STAMP:
        fake_device_stamped(d, i->event);
        return true;
    case LAUNCH:
        return run_graph(d, i->graph);
    case TRANSFER:
        return fake_device_try_transfer(d, i);
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
    if (d->has_failed || fake_device_not_now(d, "looking at a stream") != 0)
        return -1;
    /* What goes to this process is done as late as may be, unless it is what is asked for. */
    d->asked = stream;
    for (int k = 0; k < 8; k++) {
        d->is_lazy = true;
        if (do_some(d, d->queue, d->event, false))
            continue;
        d->is_lazy = false;
        (void)do_some(d, d->queue, d->event, false);
    }
    if (d->has_failed)
        return -1;
    return d->queue[stream].first < d->queue[stream].n;
}

static uint32_t fake_marked(const struct sn_device *d)
{
    return d->marked;
}

/* --- begin and end ---------------------------------------------------------------------------- */

static int fake_count(char *why, size_t room)
{
    if (habits.devices > 0)
        return habits.devices;
    (void)snprintf(why, room, "there is no fake device; say so in its habits");
    return habits.devices < 0 ? 0 : -1; /* less than none: a host without a driver */
}

static int fake_open(struct sn_device *d, int number, const struct sn_device_options *how)
{
    d->tunes = how->tune;
    d->habits = habits;
    d->dice = habits.seed * 2654435761u + (uint64_t)number;
    if (how->attention == SN_LIBRARY_MUST)
        return fake_device_fail(d, "run.attention: cudnn: this device has no cuDNN");
    return 0;
}

static int fake_make_events(struct sn_device *d, int n)
{
    d->n_events = n;
    if (fake_device_not_now(d, "making events") != 0)
        return -1;
    return n <= EVENTS ? 0 : fake_device_fail(d, "%d events are too many", n);
}

static void fake_close(struct sn_device *d)
{
    fake_device_wait();
    for (int i = 0; i < BLOCKS; i++)
        free(d->block[i].p);
    for (int s = 0; s < SN_DEVICE_STREAMS; s++)
        free(d->queue[s].item);
    fake_device_leave(d);
}

static void fake_describe(struct sn_device *d, struct sn_device_info *out)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "a fake device");
    if (!d->habits.shares_uuid)
        memcpy(out->uuid, &d, sizeof(struct sn_device *));
    out->bytes = out->free_bytes = (int64_t)1 << 30;
    for (int i = 0; i < BLOCKS; i++)
        out->free_bytes -= d->block[i].p ? (int64_t)d->block[i].bytes : 0;
    out->peak[SN_F32] = out->peak[SN_BF16] = out->peak[SN_F16] = out->peak[SN_U8] = 1e12;
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

/* Like a maker's kernels, these are content with other scratch than the CPU's. */
static size_t fake_scratch(enum sn_op_kind kind, const struct sn_args *a, int threads)
{
    return kernels->scratch(kind, a, threads) + (size_t)habits.scratch;
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
                                       .make_clocks = fake_device_make_clocks,
                                       .stamp = fake_device_stamp,
                                       .between = fake_device_between,
                                       .close = fake_close,
                                       .describe = fake_describe,
                                       .choice = fake_device_choice,
                                       .choose = fake_device_choose,
                                       .explain = fake_explain,
                                       .alloc = fake_alloc,
                                       .release = fake_release,
                                       .pin = fake_device_pin,
                                       .unpin = fake_device_unpin,
                                       .host_alloc = fake_device_host_alloc,
                                       .host_free = fake_device_host_free,
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
                                       .look = fake_device_look,
                                       .abort = fake_device_abort};
    kernels = cpu;
    table = (struct sn_ops){.name = "fake", .scratch = fake_scratch, .head = cpu->head};
    if (habits.head)
        table.head = (struct sn_head_rows){.bytes = habits.head, .least = 1, .multiple = 1};
    bool joins = !habits.has_no_channels;
    ops.channel_id = joins ? fake_device_channel_id : NULL;
    ops.join = joins ? fake_device_join : NULL;
    ops.split = joins && !habits.splits_none ? fake_device_split : NULL;
    ops.no_channels = joins ? NULL : fake_device_no_channels;
    ops.transfer = joins ? fake_device_transfer : NULL;
    return &ops;
}
