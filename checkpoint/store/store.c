#include "checkpoint/store/store.h"

#include "checkpoint/io/files.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

char *sn_store_path(const struct sn_store *s, int64_t step, const char *suffix)
{
    return sn_format("%s/step-%08" PRId64 "%s", s->dir, step, suffix);
}

static int newest_first(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return (a < b) - (a > b);
}

static bool is_directory(DIR *in, const char *name)
{
    struct stat sb;
    return fstatat(dirfd(in), name, &sb, 0) == 0 && S_ISDIR(sb.st_mode);
}

static enum sn_status collect(DIR *d, int64_t **steps, int *n, const char *dir, struct sn_err *err)
{
    int cap = 0;
    for (struct dirent *e; (e = readdir(d));) {
        const char *rest = "";
        int64_t step = sn_store_step_of(e->d_name, &rest);
        if (step < 0 || *rest || !is_directory(d, e->d_name))
            continue;
        if (!sn_grow((void **)steps, *n, &cap, sizeof(**steps)))
            return sn_fail(err, SN_ENOMEM, "%s: no memory to list it", dir);
        (*steps)[(*n)++] = step;
    }
    return SN_OK;
}

enum sn_status sn_store_list(int64_t **steps, int *n, const char *dir, struct sn_err *err)
{
    *steps = NULL;
    *n = 0;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return SN_OK;
    if (!d)
        return sn_file_fail(err, dir, "list the directory");
    enum sn_status st = collect(d, steps, n, dir, err);
    (void)closedir(d); /* read only */
    if (st != SN_OK) {
        sn_free(*steps);
        *steps = NULL;
    } else if (*n > 0) {
        qsort(*steps, (size_t)*n, sizeof(**steps), newest_first);
    }
    return st;
}

static enum sn_status check_step(const char *dir, int64_t step, struct sn_err *err)
{
    struct sn_reader r;
    char *path = sn_format("%s/step-%08" PRId64, dir, step);
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to check step %" PRId64, dir, step);
    enum sn_status st = sn_reader_open(&r, path, err);
    if (st == SN_OK)
        sn_reader_close(&r);
    sn_free(path);
    return st;
}

enum sn_status sn_store_before(const char *dir, int64_t before, int64_t *step, struct sn_err *err)
{
    int64_t *steps;
    int n, i = 0;
    *step = -1;
    SN_TRY(sn_store_list(&steps, &n, dir, err));
    while (i < n && steps[i] >= before)
        i++;
    if (i < n)
        *step = steps[i];
    sn_free(steps);
    return *step < 0 ? SN_OK : check_step(dir, *step, err);
}

enum sn_status sn_store_newest(int64_t *step, const char *dir, struct sn_err *err)
{
    int64_t found = -1, before = INT64_MAX;
    int damaged = 0;
    struct sn_err why = {.text = ""}, oldest = {.text = ""};
    enum sn_status st;
    while ((st = sn_store_before(dir, before, &found, &why)) == SN_EIO && found >= 0) {
        sn_log(SN_LOG_WARN, "%s; looking for an older checkpoint", why.text);
        oldest = why;
        before = found;
        damaged++;
    }
    if (st != SN_OK)
        return sn_fail(err, st, "%s", why.text);
    if (found < 0 && damaged > 0)
        return sn_fail(err, SN_EIO,
                       "%s: none of its %d checkpoints is whole (the oldest: %s); restore "
                       "one, or move them away to start from scratch",
                       dir, damaged, oldest.text);
    *step = found;
    return SN_OK;
}

/* --- tidying: never a reason to stop training ------------------------------------------------ */

