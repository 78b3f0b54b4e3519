/*
 * held.h - how long a run holds its nodes, when failures come at random, jobs have a limit and wait in a
 * queue, and now and then a node is slow.
 *
 * Failures, saves and restarts are those of lib/report/goodput.h: mean time M, work tau between saves
 * of which each stands for delta and counts w later, a restart R. With c = tau + delta and a last
 * save s = delta + w, which a job makes before its limit L (and a run at its end), for W seconds of
 * work:
 *
 *   in place (spare nodes): what failed begins again in its job
 *       n = jobs = ceil(W / (F (L - R - s)))         F: the goodput of goodput.h
 *       held     = W / F + n (R + s)
 *   else a failure ends the job, and the next one waits in the queue, too. A job's length is
 *   min(X, L), X exponential; it works for
 *       U    = tau exp(-(R + w) / M) (1 - exp(-K c / M)) / (exp(c / M) - 1) + r exp(-L / M)
 *       K    = floor((L - s - R) / c) saves,  r = min(tau, L - s - R - K c)
 *       A    = M (1 - exp(-L / M))
 *       held = W A / U + (R + s) / 2                 (the last job is cut off somewhere)
 *       jobs = held / A + (V + A^2) / (2 A^2)        V: variance of min(X, L) (Smith 1954)
 *            and at least ceil(held / L)
 *     without a limit W / F + R + s, and held / M + 1.
 *
 * Slow nodes come at random with a mean time G between them in the whole job, each stays for D seconds
 * and makes a step f times as long, however many there are: with probability exp(-D / G) there is none
 * (M/G/infinity), so that work goes on at v = exp(-D / G) + (1 - exp(-D / G)) / f of its pace; W and
 * tau are divided by v. drawn.h plays the same at random.
 */
#ifndef SN_HELD_H
#define SN_HELD_H

#include "lib/base/err.h"
#include "lib/report/goodput.h"

/* Seconds. */
struct sn_slow {
    double every;  /* G; 0: no node is slow */
    double lasts;  /* D */
    double factor; /* f, above 1 */
};

struct sn_terms {
    struct sn_failures failures;
    double work, interval; /* W and tau of the plan */
    double limit;          /* L; 0: none */
    double queue;          /* that each job waits */
    bool in_place;         /* a failure does not end its job */
    struct sn_slow slow;
};

struct sn_held_time {
    double seconds;  /* that nodes are held */
    double jobs;     /* each of which waits once */
    double failures; /* in this time */
    double fraction; /* of it that is useful: W over it */
};

/* Part of its pace at which work goes on. */
double sn_slow_pace(const struct sn_slow *s);
/* SN_EINPUT where a job is too short for a start and a save, or failures leave next to nothing. */
enum sn_status sn_held_find(struct sn_held_time *out, const struct sn_terms *t, struct sn_err *err);

#endif
