#include "lib/campaign/budget.h"

#include "lib/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_UNITS = 128 };

int sn_budget_unit(const struct sn_model_config *m)
{
    int group = m->heads / m->kv_heads, want = m->heads >= 8 ? 4 : 1;
    return group * ((want + group - 1) / group);
}

static int rounded(double v, int to)
{
    int n = (int)floor(v / to + 0.5);
    return (n > 1 ? n : 1) * to;
}

bool sn_budget_scale(struct sn_model_config *m, int heads)
{
    double r = (double)heads / m->heads;
    int group = m->heads / m->kv_heads, width = m->hidden / m->heads;
    if (m->experts.count || m->dense_ffn || m->share_layers > 1 || sn_model_has_latents(m) ||
        m->hidden % m->heads != 0 || m->heads % m->kv_heads != 0)
        return false;
    m->layers = rounded(m->layers * r, m->layers >= 24 ? 4 : 1);
    m->ffn = rounded(m->ffn * r, m->ffn >= 2048 ? 256 : 32);
    m->hidden = width * heads;
    m->heads = heads;
    m->kv_heads = heads / group;
    return true;
}

static enum sn_status plan(struct sn_point *out, const struct sn_points_want *w,
                           const struct sn_config *c, double node_hours, struct sn_err *err)
{
    struct sn_points all = {0};
    struct sn_points_want want = *w;
    want.config = c;
    enum sn_status st = sn_points_add(&all, &want, err);
    if (st == SN_OK)
        *out = all.point[0];
    sn_points_fini(&all);
    if (st == SN_OK && out->found)
        st = sn_campaign_within(&out->campaign, c, w->machine, node_hours, err);
    return st;
}

/* A model of the shape: does it see enough tokens? */
static enum sn_status try(bool *good, struct sn_budget *b, const struct sn_points_want *w,
                          struct sn_config *c, int heads, struct sn_err *err)
{
    struct sn_point p = {0};
    struct sn_model_config model = w->config->model;
    b->tried++;
    (void)sn_budget_scale(&model, heads);
    c->model = model;
    enum sn_status st = plan(&p, w, c, b->node_hours, err);
    if (st == SN_EINPUT) { /* no step in these hours */
        *err = (struct sn_err){0};
        p.found = false;
    } else
        SN_TRY(st);
    double n = (double)p.campaign.parameters;
    *good = p.found && p.campaign.tokens >= sn_law_tokens(b->law, n);
    if (*good) {
        b->largest = p;
        b->model = model;
    }
    return SN_OK;
}

static enum sn_status find_largest(struct sn_budget *b, const struct sn_points_want *w,
                                   struct sn_config *c, struct sn_err *err)
{
    int unit = sn_budget_unit(&w->config->model), low = 0, high = 1;
    struct sn_model_config shape = w->config->model;
    bool good = true;
    if (!sn_budget_scale(&shape, unit)) {
        (void)snprintf(
            b->largest.why, sizeof(b->largest.why),
            "models with experts, latents, shared layers or heads that do not divide have no "
            "shape to scale");
        return SN_OK;
    }
    while (good && high <= MOST_UNITS) { /* double, then halve the gap */
        SN_TRY(try(&good, b, w, c, high * unit, err));
        low = good ? high : low;
        high = good ? 2 * high : high;
    }
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        SN_TRY(try(&good, b, w, c, mid * unit, err));
        low = good ? mid : low;
        high = good ? high : mid;
    }
    if (low == 0)
        (void)snprintf(b->largest.why, sizeof(b->largest.why),
                       "not even one of %d heads fits and sees enough tokens", unit);
    return SN_OK;
}

enum sn_status sn_budget_find(struct sn_budget *out, const struct sn_points_want *w,
                              double node_hours, const struct sn_law *law, struct sn_err *err)
{
    *out = (struct sn_budget){.node_hours = node_hours, .law = law};
    struct sn_config *c = sn_alloc(sizeof(*c)); /* large for a stack */
    if (!c)
        return sn_fail(err, SN_ENOMEM, "--budget: no memory");
    *c = *w->config;
    enum sn_status st = plan(&out->run, w, c, node_hours, err);
    if (st == SN_OK)
        st = find_largest(out, w, c, err);
    sn_free(c);
    return st;
}
