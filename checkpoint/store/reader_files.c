/*
 * reader_files.c - the shards of a checkpoint: open ones, and where in them the datasets begin.
 */
#include "checkpoint/format/hdf5.h"
#include "checkpoint/store/reader.h"
#include "checkpoint/store/uses.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OPEN_MOST = 128 }; /* shards; each is two descriptors, and 1024 is a usual limit */

/* What struct place.at says before the place is known; no dataset begins that early. */
enum { UNKNOWN, EXPECTED, BAD, NEVER_BEFORE };

/* Of a piece. */
struct place {
    const struct sn_manifest_tensor *tensor;
    uint64_t at; /* where its dataset begins in the file */
    int next;    /* piece of the same shard, -1 for none */
};

struct shard {
    struct sn_aio_file *file; /* NULL: not open */
    uint64_t used;            /* when: for closing the one that nobody needed for longest */
    int first;                /* of its pieces, -1 for none */
};

struct sn_reader_files {
    struct shard *shards;
    struct place *places;
    int n_open;
    uint64_t clock;
};

static void list_places(struct sn_reader_files *f, const struct sn_manifest *m)
{
    for (int i = 0; i < m->n_shards; i++)
        f->shards[i].first = -1;
    for (int i = m->n_tensors - 1; i >= 0; i--)
        for (int k = m->tensors[i].n_pieces - 1; k >= 0; k--) {
            const struct sn_manifest_piece *p = &m->tensors[i].pieces[k];
            int *first = &f->shards[p->shard].first, piece = (int)(p - m->pieces);
            f->places[piece] = (struct place){&m->tensors[i], UNKNOWN, *first};
            *first = piece;
        }
}

/* Made by the first who needs it: looking at a manifest does not. */
static enum sn_status prepare(struct sn_reader *r, struct sn_err *err)
{
    if (r->files)
        return SN_OK;
    const struct sn_manifest *m = &r->manifest;
    struct sn_reader_files *f = sn_alloc(sizeof(*f));
    struct shard *shards = sn_alloc_n((size_t)m->n_shards, sizeof(*shards));
    struct place *places = sn_alloc_n((size_t)m->n_pieces, sizeof(*places));
    if (!f || !shards || !places) {
        sn_free(f);
        sn_free(shards);
        sn_free(places);
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its %d pieces", r->dir, m->n_pieces);
    }
    f->shards = shards;
    f->places = places;
    list_places(f, m);
    r->files = f;
    return SN_OK;
}

void sn_reader_close(struct sn_reader *r)
{
    for (int i = 0; r->files && i < r->manifest.n_shards; i++)
        sn_aio_close(r->files->shards[i].file);
    if (r->files) {
        sn_free(r->files->shards);
        sn_free(r->files->places);
    }
    sn_free(r->files);
    sn_manifest_fini(&r->manifest);
    sn_free(r->dir);
    *r = (struct sn_reader){0};
}

/* --- open shards ----------------------------------------------------------------------------- */

static void close_one(struct sn_reader *r)
{
    struct shard *oldest = NULL;
    for (int i = 0; i < r->manifest.n_shards; i++) {
        struct shard *s = &r->files->shards[i];
        if (s->file && (!oldest || s->used < oldest->used))
            oldest = s;
    }
    sn_aio_close(oldest->file);
    oldest->file = NULL;
    r->files->n_open--;
}

