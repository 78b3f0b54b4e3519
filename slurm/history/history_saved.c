/*
 * history_saved.c - the newest committed checkpoint of a run, by its names alone: whether its
 * bytes are whole is for `sennit-convert --verify` to say, and for the trainer when it resumes.
 */
#include "slurm/history/history.h"

#include "lib/base/input.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is the manifest of another step than its directory's name says? It says so in its first lines;
 * without them nothing is known. */
static bool is_renamed(const char *path, int64_t step)
{
    enum { HEAD = 32768 };
    static const char key[] = "\"scalars\": {\"step\": ";
    char text[HEAD + 1];
    int fd = sn_input_open(path, NULL);
    ssize_t n = fd < 0 ? 0 : pread(fd, text, HEAD, 0);
    if (fd >= 0)
        (void)close(fd); /* only read */
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, key);
    return at && strtoll(at + strlen(key), NULL, 10) != step;
}

/* Is DIR/step-N committed, and when was it? */
static bool is_committed(const char *dir, const char *name, int64_t step, double *at)
{
    char path[SN_HISTORY_PATH + 300];
    struct stat manifest, commit;
    (void)snprintf(path, sizeof(path), "%s/%s/manifest.json", dir, name);
    if (stat(path, &manifest) != 0 || !S_ISREG(manifest.st_mode) || manifest.st_size == 0 ||
        is_renamed(path, step))
        return false;
    (void)snprintf(path, sizeof(path), "%s/%s/COMMIT", dir, name);
    if (stat(path, &commit) != 0 || !S_ISREG(commit.st_mode) || commit.st_size == 0)
        return false;
    *at = (double)commit.st_mtim.tv_sec + 1e-9 * (double)commit.st_mtim.tv_nsec;
    return true;
}

bool sn_history_take_checkpoints(struct sn_history *h)
{
    DIR *d = opendir(h->checkpoints);
    int64_t newest = -1;
    double at = 0, newest_at = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step = -1;
        int used = 0;
        if (sscanf(e->d_name, "step-%18" SCNd64 "%n", &step, &used) != 1 || step <= newest ||
            e->d_name[used] != '\0' || !is_committed(h->checkpoints, e->d_name, step, &at))
            continue;
        newest = step;
        newest_at = at;
    }
    if (!d)
        return false;
    (void)closedir(d);
    if (newest != h->saved)
        h->saved_bytes = -1; /* checkpoints.jsonl speaks of another one */
    h->saved = newest;
    h->saved_at = newest_at;
    return true;
}
