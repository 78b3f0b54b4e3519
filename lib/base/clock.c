#include "lib/base/clock.h"

#include <time.h>

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
