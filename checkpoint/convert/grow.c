/*
 * grow.c - HyperCloning (Samragh et al. 2024, arXiv 2409.12903): n copies of every width side by
 * side, and the same function.
 *
 * What is x in the small model is (x, x, ... x) in the large one: the residual stream, the heads
 * (whole ones, so head_dim and the scale of attention stay; query head i H + h of the large model
 * meets key head i G + h / (H / G), copy i of its partner) and the inner width of the ffn. A matrix
 * W between two of them becomes tile(W, n x n) / n: every output adds n equal parts. Means and
 * variances in norms are those of x. The head has one input of n copies and no copies of outputs:
 * tile(W, 1 x n) / n. Tied, it is the embedding, which cannot be divided as long as it embeds; the
 * vector that it meets is divided instead: the final norm's weight and bias.
 *
 * So each kind of tensor has a number of copies m of each element and a factor f, in the table
 * below. The factor of its gradient follows. Let copies change places, in one of the spaces alone
 * (residual stream, heads of a layer, ffn of a layer): the function stays what it is, and the grown
 * weights stay what they are, so the gradients of all m copies of an element are equal, say g'.
 * Moving the small element by e moves its copies by f e, and both models do the same:
 *
 *     m f g' = g,  that is  g' = s g  with  s = 1 / (m f)
 *
 *     matrices between widths      m = n n   f = 1/n   s = 1/n
 *     embedding, positions         m = n     f = 1     s = 1/n   (tied or not)
 *     biases, norms                m = n     f = 1     s = 1/n
 *     head                         m = n     f = 1/n   s = 1
 *     final norm of a tied model   m = n     f = 1/n   s = 1
 *
 * A moment that is a mean of gradients is multiplied by s, one of their squares by s s. tests/unit/checkpoint/test_grow_train.c holds the table against gradients of compiled models.
 *
 * Equal gradients would keep the copies equal for ever: dropout breaks the tie, nothing else does
 * here, where sums are made in the same order for all of them. So the weights that are divided get
 * noise that cancels over the copies of their input (checkpoint/convert/tile.h); the function is unchanged,
 * the gradients and with them the moments are those of the table but for a part of its size.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/str.h"

#include <stdio.h>
#include <string.h>

enum { LEAST = 2, MOST = 64 };
enum division { NO, YES, IF_TIED };

/* The first pattern that fits decides. */
static const struct kind {
    const char *pattern;
    bool rows, cols;        /* repeated along */
    enum division division; /* f is 1 / n */
} kinds[] = {
    {"embed.weight", false, true, NO},    {"embed.position", false, true, NO},
    {"head.weight", false, true, YES},    {"final_norm.*", true, false, IF_TIED},
    {"layers.*_norm.*", true, false, NO}, {"layers.*.bias", true, false, NO},
    {"layers.*.weight", true, true, YES},
};

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (sn_str_glob(kinds[i].pattern, name))
            return &kinds[i];
    return NULL;
}

struct growth {
    int n;
    bool tied;
    float noise;
};

/* How tensor `from` appears in the larger model. */
static enum sn_status tile_of(struct sn_tensor_tile *out, const struct sn_source *inner, int from,
                              const struct growth *g, struct sn_err *err)
{
    const struct sn_source_tensor *t = &inner->tensors[from];
    const struct kind *k = kind_of(t->name);
    if (!k)
        return sn_fail(err, SN_EINPUT, "%s: grow: nothing is known about tensors such as '%s'",
                       inner->name, t->name);
    int rows = k->rows ? g->n : 1, cols = k->cols ? g->n : 1;
    int f = k->division == YES || (k->division == IF_TIED && g->tied) ? g->n : 1; /* 1 / f */
    int s = rows * cols / f;                                                      /* 1 / s */
    *out = (struct sn_tensor_tile){.from = from, .rows = rows, .cols = cols};
    int power = sn_moment_power(t->group);
    if (strcmp(t->group, "model") == 0 || strcmp(t->group, "ema") == 0) {
        out->divisor = (float)f;
        out->noise = k->cols && f > 1 ? g->noise : 0;
        return SN_OK;
    }
    if (power == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: grow: '%s' is of group '%s', and no optimizer has such moments; known "
                       "are model and the moments of optimizers",
                       inner->name, t->name, t->group);
    out->divisor = (float)(power == 2 ? s * s : s);
    return SN_OK;
}

static enum sn_status list(struct sn_tiled *t, const struct sn_source *inner,
                           const struct growth *g, struct sn_err *err)
{
    struct sn_tensor_tile tile;
    for (int i = 0; i < inner->n_tensors; i++) {
        SN_TRY(tile_of(&tile, inner, i, g, err));
        SN_TRY(sn_tiled_add(t, inner->tensors[i].name, tile, err));
    }
    return SN_OK;
}

enum sn_status sn_source_grow(struct sn_source *out, struct sn_source *inner, int n, double noise,
                              struct sn_err *err)
{
    struct sn_config c;
    struct sn_tiled *t;
    char what[64];
    if (n < LEAST || n > MOST)
        return sn_fail(err, SN_EINPUT,
                       "grow: %d times is outside %d..%d; want a whole number such as 2", n, LEAST,
                       MOST);
    if (!(noise >= 0 && noise <= SN_GROW_NOISE_MAX))
        return sn_fail(err, SN_EINPUT,
                       "grow: noise of %g is outside 0..%g; want a number such as %g", noise,
                       SN_GROW_NOISE_MAX, SN_GROW_NOISE);
    SN_TRY(sn_model_text_parse(&c, inner->model_text, inner->name, err));
    if (c.model.experts.count > 0)
        return sn_fail(
            err, SN_EINPUT,
            "grow: %s has experts, and growing those is not built yet; want a dense model",
            inner->name);
    if (c.model.mtp > 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: grow: has model.mtp: %d, whose blocks are not grown yet; drop them with --mtp 0",
                       inner->name, c.model.mtp);
    struct growth g = {n, c.model.tied_embeddings, (float)noise};
    c.model.hidden *= n; /* past their bounds: sn_tiled_finish says so */
    c.model.heads *= n;
    c.model.kv_heads *= n;
    c.model.ffn *= n;
    (void)snprintf(what, sizeof(what), "grow %dx, noise %.9g", n, noise);
    SN_TRY(sn_tiled_create(&t, inner, inner->n_tensors, err));
    enum sn_status st = list(t, inner, &g, err);
    if (st == SN_OK)
        st = sn_tiled_finish(out, t, inner, &c, what, err);
    if (st != SN_OK)
        sn_tiled_destroy(t);
    return st;
}
