#include "slurm/scheduler/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void reset_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL); /* a shell starts background jobs with it ignored */
}

/* In the child: nothing here may come back. What fails is told through `report`. It keeps the end
 * of its words that the supervisor reads, too: a launcher that outlives that one and then says
 * something would be ended by it (Hydra), before the ranks have saved. */
static void become(const struct sn_child_want *want, const int words[2], int report, pid_t parent)
{
    int null = open("/dev/null", O_RDONLY), err = words[1];
    (void)fcntl(words[0], F_SETFD, 0);
    (void)setpgid(0, 0);
    reset_signals();
    if (prctl(PR_SET_PDEATHSIG, want->orphaned) != 0 || getppid() != parent)
        _exit(127); /* the supervisor is gone already */
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
        (!want->joined || dup2(err, STDOUT_FILENO) >= 0))
        (void)execvpe(want->argv[0], want->argv, want->environment);
    int why = errno;
    ssize_t told = write(report, &why, sizeof(why));
    _exit(told == sizeof(why) ? 127 : 126);
}

/* What the child said before it could begin: 0 when it has begun. */
static int read_report(int report)
{
    int why = 0;
    ssize_t n;
    do
        n = read(report, &why, sizeof(why));
    while (n < 0 && errno == EINTR);
    return n == sizeof(why) ? why : 0;
}

enum sn_status sn_child_start(struct sn_child *out, const struct sn_child_want *want,
                              struct sn_err *err)
{
    const char *program = want->argv[0];
    int words[2], report[2];
    if (pipe2(words, O_CLOEXEC) != 0)
        return sn_fail(err, SN_EIO, "%s: no pipe for it: %s", program, strerror(errno));
    if (pipe2(report, O_CLOEXEC) != 0) {
        (void)close(words[0]);
        (void)close(words[1]);
        return sn_fail(err, SN_EIO, "%s: no pipe for it: %s", program, strerror(errno));
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(want, words, report[1], parent);
    int why = pid < 0 ? errno : 0;
    (void)close(words[1]);
    (void)close(report[1]);
    if (pid > 0)
        why = read_report(report[0]);
    (void)close(report[0]);
    if (why == 0) {
        (void)fcntl(words[0], F_SETFL, O_NONBLOCK);
        *out = (struct sn_child){.pid = pid, .err = words[0]};
        return SN_OK;
    }
    (void)close(words[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    return sn_fail(err, SN_EFAIL, "%s: cannot be started: %s; name another launcher or set PATH",
                   program, strerror(why));
}

size_t sn_child_read(struct sn_child *c, char *bytes, size_t room)
{
    if (c->err < 0)
        return 0;
    ssize_t n = read(c->err, bytes, room);
    if (n == 0) { /* nobody will write any more */
        (void)close(c->err);
        c->err = -1;
    }
    return n > 0 ? (size_t)n : 0;
}

void sn_child_signal(const struct sn_child *c, int sig)
{
    if (c->pid > 0)
        (void)kill(c->pid, sig); /* it may have ended by itself */
}

void sn_child_kill(const struct sn_child *c)
{
    if (c->pid > 0 && kill(-c->pid, SIGKILL) != 0)
        (void)kill(c->pid, SIGKILL); /* its group is not there yet */
}

bool sn_child_ended(struct sn_child *c, int *code)
{
    int status;
    if (c->pid <= 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    c->pid = 0;
    return true;
}

void sn_child_close(struct sn_child *c)
{
    if (c->pid > 0) {
        sn_child_kill(c);
        (void)waitpid(c->pid, NULL, 0);
        c->pid = 0;
    }
    if (c->err >= 0)
        (void)close(c->err);
    c->err = -1;
}
