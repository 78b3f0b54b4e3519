/*
 * estimate_memory.c - what an estimator knows of memory: what stage modules keep, read off small
 * texts when it is wanted, and what is the same on every stage.
 */
#include "lib/search/estimate_cache.h"

#include "kernels/round.h"
#include "lib/base/mem.h"

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

int64_t sn_common_bytes(const struct sn_estimator *e, const struct sn_net *net, int micros)
{
    int64_t rows = sn_config_tokens(&e->config) * micros;
    int queues;
    int64_t staging = staging_of(net, &queues);
    int64_t load = sn_expert_load_words(&e->config.model); /* program/state.c */
    int64_t experts =
        load ? sn_round_up(load * 4, 64) + sn_round_up(sn_agreed_words(&e->config) * 8, 64) : 0;
    return sn_round_up(2 * sn_round_up(rows * 4, 64), PAGE) +
           sn_round_up(sn_round_up((int64_t)sizeof(struct sn_scalars), 64) + experts, PAGE) +
           sn_round_up(sn_round_up(staging, 64), PAGE) + sn_collective_shm_bytes(queues);
}

/* Stage modules that hold both ends are alone; of several the first, the last and those between
 * differ. */
static bool is_there(int modules, int first, int last)
{
    return modules == 1 ? first && last : modules == 2 ? first != last : !(first && last);
}

static bool is_read(const struct sn_kept_entry *x, int modules)
{
    bool all = true;
    for (int f = 0; f < 2; f++)
        for (int l = 0; l < 2; l++)
            all = all && (x->is_read[f][l] || !is_there(modules, f, l));
    return all;
}

static enum sn_status read_kept(struct sn_kept_entry *x, struct sn_estimator *e, int modules,
                                struct sn_err *err)
{
    if (!x->has_layers)
        SN_TRY(sn_kept_by_layers(&x->by_layers, &e->models, &e->env, &x->key, err));
    x->has_layers = true;
    for (int f = 0; f < 2; f++)
        for (int l = 0; l < 2; l++) {
            if (!is_there(modules, f, l) || x->is_read[f][l])
                continue;
            x->of[f][l] = x->by_layers;
            SN_TRY(
                sn_kept_by_ends(&x->of[f][l], &e->models, &e->env, &x->key, (bool[2]){f, l}, err));
            x->is_read[f][l] = true;
        }
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

static enum sn_status kept_entry(struct sn_kept_entry **out, struct sn_estimator *e,
                                 struct sn_err *err)
{
    static const int factor[] = {2, 3, 5, 7};
    struct sn_layer_profile_key key = sn_layer_profile_key(&e->config);
    *out = kept_find(e, &key);
    if (*out)
        return SN_OK;
    struct sn_kept_entry *x = sn_alloc(sizeof(*x));
    if (!x)
        return sn_fail(err, SN_ENOMEM, "search: no memory for a shape");
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

enum sn_status sn_kept_known(const struct sn_kept_entry **out, struct sn_estimator *e, int modules,
                             struct sn_err *err)
{
    struct sn_kept_entry *x;
    SN_TRY(kept_entry(&x, e, err));
    while (x && !is_read(x, modules))
        x = x->smaller;
    *out = x;
    return SN_OK;
}

enum sn_status sn_kept_cached(const struct sn_kept_entry **out, struct sn_estimator *e, int modules,
                              struct sn_err *err)
{
    struct sn_kept_entry *x;
    SN_TRY(kept_entry(&x, e, err));
    *out = x;
    return read_kept(x, e, modules, err);
}
