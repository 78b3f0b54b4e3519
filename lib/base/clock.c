#include "lib/base/clock.h"

#include <time.h>

double sn_clock(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
