#include "lib/exec/pace.h"

#include "lib/base/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

/* A call that takes longer has blocked. Less is the price of a call, which may have come late
 * because the sleep before it ended late. */
static const double blocked = 50e-6;

void sn_pace_begin(struct sn_pace *p, const struct sn_machine *machine, const struct sn_job *j)
{
    p->on = true;
    sn_software_default(&p->software);
    sn_pricer_init(&p->pricer, machine, &p->software, j);
    (void)prctl(PR_SET_TIMERSLACK, 1); /* ns; without it every sleep ends some 50 us late */
    sn_pace_restart(p);
}

void sn_pace_restart(struct sn_pace *p)
{
    p->due = sn_clock();
}

void sn_pace_spend(struct sn_pace *p, double seconds)
{
    p->due += seconds;
    struct timespec t = {.tv_sec = (time_t)p->due};
    t.tv_nsec = (long)((p->due - (double)t.tv_sec) * 1e9);
    while (p->due > sn_clock() && /* else a timer all the same, some microseconds */
           clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

void sn_pace_communicated(struct sn_pace *p, double began)
{
    double now = sn_clock(), took = now - began;
    p->due = took > blocked ? now : p->due + took;
}
