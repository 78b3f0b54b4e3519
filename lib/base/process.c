#include "lib/base/process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* proc(5): the letter behind the name, which is in parentheses and may hold any character. NUL: no
 * /proc, or no such process. */
static char state_of(int64_t pid)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return '\0';
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f); /* only read */
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : '\0';
}

static bool is_there(pid_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

bool sn_process_is_alive(int64_t pid)
{
    if (pid <= 0 || pid > INT32_MAX || !is_there((pid_t)pid))
        return false;
    char state = state_of(pid);
    if (state == '\0') /* no /proc; or it went between the two questions */
        return is_there((pid_t)pid);
    return state != 'Z' && state != 'X';
}

bool sn_process_is_stopped(int64_t pid)
{
    char state = pid > 0 ? state_of(pid) : '\0';
    return state == 'T' || state == 't';
}

double sn_process_waited(void)
{
    DIR *d = opendir("/proc/self/task");
    unsigned long long total = 0, ran, waited;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300];
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = *e->d_name == '.' ? NULL : fopen(path, "re");
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2)
            total += waited;
        if (f)
            (void)fclose(f); /* only read */
    }
    if (d)
        (void)closedir(d);
    return 1e-9 * (double)total;
}
