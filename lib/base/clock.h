/*
 * clock.h - seconds of a clock that never goes back, and of one that tells the date.
 */
#ifndef SN_CLOCK_H
#define SN_CLOCK_H

double sn_clock(void);
/* Since 1970. */
double sn_clock_date(void);

#endif
