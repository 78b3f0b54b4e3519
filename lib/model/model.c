/*
 * model.c - building node lists, counting, initial values.
 */
#include "lib/model/build.h"

#include "kernels/mask.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int sn_model_value(struct sn_model_builder *b, int64_t cols)
{
    struct sn_model *m = b->model;
    b->failed =
        b->failed || !sn_grow((void **)&m->values, m->n_values, &m->cap_values, sizeof(*m->values));
    if (b->failed)
        return 0;
    m->values[m->n_values].cols = cols;
    return m->n_values++;
}

struct sn_node *sn_model_node(struct sn_model_builder *b, enum sn_node_kind kind, const char *fmt,
                              ...)
{
    struct sn_model *m = b->model;
    b->failed =
        b->failed || !sn_grow((void **)&m->nodes, m->n_nodes, &m->cap_nodes, sizeof(*m->nodes));
    struct sn_node *n = b->failed ? &b->spare : &m->nodes[m->n_nodes++];
    *n = (struct sn_node){.kind = kind, .layer = b->layer, .in = {-1, -1, -1}, .param = {-1, -1}};
    n->attr.position.seq = b->config->seq;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(n->point, sizeof(n->point), fmt, ap);
    va_end(ap);
    return n;
}

static int group_of(const struct sn_train_config *t, const char *tensor)
{
    for (int i = 0; i < t->groups.n_names; i++)
        if (sn_str_glob(t->groups.names[i], tensor))
            return i;
    return -1;
}

/* Of a wider model than the one that hyperparameters are of (lib/config/rules_mup.c). */
static void scale_hidden(struct sn_param *p, const struct sn_model_builder *b)
{
    int base = b->train->mup.base_width;
    bool is_hidden = strncmp(p->name, "layers.", 7) == 0 && p->init == SN_INIT_NORMAL;
    if (base == 0 || !is_hidden)
        return;
    p->rate = (float)base / (float)b->config->hidden;
    p->std *= sqrtf(p->rate);
}

static bool frozen(const struct sn_train_config *t, const char *tensor)
{
    for (int i = 0; i < t->n_freeze; i++)
        if (sn_str_glob(t->freeze[i], tensor))
            return true;
    return false;
}

void sn_model_tensor(struct sn_model_builder *b, struct sn_param *p, int64_t rows, const char *fmt,
                     ...)
{
    if (!sn_grow((void **)&p->tensor, p->n_tensors, &p->cap_tensors, sizeof(*p->tensor))) {
        b->failed = true;
        return;
    }
    struct sn_tensor *x = &p->tensor[p->n_tensors++];
    x->row = p->rows;
    x->rows = rows;
    x->part = p->n_tensors - 1;
    p->rows += rows;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(x->name, sizeof(x->name), fmt, ap);
    va_end(ap);
}

/* The row of a name in the builder's table: its own, or the free one where it belongs. */
static int *row_of(const struct sn_model_builder *b, const char *name)
{
    uint64_t mask = (uint64_t)b->n_by_name - 1, i = sn_hash64(name, strlen(name)) & mask;
    while (b->by_name[i] && strcmp(b->model->params[b->by_name[i] - 1].name, name) != 0)
        i = (i + 1) & mask;
    return &b->by_name[i];
}

/* Room for one more name. */
static bool grow_names(struct sn_model_builder *b)
{
    const struct sn_model *m = b->model;
    if (2 * (m->n_params + 1) <= b->n_by_name)
        return true;
    int n = b->n_by_name ? 2 * b->n_by_name : 64, *larger = sn_alloc_n((size_t)n, sizeof(*larger));
    if (!larger)
        return false;
    sn_free(b->by_name);
    b->by_name = larger;
    b->n_by_name = n;
    for (int i = 0; i < m->n_params; i++)
        *row_of(b, m->params[i].name) = i + 1;
    return true;
}

int sn_model_param(struct sn_model_builder *b, const struct sn_param *want)
{
    struct sn_model *m = b->model;
    b->failed = b->failed || !grow_names(b);
    int *row = b->failed ? NULL : row_of(b, want->name);
    if (row && *row) { /* shared layers and tied weights meet here */
        sn_free(want->tensor);
        return *row - 1;
    }
    b->failed =
        b->failed || !sn_grow((void **)&m->params, m->n_params, &m->cap_params, sizeof(*m->params));
    if (b->failed) {
        sn_free(want->tensor);
        return 0;
    }
    struct sn_param *p = &m->params[m->n_params];
    *p = *want;
    scale_hidden(p, b);
    p->group = p->n_tensors > 0 ? group_of(b->train, p->tensor[0].name) : -1;
    p->trainable =
        p->is_adapter || (b->train->lora.r == 0 && sn_prompt_positions(&b->train->prompt) == 0);
    for (int i = 0; i < p->n_tensors; i++)
        if (frozen(b->train, p->tensor[i].name))
            p->trainable = false;
    sn_sparse_mark(p, &b->train->sparse);
    *row = m->n_params + 1;
    return m->n_params++;
}

