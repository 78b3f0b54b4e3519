#include "slurm/supervisor/host_platform.h"

#include "lib/base/clock.h"
#include "slurm/supervisor/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- time and signals ------------------------------------------------------------------------ */

static double now(void *self)
{
    (void)self;
    return sn_clock();
}

static double date(void *self)
{
    (void)self;
    return sn_clock_date();
}

static unsigned read_signals(struct sn_host_platform *r)
{
    struct signalfd_siginfo info;
    unsigned asked = 0;
    while (read(r->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
        case SIGHUP:
            asked |= SN_ASKED_TERM;
            break;
        case SIGUSR1:
            asked |= SN_ASKED_USR1;
            break;
        case SIGUSR2:
            asked |= SN_ASKED_USR2;
            break;
        case SIGINT:
            asked |= r->interrupted ? SN_ASKED_INT_AGAIN : SN_ASKED_INT;
            r->interrupted = true;
            break;
        default: /* SIGCHLD: the loop looks at the child anyway */
            break;
        }
    }
    return asked;
}

static unsigned wait_for(void *self, double seconds)
{
    struct sn_host_platform *r = self;
    struct pollfd fd[2] = {{.fd = r->signals, .events = POLLIN},
                           {.fd = r->child.err, .events = POLLIN}};
    (void)poll(fd, 2, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
    return read_signals(r); /* a signal that interrupts it is in the descriptor */
}

/* ---- the launcher ---------------------------------------------------------------------------- */

static enum sn_launcher ask_mpirun(void *self)
{
    (void)self;
    return sn_launcher_ask_mpirun();
}

static enum sn_status start(void *self, const struct sn_child_want *want, struct sn_err *err)
{
    struct sn_host_platform *r = self;
    return sn_child_start(&r->child, want, err);
}

static size_t read_words(void *self, char *bytes, size_t room)
{
    struct sn_host_platform *r = self;
    size_t n = sn_child_read(&r->child, bytes, room);
    ssize_t shown = n > 0 ? write(STDERR_FILENO, bytes, n) : 0;
    (void)shown; /* where nobody listens, the supervisor still has it */
    return n;
}

static bool has_ended(void *self, int *code)
{
    struct sn_host_platform *r = self;
    return sn_child_ended(&r->child, code);
}

static void send_signal(void *self, int sig)
{
    struct sn_host_platform *r = self;
    sn_child_signal(&r->child, sig);
}

static void kill_child(void *self)
{
    struct sn_host_platform *r = self;
    sn_child_kill(&r->child);
}

static void kill_rank(void *self, const struct sn_flight_view *v)
{
    char path[64], command[256];
    (void)self;
    if (!v->is_alive)
        return;
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", v->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, command, sizeof(command) - 1) : 0;
    if (fd >= 0)
        (void)close(fd);
    command[n > 0 ? n : 0] = '\0';
    if (strstr(command, "sennit-train")) /* the number is not another program's by now */
        (void)kill(v->pid, SIGKILL);
}

static void close_child(void *self)
{
    struct sn_host_platform *r = self;
    sn_child_close(&r->child);
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool read_record(void *self, struct sn_flight_view *out, const char *folder, int rank,
                        int64_t since)
{
    char path[SN_PATH_MAX + 64];
    struct stat id;
    (void)self;
    (void)snprintf(path, sizeof(path), "%s/rank-%05d.ring", folder, rank);
    return stat(path, &id) == 0 && id.st_mtime + 1 >= since &&
           sn_flight_read(out, folder, rank, NULL) == SN_OK;
}

static int64_t free_bytes(void *self, const char *path)
{
    struct statvfs v;
    (void)self;
    return statvfs(path, &v) == 0 ? (int64_t)v.f_bavail * (int64_t)v.f_frsize : -1;
}

/* ---- the scheduler --------------------------------------------------------------------------- */

static void ask_job(void *self, struct sn_job_facts *out, const char *job, bool shortly)
{
    (void)self;
    if (shortly)
        sn_ask_job_shortly(out, job);
    else
        sn_ask_job(out, job);
}

static bool ask_chained(void *self, const char *job, const char *name)
{
    (void)self;
    return sn_ask_chained(job, name);
}

static bool ask_nodes(void *self, enum sn_node_health *health, const struct sn_hostlist *host,
                      const char *job, double seconds, struct sn_str *text)
{
    (void)self;
    return sn_ask_nodes(health, host, job, seconds, text);
}

static bool ask_config(void *self, struct sn_str *out)
{
    (void)self;
    return sn_ask_config(out);
}

static void reach(void *self, struct sn_reach *r, int n, double seconds)
{
    (void)self;
    sn_reach_try(r, n, seconds);
}

static int ask_steps(void *self, const char *job)
{
    (void)self;
    return sn_ask_steps(job);
}

static enum sn_status ask_requeue(void *self, const char *job, struct sn_err *err)
{
    (void)self;
    return sn_ask_requeue(job, err);
}

static int ask_version(void *self)
{
    (void)self;
    return sn_ask_version();
}

static enum sn_status ask_preemption(void *self, struct sn_preemption *out, const char *partition,
                                     struct sn_err *err)
{
    (void)self;
    return sn_preemption_ask(out, partition, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const struct sn_platform_clock clock_of_host = {.now = now, .date = date, .wait = wait_for};
static const struct sn_platform_launcher child = {.mpirun = ask_mpirun,
                                                  .start = start,
                                                  .read = read_words,
                                                  .ended = has_ended,
                                                  .signal = send_signal,
                                                  .kill = kill_child,
                                                  .kill_rank = kill_rank,
                                                  .close = close_child};
static const struct sn_platform_files files = {.record = read_record, .room = free_bytes};
static const struct sn_platform_scheduler scheduler = {.job = ask_job,
                                                       .chained = ask_chained,
                                                       .nodes = ask_nodes,
                                                       .config = ask_config,
                                                       .reach = reach,
                                                       .steps = ask_steps,
                                                       .requeue = ask_requeue,
                                                       .version = ask_version,
                                                       .preemption = ask_preemption};

enum sn_status sn_host_platform_open(struct sn_host_platform *out, struct sn_err *err)
{
    static const int asks[] = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP, SIGCHLD};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
        (void)sigaddset(&set, asks[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* cannot fail on these */
    *out = (struct sn_host_platform){.platform = {.self = out,
                                                  .clock = &clock_of_host,
                                                  .launcher = &child,
                                                  .files = &files,
                                                  .scheduler = &scheduler},
                                     .signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
                                     .child = {.err = -1}};
    return out->signals >= 0
               ? SN_OK
               : sn_fail(err, SN_EIO, "signals: cannot be listened to: %s", strerror(errno));
}

void sn_host_platform_close(struct sn_host_platform *r)
{
    if (r->signals >= 0)
        (void)close(r->signals);
    r->signals = -1;
}
