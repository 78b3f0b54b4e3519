/*
 * prove.c - the programs of a layout's ranks, of which some stand for many, and their proof.
 */
#include "lib/meaning/prove.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/meaning/meaning.h"

/* Replicas on the data axis that tell all that more of them would: 2; where they share experts out, 2
 * groups that do. */
static int replicas(const struct sn_config *c)
{
    const struct sn_layout_config *l = &c->layout;
    int members = c->model.experts.count > 0 ? sn_config_expert_members(c) : 1, d = 2;
    int per_data = l->context * sn_config_fold(c);
    while (d < l->data &&
           (l->data % d != 0 || d * per_data % members != 0 || d * per_data < 2 * members))
        d++;
    return d < l->data ? d : l->data;
}

/* Micro-batches that tell of a batch all that more of them would. */
static int few(const struct sn_config *c, int batch)
{
    const struct sn_layout_config *l = &c->layout;
    int micros = batch / (l->data * l->micro_batch);
    int fill = 2 * l->pipeline * (l->virtual_stages > 1 ? l->virtual_stages : 1);
    int enough = (fill > 4 ? fill : 4) + micros % l->pipeline;
    return micros < enough ? micros : enough;
}

/* As many replicas and micro-batches as tell all that more of them would. */
static struct sn_config smaller(const struct sn_config *c)
{
    struct sn_config s = *c;
    struct sn_layout_config *l = &s.layout;
    struct sn_ramp_config *r = &s.train.ramp;
    int n = 0; /* different sizes so far */
    l->data = replicas(c);
    for (int k = 0; k < c->train.ramp.n_batches; k++) {
        int size = few(c, c->train.ramp.batches[k]) * l->data * l->micro_batch;
        if (n == 0 || size != r->batches[n - 1])
            r->batches[n++] = size;
    }
    s.train.global_batch = few(c, c->train.global_batch) * l->data * l->micro_batch;
    r->n_batches = n;
    return s;
}

struct world {
    struct sn_config config, one;
    struct sn_job *reference;
    struct sn_job **own;   /* by rank, of those that were compiled */
    struct sn_job *copies; /* by rank: of the others, those of the first replica */
    const struct sn_job **jobs;
    int ranks;
};

/* The rank's job is that of the first replica, but for its place. */
static void copy_job(struct world *w, int rank, int first)
{
    struct sn_job *j = &w->copies[rank];
    *j = *w->own[first];
    j->rank = rank;
    for (int q = 0; q < SN_NGROUPS; q++) {
        j->group_size[q] = sn_group_size(&j->grid, rank, (enum sn_group)q);
        j->group_index[q] = sn_group_index(&j->grid, rank, (enum sn_group)q);
    }
    w->jobs[rank] = j;
}

static enum sn_status compile(struct world *w, const struct sn_job_env *env, struct sn_err *err)
{
    struct sn_grid g;
    struct sn_job_env e = *env;
    SN_TRY(sn_job_grid(&g, &w->config, err));
    e.config = &w->one;
    e.rank = 0;
    SN_TRY(sn_job_create_text(&w->reference, &e, err));
    e.config = &w->config;
    for (e.rank = 0; e.rank < w->ranks; e.rank++) {
        int back = sn_grid_coord(&g, e.rank, SN_AXIS_DATA) * g.stride[SN_AXIS_DATA];
        if (back > 0 && w->config.layout.expert == 1 && sn_config_fold(&w->config) <= 1)
            continue; /* who shares experts out holds others */
        SN_TRY(sn_job_create_text(&w->own[e.rank], &e, err));
        w->jobs[e.rank] = w->own[e.rank];
    }
    for (int i = 0; i < w->ranks; i++)
        if (!w->own[i])
            copy_job(w, i, i - sn_grid_coord(&g, i, SN_AXIS_DATA) * g.stride[SN_AXIS_DATA]);
    return SN_OK;
}

static void set_batch(struct world *w, int k)
{
    for (int i = 0; i < w->ranks; i++)
        sn_job_set_batch(w->own[i] ? w->own[i] : &w->copies[i], k);
}

static enum sn_status check(struct sn_meaning_proof *out, struct world *w, struct sn_err *err)
{
    out->gap = sn_meaning_gap_of(&w->reference->train);
    for (int i = 0; i < w->ranks && !out->gap; i++)
        out->gap = sn_meaning_gap_of(&w->jobs[i]->train);
    if (out->gap)
        return SN_OK;
    struct sn_meaning_world m = {w->jobs, w->ranks, w->reference};
    enum sn_status st = SN_OK;
    for (int k = 0; k < sn_batch_sizes(&w->config.train) && st == SN_OK; k++) {
        set_batch(w, k); /* the last one stays */
        st = sn_meaning_check(&m, NULL, &out->fault);
    }
    for (int i = 0; i < w->ranks; i++)
        out->approximate |= sn_meaning_approximate(&w->jobs[i]->train);
    out->ranks = w->ranks;
    out->micros = w->jobs[0]->train.micros;
    out->holds = st == SN_OK;
    if (st == SN_OK || st == SN_EFAIL)
        return SN_OK;
    *err = out->fault;
    return st;
}

enum sn_status sn_meaning_prove(struct sn_meaning_proof *out, const struct sn_job_env *env,
                                struct sn_err *err)
{
    *out = (struct sn_meaning_proof){.is_asked = true, .gap = sn_meaning_gap(env->config)};
    if (out->gap)
        return SN_OK;
    struct world w = {.config = smaller(env->config)};
    sn_meaning_reference(&w.one, env->config);
    w.ranks = sn_config_ranks(&w.config);
    size_t n = (size_t)w.ranks;
    w.own = sn_alloc_n(n, sizeof(struct sn_job *));
    w.copies = sn_alloc_n(n, sizeof(*w.copies));
    w.jobs = sn_alloc_n(n, sizeof(struct sn_job *));
    enum sn_status st = SN_OK;
    if (!w.own || !w.copies || !w.jobs)
        st = sn_fail(err, SN_ENOMEM, "--verify: no memory for the programs of %d ranks", w.ranks);
    if (st == SN_OK)
        st = compile(&w, env, err);
    if (st == SN_OK)
        st = check(out, &w, err);
    for (int i = 0; w.own && i < w.ranks; i++)
        sn_job_destroy(w.own[i]);
    sn_job_destroy(w.reference);
    sn_free(w.own);
    sn_free(w.copies);
    sn_free(w.jobs);
    return st;
}
