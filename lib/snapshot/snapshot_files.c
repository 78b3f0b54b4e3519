#include "lib/snapshot/snapshot_files.h"

#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { NAME_MAX_LENGTH = 64 };

static enum sn_status fail(struct sn_err *err, const char *path, const char *doing)
{
    return sn_fail(err, SN_EIO, "%s: cannot %s: %s", path, doing, strerror(errno));
}

/* --- names ------------------------------------------------------------------------------------ */

static const char *format_name(char out[NAME_MAX_LENGTH], const struct sn_snapshot_name *n)
{
    (void)snprintf(out, NAME_MAX_LENGTH, "%016" PRIx64 "-%05d-%s%d", n->series, n->rank,
                   n->is_kept ? "kept" : "own", n->generation);
    return out;
}

/* Only what format_name would write. */
static bool parse_name(struct sn_snapshot_name *out, const char *text)
{
    char kind[8] = "", again[NAME_MAX_LENGTH];
    struct sn_snapshot_name n = {0};
    if (sscanf(text, "%16" SCNx64 "-%9d-%4[a-z]%1d", &n.series, &n.rank, kind, &n.generation) != 4)
        return false;
    n.is_kept = strcmp(kind, "kept") == 0;
    *out = n;
    return strcmp(format_name(again, &n), text) == 0;
}

enum sn_status sn_snapshot_dir(char **out, const char *root, const char *output, struct sn_err *err)
{
    char real[PATH_MAX];
    if (!realpath(output, real))
        return fail(err, output, "find it");
    *out = sn_format("%s/sennit-%lu-%016" PRIx64, root, (unsigned long)getuid(),
                     sn_hash64(real, strlen(real)));
    return *out ? SN_OK : sn_fail(err, SN_ENOMEM, "%s: no memory for a path", root);
}

enum sn_status sn_snapshot_dir_make(const char *dir, struct sn_err *err)
{
    struct stat s;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return fail(err, dir, "make it");
    if (lstat(dir, &s) != 0)
        return fail(err, dir, "look at it");
    if (!S_ISDIR(s.st_mode) || s.st_uid != getuid())
        return sn_fail(err, SN_EIO, "%s: is no directory of this user's; have it removed", dir);
    return SN_OK;
}

static char *path_of(const char *dir, const struct sn_snapshot_name *n)
{
    char name[NAME_MAX_LENGTH];
    return sn_format("%s/%s", dir, format_name(name, n));
}

/* --- one file --------------------------------------------------------------------------------- */

