/*
 * history_health.c - what devices said of themselves in an attempt, and what departed from the plan:
 * what may have slowed or ended it.
 */
#include "slurm/history/history.h"

#include "lib/base/jsonl.h"
#include "lib/base/plain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The attempt that ran at a time: the last that had begun. */
static struct sn_history_attempt *attempt_at(struct sn_history *h, double time)
{
    struct sn_history_attempt *found = NULL;
    for (int i = 0; i < h->n_attempts; i++) {
        struct sn_history_attempt *a = &h->attempt[i];
        if (a->began > 0 && a->began <= time && (!found || a->began >= found->began))
            found = a;
    }
    return found;
}

/* What ends a process comes before what slows it, and why before that. */
static int gravity(const struct sn_history_incident *i)
{
    static const char *const kind[] = {"departs", "throttled", "xid", "ecc"};
    for (int k = 0; k < 4; k++)
        if (strcmp(i->kind, kind[k]) == 0)
            return k + 1;
    return 0;
}

static void take(struct sn_history *h, struct sn_json line)
{
    struct sn_history_incident i = {.rank = sn_json_get_integer(line, "rank", -1),
                                    .step = sn_json_get_integer(line, "step", -1),
                                    .value = sn_json_get_number(line, "value", 0)};
    struct sn_history_attempt *a = attempt_at(h, sn_json_get_number(line, "time", 0));
    sn_json_get_text(line, "kind", i.kind, sizeof(i.kind));
    sn_json_get_text(line, "what", i.what, sizeof(i.what));
    sn_json_get_text(line, "host", i.host, sizeof(i.host));
    sn_json_get_text(line, "says", i.says, sizeof(i.says));
    sn_plain_lines(i.what);
    sn_plain_lines(i.says);
    sn_plain_lines(i.host);
    if (!a || gravity(&i) == 0)
        return;
    if (a->n_incidents++ == 0 || gravity(&i) > gravity(&a->incident))
        a->incident = i;
}

void sn_history_take_health(struct sn_history *h, const char *text, size_t len)
{
    struct sn_jsonl lines = {.text = (char *)(uintptr_t)text, .len = len}; /* only read */
    struct sn_json line;
    while (sn_jsonl_next(&lines, &line))
        take(h, line);
    h->damaged += (int)(lines.damaged < INT32_MAX / 2 ? lines.damaged : INT32_MAX / 2);
}

/* Of a line that has it: not each one does (lib/train/health.h). */
void sn_history_take_gpu(struct sn_history *h, struct sn_json gpu)
{
    struct sn_json name, value;
    size_t at = 0, used = 0;
    char reason[32] = "";
    if (!gpu.at)
        return;
    h->gpu_mhz = sn_json_get_number(gpu, "sm_mhz", NAN);
    h->gpu_watts = sn_json_get_number(gpu, "power_w", NAN);
    h->gpu_celsius = sn_json_get_number(gpu, "temperature_c", NAN);
    h->gpu_throttle[0] = '\0';
    while (sn_json_next(sn_json_get(gpu, "throttle"), &at, &name, &value))
        if (sn_json_text(value, reason, sizeof(reason)) && used < sizeof(h->gpu_throttle))
            used += (size_t)snprintf(h->gpu_throttle + used, sizeof(h->gpu_throttle) - used, "%s%s",
                                     used ? ", " : "", reason);
    sn_plain_lines(h->gpu_throttle);
}

void sn_history_take_sets(struct sn_history *h, struct sn_json sets, int64_t step)
{
    struct sn_json name, value;
    if (!sets.at)
        return;
    h->n_sets = 0;
    h->sets_step = step;
    for (size_t at = 0; sn_json_next(sets, &at, &name, &value); h->n_sets++) {
        if (h->n_sets >= SN_HISTORY_SETS)
            continue;
        struct sn_history_set *s = &h->set[h->n_sets];
        *s = (struct sn_history_set){.share = sn_json_get_number(value, "share", NAN),
                                     .epochs = sn_json_get_number(value, "epochs", NAN)};
        (void)sn_json_text(name, s->name, sizeof(s->name));
        sn_plain_lines(s->name);
    }
}

void sn_history_take_departs(struct sn_history *h, struct sn_json departs)
{
    struct sn_json none, item;
    h->n_departs = 0;
    for (size_t at = 0; departs.at && sn_json_next(departs, &at, &none, &item); h->n_departs++) {
        if (h->n_departs >= SN_HISTORY_DEPARTS)
            continue;
        char *to = h->departs[h->n_departs];
        sn_json_get_text(item, "says", to, SN_HISTORY_TEXT);
        sn_plain_lines(to);
    }
}

void sn_history_say_incident(char *out, size_t room, const struct sn_history_incident *i)
{
    if (strcmp(i->kind, "departs") == 0) {
        (void)snprintf(out, room, "%s", i->says);
        return;
    }
    int n = snprintf(out, room, "the device of rank %" PRId64 " (%s) ", i->rank, i->host);
    size_t used = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
    char *to = out + used;
    room -= used;
    if (strcmp(i->kind, "ecc") == 0)
        (void)snprintf(to, room, "had %.0f uncorrected memory error%s by step %" PRId64, i->value,
                       i->value == 1 ? "" : "s", i->step);
    else if (strcmp(i->kind, "xid") == 0)
        (void)snprintf(to, room, "failed: its driver reported XID %.0f by step %" PRId64, i->value,
                       i->step);
    else
        (void)snprintf(to, room, "was slowed down (%s, %.0f C) by step %" PRId64, i->what, i->value,
                       i->step);
}
