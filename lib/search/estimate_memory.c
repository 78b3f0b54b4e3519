/*
 * estimate_memory.c - what an estimator knows of memory: what stage modules keep, read off small
 * texts when it is wanted, and what is the same on every stage.
 */
#include "lib/search/estimate_inner.h"

#include "kernels/round.h"
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/layout/cut.h"

#include <string.h>

enum { PAGE = 4096 };

/* As program/state.c has it; *queues: how many are used. */
static int64_t staging_of(const struct sn_net *net, int *queues)
{
    int64_t most[SN_NAXES] = {0}, bytes = 0;
    *queues = 0;
    for (int q = 0; q < SN_NGROUPS; q++) {
        int64_t need = sn_collective_staging(net->members[q]);
        int64_t *of = &most[sn_group_queue((enum sn_group)q)];
        *of = need > *of ? need : *of;
    }
    for (int a = 0; a < SN_NAXES; a++) {
        bytes += most[a];
        *queues += most[a] > 0;
    }
    return bytes;
}

static int64_t starts_bytes(const struct sn_config *c, int micros)
{
    int64_t samples = (int64_t)c->layout.micro_batch * micros;
    return sn_round_up(samples * c->model.seq * sn_starts_columns(c) * 4, 64);
}

static int64_t features_bytes(const struct sn_config *c, int micros)
{
    const struct sn_prompt_config *p = &c->train.prompt;
    return sn_round_up((int64_t)c->layout.micro_batch * micros * sn_prompt_entry(p) * p->size * 4, 64);
}

int64_t sn_common_bytes(const struct sn_estimator *e, const struct sn_net *net, int micros)
{
    int64_t rows = sn_config_tokens(&e->config) * micros;
    int queues;
    int64_t staging = staging_of(net, &queues);
    int64_t load = sn_expert_load_words(&e->config.model); /* program/state.c */
    int sets = sn_told_sets(&e->config.data);
    int64_t agreed = load + sets > 0 ? sn_round_up(sn_agreed_words(&e->config) * 8, 64) : 0;
    int64_t per_token = sn_round_up(rows * 4, 64) * (sets > 0 ? 3 : 2);
    return sn_round_up(per_token + starts_bytes(&e->config, micros) +
                           features_bytes(&e->config, micros),
                       PAGE) +
           sn_round_up(sn_round_up(sn_scalars_bytes(&e->config), 64) + sn_round_up(load * 4, 64) +
                           agreed,
                       PAGE) +
           sn_round_up(sn_round_up(staging, 64), PAGE) + sn_collective_shm_bytes(queues);
}

/* Those between the first and the last differ in prompts alone. */
static void list_wanted(struct sn_kept_modules *wanted, const struct sn_estimation *k)
{
    for (int i = 0; i < k->modules; i++) {
        if (i > 1 && i < k->modules - 1 && !k->e->of.prompt)
            continue;
        struct sn_extent x = sn_module_extent(k, i);
        wanted->is[x.first][x.last][sn_kept_begin_of(k->e->of, &x)] = true;
    }
}

/* The first that is wanted and not read; false: none is. */
static bool find_unread(int at[3], const struct sn_kept_entry *x,
                        const struct sn_kept_modules *wanted)
{
    for (int i = 0; i < 2 * 2 * SN_KEPT_BEGINS; i++) {
        int f = i & 1, l = i >> 1 & 1, b = i >> 2;
        if (!wanted->is[f][l][b] || x->read.is[f][l][b])
            continue;
        at[0] = f;
        at[1] = l;
        at[2] = b;
        return true;
    }
    return false;
}

static enum sn_status read_layers(struct sn_kept_entry *x, struct sn_estimator *e,
                                  struct sn_err *err)
{
    int micro = x->key.micro_batch;
    if (!sn_kept_on_line(&x->by_layers, &x->family->by_layers, micro)) {
        SN_TRY(sn_kept_by_layers(&x->by_layers, &e->models, &e->env, &x->key, err));
        sn_kept_tell_line(&x->family->by_layers, micro, &x->by_layers);
    }
    x->has_layers = true;
    return SN_OK;
}

static enum sn_status read_ends(struct sn_kept_entry *x, struct sn_estimator *e, bool first,
                                bool last, enum sn_kept_begin begin, struct sn_err *err)
{
    struct sn_kept_line *line = &x->family->of[first][last][begin];
    struct sn_kept_pair *out = &x->of[first][last][begin];
    if (!sn_kept_on_line(out, line, x->key.micro_batch)) {
        if (!x->has_layers)
            SN_TRY(read_layers(x, e, err));
        *out = x->by_layers;
        SN_TRY(
            sn_kept_by_ends(out, &e->models, &e->env, &x->key, (bool[2]){first, last}, begin, err));
        sn_kept_tell_line(line, x->key.micro_batch, out);
    }
    x->read.is[first][last][begin] = true;
    return SN_OK;
}

