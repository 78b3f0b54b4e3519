#include "lib/comm/comm_engine.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    HOT = 50, /* looks before the first nap; each gives the core to whoever else wants it */
    WARM = 200,
    COLD = 2000,
    HOT_NS = 20000,
    WARM_NS = 100000,
    COLD_NS = 500000,
    IDLE_NS = 500000000,    /* between two heartbeats of one who has nothing to do */
    CROWDED_NS = 200000,    /* more patience than this: no hot looks either */
    PATIENCE = 64,          /* looks' worth of time */
    BROADCAST_MAX = 1 << 30 /* bytes at a time: counts of MPI are ints */
};

static struct sn_engine *engine(struct sn_comm *c)
{
    return (struct sn_engine *)(void *)c;
}

/* ---- waiting, on the communication thread ---------------------------------------------------- */

/* The first failure is the communicator's last word: what peers have received is unknown. */
void sn_engine_fail(struct sn_engine *e, const char *what)
{
    char why[512] = "";
    if (sn_engine_has_failed(e))
        return;
    e->port->ops->explain(e->port, why, sizeof(why));
    (void)sn_fail(&e->error, SN_EFAIL, "%s: %s failed: %s", e->ops.name, what, why);
    atomic_store(&e->failed, true);
}

void sn_engine_moved(struct sn_engine *e)
{
    sn_comm_queue_heartbeat(&e->queue);
    e->idle = 0;
    e->watch.has_moved = true;
}

static bool is_p2p(const struct sn_comm_op *op)
{
    return op->kind == SN_COMM_TRANSFER &&
           (op->transfer.kind == SN_SEND || op->transfer.kind == SN_RECV);
}

/* Take what was posted: sends and receives begin, the rest waits for its turn. Who posts what is for
 * this thread itself waits for it, so that there is one at most. */
static void take_in(struct sn_engine *e)
{
    for (int slot; (slot = sn_comm_queue_take(&e->queue)) >= 0;) {
        const struct sn_comm_op *op = &e->queue.slot[slot].op;
        sn_watch_posted(e, slot);
        if (is_p2p(op))
            sn_p2p_begin(e, slot);
        else if (op->kind == SN_COMM_TRANSFER)
            sn_lanes_add(e, slot);
        else
            e->order = slot;
    }
}

/* How long to nap where naps end late, so where more threads want a core than there are: as long as
 * PATIENCE looks take, but not longer than twice what a core had to be waited for. A look is a few
 * loads where all ranks share memory, and system calls where each asks about its connections: then
 * 32 ranks on 2 cores kept each other from sending (tests/cluster/scenarios/start.sh: 13.2 s to
 * step 1, 3.4 s so). */
static int64_t patience(const struct sn_engine *e)
{
    int64_t looks = PATIENCE * e->look_ns;
    return looks < 2 * e->late_ns ? looks : 2 * e->late_ns;
}

static int64_t now_ns(void)
{
    return (int64_t)(1e9 * sn_clock());
}

/* Both are learned while the compute thread waits too: otherwise it is the one that has the core.
 * What a look takes without interruption is the least of late, what a core is waited for the most.
 */
static void nap(struct sn_engine *e, int64_t ns)
{
    int64_t began = now_ns(), look = began - e->woke_ns;
    bool is_awaited = sn_comm_queue_is_awaited(&e->queue);
    if (is_awaited)
        e->look_ns = look < e->look_ns ? look : e->look_ns + e->look_ns / 16 + 1;
    if (is_awaited && ns < patience(e))
        ns = patience(e);
    sn_comm_queue_nap(&e->queue, ns);
    e->woke_ns = now_ns();
    int64_t late = e->woke_ns - began - ns;
    if (is_awaited)
        e->late_ns = late > e->late_ns ? late : e->late_ns - e->late_ns / 16;
}

/* Never blocks inside the port, which would poll for good: looks without sleep only while the
 * compute thread has nothing to do but wait, and then not for long. A nap costs some 60 us of
 * latency; polling costs those who compute, and the peers (16 MiB over 4 ranks on 2 cores: 21 ms
 * so, 45 ms without naps). Who has waited long naps longer: 8 ranks may wait for one that computes.
 */
void sn_engine_pause(struct sn_engine *e)
{
    sn_comm_queue_heartbeat(&e->queue);
    take_in(e);
    if (sn_p2p_progress(e))
        e->idle = 0;
    bool may_be_hot = sn_comm_queue_is_awaited(&e->queue) && patience(e) < CROWDED_NS;
    if (e->idle++ < HOT && (may_be_hot || e->idle == 1)) {
        (void)sched_yield(); /* cannot fail on Linux */
        return;
    }
    nap(e, e->idle < WARM ? HOT_NS : e->idle < COLD ? WARM_NS : COLD_NS);
    sn_watch_look(e);
}

