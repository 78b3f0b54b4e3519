/*
 * picture.c - what the pictures of a step share: which stretches of it are drawn, and their scale.
 */
#include "lib/report/picture.h"

#include <math.h>
#include <stdio.h>

const char *sn_event_name(enum sn_event_kind k)
{
    static const char *const name[SN_NEVENTS] = {
        "forward", "backward", "weight gradients", "update", "wait", "transfer", "idle"};
    return name[k];
}

double sn_tick(double seconds, int n)
{
    double least = seconds / n, ten = pow(10, floor(log10(least)));
    return ten * (least <= ten ? 1 : least <= 2 * ten ? 2 : least <= 5 * ten ? 5 : 10);
}

const char *sn_picture_time(char buf[24], double seconds)
{
    double scale = seconds >= 1 ? 1 : seconds >= 1e-3 ? 1e3 : 1e6;
    (void)snprintf(buf, 24, "%.3g %s", seconds * scale,
                   scale > 1e3   ? "us"
                   : scale > 1.0 ? "ms"
                                 : "s");
    return buf;
}

const char *sn_picture_hours(char buf[24], double seconds)
{
    if (seconds >= 7200)
        (void)snprintf(buf, 24, "%.1f h", seconds / 3600);
    else if (seconds >= 120)
        (void)snprintf(buf, 24, "%.0f min", seconds / 60);
    else
        (void)sn_picture_time(buf, seconds);
    return buf;
}

/* First begin and last end of a stage's events of kinds a to b; false where it has none. */
static bool extent(const struct sn_sim *s, int stage, enum sn_event_kind a, enum sn_event_kind b,
                   double t[2])
{
    bool found = false;
    for (int64_t i = 0; i < s->n_events; i++) {
        const struct sn_event *e = &s->event[i];
        if (e->stage != stage || e->kind < a || e->kind > b)
            continue;
        t[0] = found ? fmin(t[0], e->begin) : e->begin;
        t[1] = found ? fmax(t[1], e->end) : e->end;
        found = true;
    }
    return found;
}

/*
 * What matters at the beginning is how the pipeline fills, up to the first stage's first backward;
 * at the end how it drains, from the last stage's last backward on, and the update. Each gets three
 * micro-batches more, and the middle what room is left.
 */
void sn_stretches_find(struct sn_stretches *out, const struct sn_picture *p, double room)
{
    const struct sn_sim *s = p->sim;
    double run[2], fill[2], micro;
    *out = (struct sn_stretches){.end = {s->step}, .n = 1, .shown = s->step};
    room = fmax(room / p->vstages, 3.0 * s->stages);
    if (!extent(s, s->stages - 1, SN_EVENT_FORWARD, SN_EVENT_WEIGHT, run) ||
        !extent(s, 0, SN_EVENT_BACKWARD, SN_EVENT_BACKWARD, fill))
        return;
    micro = (run[1] - run[0]) / p->micros;
    double most = room * micro;
    double first = fmin(fill[0] + 3 * micro, most);
    double last = fmin(s->step - run[1] + 3 * micro, most);
    double middle = fmax(most - first - last, most / 6);
    if (first + middle + last > 0.7 * s->step || s->step <= 1.5 * most)
        return;
    double at = (first + s->step - last - middle) / 2;
    *out = (struct sn_stretches){.begin = {0, at, s->step - last},
                                 .end = {first, at + middle, s->step},
                                 .n = 3,
                                 .shown = first + middle + last};
}
