#include "lib/config/batch.h"

int sn_batch_of(const struct sn_train_config *t, int64_t step)
{
    (void)step;
    return t->global_batch;
}

int64_t sn_samples_before(const struct sn_train_config *t, int64_t step)
{
    return (step - 1) * t->global_batch;
}
