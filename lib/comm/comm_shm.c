/*
 * comm_shm.c - collectives of groups whose members are all on one host, through memory that they
 * share: a message costs two copies and a wake-up, here data is copied in once and summed or copied
 * out by whoever needs it.
 *
 * Each rank has one area of the shared memory: for each group a phase, a number that only this rank
 * raises, and for each queue SLOTS slots of data. A chunk goes: copy in, raise the phase, wait until all members
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
    } sign[SN_NAXES][SN_COLLECTIVE_SLOTS]; /* what the data of the slot belongs to */
};

_Static_assert(sizeof(struct head) <= HEAD, "the head fits before the slots");

static struct head *head_of(const struct sn_engine *e, int group, int member)
{
    return (struct head *)(void *)e->shm.area[e->group[group].seat[member]];
}

static _Atomic uint64_t *phase_of(const struct sn_engine *e, int group, int member)
{
    return &head_of(e, group, member)->phase[group].value;
}

/* A group's chunks take the slots of its queue in turn, so all members use the same one. */
static int slot_number(const struct sn_shm_run *p)
{
    return (int)(p->q->chunks % SN_COLLECTIVE_SLOTS);
}

static char *slot_of(const struct sn_shm_run *p, int member)
{
    int slot = p->e->lane[p->lane].place * SN_COLLECTIVE_SLOTS + slot_number(p);
    return p->e->shm.area[p->q->seat[member]] + HEAD + (int64_t)slot * SLOT;
}

static struct sn_shm_sign *sign_of(const struct sn_shm_run *p, int member)
{
    return &head_of(p->e, (int)p->t->group, member)->sign[p->lane][slot_number(p)];
}

/* Have all members of a group come to a phase? Looks for a moment. */
static bool has_come(const struct sn_engine *e, int group, uint64_t phase)
{
    for (int i = 0; i < e->group[group].size; i++) {
        const _Atomic uint64_t *value = phase_of(e, group, i);
        int looks = 0;
        while (atomic_load_explicit(value, memory_order_acquire) < phase)
            if (looks++ == LOOKS)
                return false;
    }
    return true;
}

static void raise_phase(struct sn_shm_run *p)
{
    atomic_store_explicit(phase_of(p->e, (int)p->t->group, p->q->index), ++p->q->phase,
                          memory_order_release);
}

/* May this rank's slot be filled? */
static bool is_free(struct sn_shm_run *p)
{
    int s = slot_number(p);
    struct sn_comm_lane *l = &p->e->lane[p->lane];
    bool may = l->user[s].phase == 0 || has_come(p->e, l->user[s].group, l->user[s].phase);
    l->awaited = may ? -1 : s;
    return may;
}

int sn_shm_holder(const struct sn_engine *e, const struct sn_comm_lane *l, enum sn_group *q)
{
    int s = l->awaited;
    if (!e->shm.area || s < 0)
        return -1;
    int group = l->user[s].group;
    *q = (enum sn_group)group;
    for (int i = 0; i < e->group[group].size; i++)
        if (atomic_load_explicit(phase_of(e, group, i), memory_order_acquire) < l->user[s].phase)
            return sn_engine_member(e, *q, i);
    return -1;
}

static void disagree(struct sn_shm_run *p, int rank, const struct sn_shm_sign *s)
{
    char what[160];
    sn_engine_describe(p->e, p->slot, what, sizeof(what));
    (void)sn_fail(&p->e->error, SN_EFAIL,
                  "%s: %s has %s%lld elements of %s, but rank %d posted %s of %s%lld elements of "
                  "%s; the ranks' programs differ",
                  p->e->ops.name, what, p->t->sized ? "up to " : "", (long long)p->t->n,
                  sn_dtype_name(p->t->dtype), rank, sn_collective_name(s->kind),
                  s->sized ? "up to " : "", (long long)s->n, sn_dtype_name(s->dtype));
    atomic_store(&p->e->failed, true);
}

/* The chunk is in all slots: false if a member is in another operation. */
static bool is_the_same(struct sn_shm_run *p)
{
    for (int i = 0; i < p->q->size; i++) {
        const struct sn_shm_sign *s = sign_of(p, i);
        if (s->kind == p->t->kind && s->dtype == p->t->dtype && s->n == p->t->n &&
            s->sized == p->t->sized)
            continue;
        disagree(p, sn_engine_member(p->e, p->t->group, i), s);
        return false;
    }
    return true;
}

/* This rank has read what it needed of the others' slots. */
static void end_chunk(struct sn_shm_run *p)
{
    int s = slot_number(p);
    struct sn_comm_lane *l = &p->e->lane[p->lane];
    raise_phase(p);
    l->user[s].group = (int)p->t->group;
    l->user[s].phase = p->q->phase;
    p->q->chunks++;
}

