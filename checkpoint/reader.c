#include "checkpoint/files.h"
#include "checkpoint/hash.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void sn_commit_format(char buf[SN_COMMIT_MAX], const char *manifest, size_t len)
{
    (void)snprintf(buf, SN_COMMIT_MAX, "manifest.json %zu bytes xxh3 %016" PRIx64 "\n", len,
                   sn_hash64(manifest, len));
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

static enum sn_status check_commit(const char *dir, const char *manifest, size_t len,
                                   struct sn_err *err)
{
    char *path, *text = NULL, want[SN_COMMIT_MAX];
    size_t text_len = 0;
    enum sn_status st = load_part(&path, &text, &text_len, dir, "COMMIT", err);
    sn_commit_format(want, manifest, len);
    if (st == SN_OK && (text_len != strlen(want) || memcmp(text, want, text_len) != 0))
        st = sn_fail(
            err, SN_EIO,
            "%s/manifest.json: is not what COMMIT was written for; one of them was altered", dir);
    sn_free(text);
    sn_free(path);
    return st;
}

enum sn_status sn_reader_open(struct sn_reader *out, const char *step_dir, struct sn_err *err)
{
    struct sn_reader r = {.shard_number = -1};
    char *path, *text = NULL;
    size_t len = 0;
    enum sn_status st = load_part(&path, &text, &len, step_dir, "manifest.json", err);
    if (st == SN_OK)
        st = check_commit(step_dir, text, len, err);
    if (st == SN_OK)
        st = sn_manifest_parse(&r.manifest, text, len, path, err);
    if (st == SN_OK)
        st = sn_manifest_check_cover(&r.manifest, path, err);
    sn_free(text);
    sn_free(path);
    r.dir = st == SN_OK ? sn_strdup(step_dir) : NULL;
    if (st == SN_OK && !r.dir)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for its name", step_dir);
    if (st == SN_OK)
        *out = r;
    else
        sn_manifest_fini(&r.manifest);
    return st;
}

void sn_reader_close(struct sn_reader *r)
{
    sn_h5_close(r->shard);
    sn_manifest_fini(&r->manifest);
    sn_free(r->dir);
    *r = (struct sn_reader){0};
}

static enum sn_status use_shard(struct sn_reader *r, int number, struct sn_err *err)
{
    if (r->shard && r->shard_number == number)
        return SN_OK;
    sn_h5_close(r->shard);
    r->shard = NULL;
    char *path = sn_format("%s/%s", r->dir, r->manifest.shards[number].file);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open shard %d", r->dir, number);
    enum sn_status st = sn_h5_open(&r->shard, path, err);
    r->shard_number = number;
    sn_free(path);
    return st;
}

enum sn_status sn_reader_read(struct sn_reader *r, const struct sn_manifest_tensor *t,
                              const struct sn_manifest_piece *p, float *out, struct sn_err *err)
{
    struct sn_err why;
    enum sn_status st = use_shard(r, p->shard, &why);
    if (st == SN_OK)
        st = sn_h5_read(r->shard, p->dataset, p->box.rows, p->box.cols, out, &why);
    if (st != SN_OK)
        return sn_fail(err, st, "%s (reading tensor %s %s)", why.text, t->group, t->name);
    if (sn_hash64(out, (size_t)sn_box_size(p->box) * sizeof(float)) != p->hash)
        return sn_fail(err, SN_EIO,
                       "%s/%s: the bytes of %s are not those that were saved (their hash differs); "
                       "the file was altered, use another checkpoint",
                       r->dir, r->manifest.shards[p->shard].file, p->dataset);
    return SN_OK;
}
