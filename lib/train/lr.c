#include "lib/train/lr.h"

#include <math.h>

double sn_lr_at(const struct sn_train_config *t, int64_t step)
{
    double lr = t->optimizer.lr, least = t->schedule.min_lr;
    int64_t warmup = t->schedule.warmup;
    if (step <= warmup)
        return lr * (double)step / (double)warmup;
    int64_t span = t->steps > warmup ? t->steps - warmup : 1;
    double x = (double)(step - warmup) / (double)span;
    x = x > 1 ? 1 : x;
    switch (t->schedule.kind) {
    case SN_LR_CONSTANT:
        return lr;
    case SN_LR_LINEAR:
        return lr + (least - lr) * x;
    case SN_LR_COSINE:
        break;
    }
    return least + 0.5 * (lr - least) * (1.0 + cos(3.14159265358979323846 * x));
}
