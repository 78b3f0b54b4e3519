/*
 * test_host_platform.c - what a supervisor asks of the world, as a process answers it: signals that
 * are raised, a child that speaks and ends, records and their age.
 */
#include "slurm/supervisor/host_platform.h"
#include "slurm/supervisor/supervise.h"
#include "tests/lib/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void signals_say_who_asks(const struct sn_platform *p)
{
    static const struct {
        int signal;
        unsigned asked;
        const char *what;
    } row[] = {
        {SIGTERM, SN_ASKED_TERM, "SIGTERM"},       {SIGHUP, SN_ASKED_TERM, "SIGHUP, as SIGTERM"},
        {SIGUSR1, SN_ASKED_USR1, "SIGUSR1"},       {SIGUSR2, SN_ASKED_USR2, "SIGUSR2"},
        {SIGINT, SN_ASKED_INT, "SIGINT"},          {SIGINT, SN_ASKED_INT_AGAIN, "SIGINT again"},
        {SIGINT, SN_ASKED_INT_AGAIN, "and again"}, {SIGCHLD, 0, "a child's end asks nothing"}};
    tap_ok(sn_platform_wait(p, 0) == 0, "nobody asks");
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        double before = sn_platform_now(p);
        (void)raise(row[i].signal);
        tap_ok(sn_platform_wait(p, 60) == row[i].asked, "%s", row[i].what);
        tap_ok(sn_platform_now(p) - before < 30, "which wakes who waits");
    }
    (void)raise(SIGTERM);
    (void)raise(SIGUSR1);
    tap_ok(sn_platform_wait(p, 0) == (SN_ASKED_TERM | SN_ASKED_USR1), "two at once");
    tap_ok(sn_platform_wait(p, 0.01) == 0, "each is told once");
    tap_ok(sn_platform_date(p) > 1.6e9, "the date is of these years");
}

/* Waits until it has ended; false after half a minute. */
static bool ends(const struct sn_platform *p, int *code, char *words, size_t room)
{
    double until = sn_platform_now(p) + 30;
    size_t n = 0;
    bool ended = false;
    while (!ended && sn_platform_now(p) < until) {
        (void)sn_platform_wait(p, 1);
        ended = p->launcher->ended(p->self, code);
        n += p->launcher->read(p->self, words + n, room - 1 - n);
    }
    words[n] = '\0';
    return ended;
}

static bool start(const struct sn_platform *p, const char *script)
{
    char *argv[] = {"sh", "-c", (char *)script, NULL},
         *environment[] = {"PATH=/usr/bin:/bin", NULL};
    const struct sn_child_want want = {
        .argv = argv, .environment = environment, .orphaned = SIGTERM};
    return p->launcher->start(p->self, &want, NULL) == SN_OK;
}

static void a_child_speaks_and_ends(const struct sn_platform *p)
{
    char words[256];
    int code = -1;
    tap_ok(start(p, "echo words >&2; exit 7"), "a child begins");
    tap_ok(ends(p, &code, words, sizeof(words)) && code == 7, "and ends with its code");
    tap_text(words, "words\n", "its words are read");
    p->launcher->close(p->self);
    tap_ok(start(p, "trap 'exit 75' USR2; echo ready >&2; while :; do sleep 0.05; done"),
           "one that waits begins");
    double until = sn_platform_now(p) + 30;
    while (p->launcher->read(p->self, words, sizeof(words)) == 0 && sn_platform_now(p) < until)
        (void)sn_platform_wait(p, 1);
    p->launcher->signal(p->self, SIGUSR2);
    tap_ok(ends(p, &code, words, sizeof(words)) && code == 75, "a signal reaches it");
    p->launcher->close(p->self);
    tap_ok(start(p, "trap '' TERM; sleep 600"), "one that does not hear begins");
    p->launcher->kill(p->self);
    tap_ok(ends(p, &code, words, sizeof(words)) && code == 137, "and is killed");
    p->launcher->close(p->self);
}

static void a_record_counts_from_its_attempt_on(const struct sn_platform *p, const char *dir)
{
    char folder[128], path[192];
    struct sn_flight_recorder *recorder = NULL;
    struct sn_flight_view v;
    int64_t now = (int64_t)time(NULL);
    (void)snprintf(folder, sizeof(folder), "%s/ranks", dir);
    tap_ok(!p->files->record(p->self, &v, folder, 0, 0), "no record is none");
    if (!tap_ok(sn_flight_open(&recorder, dir, 0, NULL) == SN_OK, "a rank keeps a record"))
        return;
    tap_ok(p->files->record(p->self, &v, folder, 0, now - 5) && v.pid == getpid(),
           "one of this attempt is read");
    sn_flight_close(recorder);
    (void)snprintf(path, sizeof(path), "%s/rank-00000.ring", folder);
    struct timespec old[2] = {{.tv_sec = now - 100}, {.tv_sec = now - 100}};
    (void)utimensat(AT_FDCWD, path, old, 0);
    tap_ok(!p->files->record(p->self, &v, folder, 0, now - 5), "one of an attempt before is not");
    tap_ok(p->files->record(p->self, &v, folder, 0, 0), "unless any will do");
    (void)unlink(path);
    (void)rmdir(folder);
    tap_ok(p->files->room(p->self, dir) > 0, "there is room on the disk");
    tap_ok(p->files->room(p->self, "/no/such/place") == -1, "and none is known where nothing is");
}

/* A number may be another program's by now. */
static void only_ranks_are_killed(const struct sn_platform *p)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    struct sn_flight_view v = {.pid = pid, .is_alive = true};
    p->launcher->kill_rank(p->self, &v);
    int status = 0;
    tap_ok(waitpid(pid, &status, WNOHANG) == 0, "who is no trainer is left alone");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
}

int main(void)
{
    struct sn_host_platform host;
    struct sn_err err = {0};
    char dir[] = "/tmp/sn-platform-XXXXXX";
    if (!mkdtemp(dir) || !tap_ok(sn_host_platform_open(&host, &err) == SN_OK,
                                 "signals are listened to %s", err.text))
        return 1;
    signals_say_who_asks(&host.platform);
    a_child_speaks_and_ends(&host.platform);
    a_record_counts_from_its_attempt_on(&host.platform, dir);
    only_ranks_are_killed(&host.platform);
    sn_host_platform_close(&host);
    (void)rmdir(dir);
    return tap_done();
}