bool sn_engine_is_complete(struct sn_engine *e, int batch)
{
    return sn_engine_has_failed(e) || e->port->failed || e->port->ops->test(e->port, batch);
}

bool sn_engine_complete(struct sn_engine *e, int batch)
{
    while (!sn_engine_has_failed(e) && !e->port->ops->test(e->port, batch))
        sn_engine_pause(e);
    sn_engine_moved(e);
    return !sn_engine_has_failed(e) && !e->port->failed;
}

/* ---- operations on all ranks ----------------------------------------------------------------- */

void sn_engine_broadcast(struct sn_engine *e, char *buf, int64_t bytes, int root)
{
    while (bytes > 0) {
        int64_t part = bytes < BROADCAST_MAX ? bytes : BROADCAST_MAX;
        e->port->ops->broadcast(e->port, buf, part, root);
        if (!sn_engine_complete(e, SN_PORT_WORLD))
            return;
        buf += part;
        bytes -= part;
    }
}

/* What set_grid hands over, and what comes back. */
struct grid_order {
    const struct sn_grid *grid;
    struct sn_err verdict;
};

/* What gather hands over. */
struct gather_order {
    const void *mine;
    char *all;
};

struct start_order {
    sn_engine_starter *start;
    struct sn_err verdict;
};

static void start(struct sn_engine *e, struct start_order *s)
{
    s->verdict.status = s->start(e, &s->verdict);
    if (!e->port || e->port->failed)
        return;
    e->base.rank = e->port->process;
    e->base.size = e->port->size;
    if (s->verdict.status == SN_OK)
        s->verdict.status = sn_hosts_prepare(e, &s->verdict);
    sn_engine_agree(e, &s->verdict);
    if (s->verdict.status == SN_OK && !e->port->failed && !sn_engine_has_failed(e))
        sn_hosts_discover(e);
}

/* By messages, so that root knows whose is missing (comm_watch.c). */
static void gather(struct sn_engine *e, const struct gather_order *g, int64_t bytes, int root)
{
    struct sn_message m = {
        .batch = SN_PORT_GATHER, .channel = SN_PORT_COLLECTIVE, .peer = root, .bytes = bytes};
    if (e->base.rank == root)
        memcpy(g->all + root * bytes, g->mine, (size_t)bytes);
    m.data = (void *)(uintptr_t)g->mine; /* only read */
    if (e->base.rank != root)
        e->port->ops->send(e->port, &m);
    for (int r = 0; e->base.rank == root && r < e->base.size; r++) {
        m.peer = r;
        m.data = g->all + r * bytes;
        if (r != root)
            e->port->ops->receive(e->port, &m);
    }
    (void)sn_engine_complete(e, SN_PORT_GATHER); /* a failure is the caller's to look at */
}

static void stop(struct sn_engine *e)
{
    while (e->n_flying && !sn_engine_has_failed(e))
        sn_engine_pause(e);
    (void)sn_p2p_progress(e); /* after a failure: all are over */
    if (e->port && !e->port->failed && !sn_engine_has_failed(e))
        e->port->ops->finish(e->port);
}

static void run(struct sn_engine *e, int slot)
{
    const struct sn_comm_op *op = &e->queue.slot[slot].op;
    switch (op->kind) {
    case SN_COMM_START:
        start(e, op->buf);
        break;
    case SN_COMM_GRID:
        sn_engine_set_grid(e, ((struct grid_order *)op->buf)->grid,
                           &((struct grid_order *)op->buf)->verdict);
        break;
    case SN_COMM_WATCH:
        e->watch.recorder = op->buf;
        e->watch.timeout_s = (int)op->n;
        break;
    case SN_COMM_BARRIER:
        e->port->ops->barrier(e->port);
        (void)sn_engine_complete(e, SN_PORT_WORLD); /* a failure is looked at below */
        break;
    case SN_COMM_BROADCAST:
        sn_engine_broadcast(e, op->buf, op->n, op->root);
        break;
    case SN_COMM_GATHER:
        gather(e, op->buf, op->n, op->root);
        break;
    case SN_COMM_RENUMBER:
        assert(!e->seats); /* set_grid has not been */
        sn_hosts_renumber(e, op->buf);
        break;
    case SN_COMM_AGREE:
        sn_engine_agree(e, op->buf);
        break;
    case SN_COMM_POLL:
        sn_engine_poll(e, op->buf);
        break;
    case SN_COMM_TRANSFER:
    case SN_COMM_STOP:
        break;
    }
}

