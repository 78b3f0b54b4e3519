/*
 * commit.c - the files that make a directory full of shards a checkpoint.
 */
#include "checkpoint/format/master.h"
#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <signal.h>
#include <string.h>

void sn_store_stage(const struct sn_store *s, enum sn_checkpoint_stage done)
{
    if (s && s->die_at == done)
        (void)raise(SIGKILL);
}

enum sn_status sn_store_put(const char *dir, const char *name, const char *text, size_t len,
                            struct sn_err *err)
{
    char *path = sn_format("%s/%s", dir, name);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write %s", dir, name);
    enum sn_status st = sn_file_save(path, text, len, err);
    sn_free(path);
    return st;
}

static enum sn_status write_manifest(const char *dir, const struct sn_manifest *m,
                                     const struct sn_store *hook, struct sn_err *err)
{
    struct sn_str text = {0};
    char commit[SN_COMMIT_MAX];
    sn_manifest_format(&text, m);
    enum sn_status st = SN_OK;
    if (text.failed)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory for the manifest", dir);
    else
        st = sn_store_put(dir, "manifest.json", text.p, text.len, err);
    if (st == SN_OK) {
        sn_store_stage(hook, SN_STAGE_MANIFEST);
        sn_commit_format(commit, text.p, text.len, m->n_shards);
        st = sn_store_put(dir, "COMMIT", commit, strlen(commit), err);
    }
    sn_str_fini(&text);
    return st;
}

enum sn_status sn_commit_write(const char *dir, const struct sn_manifest *m,
                               const struct sn_store *hook, struct sn_err *err)
{
    struct sn_manifest with_master = *m;
    SN_TRY(sn_master_write(dir, m, &with_master.master, err));
    sn_store_stage(hook, SN_STAGE_MASTER);
    sn_progress_mark(hook ? hook->progress : NULL);
    SN_TRY(write_manifest(dir, &with_master, hook, err));
    sn_store_stage(hook, SN_STAGE_COMMIT);
    sn_progress_mark(hook ? hook->progress : NULL);
    SN_TRY(sn_dir_sync(dir, err));
    sn_store_stage(hook, SN_STAGE_SYNCED);
    return SN_OK;
}