/* A parameter is trained as a whole: a pattern that freezes q but not k of one fused matrix is
 * refused rather than half obeyed. */
static enum sn_status check_freeze(const struct sn_model *m, const struct sn_train_config *t,
                                   struct sn_err *err)
{
    for (int f = 0; f < t->n_freeze; f++) {
        bool used = false;
        for (int i = 0; i < m->n_params; i++) {
            const struct sn_param *p = &m->params[i];
            int hits = 0;
            for (int k = 0; k < p->n_tensors; k++)
                hits += sn_str_glob(t->freeze[f], p->tensor[k].name);
            used = used || hits > 0;
            if (hits > 0 && hits < p->n_tensors)
                return sn_fail(err, SN_EINPUT,
                               "train.freeze: '%s' freezes a part of %s; freeze all of its %d "
                               "tensors or none",
                               t->freeze[f], p->name, p->n_tensors);
        }
        if (!used)
            return sn_fail(err, SN_EINPUT,
                           "train.freeze: '%s' matches no tensor of this model; names look like "
                           "'%s'",
                           t->freeze[f], m->params[0].tensor[0].name);
    }
    return SN_OK;
}

/* So is one that parts a matrix in two groups. */
static enum sn_status check_groups(const struct sn_model *m, const struct sn_train_config *t,
                                   struct sn_err *err)
{
    for (int g = 0; g < t->groups.n_names; g++) {
        bool used = false;
        for (int i = 0; i < m->n_params; i++) {
            const struct sn_param *p = &m->params[i];
            used = used || p->group == g;
            for (int k = 0; k < p->n_tensors; k++)
                if ((group_of(t, p->tensor[k].name) == g) != (p->group == g))
                    return sn_fail(err, SN_EINPUT,
                                   "train.groups.names: '%s' has a part of %s; want all of its %d "
                                   "tensors in one group or none",
                                   t->groups.names[g], p->name, p->n_tensors);
        }
        if (!used)
            return sn_fail(err, SN_EINPUT,
                           "train.groups.names: '%s' has no tensor of this model that an earlier "
                           "one leaves; names look like '%s'",
                           t->groups.names[g], m->params[0].tensor[0].name);
    }
    return SN_OK;
}

enum sn_status sn_model_create(struct sn_model **out, const struct sn_model_config *c,
                               const struct sn_train_config *t, struct sn_err *err)
{
    struct sn_model *m = sn_alloc(sizeof(*m));
    if (!m)
        return sn_fail(err, SN_ENOMEM, "model: no memory");
    struct sn_model_builder b = {
        .model = m, .config = c, .traits = sn_family_traits(c->family), .train = t, .layer = -1};
    sn_family_build(&b);
    sn_free(b.by_name);
    enum sn_status st = b.failed
                            ? sn_fail(err, SN_ENOMEM, "model: no memory for %d nodes", m->n_nodes)
                            : check_freeze(m, t, err);
    if (st == SN_OK)
        st = check_groups(m, t, err);
    if (st == SN_OK)
        st = sn_lora_check(m, t, err);
    if (st == SN_OK)
        st = sn_sparse_check(m, &t->sparse, err);
    sn_lora_code(m, t);
    if (st != SN_OK) {
        sn_model_destroy(m);
        return st;
    }
    *out = m;
    return SN_OK;
}

void sn_model_destroy(struct sn_model *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_params; i++)
        sn_free(m->params[i].tensor);
    sn_free(m->frequencies);
    sn_free(m->params);
    sn_free(m->nodes);
    sn_free(m->values);
    sn_free(m);
}

bool sn_param_trains(const struct sn_param *p)
{
    return p->trainable && !p->is_bias;
}

int sn_model_tensor_count(const struct sn_model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_params; i++)
        n += m->params[i].n_tensors;
    return n;
}

int sn_expert_layers(const struct sn_model_config *c)
{
    return sn_expert_layers_before(c, sn_model_blocks(c));
}

static double elements(const struct sn_model *m, int param)
{
    return param < 0 ? 0 : (double)m->params[param].rows * (double)m->params[param].cols;
}

double sn_node_multiplies(const struct sn_model *m, const struct sn_model_config *c,
                          const struct sn_node *n)
{
    switch (n->kind) {
    case SN_NODE_LINEAR:
    case SN_NODE_HEAD_LOSS:
    case SN_NODE_ROUTER:
    case SN_NODE_GATE:
    case SN_NODE_ADAPT:
        return elements(m, n->param[0]);
    case SN_NODE_PROMPT: /* of features, in some rows of a sample */
        return n->attr.prompt.levels > 0
                   ? elements(m, n->param[0]) * n->attr.prompt.rows / c->seq
                   : 0;
    case SN_NODE_EXPERTS:
        return (elements(m, n->param[0]) + elements(m, n->param[1])) *
               (c->experts.router == SN_ROUTER_DENSE ? c->experts.count : c->experts.top_k) /
               c->experts.count;
    default:
        return 0;
    }
}

