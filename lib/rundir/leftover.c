#include "lib/rundir/leftover.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT = 1 << 17 }; /* bytes of a command line or an environment that are read */

/* A file of /proc/PID, of words that end with NUL; 0: it cannot be read. */
static size_t read_words(char *out, size_t room, const char *pid, const char *name)
{
    char path[320];
    size_t len = 0;
    (void)snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 1; fd >= 0 && n > 0 && len<room - 1; len += n> 0 ? (size_t)n : 0)
        n = read(fd, out + len, room - 1 - len);
    if (fd >= 0)
        (void)close(fd);
    out[len] = '\0';
    return len;
}

/* The word after `text`; NULL: there is none. */
static const char *next_word(const char *text, const char *end)
{
    text += strlen(text) + 1;
    return text < end ? text : NULL;
}

/* The number behind --attempt; 0: none. */
static long attempt_of(const char *words, size_t len)
{
    const char *end = words + len;
    for (const char *w = words; w && w < end; w = next_word(w, end)) {
        const char *value = strcmp(w, "--attempt") == 0 ? next_word(w, end) : NULL;
        if (value)
            return strtol(value, NULL, 10);
    }
    return 0;
}

static bool has_setting(const char *words, size_t len, const char *name, const char *value)
{
    size_t n = strlen(name);
    const char *end = words + len;
    for (const char *w = words; w && w < end; w = next_word(w, end))
        if (strncmp(w, name, n) == 0 && w[n] == '=')
            return strcmp(w + n + 1, value) == 0;
    return false;
}

static bool runs_this_program(const char *pid)
{
    char path[64];
    struct stat self, other;
    (void)snprintf(path, sizeof(path), "/proc/%.20s/exe", pid);
    return stat("/proc/self/exe", &self) == 0 && stat(path, &other) == 0 &&
           self.st_dev == other.st_dev && self.st_ino == other.st_ino;
}

static bool is_leftover(const char *pid, int attempt, const char *job, char *text)
{
    if (pid[0] < '0' || pid[0] > '9' || strtol(pid, NULL, 10) == getpid() ||
        !runs_this_program(pid)) /* another user's cannot be looked into */
        return false;
    long other = attempt_of(text, read_words(text, TEXT, pid, "cmdline"));
    return other > 0 && other < attempt &&
           has_setting(text, read_words(text, TEXT, pid, "environ"), "SLURM_JOB_ID", job);
}

/* How many there are; each gets the signal, 0: none. */
static int signal_all(int attempt, const char *job, int sig)
{
    char *text = sn_alloc(TEXT);
    DIR *d = text ? opendir("/proc") : NULL;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!is_leftover(e->d_name, attempt, job, text))
            continue;
        n++;
        if (sig)
            (void)kill((pid_t)strtol(e->d_name, NULL, 10), sig); /* it may have ended by itself */
    }
    if (d)
        (void)closedir(d);
    sn_free(text);
    return n;
}

static int wait_for_all(int attempt, const char *job, double seconds)
{
    struct timespec moment = {.tv_nsec = 50000000};
    double until = sn_clock() + seconds;
    int n;
    while ((n = signal_all(attempt, job, 0)) > 0 && sn_clock() < until)
        (void)nanosleep(&moment, NULL); /* a shorter one is made up by the next */
    return n;
}

int sn_leftover_end(int attempt, double seconds, int *left)
{
    const char *job = getenv("SLURM_JOB_ID");
    int n = job && attempt > 0 ? signal_all(attempt, job, 0) : 0;
    *left = n;
    if (n == 0 || (*left = wait_for_all(attempt, job, seconds)) == 0)
        return n;
    (void)signal_all(attempt, job, SIGKILL);
    *left = wait_for_all(attempt, job, seconds);
    return n;
}
