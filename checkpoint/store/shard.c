/*
 * shard.c - one writer: the boxes that this rank owns, in a file of its own or in the one that all
 * share, and the list of them.
 */
#include "checkpoint/format/master.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/spill.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A rank's part under way: owned[i] goes to slots[i] and is listed as pieces[i]. */
struct shard {
    struct sn_store *store;
    const struct sn_state *state;
    char file[SN_SHARD_NAME_MAX];
    char *path;
    int n, n_tensors;
    const struct sn_state_tensor **owned; /* not empty; sorted by name, then by place */
    struct sn_h5_slot *slots; /* the box itself, or all of its tensor in a single file */
    struct sn_manifest_piece *pieces;
    struct sn_manifest_tensor *tensors;
    struct sn_spill_box *boxes;
    uint64_t *hashes;
    int64_t n_blocks, bytes; /* of the file */
};

const char *sn_shard_name(char buf[SN_SHARD_NAME_MAX], int rank)
{
    (void)snprintf(buf, SN_SHARD_NAME_MAX, "shard-%05d.h5", rank);
    return buf;
}

const char *sn_shard_list_name(char buf[SN_SHARD_NAME_MAX], int rank)
{
    (void)snprintf(buf, SN_SHARD_NAME_MAX, "pieces-%05d.json", rank);
    return buf;
}

enum sn_status sn_shard_check(const char *dir, const struct sn_manifest_shard *shard,
                              struct sn_err *err)
{
    struct stat sb;
    char *path = sn_format("%s/%s", dir, shard->file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to look for %s", dir, shard->file);
    enum sn_status st = SN_OK;
    if (stat(path, &sb) != 0)
        st = sn_file_fail(err, path, "open");
    else if (sb.st_size != shard->bytes)
        st = sn_fail(err, SN_EIO,
                     "%s: has %" PRId64 " bytes where %" PRId64
                     " were saved; the file was cut or altered, use another checkpoint",
                     path, (int64_t)sb.st_size, shard->bytes);
    sn_free(path);
    return st;
}

struct sn_box sn_state_box(const struct sn_state_tensor *t)
{
    return (struct sn_box){t->row, t->col, t->n_rows, t->n_cols};
}

enum sn_status sn_state_check_boxes(const struct sn_state *s, struct sn_err *err)
{
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        if (!sn_box_fits(sn_state_box(t), t->rows, t->cols) || t->ld < t->n_cols)
            return sn_fail(err, SN_EFAIL,
                           "checkpoint: %s %s: a box of %" PRId64 " x %" PRId64
                           " (leading dimension %" PRId64 ") at row %" PRId64 ", column %" PRId64
                           " is not in the %" PRId64 " x %" PRId64 " tensor",
                           t->group, t->name, t->n_rows, t->n_cols, t->ld, t->row, t->col, t->rows,
                           t->cols);
    }
    return SN_OK;
}

static bool is_ours(const struct sn_state_tensor *t)
{
    return t->owned && t->n_rows > 0 && t->n_cols > 0;
}

static int by_name(const void *pa, const void *pb)
{
    const struct sn_state_tensor *a = *(const struct sn_state_tensor *const *)pa,
                                 *b = *(const struct sn_state_tensor *const *)pb;
    int order = sn_manifest_order(a->group, a->name, b->group, b->name);
    return order ? order : sn_box_order(sn_state_box(a), sn_state_box(b));
}

/* --- files with room for everything ----------------------------------------------------------- */

/* Ask for the disk space at once, so that a full disk is found before minutes of writing. Where the
 * file system cannot reserve, at least a limit on file sizes is found. */
static enum sn_status reserve(const char *path, int fd, off_t bytes, struct sn_err *err)
{
    int rc = bytes > 0 ? fallocate(fd, 0, 0, bytes) : 0;
    if (rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR))
        rc = ftruncate(fd, bytes);
    return rc == 0 ? SN_OK : sn_file_fail(err, path, "reserve space");
}

/* HDF5 should not be the one to meet a full disk: it keeps the file open then. So a file of about
 * that size is made first, which HDF5 then cuts to nothing. */
static enum sn_status try_size(const char *path, int n, const struct sn_h5_slot *slots,
                               struct sn_err *err)
{
    enum { SLACK = 4096 + 1024 }; /* alignment and metadata of one dataset, bytes */
    off_t total = 64 << 10;
    for (int i = 0; i < n; i++)
        total += slots[i].rows * slots[i].cols * (off_t)sn_dtype_size(slots[i].dtype) + SLACK;
    int fd = sn_output_open(path, O_WRONLY | O_EXCL, 0666);
    if (fd < 0)
        return sn_file_fail(err, path, "create");
    enum sn_status st = reserve(path, fd, total, err);
    (void)close(fd); /* nothing was written */
    return st;
}

static enum sn_status reserve_layout(const char *path, struct sn_err *err)
{
    struct stat sb;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sn_file_fail(err, path, "open");
    enum sn_status st =
        fstat(fd, &sb) == 0 ? reserve(path, fd, sb.st_size, err) : sn_file_fail(err, path, "stat");
    (void)close(fd); /* nothing was written */
    return st;
}

