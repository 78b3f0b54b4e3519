/*
 * estimate_create.c - an estimator: the layers that it compiles once, and the room that it has.
 */
#include "lib/base/mem.h"
#include "lib/config/batch.h"
#include "lib/program/opinfo.h"
#include "lib/search/estimate_cache.h"

static const struct sn_op *find_op(const struct sn_program *p, int kind)
{
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return NULL;
}

/* The copy in fp32 of gradients of another type, which the update makes. */
static const struct sn_op *find_widening(const struct sn_job *j)
{
    const struct sn_program *p = &j->train;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == SN_OP_COPY &&
            p->bufs[p->ops[i].in[SN_COPY_X].buf].cls == SN_CLASS_GRAD)
            return &p->ops[i];
    return NULL;
}

/* What drops gradients of zeros (train.sparse), of the gradients and masters that others read. */
static struct sn_op prune_like(const struct sn_estimator *e)
{
    struct sn_op op = *e->sq_norm;
    op.kind = SN_OP_PRUNE;
    op.out[SN_PRUNE_G] = e->widen ? e->widen->in[SN_COPY_X] : e->sq_norm->in[SN_SQ_NORM_G];
    op.in[SN_PRUNE_P] = e->update->out[SN_UPDATE_P];
    return op;
}

/* One layer on one rank: whose update is priced in other sizes, and the settings of a pricer. */
static enum sn_status compile_one(struct sn_estimator *e, const struct sn_ops *ops, int threads,
                                  struct sn_err *err)
{
    struct sn_config *c = &e->config;
    struct sn_model_config model = c->model;
    struct sn_train_config train = c->train;
    if (sn_prompt_positions(&train.prompt) > 0 && sn_model_mixes_layers(&model))
        return sn_fail(err, SN_EINPUT,
                       "train.prompt: a search does not estimate prompts where some layers have "
                       "experts and others none; name the layout");
    if (!sn_layer_profile_stands_for_all(&train))
        return sn_fail(err, SN_EINPUT,
                       "train.lora.targets: a search estimates one layer for all, but a pattern "
                       "names layers by number; want patterns of all, such as *.attn.q.weight, or "
                       "name the layout");
    SN_TRY(sn_model_create(&e->whole, &c->model, &c->train, err));
    e->head_layers = sn_head_layers(e->whole, &c->model);
    sn_layer_profile_model(&c->model, &c->train);
    SN_TRY(sn_model_create(&e->model, &c->model, &c->train, err));
    c->layout = (struct sn_layout_config){.data = 1,
                                          .tensor = 1,
                                          .tensor_x = 1,
                                          .tensor_pieces = 1,
                                          .pipeline = 1,
                                          .context = 1,
                                          .expert = 1,
                                          .micro_batch = 1,
                                          .virtual_stages = 1,
                                          .schedule = SN_SCHEDULE_DEFAULT,
                                          .bucket = c->layout.bucket};
    sn_batch_set(&c->train, 1);
    struct sn_job_env env = {.config = c, .model = e->model, .ops = ops, .threads = threads};
    SN_TRY(sn_job_create(&e->job, &env, err));
    sn_pricer_init(&e->pricer, e->machine, e->software, e->job);
    e->sq_norm = find_op(&e->job->train, SN_OP_SQ_NORM);
    e->update = find_op(&e->job->train, sn_op_update(c->train.optimizer.kind));
    e->average = find_op(&e->job->train, SN_OP_AVERAGE);
    e->widen = find_widening(e->job);
    e->prune = prune_like(e);
    c->model = model;
    c->train = train;
    return SN_OK;
}

static bool changes_memory(const struct sn_software *s)
{
    return s->param_bytes > 0 || s->grad_bytes > 0 || s->optimizer_bytes > 0 ||
           s->kept_replicated > 0 || s->kept_sharded > 0 || s->logits_bytes > 0;
}

enum sn_status sn_estimator_create(struct sn_estimator **out, const struct sn_config *c,
                                   const struct sn_machine *m, const struct sn_software *s,
                                   const struct sn_ops *ops, int threads, struct sn_err *err)
{
    struct sn_estimator *e = sn_alloc(sizeof(*e));
    size_t layers = (size_t)c->model.layers;
    if (!e)
        return sn_fail(err, SN_ENOMEM, "search: no memory");
    e->config = *c;
    e->machine = m;
    e->software = s;
    e->foreign_memory = changes_memory(s);
    e->of = sn_kinds_of(&e->config);
    e->begin = sn_alloc_n(layers + 1, sizeof(*e->begin));
    e->kinds = sn_alloc_n(layers, sizeof(*e->kinds));
    e->keeps = sn_alloc_n(layers + 2, sizeof(*e->keeps));
    e->units = sn_alloc_n(2 * (layers + 2), sizeof(*e->units));
    e->picked = sn_alloc_n(layers + 2, sizeof(*e->picked));
    e->room = sn_alloc_n(9 * layers + 9, sizeof(*e->room));
    e->reduce = sn_alloc_n(layers + 1, sizeof(*e->reduce));
    e->split = sn_alloc_n(layers + 1, sizeof(*e->split));
    enum sn_status st = SN_OK;
    if (!e->room || !e->reduce || !e->split || !e->begin || !e->kinds || !e->keeps || !e->units ||
        !e->picked)
        st = sn_fail(err, SN_ENOMEM, "search: no memory for %d layers", c->model.layers);
    if (st == SN_OK)
        st = compile_one(e, ops, threads, err);
    if (st != SN_OK) {
        e->config.model = c->model;
        sn_estimator_destroy(e);
        return st;
    }
    e->env = (struct sn_layer_profile_env){&e->config, e->model, ops, threads, &e->pricer};
    *out = e;
    return SN_OK;
}

void sn_estimator_destroy(struct sn_estimator *e)
{
    if (!e)
        return;
    for (int i = 0; i < SN_CACHE_ROWS; i++) {
        for (struct sn_layer_profile_entry *x = e->shape[i], *next; x; x = next) {
            next = x->next;
            sn_layer_profile_destroy(x->shape);
            sn_free(x);
        }
        for (struct sn_kept_family *x = e->families[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
        for (struct sn_kept_entry *x = e->kept[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
        for (struct sn_net *x = e->net[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
        for (struct sn_inventory_entry *x = e->inventory[i], *next; x; x = next) {
            next = x->next;
            sn_inventory_entry_destroy(x);
        }
        for (struct sn_slots_entry *x = e->slots[i], *next; x; x = next) {
            next = x->next;
            sn_free(x);
        }
    }
    for (int i = 0; e->split && i <= e->config.model.layers; i++)
        sn_free(e->split[i]);
    sn_free(e->split);
    sn_free(e->begin);
    sn_free(e->kinds);
    sn_free(e->keeps);
    sn_free(e->units);
    sn_free(e->picked);
    sn_free(e->room);
    sn_free(e->reduce);
    sn_kept_models_fini(&e->models);
    sn_job_destroy(e->job);
    sn_model_destroy(e->model);
    sn_model_destroy(e->whole);
    sn_free(e);
}

void sn_estimator_limit(struct sn_estimator *e, int64_t bytes, int64_t library)
{
    e->limit = bytes;
    e->room_for = bytes > library ? bytes - library : 0;
}

int sn_estimator_shapes(const struct sn_estimator *e)
{
    return e->shapes;
}
