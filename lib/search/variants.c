#include "lib/search/variants.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/layout/axes.h"
#include "lib/layout/split.h"
#include "lib/program/program.h"

#include <string.h>

/* Context ranks pay where sequences are long: a rank has so many tokens of one at least, unless the
 * run file names the number of ranks. */
enum { CONTEXT_TOKENS = 2048 };

/* A grid of tensors has devices of so many nodes at most, unless the run file names tensor_x. */
enum { GRID_NODES = 4 };

struct lister {
    struct sn_variants *out;
    const struct sn_config *base;
    struct sn_config *c; /* with the layout at hand */
    int ranks, near;
    struct sn_variant v;
    bool failed;
    double head; /* layers as long as which the head takes */
    int *
        layers; /* [model.layers] room for those of stage modules; NULL: none share weights of prompts */
};

static bool named(const struct lister *l, enum sn_layout_key k)
{
    return l->base->layout_named >> k & 1u;
}

/* May `value` be tried for a key? */
static bool may(const struct lister *l, enum sn_layout_key k, int value, int given)
{
    return !named(l, k) || value == given;
}

void sn_variant_expand(struct sn_layout_config *out, const struct sn_variant *v,
                       const struct sn_config *base)
{
    *out = base->layout;
    sn_axes_set_sizes(out, v->size);
    out->expert = v->expert;
    out->expert_tensor = v->expert_tensor;
    out->micro_batch = v->micro_batch;
    out->virtual_stages = v->virtual_stages;
    out->sequence_parallel = v->sequence_parallel;
    out->schedule = (enum sn_schedule)v->schedule;
    out->recompute = (enum sn_recompute)v->recompute;
    out->zero = v->zero;
    out->zero_node = v->zero_node;
    out->zero_cache = v->zero_cache;
    out->context_kind = (enum sn_context_kind)v->context_kind;
}

bool sn_variant_same_grid(const struct sn_variant *a, const struct sn_variant *b)
{
    return memcmp(a->size, b->size, sizeof(a->size)) == 0 && a->expert == b->expert &&
           a->expert_tensor == b->expert_tensor;
}

static const struct sn_schedule_traits *traits_of(const struct lister *l)
{
    return sn_schedule_traits((enum sn_schedule)l->v.schedule);
}

static void add(struct lister *l)
{
    struct sn_variants *o = l->out;
    if (sn_grow((void **)&o->of, (int)o->n, &o->cap, sizeof(*o->of)))
        o->of[o->n++] = l->v;
    else
        l->failed = true;
}

/* The map of features lies in one stage module, or in the first and the last (lib/program/shards.c). */
static bool map_is_near(const struct lister *l)
{
    struct sn_err why;
    const struct sn_prompt_config *p = &l->base->train.prompt;
    const struct sn_split_cost cost = {.last = l->head};
    const int *layers = l->base->layout.n_split > 0 ? l->base->layout.split : l->layers;
    int modules = l->v.size[SN_AXIS_PIPELINE] * l->v.virtual_stages, first = -1;
    if (layers == l->layers &&
        sn_split_layers(l->layers, &cost, l->base->model.layers, modules, &why) != SN_OK)
        return false;
    for (int i = 0, at = 0; i < modules; at += layers[i++])
        for (int k = 0; k < p->n_layers; k++) {
            if (p->layers[k] < at || p->layers[k] >= at + layers[i])
                continue;
            first = first < 0 ? i : first;
            if (i != first && (first != 0 || i != modules - 1))
                return false;
        }
    return true;
}

/* The rules do not depend on what is listed below this. */
static bool is_valid(const struct lister *l)
{
    struct sn_err why;
    sn_variant_expand(&l->c->layout, &l->v, l->base);
    return sn_config_check_layout(l->c, l->ranks, &why) == SN_OK && (!l->layers || map_is_near(l));
}

/* Replicas of a node, where they are some of several; 0: they are not. */
static int replicas_near(const struct lister *l)
{
    int t = l->v.size[SN_AXIS_TENSOR] * l->v.size[SN_AXIS_TENSOR_X], n = l->near / t;
    int replicas = l->v.size[SN_AXIS_DATA] * l->v.size[SN_AXIS_CONTEXT];
    struct sn_layout_config g = {.data = l->v.size[SN_AXIS_DATA],
                                 .context = l->v.size[SN_AXIS_CONTEXT]};
    bool fits = n > 1 && l->near % t == 0 && n < replicas && sn_replica_node_fits(&g, n);
    return fits ? n : 0;
}

