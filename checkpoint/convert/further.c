/*
 * further.c - a checkpoint without blocks for multi-token prediction, or with fewer: what is behind them stays as
 * it is, for nothing of the model reads them.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"

#include <stdio.h>

enum sn_status sn_source_further(struct sn_source *out, struct sn_source *inner, int mtp,
                                 int *dropped, struct sn_err *err)
{
    struct sn_config c;
    struct sn_tiled *t;
    SN_TRY(sn_model_text_parse(&c, inner->model_text, inner->name, err));
    int had = c.model.mtp;
    if (mtp > had)
        return sn_fail(
            err, SN_EINPUT,
            "%s: has %d blocks for multi-token prediction (model.mtp), not %d; want --mtp 0..%d",
            inner->name, had, mtp, had);
    c.model.mtp = mtp;
    SN_TRY(sn_tiled_create(&t, inner, inner->n_tensors, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < inner->n_tensors && st == SN_OK; i++) {
        const char *rest;
        struct sn_tensor_tile same = {.from = i, .rows = 1, .cols = 1, .divisor = 1};
        if (sn_source_layer(inner->tensors[i].name, &rest) < sn_model_blocks(&c.model))
            st = sn_tiled_add(t, inner->tensors[i].name, same, err);
    }
    char what[32];
    (void)snprintf(what, sizeof(what), "mtp %d", mtp);
    if (st == SN_OK)
        st = sn_tiled_finish(out, t, inner, &c, what, err);
    if (st == SN_OK)
        *dropped = had - mtp;
    else
        sn_tiled_destroy(t);
    return st;
}