static struct sn_kept_entry *kept_find(struct sn_estimator *e,
                                       const struct sn_layer_profile_key *key)
{
    struct sn_kept_entry *x = e->kept[sn_cache_row(key, sizeof(*key))];
    while (x && memcmp(&x->key, key, sizeof(*key)) != 0)
        x = x->next;
    return x;
}

static struct sn_kept_family *family_of(struct sn_estimator *e, struct sn_layer_profile_key key)
{
    key.micro_batch = 0;
    struct sn_kept_family **row = &e->families[sn_cache_row(&key, sizeof(key))], *x = *row;
    while (x && memcmp(&x->key, &key, sizeof(key)) != 0)
        x = x->next;
    if (x || !(x = sn_alloc(sizeof(*x))))
        return x;
    x->key = key;
    x->next = *row;
    *row = x;
    return x;
}

static enum sn_status kept_entry(struct sn_kept_entry **out, struct sn_estimator *e,
                                 struct sn_err *err)
{
    static const int factor[] = {2, 3, 5, 7};
    struct sn_layer_profile_key key = sn_layer_profile_key(&e->config);
    key.zero = 0;
    key.in_nodes = false;
    *out = kept_find(e, &key);
    if (*out)
        return SN_OK;
    struct sn_kept_entry *x = sn_alloc(sizeof(*x));
    if (!x || !(x->family = family_of(e, key))) {
        sn_free(x);
        return sn_fail(err, SN_ENOMEM, "search: no memory for a shape");
    }
    struct sn_kept_entry **row = &e->kept[sn_cache_row(&key, sizeof(key))];
    x->key = key;
    x->next = *row;
    *row = x;
    for (size_t i = 0; i < sizeof(factor) / sizeof(factor[0]) && !x->smaller; i++) {
        struct sn_layer_profile_key less = key;
        less.micro_batch /= factor[i];
        if (key.micro_batch % factor[i] == 0)
            x->smaller = kept_find(e, &less);
    }
    *out = x;
    return SN_OK;
}

enum sn_status sn_kept_known(const struct sn_kept_entry **out, struct sn_estimator *e,
                             const struct sn_kept_modules *wanted, struct sn_err *err)
{
    struct sn_kept_entry *x;
    int at[3];
    SN_TRY(kept_entry(&x, e, err));
    while (x && find_unread(at, x, wanted))
        x = x->smaller;
    *out = x;
    return SN_OK;
}

enum sn_status sn_kept_cached(const struct sn_kept_entry **out, struct sn_estimator *e,
                              const struct sn_kept_modules *wanted, struct sn_err *err)
{
    struct sn_kept_entry *x;
    int at[3];
    SN_TRY(kept_entry(&x, e, err));
    *out = x;
    while (find_unread(at, x, wanted))
        SN_TRY(read_ends(x, e, at[0], at[1], (enum sn_kept_begin)at[2], err));
    return SN_OK;
}

/* --- of a layout ------------------------------------------------------------------------------ */

static int64_t kept_bytes(const struct sn_estimation *k, const struct sn_kept_entry *h, int s)
{
    int64_t sum = 0;
    int slots[SN_MAX_VSTAGES], lates = h->key.split;
    sn_slots_of(slots, k->e, &k->pipe, s);
    if (sn_delays_weights(k))
        lates = sn_schedule_waiting(&k->pipe, s);
    for (int v = 0; v < k->pipe.virtual_stages; v++) {
        struct sn_extent x = sn_module_extent(k, v * k->pipe.stages + s);
        const struct sn_kept_pair *of = &h->of[x.first][x.last][sn_kept_begin_of(k->e->of, &x)];
        sum += slots[v] * sn_kept_sum(&of->slot, &x);
        sum += lates * sn_kept_sum(&of->late, &x);
    }
    return sum;
}

static int64_t scratch_bytes(const struct sn_estimation *k, int s, int64_t update)
{
    const struct sn_layer_profile *h = k->shape;
    struct sn_extent x = sn_stage_stock(k, s).x;
    int64_t temp = 0, work = 0;
    const struct sn_coding *z = k->l->compress.coding;
    bool coded = z[SN_CODED_DATA].on || z[SN_CODED_ZERO].on; /* buckets end when they are encoded */
    bool mixes = sn_kinds_mix(k->e->of);
    /* The head's unit is as large as a layer: in the model of one stage a layer with experts stands before it, and the
     * embedding's gradient is complete with the embedding. */
    bool ends_vary = k->e->config.model.mtp > 0 && (mixes || k->modules > 1);
    for (int at = 0; at < SN_NPLACES; at++) {
        if (!(at == SN_PLACE_EMBED ? x.first : at == SN_PLACE_HEAD ? x.last : x.of[at] > 0))
            continue;
        work = h->workspace[at] > work ? h->workspace[at] : work;
        bool neighbours_vary =
            k->pipe.virtual_stages > 1 || (mixes && k->modules > 1) || ends_vary || k->e->of.prompt;
        bool lean = neighbours_vary || coded || k->keeps; /* few units may gather any */
        const int64_t(*of)[SN_NPLACES] = lean ? h->lean : h->temp;
        for (int pass = 0; pass < SN_NPASSES; pass++)
            temp = of[pass][at] > temp ? of[pass][at] : temp;
    }
    /* What the model of one stage has as a temporary, the gradient that a block begins with, may
     * have been received into a slot. */
    int64_t received = h->sent * (int64_t)sn_dtype_size(k->e->config.train.precision);
    temp -= k->modules > 1 ? received : 0;
    return (update > temp ? update : temp) + work;
}

