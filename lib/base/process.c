#include "lib/base/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* proc(5): the letter behind the name, which is in parentheses and may hold any character. */
static bool has_ended(int64_t pid)
{
    char path[48], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false; /* no /proc, or not ours to see: it exists, more is not known */
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f); /* only read */
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

bool sn_process_is_alive(int64_t pid)
{
    if (pid <= 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno != EPERM))
        return false;
    return !has_ended(pid);
}
