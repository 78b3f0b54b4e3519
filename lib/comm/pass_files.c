#include "lib/comm/pass_files.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { AT_ONCE = 128 }; /* descriptors in a message; Linux takes 253 */

static bool is_first(const struct sn_comm *c)
{
    return c->rank == c->node_first;
}

static socklen_t name_of(struct sockaddr_un *name, const struct sn_comm *c)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "sennit-%016llx-%d",
                     (unsigned long long)c->nonce, c->node_first);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_mine(int fd)
{
    struct ucred who;
    socklen_t size = sizeof(who);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

void sn_pass_open(struct sn_pass_socket *p, const struct sn_comm *c)
{
    struct sockaddr_un name;
    p->fd = -1;
    if (!is_first(c) || c->node_size == 1)
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = name_of(&name, c);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&name, size) != 0 || listen(fd, c->node_size) != 0)) {
        (void)close(fd); /* nothing was written */
        fd = -1;
    }
    p->fd = fd; /* without it the others find nobody */
}

/* One message: how many files there are in all, and some of them. */
union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(AT_ONCE * sizeof(int))];
};

static bool send_some(int to, const int *fd, int n, int all)
{
    union control control = {.head = {0}};
    struct iovec total = {.iov_base = &all, .iov_len = sizeof(all)};
    struct msghdr m = {.msg_iov = &total, .msg_iovlen = 1};
    if (n > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
        memcpy(CMSG_DATA(h), fd, (size_t)n * sizeof(int));
    }
    return sendmsg(to, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(all);
}

static bool send_all(int to, const struct sn_open_files *f)
{
    int sent = 0;
    do {
        int n = f->n - sent < AT_ONCE ? f->n - sent : AT_ONCE;
        if (!send_some(to, f->fd + sent, n, f->n))
            return false;
        sent += n;
    } while (sent < f->n);
    return true;
}

/* How many came; *all is how many there are. 0: no more come. */
static int get_some(int from, struct sn_open_files *f, int *all)
{
    union control control;
    struct iovec total = {.iov_base = all, .iov_len = sizeof(*all)};
    struct msghdr m = {.msg_iov = &total,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    struct cmsghdr *h = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (!h || h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
        return 0;
    int n = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    int room = SN_OPEN_FILES_MAX - f->n;
    for (int i = 0; i < n; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(h) + (size_t)i * sizeof(int), sizeof(fd));
        if (i < room)
            f->fd[f->n++] = fd;
        else
            (void)close(fd);
    }
    return got == (ssize_t)sizeof(*all) && n <= room && !(m.msg_flags & MSG_CTRUNC) ? n : 0;
}

static bool get_all(int from, struct sn_open_files *f)
{
    int all = -1;
    f->is_given = true;
    while (f->n != all) {
        if (get_some(from, f, &all) == 0)
            break;
    }
    bool is_whole = f->n == all;
    if (!is_whole)
        sn_open_files_close(f);
    return is_whole;
}

static void limit(int fd, int seconds)
{
    struct timeval t = {.tv_sec = seconds};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t,
                     sizeof(t)); /* the other end's death ends it, too */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

static bool fetch(const struct sn_comm *c, struct sn_open_files *f, int seconds)
{
    struct sockaddr_un name;
    socklen_t size = name_of(&name, c);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    limit(fd, seconds);
    bool comes = connect(fd, (struct sockaddr *)&name, size) == 0 && is_mine(fd) && get_all(fd, f);
    (void)close(fd);
    return comes;
}

/* To all others of the host, as they come; how many did not. */
static int serve(int listening, const struct sn_comm *c, const struct sn_open_files *f, int seconds)
{
    int missing = c->node_size - 1;
    double until = sn_clock() + seconds, left;
    while (missing > 0 && (left = until - sn_clock()) > 0) {
        struct pollfd someone = {.fd = listening, .events = POLLIN};
        if (poll(&someone, 1, (int)(1e3 * left) + 1) < 0 && errno != EINTR)
            break;
        int fd = someone.revents ? accept4(listening, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        limit(fd, seconds);
        missing -= is_mine(fd) && send_all(fd, f);
        (void)close(fd); /* what was sent stays to be read */
    }
    return missing;
}

int sn_pass_files(struct sn_pass_socket *p, const struct sn_comm *c, struct sn_open_files *f,
                  int seconds)
{
    if (!is_first(c))
        return fetch(c, f, seconds) ? 0 : 1;
    int missing = p->fd >= 0 ? serve(p->fd, c, f, seconds) : c->node_size - 1;
    sn_open_files_close(f);
    return missing;
}

void sn_pass_close(struct sn_pass_socket *p)
{
    if (p->fd >= 0)
        (void)close(p->fd); /* nothing is left to send */
    p->fd = -1;
}
