/*
 * test_leftover.c - what an earlier attempt left on this host is ended, and nothing else.
 *
 * The program starts itself as what a trainer would look like; such a child does nothing but sleep.
 */
#include "lib/rundir/leftover.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A trainer of an attempt in a job; when it is there it says so. */
static pid_t trainer(const char *attempt, const char *job)
{
    int ready[2];
    char c;
    if (pipe(ready) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)setenv("SLURM_JOB_ID", job, 1);
        (void)dup2(ready[1], 9);
        (void)execl("/proc/self/exe", "sennit-train", "run.yaml", "--attempt", attempt,
                    (char *)NULL);
        _exit(1);
    }
    (void)close(ready[1]);
    bool good = read(ready[0], &c, 1) == 1;
    (void)close(ready[0]);
    return good ? pid : -1;
}

static bool lives(pid_t pid)
{
    int status;
    return pid > 0 && waitpid(pid, &status, WNOHANG) == 0;
}

/* What was told to end may still be on its way, with nothing left by which it is known: 10 s. */
static bool is_ended(pid_t pid)
{
    for (int i = 0; i < 1000 && lives(pid); i++)
        (void)usleep(10000);
    return !lives(pid);
}

static void end(pid_t pid)
{
    int status;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[0], "sennit-train") == 0) {
        ssize_t n = write(9, "x", 1);
        return n == 1 ? (int)sleep(300) : 1;
    }
    int left = -1;
    (void)setenv("SLURM_JOB_ID", "41", 1);
    tap_ok(sn_leftover_end(3, 0.2, &left) == 0 && left == 0, "where nothing is left");
    pid_t old = trainer("2", "41"), same = trainer("3", "41"), other = trainer("2", "42");
    tap_ok(lives(old) && lives(same) && lives(other), "three trainers run");
    tap_ok(sn_leftover_end(3, 0.2, &left) == 1 && left == 0,
           "one of them is of an earlier attempt");
    tap_ok(is_ended(old), "which is ended");
    tap_ok(lives(same), "this attempt's is not");
    tap_ok(lives(other), "nor another job's");
    (void)unsetenv("SLURM_JOB_ID");
    tap_ok(sn_leftover_end(9, 0.2, &left) == 0 && lives(same), "outside of a job nobody is");
    end(same);
    end(other);
    return tap_done();
}
