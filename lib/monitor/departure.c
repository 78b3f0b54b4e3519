#include "lib/monitor/departure.h"

#include <math.h>
#include <stdlib.h>

/* Of the scale, by which base and scale follow a quiet value. */
static const double step_of_base = 0.02, step_of_scale = 0.02;
/* Of its peers' scale, that one learns. */
static const double most_scales = 2;
/* Clocks and timers are no better. */
static const double least_scale = 0.005;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sn_lower_median(double *value, int n)
{
    if (n == 0)
        return NAN;
    qsort(value, (size_t)n, sizeof(*value), ascending);
    return value[(n - 1) / 2];
}

void sn_departure_init(struct sn_departure *out, double tolerance)
{
    *out = (struct sn_departure){.tolerance = tolerance};
}

static int count(const struct sn_departure *d)
{
    return d->n < SN_DEPARTURE_WINDOW ? (int)d->n : SN_DEPARTURE_WINDOW;
}

bool sn_departure_is_ready(const struct sn_departure *d)
{
    return !d->is_learned && count(d) == SN_DEPARTURE_WINDOW;
}

double sn_departure_base(const struct sn_departure *d)
{
    double x[SN_DEPARTURE_WINDOW];
    int n = count(d);
    for (int i = 0; i < n; i++)
        x[i] = d->value[i];
    return sn_lower_median(x, n);
}

double sn_departure_scale(const struct sn_departure *d)
{
    double x[SN_DEPARTURE_WINDOW], base = sn_departure_base(d);
    int n = count(d);
    for (int i = 0; i < n; i++)
        x[i] = fabs(d->value[i] - base);
    return 1.4826 * sn_lower_median(x, n);
}

static double limit(const struct sn_departure *d)
{
    return fmax(log1p(d->tolerance), SN_DEPARTURE_SCALES * d->scale);
}

/* Values of the window that lie above the base by more than `by`. */
static int above(const struct sn_departure *d, double by)
{
    int n = 0;
    for (int i = 0; i < count(d); i++)
        n += d->value[i] - d->base > by;
    return n;
}

static bool exceeds(const struct sn_departure *d, int64_t i)
{
    return d->value[i % SN_DEPARTURE_WINDOW] - d->base > limit(d);
}

/* The first that exceeds and is followed by another one: what stands alone was a spike. */
static int64_t first_step(const struct sn_departure *d)
{
    int64_t i = d->n - SN_DEPARTURE_WINDOW;
    while (i + 2 < d->n && !(exceeds(d, i) && exceeds(d, i + 1)))
        i++;
    return d->step[i % SN_DEPARTURE_WINDOW];
}

int sn_departure_run(const struct sn_departure *d)
{
    int n = 0;
    while (d->is_learned && n < SN_DEPARTURE_WINDOW && exceeds(d, d->n - 1 - n))
        n++;
    return n;
}

static void judge(struct sn_departure *d)
{
    if (!d->departs && above(d, limit(d)) >= SN_DEPARTURE_NEEDED) {
        d->departs = true;
        d->since = first_step(d);
    } else if (d->departs && above(d, limit(d) / 2) <= SN_DEPARTURE_WINDOW - SN_DEPARTURE_NEEDED) {
        d->departs = false;
    }
}

/* Half of the values lie on each side of a median: it is followed by the side of each. */
static void follow(struct sn_departure *d, double value)
{
    double off = value - d->base;
    if (off > limit(d))
        return;
    d->base += step_of_base * d->scale * (off > 0 ? 1 : -1);
    d->scale *= 1 + step_of_scale * (1.4826 * fabs(off) > d->scale ? 1 : -1);
    d->scale = fmax(d->scale, least_scale);
}

void sn_departure_take(struct sn_departure *d, double value, int64_t step)
{
    if (!isfinite(value))
        return;
    int at = (int)(d->n++ % SN_DEPARTURE_WINDOW);
    d->value[at] = value;
    d->step[at] = step;
    if (!d->is_learned)
        return;
    judge(d);
    if (!d->departs)
        follow(d, value);
}

void sn_departure_learn(struct sn_departure *d, double peers_base, double spread,
                        double peers_scale)
{
    d->base = sn_departure_base(d);
    double own =
        sn_departure_scale(d); /* of few values, perhaps some of before and after a change */
    if (peers_scale > 0 && own > most_scales * peers_scale)
        own = most_scales * peers_scale;
    d->scale = fmax(fmax(own, peers_scale), least_scale);
    if (isfinite(peers_base) && d->base > peers_base + spread)
        d->base = peers_base;
    d->is_learned = true;
    judge(d);
}

double sn_departure_ratio(const struct sn_departure *d)
{
    double x[SN_DEPARTURE_WINDOW];
    int n = 0;
    for (int i = 0; i < count(d); i++)
        if (d->value[i] - d->base > limit(d))
            x[n++] = d->value[i] - d->base;
    return n ? exp(sn_lower_median(x, n)) : 1;
}
