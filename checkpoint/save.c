#include "checkpoint/files.h"
#include "checkpoint/hash.h"
#include "checkpoint/store.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHARD_FILE "shard-00000.h5" /* one writer so far */

/* One save under way. */
struct save {
    const struct sn_store *store;
    const struct sn_state *state;
    char *tmp, *final, *shard;         /* paths */
    struct sn_h5_slot *slots;          /* one per tensor */
    struct sn_manifest_tensor *listed; /* one per tensor */
    int64_t shard_bytes;
};

static void stage(const struct save *v, enum sn_checkpoint_stage done)
{
    if (v->store->die_at == done)
        (void)raise(SIGKILL);
}

static void fini(struct save *v)
{
    sn_free(v->tmp);
    sn_free(v->final);
    sn_free(v->shard);
    sn_free(v->slots);
    sn_free(v->listed);
}

static enum sn_status init(struct save *v, const struct sn_store *store, const struct sn_state *s,
                           struct sn_err *err)
{
    char suffix[32];
    (void)snprintf(suffix, sizeof(suffix), ".tmp.%ld", (long)getpid());
    *v = (struct save){.store = store, .state = s};
    v->tmp = sn_store_path(store, s->scalars.step, suffix);
    v->final = sn_store_path(store, s->scalars.step, "");
    v->shard = v->tmp ? sn_format("%s/%s", v->tmp, SHARD_FILE) : NULL;
    v->slots = sn_alloc_n((size_t)s->n_tensors, sizeof(*v->slots));
    v->listed = sn_alloc_n((size_t)s->n_tensors, sizeof(*v->listed));
    if (v->shard && v->final && v->slots && v->listed)
        return SN_OK;
    fini(v);
    return sn_fail(err, SN_ENOMEM, "%s: no memory to save %d tensors", store->dir, s->n_tensors);
}

static enum sn_status name_dataset(struct sn_h5_slot *slot, const struct sn_state_tensor *t,
                                   struct sn_err *err)
{
    bool is_model = strcmp(t->group, "model") == 0;
    int n = snprintf(slot->dataset, sizeof(slot->dataset), "%s%s/%s", is_model ? "/" : "/optim/",
                     t->group, t->name);
    if (n >= (int)sizeof(slot->dataset) || strchr(t->name, '/') || strchr(t->group, '/') ||
        !*t->name)
        return sn_fail(err, SN_EINPUT, "checkpoint: '%s %s' is no name for a tensor", t->group,
                       t->name);
    slot->rows = t->rows;
    slot->cols = t->cols;
    return SN_OK;
}

static size_t bytes_of(const struct sn_state_tensor *t)
{
    return (size_t)t->rows * (size_t)t->cols * sizeof(float);
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
static enum sn_status try_size(struct save *v, struct sn_err *err)
{
    enum { SLACK = 4096 + 1024 }; /* alignment and metadata of one dataset, bytes */
    off_t total = 64 << 10;
    for (int i = 0; i < v->state->n_tensors; i++)
        total += (off_t)bytes_of(&v->state->tensors[i]) + SLACK;
    int fd = open(v->shard, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return sn_file_fail(err, v->shard, "create");
    enum sn_status st = reserve(v->shard, fd, total, err);
    (void)close(fd); /* nothing was written */
    return st;
}

static enum sn_status reserve_layout(struct save *v, int fd, struct sn_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) != 0)
        return sn_file_fail(err, v->shard, "stat");
    v->shard_bytes = sb.st_size;
    return reserve(v->shard, fd, sb.st_size, err);
}

static enum sn_status fill(struct save *v, int fd, struct sn_err *err)
{
    const struct sn_state *s = v->state;
    SN_TRY(reserve_layout(v, fd, err));
    for (int i = 0; i < s->n_tensors; i++) {
        const struct sn_state_tensor *t = &s->tensors[i];
        if (i == s->n_tensors / 2)
            stage(v, SN_STAGE_HALF);
        SN_TRY(sn_file_put(fd, t->p, bytes_of(t), v->slots[i].offset, v->shard, v->slots[i].dataset,
                           err));
        v->listed[i] =
            (struct sn_manifest_tensor){t->group, t->name, v->slots[i].dataset,         t->rows,
                                        t->cols,  0,       sn_hash64(t->p, bytes_of(t))};
    }
    if (fsync(fd) != 0)
        return sn_file_fail(err, v->shard, "sync");
    return SN_OK;
}

