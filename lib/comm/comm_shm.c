/*
 * comm_shm.c - collectives of groups whose members are all on one host, through memory that they
 * share: a message costs two copies and a wake-up, here data is copied in once and summed or copied
 * out by whoever needs it.
 *
 * Each rank has one area of the shared memory: for each group a phase, a number that only this rank
 * raises, and SLOTS slots of data. A chunk goes: copy in, raise the phase, wait until all members
 * have raised theirs (that is the barrier), read the others' slots, raise the phase again. A slot
 * is filled again only when all members of the group that read it last have come to the later
 * phase. Every member of a group raises its phase in the same steps, so phases need no reset.
 *
 * Chunks, slices and the order of sums are those of comm_collective.c: the bits are the same.
 *
 * Sized blocks begin with their lengths, so the first chunk brings those of all to all: each member
 * learns from them alone how many chunks follow, as many as the longest block has.
 */
#include "lib/comm/comm_engine.h"
#include "lib/comm/comm_sum.h"

#include <string.h>

enum {
    HEAD = SN_COLLECTIVE_HEAD,
    SLOT = SN_COLLECTIVE_CHUNK,
    LOOKS = 200, /* at a phase that is expected at any moment, before the core is given away */
    BLOCK = 4096 /* bytes that are summed at a time: parts and result stay in the first cache */
};

/* One cache line for each, so that waiting for one does not slow the others down. */
struct phase {
    _Alignas(SN_COLLECTIVE_LINE) _Atomic uint64_t value;
};

struct head {
    struct phase phase[SN_NGROUPS];
    struct sn_shm_sign {
        _Alignas(SN_COLLECTIVE_LINE) enum sn_collective kind;
        enum sn_dtype dtype;
        int64_t n;
        bool sized;
    } sign[SN_COLLECTIVE_SLOTS]; /* what the data of the slot belongs to */
};

_Static_assert(sizeof(struct head) <= HEAD, "the head fits before the slots");

/* A collective under way; lengths in elements. */
struct pass {
    struct sn_engine *e;
    struct sn_engine_group *q;
    const struct sn_transfer *t;
    const char *in;
    char *out;
    int64_t width;  /* bytes of an element */
    int64_t at;     /* where the chunk begins in the buffer or in each block */
    int64_t count;  /* its length, in the longest block */
    int64_t length; /* of chunks */
    int64_t n;      /* of the buffer or the longest block, of which known lengths leave less */
};

static struct head *head_of(const struct sn_engine *e, int group, int member)
{
    return (struct head *)(void *)e->shm.area[e->group[group].seat[member]];
}

static _Atomic uint64_t *phase_of(const struct sn_engine *e, int group, int member)
{
    return &head_of(e, group, member)->phase[group].value;
}

/* A group's chunks take the slots in turn, so all members use the same one. */
static int slot_number(const struct pass *p)
{
    return (int)(p->q->chunks % SN_COLLECTIVE_SLOTS);
}

static char *slot_of(const struct pass *p, int member)
{
    return p->e->shm.area[p->q->seat[member]] + HEAD + (int64_t)slot_number(p) * SLOT;
}

/* Until all members of a group have come to a phase; false if the communicator has failed. */
static bool await(struct sn_engine *e, int group, uint64_t phase)
{
    for (int i = 0; i < e->group[group].size; i++) {
        const _Atomic uint64_t *value = phase_of(e, group, i);
        for (int looks = 0; atomic_load_explicit(value, memory_order_acquire) < phase; looks++) {
            if (looks < LOOKS)
                continue;
            sn_engine_pause(e);
            if (sn_engine_has_failed(e))
                return false;
        }
    }
    sn_engine_moved(e);
    return true;
}

static void raise_phase(struct pass *p)
{
    atomic_store_explicit(phase_of(p->e, (int)p->t->group, p->q->index), ++p->q->phase,
                          memory_order_release);
}

static bool barrier(struct pass *p)
{
    raise_phase(p);
    return await(p->e, (int)p->t->group, p->q->phase);
}