static void copy(const struct sn_shm_run *p, char *to, const char *from, int64_t count)
{
    memcpy(to, from, (size_t)(count * p->width));
}

/* out (= or +=) own plus what the others have at `at` bytes of their slots, in member order. Blocks
 * of the others are put side by side in the staging memory first. */
static void sum(struct sn_shm_run *p, const char *own, char *out, int64_t at, int64_t count)
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

/* ---- one chunk of each kind: into this rank's slot, and out of all of them -------------------- */

static bool is_small(const struct sn_shm_run *p)
{
    return p->t->kind == SN_ALL_REDUCE && p->t->n * p->width <= SN_COLLECTIVE_SMALL;
}

/* Everybody sums everything. */
static void read_small(struct sn_shm_run *p)
{
    sum(p, slot_of(p, p->q->index), p->out, 0, p->count);
    sn_engine_count(p->e, p->t->group, (p->q->size - 1) * p->count * p->width);
}

/* Member j sums slice j, where only it reads, and leaves the sum there. */
static void sum_own_slice(struct sn_shm_run *p)
{
    char *mine = slot_of(p, p->q->index);
    struct sn_collective_slice own = sn_collective_slice(p->count, p->q->size, p->q->index);
    sum(p, mine + own.start * p->width, mine + own.start * p->width, own.start * p->width,
        own.count);
}

static void read_sums(struct sn_shm_run *p)
{
    struct sn_collective_slice own = sn_collective_slice(p->count, p->q->size, p->q->index);
    for (int d = 0; d < p->q->size; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_collective_slice s = sn_collective_slice(p->count, p->q->size, j);
        copy(p, p->out + (p->at + s.start) * p->width, slot_of(p, j) + s.start * p->width, s.count);
    }
    sn_engine_count(p->e, p->t->group,
                    (p->count - own.count + (p->q->size - 1) * own.count) * p->width);
}

/* What travels of a sized block; of one whose length is none that length, which all then see. */
static int64_t travels(const struct sn_shm_run *p, const char *block)
{
    int64_t n = sn_transfer_travels(p->t, block);
    return n < 0 ? SN_COLLECTIVE_LENGTH : n;
}

/* Sized blocks, first chunk: the lengths that all slots hold. */
static bool take_lengths(struct sn_shm_run *p)
{
    bool gathers = p->t->kind == SN_ALL_GATHER;
    p->n = SN_COLLECTIVE_LENGTH;
    for (int i = 0; i < p->q->size; i++)
        for (int j = 0; j < (gathers ? 1 : p->q->size); j++) {
            const char *block = slot_of(p, i) + j * p->length;
            if (!sn_sized_fits(p->e, p->slot, sn_engine_member(p->e, p->t->group, i), block))
                return false;
            int64_t n = !gathers && i == j ? 0 : travels(p, block);
            p->n = n > p->n ? n : p->n;
        }
    for (int i = 0; i < p->q->size; i++)
        memcpy(p->out + i * p->t->n, slot_of(p, i) + (gathers ? 0 : p->q->index * p->length),
               SN_COLLECTIVE_LENGTH);
    return true;
}

/* The chunk's part of member m's block, which is one of those at `side`. */
static struct sn_comm_block chunk_of(const struct sn_shm_run *p, const char *side, int m)
{
    struct sn_comm_block b = sn_transfer_block(p->t, m);
    int64_t left = (p->t->sized ? travels(p, side + b.at) : b.n) - p->at;
    return (struct sn_comm_block){b.at + p->at, left < 0 ? 0 : left < p->count ? left : p->count};
}

static void write_gathered(struct sn_shm_run *p)
{
    copy(p, slot_of(p, p->q->index), p->in + p->at * p->width, chunk_of(p, p->out, p->q->index).n);
}

static void read_gathered(struct sn_shm_run *p)
{
    for (int d = 1; d < p->q->size; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_comm_block b = chunk_of(p, p->out, j);
        copy(p, p->out + b.at * p->width, slot_of(p, j), b.n);
    }
    sn_engine_count(p->e, p->t->group,
                    (p->q->size - 1) * chunk_of(p, p->out, p->q->index).n * p->width);
}

/* Reduce-scatter and all-to-all: a slot has a piece for each member. */
static void write_blocks(struct sn_shm_run *p)
{
    int64_t piece = p->length * p->width;
    struct sn_comm_block own = chunk_of(p, p->in, p->q->index);
    p->sent = 0;
    for (int j = 0; j < p->q->size; j++)
        if (j != p->q->index) {
            struct sn_comm_block b = chunk_of(p, p->in, j);
            copy(p, slot_of(p, p->q->index) + j * piece, p->in + b.at * p->width, b.n);
            p->sent += b.n;
        } else if (p->t->sized && p->at == 0) {
            copy(p, slot_of(p, j) + j * piece, p->in + own.at, SN_COLLECTIVE_LENGTH);
        }
}

