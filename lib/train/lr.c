#include "lib/train/lr.h"

#include <math.h>

/* Behind the warm-up. */
struct progress {
    double lr, least;
    double x; /* part of the steps behind it, 0 .. 1 */
    double step, warmup;
    double y; /* part of the last `decay` steps behind it, 0 .. 1 */
};

static double rate_constant(const struct progress *p)
{
    return p->lr;
}

static double rate_linear(const struct progress *p)
{
    return p->lr + (p->least - p->lr) * p->x;
}

/* From lr to least while `part` goes from 0 to 1. */
static double half_cosine(const struct progress *p, double part)
{
    return p->least + 0.5 * (p->lr - p->least) * (1.0 + cos(3.14159265358979323846 * part));
}

static double rate_cosine(const struct progress *p)
{
    return half_cosine(p, p->x);
}

static double rate_rsqrt(const struct progress *p)
{
    return fmax(p->least, p->lr * sqrt(fmax(p->warmup, 1) / p->step));
}

static double rate_wsd(const struct progress *p)
{
    return p->lr + (p->least - p->lr) * p->y;
}

static double rate_wsd_sqrt(const struct progress *p)
{
    return p->lr + (p->least - p->lr) * sqrt(p->y);
}

static double rate_wsd_cosine(const struct progress *p)
{
    return half_cosine(p, p->y);
}

#define RATE_OF(id, word, ...) [id] = rate_##word,
static double (*const rates[SN_NLR_KINDS])(const struct progress *p) = {SN_LR_SCHEDULES(RATE_OF)};

/* Part of `span` steps that is behind `step` when `before` steps came first. */
static double part(int64_t step, int64_t before, int64_t span)
{
    double x = (double)(step - before) / (double)(span > 0 ? span : 1);
    return x > 1 ? 1 : x < 0 ? 0 : x;
}

double sn_lr_at(const struct sn_train_config *t, int64_t step)
{
    double lr = t->optimizer.lr;
    int64_t warmup = t->schedule.warmup, decay = t->schedule.decay;
    if (step <= warmup)
        return lr * (double)step / (double)warmup;
    struct progress p = {.lr = lr,
                         .least = t->schedule.min_lr,
                         .x = part(step, warmup, t->steps - warmup),
                         .step = (double)step,
                         .warmup = (double)warmup,
                         .y = part(step, t->steps - decay, decay)};
    return rates[t->schedule.kind](&p);
}
