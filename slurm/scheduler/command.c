#include "slurm/scheduler/command.h"

#include "lib/base/clock.h"
#include "lib/base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pipe may outlive the program, in a child of it that went to the background: so the program's
 * own end is looked for at this interval, too. */
enum { STREAMS = 2, SLICE_MS = 50 };

struct running {
    pid_t pid;
    int fd[STREAMS]; /* -1: at its end */
    bool exited;
    int status;
    double deadline;
    struct sn_command_result *r;
};

/* --- start ------------------------------------------------------------------------------------ */

struct pipes {
    int end[STREAMS][2];
};

static void close_pipes(struct pipes *p, int which)
{
    for (int i = 0; i < STREAMS; i++)
        if (p->end[i][which] >= 0)
            (void)close(p->end[i][which]); /* nothing was written by us */
}

static enum sn_status open_pipes(struct pipes *p, const char *name, struct sn_err *err)
{
    *p = (struct pipes){{{-1, -1}, {-1, -1}}};
    for (int i = 0; i < STREAMS; i++) {
        if (pipe2(p->end[i], O_CLOEXEC) == 0)
            continue;
        int cause = errno;
        close_pipes(p, 0);
        close_pipes(p, 1);
        return sn_fail(err, SN_EIO, "%s: no pipe to read its output from: %s", name,
                       strerror(cause));
    }
    return SN_OK;
}

/* A process group of its own, so that all of it can be killed; signals as a program finds them at
 * its start, whatever this process has blocked. */
static int set_attributes(posix_spawnattr_t *a)
{
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int code = posix_spawnattr_setflags(a, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF);
    code = code ? code : posix_spawnattr_setpgroup(a, 0);
    code = code ? code : posix_spawnattr_setsigmask(a, &none);
    return code ? code : posix_spawnattr_setsigdefault(a, &all);
}

static int set_files(posix_spawn_file_actions_t *f, int input, const struct pipes *p)
{
    int code = posix_spawn_file_actions_adddup2(f, input, 0);
    code = code ? code : posix_spawn_file_actions_adddup2(f, p->end[0][1], 1);
    return code ? code : posix_spawn_file_actions_adddup2(f, p->end[1][1], 2);
}

/* Returns errno's code, 0 for success. */
static int spawn(pid_t *pid, const struct sn_command *c, int input, const struct pipes *p)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&files);
    if (code)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code) {
        (void)posix_spawn_file_actions_destroy(&files); /* cannot fail */
        return code;
    }
    code = set_attributes(&attributes);
    code = code ? code : set_files(&files, input, p);
    if (!code)
        code = posix_spawnp(pid, c->argv[0], &files, &attributes, (char *const *)c->argv,
                            c->environment ? c->environment : environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    return code;
}

static enum sn_status start(struct running *w, const struct sn_command *c, struct sn_err *err)
{
    struct pipes p;
    const char *name = c->argv[0], *path = c->input ? c->input : "/dev/null";
    int input = c->input ? sn_input_open(path, NULL) : open(path, O_RDONLY | O_CLOEXEC);
    if (input < 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: cannot be opened for %s: %s; name a file that can be "
                       "read",
                       path, name, sn_input_why(errno));
    enum sn_status st = open_pipes(&p, name, err);
    if (st != SN_OK) {
        (void)close(input); /* only read */
        return st;
    }
    int code = spawn(&w->pid, c, input, &p);
    (void)close(input);
    close_pipes(&p, 1);
    if (code) {
        close_pipes(&p, 0);
        if (code == ENOENT || code == EACCES || code == ENOTDIR) {
            w->r->end = SN_COMMAND_ABSENT;
            w->r->code = 127;
            return SN_OK;
        }
        return sn_fail(err, SN_EIO, "%s: cannot be started: %s", name, strerror(code));
    }
    for (int i = 0; i < STREAMS; i++) {
        w->fd[i] = p.end[i][0];
        (void)fcntl(w->fd[i], F_SETFL, O_NONBLOCK); /* poll says when to read anyway */
    }
    return SN_OK;
}

/* --- read and wait ---------------------------------------------------------------------------- */

/* NULs of binary output become spaces: what is kept is text. */
static void keep(struct sn_command_result *r, struct sn_str *to, char *bytes, size_t n)
{
    size_t room = SN_COMMAND_MAX_OUTPUT - to->len;
    r->cut |= n > room;
    n = n < room ? n : room;
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(bytes[i] ? bytes[i] : ' ');
    sn_str_add(to, "%.*s", (int)n, bytes);
}

