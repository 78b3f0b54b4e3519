#include "checkpoint/files.h"
#include "lib/base/hash.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void sn_commit_format(char buf[SN_COMMIT_MAX], const char *manifest, size_t len, int n_shards)
{
    char shards[24] = "";
    if (n_shards >= 0)
        (void)snprintf(shards, sizeof(shards), " shards %d", n_shards);
    (void)snprintf(buf, SN_COMMIT_MAX, "manifest.json %zu bytes xxh3 %016" PRIx64 "%s\n", len,
                   sn_hash64(manifest, len), shards);
}

/* The file `name` of a checkpoint; *path is its full name, which the caller frees in any case. */
static enum sn_status load_part(char **path, char **text, size_t *len, const char *dir,
                                const char *name, struct sn_err *err)
{
    *path = sn_format("%s/%s", dir, name);
    if (!*path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read %s", dir, name);
    return sn_file_load(text, len, *path, err);
}

static enum sn_status not_committed(const char *dir, struct sn_err *err)
{
    return sn_fail(err, SN_EIO,
                   "%s/manifest.json: is not what COMMIT was written for; one of them was altered",
                   dir);
}

/* The text is believed only when COMMIT has its hash; how the line of COMMIT goes on depends on the
 * schema. */
static enum sn_status parse_committed(struct sn_manifest *out, const char *text, size_t len,
                                      const char *commit, const char *path, const char *dir,
                                      struct sn_err *err)
{
    char want[SN_COMMIT_MAX];
    sn_commit_format(want, text, len, -1);
    if (strncmp(commit, want, strlen(want) - 1) != 0)
        return not_committed(dir, err);
    SN_TRY(sn_manifest_parse(out, text, len, path, err));
    sn_commit_format(want, text, len, out->block == INT64_MAX ? -1 : out->n_shards);
    enum sn_status st = SN_OK;
    if (strcmp(commit, want) != 0)
        st = not_committed(dir, err);
    else
        st = sn_manifest_check_cover(out, path, err);
    if (st != SN_OK)
        sn_manifest_fini(out);
    return st;
}

enum sn_status sn_reader_open(struct sn_reader *out, const char *step_dir, struct sn_err *err)
{
    struct sn_reader r = {.shard_number = -1, .fd = -1};
    char *path = NULL, *text = NULL, *commit_path = NULL, *commit = NULL;
    size_t len = 0, commit_len = 0;
    enum sn_status st = load_part(&path, &text, &len, step_dir, "manifest.json", err);
    if (st == SN_OK)
        st = load_part(&commit_path, &commit, &commit_len, step_dir, "COMMIT", err);
    if (st == SN_OK)
        st = parse_committed(&r.manifest, text, len, commit, path, step_dir, err);
    sn_free(commit);
    sn_free(commit_path);
    sn_free(text);
    sn_free(path);
    SN_TRY(st);
    r.dir = sn_strdup(step_dir);
    if (!r.dir) {
        sn_manifest_fini(&r.manifest);
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", step_dir);
    }
    *out = r;
    return SN_OK;
}

static void close_shard(struct sn_reader *r)
{
    sn_h5_close(r->shard);
    if (r->fd >= 0)
        (void)close(r->fd); /* read only */
    r->shard = NULL;
    r->fd = -1;
}

void sn_reader_close(struct sn_reader *r)
{
    close_shard(r);
    sn_manifest_fini(&r->manifest);
    sn_free(r->dir);
    *r = (struct sn_reader){0};
}

static enum sn_status use_shard(struct sn_reader *r, int number, struct sn_err *err)
{
    if (r->shard && r->shard_number == number)
        return SN_OK;
    close_shard(r);
    char *path = sn_format("%s/%s", r->dir, r->manifest.shards[number].file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open shard %d", r->dir, number);
    enum sn_status st = sn_h5_open(&r->shard, path, err);
    if (st == SN_OK && (r->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        st = sn_file_fail(err, path, "open");
    r->shard_number = number;
    sn_free(path);
    return st;
}

static enum sn_status get(const struct sn_reader *r, int shard, void *p, size_t bytes,
                          uint64_t offset, struct sn_err *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(r->fd, (char *)p + done, bytes - done, (off_t)(offset + done));
        if (n <= 0)
            return sn_fail(err, SN_EIO, "%s/%s: cannot read %zu bytes at %" PRIu64, r->dir,
                           r->manifest.shards[shard].file, bytes, offset);
        done += (size_t)n;
    }
    return SN_OK;
}

static enum sn_status get_piece(struct sn_reader *r, const struct sn_manifest_tensor *t,
                                const struct sn_manifest_piece *p, float *out, struct sn_err *err)
{
    struct sn_h5_slot slot = {.rows = p->set_rows, .cols = p->set_cols, .dtype = t->dtype};
    SN_TRY(use_shard(r, p->shard, err));
    (void)snprintf(slot.dataset, sizeof(slot.dataset), "%s", p->dataset);
    SN_TRY(sn_h5_locate(r->shard, &slot, err));
    size_t row = (size_t)p->box.cols * sizeof(float), stride = (size_t)p->set_cols * sizeof(float);
    uint64_t at = slot.offset + (uint64_t)p->at_row * stride + (uint64_t)p->at_col * sizeof(float);
    if (row == stride)
        return get(r, p->shard, out, (size_t)p->box.rows * row, at, err);
    for (int64_t i = 0; i < p->box.rows; i++)
        SN_TRY(get(r, p->shard, out + i * p->box.cols, row, at + (uint64_t)i * stride, err));
    return SN_OK;
}

enum sn_status sn_reader_read(struct sn_reader *r, const struct sn_manifest_tensor *t,
                              const struct sn_manifest_piece *p, float *out, struct sn_err *err)
{
    struct sn_err why;
    if (t->dtype != SN_F32)
        return sn_fail(err, SN_EINPUT, "%s: tensor %s %s is %s; this reads fp32", r->dir, t->group,
                       t->name, sn_dtype_name(t->dtype));
    enum sn_status st = get_piece(r, t, p, out, &why);
    if (st != SN_OK)
        return sn_fail(err, st, "%s (reading tensor %s %s)", why.text, t->group, t->name);
    int64_t bytes = sn_manifest_bytes(t, p->box), block = r->manifest.block;
    for (int64_t k = 0, at = 0; k < p->n_blocks; k++, at += block)
        if (sn_hash64((char *)out + at, (size_t)(bytes - at < block ? bytes - at : block)) !=
            p->hashes[k])
            return sn_fail(
                err, SN_EIO,
                "%s/%s: the bytes of %s are not those that were saved (their hash differs); "
                "the file was altered, use another checkpoint",
                r->dir, r->manifest.shards[p->shard].file, p->dataset);
    return SN_OK;
}
