/*
 * site_detect.c - at which of the shipped sites is this process?
 */
#include "lib/base/mem.h"
#include "lib/config/files.h"
#include "slurm/site/site.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool tells(const struct sn_site *s, char by[SN_SITE_TEXT])
{
    for (int i = 0; i < s->detect.n; i++) {
        char name[SN_NAME_MAX];
        const char *word = s->detect.word[i], *equals = strchr(word, '=');
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
        const char *value = getenv(name);
        if (!value || strcmp(value, equals + 1) != 0)
            continue;
        (void)snprintf(by, SN_SITE_TEXT, "%s", word);
        return true;
    }
    return false;
}

static bool is_profile(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

bool sn_site_detect(char name[SN_SITE_NAME], char by[SN_SITE_TEXT], const char *share_dir)
{
    char share[SN_PATH_MAX], dir[SN_PATH_MAX + 16];
    struct sn_err unused; /* a profile that cannot be read is no site where we are */
    bool found = false;
    struct sn_site *s = sn_alloc(sizeof(*s)); /* large for a stack */
    if (!s || (!share_dir && sn_share_find(share, sizeof(share), &unused) != SN_OK)) {
        sn_free(s);
        return false;
    }
    (void)snprintf(dir, sizeof(dir), "%s/sites", share_dir ? share_dir : share);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char *path = is_profile(e->d_name) ? sn_format("%s/%s", dir, e->d_name) : NULL;
        if (path && sn_site_load(s, path, &unused) == SN_OK) {
            found = tells(s, by);
            if (found)
                (void)snprintf(name, SN_SITE_NAME, "%s", s->name);
            sn_site_fini(s);
        }
        sn_free(path);
    }
    if (d)
        (void)closedir(d); /* read only */
    sn_free(s);
    return found;
}