static enum sn_status write_shard(struct save *v, struct sn_err *err)
{
    const struct sn_state *s = v->state;
    for (int i = 0; i < s->n_tensors; i++)
        SN_TRY(name_dataset(&v->slots[i], &s->tensors[i], err));
    SN_TRY(try_size(v, err));
    SN_TRY(sn_h5_layout(v->shard, s->n_tensors, v->slots, err));
    stage(v, SN_STAGE_LAYOUT);
    int fd = open(v->shard, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return sn_file_fail(err, v->shard, "open");
    enum sn_status st = fill(v, fd, err);
    if (close(fd) != 0 && st == SN_OK)
        st = sn_file_fail(err, v->shard, "close");
    if (st == SN_OK)
        stage(v, SN_STAGE_SHARD);
    return st;
}

static enum sn_status save_part(const char *dir, const char *name, const char *text, size_t len,
                                struct sn_err *err)
{
    char *path = sn_format("%s/%s", dir, name);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write %s", dir, name);
    enum sn_status st = sn_file_save(path, text, len, err);
    sn_free(path);
    return st;
}

static enum sn_status write_manifest(struct save *v, struct sn_err *err)
{
    struct sn_manifest_shard shard = {SHARD_FILE, v->shard_bytes};
    struct sn_manifest m = {.scalars = v->state->scalars,
                            .model_text = v->state->model_text,
                            .config_hash = v->state->config_hash,
                            .n_shards = 1,
                            .n_tensors = v->state->n_tensors,
                            .shards = &shard,
                            .tensors = v->listed};
    struct sn_str text = {0};
    char commit[SN_COMMIT_MAX];
    sn_manifest_format(&text, &m);
    enum sn_status st = SN_OK;
    if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for the manifest", v->tmp);
    else
        st = save_part(v->tmp, "manifest.json", text.p, text.len, err);
    if (st == SN_OK) {
        stage(v, SN_STAGE_MANIFEST);
        sn_commit_format(commit, text.p, text.len);
        st = save_part(v->tmp, "COMMIT", commit, strlen(commit), err);
    }
    sn_str_fini(&text);
    if (st == SN_OK)
        stage(v, SN_STAGE_COMMIT);
    return st;
}

/* A checkpoint of the same step stands in the way: exchange them, so that one is always there; then
 * the old one bears the temporary name. File systems that cannot exchange get two renames. */
static enum sn_status replace(struct save *v, struct sn_err *err)
{
    struct sn_err why;
    char *old = sn_format("%s.del.%ld", v->final, (long)getpid());
    if (!old)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to replace it", v->final);
    enum sn_status st = SN_OK;
    bool exchanged = renameat2(AT_FDCWD, v->tmp, AT_FDCWD, v->final, RENAME_EXCHANGE) == 0;
    if (!exchanged && (rename(v->final, old) != 0 || rename(v->tmp, v->final) != 0))
        st = sn_file_fail(err, v->final, "replace");
    else if (sn_dir_remove(exchanged ? v->tmp : old, &why) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", why.text); /* the next save tries again */
    sn_free(old);
    return st;
}

static enum sn_status publish(struct save *v, struct sn_err *err)
{
    SN_TRY(sn_dir_sync(v->tmp, err));
    stage(v, SN_STAGE_SYNCED);
    if (rename(v->tmp, v->final) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return sn_file_fail(err, v->tmp, "rename to its final name");
        SN_TRY(replace(v, err));
    }
    SN_TRY(sn_dir_sync(v->store->dir, err));
    stage(v, SN_STAGE_VISIBLE);
    return SN_OK;
}

/* A hint for people; the checkpoint is there without it, so a failure is only warned of. */
static void point_latest(const struct save *v)
{
    char text[64];
    struct sn_err err = {.text = "no memory"};
    (void)snprintf(text, sizeof(text), "step-%08" PRId64 "\n", v->state->scalars.step);
    char *to = sn_format("%s/LATEST", v->store->dir),
         *from = sn_format("%s/LATEST.tmp", v->store->dir);
    enum sn_status st = SN_ENOMEM;
    if (to && from)
        st = sn_file_save(from, text, strlen(text), &err);
    if (st == SN_OK && rename(from, to) != 0)
        st = sn_file_fail(&err, to, "replace");
    if (st == SN_OK)
        st = sn_dir_sync(v->store->dir, &err);
    if (st != SN_OK)
        sn_log(SN_LOG_WARN, "%s: LATEST was not written: %s", v->store->dir, err.text);
    sn_free(to);
    sn_free(from);
    stage(v, SN_STAGE_LATEST);
}

static enum sn_status write_all(struct save *v, struct sn_err *err)
{
    SN_TRY(sn_dir_make(v->tmp, err));
    stage(v, SN_STAGE_DIRECTORY);
    SN_TRY(write_shard(v, err));
    SN_TRY(write_manifest(v, err));
    return publish(v, err);
}

enum sn_status sn_store_save(const struct sn_store *store, const struct sn_state *s,
                             struct sn_err *err)
{
    struct save v;
    if (s->scalars.step < 0 || s->scalars.step > INT64_C(999999999999999999))
        return sn_fail(err, SN_EINPUT, "%s: %" PRId64 " is no step to save", store->dir,
                       s->scalars.step);
    sn_store_sweep(store);
    SN_TRY(init(&v, store, s, err));
    enum sn_status st = write_all(&v, err);
    if (st == SN_OK) {
        point_latest(&v);
        sn_store_rotate(store, s->scalars.step);
        stage(&v, SN_STAGE_ROTATED);
    } else {
        struct sn_err ignored; /* the first failure is the one to tell */
        (void)sn_dir_remove(v.tmp, &ignored);
    }
    fini(&v);
    return st;
}