/* Returns false after the last operation. */
static bool carry_out(struct sn_engine *e, int slot)
{
    enum sn_comm_kind kind = e->queue.slot[slot].op.kind;
    if (kind == SN_COMM_STOP)
        stop(e);
    else if (!sn_engine_has_failed(e)) {
        char what[160];
        sn_watch_begun(e, slot);
        run(e, slot);
        if (e->port && e->port->failed) {
            sn_engine_describe(e, slot, what, sizeof(what));
            sn_engine_fail(e, what);
        }
    }
    sn_watch_done(e, slot);
    sn_comm_queue_done(&e->queue, slot);
    return kind != SN_COMM_STOP;
}

static void *communicate(void *arg)
{
    struct sn_engine *e = arg;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL); /* ns; otherwise each nap is 50 us longer */
    for (bool more = true; more;) {
        take_in(e);
        if (sn_lanes_progress(e)) {
            sn_comm_queue_heartbeat(&e->queue);
            e->idle = 0;
            (void)sn_p2p_progress(e);
            sn_watch_look(e);
        } else if (e->in_lanes || (e->n_flying && e->order < 0)) {
            sn_engine_pause(e);
        } else if (e->order >= 0) {
            int slot = e->order;
            e->order = -1;
            more = carry_out(e, slot);
        } else {
            e->idle = 0;
            sn_comm_queue_idle(&e->queue, IDLE_NS);
            sn_watch_look(e); /* its record shows that it is there */
        }
    }
    return NULL;
}

/* ---- the thread that posts ------------------------------------------------------------------- */

static enum sn_status outcome(struct sn_engine *e, struct sn_err *err)
{
    if (!atomic_load(&e->failed))
        return SN_OK;
    if (err)
        *err = e->error;
    return e->error.status;
}

/* Nothing can be said of the others: the thread that looks at their records is
 * the one that hangs. */
static enum sn_status stuck(struct sn_engine *e, struct sn_err *err)
{
    return sn_fail(err, SN_ELOST,
                   "%s: the communication thread of rank %d has not come back from the library for "
                   "%d s; a host or the network is down",
                   e->ops.name, e->base.rank, e->queue.limit_s);
}

static enum sn_status engine_wait(struct sn_comm *c, sn_request t, struct sn_err *err)
{
    if (!sn_comm_queue_wait(&engine(c)->queue, t))
        return stuck(engine(c), err);
    return outcome(engine(c), err);
}

static enum sn_status engine_drain(struct sn_comm *c, struct sn_err *err)
{
    if (!sn_comm_queue_drain(&engine(c)->queue))
        return stuck(engine(c), err);
    return outcome(engine(c), err);
}

static enum sn_status post_and_wait(struct sn_comm *c, const struct sn_comm_op *op,
                                    struct sn_err *err)
{
    return engine_wait(c, sn_comm_queue_post(&engine(c)->queue, op), err);
}

static sn_request engine_post(struct sn_comm *c, const struct sn_transfer *t)
{
    struct sn_engine *e = engine(c);
    int size = e->group[t->group].size;
    assert(size >= 1);                                             /* set_grid comes first */
    bool moves = t->n > 0 && (size > 1 || !sn_comm_copy_alone(t)); /* or the thread says why not */
    if (!moves)
        return 0;
    return sn_comm_queue_post(&e->queue,
                              &(struct sn_comm_op){.kind = SN_COMM_TRANSFER, .transfer = *t});
}

/* What all ranks have agreed on, unless the communicator is broken. */
static enum sn_status agreed(const struct sn_err *verdict, struct sn_err *err)
{
    if (verdict->status != SN_OK && err) {
        *err = *verdict;
        err->agreed = 1;
    }
    return verdict->status;
}

static enum sn_status engine_set_grid(struct sn_comm *c, const struct sn_grid *g,
                                      struct sn_err *err)
{
    struct grid_order order = {.grid = g, .verdict = {.status = SN_OK}};
    SN_TRY(post_and_wait(c, &(struct sn_comm_op){.kind = SN_COMM_GRID, .buf = &order}, err));
    return agreed(&order.verdict, err);
}

static enum sn_status engine_barrier(struct sn_comm *c, struct sn_err *err)
{
    return post_and_wait(c, &(struct sn_comm_op){.kind = SN_COMM_BARRIER}, err);
}

static enum sn_status engine_broadcast(struct sn_comm *c, void *buf, int64_t bytes, int root,
                                       struct sn_err *err)
{
    struct sn_comm_op op = {.kind = SN_COMM_BROADCAST, .root = root, .n = bytes, .buf = buf};
    return post_and_wait(c, &op, err);
}

