/*
 * test_runlock.c - one supervisor at a time: who holds a run directory, on this machine and
 * elsewhere.
 */
#include "lib/base/clock.h"
#include "lib/rundir/runlock.h"
#include "tests/lib/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the table -------------------------------------------------------------------------------- */

static void verdicts(void)
{
    enum { T = SN_RUNLOCK_TAKEN, R = SN_RUNLOCK_REFUSED, N = SN_RUNLOCK_NONE };
    enum { FREE = SN_RUNLOCK_FREE, HELD = SN_RUNLOCK_HELD, UNSURE = SN_RUNLOCK_UNSURE };
    static const struct sn_runlock_record mine = {
        .boot = "b", .spaces = "s", .job = "41", .restart = 2};
    static const struct {
        const char *what, *boot, *spaces, *job; /* boot NULL: no record */
        int restart, grip, lives, want;
    } row[] = {
        {"nobody", NULL, "", "", 0, T, 0, FREE},
        {"nobody, without locks", NULL, "", "", 0, N, 0, FREE},
        {"a lock that is held", NULL, "", "", 0, R, 0, HELD},
        {"by somebody elsewhere", "x", "s", "7", 0, R, 0, HELD},
        {"before this job was requeued, but held", "x", "s", "41", 1, R, 0, HELD},
        {"one that died here", "b", "s", "7", 0, T, 0, FREE},
        {"in another container here", "b", "t", "7", 0, T, 0, FREE},
        {"one that lives beside, without locks", "b", "s", "7", 0, N, 1, HELD},
        {"one that died beside, without locks", "b", "s", "7", 0, N, 0, FREE},
        {"another container, without locks", "b", "t", "7", 0, N, 1, UNSURE},
        {"elsewhere, and the lock may be local", "x", "s", "7", 0, T, 1, UNSURE},
        {"elsewhere, without locks", "x", "s", "7", 0, N, 0, UNSURE},
        {"elsewhere, before this job was requeued", "x", "s", "41", 1, T, 0, FREE},
        {"elsewhere in this job", "x", "s", "41", 2, T, 0, UNSURE},
        {"of no known boot", "", "s", "7", 0, T, 0, UNSURE},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct sn_runlock_record other = {.pid = 1, .restart = row[i].restart};
        if (row[i].boot) {
            (void)snprintf(other.boot, sizeof(other.boot), "%s", row[i].boot);
            (void)snprintf(other.spaces, sizeof(other.spaces), "%s", row[i].spaces);
            (void)snprintf(other.job, sizeof(other.job), "%s", row[i].job);
        }
        int got = (int)sn_runlock_judge(&mine, row[i].boot ? &other : NULL,
                                        (enum sn_runlock_grip)row[i].grip, row[i].lives);
        tap_ok(got == row[i].want, "%s: %d", row[i].what, got);
    }
}

/* --- processes -------------------------------------------------------------------------------- */

/* A process that takes the directory and stays; 0 if it could not. */
static pid_t holder(const struct sn_runlock_want *w)
{
    int ready[2];
    char c = 'n';
    if (pipe(ready) != 0)
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        struct sn_runlock l;
        c = sn_runlock_take(&l, w, NULL) == SN_OK ? 'y' : 'n';
        if (write(ready[1], &c, 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    if (read(ready[0], &c, 1) != 1)
        c = 'n';
    (void)close(ready[0]);
    (void)close(ready[1]);
    return c == 'y' ? pid : 0;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void one_at_a_time(const char *dir, bool lacks_locks)
{
    struct sn_runlock_want w = {.output = dir, .job = "41", .lacks_locks = lacks_locks};
    const char *how = lacks_locks ? "without locks" : "locked";
    struct sn_runlock l;
    struct sn_err err = {0};
    char who[64], host[64] = "";
    pid_t pid = holder(&w);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(who, sizeof(who), "process %d on %.30s, job 41;", (int)pid, host);
    tap_ok(pid > 0, "%s: a process has it", how);
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_EINPUT && strstr(err.text, who), "%s: %s", how,
           err.text);
    end(pid);
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_OK, "%s: once it is killed another has it", how);
    tap_ok(l.fd >= 0 && l.mine.pid == getpid(), "%s: with its own record", how);
    sn_runlock_release(&l);
    sn_runlock_release(&l);
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_OK, "%s: and gives it back", how);
    sn_runlock_release(&l);
}

