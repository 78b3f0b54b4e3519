#include "lib/base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { NO_FILE = EMEDIUMTYPE }; /* no call on files returns it */

int sn_input_open(const char *path, struct stat *id)
{
    struct stat here;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ENXIO) /* a socket */
            errno = NO_FILE;
        return -1;
    }
    int why = fstat(fd, &here) != 0 ? errno : S_ISDIR(here.st_mode) ? EISDIR : 0;
    if (why == 0 && !S_ISREG(here.st_mode))
        why = NO_FILE;
    if (why) {
        (void)close(fd); /* nothing was read */
        errno = why;
        return -1;
    }
    if (id)
        *id = here;
    return fd;
}

bool sn_input_is_odd(int errnum)
{
    return errnum == NO_FILE || errnum == EISDIR;
}

const char *sn_input_why(int errnum)
{
    return errnum == NO_FILE ? "it is a pipe or a device, no plain file" : strerror(errnum);
}
