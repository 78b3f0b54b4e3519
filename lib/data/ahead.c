/*
 * ahead.c - see ahead.h. What was read is copied: the copy of the last batch to the device may not
 * have begun when the next one is read.
 */
#include "lib/data/ahead.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"

#include <string.h>

enum sn_status sn_ahead_init(struct sn_ahead *a, const struct sn_loader *l, int64_t tokens,
                             int micros, struct sn_err *err)
{
    *a = (struct sn_ahead){.tokens = tokens, .micros = micros};
    a->first_sample = sn_alloc_n((size_t)micros, sizeof(*a->first_sample));
    int64_t samples = (int64_t)micros * l->sequences;
    a->starts = l->starts ? samples * l->place.seq * sn_starts_columns(l->config) : 0;
    a->features = l->features ? samples * sn_loader_features(l) : 0;
    a->further = l->further ? 2 * tokens * l->config->model.mtp : 0;
    a->loader.ids =
        sn_alloc_n((size_t)(3 * tokens + a->starts + a->further), sizeof(*a->loader.ids));
    if (a->features)
        a->loader.features = sn_alloc_n((size_t)a->features, sizeof(*a->loader.features));
    if (!a->first_sample || !a->loader.ids || (a->features && !a->loader.features)) {
        sn_ahead_fini(a);
        return sn_fail(err, SN_ENOMEM, "data: no memory for the next step's %lld tokens",
                       (long long)tokens);
    }
    int32_t *ids = a->loader.ids;
    float *features = a->loader.features;
    a->loader = *l;
    a->loader.features = features;
    a->loader.ids = ids;
    a->loader.targets = ids + tokens;
    a->loader.sets = l->sets ? ids + 2 * tokens : NULL;
    a->loader.starts = a->starts ? ids + 3 * tokens : NULL;
    a->loader.further = a->further ? ids + 3 * tokens + a->starts : NULL;
    return SN_OK;
}

enum sn_status sn_ahead_open(struct sn_ahead *a, const struct sn_loader *l, struct sn_exec *x,
                             const struct sn_job *job, struct sn_err *err)
{
    const struct sn_buffer *ids = &job->train.bufs[job->ids];
    SN_TRY(sn_ahead_init(a, l, ids->rows * ids->cols, job->train.micros, err));
    sn_exec_set_idle(x, sn_ahead_read, a);
    return SN_OK;
}

void sn_ahead_fini(struct sn_ahead *a)
{
    sn_free(a->first_sample);
    sn_free(a->loader.ids);
    sn_free(a->loader.features);
    *a = (struct sn_ahead){0};
}

void sn_ahead_read(void *ahead)
{
    struct sn_ahead *a = ahead;
    if (!a->loader.corpus || a->wanted == a->step)
        return;
    a->step = a->wanted;
    a->err = (struct sn_err){0};
    a->status = sn_loader_step(&a->loader, a->step, sn_loader_micros(&a->loader, a->step),
                               a->first_sample, &a->count, &a->err);
}

enum sn_status sn_ahead_take(struct sn_ahead *a, const struct sn_loader *l, int64_t step,
                             int micros, int64_t *first_sample, struct sn_sample_count *count,
                             struct sn_err *err)
{
    if (!a->loader.corpus || a->step != step)
        return sn_loader_step(l, step, micros, first_sample, count, err);
    a->step = a->wanted = 0;
    if (a->status != SN_OK) {
        *err = a->err;
        return a->status;
    }
    size_t bytes = (size_t)a->tokens * sizeof(*a->loader.ids);
    memcpy(l->ids, a->loader.ids, bytes);
    memcpy(l->targets, a->loader.targets, bytes);
    if (l->sets)
        memcpy(l->sets, a->loader.sets, bytes);
    if (a->starts)
        memcpy(l->starts, a->loader.starts, (size_t)a->starts * sizeof(*l->starts));
    if (a->features)
        memcpy(l->features, a->loader.features, (size_t)a->features * sizeof(*l->features));
    if (a->further)
        memcpy(l->further, a->loader.further, (size_t)a->further * sizeof(*l->further));
    *count = a->count;
    memcpy(first_sample, a->first_sample, (size_t)micros * sizeof(*first_sample));
    return SN_OK;
}
