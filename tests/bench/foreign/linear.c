/*
 * linear.c - the step times of all rows as a plane: what they are at one place of the constants, and
 * how they change with each.
 *
 * A step is a sum of what its parts take, so it is nearly linear in the factors on times, and in the
 * inverses of factors on rates: a fit on the plane needs no row to be priced, and leaving out rows
 * no new plane.
 */
#include "tests/bench/foreign/linear.h"

#include "lib/base/mem.h"

#include <math.h>
#include <string.h>

static const double STEP = 1e-2;

/* What the step is linear in: the constant, its exponential where it is a logarithm, or that of
 * minus it where it is the logarithm of a rate. */
static double coordinate(const struct plane *p, int k, double x)
{
    return p->kind[k] == PLANE_PLAIN ? x : exp(p->kind[k] == PLANE_RATE ? -x : x);
}

enum sn_status plane_lay(struct plane *p, const double *x, const bool *is_factor,
                         plane_seconds *seconds, void *arg, struct sn_err *err)
{
    double at[FIT_MAX];
    memcpy(p->at, x, (size_t)p->n * sizeof(*x));
    SN_TRY(seconds(arg, x, p->base, err));
    for (int k = 0; k < p->n; k++) {
        double *slope = p->slope + (size_t)k * (size_t)p->rows, sum = 0;
        memcpy(at, x, (size_t)p->n * sizeof(*x));
        at[k] += STEP;
        SN_TRY(seconds(arg, at, slope, err));
        for (int i = 0; i < p->rows; i++)
            sum += slope[i] - p->base[i];
        p->kind[k] = !is_factor[k] ? PLANE_PLAIN : sum < 0 ? PLANE_RATE : PLANE_TIME;
        double by = coordinate(p, k, at[k]) - coordinate(p, k, x[k]);
        for (int i = 0; i < p->rows; i++)
            slope[i] = (slope[i] - p->base[i]) / by;
    }
    return SN_OK;
}

void plane_read(const struct plane *p, const double *x, double *seconds)
{
    memcpy(seconds, p->base, (size_t)p->rows * sizeof(*seconds));
    for (int k = 0; k < p->n; k++) {
        const double *slope = p->slope + (size_t)k * (size_t)p->rows;
        double by = coordinate(p, k, x[k]) - coordinate(p, k, p->at[k]);
        for (int i = 0; i < p->rows; i++)
            seconds[i] += slope[i] * by;
    }
    for (int i = 0; i < p->rows; i++) /* a plane goes on below nothing */
        seconds[i] = fmax(seconds[i], 1e-3 * p->base[i]);
}

enum sn_status plane_create(struct plane *p, int n, int rows, struct sn_err *err)
{
    *p = (struct plane){.n = n, .rows = rows};
    p->base = sn_alloc_n((size_t)rows + 1, sizeof(*p->base));
    p->slope = sn_alloc_n((size_t)rows * (size_t)n + 1, sizeof(*p->slope));
    if (p->base && p->slope)
        return SN_OK;
    plane_fini(p);
    return sn_fail(err, SN_ENOMEM, "fit: no memory for %d rows", rows);
}

void plane_fini(struct plane *p)
{
    sn_free(p->base);
    sn_free(p->slope);
    *p = (struct plane){0};
}
