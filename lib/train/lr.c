#include "lib/train/lr.h"

#include <math.h>

/* Behind the warm-up. */
struct progress {
    double lr, least;
    double x; /* part of the steps behind it, 0 .. 1 */
    double step, warmup;
};

static double rate_constant(const struct progress *p)
{
    return p->lr;
}

static double rate_linear(const struct progress *p)
{
    return p->lr + (p->least - p->lr) * p->x;
}

static double rate_cosine(const struct progress *p)
{
    return p->least + 0.5 * (p->lr - p->least) * (1.0 + cos(3.14159265358979323846 * p->x));
}

static double rate_rsqrt(const struct progress *p)
{
    return fmax(p->least, p->lr * sqrt(fmax(p->warmup, 1) / p->step));
}

#define RATE_OF(id, word, ...) [id] = rate_##word,
static double (*const rates[SN_NLR_KINDS])(const struct progress *p) = {SN_LR_SCHEDULES(RATE_OF)};

double sn_lr_at(const struct sn_train_config *t, int64_t step)
{
    double lr = t->optimizer.lr;
    int64_t warmup = t->schedule.warmup;
    if (step <= warmup)
        return lr * (double)step / (double)warmup;
    int64_t span = t->steps > warmup ? t->steps - warmup : 1;
    double x = (double)(step - warmup) / (double)span;
    struct progress p = {lr, t->schedule.min_lr, x > 1 ? 1 : x, (double)step, (double)warmup};
    return rates[t->schedule.kind](&p);
}
