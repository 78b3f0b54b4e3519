/*
 * fsck.c - is every byte of a checkpoint what was saved?
 *
 * The blocks of all pieces are numbered in the order in which they lie in the shards, and each rank
 * reads an equal run of these numbers; whoever has the first block of a piece, or of a shard,
 * reports what is wrong with all of it. So the report is the same for any number of ranks.
 */
#include "checkpoint/convert/inspect.h"

#include "checkpoint/format/hdf5.h"
#include "checkpoint/format/master.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/reader.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, DEPTH_MAX = 32 };

struct item {
    const struct sn_manifest_tensor *tensor;
    const struct sn_manifest_piece *piece;
    int64_t first; /* number of its first block */
};

/* A block on its way. */
struct read {
    struct sn_aio_request request;
    const struct item *item;
    int64_t k;     /* number of the block in its piece */
    uint64_t hash; /* of what was read */
};

/* The check of one checkpoint by one rank. */
struct check {
    struct sn_reader *reader;
    struct sn_comm *comm;
    struct sn_fsck *result;
    struct sn_str *out;
    struct item *items; /* by shard, in the order of the manifest */
    int *shard_items;   /* shard s has items shard_items[s] .. shard_items[s + 1] - 1 */
    int64_t begin, end; /* the blocks of this rank */
    int64_t n_blocks;
    struct sn_aio *aio;
    char *arena;
    struct read reads[DEPTH_MAX]; /* first in, first out */
    int depth;
    int64_t n_begun, n_done;
};

static void add_fault(struct check *c, const struct sn_err *why)
{
    sn_str_add(c->out, "%s\n", why->text);
    c->result->faults++;
}

/* Damage is what we look for; anything else ends the work. */
static enum sn_status judge(struct check *c, enum sn_status st, const struct sn_err *why,
                            bool reports, struct sn_err *err)
{
    if (st == SN_OK)
        return st;
    if (st != SN_EIO)
        return sn_fail(err, st, "%s", why->text);
    if (reports)
        add_fault(c, why);
    return SN_OK;
}

static bool is_mine(const struct check *c, int64_t block)
{
    bool is_last = c->comm->rank == c->comm->size - 1;
    return block >= c->begin && (block < c->end || (is_last && block == c->n_blocks));
}

/* --- the order ------------------------------------------------------------------------------- */

static enum sn_status number_blocks(struct check *c, struct sn_err *err)
{
    const struct sn_manifest *m = &c->reader->manifest;
    c->items = sn_alloc_n((size_t)m->n_pieces, sizeof(*c->items));
    c->shard_items = sn_alloc_n((size_t)m->n_shards + 2, sizeof(*c->shard_items));
    if (!c->items || !c->shard_items)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to check %d pieces", c->reader->dir,
                       m->n_pieces);
    int *next =
        c->shard_items + 1; /* where each shard's next item goes; at the end: its last + 1 */
    for (int i = 0; i < m->n_pieces; i++)
        next[m->pieces[i].shard + 1]++;
    for (int s = 0; s < m->n_shards; s++)
        next[s + 1] += next[s];
    for (int t = 0; t < m->n_tensors; t++) {
        const struct sn_manifest_tensor *of = &m->tensors[t];
        for (int i = 0; i < of->n_pieces; i++)
            c->items[next[of->pieces[i].shard]++] = (struct item){of, &of->pieces[i], 0};
    }
    for (int i = 0; i < m->n_pieces; i++) {
        c->items[i].first = c->n_blocks;
        c->n_blocks += c->items[i].piece->n_blocks;
    }
    int64_t share = c->n_blocks / c->comm->size, more = c->n_blocks % c->comm->size;
    int rank = c->comm->rank;
    c->begin = share * rank + (rank < more ? rank : more);
    c->end = c->begin + share + (rank < more);
    return SN_OK;
}

/* --- blocks ---------------------------------------------------------------------------------- */

static size_t block_bytes(const struct check *c)
{
    int64_t most = 0;
    for (int i = 0; i < c->reader->manifest.n_pieces; i++) {
        int64_t bytes = sn_manifest_bytes(c->items[i].tensor, c->items[i].piece->box);
        if (bytes > c->reader->manifest.block)
            bytes = c->reader->manifest.block;
        most = bytes > most ? bytes : most;
    }
    return (size_t)most;
}

