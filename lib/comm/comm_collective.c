/*
 * comm_collective.c - collectives by messages: direct exchanges, cut into chunks of which two are
 * on their way at a time, sums in member order. A step does what the messages that are there allow,
 * for one chunk.
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

/* Where one member's range of a chunk lies. */
struct range {
    int64_t at, count; /* elements */
};

static int64_t chunk_count(const struct sn_exchange_run *x, int64_t c)
{
    int64_t left = x->n - c * x->chunk;
    return left < x->chunk ? left : x->chunk;
}

/* Chunk c of member m's block, which may be shorter than the longest. */
static struct range block_range(const struct sn_exchange_run *x, int m, int64_t c)
{
    struct sn_comm_block b = sn_transfer_block(x->t, m);
    int64_t left = b.n - c * x->chunk;
    return (struct range){b.at + c * x->chunk, left < 0 ? 0 : left < x->chunk ? left : x->chunk};
}

/* The d-th member to send to, and to receive from: not all the same one at the same time. */
static int next(const struct sn_exchange_run *x, int d)
{
    return (x->index + d) % x->size;
}

static int previous(const struct sn_exchange_run *x, int d)
{
    return (x->index - d + x->size) % x->size;
}

static struct sn_message message(const struct sn_exchange_run *x, int batch, int member)
{
    return (struct sn_message){.batch = batch,
                               .channel = SN_PORT_COLLECTIVE,
                               .tag = (int)x->t->group,
                               .peer = sn_engine_member(x->e, x->t->group, member)};
}

/* The batches of chunk c: of parts, and of the sums that follow them in an all-reduce. */
static int scatter_batch(const struct sn_exchange_run *x, int64_t c)
{
    return SN_PORT_LANE * x->lane + SN_PORT_SCATTER + (int)(c % SN_COLLECTIVE_SLOTS);
}

static int gather_batch(const struct sn_exchange_run *x, int64_t c)
{
    return SN_PORT_LANE * x->lane + SN_PORT_GATHER + (int)(c % SN_COLLECTIVE_SLOTS);
}

static void send_from(const struct sn_exchange_run *x, const char *from, int batch, int member,
                      struct range p)
{
    struct sn_message m = message(x, batch, member);
    m.data = (void *)(uintptr_t)(from + p.at * x->width); /* only read */
    m.bytes = p.count * x->width;
    x->e->port->ops->send(x->e->port, &m);
    sn_engine_count(x->e, x->t->group, m.bytes);
}

static void send(const struct sn_exchange_run *x, int batch, int member, struct range p)
{
    send_from(x, x->in, batch, member, p);
}

static void receive(const struct sn_exchange_run *x, int batch, int member, void *to, int64_t count)
{
    struct sn_message m = message(x, batch, member);
    m.data = to;
    m.bytes = count * x->width;
    x->e->port->ops->receive(x->e->port, &m);
}

/* Where the part of another member of chunk c arrives. */
static char *part(const struct sn_exchange_run *x, int64_t c, int member)
{
    return (char *)x->t->staging +
           (c % SN_COLLECTIVE_SLOTS * (x->size - 1) + (member < x->index ? member : member - 1)) *
               x->stride;
}

/* to (= or +=) the sum of own and what arrived of chunk c. */
static void sum(const struct sn_exchange_run *x, int64_t c, struct range own, struct range to)
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

/* ---- all-reduce ------------------------------------------------------------------------------ */

static struct range slice(const struct sn_exchange_run *x, int64_t c, int member)
{
    struct sn_collective_slice s = sn_collective_slice(chunk_count(x, c), x->size, member);
    return (struct range){c * x->chunk + s.start, s.count};
}

