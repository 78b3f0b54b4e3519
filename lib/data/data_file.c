/*
 * data_file.c - one file that grows under a temporary name until it is published whole.
 */
#include "lib/data/data_format.h"

#include "lib/base/mem.h"
#include "lib/base/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum sn_status sn_data_file_create(struct sn_data_file *f, const char *prefix, const char *suffix,
                                   struct sn_err *err)
{
    int n = (int)sn_data_prefix_length(prefix);
    f->path = sn_data_file_path(prefix, suffix);
    f->temporary = sn_format("%.*s.%s.tmp.%ld", n, prefix, suffix, (long)getpid());
    f->buffer = sn_alloc(SN_DATA_BUFFER);
    if (!f->path || !f->temporary || !f->buffer)
        return sn_fail(err, SN_ENOMEM, "%s: no memory to write it", prefix);
    struct stat old;
    if (stat(f->path, &old) == 0 && !S_ISREG(old.st_mode))
        return sn_fail(err, SN_EIO,
                       "%s: cannot be written (it is no regular file); choose another name",
                       f->path);
    f->fd = open(f->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0)
        return sn_write_fail(err, errno == EEXIST ? f->temporary : f->path, errno);
    f->unpublished = true;
    return SN_OK;
}

enum sn_status sn_data_file_write_at(struct sn_data_file *f, const void *bytes, size_t n,
                                     int64_t at, struct sn_err *err)
{
    const unsigned char *p = bytes;
    while (n > 0) {
        ssize_t done = pwrite(f->fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sn_write_fail(err, f->path, done < 0 ? errno : ENOSPC);
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return SN_OK;
}

enum sn_status sn_data_file_read_at(const struct sn_data_file *f, void *bytes, size_t n, int64_t at,
                                    struct sn_err *err)
{
    unsigned char *p = bytes;
    while (n > 0) {
        ssize_t done = pread(f->fd, p, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sn_data_read_fail(err, f->temporary, done < 0 ? errno : EIO);
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return SN_OK;
}

enum sn_status sn_data_file_flush(struct sn_data_file *f, struct sn_err *err)
{
    SN_TRY(sn_data_file_write_at(f, f->buffer, f->used, f->written, err));
    f->written += (int64_t)f->used;
    f->used = 0;
    return SN_OK;
}

/* Room for n more bytes (n <= SN_DATA_BUFFER) at f->buffer + f->used. */
enum sn_status sn_data_file_room(struct sn_data_file *f, size_t n, struct sn_err *err)
{
    return f->used + n > SN_DATA_BUFFER ? sn_data_file_flush(f, err) : SN_OK;
}

enum sn_status sn_data_file_put(struct sn_data_file *f, const void *bytes, size_t n,
                                struct sn_err *err)
{
    if (n > SN_DATA_BUFFER / 2) {
        SN_TRY(sn_data_file_flush(f, err));
        SN_TRY(sn_data_file_write_at(f, bytes, n, f->written, err));
        f->written += (int64_t)n;
        return SN_OK;
    }
    SN_TRY(sn_data_file_room(f, n, err));
    if (n > 0)
        memcpy(f->buffer + f->used, bytes, n);
    f->used += n;
    return SN_OK;
}

enum sn_status sn_data_file_truncate(struct sn_data_file *f, int64_t bytes, struct sn_err *err)
{
    SN_TRY(sn_data_file_flush(f, err));
    if (ftruncate(f->fd, (off_t)bytes) != 0)
        return sn_write_fail(err, f->path, errno);
    f->written = bytes;
    return SN_OK;
}

enum sn_status sn_data_file_sync(struct sn_data_file *f, struct sn_err *err)
{
    SN_TRY(sn_data_file_flush(f, err));
    if (fsync(f->fd) != 0)
        return sn_write_fail(err, f->path, errno);
    int fd = f->fd;
    f->fd = -1;
    return close(fd) != 0 ? sn_write_fail(err, f->path, errno) : SN_OK;
}

enum sn_status sn_data_file_publish(struct sn_data_file *f, struct sn_err *err)
{
    if (rename(f->temporary, f->path) != 0)
        return sn_write_fail(err, f->path, errno);
    f->unpublished = false;
    return SN_OK;
}

void sn_data_file_destroy(struct sn_data_file *f)
{
    if (f->fd >= 0) {
        (void)close(f->fd); /* its contents go */
        f->fd = -1;
    }
    if (f->unpublished)
        (void)unlink(f->temporary); /* a left-over file does no harm */
    sn_free(f->path);
    sn_free(f->temporary);
    sn_free(f->buffer);
}
