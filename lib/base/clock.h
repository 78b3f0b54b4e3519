/*
 * clock.h - seconds of a clock that never goes back.
 */
#ifndef SN_CLOCK_H
#define SN_CLOCK_H

double sn_clock(void);

#endif
