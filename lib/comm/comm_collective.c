/*
 * comm_collective.c - collectives by messages: direct exchanges, cut into chunks of which two are
 * on their way at a time, sums in member order.
 *
 * The all-reduce: of each chunk, every member sends slice j to member j (reduce-scatter), member j
 * sums it in member order and sends the result to everybody (all-gather). So sums do not depend on
 * arrival, on chunks or on the host order. Chunk c + 1 is on its way while chunk c is summed. Cost
 * of a chunk: 4 (P - 1) messages a rank, fine up to some 64 ranks; beyond, a ring or a tree over
 * nodes sends fewer (due when CPU runs go there).
 */
#include "lib/comm/comm_engine.h"
#include "lib/comm/comm_sum.h"

#include <assert.h>
#include <string.h>

/* A collective under way. Lengths in elements. */
struct exchange {
    struct sn_engine *e;
    const struct sn_transfer *t;
    const char *in;
    char *out;
    int size, index;
    int64_t width;          /* bytes of an element */
    int64_t n, chunk;       /* of what is cut: the buffer or a block */
    int64_t chunks, stride; /* stride: bytes between parts in staging */
};

/* Where one member's range of a chunk lies. */
struct range {
    int64_t at, count; /* elements */
};

static int64_t chunk_count(const struct exchange *x, int64_t c)
{
    int64_t left = x->n - c * x->chunk;
    return left < x->chunk ? left : x->chunk;
}

/* Chunk c of member m's block, which may be shorter than the longest. */
static struct range block_range(const struct exchange *x, int m, int64_t c)
{
    struct sn_comm_block b = sn_transfer_block(x->t, m);
    int64_t left = b.n - c * x->chunk;
    return (struct range){b.at + c * x->chunk, left < 0 ? 0 : left < x->chunk ? left : x->chunk};
}

/* The d-th member to send to, and to receive from: not all the same one at the same time. */
static int next(const struct exchange *x, int d)
{
    return (x->index + d) % x->size;
}

static int previous(const struct exchange *x, int d)
{
    return (x->index - d + x->size) % x->size;
}

static struct sn_message message(const struct exchange *x, int batch, int member)
{
    return (struct sn_message){.batch = batch,
                               .channel = SN_PORT_COLLECTIVE,
                               .tag = (int)x->t->group,
                               .peer = sn_engine_member(x->e, x->t->group, member)};
}

static void send(const struct exchange *x, int batch, int member, struct range p)
{
    struct sn_message m = message(x, batch, member);
    const char *from = batch < SN_PORT_GATHER ? x->in : x->out;
    m.data = (void *)(uintptr_t)(from + p.at * x->width);
    m.bytes = p.count * x->width;
    x->e->port->ops->send(x->e->port, &m);
    sn_engine_count(x->e, x->t->group, m.bytes);
}

static void receive(const struct exchange *x, int batch, int member, void *to, int64_t count)
{
    struct sn_message m = message(x, batch, member);
    m.data = to;
    m.bytes = count * x->width;
    x->e->port->ops->receive(x->e->port, &m);
}

/* Where the part of another member of chunk c arrives. */
static char *part(const struct exchange *x, int64_t c, int member)
{
    return (char *)x->t->staging +
           (c % SN_COLLECTIVE_SLOTS * (x->size - 1) + (member < x->index ? member : member - 1)) *
               x->stride;
}

/* to (= or +=) the sum of own and what arrived of chunk c. */
static void sum(const struct exchange *x, int64_t c, struct range own, struct range to)
{
    struct sn_comm_parts parts = {
        .own = x->in + own.at * x->width,
        .others = part(x, c, x->index == 0 ? 1 : 0),
        .stride = x->stride,
        .rank = x->index,
        .size = x->size,
        .out = x->out + to.at * x->width,
        .add = x->t->add && x->t->kind == SN_REDUCE_SCATTER,
    };
    sn_comm_sum(&parts, own.count, x->t->dtype);
}

