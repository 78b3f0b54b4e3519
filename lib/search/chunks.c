#include "lib/search/chunks.h"

#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/cost/hops.h"
#include "lib/machine/named.h"
#include "lib/model/model.h"
#include "lib/search/layer_profile.h"
#include "lib/search/tokens.h"
#include "lib/sim/sim.h"

/* A layer of each kind on one stage, one micro-batch: the groups of its ranks are the layout's. */
static void layer_alone(struct sn_config *out, const struct sn_config *c)
{
    struct sn_layout_config *l = &out->layout;
    *out = *c;
    sn_layer_profile_model(&out->model, &out->train);
    l->split_backward |= sn_schedule_traits(l->schedule)->delays_weights;
    l->schedule = SN_SCHEDULE_DEFAULT;
    l->pipeline = l->virtual_stages = 1;
    l->n_split = 0;
    if (l->split_backward && sn_gradients_are_temporary(sn_zero_holding(l->zero)))
        l->zero = 1;
    l->zero_cache = 0;
    sn_batch_set(&out->train, l->data * l->micro_batch);
    out->train.eval_every = 0;
    out->checkpoint.async = false;
    out->checkpoint.snapshot_every = 0;
}

/* Seconds of a step. Its groups lie where those of the whole grid do. */
static enum sn_status play(double *out, const struct sn_job_env *env, const struct sn_pricer *whole,
                           struct sn_err *err)
{
    struct sn_stages stages = {0};
    struct sn_pricer p;
    struct sn_sim sim = {0};
    enum sn_status st = sn_stages_create_text(&stages, env, err);
    if (st == SN_OK) {
        sn_pricer_init(&p, whole->machine, whole->software, stages.job[0]);
        for (int q = 0; q < SN_NGROUPS; q++)
            if (p.span[q].members == whole->span[q].members)
                p.span[q] = whole->span[q];
        st = sn_sim_run(&sim, &stages, &p, false, err);
    }
    *out = sim.step;
    sn_sim_fini(&sim);
    sn_stages_fini(&stages);
    return st;
}

static enum sn_status compare(struct sn_chunks *out, struct sn_config *alone,
                              const struct sn_pricer *whole, struct sn_err *err)
{
    struct sn_model *model = NULL;
    struct sn_job_env env = {.config = alone, .ops = sn_ops_cpu(), .threads = whole->threads};
    SN_TRY(sn_model_create(&model, &alone->model, &alone->train, err));
    enum sn_status st = SN_OK;
    env.model = model;
    int named = alone->layout.expert_chunks;
    out->n = named > 0 ? named : 1;
    for (int n = out->n; st == SN_OK && n <= (named > 0 ? named : SN_CHUNKS_MOST); n *= 2) {
        alone->layout.expert_chunks = n;
        st = play(&out->seconds[n], &env, whole, err);
        if (out->seconds[n] < out->seconds[out->n])
            out->n = n;
    }
    sn_model_destroy(model);
    return st;
}

enum sn_status sn_chunks_choose(struct sn_chunks *out, const struct sn_config *c,
                                const struct sn_grid *g, const struct sn_machine *m,
                                const struct sn_software *s, struct sn_err *err)
{
    struct sn_pricer whole = {.machine = m,
                              .software = s,
                              .precision = c->train.precision,
                              .grid = *g,
                              .threads = c->run.threads > 0 ? c->run.threads : 1};
    struct sn_config *alone = sn_alloc(sizeof(*alone)); /* large for a stack */
    struct sn_chunks found = {.n = 1};
    if (!alone)
        return sn_fail(err, SN_ENOMEM, "layout.expert_chunks: no memory to price it");
    for (int q = 0; q < SN_NGROUPS; q++)
        sn_span_of(&whole.span[q], m, g, (enum sn_group)q);
    layer_alone(alone, c);
    enum sn_status st = compare(&found, alone, &whole, err);
    sn_free(alone);
    if (st == SN_OK)
        *out = found;
    return st;
}

enum sn_status sn_chunks_resolve(struct sn_config *c, struct sn_err *err)
{
    struct sn_machine m = {0};
    struct sn_software s;
    struct sn_grid g;
    struct sn_chunks chunks = {.n = 1};
    bool chooses = sn_tokens_are_open(c);
    if (!chooses) {
        sn_config_settle_tokens(&c->layout);
        SN_TRY(sn_hops_resolve(c, err));
    }
    if (sn_config_expert_members(c) == 1 || (c->layout.expert_chunks > 0 && !chooses))
        return SN_OK;
    if (sn_names_machine(c)) {
        SN_TRY(sn_machine_of(&m, c, NULL, err)); /* its own sentence names the file */
        enum sn_status st = sn_software_of(&s, c, NULL, err);
        if (st == SN_OK && chooses)
            st = sn_tokens_choose(c, &m, &s, err);
        if (st == SN_OK)
            st = sn_job_grid(&g, c, err);
        if (st == SN_OK)
            st = sn_chunks_choose(&chunks, c, &g, &m, &s, err);
        sn_machine_fini(&m);
        if (st != SN_OK)
            return sn_err_prefix(err, "layout.expert_chunks: auto");
    }
    c->layout.expert_chunks = chunks.n;
    return SN_OK;
}
