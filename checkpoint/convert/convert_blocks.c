/*
 * convert_blocks.c - the way of the values: blocks of the new pieces, in the order in which the old
 * ones are read, each taken from the source box by box, then hashed and written behind our back.
 *
 * A block is a range of a piece's elements, so at most three boxes: part of a row, whole rows, part
 * of a row. Blocks of a tensor are taken by their first row over all its pieces: source blocks that
 * several of them need are then needed close together, and are read once in little memory.
 */
#include "checkpoint/convert/conversion.h"
#include "checkpoint/io/numbers.h"
#include "checkpoint/io/writer.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH = 16384,            /* blocks that are announced at once: a bound of their lists */
    SYNC_BYTES = 256 << 20,   /* written between two syncs, at least ... */
    SYNC_SECONDS = 5,         /* ... or this long, ... */
    SYNC_FILES = 100,         /* ... or so many files: each is open twice */
    WRITER_BYTES = 256 << 20, /* more staging than this makes no disk faster */
    WRITER_BLOCKS = 4096,
    THREADS = 3
};

struct block {
    int tensor, piece; /* of the plan */
    int64_t k;         /* of the piece */
    int64_t row, col;  /* of the tensor, where it begins */
};

struct blocks {
    struct sn_conversion *v;
    struct sn_conversion_journal *journal;
    struct sn_aio *aio;
    struct sn_writer *writer;
    void *arena;
    int64_t arena_bytes, feed_bytes, sync_bytes;
    float *wide;                /* a block as fp32 on its way to a half type */
    struct sn_aio_file **files; /* by shard; NULL: not open */
    int n_files;
    int *finished; /* tensors written, not yet in the journal */
    int n_finished;
    struct block *list; /* of the batch */
    struct sn_source_want *wants;
    int64_t n_list, n_wants, cap;
    int64_t written, total, unsynced; /* bytes */
    double begun, synced, shown;      /* seconds */
};

/* --- boxes of a block ------------------------------------------------------------------------ */

static int64_t elements(const struct sn_manifest *m, const struct sn_manifest_tensor *t)
{
    return m->block / (int64_t)sn_dtype_size(t->dtype);
}

/* Elements first .. first + n - 1 of the piece, row by row, as boxes of its tensor; how many. */
static int split(struct sn_box out[3], struct sn_box p, int64_t first, int64_t n)
{
    int boxes = 0;
    while (n > 0) {
        int64_t row = first / p.cols, col = first % p.cols;
        struct sn_box b = {p.row + row, p.col + col, 1, p.cols - col};
        if (col == 0 && n >= p.cols)
            b.rows = n / p.cols;
        else if (b.cols > n)
            b.cols = n;
        out[boxes++] = b;
        first += sn_box_size(b);
        n -= sn_box_size(b);
    }
    return boxes;
}

static int boxes_of(struct sn_box out[3], const struct sn_manifest *m, const struct block *b)
{
    int64_t each = elements(m, &m->tensors[b->tensor]), first = b->k * each;
    struct sn_box p = m->pieces[b->piece].box;
    int64_t left = sn_box_size(p) - first;
    return split(out, p, first, left < each ? left : each);
}

/* --- lists ----------------------------------------------------------------------------------- */

static int by_place(const void *pa, const void *pb)
{
    const struct block *a = pa, *b = pb;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->col != b->col)
        return a->col < b->col ? -1 : 1;
    return 0; /* pieces do not overlap */
}

static int64_t blocks_of(const struct sn_manifest_tensor *t)
{
    int64_t n = 0;
    for (int i = 0; i < t->n_pieces; i++)
        n += t->pieces[i].n_blocks;
    return n;
}

