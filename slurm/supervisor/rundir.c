#include "slurm/supervisor/rundir.h"

#include "lib/base/json.h"
#include "lib/base/jsonl.h"
#include "lib/base/output.h"
#include "lib/base/tail.h"
#include "lib/base/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders --------------------------------------------------------------------------------- */

static enum sn_status make_folder(const char *path, struct sn_err *err)
{
    char part[2 * SN_PATH_MAX];
    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c != '\0')
            continue;
        char end = *c;
        *c = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return sn_fail(err, SN_EIO,
                           "run.output: cannot make the directory %s: %s; want a path in one that "
                           "you may write to",
                           part, strerror(errno));
        *c = end;
        if (end == '\0')
            return SN_OK;
    }
}

enum sn_status sn_rundir_open(struct sn_rundir *out, const struct sn_config *c, struct sn_err *err)
{
    char attempts[SN_PATH_MAX + 16];
    const char *dir = c->checkpoint.dir;
    (void)snprintf(out->output, sizeof(out->output), "%s", c->run.output);
    if (*dir == '/')
        (void)snprintf(out->checkpoints, sizeof(out->checkpoints), "%s", dir);
    else
        (void)snprintf(out->checkpoints, sizeof(out->checkpoints), "%s/%s", c->run.output, dir);
    (void)snprintf(attempts, sizeof(attempts), "%s/attempts", c->run.output);
    return make_folder(attempts, err);
}

void sn_rundir_path(char *out, size_t room, const struct sn_rundir *r, int attempt,
                    const char *name)
{
    (void)snprintf(out, room, "%s/attempts/%d/%s", r->output, attempt, name);
}