static void remove_or_warn(const char *path, struct sn_progress *p)
{
    struct sn_err err;
    if (sn_dir_remove_marked(path, p, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

/* Directories with names such as "step-00000100.tmp.4711", for kind ".tmp.". */
static void remove_all(const struct sn_store *s, const char *kind, struct sn_progress *p)
{
    DIR *d = opendir(s->dir);
    if (!d)
        return; /* the save that follows explains */
    for (struct dirent *e; (e = readdir(d));) {
        const char *rest = "";
        bool is_left =
            sn_store_step_of(e->d_name, &rest) >= 0 && strncmp(rest, kind, strlen(kind)) == 0;
        char *path = is_left ? sn_format("%s/%s", s->dir, e->d_name) : NULL;
        if (path)
            remove_or_warn(path, p);
        sn_free(path);
    }
    (void)closedir(d); /* read only */
}

static void *sweep(void *self)
{
    struct sn_store *s = self;
    remove_all(s, ".del.", &s->swept);
    return NULL;
}

void sn_store_begin_sweep(struct sn_store *s)
{
    sn_store_wait_sweep(s);
    s->is_sweeping = sn_thread_start(&s->sweeper, 0, sweep, s) == 0;
    if (!s->is_sweeping)
        remove_all(s, ".del.", s->progress);
}

/* Who waits moves as long as the sweep does. */
void sn_store_wait_sweep(struct sn_store *s)
{
    enum { LOOK_NS = 200 * 1000 * 1000 };
    uint64_t seen = 0;
    int left = s->is_sweeping ? ETIMEDOUT : 0;
    while (left == ETIMEDOUT) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until); /* as pthread_timedjoin_np counts */
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        left = pthread_timedjoin_np(s->sweeper, NULL, &until);
        uint64_t marks = atomic_load_explicit(&s->swept.marks, memory_order_relaxed);
        if (marks != seen)
            sn_progress_mark(s->progress);
        seen = marks;
    }
    s->is_sweeping = false;
}

void sn_store_tidy(struct sn_store *s)
{
    remove_all(s, ".tmp.", s->progress);
    if (!s->is_sweeping)
        sn_store_begin_sweep(s);
}

/* Rename first: a checkpoint is whole or not there, also while it is being removed. *to is the new
 * name, which the caller frees on success. */
static enum sn_status rename_step(const struct sn_store *s, int64_t step, const char *kind,
                                  char **to, struct sn_err *err)
{
    enum { TRIES = 1000 }; /* in a container every process may be number 1 */
    char suffix[64];
    char *from = sn_store_path(s, step, "");
    enum sn_status st = SN_EIO;
    for (int i = 0; i < TRIES && st != SN_OK; i++) {
        (void)snprintf(suffix, sizeof(suffix), i ? ".%s.%ld.%d" : ".%s.%ld", kind, (long)getpid(),
                       i);
        *to = sn_store_path(s, step, suffix);
        if (!from || !*to) {
            st = sn_fail(err, SN_ENOMEM, "%s: no memory to rename step %" PRId64, s->dir, step);
            break;
        }
        if (rename(from, *to) == 0) {
            st = SN_OK;
        } else {
            bool taken = errno == ENOTEMPTY || errno == EEXIST;
            st = sn_file_fail(err, from, "rename");
            sn_free(*to);
            if (!taken)
                break;
        }
    }
    sn_free(from);
    return st;
}

static void drop_step(const struct sn_store *s, int64_t step)
{
    struct sn_err err;
    char *to;
    if (rename_step(s, step, "del", &to, &err) == SN_OK)
        sn_free(to);
    else
        sn_log(SN_LOG_WARN, "%s", err.text);
}

static enum sn_status put_aside(const struct sn_store *s, int64_t step, struct sn_err *err)
{
    char *to;
    SN_TRY(rename_step(s, step, "aside", &to, err));
    sn_log(SN_LOG_INFO, "%s: a checkpoint of another course of training, set aside", to);
    sn_free(to);
    return SN_OK;
}

enum sn_status sn_store_move_damaged(struct sn_store *s, int64_t step, struct sn_err *err)
{
    enum sn_status st = SN_OK;
    for (int i = 0; i < s->n_passed_over; i++) {
        struct sn_err why;
        char *to = NULL, *from = sn_store_path(s, s->passed_over[i], "");
        bool is_there = !from || access(from, F_OK) == 0; /* else somebody has moved it */
        enum sn_status one =
            is_there ? rename_step(s, s->passed_over[i], "damaged", &to, &why) : SN_OK;
        if (to)
            sn_log(SN_LOG_WARN,
                   "%s: the damaged checkpoint that was passed over; it is kept until somebody "
                   "removes it",
                   to);
        else if (one != SN_OK && s->passed_over[i] == step)
            st = sn_fail(err, one, "%s", why.text);
        else if (one != SN_OK)
            sn_log(SN_LOG_WARN, "%s", why.text);
        sn_free(from);
        sn_free(to);
    }
    if (st == SN_OK)
        s->n_passed_over = 0;
    return st;
}

void sn_store_rotate(const struct sn_store *s, int64_t step)
{
    int64_t *steps;
    int n, kept = 0;
    struct sn_err err;
    if (sn_store_list(&steps, &n, s->dir, &err) != SN_OK) {
        sn_log(SN_LOG_WARN, "%s", err.text);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (steps[i] > step && put_aside(s, steps[i], &err) != SN_OK)
            sn_log(SN_LOG_WARN, "%s", err.text);
        else if (steps[i] <= step && s->options.keep > 0 && ++kept > s->options.keep)
            drop_step(s, steps[i]);
    }
    sn_free(steps);
}

enum sn_status sn_store_set_aside(const struct sn_store *s, struct sn_err *err)
{
    int64_t *steps;
    int n;
    SN_TRY(sn_store_list(&steps, &n, s->dir, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < n && st == SN_OK; i++)
        st = put_aside(s, steps[i], err);
    sn_free(steps);
    char *latest = sn_format("%s/LATEST", s->dir);
    if (latest)
        (void)unlink(latest); /* a hint; it may not be there */
    sn_free(latest);
    SN_TRY(st);
    return n > 0 ? sn_dir_sync(s->dir, err) : SN_OK;
}
