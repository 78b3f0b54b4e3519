/*
 * fit.c - Levenberg-Marquardt (Marquardt 1963) with numerical derivatives and bounds by clamping.
 */
#include "tests/bench/foreign/fit.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { ROUNDS = 100, MOST_STALE = 6 };
static const double STEP = 1e-3, ENOUGH = 1e-4, MOST_DAMPING = 1e6;

struct work {
    const struct fit *f;
    double *r, *tried; /* residuals here and at a trial */
    double *jacobian;  /* [rows][n] */
    double h[FIT_MAX][FIT_MAX], g[FIT_MAX];
};

static double cost_of(const struct fit *f, const double *x, const double *r)
{
    double sum = 0;
    for (int i = 0; i < f->rows; i++)
        sum += log1p(r[i] * r[i] / (f->scale * f->scale));
    for (int k = 0; k < f->n; k++) {
        double off = (x[k] - f->c[k].prior) / f->c[k].spread;
        sum += off * off;
    }
    return sum;
}

static enum sn_status derive(struct work *w, const double *x, struct sn_err *err)
{
    const struct fit *f = w->f;
    double at[FIT_MAX];
    for (int k = 0; k < f->n; k++) {
        memcpy(at, x, sizeof(at));
        double step = x[k] + STEP <= f->c[k].most ? STEP : -STEP;
        at[k] += step;
        SN_TRY(f->residuals(f->arg, at, w->tried, err));
        for (int i = 0; i < f->rows; i++)
            w->jacobian[i * f->n + k] = (w->tried[i] - w->r[i]) / step;
    }
    return SN_OK;
}

/* Normal equations with the weight of each row at the present residuals. */
static void normal(struct work *w, const double *x)
{
    const struct fit *f = w->f;
    memset(w->h, 0, sizeof(w->h));
    memset(w->g, 0, sizeof(w->g));
    for (int i = 0; i < f->rows; i++) {
        const double *j = &w->jacobian[i * f->n];
        double weight = 1 / (f->scale * f->scale + w->r[i] * w->r[i]);
        for (int a = 0; a < f->n; a++) {
            w->g[a] += weight * j[a] * w->r[i];
            for (int b = 0; b < f->n; b++)
                w->h[a][b] += weight * j[a] * j[b];
        }
    }
    for (int k = 0; k < f->n; k++) {
        double s = f->c[k].spread;
        w->h[k][k] += 1 / (s * s);
        w->g[k] += (x[k] - f->c[k].prior) / (s * s);
    }
}

/* Solve (h + damping diag h) d = -g by Gauss with pivots on the diagonal: h is positive. */
static void solve(const struct work *w, double damping, double *d)
{
    int n = w->f->n;
    double a[FIT_MAX][FIT_MAX];
    memcpy(a, w->h, sizeof(a));
    for (int k = 0; k < n; k++) {
        a[k][k] *= 1 + damping;
        d[k] = -w->g[k];
    }
    for (int k = 0; k < n; k++)
        for (int i = k + 1; i < n; i++) {
            double vstage = a[i][k] / a[k][k];
            for (int c = k; c < n; c++)
                a[i][c] -= vstage * a[k][c];
            d[i] -= vstage * d[k];
        }
    for (int k = n - 1; k >= 0; k--) {
        for (int c = k + 1; c < n; c++)
            d[k] -= a[k][c] * d[c];
        d[k] /= a[k][k];
    }
}

/* What a step tells about the derivatives (Broyden 1965): J += (dr - J d) d' / |d|^2. */
static void learn(struct work *w, const double *d)
{
    int n = w->f->n;
    double length = 0;
    for (int k = 0; k < n; k++)
        length += d[k] * d[k];
    for (int i = 0; length > 0 && i < w->f->rows; i++) {
        double *j = &w->jacobian[i * n], miss = w->tried[i] - w->r[i];
        for (int k = 0; k < n; k++)
            miss -= j[k] * d[k];
        for (int k = 0; k < n; k++)
            j[k] += miss * d[k] / length;
    }
}

/* One step down: *moved tells whether there was any. */
static enum sn_status step(struct work *w, double *x, double *cost, double *damping, bool *moved,
                           struct sn_err *err)
{
    const struct fit *f = w->f;
    double d[FIT_MAX], to[FIT_MAX], trial = *cost;
    normal(w, x);
    for (; *damping < MOST_DAMPING; *damping *= 5) {
        solve(w, *damping, d);
        for (int k = 0; k < f->n; k++)
            to[k] = fmin(fmax(x[k] + d[k], f->c[k].least), f->c[k].most);
        SN_TRY(f->residuals(f->arg, to, w->tried, err));
        trial = cost_of(f, to, w->tried);
        if (trial < *cost)
            break;
    }
    *moved = trial < *cost;
    if (!*moved)
        return SN_OK;
    for (int k = 0; k < f->n; k++)
        d[k] = to[k] - x[k];
    learn(w, d);
    memcpy(x, to, (size_t)f->n * sizeof(*x));
    memcpy(w->r, w->tried, (size_t)f->rows * sizeof(*w->r));
    *cost = trial;
    *damping = fmax(*damping / 10, 1e-6);
    return SN_OK;
}

static enum sn_status descend(struct work *w, double *x, double *cost, struct sn_err *err)
{
    double damping = 1e-2;
    int stale = 0; /* steps since derivatives were computed */
    SN_TRY(w->f->residuals(w->f->arg, x, w->r, err));
    *cost = cost_of(w->f, x, w->r);
    SN_TRY(derive(w, x, err));
    for (int round = 0; round < ROUNDS; round++) {
        bool moved;
        double before = *cost;
        SN_TRY(step(w, x, cost, &damping, &moved, err));
        bool little = !moved || before - *cost < ENOUGH * before;
        if (little && stale == 0)
            return SN_OK;
        stale++;
        if (little || stale == MOST_STALE) {
            SN_TRY(derive(w, x, err));
            stale = 0;
            damping = fmin(damping, 1e-2);
        }
    }
    return SN_OK;
}

enum sn_status fit_run(const struct fit *f, double *x, double *cost, struct sn_err *err)
{
    struct work w = {.f = f};
    size_t rows = (size_t)f->rows + 1;
    w.r = sn_alloc_n(rows, sizeof(*w.r));
    w.tried = sn_alloc_n(rows, sizeof(*w.tried));
    w.jacobian = sn_alloc_n(rows * FIT_MAX, sizeof(*w.jacobian));
    enum sn_status st = w.r && w.tried && w.jacobian
                            ? descend(&w, x, cost, err)
                            : sn_fail(err, SN_ENOMEM, "fit: no memory for %d rows", f->rows);
    sn_free(w.r);
    sn_free(w.tried);
    sn_free(w.jacobian);
    return st;
}
