/*
 * feed.c - two walks over the same list of blocks: one ahead, which finds room and begins to read,
 * and one behind, which waits, verifies and copies.
 *
 * A block stays while a use of it is known. The others are kept, too, as long as nobody needs their
 * room: the one that was idle for longest goes first.
 */
#include "checkpoint/store/uses.h"
#include "lib/base/mem.h"

#include <assert.h>
#include <inttypes.h>

enum {
    THREADS = 3, /* reading; one thread is slower than most disks */
    AHEAD = 64,  /* uses between the walks: enough for the disk, and few files open at once */
    LEAST = 4,   /* slots */
    LEAST_OF_PIECES = 2 /* before schema 3 a block is a whole piece, of gigabytes perhaps */
};
enum { NONE = -1 };

/* One block in the cache. */
struct slot {
    struct sn_aio_request request;
    const struct sn_manifest_piece *piece; /* NULL: empty */
    int64_t block;
    uint64_t hash; /* of what was read */
    int pending;   /* uses between the walks */
    enum { UNDER_WAY, ARRIVED, VERIFIED } state;
    int next;         /* in its bucket */
    int older, newer; /* among the idle ones: no use is known */
};

struct sn_feed {
    struct sn_reader *reader;
    struct sn_aio *aio;
    struct sn_uses ahead, behind;
    struct sn_use coming; /* the first that has no slot yet */
    bool has_coming;
    int queue[AHEAD]; /* slots of the uses between the walks */
    int64_t n_ahead, n_behind;
    char *arena;
    size_t slot_bytes;
    struct slot *slots;
    int n_slots;
    int *buckets; /* first slot of each; their number is a power of two */
    size_t n_buckets;
    int oldest, newest; /* idle slots */
    int64_t bytes_read;
};

/* --- slots: by block, and the idle ones by age ----------------------------------------------- */

static int *bucket_of(const struct sn_feed *f, const struct sn_manifest_piece *p, int64_t block)
{
    uint64_t key = (uint64_t)(p - f->reader->manifest.pieces) * 0x9e3779b97f4a7c15u;
    key = (key + (uint64_t)block) * 0x9e3779b97f4a7c15u;
    return &f->buckets[key >> 32 & (f->n_buckets - 1)];
}

static int find(const struct sn_feed *f, const struct sn_use *u)
{
    int s = *bucket_of(f, u->piece, u->block);
    while (s != NONE && (f->slots[s].piece != u->piece || f->slots[s].block != u->block))
        s = f->slots[s].next;
    return s;
}

static void forget(struct sn_feed *f, int s)
{
    struct slot *x = &f->slots[s];
    if (!x->piece)
        return;
    int *link = bucket_of(f, x->piece, x->block);
    while (*link != s)
        link = &f->slots[*link].next;
    *link = x->next;
    x->piece = NULL;
}

static void remember(struct sn_feed *f, int s, const struct sn_use *u)
{
    struct slot *x = &f->slots[s];
    int *first = bucket_of(f, u->piece, u->block);
    x->piece = u->piece;
    x->block = u->block;
    x->next = *first;
    *first = s;
}

static void make_idle(struct sn_feed *f, int s)
{
    f->slots[s].older = f->newest;
    f->slots[s].newer = NONE;
    *(f->newest == NONE ? &f->oldest : &f->slots[f->newest].newer) = s;
    f->newest = s;
}

static void make_busy(struct sn_feed *f, int s)
{
    const struct slot *x = &f->slots[s];
    *(x->older == NONE ? &f->oldest : &f->slots[x->older].newer) = x->newer;
    *(x->newer == NONE ? &f->newest : &f->slots[x->newer].older) = x->older;
}

/* --- the walk ahead -------------------------------------------------------------------------- */

/* Begin to read a block into an idle slot. */
static enum sn_status fetch(struct sn_feed *f, int s, const struct sn_use *u, struct sn_err *err)
{
    struct slot *x = &f->slots[s];
    struct sn_aio_request r;
    SN_TRY(sn_reader_locate_block(f->reader, u->want->tensor, u->piece, u->block, &r, err));
    forget(f, s);
    remember(f, s, u);
    x->request = r;
    x->request.buf = f->arena + (size_t)s * f->slot_bytes;
    x->request.hash = &x->hash;
    x->state = UNDER_WAY;
    f->bytes_read += (int64_t)r.bytes;
    sn_aio_submit(f->aio, &x->request);
    return SN_OK;
}

static enum sn_status advance(struct sn_feed *f, struct sn_err *err)
{
    while (f->has_coming && f->n_ahead - f->n_behind < AHEAD) {
        int s = find(f, &f->coming);
        if (s == NONE) {
            s = f->oldest;
            if (s == NONE)
                break;
            SN_TRY(fetch(f, s, &f->coming, err));
        }
        if (f->slots[s].pending++ == 0)
            make_busy(f, s);
        f->queue[f->n_ahead++ % AHEAD] = s;
        f->has_coming = sn_uses_next(&f->ahead, &f->coming);
    }
    return SN_OK;
}

/* --- the walk behind ------------------------------------------------------------------------- */

/* Wait for the block and compare its hash, once for all its uses. */
static enum sn_status verify(struct sn_feed *f, struct slot *x, const struct sn_use *u,
                             struct sn_err *err)
{
    const struct sn_manifest_tensor *t = u->want->tensor;
    struct sn_err why;
    if (x->state == VERIFIED)
        return SN_OK;
    x->state = ARRIVED;
    enum sn_status st = sn_aio_wait(f->aio, &x->request, &why);
    if (st != SN_OK)
        return sn_fail(err, st, "%s (reading tensor %s %s)", why.text, t->group, t->name);
    if (x->hash != u->piece->hashes[u->block])
        return sn_reader_bad_block(f->reader, t, u->piece, u->block, err);
    x->state = VERIFIED;
    return SN_OK;
}