static struct exchange exchange(struct sn_engine *e, const struct sn_transfer *t)
{
    const struct sn_engine_group *q = &e->group[t->group];
    struct exchange x = {.e = e,
                         .t = t,
                         .in = t->in ? t->in : t->out,
                         .out = t->out,
                         .size = q->size,
                         .index = q->index,
                         .width = (int64_t)sn_dtype_size(t->dtype),
                         .n = t->n};
    for (int m = 0; m < x.size && t->kind != SN_ALL_REDUCE; m++) { /* of the longest */
        int64_t n = sn_transfer_block(t, m).n;
        x.n = m == 0 || n > x.n ? n : x.n;
    }
    x.stride = sn_collective_slice_bytes(x.size);
    if (t->kind == SN_ALL_REDUCE)
        x.chunk = sn_collective_chunk_bytes(x.size) / x.width;
    else if (t->kind == SN_REDUCE_SCATTER)
        x.chunk = x.stride / x.width;
    else
        x.chunk = SN_COLLECTIVE_CHUNK / x.width;
    x.chunks = (x.n + x.chunk - 1) / x.chunk;
    return x;
}

/* ---- all-reduce ------------------------------------------------------------------------------ */

static struct range slice(const struct exchange *x, int64_t c, int member)
{
    struct sn_collective_slice s = sn_collective_slice(chunk_count(x, c), x->size, member);
    return (struct range){c * x->chunk + s.start, s.count};
}

/* Parts of chunk c, to the owners of their slices. */
static void begin_scatter(const struct exchange *x, int64_t c)
{
    int batch = SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS);
    for (int d = 1; d < x->size; d++) {
        int from = previous(x, d);
        receive(x, batch, from, part(x, c, from), slice(x, c, x->index).count);
    }
    for (int d = 1; d < x->size; d++)
        send(x, batch, next(x, d), slice(x, c, next(x, d)));
}

/* The summed slices of chunk c, to everybody. */
static void begin_gather(const struct exchange *x, int64_t c)
{
    int batch = SN_PORT_GATHER + (int)(c % SN_COLLECTIVE_SLOTS);
    for (int d = 1; d < x->size; d++) {
        struct range p = slice(x, c, previous(x, d));
        receive(x, batch, previous(x, d), x->out + p.at * x->width, p.count);
    }
    for (int d = 1; d < x->size; d++)
        send(x, batch, next(x, d), slice(x, c, x->index));
}

static void all_reduce_chunks(const struct exchange *x)
{
    begin_scatter(x, 0);
    for (int64_t c = 0; c < x->chunks; c++) {
        int s = (int)(c % SN_COLLECTIVE_SLOTS);
        if (c + 1 < x->chunks)
            begin_scatter(x, c + 1);
        if (!sn_engine_complete(x->e, SN_PORT_SCATTER + s))
            return;
        sum(x, c, slice(x, c, x->index), slice(x, c, x->index));
        if (!sn_engine_complete(x->e, SN_PORT_GATHER + s)) /* of chunk c - 2 */
            return;
        begin_gather(x, c);
    }
    for (int i = 0; i < SN_COLLECTIVE_SLOTS; i++)
        if (!sn_engine_complete(x->e, SN_PORT_GATHER + i))
            return;
}

/* Everything to everybody: one latency instead of two. */
static void all_reduce_small(const struct exchange *whole)
{
    struct exchange x = *whole;
    x.stride = SN_COLLECTIVE_SMALL;
    struct range all = {0, x.n};
    for (int d = 1; d < x.size; d++)
        receive(&x, SN_PORT_SCATTER, previous(&x, d), part(&x, 0, previous(&x, d)), x.n);
    for (int d = 1; d < x.size; d++)
        send(&x, SN_PORT_SCATTER, next(&x, d), all);
    if (sn_engine_complete(x.e, SN_PORT_SCATTER))
        sum(&x, 0, all, all);
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Chunk c of every block, to and from everybody. */
static void begin_blocks(const struct exchange *x, int64_t c)
{
    int batch = SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS);
    bool sums = x->t->kind == SN_REDUCE_SCATTER, gathers = x->t->kind == SN_ALL_GATHER;
    for (int d = 1; d < x->size; d++) {
        int from = previous(x, d);
        struct range p = block_range(x, sums ? x->index : from, c);
        if (p.count > 0)
            receive(x, batch, from, sums ? part(x, c, from) : x->out + p.at * x->width, p.count);
    }
    for (int d = 1; d < x->size; d++) {
        struct range p = block_range(x, gathers ? x->index : next(x, d), c);
        p.at = gathers ? c * x->chunk : p.at;
        if (p.count > 0)
            send(x, batch, next(x, d), p);
    }
}

