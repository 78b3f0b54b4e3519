#include "lib/replay/losses.h"

#include "lib/config/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_ROOM = 8192
}; /* what is asked for stands at the begin of a line, whose rest may be longer */

/* The number behind a key; NaN: null. False: there is none. */
static bool number_of(const char *line, const char *key, double *out)
{
    const char *at = strstr(line, key);
    char *end;
    if (!at)
        return false;
    at += strlen(key);
    *out = strncmp(at, "null", 4) == 0 ? NAN : strtod(at, &end);
    return true;
}

static void take(struct sn_step_loss *out, const char *line)
{
    struct sn_step_loss s = {.is_there = true};
    if (number_of(line, ", \"loss\": ", &s.loss) &&
        number_of(line, ", \"grad_norm\": ", &s.grad_norm))
        *out = s; /* else it is that of an evaluation */
}

enum sn_status sn_replay_losses(struct sn_step_loss *out, const char *output, int64_t first,
                                int64_t last, struct sn_err *err)
{
    char path[SN_PATH_MAX + 32], line[LINE_ROOM];
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", output);
    memset(out, 0, (size_t)(last - first + 1) * sizeof(*out));
    FILE *f = fopen(path, "r");
    if (!f)
        return sn_fail(err, SN_EINPUT,
                       "%s: cannot be read (%s); --replay compares with what a run has left there",
                       path, strerror(errno));
    while (fgets(line, sizeof(line), f)) {
        long long step;
        if (sscanf(line, "{\"step\": %lld", &step) == 1 && step >= first && step <= last)
            take(&out[step - first], line);
    }
    (void)fclose(f); /* it was read */
    return SN_OK;
}

bool sn_replay_is_written(double x, double written)
{
    char text[40];
    if (!isfinite(x) || !isfinite(written))
        return !isfinite(x) && !isfinite(written);
    (void)snprintf(text, sizeof(text), "%.9g", x);
    return strtod(text, NULL) == written;
}
