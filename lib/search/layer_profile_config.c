/*
 * layer_profile_config.c - what a profile is compiled of: the key of a layout, the model of one layer of each kind, its
 * run file.
 */
#include "lib/search/layer_profile.h"

#include "lib/config/batch.h"
#include "lib/layout/axes.h"

#include <string.h>

/* --- the key ---------------------------------------------------------------------------------- */

struct sn_layer_profile_key sn_layer_profile_key(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    struct sn_layer_profile_key k;
    memset(&k, 0, sizeof(k)); /* padding too: keys are compared as bytes */
    sn_axes_sizes(k.size, l);
    k.size[SN_AXIS_DATA] = k.size[SN_AXIS_PIPELINE] = 1;
    k.micro_batch = l->micro_batch;
    k.expert = l->expert;
    k.exchange = l->context > 1 && l->context_kind == SN_CONTEXT_ALL_TO_ALL;
    k.sequence_parallel = l->tensor > 1 && l->sequence_parallel;
    k.slices = sn_config_fold(c) > 1 ? sn_config_slices(c) : 0;
    k.recompute = (unsigned char)l->recompute;
    k.split = l->split_backward || sn_schedule_traits(l->schedule)->delays_weights;
    if (sn_gradients_are_temporary(sn_config_holding(c)))
        k.zero = (unsigned char)l->zero;
    k.in_nodes = k.zero > 0 && sn_config_zero_node(c) > 0;
    if (l->tensor > 1 || l->tensor_x > 1)
        k.tensor_coding = l->compress.coding[SN_CODED_TENSOR];
    if (sn_config_expert_members(c) > 1)
        k.expert_coding = l->compress.coding[SN_CODED_EXPERT];
    if (l->pipeline > 1)
        k.pipeline_coding = l->compress.coding[SN_CODED_PIPELINE];
    return k;
}

/* Without recomputation: what is computed again depends on what ranks send between (recompute.c). */
struct sn_layer_profile_key sn_layer_profile_whole(const struct sn_layer_profile_key *k)
{
    struct sn_layer_profile_key w;
    memset(&w, 0, sizeof(w));
    for (int a = 0; a < SN_NGRID_AXES; a++)
        w.size[a] = 1;
    w.micro_batch = w.expert = 1;
    w.split = k->split;
    return w;
}

/* Behind "layers.", the number of a pattern: "31.attn.*"; NULL: it names none. */
static const char *number_in(const char *pattern)
{
    static const char prefix[] = "layers.";
    const char *number = pattern + sizeof(prefix) - 1;
    bool is_one = strncmp(pattern, prefix, sizeof(prefix) - 1) == 0 && *number != '*';
    return is_one ? number : NULL;
}

bool sn_layer_profile_stands_for_all(const struct sn_train_config *t)
{
    for (int i = 0; i < t->lora.n_targets; i++)
        if (number_in(t->lora.targets[i]))
            return false;
    return true;
}

/* Two layers below the first prompts where the run has some, then behind each prompts one without: the end of a layer in
 * front of prompts is not fused with the begin of the next. */
static void prompts_and_others(struct sn_model_config *m, struct sn_train_config *t)
{
    struct sn_prompt_config *p = &t->prompt;
    int below = p->n_layers > 0 && p->layers[0] > 0 ? 2 : 0;
    m->layers = below + 4;
    p->n_layers = 2;
    p->layers[0] = below;
    p->layers[1] = below + 2;
}

void sn_layer_profile_model(struct sn_model_config *m, struct sn_train_config *t)
{
    t->groups.n_names = 0;   /* every group's update takes as long */
    t->sparse.n_targets = 0; /* buckets that are sparse are the whole model's */
    for (int i = 0; i < t->n_freeze; i++) {
        const char *number = number_in(t->freeze[i]), *end = number ? strchr(number, '.') : NULL;
        if (!end || end == number)
            continue;
        size_t at = (size_t)(number - t->freeze[i]);
        memmove(t->freeze[i] + at + 1, end, strlen(end) + 1);
        t->freeze[i][at] = '*';
    }
    bool both = sn_model_mixes_layers(m);
    if (sn_prompt_positions(&t->prompt) > 0 && !both) {
        prompts_and_others(m, t);
        return;
    }
    m->share_layers = 1;
    m->layers = both ? 2 : 1;
    m->experts.every = both ? 2 : 1;
    m->experts.from = 0;
}