static void exchange_blocks(const struct exchange *x)
{
    bool sums = x->t->kind == SN_REDUCE_SCATTER;
    struct sn_comm_block mine = sn_transfer_block(x->t, x->index);
    const char *own = x->in + (x->t->kind == SN_ALL_GATHER ? 0 : mine.at * x->width);
    if (!sums && own != x->out + mine.at * x->width)
        memcpy(x->out + mine.at * x->width, own, (size_t)(mine.n * x->width));
    begin_blocks(x, 0);
    for (int64_t c = 0; c < x->chunks; c++) {
        if (c + 1 < x->chunks)
            begin_blocks(x, c + 1);
        if (!sn_engine_complete(x->e, SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS)))
            return;
        struct range from = block_range(x, x->index, c);
        if (sums && from.count > 0)
            sum(x, c, from, (struct range){c * x->chunk, from.count});
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The c-th chunk of the rows that go one way between two members. */
static struct range rows_range(const struct exchange *x, struct sn_exchange_rows r, int64_t c)
{
    int64_t first = c * x->chunk < r.n ? c * x->chunk : r.n;
    int64_t n = r.n - first < x->chunk ? r.n - first : x->chunk;
    return (struct range){(r.at + first) * x->n, n * x->n};
}

static int64_t most_rows(const struct exchange *x)
{
    int64_t most = 0;
    for (int m = 0; m < x->size; m++)
        for (int arrives = 0; arrives < 2; arrives++) {
            struct sn_exchange_walk w = {.member = m, .arrives = arrives == 1};
            struct sn_exchange_rows r;
            while (sn_exchange_next(x->t->exchange, &w, &r))
                most = r.n > most ? r.n : most;
        }
    return most;
}

static void begin_rows(const struct exchange *x, int64_t c)
{
    const struct sn_exchange *rows = x->t->exchange;
    int batch = SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS);
    struct sn_exchange_rows r;
    for (int d = 1; d < x->size; d++) {
        struct sn_exchange_walk w = {.member = previous(x, d), .arrives = true};
        while (sn_exchange_next(rows, &w, &r)) {
            struct range p = rows_range(x, r, c);
            if (p.count > 0)
                receive(x, batch, previous(x, d), x->out + p.at * x->width, p.count);
        }
    }
    for (int d = 1; d < x->size; d++) {
        struct sn_exchange_walk w = {.member = next(x, d)};
        while (sn_exchange_next(rows, &w, &r)) {
            struct range p = rows_range(x, r, c);
            if (p.count > 0)
                send(x, batch, next(x, d), p);
        }
    }
}

/* What stays here. */
static void keep_rows(const struct exchange *x)
{
    struct sn_exchange_walk leaves = {.member = x->index};
    struct sn_exchange_walk lands = {.member = x->index, .arrives = true};
    struct sn_exchange_rows from, to;
    int64_t row = x->n * x->width;
    while (sn_exchange_next(x->t->exchange, &leaves, &from) &&
           sn_exchange_next(x->t->exchange, &lands, &to))
        memcpy(x->out + to.at * row, x->in + from.at * row, (size_t)(from.n * row));
}

/* Both ends of a pair know how many rows go, and so the messages. */
static void exchange_rows(struct exchange *x)
{
    int64_t row = x->n * x->width;
    keep_rows(x);
    x->chunk = SN_COLLECTIVE_CHUNK / row > 0 ? SN_COLLECTIVE_CHUNK / row : 1; /* rows */
    x->chunks = (most_rows(x) + x->chunk - 1) / x->chunk;
    if (x->chunks > 0)
        begin_rows(x, 0);
    for (int64_t c = 0; c < x->chunks; c++) {
        if (c + 1 < x->chunks)
            begin_rows(x, c + 1);
        if (!sn_engine_complete(x->e, SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS)))
            return;
    }
}