/* With slices of all replicas, and of those of a node. */
static void list_slices(struct lister *l)
{
    const struct sn_layout_config *g = &l->base->layout;
    bool coded = g->compress.coding[SN_CODED_DATA].on || g->compress.coding[SN_CODED_ZERO].on ||
                 g->compress.scheme == SN_SCHEME_AUTO;
    int near = l->v.zero > 0 && g->zero_node == 0 && !coded ? replicas_near(l) : 0;
    bool gathers = sn_weights_are_slices(sn_zero_holding(l->v.zero));
    l->v.zero_cache = !gathers ? 0 : named(l, SN_KEY_ZERO_CACHE) ? g->zero_cache : SN_CACHE_AUTO;
    l->v.zero_node = l->v.zero > 0 ? g->zero_node : 0;
    add(l);
    if (near == 0)
        return;
    l->v.zero_node = near;
    add(l);
    l->v.zero_node = 0;
}

static void list_memory(struct lister *l)
{
    const struct sn_layout_config *g = &l->base->layout;
    bool one = (int64_t)l->v.size[SN_AXIS_DATA] * l->v.size[SN_AXIS_CONTEXT] == 1;
    bool exchanges = l->v.expert > 1 || l->v.expert_tensor > 1;
    bool low = traits_of(l)->delays_weights && exchanges;    /* ZeRO 0 and 1 alone, */
    low = low || g->compress.coding[SN_CODED_DATA].rank > 0; /* as with factors */
    low = low || l->base->train.grad_dtype != SN_F32;        /* and gradients of 16 bits */
    l->v.zero = named(l, SN_KEY_ZERO) ? (unsigned char)g->zero : 0;
    l->v.zero_node = l->v.zero > 0 ? g->zero_node : 0;
    l->v.zero_cache = 0;
    if (!is_valid(l))
        return;
    for (int r = SN_RECOMPUTE_NONE; r <= SN_RECOMPUTE_FULL; r++)
        for (int z = 0; z <= 3; z++) {
            bool same = one && z != (named(l, SN_KEY_ZERO) ? g->zero : 0);
            if (same || (low && z >= 2) || !may(l, SN_KEY_RECOMPUTE, r, (int)g->recompute) ||
                !may(l, SN_KEY_ZERO, z, g->zero))
                continue;
            l->v.recompute = (unsigned char)r;
            l->v.zero = (unsigned char)z;
            list_slices(l);
        }
}

static void list_virtual(struct lister *l)
{
    int given = l->base->layout.virtual_stages, p = l->v.size[SN_AXIS_PIPELINE], before = 0;
    for (int v = 2; v <= SN_MAX_VSTAGES && v * p <= l->base->model.layers; v++) {
        int longest = (l->base->model.layers + v * p - 1) / (v * p);
        bool asked = named(l, SN_KEY_VIRTUAL_STAGES) && v == given;
        if ((longest == before && !asked) || !may(l, SN_KEY_VIRTUAL_STAGES, v, given))
            continue;
        before = longest;
        l->v.virtual_stages = v;
        list_memory(l);
    }
}

static void list_schedules(struct lister *l)
{
    const struct sn_layout_config *g = &l->base->layout;
    for (int s = 0; s < SN_NSCHEDULES; s++) {
        bool whole = l->v.size[SN_AXIS_PIPELINE] == 1;
        int only = named(l, SN_KEY_SCHEDULE) ? (int)g->schedule : SN_SCHEDULE_DEFAULT;
        if (!may(l, SN_KEY_SCHEDULE, s, (int)g->schedule) || (whole && s != only))
            continue;
        if (sn_schedule_traits((enum sn_schedule)s)->takes_turns && !named(l, SN_KEY_SCHEDULE))
            continue; /* what hides there is not estimated */
        l->v.schedule = (unsigned char)s;
        l->v.virtual_stages = 1;
        bool one_vstage = may(l, SN_KEY_VIRTUAL_STAGES, 1, g->virtual_stages) &&
                          (!traits_of(l)->virtual_stages || named(l, SN_KEY_SCHEDULE));
        if (one_vstage)
            list_memory(l);
        if (traits_of(l)->virtual_stages && !whole)
            list_virtual(l);
    }
}