struct sn_extent sn_extent_of(struct sn_kinds k, int begin, int layers)
{
    const struct sn_model_config m = {.layers = begin + layers,
                                      .experts = {.count = 1, .every = k.every, .from = k.from}};
    struct sn_extent x = {.layers = layers};
    int experts = 0;
    if (k.prompt) {
        x.begin = begin;
        for (int i = 0; i < layers; i++)
            x.of[sn_kinds_place(k, begin + i)]++;
        return x;
    }
    if (k.every > 0) {
        experts = sn_expert_layers_before(&m, begin + layers) - sn_expert_layers_before(&m, begin);
        x.begin =
            begin < k.from ? begin : k.from + (begin - k.from) % k.every; /* every divides from */
    }
    x.of[SN_PLACE_EXPERTS] = experts;
    x.of[SN_PLACE_BLOCK] = layers - experts;
    return x;
}

/* Replicas enough for gradients to be reduced, those of experts too, and in two groups where some of
 * them have slices. */
static int replicas_of(const struct sn_layer_profile_key *k)
{
    if (k->in_nodes)
        return k->expert > 1 ? 2 * k->expert : k->size[SN_AXIS_CONTEXT] == 1 ? 4 : 2;
    return k->expert > 1 ? 2 * k->expert : k->size[SN_AXIS_CONTEXT] == 1 ? 2 : 1;
}

void sn_layer_profile_config(struct sn_config *out, const struct sn_config *c,
                             const struct sn_layer_profile_key *k)
{
    *out = *c;
    sn_layer_profile_model(&out->model, &out->train);
    struct sn_layout_config *l = &out->layout;
    sn_axes_set_sizes(l, k->size);
    l->data = replicas_of(k);
    l->expert = k->expert;
    l->expert_tensor = k->slices;
    l->expert_tokens = k->slices == k->size[SN_AXIS_TENSOR] ? SN_TOKENS_SPLIT : SN_TOKENS_GATHERED;
    l->micro_batch = k->micro_batch;
    l->sequence_parallel = k->sequence_parallel;
    l->recompute = (enum sn_recompute)k->recompute;
    l->zero = k->zero;
    l->zero_cache = 0; /* who keeps weights differs from unit to unit */
    l->zero_node = !k->in_nodes ? 0 : l->context > 1 ? l->context : 2;
    l->split_backward = k->split;
    l->context_kind = k->exchange ? SN_CONTEXT_ALL_TO_ALL : SN_CONTEXT_RING;
    /* one stage, in the default order, one bucket for each shard where nothing is divided; the end
     * of a step is counted by bucket (inventory.h), two hops by the net */
    l->virtual_stages = 1;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->n_split = l->n_axis_order = 0;
    l->bucket = sn_gradients_are_temporary(sn_config_holding(out)) ? l->bucket : 1;
    l->optimizer_tile = 0;
    l->expert_node = 0;
    struct sn_coding *coding = out->layout.compress.coding;
    memset(coding, 0, SN_NCODED * sizeof(*coding));
    coding[SN_CODED_TENSOR] = k->tensor_coding;
    coding[SN_CODED_EXPERT] = k->expert_coding;
    coding[SN_CODED_PIPELINE] = k->pipeline_coding;
    sn_batch_set(&out->train, out->layout.data * k->micro_batch);
    out->train.eval_every = 0;
}

/* --- kinds of layers --------------------------------------------------------------------------- */

enum sn_layer_place sn_layer_profile_place(const struct sn_config *c, int layer)
{
    return layer < 0                  ? SN_PLACE_EMBED
           : layer >= c->model.layers ? SN_PLACE_HEAD
                                      : sn_kinds_place(sn_kinds_of(c), layer);
}

int sn_layer_profile_map(const struct sn_model *m)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == SN_NODE_PROMPT && m->nodes[i].attr.prompt.levels > 0)
            return m->nodes[i].param[0];
    return -1;
}
