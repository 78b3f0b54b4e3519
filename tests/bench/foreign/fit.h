/*
 * fit.h - least squares with priors: Levenberg-Marquardt on few constants.
 *
 * Minimises the sum of r_i^2 / (1 + r_i^2 / scale^2)-like weights (Cauchy, by reweighting, so that
 * a few rows that no constant explains do not bend the others) plus ((x - prior) / spread)^2 of
 * every constant: what no row informs stays where physics puts it.
 */
#ifndef FIT_H
#define FIT_H

#include "lib/base/err.h"

enum { FIT_MAX = 40 };

struct fit_constant {
    double prior, spread; /* of x */
    double least, most;
};

struct fit {
    int n, rows;
    struct fit_constant c[FIT_MAX];
    double scale; /* of a residual: what is a usual one */
    /* Residuals (one a row) at x. */
    enum sn_status (*residuals)(void *arg, const double *x, double *r, struct sn_err *err);
    void *arg;
};

/* *x: from where, and the result. *cost: what was minimised. */
enum sn_status fit_run(const struct fit *f, double *x, double *cost, struct sn_err *err);

#endif