/* Ranks that share the experts out; a dense model has one. */
static void list_ways(struct lister *l)
{
    int blocks = l->v.expert_tensor > 0 ? l->v.size[SN_AXIS_TENSOR] / l->v.expert_tensor : 1;
    int64_t replicas = (int64_t)l->v.size[SN_AXIS_DATA] * l->v.size[SN_AXIS_CONTEXT] * blocks;
    int experts = l->base->model.experts.count > 0 ? l->base->model.experts.count : 1;
    for (int e = 1; e <= experts && e <= replicas; e++) {
        if (experts % e != 0 || replicas % e != 0 ||
            !may(l, SN_KEY_EXPERT, e, l->base->layout.expert))
            continue;
        l->v.expert = e;
        list_schedules(l);
    }
}

/* Cut as all else is, or over fewer tensor ranks; 0 in the run file: any. */
static void list_experts(struct lister *l)
{
    int given = l->base->layout.expert_tensor;
    bool own = l->v.sequence_parallel && l->base->model.experts.count > 0;
    l->v.expert_tensor = 0;
    if (given == 0 || given == l->v.size[SN_AXIS_TENSOR])
        list_ways(l);
    for (int u = 1; own && u < l->v.size[SN_AXIS_TENSOR]; u++) {
        l->v.expert_tensor = u;
        if (l->v.size[SN_AXIS_TENSOR] % u == 0 && (given == 0 || given == u))
            list_ways(l);
    }
    l->v.expert_tensor = 0;
}

static void list_pipelines(struct lister *l, int rest)
{
    const struct sn_layout_config *g = &l->base->layout;
    for (int p = 1; p <= rest && p <= l->base->model.layers; p++) {
        int64_t data = rest / p;
        if (rest % p != 0 || !may(l, SN_KEY_PIPELINE, p, g->pipeline) ||
            !may(l, SN_KEY_DATA, (int)data, g->data) ||
            sn_batch_misfit(&l->base->train, data * l->v.micro_batch) != 0)
            continue;
        l->v.size[SN_AXIS_PIPELINE] = p;
        l->v.size[SN_AXIS_DATA] = (int)data;
        list_experts(l);
    }
}

/* A grid that nobody names has sequence parallelism: without it it sends as much, and keeps more. */
static bool is_whole_grid(const struct lister *l, int sequence_parallel)
{
    bool whole = l->v.size[SN_AXIS_TENSOR_X] > 1 && !sequence_parallel;
    return whole && !named(l, SN_KEY_TENSOR_X) && !named(l, SN_KEY_SEQUENCE_PARALLEL);
}

static void list_micro_batches(struct lister *l, int rest)
{
    const struct sn_layout_config *g = &l->base->layout;
    int batch = sn_batch_divisor(&l->base->train);
    for (int b = 1; b <= batch; b++)
        for (int sp = 1; sp >= 0; sp--) {
            bool same = l->v.size[SN_AXIS_TENSOR] == 1 && sp != g->sequence_parallel;
            if (batch % b != 0 || same || is_whole_grid(l, sp) ||
                !may(l, SN_KEY_MICRO_BATCH, b, g->micro_batch) ||
                !may(l, SN_KEY_SEQUENCE_PARALLEL, sp, g->sequence_parallel))
                continue;
            l->v.micro_batch = b;
            l->v.sequence_parallel = (unsigned char)sp;
            list_pipelines(l, rest);
        }
}