static enum sn_status make_room(struct check *c, int64_t memory, struct sn_err *err)
{
    size_t slot = (block_bytes(c) / SN_AIO_ALIGN + 3) * SN_AIO_ALIGN;
    int64_t fit = memory / (int64_t)slot;
    c->depth = fit < 1 ? 1 : fit > DEPTH_MAX ? DEPTH_MAX : (int)fit;
    c->arena = sn_alloc_n((size_t)c->depth + 1, slot);
    if (!c->arena)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read blocks of %zu bytes", c->reader->dir,
                       slot);
    char *aligned = c->arena + (SN_AIO_ALIGN - (uintptr_t)c->arena % SN_AIO_ALIGN);
    for (int i = 0; i < c->depth; i++)
        c->reads[i].request.buf = aligned + (size_t)i * slot;
    return sn_aio_create(&c->aio, THREADS, err);
}

/* The oldest read comes in. */
static enum sn_status finish_read(struct check *c, struct sn_err *err)
{
    struct read *r = &c->reads[c->n_done++ % c->depth];
    const struct sn_manifest_tensor *t = r->item->tensor;
    const struct sn_manifest_piece *p = r->item->piece;
    struct sn_err why;
    enum sn_status st = sn_aio_wait(c->aio, &r->request, &why);
    if (st != SN_OK) {
        struct sn_err plain = why;
        (void)sn_fail(&why, st, "%s (reading tensor %s %s, block %" PRId64 " of %" PRId64 ")",
                      plain.text, t->group, t->name, r->k + 1, p->n_blocks);
        return judge(c, st, &why, true, err);
    }
    c->result->blocks++;
    c->result->bytes += (int64_t)r->request.bytes;
    if (r->hash == p->hashes[r->k])
        return SN_OK;
    return judge(c, sn_reader_bad_block(c->reader, t, p, r->k, &why), &why, true, err);
}

static enum sn_status finish_all(struct check *c, struct sn_err *err)
{
    while (c->n_done < c->n_begun)
        SN_TRY(finish_read(c, err));
    return SN_OK;
}

/* What is found at once comes after what the reads before it will find. */
static enum sn_status judge_in_order(struct check *c, enum sn_status st, const struct sn_err *why,
                                     bool reports, struct sn_err *err)
{
    if (st != SN_OK)
        SN_TRY(finish_all(c, err));
    return judge(c, st, why, reports, err);
}

static enum sn_status begin_read(struct check *c, const struct item *item, int64_t k,
                                 struct sn_err *err)
{
    struct sn_err why;
    if (c->n_begun - c->n_done == c->depth)
        SN_TRY(finish_read(c, err));
    struct read *r = &c->reads[c->n_begun % c->depth];
    struct sn_aio_request where = {0};
    enum sn_status st =
        sn_reader_locate_block(c->reader, item->tensor, item->piece, k, &where, &why);
    if (st != SN_OK)
        return judge_in_order(c, st, &why, true, err);
    where.buf = r->request.buf;
    where.hash = &r->hash;
    *r = (struct read){where, item, k, 0};
    c->n_begun++;
    sn_aio_submit(c->aio, &r->request);
    return SN_OK;
}

static enum sn_status check_tensor_of(struct check *c, const struct item *item, struct sn_err *err)
{
    struct sn_err why;
    struct sn_aio_request where = {0};
    int64_t begin = c->begin - item->first, end = c->end - item->first;
    begin = begin > 0 ? begin : 0;
    end = end < item->piece->n_blocks ? end : item->piece->n_blocks;
    if (begin >= end && !is_mine(c, item->first))
        return SN_OK;
    enum sn_status st = sn_reader_locate(c->reader, item->tensor, item->piece, &where, &why);
    if (st != SN_OK)
        return judge_in_order(c, st, &why, is_mine(c, item->first), err);
    for (int64_t k = begin; k < end; k++)
        SN_TRY(begin_read(c, item, k, err));
    return SN_OK;
}

/* --- shards ---------------------------------------------------------------------------------- */