static enum sn_status make_room(struct blocks *x, int64_t more, struct sn_err *err)
{
    int64_t need = x->n_list + more;
    if (need <= x->cap)
        return SN_OK;
    need += need / 2;
    struct block *list = sn_realloc(x->list, (size_t)need * sizeof(*list));
    if (list)
        x->list = list;
    struct sn_source_want *wants = sn_realloc(x->wants, (size_t)need * 3 * sizeof(*wants));
    if (wants)
        x->wants = wants;
    if (!list || !wants)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list %" PRId64 " blocks", x->v->tmp, need);
    x->cap = need;
    return SN_OK;
}

static enum sn_status add_tensor(struct blocks *x, int tensor, struct sn_err *err)
{
    const struct sn_manifest *m = x->v->plan;
    const struct sn_manifest_tensor *t = &m->tensors[tensor];
    int64_t first = x->n_list, each = elements(m, t);
    SN_TRY(make_room(x, blocks_of(t), err));
    for (int i = 0; i < t->n_pieces; i++) {
        struct sn_box p = t->pieces[i].box;
        for (int64_t k = 0; k < t->pieces[i].n_blocks; k++)
            x->list[x->n_list++] =
                (struct block){tensor, (int)(&t->pieces[i] - m->pieces), k,
                               p.row + k * each / p.cols, p.col + k * each % p.cols};
    }
    if (x->n_list > first + 1)
        qsort(x->list + first, (size_t)(x->n_list - first), sizeof(*x->list), by_place);
    return SN_OK;
}

static void list_wants(struct blocks *x)
{
    struct sn_box boxes[3];
    x->n_wants = 0;
    for (int64_t i = 0; i < x->n_list; i++) {
        int n = boxes_of(boxes, x->v->plan, &x->list[i]);
        for (int k = 0; k < n; k++) /* tensors of the plan are those of the source */
            x->wants[x->n_wants++] = (struct sn_source_want){x->list[i].tensor, boxes[k]};
    }
}

/* --- syncing --------------------------------------------------------------------------------- */

static void close_files(struct blocks *x)
{
    for (int s = 0; x->files && s < x->v->plan->n_shards && x->n_files > 0; s++) {
        x->n_files -= x->files[s] != NULL;
        sn_aio_close(x->files[s]);
        x->files[s] = NULL;
    }
}

/* What was written is on the disk, and the tensors that it finished are in the journal. */
static enum sn_status sync_all(struct blocks *x, struct sn_err *err)
{
    SN_TRY(sn_writer_drain(x->writer, err));
    for (int s = 0; s < x->v->plan->n_shards; s++)
        if (x->files[s])
            SN_TRY(sn_aio_sync(x->files[s], NULL, err));
    close_files(x);
    for (int i = 0; i < x->n_finished; i++)
        SN_TRY(sn_journal_add(x->journal, x->finished[i], err));
    x->n_finished = 0;
    x->unsynced = 0;
    SN_TRY(sn_journal_sync(x->journal, err));
    x->synced = sn_clock();
    return SN_OK;
}

static void show_progress(struct blocks *x, bool last)
{
    char done[16], all[16], rate[16];
    double now = sn_clock(), took = now - x->begun;
    if (x->v->o->is_quiet || x->v->o->comm->rank != 0 || (!last && now - x->shown < 0.2) ||
        isatty(STDERR_FILENO) != 1)
        return;
    x->shown = now;
    double speed = took > 0 ? (double)x->written / took : 0;
    (void)fprintf(stderr, "\r%s of %s, %s/s, %.0f s left   %s", sn_str_bytes(done, x->written),
                  sn_str_bytes(all, x->total), sn_str_bytes(rate, (int64_t)speed),
                  speed > 0 ? (double)(x->total - x->written) / speed : 0, last ? "\n" : "");
}

/* --- one block ------------------------------------------------------------------------------- */

