/*
 * linear.h - step times as a plane over the constants, so that fits are quick.
 */
#ifndef LINEAR_H
#define LINEAR_H

#include "tests/bench/foreign/fit.h"

#include <stdbool.h>

enum plane_kind { PLANE_PLAIN, PLANE_TIME, PLANE_RATE };

struct plane {
    int n, rows;
    double at[FIT_MAX];            /* where it touches */
    enum plane_kind kind[FIT_MAX]; /* of a constant: what steps are linear in */
    double *base, *slope;          /* [rows], [n][rows] */
};

/* Seconds of all rows at x. */
typedef enum sn_status plane_seconds(void *arg, const double *x, double *seconds,
                                     struct sn_err *err);
enum sn_status plane_create(struct plane *p, int n, int rows, struct sn_err *err);
void plane_fini(struct plane *p); /* zeroed ones are allowed */
/* Touch the times at x; constants that are factors are logarithms. */
enum sn_status plane_lay(struct plane *p, const double *x, const bool *is_factor,
                         plane_seconds *seconds, void *arg, struct sn_err *err);
void plane_read(const struct plane *p, const double *x, double *seconds);

#endif
