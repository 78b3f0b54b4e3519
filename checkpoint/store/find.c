/* Which checkpoints a path of the command line means. */
#include "checkpoint/store/store.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t sn_store_step_of(const char *name, const char **rest)
{
    if (strncmp(name, "step-", 5) != 0)
        return -1;
    size_t digits = strspn(name + 5, "0123456789");
    if (digits < 8 || digits > 18)
        return -1;
    *rest = name + 5 + digits;
    return strtoll(name + 5, NULL, 10);
}

/* One checkpoint, whole or not: its step may also be gone from its name. */
static enum sn_status is_checkpoint(bool *is, const char *path, struct sn_err *err)
{
    char *manifest = sn_format("%s/manifest.json", path), *commit = sn_format("%s/COMMIT", path);
    enum sn_status st = SN_OK;
    if (manifest && commit)
        *is = access(manifest, F_OK) == 0 || access(commit, F_OK) == 0;
    else
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
    sn_free(manifest);
    sn_free(commit);
    return st;
}

/* The steps in `path`, newest first; *is_one: it is a checkpoint itself, and *steps is NULL. */
static enum sn_status look(bool *is_one, int64_t **steps, int *n, const char *path,
                           struct sn_err *err)
{
    struct stat sb;
    *steps = NULL;
    *n = 0;
    if (stat(path, &sb) != 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot open: %s; want a checkpoint", path,
                       strerror(errno));
    if (!S_ISDIR(sb.st_mode))
        return sn_fail(err, SN_EINPUT, "%s: is no directory; want a checkpoint", path);
    SN_TRY(is_checkpoint(is_one, path, err));
    if (*is_one)
        return SN_OK;
    SN_TRY(sn_store_list(steps, n, path, err));
    if (*n > 0)
        return SN_OK;
    sn_free(*steps);
    return sn_fail(
        err, SN_EINPUT,
        "%s: holds no checkpoint; want a directory with manifest.json and COMMIT, or one "
        "with directories step-00000100",
        path);
}

static enum sn_status name_step(char **out, const char *path, int64_t step, struct sn_err *err)
{
    *out = sn_format("%s/step-%08" PRId64, path, step);
    return *out ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
}

static enum sn_status copy_path(char **out, const char *path, struct sn_err *err)
{
    *out = sn_strdup(path);
    return *out ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory to open it", path);
}

enum sn_status sn_store_find(char **step_dir, const char *path, struct sn_err *err)
{
    bool is_one;
    int64_t *steps, step = -1;
    int n;
    SN_TRY(look(&is_one, &steps, &n, path, err));
    sn_free(steps);
    if (is_one)
        return copy_path(step_dir, path, err);
    SN_TRY(sn_store_newest(&step, path, err));
    return name_step(step_dir, path, step, err);
}

enum sn_status sn_store_find_all(char ***step_dirs, int *n, const char *path, struct sn_err *err)
{
    bool is_one;
    int64_t *steps;
    int n_steps;
    SN_TRY(look(&is_one, &steps, &n_steps, path, err));
    int count = is_one ? 1 : n_steps;
    char **dirs = sn_alloc_n((size_t)count, sizeof(*dirs));
    enum sn_status st = SN_OK;
    if (!dirs)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to list %d checkpoints", path, count);
    else if (is_one)
        st = copy_path(dirs, path, err);
    for (int i = 0; i < n_steps && st == SN_OK; i++)
        st = name_step(&dirs[i], path, steps[i], err);
    sn_free(steps);
    if (st != SN_OK) {
        sn_store_free_list(dirs, count);
        return st;
    }
    *step_dirs = dirs;
    *n = count;
    return SN_OK;
}

void sn_store_free_list(char **step_dirs, int n)
{
    for (int i = 0; step_dirs && i < n; i++)
        sn_free(step_dirs[i]);
    sn_free(step_dirs);
}
