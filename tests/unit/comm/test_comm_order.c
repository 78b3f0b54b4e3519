/*
 * test_comm_order.c - bodies of sized blocks match in the order of posting, whatever lengths come
 * first: over a port whose messages are complete when the test says so.
 */
#include "lib/base/mem.h"
#include "lib/comm/comm_engine.h"
#include "tests/lib/comm_test.h"
#include "tests/lib/tap.h"

#include <string.h>

enum { N = 4, ROOM = 64, GROUP = SN_GROUP_DATA, BATCHES = SN_COMM_QUEUE_DEPTH };

struct fake {
    struct sn_port base;
    struct sn_message begun[16]; /* receives, in order */
    int n;
    bool open[BATCHES]; /* batches of sends and receives with a message under way */
};

static struct fake *fake(struct sn_port *p)
{
    return (struct fake *)(void *)p;
}

static void fake_receive(struct sn_port *p, const struct sn_message *m)
{
    struct fake *f = fake(p);
    f->begun[f->n++] = *m;
    f->open[m->batch - SN_PORT_P2P] = true;
}

static bool fake_test(struct sn_port *p, int batch)
{
    return !fake(p)->open[batch - SN_PORT_P2P];
}

/* The length of receive i is here, or its body. */
static void arrive(struct fake *f, int i)
{
    f->open[i] = false;
}

static bool is_done(const struct sn_engine *e, int slot)
{
    return atomic_load(&e->queue.slot[slot].done) == 1;
}

/* Message k was begun for the body of receive i, of so many bytes. */
static bool is_body(const struct fake *f, int k, int i, int64_t bytes)
{
    const struct sn_message *m = &f->begun[k];
    return k < f->n && m->batch == SN_PORT_P2P + i && m->channel == SN_PORT_BODY + GROUP &&
           m->bytes == bytes;
}

/* Three on one tag, one on another, all from rank 1. */
static void post_receives(struct sn_engine *e, unsigned char block[N][ROOM])
{
    for (int i = 0; i < N; i++) {
        struct sn_comm_op op = {.kind = SN_COMM_TRANSFER};
        op.transfer = (struct sn_transfer){.kind = SN_RECV,
                                           .group = (enum sn_group)GROUP,
                                           .dtype = SN_U8,
                                           .n = ROOM,
                                           .out = block[i],
                                           .peer = 1,
                                           .tag = i == 3,
                                           .sized = true};
        (void)sn_comm_queue_post(&e->queue, &op);
        sn_p2p_begin(e, sn_comm_queue_take(&e->queue));
    }
}

static void bodies_begin_in_the_order_of_posting(void)
{
    static const struct sn_port_ops ops = {.receive = fake_receive, .test = fake_test};
    static const unsigned char lengths[N] = {0, 17, 56, 8};
    unsigned char block[N][ROOM] = {{0}};
    struct fake f = {.base = {.ops = &ops, .size = 2}};
    struct sn_engine *e = sn_alloc(sizeof(*e)); /* zeroed locks are locks */
    e->port = &f.base;
    e->grid = test_grid(1, 1, 2, 1);
    e->group[GROUP] = (struct sn_engine_group){.size = 2};
    e->watch.current = -1;
    post_receives(e, block);
    bool good = f.n == N;
    for (int i = 0; i < N; i++)
        good = good && f.begun[i].channel == GROUP && f.begun[i].bytes == SN_COLLECTIVE_LENGTH &&
               f.begun[i].data == block[i];
    tap_ok(good && !sn_p2p_progress(e), "receives of lengths are posted at once");
    for (int i = 0; i < N; i++)
        block[i][0] = lengths[i];
    arrive(&f, 2);
    arrive(&f, 3);
    tap_ok(sn_p2p_progress(e) && f.n == N + 1 && is_body(&f, N, 3, 8) && e->n_flying == N,
           "a length that overtakes others of its pair and tag waits for them, and for no other");
    arrive(&f, 1);
    tap_ok(!sn_p2p_progress(e) && f.n == N + 1, "until the first is there");
    arrive(&f, 0);
    tap_ok(sn_p2p_progress(e) && f.n == N + 3 && is_body(&f, N + 1, 1, 24) &&
               is_body(&f, N + 2, 2, 56) && is_done(e, 0) && !is_done(e, 1),
           "then bodies begin in the order of posting; one of no bytes is done");
    for (int i = 1; i < N; i++)
        arrive(&f, i);
    good = sn_p2p_progress(e) && e->n_flying == 0 && !sn_engine_has_failed(e);
    for (int i = 0; i < N; i++)
        good = good && is_done(e, i);
    tap_ok(good, "and all are done when theirs are");
    sn_free(e);
}

int main(void)
{
    bodies_begin_in_the_order_of_posting();
    return tap_done();
}
