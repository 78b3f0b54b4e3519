/*
 * departure.h - does one thing that is measured every step depart from its plan? Pure arithmetic.
 *
 * What is measured of a step is x = log(measured seconds / planned seconds), less what all its
 * peers have in common in that step: the plan may be off by a factor that nobody needs to know.
 *
 *   learning   the first WINDOW values give the base b, their median, and the scale s, 1.4826 times
 *              the median of |x - b|: neither is moved by a few outliers
 *   judging    a value exceeds where x - b > limit = max(log(1 + tolerance), SCALES s)
 *   departs    from when NEEDED of the last WINDOW values exceed, until at most WINDOW - NEEDED
 *              exceed half the limit
 *
 * In between b and s follow quiet values in small steps (a recursive median), so that what drifts
 * slowly is no departure; what departs moves neither.
 *
 * False alarms. Where a quiet value exceeds with probability q, each independently of the others,
 * a window has NEEDED or more of them with probability
 *
 *   sum over k = NEEDED .. WINDOW of C(WINDOW, k) q^k (1 - q)^(WINDOW - k)  <  28 q^6
 *
 * in one step. Noise whose logarithm is normal exceeds SCALES s with q = 0.006: in 2e-12 of all
 * steps. With q = 0.02 it is 2e-9, with q = 0.05 4e-7. One spike, however high, is one value. What
 * slows a rank for NEEDED steps has slowed it, whatever it was.
 */
#ifndef SN_DEPARTURE_H
#define SN_DEPARTURE_H

#include <stdbool.h>
#include <stdint.h>

enum { SN_DEPARTURE_WINDOW = 8, SN_DEPARTURE_NEEDED = 6 };
#define SN_DEPARTURE_SCALES 2.5

struct sn_departure {
    double tolerance; /* that is never told: 0.15 */
    double base, scale;
    double value[SN_DEPARTURE_WINDOW]; /* the last ones, a ring */
    int64_t step[SN_DEPARTURE_WINDOW];
    int64_t n; /* values so far */
    bool is_learned, departs;
    int64_t since; /* the first step that exceeded, while it departs */
};

void sn_departure_init(struct sn_departure *out, double tolerance);
/* A value that is not finite is none. */
void sn_departure_take(struct sn_departure *d, double value, int64_t step);
/* Has it as many values as it learns from, and has not learned? */
bool sn_departure_is_ready(const struct sn_departure *d);
/* Learn, and judge the same values. `peers_base` is the median base of three or more that do the
 * same work, NAN where there are fewer: beyond it by more than `spread` (of the logarithm) it
 * departs from the first step on. `peers_scale` is the median of their scales, or 0. */
void sn_departure_learn(struct sn_departure *d, double peers_base, double spread,
                        double peers_scale);
/* How many of the latest values exceed, one after another. */
int sn_departure_run(const struct sn_departure *d);
/* What it would learn by itself. */
double sn_departure_base(const struct sn_departure *d);
double sn_departure_scale(const struct sn_departure *d);
/* While it departs: how many times as long as it should, the median over the values that exceed. */
double sn_departure_ratio(const struct sn_departure *d);

/* The median of n values, which are put in order; of an even number the lower one; n = 0: NAN. */
double sn_lower_median(double *value, int n);

#endif