/* Until this rank's slot may be filled. */
static bool begin_chunk(struct pass *p)
{
    int s = slot_number(p);
    struct head *mine = head_of(p->e, (int)p->t->group, p->q->index);
    p->e->shm.awaited = s;
    bool is_free = p->e->shm.user[s].phase == 0 ||
                   await(p->e, p->e->shm.user[s].group, p->e->shm.user[s].phase);
    p->e->shm.awaited = -1;
    if (!is_free)
        return false;
    mine->sign[s] = (struct sn_shm_sign){
        .kind = p->t->kind, .dtype = p->t->dtype, .n = p->t->n, .sized = p->t->sized};
    return true;
}

int sn_shm_holder(const struct sn_engine *e, enum sn_group *q)
{
    int s = e->shm.awaited;
    if (!e->shm.area || s < 0)
        return -1;
    int group = e->shm.user[s].group;
    *q = (enum sn_group)group;
    for (int i = 0; i < e->group[group].size; i++)
        if (atomic_load_explicit(phase_of(e, group, i), memory_order_acquire) <
            e->shm.user[s].phase)
            return sn_engine_member(e, *q, i);
    return -1;
}

static void disagree(struct pass *p, int rank, const struct sn_shm_sign *s)
{
    char what[160];
    sn_engine_describe(p->e, p->e->watch.current, what, sizeof(what));
    (void)sn_fail(&p->e->error, SN_EFAIL,
                  "%s: %s has %s%lld elements of %s, but rank %d posted %s of %s%lld elements of "
                  "%s; the ranks' programs differ",
                  p->e->ops.name, what, p->t->sized ? "up to " : "", (long long)p->t->n,
                  sn_dtype_name(p->t->dtype), rank, sn_collective_name(s->kind),
                  s->sized ? "up to " : "", (long long)s->n, sn_dtype_name(s->dtype));
    atomic_store(&p->e->failed, true);
}

/* As barrier, once the chunk is in the slot; false too if a member is in another operation. */
static bool barrier_to_read(struct pass *p)
{
    if (!barrier(p))
        return false;
    for (int i = 0; i < p->q->size; i++) {
        const struct sn_shm_sign *s = &head_of(p->e, (int)p->t->group, i)->sign[slot_number(p)];
        if (s->kind == p->t->kind && s->dtype == p->t->dtype && s->n == p->t->n &&
            s->sized == p->t->sized)
            continue;
        disagree(p, sn_engine_member(p->e, p->t->group, i), s);
        return false;
    }
    return true;
}

/* This rank has read what it needed of the others' slots. */
static void end_chunk(struct pass *p)
{
    int s = slot_number(p);
    raise_phase(p);
    p->e->shm.user[s].group = (int)p->t->group;
    p->e->shm.user[s].phase = p->q->phase;
    p->q->chunks++;
}

static void copy(const struct pass *p, char *to, const char *from, int64_t count)
{
    memcpy(to, from, (size_t)(count * p->width));
}

/* out (= or +=) own plus what the others have at `at` bytes of their slots, in member order. Blocks
 * of the others are put side by side in the staging memory first. */
static void sum(struct pass *p, const char *own, char *out, int64_t at, int64_t count)
{
    int64_t block = BLOCK / p->width;
    for (int64_t i = 0; i < count; i += block) {
        int64_t n = count - i < block ? count - i : block, skip = i * p->width;
        char *to = p->t->staging;
        for (int m = 0; m < p->q->size; m++)
            if (m != p->q->index) {
                copy(p, to, slot_of(p, m) + at + skip, n);
                to += BLOCK;
            }
        struct sn_comm_parts parts = {.own = own + skip,
                                      .others = p->t->staging,
                                      .stride = BLOCK,
                                      .rank = p->q->index,
                                      .size = p->q->size,
                                      .out = out + skip,
                                      .add = p->t->add && p->t->kind == SN_REDUCE_SCATTER};
        sn_comm_sum(&parts, n, p->t->dtype);
    }
}

/* ---- one chunk of each kind; false if the communicator has failed ---------------------------- */

/* Everybody sums everything. */
static bool all_reduce_small(struct pass *p)
{
    copy(p, slot_of(p, p->q->index), p->in, p->count);
    if (!barrier_to_read(p))
        return false;
    sum(p, slot_of(p, p->q->index), p->out, 0, p->count);
    sn_engine_count(p->e, p->t->group, (p->q->size - 1) * p->count * p->width);
    return true;
}

