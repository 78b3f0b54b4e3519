#include "slurm/scheduler/reach.h"

#include "lib/base/clock.h"
#include "slurm/scheduler/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { AT_ONCE = 256, DEFAULT_PORT = 6818 };

/* A connection begun: its descriptor; -1: refused or not reachable; -2: not tried. */
static int begin(const struct sn_reach *r)
{
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[16];
    (void)snprintf(port, sizeof(port), "%d", r->port);
    if (!r->address[0] || getaddrinfo(r->address, port, &hint, &found) != 0)
        return -2;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        freeaddrinfo(found);
        return -2;
    }
    int rc = connect(fd, found->ai_addr, found->ai_addrlen);
    int why = errno;
    freeaddrinfo(found);
    if (rc == 0 || why == EINPROGRESS)
        return fd;
    (void)close(fd);
    return -1;
}

static bool has_connected(int fd)
{
    int why = 0;
    socklen_t len = sizeof(why);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len) == 0 && why == 0;
}

static void try_some(struct sn_reach *r, int n, double until)
{
    struct pollfd fd[AT_ONCE];
    int open = 0;
    for (int i = 0; i < n; i++) {
        int s = begin(&r[i]);
        r[i].answers = s == -2;
        fd[i] = (struct pollfd){.fd = s < 0 ? -1 : s, .events = POLLOUT};
        open += s >= 0;
    }
    while (open > 0) {
        double left = until - sn_clock();
        int ready = left > 0 ? poll(fd, (nfds_t)n, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            break;
        for (int i = 0; i < n; i++) {
            if (fd[i].fd < 0 || !fd[i].revents)
                continue;
            r[i].answers = has_connected(fd[i].fd);
            (void)close(fd[i].fd);
            fd[i].fd = -1;
            open--;
        }
    }
    for (int i = 0; i < n; i++)
        if (fd[i].fd >= 0)
            (void)close(fd[i].fd);
}

void sn_reach_try(struct sn_reach *r, int n, double seconds)
{
    for (int at = 0; at < n; at += AT_ONCE)
        try_some(r + at, n - at < AT_ONCE ? n - at : AT_ONCE, sn_clock() + seconds);
}

static int number_of(const char *text, const char *name, int otherwise)
{
    char value[32];
    long n = sn_slurm_value(value, sizeof(value), text, name) ? strtol(value, NULL, 10) : 0;
    return n > 0 && n < 65536 ? (int)n : otherwise; /* a range of ports begins with its first */
}

static int find_host(const struct sn_hostlist *host, const char *name)
{
    for (int i = 0; i < host->n; i++)
        if (strcmp(sn_hostlist_name(host, i), name) == 0)
            return i;
    return -1;
}

int sn_reach_parse(struct sn_reach *out, const struct sn_hostlist *host, const char *nodes,
                   const char *config)
{
    int port = number_of(config, "SlurmdPort", DEFAULT_PORT), found = 0;
    memset(out, 0, (size_t)host->n * sizeof(*out));
    for (const char *line = nodes; line && *line; line = strchr(line, '\n')) {
        char name[SN_HOST_NAME], one[4096];
        line += *line == '\n';
        (void)snprintf(one, sizeof(one), "%.*s", (int)strcspn(line, "\n"), line);
        (void)sn_slurm_value(name, sizeof(name), one, "NodeName");
        int i = find_host(host, name);
        if (i < 0)
            continue;
        (void)sn_slurm_value(out[i].address, sizeof(out[i].address), one, "NodeAddr");
        out[i].port = number_of(one, "Port", port);
        found += out[i].address[0] != '\0';
    }
    return found;
}