/* Parts of chunk c, to the owners of their slices. */
static void begin_scatter(const struct sn_exchange_run *x, int64_t c)
{
    for (int d = 1; d < x->size; d++) {
        int from = previous(x, d);
        receive(x, scatter_batch(x, c), from, part(x, c, from), slice(x, c, x->index).count);
    }
    for (int d = 1; d < x->size; d++)
        send(x, scatter_batch(x, c), next(x, d), slice(x, c, next(x, d)));
}

/* The summed slices of chunk c, to everybody. */
static void begin_gather(const struct sn_exchange_run *x, int64_t c)
{
    for (int d = 1; d < x->size; d++) {
        struct range p = slice(x, c, previous(x, d));
        receive(x, gather_batch(x, c), previous(x, d), x->out + p.at * x->width, p.count);
    }
    for (int d = 1; d < x->size; d++)
        send_from(x, x->out, gather_batch(x, c), next(x, d), slice(x, c, x->index));
}

/* Everything to everybody: one latency instead of two. */
static void begin_small(const struct sn_exchange_run *x)
{
    for (int d = 1; d < x->size; d++)
        receive(x, scatter_batch(x, 0), previous(x, d), part(x, 0, previous(x, d)), x->n);
    for (int d = 1; d < x->size; d++)
        send(x, scatter_batch(x, 0), next(x, d), (struct range){0, x->n});
}

/* ---- the others ------------------------------------------------------------------------------ */