static enum sn_status open_file(struct blocks *x, int shard, struct sn_err *err)
{
    if (x->files[shard])
        return SN_OK;
    if (x->n_files >= SYNC_FILES)
        SN_TRY(sync_all(x, err));
    char *path = sn_format("%s/%s", x->v->tmp, x->v->plan->shards[shard].file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open a shard", x->v->tmp);
    enum sn_status st = sn_aio_open(&x->files[shard], path, true, err);
    sn_free(path);
    x->n_files += st == SN_OK;
    return st;
}

static enum sn_status fill(struct blocks *x, const struct block *b, void *to, struct sn_err *err)
{
    const struct sn_manifest_tensor *t = &x->v->plan->tensors[b->tensor];
    struct sn_source *s = x->v->source;
    struct sn_box boxes[3];
    float *values = t->dtype == SN_F32 ? to : x->wide;
    int64_t at = 0;
    float lost;
    int n = boxes_of(boxes, x->v->plan, b);
    for (int i = 0; i < n; i++) {
        SN_TRY(s->next(s->self, values + at, boxes[i].cols, err));
        at += sn_box_size(boxes[i]);
    }
    if (t->dtype != SN_F32 && !sn_narrow(to, x->wide, at, t->dtype, &lost))
        return sn_narrow_fail(s->name, t->name, t->dtype, lost, err);
    return SN_OK;
}

/* Where the block's bytes belong: in a row, or in rows of a dataset that is
 * wider than the piece. */
static struct sn_aio_request place_of(const struct blocks *x, const struct block *b)
{
    const struct sn_manifest *m = x->v->plan;
    const struct sn_manifest_tensor *t = &m->tensors[b->tensor];
    const struct sn_manifest_piece *p = &m->pieces[b->piece];
    int64_t size = (int64_t)sn_dtype_size(t->dtype), first = b->k * elements(m, t);
    int64_t row = first / p->box.cols, col = first % p->box.cols;
    int64_t bytes = (sn_box_size(p->box) - first) * size;
    int64_t at = (p->at_row + row) * p->set_cols + p->at_col + col;
    struct sn_aio_request r = {.file = x->files[p->shard],
                               .is_write = true,
                               .offset = x->v->offsets[b->piece] + (uint64_t)(at * size),
                               .bytes = (size_t)(bytes < m->block ? bytes : m->block),
                               .hash = &p->hashes[b->k]};
    if (p->box.cols != p->set_cols) {
        r.row = (size_t)(p->box.cols * size);
        r.stride = (size_t)(p->set_cols * size);
        r.skip = (size_t)(col * size);
    }
    return r;
}

static enum sn_status write_block(struct blocks *x, const struct block *b, struct sn_err *err)
{
    SN_TRY(open_file(x, x->v->plan->pieces[b->piece].shard, err));
    struct sn_aio_request where = place_of(x, b);
    where.buf = sn_writer_take(x->writer, where.bytes);
    if (!where.buf)
        return sn_writer_drain(x->writer, err);
    SN_TRY(fill(x, b, where.buf, err));
    sn_writer_put(x->writer, &where);
    x->written += (int64_t)where.bytes;
    x->unsynced += (int64_t)where.bytes;
    return SN_OK;
}

static enum sn_status write_batch(struct blocks *x, struct sn_err *err)
{
    struct sn_source *s = x->v->source;
    list_wants(x);
    SN_TRY(s->begin(s->self, x->wants, x->n_wants, x->feed_bytes, err));
    for (int64_t i = 0; i < x->n_list; i++) {
        SN_TRY(write_block(x, &x->list[i], err));
        if (i + 1 == x->n_list || x->list[i + 1].tensor != x->list[i].tensor)
            x->finished[x->n_finished++] = x->list[i].tensor;
        if (x->unsynced >= x->sync_bytes || sn_clock() - x->synced >= SYNC_SECONDS)
            SN_TRY(sync_all(x, err));
        show_progress(x, false);
    }
    x->n_list = 0;
    return SN_OK;
}

/* --- all of them ----------------------------------------------------------------------------- */

static bool has_half(const struct sn_manifest *m)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (m->tensors[i].dtype != SN_F32)
            return true;
    return false;
}

