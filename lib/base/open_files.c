#include "lib/base/open_files.h"

#include "lib/base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int take(struct sn_open_files *f, struct stat *id)
{
    int fd = f->fd[f->used];
    if (fstat(fd, id) != 0)
        return -1;
    f->fd[f->used++] = -1;
    return fd;
}

int sn_open_files_get(struct sn_open_files *f, const char *path, struct stat *id)
{
    if (f && f->is_given && f->used < f->n)
        return take(f, id);
    int fd = sn_input_open(path, id);
    if (!f || f->is_given || fd < 0 || f->n == SN_OPEN_FILES_MAX)
        return fd;
    int second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (second < 0) {
        int why = errno;
        (void)close(fd); /* nothing was read */
        errno = why;
        return -1;
    }
    f->fd[f->n++] = second;
    return fd;
}

void sn_open_files_close(struct sn_open_files *f)
{
    for (int i = 0; i < f->n; i++) {
        if (f->fd[i] >= 0)
            (void)close(f->fd[i]); /* only read */
    }
    *f = (struct sn_open_files){0};
}
