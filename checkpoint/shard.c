/*
 * shard.c - one writer: the boxes that this rank owns, in a file of its own, and the list of them.
 */
#include "checkpoint/files.h"
#include "lib/base/hash.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One shard under way: owned[i] goes to slots[i] and is listed as pieces[i]. */
struct shard {
    const struct sn_store *store;
    const struct sn_state *state;
    char file[SN_SHARD_NAME_MAX];
    char *path;
    int n, n_tensors;
    const struct sn_state_tensor **owned; /* not empty; sorted by name, then by place */
    struct sn_h5_slot *slots;
    struct sn_manifest_piece *pieces;
    struct sn_manifest_tensor *tensors;
    uint64_t *hashes; /* of all pieces */
    char *block;
    int64_t bytes;
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

static size_t bytes_of(const struct sn_state_tensor *t)
{
    return (size_t)t->n_rows * (size_t)t->n_cols * sizeof(float);
}

static bool is_ours(const struct sn_state_tensor *t)
{
    return t->owned && bytes_of(t) > 0;
}

static int by_name(const void *pa, const void *pb)
{
    const struct sn_state_tensor *a = *(const struct sn_state_tensor *const *)pa,
                                 *b = *(const struct sn_state_tensor *const *)pb;
    int order = sn_manifest_order(a->group, a->name, b->group, b->name);
    return order ? order : sn_box_order(sn_state_box(a), sn_state_box(b));
}

static void fini(struct shard *v)
{
    sn_free(v->path);
    sn_free(v->owned);
    sn_free(v->slots);
    sn_free(v->pieces);
    sn_free(v->tensors);
    sn_free(v->hashes);
    sn_free(v->block);
}

static size_t blocks_of(const struct sn_state_tensor *t)
{
    return (size_t)sn_manifest_blocks((int64_t)bytes_of(t), SN_BLOCK_BYTES);
}

static enum sn_status init(struct shard *v, const char *dir, struct sn_err *err)
{
    const struct sn_state *s = v->state;
    size_t n = (size_t)v->n, blocks = 0;
    v->n = 0;
    for (int i = 0; i < s->n_tensors; i++)
        blocks += is_ours(&s->tensors[i]) ? blocks_of(&s->tensors[i]) : 0;
    v->path = sn_format("%s/%s", dir, sn_shard_name(v->file, s->rank));
    v->owned = sn_alloc_n(n, sizeof(*v->owned));
    v->slots = sn_alloc_n(n, sizeof(*v->slots));
    v->pieces = sn_alloc_n(n, sizeof(*v->pieces));
    v->tensors = sn_alloc_n(n, sizeof(*v->tensors));
    for (int i = 0; v->owned && i < s->n_tensors; i++)
        if (is_ours(&s->tensors[i]))
            v->owned[v->n++] = &s->tensors[i];
    v->hashes = sn_alloc_n(blocks, sizeof(*v->hashes));
    v->block = sn_alloc(SN_BLOCK_BYTES);
    if (!v->path || !v->owned || !v->slots || !v->pieces || !v->tensors || !v->hashes || !v->block)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to save %zu tensors", dir, n);
    qsort(v->owned, n, sizeof(*v->owned), by_name);
    return SN_OK;
}

static enum sn_status set_slot(struct sn_h5_slot *slot, const struct sn_state_tensor *t,
                               struct sn_err *err)
{
    struct sn_manifest_tensor of = {
        .group = t->group, .name = t->name, .rows = t->rows, .cols = t->cols};
    slot->rows = t->n_rows;
    slot->cols = t->n_cols;
    return sn_manifest_dataset(slot->dataset, sizeof(slot->dataset), &of, sn_state_box(t), err);
}

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
static enum sn_status try_size(struct shard *v, struct sn_err *err)
{
    enum { SLACK = 4096 + 1024 }; /* alignment and metadata of one dataset, bytes */
    off_t total = 64 << 10;
    for (int i = 0; i < v->n; i++)
        total += (off_t)bytes_of(v->owned[i]) + SLACK;
    int fd = open(v->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return sn_file_fail(err, v->path, "create");
    enum sn_status st = reserve(v->path, fd, total, err);
    (void)close(fd); /* nothing was written */
    return st;
}

static enum sn_status reserve_layout(struct shard *v, int fd, struct sn_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return sn_file_fail(err, v->path, "stat");
    v->bytes = sb.st_size;
    return reserve(v->path, fd, sb.st_size, err);
}

/* Bytes at .. at + n of the box, its rows taken as one run. */
static const char *gather(const struct sn_state_tensor *t, size_t at, size_t n, char *to)
{
    size_t row = (size_t)t->n_cols * sizeof(float), ld = (size_t)t->ld * sizeof(float);
    const char *from = (const char *)t->p;
    if (row == ld)
        return from + at;
    for (size_t done = 0; done < n;) {
        size_t r = (at + done) / row, c = (at + done) % row;
        size_t part = row - c < n - done ? row - c : n - done;
        memcpy(to + done, from + r * ld + c, part);
        done += part;
    }
    return to;
}

static enum sn_status put_box(const struct shard *v, int fd, int i, uint64_t *hashes,
                              struct sn_err *err)
{
    const struct sn_state_tensor *t = v->owned[i];
    const struct sn_h5_slot *slot = &v->slots[i];
    size_t bytes = bytes_of(t);
    for (size_t at = 0; at < bytes; at += SN_BLOCK_BYTES) {
        size_t n = bytes - at < SN_BLOCK_BYTES ? bytes - at : SN_BLOCK_BYTES;
        const char *p = gather(t, at, n, v->block);
        *hashes++ = sn_hash64(p, n);
        SN_TRY(sn_file_put(fd, p, n, slot->offset + at, v->path, slot->dataset, err));
    }
    return SN_OK;
}

static enum sn_status fill(struct shard *v, int fd, struct sn_err *err)
{
    uint64_t *hashes = v->hashes;
    SN_TRY(reserve_layout(v, fd, err));
    for (int i = 0; i < v->n; i++) {
        const struct sn_state_tensor *t = v->owned[i];
        if (i == v->n / 2)
            sn_store_stage(v->store, SN_STAGE_HALF);
        SN_TRY(put_box(v, fd, i, hashes, err));
        v->pieces[i] = (struct sn_manifest_piece){.box = sn_state_box(t),
                                                  .dataset = v->slots[i].dataset,
                                                  .set_rows = t->n_rows,
                                                  .set_cols = t->n_cols,
                                                  .n_blocks = (int64_t)blocks_of(t),
                                                  .hashes = hashes};
        hashes += blocks_of(t);
    }
    if (fsync(fd) != 0)
        return sn_file_fail(err, v->path, "sync");
    return SN_OK;
}

static enum sn_status write_boxes(struct shard *v, struct sn_err *err)
{
    for (int i = 0; i < v->n; i++)
        SN_TRY(set_slot(&v->slots[i], v->owned[i], err));
    SN_TRY(try_size(v, err));
    SN_TRY(sn_h5_layout(v->path, v->n, v->slots, err));
    sn_store_stage(v->store, SN_STAGE_LAYOUT);
    int fd = open(v->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return sn_file_fail(err, v->path, "open");
    enum sn_status st = fill(v, fd, err);
    if (close(fd) != 0 && st == SN_OK)
        st = sn_file_fail(err, v->path, "close");
    if (st == SN_OK)
        sn_store_stage(v->store, SN_STAGE_SHARD);
    return st;
}

/* Boxes of one tensor follow each other. */
static void list_tensors(struct shard *v)
{
    struct sn_manifest_tensor *t = NULL;
    for (int i = 0; i < v->n; i++) {
        const struct sn_state_tensor *o = v->owned[i];
        if (!t || sn_manifest_order(t->group, t->name, o->group, o->name) != 0) {
            t = &v->tensors[v->n_tensors++];
            *t = (struct sn_manifest_tensor){.group = o->group,
                                             .name = o->name,
                                             .rows = o->rows,
                                             .cols = o->cols,
                                             .pieces = &v->pieces[i]};
        }
        t->n_pieces++;
    }
}

static enum sn_status write_list(struct shard *v, const char *dir, struct sn_err *err)
{
    char name[SN_SHARD_NAME_MAX];
    struct sn_manifest_shard shard = {v->file, v->bytes};
    struct sn_manifest m = {.scalars = v->state->scalars,
                            .model_text = "", /* the manifest has it */
                            .config_hash = v->state->config_hash,
                            .block = SN_BLOCK_BYTES,
                            .n_shards = 1,
                            .shards = &shard};
    struct sn_str text = {0};
    list_tensors(v);
    m.tensors = v->tensors;
    m.n_tensors = v->n_tensors;
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

enum sn_status sn_shard_write(const struct sn_store *store, const struct sn_state *s,
                              const char *dir, struct sn_err *err)
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