/* Before its pieces are looked at, so that a lost shard is one fault and not one a piece. */
static enum sn_status check_shard_file(struct check *c, int s, struct sn_err *err)
{
    const struct sn_manifest_shard *shard = &c->reader->manifest.shards[s];
    struct sn_h5 *h;
    SN_TRY(sn_reader_check_shard(c->reader, s, err));
    char *path = sn_format("%s/%s", c->reader->dir, shard->file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open shard %d", c->reader->dir, s);
    enum sn_status st = sn_h5_open(&h, path, err);
    sn_free(path);
    if (st == SN_OK)
        sn_h5_close(h);
    return st;
}

static void name_tensors(const struct check *c, int s, struct sn_err *why)
{
    int n = c->shard_items[s + 1] - c->shard_items[s];
    struct sn_err plain = *why;
    if (n == 0)
        return;
    const struct sn_manifest_tensor *first = c->items[c->shard_items[s]].tensor,
                                    *last = c->items[c->shard_items[s + 1] - 1].tensor;
    if (first == last)
        (void)sn_fail(why, plain.status, "%s (it holds tensor %s %s)", plain.text, first->group,
                      first->name);
    else
        (void)sn_fail(why, plain.status, "%s (it holds %d pieces, of tensors %s %s to %s %s)",
                      plain.text, n, first->group, first->name, last->group, last->name);
}

static enum sn_status check_shard(struct check *c, int s, struct sn_err *err)
{
    int i = c->shard_items[s], n = c->shard_items[s + 1];
    int64_t first = i < c->reader->manifest.n_pieces ? c->items[i].first : c->n_blocks;
    int64_t last = n < c->reader->manifest.n_pieces ? c->items[n].first : c->n_blocks;
    bool reports = is_mine(c, first);
    if (!reports && (last <= c->begin || first >= c->end))
        return SN_OK;
    struct sn_err why;
    enum sn_status st = check_shard_file(c, s, &why);
    if (st != SN_OK) {
        name_tensors(c, s, &why);
        return judge_in_order(c, st, &why, reports, err);
    }
    for (; i < n; i++)
        SN_TRY(check_tensor_of(c, &c->items[i], err));
    return SN_OK;
}

/* --- beside the shards: by rank 0 ------------------------------------------------------------ */

static bool is_known(const struct sn_manifest *m, const char *name)
{
    static const char *const own[] = {".", "..", "manifest.json", "COMMIT", SN_MASTER_NAME};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    for (int s = 0; s < m->n_shards; s++)
        if (strcmp(name, m->shards[s].file) == 0)
            return true;
    return false;
}

/* What nobody put there does no harm, but somebody may wonder. */
static enum sn_status note_strangers(struct check *c, struct sn_err *err)
{
    const char *dir = c->reader->dir;
    DIR *d = opendir(dir);
    if (!d)
        return sn_file_fail(err, dir, "list the directory");
    for (struct dirent *e; (e = readdir(d));)
        if (!is_known(&c->reader->manifest, e->d_name))
            sn_str_add(c->out, "note: %s/%s: is no part of the checkpoint\n", dir, e->d_name);
    (void)closedir(d); /* read only */
    return SN_OK;
}

/* Its bytes must be those that were saved: HDF5 dies of many others. Then each tensor of the master
 * must be shown from the pieces that the manifest lists. */
static enum sn_status check_master(struct check *c, struct sn_err *err)
{
    const struct sn_manifest *m = &c->reader->manifest;
    struct sn_master *master = NULL;
    struct sn_err why;
    if (!sn_master_is_due(m))
        return SN_OK;
    enum sn_status st = sn_master_prove(c->reader->dir, m, &why);
    if (st == SN_OK)
        st = sn_master_open(&master, c->reader->dir, m, &why);
    if (st == SN_EINPUT) /* a name that no master can show: the manifest was edited */
        st = SN_EIO;
    if (st != SN_OK)
        return judge(c, st, &why, true, err);
    for (int i = 0; i < m->n_tensors && st == SN_OK; i++) {
        st = sn_master_check(master, i, &why);
        if (st == SN_EINPUT) /* a name that no master can show: the manifest was edited */
            st = SN_EIO;
        st = judge(c, st, &why, true, err);
    }
    sn_master_close(master);
    return st;
}

static enum sn_status check_all(struct check *c, int64_t memory, struct sn_err *err)
{
    SN_TRY(number_blocks(c, err));
    SN_TRY(make_room(c, memory, err));
    if (c->comm->rank == 0) {
        SN_TRY(note_strangers(c, err));
        SN_TRY(check_master(c, err));
    }
    for (int s = 0; s < c->reader->manifest.n_shards; s++)
        SN_TRY(check_shard(c, s, err));
    SN_TRY(finish_all(c, err));
    if (c->out->failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list its faults", c->reader->dir);
    return SN_OK;
}

static void fini(struct check *c)
{
    struct sn_err ignored; /* of work that is given up */
    while (c->n_done < c->n_begun)
        (void)sn_aio_wait(c->aio, &c->reads[c->n_done++ % c->depth].request, &ignored);
    sn_aio_destroy(c->aio);
    sn_free(c->arena);
    sn_free(c->shard_items);
    sn_free(c->items);
}

/* --- ranks ----------------------------------------------------------------------------------- */

/* Everybody gets root's text; caller frees *text. */
static enum sn_status broadcast_text(struct sn_comm *comm, int root, const char *mine, char **text,
                                     struct sn_err *err)
{
    int64_t len = comm->rank == root && mine ? (int64_t)strlen(mine) : 0;
    SN_TRY(comm->ops->broadcast(comm, &len, sizeof(len), root, err));
    enum sn_status st = SN_OK;
    *text = sn_alloc((size_t)len + 1);
    if (!*text)
        st = sn_fail(err, SN_ENOMEM, "no memory for %" PRId64 " bytes of faults", len);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK && comm->rank == root && mine)
        memcpy(*text, mine, (size_t)len);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, *text, len, root, err);
    if (st != SN_OK)
        sn_free(*text);
    return st;
}

