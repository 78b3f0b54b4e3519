/*
 * upcycle.c - sparse upcycling (Komatsuzaki et al. 2022, arXiv 2212.05055): a dense llama becomes a
 * mixture of experts, each a copy of its layer's feed-forward part, with a new router.
 *
 * Whatever the router chooses, the weights of a token's experts sum to 1, so that the function is
 * the dense one's; and with equal experts the weights' gradients are zero, so that the gradient of
 * the dense matrix is the sum of those of its E copies. Moments follow the mean: g / E for a
 * mean of gradients, its square for one of squares. Experts part because each sees other tokens.
 *
 * The router is drawn with the model's init_std (zeros would send all tokens to the first experts);
 * its moments are zero.
 */
#include "checkpoint/convert/tile.h"
#include "checkpoint/store/model_text.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"

#include <stdio.h>
#include <string.h>

struct upcycling {
    struct sn_tiled *to;
    const struct sn_source *inner;
    int experts;
    int64_t hidden;
    float std;
};

/* What a copy's moments are divided by; 0 for an unknown group. */
static float divisor(const char *group, int experts)
{
    float e = (float)experts;
    if (strcmp(group, "model") == 0 || strcmp(group, "ema") == 0)
        return 1;
    int power = sn_moment_power(group);
    return power == 2 ? e * e : power == 1 ? e : 0;
}

/* "layers.3.ffn." of "layers.3.ffn.gate.weight", and what follows it; 0 for another tensor. */
static int stem_of(const char *name, const char **rest)
{
    static const char *const kinds[] = {"gate.weight", "up.weight", "down.weight"};
    const char *ffn = strstr(name, ".ffn.");
    for (size_t i = 0; ffn && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        *rest = ffn + strlen(".ffn.");
        if (strcmp(*rest, kinds[i]) == 0)
            return (int)(*rest - name);
    }
    return 0;
}

static enum sn_status add_router(const struct upcycling *u, int like, int stem, struct sn_err *err)
{
    const struct sn_source_tensor *t = &u->inner->tensors[like];
    bool weights = strcmp(t->group, "model") == 0 || strcmp(t->group, "ema") == 0;
    struct sn_box size = {.rows = u->experts, .cols = u->hidden};
    char *name = sn_format("%.*srouter.weight", stem, t->name);
    enum sn_status st =
        name ? sn_tiled_add_new(u->to, name, like, size, weights ? u->std : 0, err)
             : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", u->inner->name);
    sn_free(name);
    return st;
}

static enum sn_status add(const struct upcycling *u, int from, struct sn_err *err)
{
    const struct sn_source_tensor *t = &u->inner->tensors[from];
    const char *rest = "";
    int stem = stem_of(t->name, &rest);
    struct sn_tensor_tile tile = {.from = from, .rows = 1, .cols = 1, .divisor = 1};
    if (stem == 0)
        return sn_tiled_add(u->to, t->name, tile, err);
    tile.divisor = divisor(t->group, u->experts);
    if (tile.divisor == 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: upcycle: '%s' is of group '%s', and no optimizer has such moments; "
                       "known are model and the moments of optimizers",
                       u->inner->name, t->name, t->group);
    for (int e = 0; e < u->experts; e++) {
        char *name = sn_format("%.*sexperts.%d.%s", stem, t->name, e, rest);
        enum sn_status st =
            name ? sn_tiled_add(u->to, name, tile, err)
                 : sn_fail(err, SN_ENOMEM, "%s: no memory to list its tensors", u->inner->name);
        sn_free(name);
        SN_TRY(st);
    }
    return strcmp(rest, "gate.weight") == 0 ? add_router(u, from, stem, err) : SN_OK;
}

static bool can_have_experts(enum sn_family f)
{
    enum sn_family with;
    return sn_family_with_experts(f, &with);
}

static enum sn_status check(const struct sn_model_config *m, int experts, int top_k,
                            const char *name, struct sn_err *err)
{
    char names[SN_FAMILIES_SIZE];
    if (!can_have_experts(m->family))
        return sn_fail(err, SN_EINPUT,
                       "%s: upcycle: is of family %s; want a dense %s, for which there is a family "
                       "with experts",
                       name, sn_family_name(m->family), sn_families_that(names, can_have_experts));
    if (m->mtp > 0)
        return sn_fail(err, SN_EINPUT,
                       "%s: upcycle: has model.mtp: %d, whose blocks are not turned yet; drop them with --mtp 0",
                       name, m->mtp);
    if (m->mlp_bias)
        return sn_fail(err, SN_EINPUT,
                       "%s: upcycle: has model.mlp_bias: true, and experts have no biases; want a "
                       "model without",
                       name);
    if (experts < 2 || experts > 1024 || top_k < 1 || top_k > experts)
        return sn_fail(err, SN_EINPUT,
                       "upcycle: %d experts, %d of them for a token; want 2 to 1024, and from 1 to "
                       "as many",
                       experts, top_k);
    return SN_OK;
}

enum sn_status sn_source_upcycle(struct sn_source *out, struct sn_source *inner, int experts,
                                 int top_k, struct sn_err *err)
{
    struct sn_config c;
    struct upcycling u = {.inner = inner, .experts = experts};
    char what[64];
    SN_TRY(sn_model_text_parse(&c, inner->model_text, inner->name, err));
    SN_TRY(check(&c.model, experts, top_k, inner->name, err));
    u.hidden = c.model.hidden;
    u.std = c.model.init_std > 0 ? (float)c.model.init_std : 0.02f; /* a checkpoint does not say */
    (void)sn_family_with_experts(c.model.family, &c.model.family);  /* there is one: check */
    c.model.experts.count = experts;
    c.model.experts.top_k = top_k;
    (void)snprintf(what, sizeof(what), "upcycle %d of %d", top_k, experts);
    SN_TRY(sn_tiled_create(&u.to, inner, (int64_t)inner->n_tensors * (experts + 1), err));
    enum sn_status st = SN_OK;
    for (int i = 0; i < inner->n_tensors && st == SN_OK; i++)
        st = add(&u, i, err);
    if (st == SN_OK)
        st = sn_tiled_finish(out, u.to, inner, &c, what, err);
    if (st != SN_OK)
        sn_tiled_destroy(u.to);
    return st;
}