int64_t sn_model_param_count(const struct sn_model *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_params; i++)
        n += m->params[i].rows * m->params[i].cols;
    return n;
}

/* Every use of a matrix counts, so shared layers count as often as they run. Of what is frozen no
 * gradient is computed, nor of what lies before all that trains. keys: those that a token sees, on
 * average, in layers without a window and in those with one. is_sparse: without products of what
 * train.sparse has dropped. */
static double flops(const struct sn_model *m, const struct sn_model_config *c, const double keys[2],
                    bool is_sparse)
{
    double sum = 0;
    bool upstream = false; /* something trains there */
    for (int i = 0; i < m->n_nodes; i++) {
        const struct sn_node *n = &m->nodes[i];
        bool trains = false;
        for (int k = 0; k < 2; k++)
            trains = trains || (n->param[k] >= 0 && sn_param_trains(&m->params[n->param[k]]));
        bool needs_input = upstream && n->kind != SN_NODE_PROMPT; /* features need no gradient */
        sum += (2.0 + 2.0 * needs_input + 2.0 * trains) * sn_node_multiplies(m, c, n) *
               (is_sparse ? sn_sparse_share(m, n) : 1);
        if (n->kind == SN_NODE_ATTENTION)
            sum += (2.0 + 4.0 * upstream) *
                   ((double)sn_model_query_width(c) + sn_model_value_width(c)) *
                   keys[sn_layer_window(c, n->layer) > 0];
        upstream = upstream || trains;
    }
    return sum;
}

double sn_model_flops_per_token(const struct sn_model *m, const struct sn_model_config *c)
{
    return sn_model_flops_of_keys(m, c, sn_mask_keys(c->seq, 0),
                                  sn_mask_keys(c->seq, c->sliding_window));
}

double sn_model_flops_of_keys(const struct sn_model *m, const struct sn_model_config *c,
                              double keys, double window_keys)
{
    return flops(m, c, (const double[2]){keys, window_keys}, false);
}

double sn_model_flops_of_length(const struct sn_model *m, const struct sn_config *c, int64_t length)
{
    return sn_model_flops_of_keys(m, &c->model, sn_model_expected_keys(c, length, 0),
                                  sn_model_expected_keys(c, length, c->model.sliding_window));
}

double sn_model_flops_uncausal(const struct sn_model *m, const struct sn_model_config *c)
{
    return flops(m, c, (const double[2]){c->seq, c->seq}, false);
}

void sn_model_sparsity(struct sn_sparsity *out, const struct sn_model *m, const struct sn_config *c)
{
    const double keys[2] = {sn_model_expected_keys(c, c->model.seq, 0),
                            sn_model_expected_keys(c, c->model.seq, c->model.sliding_window)};
    *out = (struct sn_sparsity){.flops = flops(m, &c->model, keys, true) /
                                         flops(m, &c->model, keys, false)};
    for (int i = 0; i < m->n_params; i++) {
        const struct sn_param *p = &m->params[i];
        if (p->keep == 0)
            continue;
        out->matrices += p->n_tensors;
        out->values += p->rows * p->cols;
        out->kept += sn_sparse_kept(p);
    }
}

double sn_model_logit(const struct sn_model_config *c, float z)
{
    return c->logit_cap > 0 ? c->logit_cap * tanh((double)z / c->logit_cap) : (double)z;
}

static void init_tensor(const struct sn_param *p, const struct sn_tensor *tensor, uint64_t seed,
                        int64_t row, int64_t rows, float *out)
{
    int64_t n = rows * p->cols;
    if (p->init == SN_INIT_NORMAL) {
        uint64_t first = (uint64_t)((row - tensor->row) * p->cols);
        sn_rng_normal(sn_rng_key(seed, tensor->name), first, (size_t)n, p->std, out);
        return;
    }
    if (p->init == SN_INIT_UNIFORM) {
        uint64_t key = sn_rng_key(seed, tensor->name);
        uint64_t first = (uint64_t)((row - tensor->row) * p->cols);
        for (int64_t i = 0; i < n; i++)
            out[i] = p->std * (float)(2 * sn_rng_uniform(key, first + (uint64_t)i) - 1);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = p->init == SN_INIT_ONES ? 1.0f : 0.0f;
}

void sn_param_init(const struct sn_param *p, uint64_t seed, int64_t row, int64_t rows, float *out)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const struct sn_tensor *tensor = &p->tensor[i];
        int64_t first = row > tensor->row ? row : tensor->row;
        int64_t end = tensor->row + tensor->rows;
        end = row + rows < end ? row + rows : end;
        if (first >= end)
            continue;
        init_tensor(p, tensor, seed, first, end - first, out + (first - row) * p->cols);
        if (p->keep > 0)
            sn_sparse_begin(p, tensor, seed, first, end - first, out + (first - row) * p->cols);
    }
}
