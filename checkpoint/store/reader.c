#include "checkpoint/io/files.h"
#include "checkpoint/store/store.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sn_commit_format(char buf[SN_COMMIT_MAX], const char *manifest, size_t len, int n_shards)
{
    char shards[24] = "";
    if (n_shards >= 0)
        (void)snprintf(shards, sizeof(shards), " shards %d", n_shards);
    (void)snprintf(buf, SN_COMMIT_MAX, "manifest.json %zu bytes xxh3 %016" PRIx64 "%s\n", len,
                   sn_hash64(manifest, len), shards);
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

/* The first file to be looked at, and small: `buf` gets its text. */
static enum sn_status load_commit(char buf[SN_COMMIT_MAX + 1], const char *dir, struct sn_err *err)
{
    char *path = sn_format("%s/COMMIT", dir);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to read COMMIT", dir);
    int fd = sn_file_open(path, NULL, err);
    enum sn_status st = fd < 0 ? err->status : SN_OK;
    ssize_t n = fd < 0 ? 0 : pread(fd, buf, SN_COMMIT_MAX, 0);
    if (n < 0)
        st = sn_file_fail(err, path, "read");
    if (fd >= 0)
        (void)close(fd); /* read only */
    sn_free(path);
    SN_TRY(st);
    size_t len = n > 0 ? (size_t)n : 0;
    buf[len] = '\0';
    return strlen(buf) == len ? SN_OK : not_committed(dir, err);
}

/* Of a size that COMMIT does not speak of, nothing is read. */
static enum sn_status load_manifest(char **out, size_t *len, const char *path, const char *commit,
                                    const char *dir, struct sn_err *err)
{
    struct stat sb;
    const char head[] = "manifest.json ";
    bool is_commit = strncmp(commit, head, strlen(head)) == 0;
    if (stat(path, &sb) == 0 &&
        (!is_commit || strtoull(commit + strlen(head), NULL, 10) != (uint64_t)sb.st_size))
        return not_committed(dir, err);
    return sn_file_load(out, len, path, err);
}

/* A directory that is named as a step must hold that step: who looks for the newest goes by names.
 * Another name says nothing. */
static enum sn_status check_name(const char *dir, int64_t step, struct sn_err *err)
{
    size_t len = strlen(dir), at;
    const char *rest = "";
    while (len > 1 && dir[len - 1] == '/')
        len--;
    for (at = len; at > 0 && dir[at - 1] != '/';)
        at--;
    int64_t named = sn_store_step_of(dir + at, &rest);
    if (named < 0 || named == step || rest < dir + len)
        return SN_OK;
    return sn_fail(err, SN_EIO,
                   "%s: bears the name of step %" PRId64 ", but its manifest is of step %" PRId64
                   "; it was renamed: call it step-%08" PRId64 " again",
                   dir, named, step, step);
}

enum sn_status sn_manifest_load(struct sn_manifest *out, const char *dir, struct sn_err *err)
{
    char commit[SN_COMMIT_MAX + 1], *path = sn_format("%s/manifest.json", dir), *text = NULL;
    size_t len = 0;
    enum sn_status st = SN_OK;
    if (!path)
        st = sn_fail(err, SN_ENOMEM, "%s: no memory to read it", dir);
    if (st == SN_OK)
        st = load_commit(commit, dir, err);
    if (st == SN_OK)
        st = load_manifest(&text, &len, path, commit, dir, err);
    if (st == SN_OK)
        st = parse_committed(out, text, len, commit, path, dir, err);
    if (st == SN_OK && (st = check_name(dir, out->scalars.step, err)) != SN_OK)
        sn_manifest_fini(out);
    sn_free(text);
    sn_free(path);
    return st;
}

enum sn_status sn_reader_open(struct sn_reader *out, const char *step_dir, struct sn_err *err)
{
    struct sn_reader r = {.dir = sn_strdup(step_dir)};
    if (!r.dir)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", step_dir);
    enum sn_status st = sn_manifest_load(&r.manifest, step_dir, err);
    if (st != SN_OK) {
        sn_free(r.dir);
        return st;
    }
    *out = r;
    return SN_OK;
}
