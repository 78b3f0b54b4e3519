#include "lib/base/output.h"

#include "lib/base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int sn_output_open(const char *path, int flags, mode_t mode)
{
    struct stat id;
    if (flags & O_EXCL)
        (void)unlink(path); /* mostly there is nothing; else open tells */
    int fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, mode);
    if (fd < 0) {
        int failed = errno;
        if (failed == ENXIO) /* a pipe that nobody reads, a socket */
            failed = EMEDIUMTYPE;
        else if (failed == ELOOP && lstat(path, &id) == 0 && S_ISLNK(id.st_mode))
            failed = EMLINK; /* as BSD says it; ELOOP is also that of links in a circle */
        errno = failed;
        return -1;
    }
    int why = fstat(fd, &id) != 0 ? errno : S_ISREG(id.st_mode) ? 0 : EMEDIUMTYPE;
    if (why == 0)
        return fd;
    (void)close(fd); /* nothing was written */
    errno = why;
    return -1;
}

const char *sn_output_why(int errnum)
{
    return errnum == EMLINK ? "it is a link, which is not followed here" : sn_input_why(errnum);
}
