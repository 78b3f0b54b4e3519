/*
 * estimate_gathered.c - weights that stay gathered for a step (layout.zero_cache): in which units, what
 * they take, what the micro-batch that gathers them takes longer, and how many fit.
 */
#include "lib/search/estimate_inner.h"

#include "kernels/round.h"
#include "lib/layout/zero_cache.h"
#include "lib/search/fit_cache.h"

#include <math.h>

enum { PAGE = 4096 };

/* --- which ------------------------------------------------------------------------------------ */

static bool has_table_twice(const struct sn_estimation *k)
{
    return k->pipe.stages == 1 && sn_model_table_is_shared(&k->e->config.model);
}

/* Is it a layer whose weights another one has already? */
static bool is_shared(const struct sn_estimation *k, const struct sn_extent *x, int module,
                      int unit)
{
    int layer = unit - x->first, every = k->e->config.model.share_layers;
    return layer >= 0 && layer < x->layers && (k->begin[module] + layer) % every != 0;
}

static int units_of(const struct sn_extent *x)
{
    return x->layers + x->first + x->last;
}

/* The units of a stage that have weights of their own; their places in e->keeps go to `at`. */
static struct sn_cache_stage list_stage(const struct sn_estimation *k, int stage, int *module,
                                        int *at)
{
    bool again = k->pipe.micros > 1;
    struct sn_cache_stage s = {
        .module = module, .first_again = again || has_table_twice(k), .last_again = again};
    for (int v = 0; v < k->pipe.virtual_stages; v++) {
        int i = v * k->pipe.stages + stage;
        struct sn_extent x = sn_module_extent(k, i);
        s.first |= x.first;
        s.last |= x.last;
        for (int u = 0; u < units_of(&x); u++) {
            if (is_shared(k, &x, i, u))
                continue;
            module[s.units] = i;
            at[s.units++] = sn_keeps_at(k, i) + u;
        }
    }
    return s;
}

/* Who has weights that another unit keeps gathers none, and keeps none. */
static void follow(struct sn_estimation *k)
{
    unsigned char *keeps = k->e->keeps;
    if (k->modules > 1)
        return;
    struct sn_extent x = sn_module_extent(k, 0);
    for (int u = 1; u < units_of(&x); u++)
        if (is_shared(k, &x, 0, u))
            keeps[u] = keeps[u - 1] == SN_KEEPS_NONE ? SN_KEEPS_NONE : SN_KEEPS_OTHERS;
    if (keeps[0] == SN_KEEPS_OWN && has_table_twice(k) && keeps[x.layers + 1] == SN_KEEPS_NONE)
        keeps[x.layers + 1] = SN_KEEPS_OTHERS;
}

/* n units of each stage; how many those are of the stage that has most. */
static int choose(struct sn_estimation *k, int n)
{
    int *module = k->e->units, *at = module + k->e->config.model.layers + 2, most = 0;
    bool *picked = k->e->picked;
    k->keeps = n > 0;
    for (int s = 0; s < k->pipe.stages && n > 0; s++) {
        struct sn_cache_stage stage = list_stage(k, s, module, at);
        int kept = sn_cache_choose(picked, &stage, n);
        most = kept > most ? kept : most;
        for (int u = 0; u < stage.units; u++)
            k->e->keeps[at[u]] = picked[u] ? SN_KEEPS_OWN : SN_KEEPS_NONE;
    }
    if (n > 0)
        follow(k);
    k->e->config.layout.zero_cache = most;
    return most;
}

/* --- what they take --------------------------------------------------------------------------- */

int64_t sn_keeps_bytes(const struct sn_estimation *k, int stage, const int64_t cache[SN_NPLACES])
{
    int64_t bytes = 0;
    for (int v = 0; v < k->pipe.virtual_stages && k->keeps; v++) {
        struct sn_extent x = sn_module_extent(k, v * k->pipe.stages + stage);
        for (int u = 0; u < units_of(&x); u++)
            if (x.keeps[u] == SN_KEEPS_OWN)
                bytes += cache[sn_extent_unit(&x, k->e->of, u)];
    }
    return sn_round_up(bytes, PAGE);
}

/* --- what gathering them takes ---------------------------------------------------------------- */

/* Of a unit, in data's queue. */
static double gathers(const struct sn_estimation *k, enum sn_layer_place at)
{
    const struct sn_layer_profile *s = k->shape;
    double seconds = 0;
    for (int i = 0; i < s->n_gathers[SN_PASS_FORWARD][at]; i++) {
        int comm = s->gather[SN_PASS_FORWARD][at][i];
        if (sn_group_queue(s->comm[comm].group) == SN_AXIS_DATA)
            seconds += k->prices->comm[comm];
    }
    return seconds;
}

/* The longest path: the queue up to some unit's gather, and that unit and all behind it. */
double sn_keeps_first(const struct sn_estimation *k, const struct sn_extent *x)
{
    const double *alone = k->prices->alone[SN_PASS_FORWARD];
    double behind = 0, queue = 0, most = 0;
    if (!x->keeps)
        return 0;
    for (int u = 0; u < units_of(x); u++)
        behind += alone[sn_extent_unit(x, k->e->of, u)];
    for (int u = 0; u < units_of(x); u++) {
        enum sn_layer_place at = sn_extent_unit(x, k->e->of, u);
        bool again = x->keeps[u] == SN_KEEPS_OTHERS || (at == SN_PLACE_HEAD && has_table_twice(k));
        queue += again ? 0 : gathers(k, at);
        most = fmax(most, queue + behind);
        behind -= alone[at];
    }
    return most;
}

/* --- how many fit ----------------------------------------------------------------------------- */

/* What is estimated is no more than what is needed. */
static enum sn_status over(void *estimation, int n, int64_t *bytes, struct sn_err *err)
{
    struct sn_estimation *k = estimation;
    (void)choose(k, n);
    SN_TRY(sn_estimate_memory(k, bytes, err));
    *bytes -= k->e->room_for;
    return SN_OK;
}

enum sn_status sn_keeps_find(struct sn_estimation *k, double *each, struct sn_err *err)
{
    bool gathers = sn_weights_are_slices(k->held);
    bool is_bounded = k->e->room_for > 0 && !k->e->foreign_memory;
    int n = gathers && k->l->zero_cache > 0 ? k->l->zero_cache : 0;
    if (gathers && k->l->zero_cache == SN_CACHE_AUTO && is_bounded) {
        int most = choose(k, k->e->config.model.layers + 2);
        int64_t all, less;
        SN_TRY(over(k, most, &all, err));
        SN_TRY(over(k, most - 1, &less, err));
        *each = (double)(all - less);
        SN_TRY(sn_cache_most(&n, &(struct sn_cache_guess){most, most, 0}, over, k, err));
    }
    (void)choose(k, n);
    return SN_OK;
}
