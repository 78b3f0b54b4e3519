#include "tests/lib/verify_test.h"

#include "lib/base/mem.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <string.h>

static struct sn_config config_of(const struct verify_layout *l)
{
    struct sn_config c = layout_config(l->family);
    c.train.precision = l->dtype;
    if (l->kv_heads)
        c.model.kv_heads = l->kv_heads;
    c.layout.micro_batch = l->micro_batch ? l->micro_batch : 1;
    c.layout.data = l->data ? l->data : 1;
    c.layout.tensor = l->tensor ? l->tensor : 1;
    c.layout.context = l->context ? l->context : 1;
    c.layout.pipeline = l->pipeline ? l->pipeline : 1;
    c.layout.virtual_stages = l->virtual_stages ? l->virtual_stages : 1;
    c.layout.sequence_parallel = l->sequence_parallel;
    c.layout.split_backward = l->split_backward;
    c.layout.drop_duplicates = l->drop_duplicates;
    c.layout.schedule = l->schedule || l->pipeline == 0 ? l->schedule : SN_1F1B;
    c.layout.zero = l->zero;
    c.layout.zero_cache = l->zero_cache;
    if (l->family == SN_MIXTRAL)
        c.model.experts = (struct sn_experts_config){.count = 4, .top_k = 2, .every = 1};
    c.layout.expert = l->expert ? l->expert : 1;
    c.layout.expert_chunks = l->expert_chunks;
    c.layout.expert_buffer = 2;
    c.layout.recompute = l->recompute;
    c.layout.context_kind = l->kind;
    return c;
}

static bool compile_job(struct verify_world *w, int rank, struct sn_err *err)
{
    struct sn_job_env env = {
        .config = &w->config, .model = w->model, .ops = sn_ops_cpu(), .threads = 1, .rank = rank};
    return sn_job_create(&w->jobs[rank], &env, err) == SN_OK;
}

bool verify_world_compile(struct verify_world *w, const struct sn_config *c)
{
    struct sn_err err = {0};
    memset(w, 0, sizeof(*w));
    w->config = *c;
    w->ranks = layout_ranks(&w->config);
    bool good = sn_model_create(&w->model, &w->config.model, &w->config.train, &err) == SN_OK;
    for (int i = 0; good && i < w->ranks; i++)
        good = compile_job(w, i, &err);
    for (int i = 0; good && i < w->ranks; i++) { /* copies that a test may change */
        struct sn_program *p = &w->spoilt[i];
        *p = w->jobs[i]->train;
        p->ops = sn_alloc_n((size_t)p->n_ops, sizeof(*p->ops));
        p->sched = sn_alloc_n((size_t)p->n_sched, sizeof(*p->sched));
        memcpy(p->ops, w->jobs[i]->train.ops, (size_t)p->n_ops * sizeof(*p->ops));
        memcpy(p->sched, w->jobs[i]->train.sched, (size_t)p->n_sched * sizeof(*p->sched));
        p->segments = sn_alloc_n((size_t)p->n_segments, sizeof(*p->segments));
        memcpy(p->segments, w->jobs[i]->train.segments,
               (size_t)p->n_segments * sizeof(*p->segments));
        p->bufs = sn_alloc_n((size_t)p->n_bufs, sizeof(*p->bufs));
        memcpy(p->bufs, w->jobs[i]->train.bufs, (size_t)p->n_bufs * sizeof(*p->bufs));
        w->programs[i] = p;
    }
    if (!good)
        tap_ok(false, "it compiles: %s", err.text);
    return good;
}

bool verify_world_init(struct verify_world *w, const struct verify_layout *l)
{
    struct sn_config c = config_of(l);
    return verify_world_compile(w, &c);
}

void verify_world_fini(struct verify_world *w)
{
    for (int i = 0; i < w->ranks; i++) {
        sn_free(w->spoilt[i].ops);
        sn_free(w->spoilt[i].sched);
        sn_free(w->spoilt[i].segments);
        sn_free(w->spoilt[i].bufs);
        sn_job_destroy(w->jobs[i]);
    }
    sn_model_destroy(w->model);
}

enum sn_status verify_all(const struct verify_world *w, bool spoilt, struct sn_err *err)
{
    struct sn_verify_world v = {&w->jobs[0]->grid, (const struct sn_job *const *)w->jobs};
    *err = (struct sn_err){0};
    return sn_verify(&v, spoilt ? w->programs : NULL, err);
}