/* The supervisor's trainer works under its lock; nobody else's does. */
static void a_supervisor_has_it_for_its_trainer(const char *dir)
{
    struct sn_runlock_want w = {.output = dir, .job = ""};
    struct sn_runlock l, trainers;
    struct sn_err err = {0};
    char name[SN_RUNLOCK_NAME], none[SN_RUNLOCK_NAME];
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_OK && sn_runlock_name(name, &l)[0], "%s has it",
           name);
    struct sn_runlock_want mine = {
        .program = "sennit-train", .supervisor = name, .output = dir, .job = ""};
    tap_ok(sn_runlock_take(&trainers, &mine, &err) == SN_OK && trainers.fd < 0 &&
               !sn_runlock_name(none, &trainers)[0],
           "its trainer need not take it");
    sn_runlock_heartbeat(&trainers);
    sn_runlock_release(&trainers);
    mine.supervisor = "elsewhere:1:2";
    tap_ok(sn_runlock_take(&trainers, &mine, &err) == SN_EINPUT &&
               strstr(err.text, "another sennit-run exec works on this run: process "),
           "another one's trainer may not: %s", err.text);
    sn_runlock_release(&l);
    tap_ok(sn_runlock_take(&trainers, &mine, &err) == SN_OK && trainers.fd >= 0,
           "unless its supervisor is gone: then it is its own");
    mine.supervisor = NULL;
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_EINPUT &&
               strstr(err.text, "another sennit-train works on this run: process "),
           "and a supervisor is told of a trainer: %s", err.text);
    sn_runlock_release(&trainers);
}

/* --- elsewhere -------------------------------------------------------------------------------- */

static void put(const char *dir, int heartbeat)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/supervisor.lock", dir);
    FILE *f = fopen(path, "r+");
    f = f ? f : fopen(path, "w");
    if (!f ||
        fprintf(f,
                "{\"host\": \"far\", \"pid\": 7, \"started\": 5, \"boot\": \"x\", \"spaces\": "
                "\"s\", \"job\": \"\", \"restart\": 0, \"beat\": \"%012d\"}\n",
                heartbeat) < 0 ||
        fclose(f) != 0)
        abort();
}

static void who_beats_elsewhere_lives(const char *dir)
{
    struct sn_runlock_want w = {.output = dir, .job = "", .watch = 1};
    struct sn_runlock l;
    struct sn_err err = {0};
    put(dir, 1);
    double begun = sn_clock();
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_OK && sn_clock() - begun >= 1,
           "one elsewhere that does not heartbeat is dead, after a while");
    sn_runlock_release(&l);
    put(dir, 1);
    pid_t pid = fork();
    if (pid == 0)
        for (int heartbeat = 2;; heartbeat++) {
            (void)usleep(50000);
            put(dir, heartbeat);
        }
    w.watch = 30;
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_EINPUT && strstr(err.text, "process 7 on far;"),
           "one that heartbeats is not: %s", err.text);
    end(pid);
}

static bool yes(void *self)
{
    (void)self;
    return true;
}

static void who_is_asked_does_not_watch(const char *dir)
{
    struct sn_runlock_want w = {.output = dir, .job = "", .is_asked = yes};
    struct sn_runlock l;
    struct sn_err err = {0};
    put(dir, 1);
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_EFAIL && strstr(err.text, "asked to leave"), "%s",
           err.text);
}

static void a_holder_beats(const char *dir)
{
    struct sn_runlock_want w = {.output = dir, .job = ""};
    struct sn_runlock l;
    struct sn_err err = {0};
    char path[128], text[512] = "";
    (void)snprintf(path, sizeof(path), "%s/supervisor.lock", dir);
    (void)unlink(path);
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_OK, "taken");
    sn_runlock_heartbeat(&l);
    tap_ok(l.mine.heartbeat == 0, "no heartbeat before its time");
    l.next_heartbeat = 0;
    sn_runlock_heartbeat(&l);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        (void)fclose(f);
    text[n] = '\0';
    tap_ok(strstr(text, "\"beat\": \"000000000001\"}\n") != NULL, "one at it: %s", text);
    sn_runlock_release(&l);
    w.output = "/nowhere/at/all";
    tap_ok(sn_runlock_take(&l, &w, &err) == SN_EIO && strstr(err.text, "cannot be opened"), "%s",
           err.text);
}

int main(void)
{
    char dir[] = "/tmp/sn-runlock-XXXXXX", command[64];
    if (!mkdtemp(dir))
        return 1;
    verdicts();
    one_at_a_time(dir, false);
    one_at_a_time(dir, true);
    a_supervisor_has_it_for_its_trainer(dir);
    who_beats_elsewhere_lives(dir);
    who_is_asked_does_not_watch(dir);
    a_holder_beats(dir);
    (void)snprintf(command, sizeof(command), "rm -r %s", dir);
    if (system(command) != 0)
        return 1;
    return tap_done();
}
