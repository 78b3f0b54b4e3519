#include "lib/search/words.h"

#include "lib/layout/axes.h"

#include <stdio.h>

static const char *const recomputes[] = {"none", "selective", "full"};

void sn_search_describe(struct sn_str *out, const struct sn_layout_config *l)
{
    sn_str_add(out, "micro-batch %d, %s", l->micro_batch, sn_schedule_names[l->schedule]);
    if (l->virtual_stages > 1)
        sn_str_add(out, " x %d", l->virtual_stages);
    if (l->tensor > 1)
        sn_str_add(out, ", %s", l->sequence_parallel ? "sequence-parallel" : "no seq.-parallel");
    if (l->tensor_pieces > 1)
        sn_str_add(out, ", rows in %d pieces", l->tensor_pieces);
    if (l->context > 1)
        sn_str_add(out, ", %s", l->context_kind == SN_CONTEXT_RING ? "ring" : "all-to-all");
    if (l->expert > 1)
        sn_str_add(out, ", experts over %d", l->expert);
    if (l->expert_tensor == 1 && l->tensor > 1)
        sn_str_add(out, ", whole experts");
    else if (l->expert_tensor > 0 && l->expert_tensor < l->tensor)
        sn_str_add(out, ", each expert over %d", l->expert_tensor);
    if (l->expert > 1 && l->expert_node > 1)
        sn_str_add(out, " in two hops (%d on a node)", l->expert_node);
    bool as_tensor = l->expert_tensor == 0 || l->expert_tensor == l->tensor;
    if (l->expert > 1 && l->tensor > 1 && as_tensor && l->expert_tokens == SN_TOKENS_SPLIT)
        sn_str_add(out, ", split tokens");
    if (l->expert > 1 && l->expert_chunks > 1)
        sn_str_add(out, " in %d chunks", l->expert_chunks);
    sn_str_add(out, ", recompute %s, zero %d", recomputes[l->recompute], l->zero);
    if (l->zero_node > 0)
        sn_str_add(out, " in groups of %d", l->zero_node);
    if (l->zero_cache > 0)
        sn_str_add(out, ", %d layer%s gathered once", l->zero_cache, l->zero_cache == 1 ? "" : "s");
    if (l->n_axis_order && l->axis_order[0] != SN_ORDER_TENSOR && l->tensor > 1)
        sn_str_add(out, ", tensor not innermost");
    for (int k = 0; k < SN_NCODED; k++) {
        char text[SN_NAME_MAX];
        sn_coding_format(&l->compress.coding[k], text);
        if (l->compress.coding[k].on)
            sn_str_add(out, ", %s %s", sn_coded_name((enum sn_coded)k), text);
    }
}

struct share {
    const char *name;
    double seconds; /* more than the winner's */
};

static void add_share(struct share *s, int *n, const char *name, double seconds)
{
    int i = (*n)++;
    for (; i > 0 && s[i - 1].seconds < seconds; i--)
        s[i] = s[i - 1];
    s[i] = (struct share){name, seconds};
}

void sn_search_loses(struct sn_str *out, const struct sn_plan *p, const struct sn_plan *best)
{
    struct share s[SN_NAXES + 3];
    int n = 0;
    const struct sn_sim_stage *a = &p->stage, *b = &best->stage;
    add_share(s, &n, "computing", a->busy - a->update - (b->busy - b->update));
    add_share(s, &n, "bubble", a->idle - b->idle);
    add_share(s, &n, "update", a->update - b->update);
    for (int x = 0; x < SN_NAXES; x++)
        add_share(s, &n, sn_axis_name((enum sn_axis)x), a->exposed[x] - b->exposed[x]);
    bool any = false;
    for (int i = 0; i < 2; i++)
        if (s[i].seconds > 0.001 * best->step_time) {
            sn_str_add(out, "%s+%.1f %% %s", any ? ", " : "", 100 * s[i].seconds / best->step_time,
                       s[i].name);
            any = true;
        }
    if (!any)
        sn_str_add(out, "a tie");
}

static void share_of_winner(struct sn_str *out, const char *name, double seconds, double step)
{
    if (seconds > 0.0005 * step)
        sn_str_add(out, ", %s %.1f %%", name, 100 * seconds / step);
}

void sn_search_breakdown(struct sn_str *out, const struct sn_plan *p)
{
    const struct sn_sim_stage *s = &p->stage;
    sn_str_add(out, "computing %.1f %%", 100 * (s->busy - s->update) / p->step_time);
    share_of_winner(out, "bubble", s->idle, p->step_time);
    for (int x = 0; x < SN_NAXES; x++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "exposed %s", sn_axis_name((enum sn_axis)x));
        share_of_winner(out, name, s->exposed[x], p->step_time);
    }
    share_of_winner(out, "update", s->update, p->step_time);
}
