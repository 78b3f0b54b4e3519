#include "bin/train/features.h"

#include "lib/base/mem.h"

#include <string.h>

enum sn_status sn_train_features_check(const struct sn_config *c, const char *option,
                                       const char *path, struct sn_err *err)
{
    int rows = c->train.prompt.rows;
    if ((rows > 0) == (path != NULL))
        return SN_OK;
    if (path)
        return sn_fail(err, SN_EINPUT,
                       "--features: %s reads none (train.prompt.rows: 0); leave it out", c->path);
    return sn_fail(err, SN_EINPUT,
                   "%s: its prompts are of features (train.prompt.rows: %d); want --features "
                   "FILE.npy, an entry for each text",
                   option, rows);
}

/* The ending may be left out. */
static enum sn_status open_named(struct sn_train_features *f, const char *path,
                                 struct sn_features_shape want, struct sn_err *err)
{
    size_t n = strlen(path);
    bool is_whole = n > 4 && strcmp(path + n - 4, ".npy") == 0;
    char *whole = sn_format("%s%s", path, is_whole ? "" : ".npy");
    if (!whole)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    enum sn_status st = sn_features_open(&f->file, whole, want, NULL, err);
    sn_free(whole);
    return st;
}

enum sn_status sn_train_features_open(struct sn_train_features *f, const struct sn_config *c,
                                      const char *path, struct sn_err *err)
{
    const struct sn_prompt_config *p = &c->train.prompt;
    struct sn_features_shape want = {sn_prompt_entry(p), p->size};
    if (!path)
        return SN_OK;
    SN_TRY(open_named(f, path, want, err));
    f->n = sn_features_entries(f->file);
    f->entry = sn_alloc_n((size_t)(want.rows * want.size), sizeof(*f->entry));
    if (!f->entry)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for an entry", path);
    for (int64_t i = 0; i < f->n; i++)
        SN_TRY(sn_features_read(f->file, i, f->entry, err));
    return f->n > 0 ? SN_OK
                    : sn_fail(err, SN_EINPUT, "%s: there is no entry in it; want one for each text",
                              sn_features_path(f->file));
}

void sn_train_features_close(struct sn_train_features *f)
{
    sn_features_close(f->file);
    sn_free(f->entry);
    *f = (struct sn_train_features){0};
}

enum sn_status sn_train_features_count(const struct sn_train_features *f, const char *file,
                                       int64_t n, const char *what, struct sn_err *err)
{
    if (!f->file || f->n == n)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: features of %lld texts, but %s has %lld %s; want an entry for each",
                   sn_features_path(f->file), (long long)f->n, file, (long long)n, what);
}