static void read_blocks(struct sn_shm_run *p)
{
    int64_t mine = p->q->index * p->length * p->width;
    struct sn_comm_block own = chunk_of(p, p->in, p->q->index);
    if (p->t->kind == SN_REDUCE_SCATTER)
        sum(p, p->in + own.at * p->width, p->out + p->at * p->width, mine, own.n);
    for (int d = 1; d < p->q->size && p->t->kind == SN_ALL_TO_ALL; d++) {
        int j = (p->q->index + d) % p->q->size;
        struct sn_comm_block b = chunk_of(p, p->out, j);
        copy(p, p->out + b.at * p->width, slot_of(p, j) + mine, b.n);
    }
    sn_engine_count(p->e, p->t->group, p->sent * p->width);
}

static void write_chunk(struct sn_shm_run *p)
{
    if (p->t->kind == SN_ALL_REDUCE)
        copy(p, slot_of(p, p->q->index), p->in + p->at * p->width, p->count);
    else if (p->t->kind == SN_ALL_GATHER)
        write_gathered(p);
    else
        write_blocks(p);
}

static void read_chunk(struct sn_shm_run *p)
{
    if (is_small(p))
        read_small(p);
    else if (p->t->kind == SN_ALL_REDUCE)
        read_sums(p);
    else if (p->t->kind == SN_ALL_GATHER)
        read_gathered(p);
    else
        read_blocks(p);
}

/* Elements of a chunk, of the buffer or of each block. */
static int64_t chunk_length(const struct sn_shm_run *p)
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

/* ---- from begin to end ------------------------------------------------------------------------ */

enum phase_of_run { RUN_TO_WRITE, RUN_TO_READ, RUN_TO_READ_SUMS };

void sn_shm_begin(struct sn_shm_run *p, struct sn_engine *e, int slot)
{
    const struct sn_transfer *t = &e->queue.slot[slot].op.transfer;
    *p = (struct sn_shm_run){.e = e,
                             .q = &e->group[t->group],
                             .t = t,
                             .in = t->in ? t->in : t->out,
                             .out = t->out,
                             .slot = slot,
                             .lane = (int)sn_group_queue(t->group),
                             .width = (int64_t)sn_dtype_size(t->dtype),
                             .n = t->n,
                             .phase = RUN_TO_WRITE};
    struct sn_comm_block block = sn_transfer_block(t, p->q->index);
    for (int m = 0; m < p->q->size && t->exchange; m++) { /* of the longest */
        int64_t other = sn_transfer_block(t, m).n;
        p->n = m == 0 || other > p->n ? other : p->n;
    }
    p->length = chunk_length(p);
    const char *own = p->in + (t->kind == SN_ALL_TO_ALL ? block.at * p->width : 0);
    if ((t->kind == SN_ALL_GATHER || t->kind == SN_ALL_TO_ALL) &&
        own != p->out + block.at * p->width)
        copy(p, p->out + block.at * p->width, own, t->sized ? travels(p, own) : block.n);
}

/* All have raised their phase as often as this rank: may what was written be read? Sized blocks
 * begin with their lengths. */
static bool may_read(struct sn_shm_run *p)
{
    return is_the_same(p) && (!p->t->sized || p->at > 0 || take_lengths(p));
}

static enum sn_comm_step write_step(struct sn_shm_run *p)
{
    if (p->at >= p->n)
        return SN_STEP_DONE;
    if (!is_free(p))
        return SN_STEP_WAITS;
    p->count = p->n - p->at < p->length ? p->n - p->at : p->length;
    *sign_of(p, p->q->index) = (struct sn_shm_sign){
        .kind = p->t->kind, .dtype = p->t->dtype, .n = p->t->n, .sized = p->t->sized};
    write_chunk(p);
    raise_phase(p);
    p->phase = RUN_TO_READ;
    return SN_STEP_MOVED;
}

enum sn_comm_step sn_shm_step(struct sn_shm_run *p)
{
    if (p->phase == RUN_TO_WRITE)
        return write_step(p);
    if (!has_come(p->e, (int)p->t->group, p->q->phase))
        return SN_STEP_WAITS;
    if (p->phase == RUN_TO_READ) {
        if (!may_read(p))
            return SN_STEP_DONE;
        if (p->t->kind == SN_ALL_REDUCE && !is_small(p)) {
            sum_own_slice(p);
            raise_phase(p);
            p->phase = RUN_TO_READ_SUMS;
            return SN_STEP_MOVED;
        }
    }
    read_chunk(p);
    end_chunk(p);
    p->at += p->length;
    p->phase = RUN_TO_WRITE;
    return p->at < p->n ? SN_STEP_MOVED : SN_STEP_DONE;
}
