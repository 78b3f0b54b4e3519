/*
 * files.c - reading whole files, and finding the presets that ship.
 */
#include "lib/config/files.h"

#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum sn_status read_all(int fd, char *text, size_t *len, const char *path,
                               struct sn_err *err)
{
    *len = 0;
    for (;;) {
        if (*len > SN_YAML_MAX_BYTES)
            return sn_fail(err, SN_EINPUT, "%s: more than %d bytes; want a smaller file", path,
                           SN_YAML_MAX_BYTES);
        ssize_t n = read(fd, text + *len, SN_YAML_MAX_BYTES + 1 - *len);
        if (n == 0)
            return SN_OK;
        if (n < 0 && errno != EINTR)
            return sn_fail(err, errno == EISDIR ? SN_EINPUT : SN_EIO,
                           "%s: cannot be read: %s; want a file", path, strerror(errno));
        *len += n > 0 ? (size_t)n : 0;
    }
}

enum sn_status sn_file_read(char **text, size_t *len, struct stat *id, const char *path,
                            struct sn_err *err)
{
    int fd = sn_input_open(path, id);
    if (fd < 0)
        return sn_fail(err, SN_EINPUT, "%s: cannot be opened: %s; name a file that can be read",
                       path, sn_input_why(errno));
    char *all = sn_alloc(SN_YAML_MAX_BYTES + 2);
    enum sn_status st = all ? read_all(fd, all, len, path, err)
                            : sn_fail(err, SN_ENOMEM, "%s: no memory to read it", path);
    (void)close(fd);
    if (st != SN_OK || !all) {
        sn_free(all);
        return st;
    }
    all[*len] = '\0';
    *text = all;
    return SN_OK;
}

static bool is_share_dir(const char *dir)
{
    char path[SN_YAML_MAX_DEPTH + PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/models", dir);
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum sn_status sn_share_find(char *dir, size_t size, struct sn_err *err)
{
    enum { PARENTS = 6 };
    static const char *const below[] = {"share/sennit/templates",
                                        "templates"}; /* installed; built */
    char here[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
    here[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < PARENTS; i++) {
        char *slash = strrchr(here, '/');
        if (!slash)
            break;
        *slash = '\0';
        for (int k = 0; k < 2; k++) {
            int w = snprintf(dir, size, "%s/%s", here, below[k]);
            if (w > 0 && (size_t)w < size && is_share_dir(dir))
                return SN_OK;
        }
    }
    return sn_fail(err, SN_EFAIL, "no shipped templates beside this program");
}

/* --- presets ---------------------------------------------------------------------------------- */

enum { PRESETS_MAX = 64, PRESET_NAME = 64 };

struct names {
    int n;
    char name[PRESETS_MAX][PRESET_NAME];
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void list_presets(const char *dir, struct names *all)
{
    all->n = 0;
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; all->n < PRESETS_MAX && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len <= 5 || len - 5 >= PRESET_NAME || strcmp(e->d_name + len - 5, ".yaml") != 0)
            continue;
        (void)snprintf(all->name[all->n++], PRESET_NAME, "%.*s", (int)len - 5, e->d_name);
    }
    (void)closedir(d);
    qsort(all->name, (size_t)all->n, PRESET_NAME, by_name);
}

static enum sn_status unknown_preset(const char *dir, const char *key, const struct sn_yaml_node *n,
                                     struct sn_err *err)
{
    enum { NEAR = 3 };
    struct names all;
    char shown[SN_CLIP_SIZE], text[400] = "";
    int best = 99, near = 0;
    size_t len = 0;
    list_presets(dir, &all);
    for (int i = 0; i < all.n; i++) {
        int d = sn_str_distance(n->text, all.name[i]);
        near = d < best ? i : near;
        best = d < best ? d : best;
        int w = snprintf(text + len, sizeof(text) - len, "%s%s", i ? ", " : "", all.name[i]);
        len = w > 0 && len + (size_t)w < sizeof(text) ? len + (size_t)w : sizeof(text) - 1;
    }
    (void)sn_clip(shown, n->text);
    if (best <= NEAR)
        return sn_yaml_fail(n, err, "%s: no preset '%s'; did you mean '%s'?", key, shown,
                            all.name[near]);
    if (len + 1 >= sizeof(text)) /* too many to name */
        return sn_yaml_fail(n, err, "%s: no preset '%s'; sennit-plan --list %s has those that ship",
                            key, shown, strrchr(dir, '/') + 1);
    return sn_yaml_fail(n, err, "%s: no preset '%s'; want one of %s", key, shown, text);
}

enum sn_status sn_preset_find(char *path, size_t size, const char *dir, const char *key,
                              const struct sn_yaml_node *n, struct sn_err *err)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    char shown[SN_CLIP_SIZE];
    struct stat st;
    size_t len = strlen(n->text);
    if (!len || n->text[0] == '.' || len >= PRESET_NAME || strspn(n->text, allowed) != len)
        return sn_yaml_fail(n, err,
                            "%s: '%s' is not a preset's name; want letters, digits, '.', '-' and "
                            "'_', or use 'file' for a path",
                            key, sn_clip(shown, n->text));
    int w = snprintf(path, size, "%s/%s.yaml", dir, n->text);
    if (w < 0 || (size_t)w >= size || stat(path, &st) != 0)
        return unknown_preset(dir, key, n, err);
    return SN_OK;
}

enum sn_status sn_presets_list(struct sn_str *out, const char *kind, struct sn_err *err)
{
    char share[PATH_MAX], dir[PATH_MAX + 16];
    struct names all;
    SN_TRY(sn_share_find(share, sizeof(share), err));
    (void)snprintf(dir, sizeof(dir), "%s/%s", share, kind);
    list_presets(dir, &all);
    for (int i = 0; i < all.n; i++)
        sn_str_add(out, "%s\n", all.name[i]);
    return out->failed ? sn_fail(err, SN_ENOMEM, "no memory for the names of %s", kind) : SN_OK;
}
