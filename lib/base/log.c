#include "lib/base/log.h"

#include "lib/base/plain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int log_level = -1; /* -1: not read from the environment yet */

static int level_from_environment(void)
{
    static const char *const name[] = {"error", "warn", "info", "debug"};
    const char *want = getenv("SN_LOG");
    for (int i = 0; want && i < 4; i++)
        if (strcmp(want, name[i]) == 0)
            return i;
    return SN_LOG_INFO;
}

void sn_log_set_level(enum sn_log_level level)
{
    log_level = (int)level;
}

void sn_log(enum sn_log_level level, const char *fmt, ...)
{
    if (log_level < 0)
        log_level = level_from_environment();
    if ((int)level > log_level)
        return;
    char said[1024], line[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(said, sizeof(said), fmt, ap);
    va_end(ap);
    sn_plain(line, sizeof(line), said);
    (void)fprintf(stderr, "%s\n", line); /* one call, so that ranks do not mix inside a line */
}

void sn_log_lines(enum sn_log_level level, const char *text)
{
    for (const char *at = text; at && *at;) {
        int n = (int)strcspn(at, "\n");
        if (n)
            sn_log(level, "%.*s", n, at);
        at += n + (at[n] == '\n');
    }
}
