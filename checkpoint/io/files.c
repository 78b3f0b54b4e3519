#include "checkpoint/io/files.h"

#include "lib/base/hash.h"
#include "lib/base/input.h"
#include "lib/base/mem.h"
#include "lib/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    SLAB = 64 << 20
}; /* bytes of one write call: far below the 2 GiB that Linux takes at once */

enum sn_status sn_file_fail(struct sn_err *err, const char *path, const char *doing)
{
    int why = errno;
    const char *hint = "";
    if (why == ENOSPC || why == EDQUOT || why == EFBIG)
        hint = "; free some space, or lower checkpoint.keep";
    return sn_fail(err, why == ENOMEM ? SN_ENOMEM : SN_EIO, "%s: cannot %s: %s%s", path, doing,
                   sn_output_why(why), hint);
}

static enum sn_status read_all(int fd, char *p, size_t len, const char *path, struct sn_err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, p + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sn_file_fail(err, path, "read");
        if (n == 0)
            return sn_fail(err, SN_EIO, "%s: ends after %zu of %zu bytes", path, done, len);
        done += (size_t)n;
    }
    return SN_OK;
}

int sn_file_open(const char *path, struct stat *id, struct sn_err *err)
{
    int fd = sn_input_open(path, id);
    if (fd < 0 && sn_input_is_odd(errno))
        (void)sn_fail(err, SN_EIO, "%s: is not a plain file", path);
    else if (fd < 0)
        (void)sn_file_fail(err, path, "open");
    return fd;
}

static enum sn_status load_open(int fd, size_t bytes, char **out, const char *path,
                                struct sn_err *err)
{
    char *p = sn_alloc(bytes + 1);
    if (!p)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its %zu bytes", path, bytes);
    enum sn_status st = read_all(fd, p, bytes, path, err);
    if (st != SN_OK) {
        sn_free(p);
        return st;
    }
    *out = p;
    return SN_OK;
}

enum sn_status sn_file_load(char **out, size_t *len, const char *path, struct sn_err *err)
{
    struct stat id;
    int fd = sn_file_open(path, &id, err);
    if (fd < 0)
        return err->status;
    size_t bytes = (size_t)id.st_size;
    enum sn_status st = load_open(fd, bytes, out, path, err);
    (void)close(fd); /* read only: nothing can be lost */
    if (st == SN_OK)
        *len = bytes;
    return st;
}

enum sn_status sn_file_hash(const char *path, int64_t *bytes, uint64_t *hash, struct sn_err *err)
{
    struct stat id;
    int64_t want = *bytes;
    int fd = sn_file_open(path, &id, err);
    if (fd < 0)
        return err->status;
    *bytes = (int64_t)id.st_size;
    bool good = *bytes != want || sn_hash64_file(fd, (uint64_t)want, hash);
    int why = errno;
    (void)close(fd); /* read only: nothing can be lost */
    errno = why;
    if (good)
        return SN_OK;
    return why ? sn_file_fail(err, path, "read")
               : sn_fail(err, SN_EIO, "%s: was cut while it was read", path);
}

enum sn_status sn_file_put(int fd, const void *p, size_t len, uint64_t offset, const char *path,
                           const char *what, struct sn_err *err)
{
    for (size_t done = 0; done < len;) {
        size_t want = len - done < SLAB ? len - done : SLAB;
        ssize_t n = pwrite(fd, (const char *)p + done, want, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            char doing[256];
            (void)snprintf(doing, sizeof(doing), "write%s%s", *what ? " " : "", what);
            return sn_file_fail(err, path, doing);
        }
        done += (size_t)n;
    }
    return SN_OK;
}

static enum sn_status put_and_sync(int fd, const void *p, size_t len, const char *path,
                                   struct sn_err *err)
{
    SN_TRY(sn_file_put(fd, p, len, 0, path, "", err));
    if (fsync(fd) != 0)
        return sn_file_fail(err, path, "sync");
    return SN_OK;
}

enum sn_status sn_file_save(const char *path, const void *p, size_t len, struct sn_err *err)
{
    int fd = sn_output_open(path, O_WRONLY | O_EXCL, 0666);
    if (fd < 0)
        return sn_file_fail(err, path, "create");
    enum sn_status st = put_and_sync(fd, p, len, path, err);
    if (close(fd) != 0 && st == SN_OK)
        st = sn_file_fail(err, path, "close");
    return st;
}

char *sn_path_parent(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n > 0 ? sn_strndup(path, n) : sn_strdup(".");
}

enum sn_status sn_dir_has_room(const char *path, uint64_t bytes, bool *has, uint64_t *left,
                               struct sn_err *err)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return sn_file_fail(err, path, "ask for free space");
    *left = (uint64_t)fs.f_bavail * fs.f_frsize;
    *has = fs.f_blocks == 0 || bytes <= *left;
    return SN_OK;
}

enum sn_status sn_dir_make(const char *path, struct sn_err *err)
{
    char *part = sn_strdup(path);
    if (!part)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its name", path);
    enum sn_status st = SN_OK;
    for (char *c = part + 1; st == SN_OK && *part; c++) {
        char keep = *c;
        if (keep != '/' && keep != '\0')
            continue;
        *c = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            st = sn_file_fail(err, part, "make the directory");
        *c = keep;
        if (keep == '\0')
            break;
    }
    sn_free(part);
    struct stat sb;
    if (st == SN_OK && (stat(path, &sb) != 0 || !S_ISDIR(sb.st_mode)))
        st = sn_fail(err, SN_EINPUT, "%s: is not a directory", path);
    return st;
}

enum sn_status sn_dir_sync(const char *path, struct sn_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sn_file_fail(err, path, "open");
    enum sn_status st = SN_OK;
    /* Some network file systems cannot sync a directory and say EINVAL; their renames are
     * synchronous. */
    if (fsync(fd) != 0 && errno != EINVAL)
        st = sn_file_fail(err, path, "sync");
    (void)close(fd); /* a directory opened for reading: nothing can be lost */
    return st;
}

/* A directory comes twice: before what is in it, and behind it. */
static bool remove_entry(const FTSENT *e)
{
    if (e->fts_info == FTS_D)
        return true;
    if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
        errno = e->fts_errno;
    else if (remove(e->fts_accpath) == 0)
        return true;
    return errno == ENOENT;
}

enum sn_status sn_dir_remove_marked(const char *path, struct sn_progress *p, struct sn_err *err)
{
    char *paths[] = {(char *)(uintptr_t)path, NULL}; /* only read */
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    enum sn_status st = SN_OK;
    if (!walk)
        return sn_file_fail(err, path, "remove");
    for (FTSENT *e; st == SN_OK && (e = fts_read(walk));) {
        if (!remove_entry(e))
            st = sn_file_fail(err, e->fts_path, "remove");
        sn_progress_mark(p);
    }
    (void)fts_close(walk); /* only read */
    return st;
}

enum sn_status sn_dir_remove(const char *path, struct sn_err *err)
{
    return sn_dir_remove_marked(path, NULL, err);
}