/* Add up what the ranks have found, in their order. */
static enum sn_status share(struct sn_fsck *result, struct sn_str *out, struct sn_comm *comm,
                            const struct sn_fsck *mine, const struct sn_str *lines,
                            struct sn_err *err)
{
    for (int r = 0; r < comm->size; r++) {
        struct sn_fsck theirs = *mine;
        char *text;
        SN_TRY(comm->ops->broadcast(comm, &theirs, sizeof(theirs), r, err));
        SN_TRY(broadcast_text(comm, r, lines->p, &text, err));
        sn_str_add(out, "%s", text);
        sn_free(text);
        result->blocks += theirs.blocks;
        result->bytes += theirs.bytes;
        result->faults += theirs.faults;
    }
    return SN_OK;
}

static enum sn_status check_open(struct sn_fsck *result, struct sn_str *out, struct sn_reader *r,
                                 int64_t memory, struct sn_comm *comm, struct sn_err *err)
{
    struct sn_fsck mine = {0};
    struct sn_str lines = {0};
    struct check c = {.reader = r, .comm = comm, .result = &mine, .out = &lines};
    enum sn_status st = check_all(&c, memory, err);
    fini(&c);
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = share(result, out, comm, &mine, &lines, err);
    sn_str_fini(&lines);
    return st;
}

static enum sn_status check_step(struct sn_fsck *result, struct sn_str *out, const char *dir,
                                 int64_t memory, struct sn_comm *comm, struct sn_err *err)
{
    struct sn_reader r;
    result->checkpoints++;
    enum sn_status mine = sn_reader_open(&r, dir, err), st = comm->ops->agree(comm, mine, err);
    if (st == SN_EIO) {
        sn_str_add(out, "%s\n", err->text);
        result->faults++;
        st = SN_OK;
    } else if (st == SN_OK) {
        st = check_open(result, out, &r, memory, comm, err);
    }
    if (mine == SN_OK)
        sn_reader_close(&r);
    return st;
}

enum sn_status sn_fsck(struct sn_fsck *result, struct sn_str *out, const char *path, int64_t memory,
                       struct sn_comm *comm, struct sn_err *err)
{
    char **dirs = NULL, *dir;
    int64_t n = 0;
    int n_dirs = 0;
    enum sn_status st = SN_OK;
    *result = (struct sn_fsck){0};
    sn_h5_setup();
    if (comm->rank == 0) /* a run may be saving: the others must not see another list */
        st = sn_store_find_all(&dirs, &n_dirs, path, err);
    n = n_dirs;
    st = comm->ops->agree(comm, st, err);
    if (st == SN_OK)
        st = comm->ops->broadcast(comm, &n, sizeof(n), 0, err);
    for (int64_t i = 0; i < n && st == SN_OK; i++) {
        st = broadcast_text(comm, 0, dirs ? dirs[i] : NULL, &dir, err);
        if (st != SN_OK)
            break;
        st = check_step(result, out, dir, memory, comm, err);
        sn_free(dir);
    }
    sn_store_free_list(dirs, n_dirs);
    if (st == SN_OK && out->failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to list its faults", path);
    return st;
}
