#include "lib/campaign/held.h"

#include <math.h>

/* Below this a run does not end in anybody's time. */
static const double LEAST = 1e-3;

double sn_slow_pace(const struct sn_slow *s)
{
    if (s->every <= 0)
        return 1;
    double none = exp(-s->lasts / s->every);
    return none + (1 - none) / s->factor;
}

/* Mean and variance of a job that ends by a failure or at its limit. */
static void job_length(double *mean, double *variance, double mtbf, double limit)
{
    double x = limit / mtbf;
    *mean = -mtbf * expm1(-x);
    *variance = 2 * mtbf * mtbf * (1 - exp(-x) * (1 + x)) - *mean * *mean;
}

/* U above. */
static double job_work(const struct sn_failures *f, double tau, double limit)
{
    double m = f->mtbf, c = tau + f->pause;
    double room = limit - f->pause - f->write - f->restart;
    double saves = floor(room / c);
    double rest = fmin(tau, room - saves * c);
    return tau * exp(-(f->restart + f->write) / m) * -expm1(-saves * c / m) / expm1(c / m) +
           rest * exp(-limit / m);
}

static void requeued(struct sn_held_time *out, const struct sn_terms *t, double work, double tau)
{
    const struct sn_failures *f = &t->failures;
    double ends = f->restart + f->pause + f->write, mean, variance;
    if (t->limit <= 0) {
        out->seconds = work / sn_goodput_fraction(f, tau) + ends;
        out->jobs = out->seconds / f->mtbf + 1;
        return;
    }
    job_length(&mean, &variance, f->mtbf, t->limit);
    out->seconds = work * mean / job_work(f, tau, t->limit) + ends / 2;
    out->jobs = fmax(out->seconds / mean + (variance + mean * mean) / (2 * mean * mean),
                     ceil(out->seconds / t->limit));
}

static void in_place(struct sn_held_time *out, const struct sn_terms *t, double work, double tau)
{
    const struct sn_failures *f = &t->failures;
    double ends = f->restart + f->pause + f->write, part = sn_goodput_fraction(f, tau);
    out->jobs = t->limit > 0 ? ceil(work / (part * (t->limit - ends))) : 1;
    out->seconds = work / part + out->jobs * ends;
}

enum sn_status sn_held_find(struct sn_held_time *out, const struct sn_terms *t, struct sn_err *err)
{
    const struct sn_failures *f = &t->failures;
    double pace = sn_slow_pace(&t->slow), work = t->work / pace, tau = t->interval / pace;
    double ends = f->restart + f->pause + f->write;
    struct sn_held_time h = {0};
    if (t->limit > 0 && t->limit <= ends)
        return sn_fail(
            err, SN_EINPUT,
            "a job of %.0f s is over before it has started and saved, which take %.0f s; "
            "want a longer slurm.time",
            t->limit, ends);
    if (t->in_place)
        in_place(&h, t, work, tau);
    else
        requeued(&h, t, work, tau);
    if (!((h.seconds - ends) * LEAST <= t->work))
        return sn_fail(err, SN_EINPUT,
                       "failures every %.0f s leave less than %g of the time, with %.0f s between "
                       "saves and %.0f s for a restart; want fewer nodes or a longer mtbf_hours",
                       f->mtbf, LEAST, t->interval, f->restart);
    h.failures = h.seconds / f->mtbf;
    h.fraction = t->work / h.seconds;
    *out = h;
    return SN_OK;
}