static enum sn_status map(struct sn_snapshot_file *f, int fd, int protection, struct sn_err *err)
{
    f->p = mmap(NULL, (size_t)f->bytes, protection, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (f->p != MAP_FAILED)
        return SN_OK;
    f->p = NULL;
    return fail(err, f->path, "map it");
}

static enum sn_status make(struct sn_snapshot_file *f, struct sn_err *err)
{
    int fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(err, f->path, "make it");
    errno = posix_fallocate(fd, 0, (off_t)f->bytes); /* a store into what is full is a signal */
    enum sn_status st =
        errno ? fail(err, f->path, "reserve its memory") : map(f, fd, PROT_READ | PROT_WRITE, err);
    (void)close(fd); /* the mapping holds the file */
    if (st != SN_OK)
        (void)unlink(f->path); /* of no use */
    return st;
}

enum sn_status sn_snapshot_file_create(struct sn_snapshot_file *out, const char *dir,
                                       const struct sn_snapshot_name *name, int64_t bytes,
                                       struct sn_err *err)
{
    struct sn_snapshot_file f = {.path = path_of(dir, name), .bytes = bytes};
    if (!f.path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a path", dir);
    enum sn_status st = make(&f, err);
    if (st == SN_OK)
        *out = f;
    else
        sn_free(f.path);
    return st;
}

static enum sn_status look(struct sn_snapshot_file *f, struct sn_err *err)
{
    struct stat s;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return fail(err, f->path, "open it");
    enum sn_status st = SN_OK;
    if (fstat(fd, &s) != 0)
        st = fail(err, f->path, "look at it");
    else if (s.st_size < 1)
        st = sn_fail(err, SN_EIO, "%s: is empty", f->path);
    if (st == SN_OK) {
        f->bytes = (int64_t)s.st_size;
        st = map(f, fd, PROT_READ, err);
    }
    (void)close(fd); /* only read */
    return st;
}

enum sn_status sn_snapshot_file_open(struct sn_snapshot_file *out, const char *dir,
                                     const struct sn_snapshot_name *name, struct sn_err *err)
{
    struct sn_snapshot_file f = {.path = path_of(dir, name)};
    if (!f.path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a path", dir);
    enum sn_status st = look(&f, err);
    if (st == SN_OK)
        *out = f;
    else
        sn_free(f.path);
    return st;
}

void sn_snapshot_file_close(struct sn_snapshot_file *f)
{
    if (f->p)
        (void)munmap(f->p, (size_t)f->bytes); /* cannot fail on what mmap gave */
    sn_free(f->path);
    *f = (struct sn_snapshot_file){0};
}

enum sn_status sn_snapshot_file_remove(const char *dir, const struct sn_snapshot_name *name,
                                       struct sn_err *err)
{
    char *path = path_of(dir, name);
    enum sn_status st = SN_OK;
    if (!path)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for a path", dir);
    if (unlink(path) != 0 && errno != ENOENT)
        st = fail(err, path, "remove it");
    sn_free(path);
    return st;
}

/* --- all files of a run ----------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    char x[NAME_MAX_LENGTH], y[NAME_MAX_LENGTH];
    return strcmp(format_name(x, a), format_name(y, b));
}

static bool append(struct sn_snapshot_name **list, int *n, const struct sn_snapshot_name *name)
{
    struct sn_snapshot_name *more = sn_realloc(*list, ((size_t)*n + 1) * sizeof(**list));
    if (!more)
        return false;
    more[(*n)++] = *name;
    *list = more;
    return true;
}

enum sn_status sn_snapshot_list(struct sn_snapshot_name **out, int *n, const char *dir,
                                struct sn_err *err)
{
    struct sn_snapshot_name name, *list = NULL;
    bool has_room = true;
    DIR *d = opendir(dir);
    *n = 0;
    *out = NULL;
    if (!d)
        return errno == ENOENT ? SN_OK : fail(err, dir, "list it");
    for (struct dirent *e; has_room && (e = readdir(d)) != NULL;)
        if (parse_name(&name, e->d_name))
            has_room = append(&list, n, &name);
    (void)closedir(d); /* only read */
    if (!has_room) {
        sn_free(list);
        *n = 0;
        return sn_fail(err, SN_ENOMEM, "%s: no memory to list it", dir);
    }
    if (list)
        qsort(list, (size_t)*n, sizeof(*list), by_name);
    *out = list;
    return SN_OK;
}

enum sn_status sn_snapshot_remove(const char *dir, uint64_t series, struct sn_err *err)
{
    struct sn_snapshot_name *list;
    enum sn_status st = SN_OK;
    int n;
    SN_TRY(sn_snapshot_list(&list, &n, dir, err));
    for (int i = 0; i < n && st == SN_OK; i++)
        if (!series || list[i].series != series)
            st = sn_snapshot_file_remove(dir, &list[i], err);
    sn_free(list);
    if (st == SN_OK && rmdir(dir) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        st = fail(err, dir, "remove it");
    return st;
}

static int64_t taken_by(const char *dir, const struct sn_snapshot_name *name)
{
    struct stat s;
    char *path = path_of(dir, name);
    int64_t bytes = path && stat(path, &s) == 0 ? (int64_t)s.st_blocks * 512 : 0;
    sn_free(path);
    return bytes;
}

enum sn_status sn_snapshot_space(const char *dir, int64_t *is_free, int64_t *taken,
                                 struct sn_err *err)
{
    struct statvfs v;
    struct sn_snapshot_name *list;
    int n;
    if (statvfs(dir, &v) != 0)
        return fail(err, dir, "see how much memory is free there");
    SN_TRY(sn_snapshot_list(&list, &n, dir, err));
    *taken = 0;
    for (int i = 0; i < n; i++)
        *taken += taken_by(dir, &list[i]);
    sn_free(list);
    *is_free = (int64_t)v.f_bavail * (int64_t)v.f_frsize;
    return SN_OK;
}
