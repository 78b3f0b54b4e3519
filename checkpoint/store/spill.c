#include "checkpoint/store/spill.h"

#include "checkpoint/io/writer.h"
#include "kernels/bulk_copy.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <assert.h>
#include <string.h>

enum { THREADS = 3 }; /* writes under way: what a local disk needs to be busy */

/* Boxes on their way. */
struct spill {
    struct sn_store *store;
    const struct sn_spill_box *boxes;
    int n;
    int64_t n_blocks;
    struct sn_aio *aio;
};

/* A block of a box: bytes from .. from + bytes - 1 of its values. */
struct block {
    const struct sn_spill_box *box;
    int64_t number, from;
    size_t bytes;
};

static int64_t bytes_of(const struct sn_state_tensor *t)
{
    return t->n_rows * t->n_cols * (int64_t)sizeof(float);
}

int64_t sn_spill_blocks(const struct sn_state_tensor *t)
{
    return (bytes_of(t) + SN_BLOCK_BYTES - 1) / SN_BLOCK_BYTES;
}

static struct block block_of(const struct sn_spill_box *box, int64_t number)
{
    int64_t from = number * SN_BLOCK_BYTES, left = bytes_of(box->from) - from;
    return (struct block){box, number, from,
                          (size_t)(left < SN_BLOCK_BYTES ? left : SN_BLOCK_BYTES)};
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + SN_AIO_ALIGN - 1) / SN_AIO_ALIGN * SN_AIO_ALIGN;
}

/* Staging for all blocks at once. */
static size_t bytes_for_all(const struct spill *v)
{
    size_t sum = 0;
    for (int i = 0; i < v->n; i++) {
        size_t bytes = (size_t)bytes_of(v->boxes[i].from);
        sum += bytes / SN_BLOCK_BYTES * SN_BLOCK_BYTES + whole_pages(bytes % SN_BLOCK_BYTES);
    }
    return sum;
}

static void copy_block(char *to, const struct block *b)
{
    const struct sn_state_tensor *t = b->box->from;
    int64_t first = b->from / (int64_t)sizeof(float), done = 0;
    int64_t all = (int64_t)(b->bytes / sizeof(float));
    if (t->ld == t->n_cols && t->dtype == SN_F32) {
        sn_bulk_copy(to, (const char *)t->p + b->from, b->bytes);
        return;
    }
    for (int64_t n; done < all; done += n) {
        int64_t r = (first + done) / t->n_cols, c = (first + done) % t->n_cols;
        n = t->n_cols - c < all - done ? t->n_cols - c : all - done;
        sn_state_get(t, r, c, n, (float *)(void *)to + done);
    }
}

static struct sn_aio_request request_of(const struct block *b)
{
    struct sn_aio_request r = b->box->to;
    size_t from = (size_t)b->from;
    r.skip = r.row ? from % r.row : 0;
    r.offset += r.row ? from / r.row * r.stride + r.skip : from;
    r.bytes = b->bytes;
    r.hash = &b->box->hashes[b->number];
    return r;
}

/* False when a write has failed; the drain says which. */
static bool put_box(struct sn_writer *w, const struct sn_spill_box *box)
{
    for (int64_t k = 0; k < sn_spill_blocks(box->from); k++) {
        struct block b = block_of(box, k);
        struct sn_aio_request r = request_of(&b);
        char *p = sn_writer_take(w, b.bytes);
        if (!p)
            return false;
        copy_block(p, &b);
        sn_writer_put(w, &r);
    }
    return true;
}

/* The step loop may wait for this, so it copies and does nothing else: hashing and writing are the
 * work of the pool's threads. */
static bool put_all(struct spill *v, struct sn_writer *w)
{
    double began = sn_clock();
    for (int i = 0; i < v->n; i++) {
        if (i == v->n / 2)
            sn_store_stage(v->store, SN_STAGE_HALF);
        if (!put_box(w, &v->boxes[i]))
            return false;
    }
    v->store->times.copy = sn_clock() - began;
    sn_aio_hold(v->aio, false);
    sn_phase_set_copied(&v->store->phase);
    sn_store_stage(v->store, SN_STAGE_COPIED);
    return true;
}

static enum sn_status put_through(struct spill *v, void *arena, size_t bytes, struct sn_err *err)
{
    struct sn_writer *w;
    int64_t most = (int64_t)(bytes / SN_AIO_ALIGN);
    most = most < v->n_blocks ? most : v->n_blocks;
    SN_TRY(sn_writer_create(&w, v->aio, arena, bytes, most, err));
    bool good = put_all(v, w);
    enum sn_status st = sn_writer_drain(w, err);
    sn_writer_destroy(w);
    assert(good || st != SN_OK);
    return st;
}

static enum sn_status with_staging(struct spill *v, struct sn_err *err)
{
    struct sn_store *s = v->store;
    if (s->arena && bytes_for_all(v) <= s->arena_bytes) {
        sn_aio_hold(v->aio, true); /* the copy first: the step loop may wait for it */
        return put_through(v, s->arena, s->arena_bytes, err);
    }
    void *ring = sn_arena_map(SN_SPILL_RING);
    if (!ring)
        return sn_fail(err, SN_ENOMEM, "checkpoint: no memory for %d bytes of staging",
                       (int)SN_SPILL_RING);
    enum sn_status st = put_through(v, ring, SN_SPILL_RING, err);
    sn_arena_unmap(ring, SN_SPILL_RING);
    return st;
}

enum sn_status sn_spill(struct sn_store *store, const struct sn_spill_box *boxes, int n,
                        struct sn_err *err)
{
    struct spill v = {.store = store, .boxes = boxes, .n = n};
    for (int i = 0; i < n; i++)
        v.n_blocks += sn_spill_blocks(boxes[i].from);
    SN_TRY(sn_aio_create(&v.aio, THREADS, err));
    sn_aio_set_progress(v.aio, store->progress);
    enum sn_status st = with_staging(&v, err);
    sn_aio_destroy(v.aio);
    return st;
}
