#include "lib/train/health.h"

#include "lib/base/clock.h"
#include "lib/base/jsonl.h"
#include "lib/base/log.h"
#include "lib/config/config.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Devices that are busy often are at their power cap, and tell so: that is no fault. */
enum {
    FAULTS = 1 << SN_THROTTLE_SW_THERMAL | 1 << SN_THROTTLE_HW_THERMAL |
             1 << SN_THROTTLE_POWER_BRAKE | 1 << SN_THROTTLE_HW_SLOWDOWN
};

const char *sn_throttle_name(enum sn_device_throttle t)
{
    static const char *const name[SN_NTHROTTLES] = {
        [SN_THROTTLE_POWER_CAP] = "power_cap",     [SN_THROTTLE_SYNC_BOOST] = "sync_boost",
        [SN_THROTTLE_SW_THERMAL] = "sw_thermal",   [SN_THROTTLE_HW_THERMAL] = "hw_thermal",
        [SN_THROTTLE_POWER_BRAKE] = "power_brake", [SN_THROTTLE_HW_SLOWDOWN] = "hw_slowdown"};
    return name[t];
}

void sn_health_init(struct sn_health *h, const struct sn_accelerator *a, const char *output,
                    int rank)
{
    *h = (struct sn_health){.accelerator = a && a->device && a->ops->health ? a : NULL,
                            .output = output,
                            .rank = rank,
                            .uncorrected = -1};
}

/* --- what explains an end --------------------------------------------------------------------- */

/* {"time", "rank", "host", "step", "kind": "throttled", "ecc", "xid" or "departs", "what": a
 * reason's name or "", "value": degrees, errors, the number, how many times as long; "says": a
 * sentence, of what departs} */
struct line {
    int rank;
    const char *host, *kind, *what, *says;
    int64_t step;
    double value;
};

static void append(const struct sn_health *h, const struct line *l)
{
    char path[SN_PATH_MAX + 64];
    struct sn_str line = {0};
    struct sn_err err = {0};
    (void)snprintf(path, sizeof(path), "%s/ranks", h->output);
    (void)mkdir(path, 0777); /* mostly it is there; the append says what else is wrong */
    (void)snprintf(path, sizeof(path), "%s/ranks/rank-%05d.health.jsonl", h->output, h->rank);
    sn_jsonl_real(&line, "time", sn_clock_date());
    sn_jsonl_int(&line, "rank", l->rank);
    sn_jsonl_text(&line, "host", l->host);
    sn_jsonl_int(&line, "step", l->step);
    sn_jsonl_text(&line, "kind", l->kind);
    sn_jsonl_text(&line, "what", l->what);
    sn_jsonl_real(&line, "value", l->value);
    if (l->says)
        sn_jsonl_text(&line, "says", l->says);
    if (sn_jsonl_append(path, &line, &err) != SN_OK)
        sn_log(SN_LOG_WARN, "%s", err.text);
}

static void note(const struct sn_health *h, int64_t step, const char *kind, const char *what,
                 double value)
{
    char host[64] = "unknown";
    (void)gethostname(host, sizeof(host) - 1); /* a name cut short still helps */
    append(h, &(struct line){h->rank, host, kind, what, NULL, step, value});
    sn_log(SN_LOG_WARN, "rank %d (%s), step %lld: device: %s %s (%g)", h->rank, host,
           (long long)step, kind, what, value);
}

void sn_health_note_finding(const struct sn_health *h, int64_t step, const struct sn_finding *f)
{
    char says[512];
    sn_finding_say(says, sizeof(says), f);
    append(h, &(struct line){f->rank, f->host, "departs", sn_finding_name(f->kind), says, step,
                             f->ratio});
}

static void note_new(struct sn_health *h, int64_t step)
{
    const struct sn_device_health *now = &h->now;
    unsigned fresh = now->throttle & FAULTS & ~h->throttle;
    for (int t = 0; t < SN_NTHROTTLES; t++)
        if (fresh >> t & 1u)
            note(h, step, "throttled", sn_throttle_name((enum sn_device_throttle)t), now->celsius);
    h->throttle |= fresh;
    if (h->uncorrected < 0)
        h->uncorrected = now->ecc_uncorrected; /* those of before are no news */
    if (now->ecc_uncorrected > h->uncorrected) {
        note(h, step, "ecc", "uncorrected", (double)(now->ecc_uncorrected - h->uncorrected));
        h->uncorrected = now->ecc_uncorrected;
    }
    if (now->xid > 0 && now->xid != h->xid) {
        note(h, step, "xid", "", (double)now->xid);
        h->xid = now->xid;
    }
}

const struct sn_device_health *sn_health_ask(struct sn_health *h, int64_t step)
{
    char why[256] = "";
    double now = sn_clock();
    if (!h->accelerator || (h->asked > 0 && now - h->asked < SN_HEALTH_EVERY))
        return NULL;
    h->asked = now;
    if (h->accelerator->ops->health(h->accelerator->device, &h->now, why, sizeof(why)) != 0) {
        if (why[0] && h->rank == 0)
            sn_log(SN_LOG_INFO, "clocks, power and errors of the device are not known: %s", why);
        h->accelerator = NULL;
        return NULL;
    }
    note_new(h, step);
    return &h->now;
}

/* --- metrics ---------------------------------------------------------------------------------- */

static void member(FILE *f, const char **comma, const char *name, double value)
{
    if (value < 0)
        return;
    (void)fprintf(f, "%s\"%s\": %.15g", *comma, name, value);
    *comma = ", ";
}

void sn_health_json(FILE *f, const struct sn_device_health *h)
{
    const char *comma = "", *between = "";
    (void)fprintf(f, "\"gpu\": {");
    member(f, &comma, "sm_mhz", h->sm_mhz);
    member(f, &comma, "memory_mhz", h->memory_mhz);
    member(f, &comma, "power_w", h->watts);
    member(f, &comma, "temperature_c", h->celsius);
    member(f, &comma, "memory_used_bytes", (double)h->memory_used);
    member(f, &comma, "ecc_corrected", (double)h->ecc_corrected);
    member(f, &comma, "ecc_uncorrected", (double)h->ecc_uncorrected);
    member(f, &comma, "xid", (double)h->xid);
    if (h->knows_throttle) {
        (void)fprintf(f, "%s\"throttle\": [", comma);
        for (int t = 0; t < SN_NTHROTTLES; t++) {
            if (!(h->throttle >> t & 1u))
                continue;
            (void)fprintf(f, "%s\"%s\"", between, sn_throttle_name((enum sn_device_throttle)t));
            between = ", ";
        }
        (void)fprintf(f, "]");
    }
    (void)fprintf(f, "}");
}