enum sn_status sn_shard_layout(const char *path, int n, struct sn_h5_slot *slots,
                               struct sn_err *err)
{
    SN_TRY(try_size(path, n, slots, err));
    SN_TRY(sn_h5_layout(path, n, slots, err));
    return reserve_layout(path, err);
}

/* The slot for a box of a tensor. */
static enum sn_status set_slot(struct sn_h5_slot *slot, const struct sn_manifest_tensor *t,
                               struct sn_box box, struct sn_err *err)
{
    slot->rows = box.rows;
    slot->cols = box.cols;
    slot->dtype = SN_F32;
    return sn_manifest_dataset(slot->dataset, sizeof(slot->dataset), t, box, err);
}

static int by_shape_name(const void *pa, const void *pb)
{
    const struct sn_state_shape *a = pa, *b = pb;
    return sn_manifest_order(a->group, a->name, b->group, b->name);
}

static enum sn_status layout_all(const char *path, int n, struct sn_state_shape *all,
                                 struct sn_h5_slot *slots, struct sn_err *err)
{
    qsort(all, (size_t)n, sizeof(*all), by_shape_name);
    for (int i = 0; i < n; i++) {
        struct sn_manifest_tensor t = {
            .group = all[i].group, .name = all[i].name, .rows = all[i].rows, .cols = all[i].cols};
        SN_TRY(set_slot(&slots[i], &t, (struct sn_box){0, 0, t.rows, t.cols}, err));
    }
    return sn_shard_layout(path, n, slots, err);
}

enum sn_status sn_shard_layout_single(const struct sn_store *store, const struct sn_state *s,
                                      const char *dir, struct sn_err *err)
{
    char *path = sn_format("%s/%s", dir, SN_MASTER_NAME);
    struct sn_state_shape *all = sn_alloc_n((size_t)s->n_all, sizeof(*all));
    struct sn_h5_slot *slots = sn_alloc_n((size_t)s->n_all, sizeof(*slots));
    enum sn_status st = SN_OK;
    if (!path || !all || !slots) {
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to lay out %d tensors", dir, s->n_all);
    } else {
        memcpy(all, s->all, (size_t)s->n_all * sizeof(*all));
        st = layout_all(path, s->n_all, all, slots, err);
    }
    if (st == SN_OK)
        sn_store_stage(store, SN_STAGE_LAYOUT);
    sn_free(path);
    sn_free(all);
    sn_free(slots);
    return st;
}

/* --- this rank's part ------------------------------------------------------------------------- */

static void fini(struct shard *v)
{
    sn_free(v->path);
    sn_free(v->owned);
    sn_free(v->slots);
    sn_free(v->pieces);
    sn_free(v->tensors);
    sn_free(v->boxes);
    sn_free(v->hashes);
}

static enum sn_status init(struct shard *v, const char *dir, struct sn_err *err)
{
    const struct sn_state *s = v->state;
    size_t n = (size_t)v->n;
    v->n = 0;
    (void)sn_shard_name(v->file, s->rank);
    if (v->store->options.single_file)
        (void)snprintf(v->file, sizeof(v->file), "%s", SN_MASTER_NAME);
    v->path = sn_format("%s/%s", dir, v->file);
    v->owned = sn_alloc_n(n, sizeof(*v->owned));
    v->slots = sn_alloc_n(n, sizeof(*v->slots));
    v->pieces = sn_alloc_n(n, sizeof(*v->pieces));
    v->tensors = sn_alloc_n(n, sizeof(*v->tensors));
    v->boxes = sn_alloc_n(n, sizeof(*v->boxes));
    for (int i = 0; v->owned && i < s->n_tensors; i++)
        if (is_ours(&s->tensors[i])) {
            v->owned[v->n++] = &s->tensors[i];
            v->n_blocks += sn_spill_blocks(&s->tensors[i]);
        }
    v->hashes = sn_alloc_n((size_t)v->n_blocks, sizeof(*v->hashes));
    if (!v->path || !v->owned || !v->slots || !v->pieces || !v->tensors || !v->boxes || !v->hashes)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to save %zu tensors", dir, n);
    qsort(v->owned, n, sizeof(*v->owned), by_name);
    return SN_OK;
}

/* What the manifest says of them; boxes of one tensor follow each other. */
static void list_tensors(struct shard *v)
{
    struct sn_manifest_tensor *t = NULL;
    uint64_t *hashes = v->hashes;
    for (int i = 0; i < v->n; i++) {
        const struct sn_state_tensor *o = v->owned[i];
        if (!t || sn_manifest_order(t->group, t->name, o->group, o->name) != 0) {
            t = &v->tensors[v->n_tensors++];
            *t = (struct sn_manifest_tensor){.group = o->group,
                                             .name = o->name,
                                             .rows = o->rows,
                                             .cols = o->cols,
                                             .dtype = SN_F32,
                                             .pieces = &v->pieces[i]};
        }
        t->n_pieces++;
        v->pieces[i] = (struct sn_manifest_piece){.box = sn_state_box(o),
                                                  .dataset = v->slots[i].dataset,
                                                  .set_rows = o->n_rows,
                                                  .set_cols = o->n_cols,
                                                  .n_blocks = sn_spill_blocks(o),
                                                  .hashes = hashes};
        hashes += v->pieces[i].n_blocks;
    }
}

