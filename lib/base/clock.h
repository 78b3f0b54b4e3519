/*
 * clock.h - seconds of a clock that never goes back, and of one that tells the date.
 */
#ifndef SN_CLOCK_H
#define SN_CLOCK_H

double sn_clock(void);
/* Since 1970. */
double sn_clock_date(void);

/*
 * The time of a watch that looks several times a second, whose process may be stopped: where a job
 * is suspended all its processes stand still, and what they wait for has not been late meanwhile.
 * Begins as zeros.
 */
struct sn_awake {
    double looked; /* the last time */
    double slept;  /* seconds between two looks that were far apart, in all */
};

/* Look, at `now` of sn_clock: the seconds until then less those slept. */
double sn_awake_look(struct sn_awake *a, double now);
/* The same between two looks. */
double sn_awake_at(const struct sn_awake *a, double now);

#endif