static int64_t wide_bytes(const struct sn_manifest *m)
{
    return has_half(m) ? 2 * m->block : 0; /* two bytes a value become four */
}

int64_t sn_conversion_least(const struct sn_conversion *v)
{
    int64_t half = 2 * v->plan->block + wide_bytes(v->plan);
    return 2 * (half > v->source->least ? half : v->source->least);
}

static void fini(struct blocks *x)
{
    sn_writer_destroy(x->writer);
    close_files(x);
    sn_aio_destroy(x->aio);
    sn_arena_unmap(x->arena, (size_t)x->arena_bytes);
    sn_free(x->wide);
    sn_free(x->files);
    sn_free(x->finished);
    sn_free(x->list);
    sn_free(x->wants);
}

static enum sn_status init(struct blocks *x, const bool *mine, struct sn_err *err)
{
    const struct sn_manifest *m = x->v->plan;
    int64_t half = x->v->o->memory / 2 - wide_bytes(m), staged = 2 * m->block;
    for (int i = 0; i < m->n_tensors; i++) {
        if (!mine[i])
            continue;
        x->total += sn_conversion_tensor_bytes(&m->tensors[i]);
        staged += blocks_of(&m->tensors[i]) * m->block;
    }
    half = half < WRITER_BYTES ? half : WRITER_BYTES;
    x->arena_bytes = (half < staged ? half : staged) / SN_AIO_ALIGN * SN_AIO_ALIGN;
    x->feed_bytes = x->v->o->memory / 2;
    x->sync_bytes = x->v->o->sync_bytes ? x->v->o->sync_bytes : SYNC_BYTES;
    x->arena = sn_arena_map((size_t)x->arena_bytes);
    x->files = sn_alloc_n((size_t)m->n_shards, sizeof(*x->files));
    x->finished = sn_alloc_n((size_t)m->n_tensors, sizeof(*x->finished));
    if (wide_bytes(m) > 0)
        x->wide = sn_alloc((size_t)wide_bytes(m));
    if (!x->arena || !x->files || !x->finished || (wide_bytes(m) > 0 && !x->wide))
        return sn_fail(err, SN_ENOMEM, "%s: no memory for %" PRId64 " bytes of buffers", x->v->tmp,
                       x->arena_bytes);
    SN_TRY(sn_aio_create(&x->aio, THREADS, err));
    return sn_writer_create(&x->writer, x->aio, x->arena, (size_t)x->arena_bytes, WRITER_BLOCKS,
                            err);
}

static enum sn_status write_all(struct blocks *x, const bool *mine, struct sn_err *err)
{
    const struct sn_manifest *m = x->v->plan;
    for (int i = 0; i < m->n_tensors; i++) {
        if (!mine[i])
            continue;
        if (x->n_list > 0 && x->n_list + blocks_of(&m->tensors[i]) > BATCH)
            SN_TRY(write_batch(x, err));
        SN_TRY(add_tensor(x, i, err));
    }
    if (x->n_list > 0)
        SN_TRY(write_batch(x, err));
    SN_TRY(sync_all(x, err));
    show_progress(x, true);
    return SN_OK;
}

enum sn_status sn_conversion_write(struct sn_conversion *v, const bool *mine,
                                   struct sn_conversion_journal *journal, int64_t *peak,
                                   struct sn_err *err)
{
    struct blocks x = {.v = v, .journal = journal, .begun = sn_clock(), .synced = sn_clock()};
    enum sn_status st = init(&x, mine, err);
    if (st == SN_OK)
        st = write_all(&x, mine, err);
    *peak = x.arena_bytes + x.feed_bytes + wide_bytes(v->plan) +
            x.cap * (int64_t)(sizeof(*x.list) + 3 * sizeof(*x.wants));
    fini(&x);
    return st;
}