/* Member j sums slice j, where only it reads, and leaves the sum there. */
static bool all_reduce_chunk(struct pass *p)
{
    char *mine = slot_of(p, p->q->index);
    struct sn_collective_slice own = sn_collective_slice(p->count, p->q->size, p->q->index);
    copy(p, mine, p->in + p->at * p->width, p->count);
    if (!barrier_to_read(p))
        return false;
    sum(p, mine + own.start * p->width, mine + own.start * p->width, own.start * p->width,
        own.count);
    if (!barrier(p))
        return false;
    for (int d = 0; d < p->q->size; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_collective_slice s = sn_collective_slice(p->count, p->q->size, j);
        copy(p, p->out + (p->at + s.start) * p->width, slot_of(p, j) + s.start * p->width, s.count);
    }
    sn_engine_count(p->e, p->t->group,
                    (p->count - own.count + (p->q->size - 1) * own.count) * p->width);
    return true;
}

/* What travels of a sized block; of one whose length is none that length, which all then see. */
static int64_t travels(const struct pass *p, const char *block)
{
    int64_t n = sn_transfer_travels(p->t, block);
    return n < 0 ? SN_COLLECTIVE_LENGTH : n;
}

/* Sized blocks, first chunk: the lengths that all slots hold. */
static bool take_lengths(struct pass *p)
{
    bool gathers = p->t->kind == SN_ALL_GATHER;
    p->n = SN_COLLECTIVE_LENGTH;
    for (int i = 0; i < p->q->size; i++)
        for (int j = 0; j < (gathers ? 1 : p->q->size); j++) {
            const char *block = slot_of(p, i) + j * p->length;
            if (!sn_sized_fits(p->e, p->e->watch.current, sn_engine_member(p->e, p->t->group, i),
                               block))
                return false;
            int64_t n = !gathers && i == j ? 0 : travels(p, block);
            p->n = n > p->n ? n : p->n;
        }
    for (int i = 0; i < p->q->size; i++)
        memcpy(p->out + i * p->t->n, slot_of(p, i) + (gathers ? 0 : p->q->index * p->length),
               SN_COLLECTIVE_LENGTH);
    return true;
}

/* As barrier_to_read, of what consists of blocks. */
static bool barrier_to_read_blocks(struct pass *p)
{
    return barrier_to_read(p) && (!p->t->sized || p->at > 0 || take_lengths(p));
}

/* The chunk's part of member m's block, which is one of those at `side`. */
static struct sn_comm_block chunk_of(const struct pass *p, const char *side, int m)
{
    struct sn_comm_block b = sn_transfer_block(p->t, m);
    int64_t left = (p->t->sized ? travels(p, side + b.at) : b.n) - p->at;
    return (struct sn_comm_block){b.at + p->at, left < 0 ? 0 : left < p->count ? left : p->count};
}

static bool all_gather_chunk(struct pass *p)
{
    int64_t mine = chunk_of(p, p->out, p->q->index).n;
    copy(p, slot_of(p, p->q->index), p->in + p->at * p->width, mine);
    if (!barrier_to_read_blocks(p))
        return false;
    for (int d = 1; d < p->q->size; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_comm_block b = chunk_of(p, p->out, j);
        copy(p, p->out + b.at * p->width, slot_of(p, j), b.n);
    }
    sn_engine_count(p->e, p->t->group, (p->q->size - 1) * mine * p->width);
    return true;
}