/* ---- sized blocks -------------------------------------------------------------------------------
 * All lengths first, which land where the blocks begin; then of each block as many chunks as it
 * has. Both ends of a pair know its length, and so the messages; other pairs may have more of them.
 */

/* The block that goes to a member, and the one that comes from it. */
static const char *leaves(const struct exchange *x, int member)
{
    return x->in + (x->t->kind == SN_ALL_GATHER ? 0 : member * x->n);
}

static char *arrives(const struct exchange *x, int member)
{
    return x->out + member * x->n;
}

/* What is behind its length. */
static int64_t body(const struct exchange *x, const char *block)
{
    return sn_transfer_travels(x->t, block) - SN_COLLECTIVE_LENGTH;
}

/* Chunk c of it, counted from the beginning of `base`. */
static struct range body_range(const struct exchange *x, const char *base, const char *block,
                               int64_t c)
{
    int64_t left = body(x, block) - c * x->chunk;
    return (struct range){block - base + SN_COLLECTIVE_LENGTH + c * x->chunk, left < 0 ? 0
                                                                              : left < x->chunk
                                                                                  ? left
                                                                                  : x->chunk};
}

/* False: one of them is none, or the communicator has failed otherwise. */
static bool exchange_lengths(const struct exchange *x)
{
    struct sn_engine *e = x->e;
    int slot = e->watch.current;
    for (int d = 1; d < x->size; d++)
        receive(x, SN_PORT_SCATTER, previous(x, d), arrives(x, previous(x, d)),
                SN_COLLECTIVE_LENGTH);
    for (int d = 1; d < x->size; d++)
        send(x, SN_PORT_SCATTER, next(x, d),
             (struct range){leaves(x, next(x, d)) - x->in, SN_COLLECTIVE_LENGTH});
    if (!sn_engine_complete(e, SN_PORT_SCATTER))
        return false;
    for (int m = 0; m < x->size; m++)
        if (!sn_sized_fits(e, slot, e->base.rank, leaves(x, m)) ||
            (m != x->index &&
             !sn_sized_fits(e, slot, sn_engine_member(e, x->t->group, m), arrives(x, m))))
            return false;
    return true;
}

static void begin_bodies(const struct exchange *x, int64_t c)
{
    int batch = SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS);
    for (int d = 1; d < x->size; d++) {
        struct range p = body_range(x, x->out, arrives(x, previous(x, d)), c);
        if (p.count > 0)
            receive(x, batch, previous(x, d), x->out + p.at, p.count);
    }
    for (int d = 1; d < x->size; d++) {
        struct range p = body_range(x, x->in, leaves(x, next(x, d)), c);
        if (p.count > 0)
            send(x, batch, next(x, d), p);
    }
}

static void exchange_sized(struct exchange *x)
{
    assert(x->t->kind == SN_ALL_GATHER || x->t->kind == SN_ALL_TO_ALL);
    if (!exchange_lengths(x))
        return;
    const char *own = leaves(x, x->index);
    if (own != arrives(x, x->index))
        memcpy(arrives(x, x->index), own, (size_t)sn_transfer_travels(x->t, own));
    int64_t most = 0;
    for (int d = 1; d < x->size; d++) {
        int64_t to = body(x, leaves(x, next(x, d))), from = body(x, arrives(x, next(x, d)));
        most = to > most ? to : most;
        most = from > most ? from : most;
    }
    x->chunks = (most + x->chunk - 1) / x->chunk;
    if (x->chunks > 0)
        begin_bodies(x, 0);
    for (int64_t c = 0; c < x->chunks; c++) {
        if (c + 1 < x->chunks)
            begin_bodies(x, c + 1);
        if (!sn_engine_complete(x->e, SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS)))
            return;
    }
}

void sn_collective_run(struct sn_engine *e, const struct sn_transfer *t)
{
    struct exchange x = exchange(e, t);
    if (t->sized)
        exchange_sized(&x);
    else if (t->exchange && t->kind == SN_ALL_TO_ALL)
        exchange_rows(&x);
    else if (t->kind != SN_ALL_REDUCE)
        exchange_blocks(&x);
    else if (x.n * x.width <= SN_COLLECTIVE_SMALL)
        all_reduce_small(&x);
    else
        all_reduce_chunks(&x);
}