static enum sn_status open_shard(struct sn_reader *r, int number, struct sn_err *err)
{
    const struct sn_manifest_shard *m = &r->manifest.shards[number];
    struct sn_aio_file *file = NULL;
    char *path = sn_format("%s/%s", r->dir, m->file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open %s", r->dir, m->file);
    enum sn_status st = sn_aio_open(&file, path, false, err);
    if (st == SN_OK && sn_aio_size(file) != (uint64_t)m->bytes)
        st = sn_fail(err, SN_EIO,
                     "%s: has %" PRIu64 " bytes where %" PRId64
                     " were saved; the file was cut or altered, use another checkpoint",
                     path, sn_aio_size(file), m->bytes);
    sn_free(path);
    if (st != SN_OK) {
        sn_aio_close(file);
        return st;
    }
    if (r->files->n_open == OPEN_MOST)
        close_one(r);
    r->files->shards[number].file = file;
    r->files->n_open++;
    return SN_OK;
}

static enum sn_status use_shard(struct sn_reader *r, int number, struct sn_err *err)
{
    SN_TRY(prepare(r, err));
    struct shard *s = &r->files->shards[number];
    if (!s->file)
        SN_TRY(open_shard(r, number, err));
    s->used = ++r->files->clock;
    return SN_OK;
}

enum sn_status sn_reader_check_shard(struct sn_reader *r, int shard, struct sn_err *err)
{
    return use_shard(r, shard, err);
}

static enum sn_status name_tensor(const struct sn_err *why, enum sn_status st,
                                  const struct sn_manifest_tensor *t, struct sn_err *err)
{
    return sn_fail(err, st, "%s (reading tensor %s %s)", why->text, t->group, t->name);
}

enum sn_status sn_reader_expect(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, struct sn_err *err)
{
    struct sn_err why;
    bool is_new = !r->files || !r->files->shards[p->shard].used;
    enum sn_status st = is_new ? use_shard(r, p->shard, &why) : SN_OK;
    if (st != SN_OK)
        return name_tensor(&why, st, t, err);
    uint64_t *at = &r->files->places[p - r->manifest.pieces].at;
    if (*at == UNKNOWN)
        *at = EXPECTED;
    return SN_OK;
}

/* --- datasets in them ------------------------------------------------------------------------ */

static enum sn_status locate(struct sn_reader *r, struct sn_h5 *h5, int piece, struct sn_err *err)
{
    const struct sn_manifest_piece *p = &r->manifest.pieces[piece];
    struct place *place = &r->files->places[piece];
    struct sn_h5_slot slot = {
        .rows = p->set_rows, .cols = p->set_cols, .dtype = place->tensor->dtype};
    place->at = BAD;
    sn_progress_mark(r->progress);
    if (snprintf(slot.dataset, sizeof(slot.dataset), "%s", p->dataset) >= (int)sizeof(slot.dataset))
        return sn_fail(err, SN_EIO, "%s/%s: '%.64s...' is too long for a dataset's name", r->dir,
                       r->manifest.shards[p->shard].file, p->dataset);
    SN_TRY(sn_h5_locate(h5, &slot, err));
    place->at = slot.offset;
    return SN_OK;
}

/* One visit of HDF5 for all pieces of the shard that are expected; only a failure on the asked one
 * is one of the caller's. */
static enum sn_status locate_in(struct sn_reader *r, struct sn_h5 *h5, int asked,
                                struct sn_err *err)
{
    struct place *places = r->files->places;
    uint64_t kind = places[asked].at == UNKNOWN ? UNKNOWN : EXPECTED;
    SN_TRY(locate(r, h5, asked, err));
    for (int i = r->files->shards[r->manifest.pieces[asked].shard].first; i >= 0;
         i = places[i].next)
        if (places[i].at == kind)
            (void)locate(r, h5, i, NULL); /* told when it is asked for */
    return SN_OK;
}

static enum sn_status visit(struct sn_reader *r, int asked, struct sn_err *err)
{
    struct sn_h5 *h5;
    const char *file = r->manifest.shards[r->manifest.pieces[asked].shard].file;
    char *path = sn_format("%s/%s", r->dir, file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open %s", r->dir, file);
    enum sn_status st = sn_h5_open(&h5, path, err);
    sn_free(path);
    SN_TRY(st);
    st = locate_in(r, h5, asked, err);
    sn_h5_close(h5);
    return st;
}

enum sn_status sn_reader_locate(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, struct sn_aio_request *out,
                                struct sn_err *err)
{
    struct sn_err why;
    int piece = (int)(p - r->manifest.pieces);
    enum sn_status st = use_shard(r, p->shard, &why);
    if (st == SN_OK && r->files->places[piece].at < NEVER_BEFORE)
        st = visit(r, piece, &why);
    if (st != SN_OK)
        return name_tensor(&why, st, t, err);
    size_t size = sn_dtype_size(t->dtype);
    uint64_t first = (uint64_t)(p->at_row * p->set_cols + p->at_col);
    bool is_run = p->box.rows == 1 || p->box.cols == p->set_cols;
    *out = (struct sn_aio_request){.file = r->files->shards[p->shard].file,
                                   .offset = r->files->places[piece].at + first * size,
                                   .bytes = (size_t)sn_box_size(p->box) * size,
                                   .row = is_run ? 0 : (size_t)p->box.cols * size,
                                   .stride = is_run ? 0 : (size_t)p->set_cols * size};
    return SN_OK;
}

enum sn_status sn_reader_locate_block(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                      const struct sn_manifest_piece *p, int64_t k,
                                      struct sn_aio_request *out, struct sn_err *err)
{
    SN_TRY(sn_reader_locate(r, t, p, out, err));
    uint64_t begin = (uint64_t)(k * r->manifest.block);
    out->bytes = (size_t)sn_block_bytes(p, t->dtype, r->manifest.block, k);
    if (out->row > 0) {
        out->skip = begin % out->row;
        out->offset += begin / out->row * out->stride + out->skip;
    } else {
        out->offset += begin;
    }
    return SN_OK;
}

enum sn_status sn_reader_bad_block(const struct sn_reader *r, const struct sn_manifest_tensor *t,
                                   const struct sn_manifest_piece *p, int64_t k, struct sn_err *err)
{
    char block[160] = "";
    int64_t width = p->box.cols * (int64_t)sn_dtype_size(t->dtype), begin = k * r->manifest.block;
    int64_t last = begin + sn_block_bytes(p, t->dtype, r->manifest.block, k) - 1;
    if (p->n_blocks > 1)
        (void)snprintf(block, sizeof(block),
                       ", block %" PRId64 " of %" PRId64 " (rows %" PRId64 " to %" PRId64 "),",
                       k + 1, p->n_blocks, p->box.row + begin / width, p->box.row + last / width);
    return sn_fail(err, SN_EIO,
                   "%s/%s: the bytes of %s%s are not those that were saved (their hash differs); "
                   "the file was altered, use another checkpoint",
                   r->dir, r->manifest.shards[p->shard].file, p->dataset, block);
}