static enum sn_status engine_gather(struct sn_comm *c, const void *mine, int64_t bytes, void *all,
                                    int root, struct sn_err *err)
{
    struct gather_order order = {mine, all};
    struct sn_comm_op op = {.kind = SN_COMM_GATHER, .root = root, .n = bytes, .buf = &order};
    return post_and_wait(c, &op, err);
}

static enum sn_status engine_renumber(struct sn_comm *c, const int *process_of, struct sn_err *err)
{
    struct sn_comm_op op = {.kind = SN_COMM_RENUMBER, .buf = (void *)(uintptr_t)process_of};
    return post_and_wait(c, &op, err); /* which only reads it */
}

static enum sn_status engine_agree(struct sn_comm *c, enum sn_status mine, struct sn_err *err)
{
    struct sn_err verdict = {.status = mine}, broken;
    if (mine != SN_OK)
        (void)sn_fail(&verdict, mine, "%s", err ? err->text : "no reason given");
    verdict.agreed = mine != SN_OK && err && err->agreed;
    struct sn_comm_op op = {.kind = SN_COMM_AGREE, .buf = &verdict};
    bool told = post_and_wait(c, &op, &broken) == SN_OK;
    if (!told && mine == SN_OK) /* nobody can be told: say the first cause */
        verdict = broken;
    verdict.agreed = told;
    if (verdict.status != SN_OK && err)
        *err = verdict;
    return verdict.status;
}

static int engine_poll(struct sn_comm *c, int mine, const char *label, struct sn_err *err)
{
    struct sn_engine_poll poll = {.word = mine, .err = *err};
    struct sn_comm_op op = {.kind = SN_COMM_POLL, .buf = &poll, .transfer = {.label = label}};
    struct sn_err broken;
    if (post_and_wait(c, &op, &broken) != SN_OK) { /* nobody can be told: say the first cause */
        bool has_cause = mine != SN_OK && mine < SN_POLL_WORKS;
        *err = has_cause ? poll.err : broken;
        err->agreed = 0;
        return has_cause ? mine : (int)broken.status;
    }
    *err = poll.err;
    return poll.word;
}

static void engine_take_sent_bytes(struct sn_comm *c, int64_t bytes[SN_NAXES])
{
    for (int a = 0; a < SN_NAXES; a++)
        bytes[a] += atomic_exchange(&engine(c)->sent[a], 0);
}

static void engine_set_watch(struct sn_comm *c, struct sn_flight_recorder *recorder, int timeout_s)
{
    struct sn_comm_op op = {.kind = SN_COMM_WATCH, .buf = recorder, .n = timeout_s};
    (void)post_and_wait(c, &op, NULL); /* a failure stays until somebody asks for more */
    engine(c)->queue.limit_s = timeout_s;
}

void sn_engine_use_shm(struct sn_comm *c, bool use)
{
    atomic_store(&engine(c)->shm.is_off, !use);
}

void sn_engine_stop(struct sn_engine *e)
{
    (void)sn_comm_queue_post(&e->queue, &(struct sn_comm_op){.kind = SN_COMM_STOP});
    sn_comm_queue_fini(&e->queue);
    sn_hosts_fini(e);
    sn_free(e->shm.area);
    sn_free(e->seats);
}

enum sn_status sn_engine_start(struct sn_engine *e, const char *name, sn_engine_starter *begin,
                               struct sn_err *err)
{
    e->ops = (struct sn_comm_ops){
        .name = name,
        .set_grid = engine_set_grid,
        .post = engine_post,
        .wait = engine_wait,
        .drain = engine_drain,
        .barrier = engine_barrier,
        .broadcast = engine_broadcast,
        .gather = engine_gather,
        .renumber = engine_renumber,
        .agree = engine_agree,
        .poll = engine_poll,
        .take_sent_bytes = engine_take_sent_bytes,
        .set_watch = engine_set_watch,
    };
    e->base.ops = &e->ops;
    e->watch.current = e->order = -1;
    sn_lanes_init(e);
    int rc = sn_comm_queue_start(&e->queue, communicate, e);
    if (rc)
        return sn_fail(err, SN_ENOMEM, "%s: no communication thread: %s", name, strerror(rc));
    struct start_order order = {.start = begin, .verdict = {.status = SN_OK}};
    enum sn_status st =
        post_and_wait(&e->base, &(struct sn_comm_op){.kind = SN_COMM_START, .buf = &order}, err);
    if (st == SN_OK)
        st = agreed(&order.verdict, err);
    if (st != SN_OK)
        sn_engine_stop(e);
    return st;
}