/* Reduce-scatter and all-to-all: a slot has a piece for each member. */
static bool blocks_chunk(struct pass *p)
{
    int64_t piece = p->length * p->width, mine = p->q->index * piece, sent = 0;
    struct sn_comm_block own = chunk_of(p, p->in, p->q->index);
    for (int j = 0; j < p->q->size; j++)
        if (j != p->q->index) {
            struct sn_comm_block b = chunk_of(p, p->in, j);
            copy(p, slot_of(p, p->q->index) + j * piece, p->in + b.at * p->width, b.n);
            sent += b.n;
        } else if (p->t->sized && p->at == 0) {
            copy(p, slot_of(p, j) + mine, p->in + own.at, SN_COLLECTIVE_LENGTH);
        }
    if (!barrier_to_read_blocks(p))
        return false;
    if (p->t->kind == SN_REDUCE_SCATTER)
        sum(p, p->in + own.at * p->width, p->out + p->at * p->width, mine, own.n);
    for (int d = 1; d < p->q->size && p->t->kind == SN_ALL_TO_ALL; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_comm_block b = chunk_of(p, p->out, j);
        copy(p, p->out + b.at * p->width, slot_of(p, j) + mine, b.n);
    }
    sn_engine_count(p->e, p->t->group, sent * p->width);
    return true;
}

static bool run_chunk(struct pass *p)
{
    switch (p->t->kind) {
    case SN_ALL_REDUCE:
        return p->t->n * p->width <= SN_COLLECTIVE_SMALL ? all_reduce_small(p)
                                                         : all_reduce_chunk(p);
    case SN_ALL_GATHER:
        return all_gather_chunk(p);
    default:
        return blocks_chunk(p);
    }
}

/* Elements of a chunk, of the buffer or of each block. */
static int64_t chunk_length(const struct pass *p)
{
    int64_t all = SLOT / p->width;
    if (p->t->kind == SN_ALL_REDUCE || p->t->kind == SN_ALL_GATHER)
        return all;
    return all / p->q->size / SN_COLLECTIVE_ALIGN * SN_COLLECTIVE_ALIGN;
}

bool sn_shm_takes(const struct sn_engine *e, const struct sn_transfer *t)
{
    const struct sn_engine_group *q = &e->group[t->group];
    /* Of every kind and length. Measured on 2 cores that others used too (load 4.6), median us by
     * messages / through the shared memory, bench_allreduce:
     *                   2 ranks               4 ranks                8 ranks
     *                   16 KiB   1 MiB        16 KiB   1 MiB         16 KiB   1 MiB
     *   all-reduce      75/34    603/465      157/106  1983/1392     213/136  3492/2126
     *   all-gather      47/40    306/286      93/67    762/379       179/116  1584/544
     *   reduce-scatter  49/47    377/330      104/77   1076/711      178/139  2161/1288
     *   all-to-all      48/40    318/324      71/73    626/517       157/118  1612/1042
     * At 8 MiB shared memory took 0.3 to 1.0 times as long (all-to-all over 8 ranks 1.4 times in
     * another run). Messages also won some rows up to 2 KiB with 2 or 4 ranks, by at most 22 us:
     * too little for a threshold before a quiet machine says so.
     * Beyond 64 members chunks of an all-reduce are longer than a slot. */
    bool uneven = t->exchange && t->kind == SN_ALL_TO_ALL;
    return !uneven && e->shm.area && q->on_host && sn_collective_chunk_bytes(q->size) <= SLOT &&
           !atomic_load(&e->shm.is_off);
}

void sn_shm_run(struct sn_engine *e, const struct sn_transfer *t)
{
    struct pass p = {.e = e,
                     .q = &e->group[t->group],
                     .t = t,
                     .in = t->in ? t->in : t->out,
                     .out = t->out,
                     .width = (int64_t)sn_dtype_size(t->dtype)};
    struct sn_comm_block block = sn_transfer_block(t, p.q->index);
    p.n = t->n;
    for (int m = 0; m < p.q->size && t->exchange; m++) { /* of the longest */
        int64_t other = sn_transfer_block(t, m).n;
        p.n = m == 0 || other > p.n ? other : p.n;
    }
    p.length = chunk_length(&p);
    const char *own = p.in + (t->kind == SN_ALL_TO_ALL ? block.at * p.width : 0);
    if ((t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL) && own != p.out + block.at * p.width)
        copy(&p, p.out + block.at * p.width, own, t->sized ? travels(&p, own) : block.n);
    for (p.at = 0; p.at < p.n; p.at += p.length) {
        p.count = p.n - p.at < p.length ? p.n - p.at : p.length;
        if (!begin_chunk(&p) || !run_chunk(&p))
            return;
        end_chunk(&p);
    }
}
