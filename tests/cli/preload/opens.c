/*
 * opens.c - preloaded: a letter in $OPENS_TO/NAME for each time that a file below $OPENS_OF is opened; and
 * with OPENS_ALONE a process in which no socket of its own host can be made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef int open_fn(const char *path, int flags, ...);

static void count(open_fn *real, const char *path)
{
    char to[PATH_MAX];
    const char *of = getenv("OPENS_OF"), *where = getenv("OPENS_TO");
    if (!of || !where || strncmp(path, of, strlen(of)) != 0)
        return;
    (void)snprintf(to, sizeof(to), "%s/%s", where, strrchr(path, '/') + 1);
    int fd = real(to, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || close(fd) != 0)
        abort();
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        int mode = flags & O_CREAT ? va_arg(rest, int) : 0;                                        \
        va_end(rest);                                                                              \
        open_fn *real = (open_fn *)dlsym(RTLD_NEXT, #name);                                        \
        count(real, path);                                                                         \
        return real(path, flags, mode);                                                            \
    }
OPEN(open)
OPEN(open64)

int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    if (domain == AF_UNIX && getenv("OPENS_ALONE")) {
        errno = EACCES;
        return -1;
    }
    return real(domain, type, protocol);
}
