#include "lib/config/batch.h"

int sn_batch_sizes(const struct sn_train_config *t)
{
    return t->ramp.n_batches + 1;
}

int sn_batch_size(const struct sn_train_config *t, int k, int64_t *first, int64_t *last)
{
    bool is_last = k == t->ramp.n_batches;
    *first = k > 0 ? t->ramp.ends[k - 1] + 1 : 1;
    *last = is_last || t->ramp.ends[k] > t->steps ? t->steps : t->ramp.ends[k];
    return is_last ? t->global_batch : t->ramp.batches[k];
}

int sn_batch_number(const struct sn_train_config *t, int64_t step)
{
    int k = 0;
    while (k < t->ramp.n_batches && step > t->ramp.ends[k])
        k++;
    return k;
}

int sn_batch_of(const struct sn_train_config *t, int64_t step)
{
    int k = sn_batch_number(t, step);
    return k < t->ramp.n_batches ? t->ramp.batches[k] : t->global_batch;
}

int64_t sn_samples_before(const struct sn_train_config *t, int64_t step)
{
    int64_t n = 0, from = 0; /* steps that are counted */
    for (int k = 0; k < t->ramp.n_batches && from < step - 1; k++) {
        int64_t end = t->ramp.ends[k] < step - 1 ? t->ramp.ends[k] : step - 1;
        n += (end - from) * t->ramp.batches[k];
        from = end;
    }
    return n + (step - 1 - from) * t->global_batch;
}

int sn_batch_divisor(const struct sn_train_config *t)
{
    int d = t->global_batch;
    for (int k = 0; k < t->ramp.n_batches; k++)
        for (int rest = t->ramp.batches[k]; rest > 0;) {
            int next = d % rest;
            d = rest;
            rest = next;
        }
    return d;
}

int sn_batch_misfit(const struct sn_train_config *t, int64_t unit)
{
    for (int k = 0; k < t->ramp.n_batches; k++)
        if (t->ramp.batches[k] % unit != 0)
            return t->ramp.batches[k];
    return t->global_batch % unit != 0 ? t->global_batch : 0;
}

const char *sn_batch_key(const struct sn_train_config *t, int size)
{
    return size == t->global_batch ? "train.global_batch" : "train.ramp.batches";
}

void sn_batch_set(struct sn_train_config *t, int n)
{
    t->global_batch = n;
    t->ramp.n_batches = 0;
}

int sn_lengths(const struct sn_config *c)
{
    return c->data.curriculum.n_lengths + 1;
}

int sn_length(const struct sn_config *c, int k, int64_t *first, int64_t *last)
{
    const struct sn_curriculum_config *u = &c->data.curriculum;
    bool is_last = k == u->n_lengths;
    *first = k > 0 ? (int64_t)u->until[k - 1] + 1 : 1;
    *last = is_last || u->until[k] > c->train.steps ? c->train.steps : u->until[k];
    return is_last ? c->model.seq : u->lengths[k];
}

int sn_length_of(const struct sn_config *c, int64_t step)
{
    const struct sn_curriculum_config *u = &c->data.curriculum;
    int k = 0;
    while (k < u->n_lengths && step > u->until[k])
        k++;
    return k < u->n_lengths ? u->lengths[k] : c->model.seq;
}

int sn_starts_columns(const struct sn_config *c)
{
    if (c->data.prefix != SN_PREFIX_NONE)
        return 2;
    return c->data.documents == SN_DOCUMENTS_APART || sn_lengths(c) > 1;
}
