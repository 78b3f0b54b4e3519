#include "checkpoint/files.h"
#include "lib/base/hash.h"
#include "checkpoint/store.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
    struct sn_reader r = {0};
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