/* The slots: datasets of this rank's own, or places in those that rank 0 has laid out. */
static enum sn_status name_slots(struct shard *v, struct sn_err *err)
{
    bool is_single = v->store->options.single_file;
    for (int i = 0, k = 0; k < v->n_tensors; k++) {
        const struct sn_manifest_tensor *t = &v->tensors[k];
        for (int end = i + t->n_pieces; i < end; i++) {
            struct sn_manifest_piece *p = &v->pieces[i];
            if (is_single) {
                p->at_row = p->box.row;
                p->at_col = p->box.col;
                p->set_rows = t->rows;
                p->set_cols = t->cols;
            }
            struct sn_box whole = {0, 0, t->rows, t->cols};
            SN_TRY(set_slot(&v->slots[i], t, is_single ? whole : p->box, err));
        }
    }
    return SN_OK;
}

static enum sn_status place(struct shard *v, struct sn_err *err)
{
    list_tensors(v);
    SN_TRY(name_slots(v, err));
    if (v->store->options.single_file)
        return sn_h5_locate_all(v->path, v->n, v->slots, err);
    SN_TRY(sn_shard_layout(v->path, v->n, v->slots, err));
    sn_progress_mark(v->state->progress);
    sn_store_stage(v->store, SN_STAGE_LAYOUT);
    return SN_OK;
}

static enum sn_status fill(struct shard *v, struct sn_aio_file *file, struct sn_err *err)
{
    for (int i = 0; i < v->n; i++) {
        const struct sn_manifest_piece *p = &v->pieces[i];
        size_t row = (size_t)p->box.cols * sizeof(float),
               stride = (size_t)p->set_cols * sizeof(float);
        struct sn_aio_request to = {.file = file,
                                    .offset = v->slots[i].offset + (uint64_t)p->at_row * stride +
                                              (uint64_t)p->at_col * sizeof(float)};
        if (row != stride) {
            to.row = row;
            to.stride = stride;
        }
        v->boxes[i] = (struct sn_spill_box){v->owned[i], to, p->hashes};
        v->store->times.bytes += p->box.rows * (int64_t)row;
    }
    SN_TRY(sn_spill(v->store, v->boxes, v->n, err));
    v->bytes = (int64_t)sn_aio_size(file);
    return sn_aio_sync(file, v->state->progress, err);
}

static enum sn_status write_boxes(struct shard *v, struct sn_err *err)
{
    struct sn_aio_file *file;
    double began = sn_clock();
    SN_TRY(place(v, err));
    double placed = sn_clock();
    v->store->times.layout += placed - began;
    SN_TRY(sn_aio_open(&file, v->path, true, err));
    enum sn_status st = fill(v, file, err);
    sn_aio_close(file);
    v->store->times.write = sn_clock() - placed;
    if (st == SN_OK)
        sn_store_stage(v->store, SN_STAGE_SHARD);
    return st;
}

static enum sn_status write_list(struct shard *v, const char *dir, struct sn_err *err)
{
    char name[SN_SHARD_NAME_MAX];
    struct sn_manifest_shard shard = {v->file, v->bytes};
    struct sn_manifest m = {.scalars = v->state->scalars,
                            .model_text = "", /* the manifest has the texts */
                            .layout_text = "",
                            .config_hash = v->state->config_hash,
                            .block = SN_BLOCK_BYTES,
                            .n_shards = 1,
                            .shards = &shard,
                            .n_tensors = v->n_tensors,
                            .tensors = v->tensors};
    struct sn_str text = {0};
    sn_manifest_format(&text, &m);
    enum sn_status st =
        text.failed
            ? sn_fail(err, SN_ENOMEM, "%s: no memory for the list of its pieces", v->path)
            : sn_store_put(dir, sn_shard_list_name(name, v->state->rank), text.p, text.len, err);
    sn_str_fini(&text);
    if (st == SN_OK)
        sn_store_stage(v->store, SN_STAGE_LIST);
    return st;
}

enum sn_status sn_shard_write(struct sn_store *store, const struct sn_state *s, const char *dir,
                              struct sn_err *err)
{
    struct shard v = {.store = store, .state = s};
    SN_TRY(sn_state_check_boxes(s, err));
    for (int i = 0; i < s->n_tensors; i++)
        v.n += is_ours(&s->tensors[i]);
    if (v.n == 0)
        return SN_OK;
    if (access(dir, F_OK) != 0)
        return sn_fail(err, SN_EIO,
                       "%s: rank %d cannot see it, and rank 0 has made the directory of this save; "
                       "check that all ranks see one file system and have one tag",
                       dir, s->rank);
    enum sn_status st = init(&v, dir, err);
    if (st == SN_OK)
        st = write_boxes(&v, err);
    if (st == SN_OK)
        st = write_list(&v, dir, err);
    fini(&v);
    return st;
}
