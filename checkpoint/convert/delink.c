/*
 * delink.c - Pseudo-to-Real (Yang et al. 2021, arXiv 2110.03888): layers that shared one set of
 * weights get one each, a copy.
 *
 * With model.share_layers k, layers l, l + 1, ... l + k - 1 use the tensors of layer l, a multiple
 * of k; no others exist. Moments are copied too, though they are those of the sum of k gradients:
 * direction and relative size are worth more than zeros, and Adam forgets the wrong size within
 * 1 / (1 - beta2) steps.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/mem.h"

/* Tensor `from`, once for every layer that uses it. */
static enum sn_status add(struct sn_tiled *t, const struct sn_source *inner, int from,
                          const struct sn_model_config *m, struct sn_err *err)
{
    const char *name = inner->tensors[from].name, *rest = "";
    struct sn_tensor_tile same = {.from = from, .rows = 1, .cols = 1, .divisor = 1};
    int first = sn_source_layer(name, &rest);
    if (first < 0 || (first >= m->layers && first < sn_model_blocks(m)))
        return sn_tiled_add(t, name, same, err);
    if (first >= m->layers || first % m->share_layers != 0)
        return sn_fail(
            err, SN_EINPUT,
            "%s: tensor '%s' has no place in a model of %d layers, of which %d at a time "
            "share theirs",
            inner->name, name, m->layers, m->share_layers);
    for (int l = first; l < first + m->share_layers; l++) {
        char *own = sn_format("layers.%d%s", l, rest);
        enum sn_status st =
            own ? sn_tiled_add(t, own, same, err)
                : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", inner->name);
        sn_free(own);
        SN_TRY(st);
    }
    return SN_OK;
}

enum sn_status sn_source_delink(struct sn_source *out, struct sn_source *inner, struct sn_err *err)
{
    struct sn_config c;
    struct sn_tiled *t;
    SN_TRY(sn_model_text_parse(&c, inner->model_text, inner->name, err));
    const struct sn_model_config m = c.model;
    if (m.share_layers == 1)
        return sn_fail(err, SN_EINPUT,
                       "%s: delink: no layers share weights (model.share_layers is 1)",
                       inner->name);
    SN_TRY(sn_tiled_create(&t, inner, (int64_t)inner->n_tensors * m.share_layers, err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < inner->n_tensors && st == SN_OK; i++)
        st = add(t, inner, i, &m, err);
    c.model.share_layers = 1;
    if (st == SN_OK)
        st = sn_tiled_finish(out, t, inner, &c, "delink", err);
    if (st != SN_OK)
        sn_tiled_destroy(t);
    return st;
}
