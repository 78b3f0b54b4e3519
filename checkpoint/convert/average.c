/*
 * average.c - the averages of weights (train.ema) in the weights' place: weights alone, of which those that
 * were not trained are as they were.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/mem.h"

#include <string.h>

static enum sn_status list(struct sn_tiled *t, const struct sn_source *inner, struct sn_err *err)
{
    int averages = 0;
    for (int i = 0; i < inner->n_tensors; i++) {
        const struct sn_source_tensor *w = &inner->tensors[i];
        if (strcmp(w->group, "model") != 0)
            continue;
        int average = sn_source_find(inner, "ema", w->name);
        struct sn_tensor_tile same = {
            .from = average < 0 ? i : average, .rows = 1, .cols = 1, .divisor = 1};
        SN_TRY(sn_tiled_add_as(t, w, same, err));
        averages += average >= 0;
    }
    if (averages > 0)
        return SN_OK;
    return sn_fail(err, SN_EINPUT,
                   "%s: has no averages of weights; want a checkpoint of a run with train.ema, or "
                   "leave --ema out",
                   inner->name);
}

enum sn_status sn_source_average(struct sn_source *out, struct sn_source *inner, struct sn_err *err)
{
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    struct sn_tiled *t = NULL;
    if (!c)
        return sn_fail(err, SN_ENOMEM, "%s: no memory for its model", inner->name);
    enum sn_status st = sn_model_text_parse(c, inner->model_text, inner->name, err);
    if (st == SN_OK)
        st = sn_tiled_create(&t, inner, inner->n_tensors, err);
    if (st == SN_OK)
        st = list(t, inner, err);
    if (st == SN_OK)
        st = sn_tiled_finish(out, t, inner, c, "ema", err);
    if (st != SN_OK)
        sn_tiled_destroy(t);
    sn_free(c);
    return st;
}