/* Chunk c of every block, to and from everybody. */
static void begin_blocks(const struct sn_exchange_run *x, int64_t c)
{
    int batch = scatter_batch(x, c);
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

/* What stays here. */
static void keep_block(const struct sn_exchange_run *x)
{
    struct sn_comm_block mine = sn_transfer_block(x->t, x->index);
    const char *own = x->in + (x->t->kind == SN_ALL_GATHER ? 0 : mine.at * x->width);
    if (x->t->kind != SN_REDUCE_SCATTER && own != x->out + mine.at * x->width)
        memcpy(x->out + mine.at * x->width, own, (size_t)(mine.n * x->width));
}

static void sum_block(const struct sn_exchange_run *x, int64_t c)
{
    struct range from = block_range(x, x->index, c);
    if (x->t->kind == SN_REDUCE_SCATTER && from.count > 0)
        sum(x, c, from, (struct range){c * x->chunk, from.count});
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The c-th chunk of the rows that go one way between two members. */
static struct range rows_range(const struct sn_exchange_run *x, struct sn_exchange_rows r,
                               int64_t c)
{
    int64_t first = c * x->chunk < r.n ? c * x->chunk : r.n;
    int64_t n = r.n - first < x->chunk ? r.n - first : x->chunk;
    return (struct range){(r.at + first) * x->n, n * x->n};
}

static int64_t most_rows(const struct sn_exchange_run *x)
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

static void begin_rows(const struct sn_exchange_run *x, int64_t c)
{
    const struct sn_exchange *rows = x->t->exchange;
    int batch = scatter_batch(x, c);
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
static void keep_rows(const struct sn_exchange_run *x)
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
static void cut_rows(struct sn_exchange_run *x)
{
    int64_t row = x->n * x->width;
    x->chunk = SN_COLLECTIVE_CHUNK / row > 0 ? SN_COLLECTIVE_CHUNK / row : 1; /* rows */
    x->chunks = (most_rows(x) + x->chunk - 1) / x->chunk;
}

/* ---- sized blocks -------------------------------------------------------------------------------
 * All lengths first, which land where the blocks begin; then of each block as many chunks as it
 * has. Both ends of a pair know its length, and so the messages; other pairs may have more of them.
 */

/* The block that goes to a member, and the one that comes from it. */
static const char *leaves(const struct sn_exchange_run *x, int member)
{
    return x->in + (x->t->kind == SN_ALL_GATHER ? 0 : member * x->n);
}

static char *arrives(const struct sn_exchange_run *x, int member)
{
    return x->out + member * x->n;
}

/* What is behind its length. */
static int64_t body(const struct sn_exchange_run *x, const char *block)
{
    return sn_transfer_travels(x->t, block) - SN_COLLECTIVE_LENGTH;
}

/* Chunk c of it, counted from the beginning of `base`. */
static struct range body_range(const struct sn_exchange_run *x, const char *base, const char *block,
                               int64_t c)
{
    int64_t left = body(x, block) - c * x->chunk;
    return (struct range){block - base + SN_COLLECTIVE_LENGTH + c * x->chunk, left < 0 ? 0
                                                                              : left < x->chunk
                                                                                  ? left
                                                                                  : x->chunk};
}

static void begin_lengths(const struct sn_exchange_run *x)
{
    for (int d = 1; d < x->size; d++)
        receive(x, scatter_batch(x, 0), previous(x, d), arrives(x, previous(x, d)),
                SN_COLLECTIVE_LENGTH);
    for (int d = 1; d < x->size; d++)
        send(x, scatter_batch(x, 0), next(x, d),
             (struct range){leaves(x, next(x, d)) - x->in, SN_COLLECTIVE_LENGTH});
}

/* False: one of them is none. */
static bool lengths_fit(const struct sn_exchange_run *x)
{
    for (int m = 0; m < x->size; m++)
        if (!sn_sized_fits(x->e, x->slot, x->e->base.rank, leaves(x, m)) ||
            (m != x->index &&
             !sn_sized_fits(x->e, x->slot, sn_engine_member(x->e, x->t->group, m), arrives(x, m))))
            return false;
    return true;
}

static void begin_bodies(const struct sn_exchange_run *x, int64_t c)
{
    int batch = scatter_batch(x, c);
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

/* What stays here; of how many chunks the longest block that comes or goes is. */
static void cut_bodies(struct sn_exchange_run *x)
{
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
}

/* ---- from begin to end -------------------------------------------------------------------------
 * Chunk c + 1 is begun before chunk c is waited for. An all-reduce has two waits for each chunk: for
 * its parts, and for the sums of chunk c - 2, whose batch those of chunk c use.
 */

enum way { WAY_SMALL, WAY_REDUCE, WAY_BLOCKS, WAY_ROWS, WAY_SIZED };
enum phase { PHASE_LENGTHS, PHASE_PARTS, PHASE_SUMS, PHASE_LAST };

static void begin_chunk(const struct sn_exchange_run *x, int64_t c)
{
    if (c >= x->chunks)
        return;
    switch ((enum way)x->way) {
    case WAY_SMALL:
        begin_small(x);
        break;
    case WAY_REDUCE:
        begin_scatter(x, c);
        break;
    case WAY_BLOCKS:
        begin_blocks(x, c);
        break;
    case WAY_ROWS:
        begin_rows(x, c);
        break;
    case WAY_SIZED:
        begin_bodies(x, c);
        break;
    }
}

/* All parts of chunk c are here. */
static void sum_chunk(const struct sn_exchange_run *x, int64_t c)
{
    if (x->way == WAY_SMALL)
        sum(x, c, (struct range){0, x->n}, (struct range){0, x->n});
    else if (x->way == WAY_REDUCE)
        sum(x, c, slice(x, c, x->index), slice(x, c, x->index));
    else if (x->way == WAY_BLOCKS)
        sum_block(x, c);
}

static enum sn_comm_step begin_chunks(struct sn_exchange_run *x)
{
    x->phase = PHASE_PARTS;
    begin_chunk(x, 0);
    begin_chunk(x, 1);
    return x->chunks > 0 ? SN_STEP_MOVED : SN_STEP_DONE;
}

static enum sn_comm_step next_chunk(struct sn_exchange_run *x)
{
    x->at++;
    begin_chunk(x, x->at + 1);
    if (x->at < x->chunks) {
        x->phase = PHASE_PARTS;
        return SN_STEP_MOVED;
    }
    x->phase = PHASE_LAST;
    return x->way == WAY_REDUCE ? SN_STEP_MOVED : SN_STEP_DONE;
}

static bool is_here(const struct sn_exchange_run *x)
{
    struct sn_engine *e = x->e;
    if (x->phase == PHASE_SUMS)
        return sn_engine_is_complete(e, gather_batch(x, x->at));
    if (x->phase != PHASE_LAST)
        return sn_engine_is_complete(e, scatter_batch(x, x->at));
    bool all = true;
    for (int i = 0; i < SN_COLLECTIVE_SLOTS; i++)
        all = sn_engine_is_complete(e, gather_batch(x, i)) && all;
    return all;
}

enum sn_comm_step sn_collective_step(struct sn_exchange_run *x)
{
    if (!is_here(x))
        return SN_STEP_WAITS;
    if (x->e->port->failed || sn_engine_has_failed(x->e))
        return SN_STEP_DONE;
    switch ((enum phase)x->phase) {
    case PHASE_LENGTHS:
        if (!lengths_fit(x))
            return SN_STEP_DONE;
        cut_bodies(x);
        return begin_chunks(x);
    case PHASE_PARTS:
        sum_chunk(x, x->at);
        if (x->way != WAY_REDUCE)
            return next_chunk(x);
        x->phase = PHASE_SUMS;
        return SN_STEP_MOVED;
    case PHASE_SUMS:
        begin_gather(x, x->at);
        return next_chunk(x);
    case PHASE_LAST:
        break;
    }
    return SN_STEP_DONE;
}

static enum way way_of(const struct sn_transfer *t)
{
    assert(!t->sized || t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL);
    if (t->sized)
        return WAY_SIZED;
    if (t->exchange && t->kind == SN_ALL_TO_ALL)
        return WAY_ROWS;
    if (t->kind != SN_ALL_REDUCE)
        return WAY_BLOCKS;
    return t->n * (int64_t)sn_dtype_size(t->dtype) <= SN_COLLECTIVE_SMALL ? WAY_SMALL : WAY_REDUCE;
}

/* How it is cut. */
static void cut(struct sn_exchange_run *x)
{
    for (int m = 0; m < x->size && x->t->kind != SN_ALL_REDUCE; m++) { /* of the longest */
        int64_t n = sn_transfer_block(x->t, m).n;
        x->n = m == 0 || n > x->n ? n : x->n;
    }
    x->stride = x->way == WAY_SMALL ? SN_COLLECTIVE_SMALL : sn_collective_slice_bytes(x->size);
    if (x->t->kind == SN_ALL_REDUCE)
        x->chunk = sn_collective_chunk_bytes(x->size) / x->width;
    else if (x->t->kind == SN_REDUCE_SCATTER)
        x->chunk = x->stride / x->width;
    else
        x->chunk = SN_COLLECTIVE_CHUNK / x->width;
    x->chunks = (x->n + x->chunk - 1) / x->chunk;
}

void sn_collective_begin(struct sn_exchange_run *x, struct sn_engine *e, int slot)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    const struct sn_engine_group *q = &e->group[t->group];
    *x = (struct sn_exchange_run){.e = e,
                                  .t = t,
                                  .in = t->in ? t->in : t->out,
                                  .out = t->out,
                                  .slot = slot,
                                  .lane = (int)sn_group_queue(t->group),
                                  .size = q->size,
                                  .index = q->index,
                                  .width = (int64_t)sn_dtype_size(t->dtype),
                                  .n = t->n,
                                  .way = (int)way_of(t)};
    cut(x);
    if (x->way == WAY_SIZED) {
        x->phase = PHASE_LENGTHS;
        begin_lengths(x);
        return;
    }
    if (x->way == WAY_BLOCKS)
        keep_block(x);
    else if (x->way == WAY_ROWS) {
        keep_rows(x);
        cut_rows(x);
    }
    (void)begin_chunks(x); /* of none, the first step says so */
}