/* The first two stages and the last two: their numbers, each once. */
static int outer_stages(int stage[4], int p)
{
    int n = 0, want[] = {0, 1, p - 2, p - 1};
    for (int i = 0; i < 4; i++)
        if (want[i] >= 0 && want[i] < p && (n == 0 || want[i] > stage[n - 1]))
            stage[n++] = want[i];
    return n;
}

/* What is kept for backward, if that alone is more than the limit; else 0. */
static int64_t over_limit(const struct sn_estimation *k, const struct sn_kept_entry *h)
{
    int stage[4], n = k->e->limit ? outer_stages(stage, k->pipe.stages) : 0;
    int64_t most = 0;
    bool over = false;
    for (int i = 0; i < n; i++)
        over = over || kept_bytes(k, h, stage[i]) > k->e->limit;
    for (int s = 0; over && s < k->pipe.stages; s++)
        most = kept_bytes(k, h, s) > most ? kept_bytes(k, h, s) : most;
    return most;
}

/* Nothing is compiled where a smaller micro-batch would keep too much already: of this one it is
 * told what that keeps, in proportion. */
enum sn_status sn_estimate_kept(struct sn_estimation *k, int64_t *too_much, struct sn_err *err)
{
    const struct sn_kept_entry *known;
    struct sn_kept_modules wanted = {{{{false}}}};
    *too_much = 0;
    if (k->e->foreign_memory)
        return SN_OK;
    list_wanted(&wanted, k);
    SN_TRY(sn_kept_known(&known, k->e, &wanted, err));
    if (known)
        *too_much = over_limit(k, known) / known->key.micro_batch * k->l->micro_batch;
    if (*too_much > 0)
        return SN_OK;
    SN_TRY(sn_kept_cached(&k->kept, k->e, &wanted, err));
    *too_much = over_limit(k, k->kept);
    return SN_OK;
}

/* Bytes of what stands between two layers. */
static enum sn_status between(const struct sn_estimation *k, int64_t *bytes, struct sn_err *err)
{
    const struct sn_config *c = &k->e->config;
    struct sn_grid grid;
    SN_TRY(sn_job_grid(&grid, c, err));
    struct sn_mesh mesh = sn_mesh_of_grid(&grid);
    struct sn_cut cut = sn_cut_between(&mesh, c->layout.sequence_parallel);
    struct sn_placement p = sn_placement_on(&mesh, cut.want);
    int64_t rows = (int64_t)c->layout.micro_batch * c->model.seq / c->layout.context;
    *bytes = sn_placement_local(&mesh, p, SN_ROWS, rows) *
             sn_placement_local(&mesh, p, SN_COLS, c->model.hidden) *
             (int64_t)sn_dtype_size(c->train.precision);
    return SN_OK;
}

enum sn_status sn_estimate_inputs(struct sn_estimation *k, int64_t *too_much, struct sn_err *err)
{
    int stage[4], n = outer_stages(stage, k->pipe.stages);
    int64_t each, most = 0;
    *too_much = 0;
    const struct sn_train_config *t = &k->e->config.train;
    bool is_partial = t->n_freeze > 0 || t->lora.r > 0 || sn_prompt_positions(&t->prompt) > 0;
    if (k->e->foreign_memory || !k->e->limit ||
        is_partial) /* then a layer's input may be needed by none */
        return SN_OK;
    SN_TRY(between(k, &each, err));
    for (int i = 0; i < n; i++) {
        int slots[SN_MAX_VSTAGES];
        int64_t sum = 0;
        sn_slots_of(slots, k->e, &k->pipe, stage[i]);
        for (int v = 0; v < k->pipe.virtual_stages; v++)
            sum += slots[v] * (k->layers[v * k->pipe.stages + stage[i]] - 1) * each;
        most = sum > most ? sum : most;
    }
    *too_much = most > k->e->limit ? most : 0;
    return SN_OK;
}

enum sn_status sn_estimate_memory(struct sn_estimation *k, int64_t *most, struct sn_err *err)
{
    int stage[4], n = k->e->foreign_memory ? 0 : outer_stages(stage, k->pipe.stages);
    *most = 0;
    for (int i = 0; i < n; i++) {
        struct sn_inventory_cost cost;
        SN_TRY(sn_stage_cost(k, stage[i], &cost, err));
        int64_t bytes =
            cost.state + kept_bytes(k, k->kept, stage[i]) + scratch_bytes(k, stage[i], cost.wide);
        bytes += sn_keeps_bytes(k, stage[i], cost.cache);
        *most = bytes > *most ? bytes : *most;
    }
    *most += n > 0 ? sn_common_bytes(k->e, k->net, k->pipe.micros) : 0;
    return SN_OK;
}