enum sn_status sn_rundir_begin(const struct sn_rundir *r, int attempt, struct sn_err *err)
{
    char path[SN_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/attempts/%d", r->output, attempt);
    return make_folder(path, err);
}

enum sn_status sn_rundir_keep(const struct sn_rundir *r, int attempt, const char *name,
                              const struct sn_str *text, struct sn_err *err)
{
    char path[SN_PATH_MAX + 256];
    sn_rundir_path(path, sizeof(path), r, attempt, name);
    if (text->failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its text", path);
    int fd = sn_output_open(path, O_WRONLY | O_EXCL, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool good = f && fwrite(text->p ? text->p : "", 1, text->len, f) == text->len;
    good = f && fclose(f) == 0 && good;
    return good ? SN_OK : sn_write_fail(err, path, errno);
}

/* ---- attempts and checkpoints ---------------------------------------------------------------- */

int sn_rundir_next_attempt(const struct sn_rundir *r)
{
    char path[SN_PATH_MAX + 64];
    for (int n = 1;; n++) {
        (void)snprintf(path, sizeof(path), "%s/attempt-%d.json", r->output, n);
        bool taken = access(path, F_OK) == 0;
        (void)snprintf(path, sizeof(path), "%s/attempts/%d", r->output, n);
        if (!taken && access(path, F_OK) != 0)
            return n;
    }
}

/* The step of a name such as step-00000100; -1: it is none. *is_partial: step-00000100.tmp.X. */
static int64_t step_of(const char *name, bool *is_partial)
{
    char *end;
    *is_partial = false;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    long long step = strtoll(name + 5, &end, 10);
    *is_partial = strncmp(end, ".tmp.", 5) == 0;
    return *end == '\0' ? step : -1;
}

static bool is_committed(const char *dir, const char *name)
{
    char path[3 * SN_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s/COMMIT", dir, name);
    return access(path, F_OK) == 0;
}

static int64_t look_at_checkpoints(const struct sn_rundir *r, bool *is_saving)
{
    int64_t newest = -1;
    DIR *dir = opendir(r->checkpoints);
    *is_saving = false;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        bool is_partial;
        int64_t step = step_of(e->d_name, &is_partial);
        *is_saving = *is_saving || is_partial;
        if (step > newest && is_committed(r->checkpoints, e->d_name))
            newest = step;
    }
    if (dir)
        (void)closedir(dir); /* only read */
    return newest;
}

int64_t sn_rundir_saved_step(const struct sn_rundir *r)
{
    bool is_saving;
    return look_at_checkpoints(r, &is_saving);
}

bool sn_rundir_is_saving(const struct sn_rundir *r)
{
    bool is_saving;
    (void)look_at_checkpoints(r, &is_saving);
    return is_saving;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* The last line of OUTPUT/NAME that is an object with a member `key`; none: at is NULL. */
static struct sn_json last_line(char *text, size_t room, const struct sn_rundir *r,
                                const char *name, const char *key)
{
    char path[SN_PATH_MAX + 64];
    struct sn_json line;
    (void)snprintf(path, sizeof(path), "%s/%s", r->output, name);
    sn_tail_read(text, room, path);
    for (const char *p; (p = sn_tail_last_line(text)); text[p - text] = '\0') {
        if (sn_json_parse(&line, p, strlen(p)) && sn_json_get(line, key).at)
            return line;
    }
    return (struct sn_json){0};
}

static uint64_t motion_of(const struct sn_rundir *r, const char *name)
{
    char path[SN_PATH_MAX + 64];
    struct stat id;
    (void)snprintf(path, sizeof(path), "%s/%s", r->output, name);
    if (stat(path, &id) != 0)
        return 0;
    return (uint64_t)id.st_size * 1000003u + (uint64_t)id.st_mtim.tv_sec * 31u +
           (uint64_t)id.st_mtim.tv_nsec;
}

void sn_rundir_progress(struct sn_rundir_progress *out, const struct sn_rundir *r)
{
    char text[SN_TAIL_MAX];
    struct sn_json line = last_line(text, sizeof(text), r, "metrics.jsonl", "step_time_s");
    *out =
        (struct sn_rundir_progress){.step = sn_json_get_integer(line, "step", -1),
                                    .snapshot_step = sn_json_get_integer(line, "snapshot_step", -1),
                                    .step_seconds = sn_json_get_number(line, "step_time_s", 0)};
    line = last_line(text, sizeof(text), r, "checkpoints.jsonl", "commit_s");
    out->save_seconds =
        sn_json_get_number(line, "layout_s", 0) + sn_json_get_number(line, "copy_s", 0) +
        sn_json_get_number(line, "write_s", 0) + sn_json_get_number(line, "commit_s", 0);
    out->motion = motion_of(r, "metrics.jsonl") ^ (motion_of(r, "checkpoints.jsonl") << 1);
}

void sn_rundir_record(struct sn_rundir_record *out, const struct sn_rundir *r, int attempt)
{
    char text[SN_TAIL_MAX], name[64];
    int64_t code = -1;
    (void)snprintf(name, sizeof(name), "attempt-%d.json", attempt);
    struct sn_json line = last_line(text, sizeof(text), r, name, "cause");
    *out = (struct sn_rundir_record){.has_ended =
                                         sn_json_integer(sn_json_get(line, "exit_code"), &code)};
    out->exit_code = (int)code;
    sn_json_get_text(line, "cause", out->says, sizeof(out->says));
}

/* ---- the map --------------------------------------------------------------------------------- */

/* The entry of OUTPUT/map.json whose member `key` is `n`; the caller closes *file. */
static struct sn_json find_in_map(struct sn_jsonl *file, const struct sn_rundir *r, const char *key,
                                  int n)
{
    char path[SN_PATH_MAX + 16];
    struct sn_json all, name, entry;
    (void)snprintf(path, sizeof(path), "%s/map.json", r->output);
    *file = (struct sn_jsonl){0};
    if (sn_jsonl_open(file, path, NULL) != SN_OK || !file->text ||
        !sn_json_parse(&all, file->text, file->len))
        return (struct sn_json){0};
    struct sn_json ranks = sn_json_get(all, "ranks");
    for (size_t at = 0; sn_json_next(ranks, &at, &name, &entry);)
        if (sn_json_get_integer(entry, key, -1) == n)
            return entry;
    return (struct sn_json){0};
}

int sn_rundir_rank_of(const struct sn_rundir *r, int process)
{
    struct sn_jsonl file;
    struct sn_json entry = find_in_map(&file, r, "process", process);
    int64_t rank = sn_json_get_integer(entry, "rank", process);
    sn_jsonl_close(&file);
    return (int)rank;
}

void sn_rundir_host_of(char *out, size_t room, const struct sn_rundir *r, int rank)
{
    struct sn_jsonl file;
    struct sn_json entry = find_in_map(&file, r, "rank", rank);
    sn_json_get_text(entry, "host", out, room);
    sn_jsonl_close(&file);
}
