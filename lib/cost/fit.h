/*
 * fit.h - the rates of a device from operations that were measured on it.
 *
 * Arithmetic only: who measures is lib/probe/calibrate.h. The formulas are those of machine.h; what
 * is minimised is the mean square of log(formula / measured), so that a short operation counts as
 * much as a long one.
 */
#ifndef SN_FIT_H
#define SN_FIT_H

#include "lib/machine/machine.h"

/* One operation as it was measured: what machine.h's `measured` keeps,
 * and what the formulas read. */
struct sn_sample {
    struct sn_measured what;
    double flops;  /* of products; else 0 */
    int64_t bytes; /* that it moves at least (cost.h) */
    int64_t seq;   /* attention: keys of a sample */
    double weight; /* how many operations it is the mean of */
};

/* A growing list; no two of the same kind, type and shape. */
struct sn_samples {
    struct sn_sample *v;
    int n, cap;
};

/* Add a measurement; one of the same shape becomes the mean of both, by weight. */
enum sn_status sn_samples_add(struct sn_samples *s, const struct sn_sample *x, struct sn_err *err);
void sn_samples_fini(struct sn_samples *s); /* zeroed ones are allowed */

/* Set overhead, gemm, attention, moved and half_bytes of *d. Its bandwidth and peaks are known: a
 * fraction of them is what is fitted; a product that was faster than the peak is the peak. Where no
 * sample tells of a rate it stays as it was; a type of which there is no product gets the fractions
 * of one that was measured. */
void sn_fit_device(struct sn_machine_device *d, const struct sn_samples *s);

/* A function of n variables, all positive: change *x, downhill, until no step of 1 % helps. */
typedef double sn_loss(const double *x, const void *arg);
void sn_fit_minimise(double *x, int n, sn_loss *loss, const void *arg);

#endif
