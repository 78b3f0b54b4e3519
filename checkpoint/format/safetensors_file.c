#include "checkpoint/format/safetensors_file.h"

#include "checkpoint/io/files.h"
#include "lib/base/input.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum sn_status sn_st_file_open(struct sn_st_file *f, char *path, struct sn_err *err)
{
    struct stat id;
    *f = (struct sn_st_file){.path = path, .fd = sn_input_open(path, &id)};
    if (f->fd < 0 && sn_input_is_odd(errno))
        return sn_fail(err, SN_EINPUT, "%s: is not a plain file", path);
    if (f->fd < 0)
        return sn_file_fail(err, path, "open");
    f->len = (uint64_t)id.st_size;
    return SN_OK;
}

enum sn_status sn_st_file_get(const struct sn_st_file *f, uint64_t at, void *out, size_t n,
                              struct sn_err *err)
{
    if (f->fd < 0 && n > 0)
        memcpy(out, f->p + at, n);
    for (size_t done = 0; f->fd >= 0 && done < n;) {
        ssize_t got = pread(f->fd, (char *)out + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sn_file_fail(err, f->path, "read");
        if (got == 0)
            return sn_fail(err, SN_EIO,
                           "%s: ends after %" PRIu64 " bytes; it had %" PRIu64
                           " when it was opened",
                           f->path, at + done, f->len);
        done += (size_t)got;
    }
    return SN_OK;
}

void sn_st_file_close(struct sn_st_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd); /* read only: nothing can be lost */
    sn_free(f->path);
}