/* What there is now of one stream. */
static void drain(struct running *w, int i)
{
    char bytes[4096];
    while (w->fd[i] >= 0) {
        ssize_t n = read(w->fd[i], bytes, sizeof(bytes));
        if (n > 0) {
            keep(w->r, i == 0 ? &w->r->out : &w->r->err, bytes, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        (void)close(w->fd[i]);
        w->fd[i] = -1;
    }
}

static void look_for_end(struct running *w)
{
    pid_t got = w->exited ? 0 : waitpid(w->pid, &w->status, WNOHANG);
    if (got == w->pid)
        w->exited = true;
    else if (got < 0 && errno == ECHILD) { /* somebody else's handler took it */
        w->exited = true;
        w->status = 0;
    }
}

static void wait_and_read(struct running *w)
{
    while (!w->exited && sn_clock() < w->deadline) {
        struct pollfd p[STREAMS];
        for (int i = 0; i < STREAMS; i++)
            p[i] = (struct pollfd){.fd = w->fd[i], .events = POLLIN};
        int left = (int)((w->deadline - sn_clock()) * 1000) + 1;
        bool open = w->fd[0] >= 0 || w->fd[1] >= 0;
        int slice = open ? SLICE_MS : 2; /* both closed: it is about to leave */
        (void)poll(p, STREAMS, left < slice ? left : slice);
        /* First the end, then the streams: what it wrote before its end is there then. */
        look_for_end(w);
        drain(w, 0);
        drain(w, 1);
    }
}

static void finish(struct running *w)
{
    struct sn_command_result *r = w->r;
    if (!w->exited) {
        (void)kill(-w->pid, SIGKILL);
        (void)kill(w->pid, SIGKILL); /* should its group not be there yet */
        while (waitpid(w->pid, &w->status, 0) < 0 && errno == EINTR)
            ;
        drain(w, 0);
        drain(w, 1);
        r->end = SN_COMMAND_TIMEOUT;
        r->code = 128 + SIGKILL;
    } else if (WIFSIGNALED(w->status)) {
        r->end = SN_COMMAND_KILLED;
        r->code = 128 + WTERMSIG(w->status);
    } else {
        r->end = SN_COMMAND_EXITED;
        r->code = WEXITSTATUS(w->status);
    }
    for (int i = 0; i < STREAMS; i++)
        if (w->fd[i] >= 0)
            (void)close(w->fd[i]);
}

enum sn_status sn_command_run(struct sn_command_result *out, const struct sn_command *c,
                              struct sn_err *err)
{
    struct running w = {.fd = {-1, -1}, .deadline = sn_clock() + c->seconds, .r = out};
    *out = (struct sn_command_result){0};
    SN_TRY(start(&w, c, err));
    if (out->end == SN_COMMAND_ABSENT)
        return SN_OK;
    wait_and_read(&w);
    finish(&w);
    if (out->out.failed || out->err.failed)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for what it printed", c->argv[0]);
    return SN_OK;
}

void sn_command_fini(struct sn_command_result *r)
{
    sn_str_fini(&r->out);
    sn_str_fini(&r->err);
}

/* --- in words --------------------------------------------------------------------------------- */

bool sn_command_succeeded(const struct sn_command_result *r)
{
    return r->end == SN_COMMAND_EXITED && r->code == 0 && !r->cut;
}

/* The last line with something in it; *len 0: none. */
static const char *last_line(const struct sn_str *s, int *len)
{
    size_t end = s->len;
    while (end && (s->p[end - 1] == '\n' || s->p[end - 1] == ' '))
        end--;
    size_t begin = end;
    while (begin && s->p[begin - 1] != '\n')
        begin--;
    *len = (int)(end - begin);
    return s->p ? s->p + begin : "";
}

const char *sn_command_why(char buf[SN_COMMAND_WHY], const struct sn_command *c,
                           const struct sn_command_result *r)
{
    const char *name = strrchr(c->argv[0], '/');
    int len;
    const char *line = last_line(&r->err, &len);
    name = name ? name + 1 : c->argv[0];
    if (r->end == SN_COMMAND_ABSENT)
        (void)snprintf(buf, SN_COMMAND_WHY, "%s is not on PATH", name);
    else if (r->end == SN_COMMAND_TIMEOUT)
        (void)snprintf(buf, SN_COMMAND_WHY, "%s did not answer in %g s", name, c->seconds);
    else if (len)
        (void)snprintf(buf, SN_COMMAND_WHY, "%.*s", len, line);
    else if (r->end == SN_COMMAND_KILLED)
        (void)snprintf(buf, SN_COMMAND_WHY, "%s was killed by signal %d", name, r->code - 128);
    else if (r->cut)
        (void)snprintf(buf, SN_COMMAND_WHY, "%s printed more than %d MiB", name,
                       SN_COMMAND_MAX_OUTPUT >> 20);
    else
        (void)snprintf(buf, SN_COMMAND_WHY, "%s left with exit code %d", name, r->code);
    return buf;
}

enum sn_status sn_command_ask(struct sn_str *out, char why[SN_COMMAND_WHY], const char *const *argv,
                              double seconds, struct sn_err *err)
{
    struct sn_command c = {.argv = argv, .seconds = seconds};
    struct sn_command_result r = {0};
    *out = (struct sn_str){0};
    why[0] = '\0';
    enum sn_status st = sn_command_run(&r, &c, err);
    if (st == SN_OK && sn_command_succeeded(&r)) {
        *out = r.out;
        r.out = (struct sn_str){0};
    } else if (st == SN_OK) {
        (void)sn_command_why(why, &c, &r);
    }
    sn_command_fini(&r);
    return st;
}