enum sn_status sn_feed_next(struct sn_feed *f, float *out, int64_t ld, struct sn_err *err)
{
    struct sn_use u;
    assert(f->behind.n < f->ahead.n);
    f->behind.n++;
    while (sn_uses_next(&f->behind, &u)) {
        int s = f->queue[f->n_behind % AHEAD];
        struct slot *x = &f->slots[s];
        SN_TRY(verify(f, x, &u, err));
        sn_use_copy(&u, f->reader->manifest.block, x->request.data, (int64_t)x->request.bytes, out,
                    ld);
        f->n_behind++;
        if (--x->pending == 0)
            make_idle(f, s);
        SN_TRY(advance(f, err));
    }
    return SN_OK;
}

int64_t sn_feed_bytes_read(const struct sn_feed *f)
{
    return f->bytes_read;
}

/* --- open and close -------------------------------------------------------------------------- */

static size_t room_of(int64_t block_bytes)
{
    size_t pages = ((size_t)block_bytes + SN_AIO_ALIGN - 1) / SN_AIO_ALIGN + 2;
    return pages * SN_AIO_ALIGN;
}

static int64_t least_slots(const struct sn_manifest *m)
{
    return m->block == INT64_MAX ? LEAST_OF_PIECES : LEAST;
}

int64_t sn_feed_least(const struct sn_reader *r)
{
    const struct sn_manifest *m = &r->manifest;
    int64_t most = 0;
    for (int i = 0; i < m->n_tensors; i++)
        for (int k = 0; k < m->tensors[i].n_pieces; k++) {
            const struct sn_manifest_tensor *t = &m->tensors[i];
            int64_t bytes = sn_block_bytes(&t->pieces[k], t->dtype, m->block, 0);
            most = bytes > most ? bytes : most;
        }
    return most < INT64_MAX / (2 * LEAST) ? least_slots(m) * (int64_t)room_of(most) : INT64_MAX;
}

/* Check the shards of all uses; count the uses, and find the largest block. */
static enum sn_status survey(struct sn_feed *f, int64_t *n, int64_t *most, struct sn_err *err)
{
    struct sn_uses all = f->ahead;
    struct sn_use u;
    const struct sn_manifest_piece *last = NULL;
    *n = *most = 0;
    for (; sn_uses_next(&all, &u); ++*n) {
        const struct sn_manifest_tensor *t = u.want->tensor;
        int64_t bytes = sn_block_bytes(u.piece, t->dtype, all.block, u.block);
        *most = bytes > *most ? bytes : *most;
        if (u.piece != last)
            SN_TRY(sn_reader_expect(f->reader, t, u.piece, err));
        last = u.piece;
    }
    return SN_OK;
}

static enum sn_status make_slots(struct sn_feed *f, int64_t memory, struct sn_err *err)
{
    int64_t uses, most;
    SN_TRY(survey(f, &uses, &most, err));
    f->slot_bytes = room_of(most);
    int64_t n = memory / (int64_t)f->slot_bytes, least = least_slots(&f->reader->manifest);
    n = n < least ? least : n;
    n = n > uses ? uses : n;
    n = n > INT32_MAX / 4 ? INT32_MAX / 4 : n;
    f->n_slots = (int)n;
    f->n_buckets = 16;
    while (f->n_buckets < 2 * (size_t)n)
        f->n_buckets *= 2;
    f->slots = sn_alloc_n((size_t)n, sizeof(*f->slots));
    f->buckets = sn_alloc_n(f->n_buckets, sizeof(*f->buckets));
    size_t bytes;
    if (!__builtin_mul_overflow((size_t)n, f->slot_bytes, &bytes)) /* sparse files can be huge */
        f->arena = sn_arena_map(bytes);
    if (!f->slots || !f->buckets || !f->arena)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %d blocks of %" PRId64 " bytes",
                       f->reader->dir, f->n_slots, most);
    for (size_t i = 0; i < f->n_buckets; i++)
        f->buckets[i] = NONE;
    for (int i = 0; i < f->n_slots; i++)
        make_idle(f, i);
    return SN_OK;
}

enum sn_status sn_feed_open(struct sn_feed **out, struct sn_reader *r, const struct sn_want *wants,
                            int64_t n, int64_t memory, struct sn_err *err)
{
    struct sn_feed *f = sn_alloc(sizeof(*f));
    if (!f)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read it", r->dir);
    f->reader = r;
    f->ahead = f->behind = (struct sn_uses){.wants = wants, .n = n, .block = r->manifest.block};
    f->behind.n = 0;
    f->oldest = f->newest = NONE;
    enum sn_status st = make_slots(f, memory, err);
    if (st == SN_OK)
        st = sn_aio_create(&f->aio, THREADS, err);
    if (st == SN_OK) {
        sn_aio_set_progress(f->aio, r->progress);
        f->has_coming = sn_uses_next(&f->ahead, &f->coming);
        st = advance(f, err);
    }
    if (st == SN_OK)
        *out = f;
    else
        sn_feed_close(f);
    return st;
}

void sn_feed_close(struct sn_feed *f)
{
    struct sn_err ignored;
    if (!f)
        return;
    for (int i = 0; f->slots && i < f->n_slots; i++)
        if (f->slots[i].piece && f->slots[i].state == UNDER_WAY)
            (void)sn_aio_wait(f->aio, &f->slots[i].request, &ignored);
    sn_aio_destroy(f->aio);
    sn_arena_unmap(f->arena, (size_t)f->n_slots * f->slot_bytes);
    sn_free(f->buckets);
    sn_free(f->slots);
    sn_free(f);
}