static void list_contexts(struct lister *l, int rest)
{
    const struct sn_layout_config *g = &l->base->layout;
    int seq = l->base->model.seq;
    for (int c = 1; c <= seq && c <= rest; c++)
        for (int kind = 0; kind < 2; kind++) {
            bool same = c == 1 && kind != (int)g->context_kind;
            bool thin = c > 1 && seq / c < CONTEXT_TOKENS && !named(l, SN_KEY_CONTEXT);
            if (seq % c != 0 || thin || rest % c != 0 || same ||
                !may(l, SN_KEY_CONTEXT, c, g->context) ||
                !may(l, SN_KEY_CONTEXT_KIND, kind, (int)g->context_kind))
                continue;
            l->v.size[SN_AXIS_CONTEXT] = c;
            l->v.context_kind = (unsigned char)kind;
            list_micro_batches(l, rest / c);
        }
}

/* Elements that a rank sends for each token of a layer, times the ranks of the grid: tensor_x sums
 * what the products give that take a block's input, tensor what those give that end it (cut.h). */
static int64_t grid_sends(const struct sn_model_config *m, int t, int y)
{
    int64_t hidden = m->hidden, query = sn_model_query_width(m);
    int64_t kv = (int64_t)sn_model_head_dim(m) * m->kv_heads;
    int gated = sn_family_traits(m->family)->gated ? 2 : 1;
    return (query + 2 * kv + gated * (int64_t)m->ffn) * (y - 1) + 2 * hidden * (t - 1);
}

/* Those that are taken unless the run file names tensor_x, of dense models: no larger than tensor, as
 * such a grid sends less than its transpose; within a node, whose ranks are all alike, no grid that
 * sends more than one axis of as many ranks; GRID_NODES nodes at most. */
static bool is_grid(const struct lister *l, int t, int y)
{
    const struct sn_model_config *m = &l->base->model;
    int64_t ranks = t * (int64_t)y;
    if (y == 1 || named(l, SN_KEY_TENSOR_X))
        return true;
    if (m->experts.count > 0)
        return false;
    bool one_axis = m->heads % ranks == 0;
    bool wins = ranks > l->near || !one_axis || grid_sends(m, t, y) < grid_sends(m, t * y, 1);
    return y <= t && ranks <= (int64_t)GRID_NODES * l->near && wins;
}

static void list_all(struct lister *l)
{
    const struct sn_layout_config *g = &l->base->layout;
    int heads = l->base->model.heads, hidden = l->base->model.hidden;
    for (int t = 1; t <= heads && t <= l->ranks; t++)
        for (int y = 1; y <= hidden && t * (int64_t)y <= l->ranks; y++) {
            if (heads % t != 0 || hidden % y != 0 || l->ranks % (t * y) != 0 || !is_grid(l, t, y) ||
                !may(l, SN_KEY_TENSOR, t, g->tensor) || !may(l, SN_KEY_TENSOR_X, y, g->tensor_x))
                continue;
            l->v.size[SN_AXIS_TENSOR] = t;
            l->v.size[SN_AXIS_TENSOR_X] = y;
            list_contexts(l, l->ranks / (t * y));
        }
}

static bool find_room(struct lister *l)
{
    struct sn_model *m = NULL;
    struct sn_err why;
    l->layers = sn_alloc_n((size_t)l->base->model.layers, sizeof(*l->layers));
    if (!l->layers || sn_model_create(&m, &l->base->model, &l->base->train, &why) != SN_OK)
        return false;
    l->head = sn_head_layers(m, &l->base->model);
    sn_model_destroy(m);
    return true;
}

enum sn_status sn_variants_list(struct sn_variants *out, const struct sn_config *c, int ranks,
                                int near, struct sn_err *err)
{
    struct sn_config *work = sn_alloc(sizeof(*work)); /* large for a stack */
    *out = (struct sn_variants){0};
    if (!work)
        return sn_fail(err, SN_ENOMEM, "search: no memory");
    *work = *c;
    struct lister l = {.out = out, .base = c, .c = work, .ranks = ranks, .near = near};
    if (c->train.prompt.rows > 0 && c->train.prompt.n_layers > 1)
        l.failed = !find_room(&l);
    if (!l.failed)
        list_all(&l);
    sn_free(l.layers);
    sn_free(work);
    if (!l.failed)
        return SN_OK;
    sn_variants_fini(out);
    return sn_fail(err, SN_ENOMEM, "search: no memory for the layouts of %d ranks", ranks);
}

void sn_variants_fini(struct sn_variants *v)
{
    sn_free(v->of);
    *v = (struct sn_variants){0};
}
