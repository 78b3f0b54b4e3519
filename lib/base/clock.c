#include "lib/base/clock.h"

#include <time.h>

enum { FAR = 2 }; /* seconds between two looks in which nobody was there to look */

static double seconds(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail for these clocks */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double sn_clock(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double sn_clock_date(void)
{
    return seconds(CLOCK_REALTIME);
}

double sn_awake_at(const struct sn_awake *a, double now)
{
    return now - a->slept;
}

double sn_awake_look(struct sn_awake *a, double now)
{
    double gap = now - a->looked;
    if (a->looked > 0 && gap > FAR)
        a->slept += gap;
    a->looked = now;
    return sn_awake_at(a, now);
}
