/*
 * lora.c - adapters of weight matrices (Hu et al., "LoRA", arXiv 2106.09685):
 *
 *   y = x W^T + alpha / r (x A^T) B^T        W[out, in] frozen, A[r, in], B[out, r]
 *
 * A matrix is a tensor that people name: q, k and v of one fused product have adapters of their
 * own. Their A lie one under the other, so that x is read once for all; a B for each adds to the
 * columns of y that its tensor gives. As PEFT begins: A uniform within 1 / sqrt(in) (Kaiming's with
 * a = sqrt 5), B zero. How both are cut where W is: lib/layout/cut.h.
 */
#include "lib/model/build.h"

#include "lib/base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "layers.3.attn.q.weight" -> its length without "weight". */
static int stem_of(const char *name)
{
    const char *end = strrchr(name, '.');
    return end ? (int)(end - name) + 1 : 0;
}

static bool is_target(const struct sn_train_config *t, const char *name)
{
    for (int i = 0; i < t->lora.n_targets; i++)
        if (sn_str_glob(t->lora.targets[i], name))
            return true;
    return false;
}

static struct sn_param adapter(const struct sn_param *w, const char *what, int64_t cols)
{
    struct sn_param p = {.cols = cols, .init = SN_INIT_ZEROS, .decay = true, .is_adapter = true};
    (void)snprintf(p.name, sizeof(p.name), "%.*s%s", stem_of(w->name), w->name, what);
    return p;
}

/* All A of a weight, one under the other; -1: none of its tensors is a target. */
static int stacked(struct sn_model_builder *b, const struct sn_param *w)
{
    struct sn_param a = adapter(w, "lora_a", w->cols);
    a.init = SN_INIT_UNIFORM;
    a.std = (float)(1 / sqrt((double)w->cols));
    for (int i = 0; i < w->n_tensors; i++) {
        const char *name = w->tensor[i].name;
        if (is_target(b->train, name))
            sn_model_tensor(b, &a, b->train->lora.r, "%.*slora_a", stem_of(name), name);
    }
    return a.n_tensors > 0 ? sn_model_param(b, &a) : -1;
}

/* x, of which some is dropped in training. */
static int thinned(struct sn_model_builder *b, int x, const char *point)
{
    if (b->train->lora.dropout <= 0 || b->failed)
        return x;
    int y = sn_model_value(b, b->model->values[x].cols);
    struct sn_node *n = sn_model_node(b, SN_NODE_DROPOUT, "l%d.%s.lora_drop", b->layer, point);
    n->in[0] = x;
    n->out = y;
    n->attr.random.drop = (float)b->train->lora.dropout;
    n->attr.random.site = sn_model_sites(b->config) + (uint32_t)y; /* no other has this value */
    return y;
}

/* alpha / r x A^T. */
static int reduced(struct sn_model_builder *b, int a, int x, const char *point)
{
    x = thinned(b, x, point);
    int64_t cols = b->failed ? 1 : b->model->params[a].rows;
    int u = sn_model_value(b, cols), v = sn_model_value(b, cols);
    struct sn_node *n = sn_model_node(b, SN_NODE_LINEAR, "l%d.%s.lora_a", b->layer, point);
    n->in[0] = x;
    n->out = u;
    n->param[0] = a;
    n = sn_model_node(b, SN_NODE_SCALE, "l%d.%s.lora_scale", b->layer, point);
    n->in[0] = u;
    n->out = v;
    n->attr.scale = (float)(b->train->lora.alpha / b->train->lora.r);
    return v;
}

/* y, with what the adapter of a tensor gives added: its columns of u are the first of those from
 * `col` on. */
static int adapted(struct sn_model_builder *b, struct sn_adapts at, int y, int u, const char *point)
{
    const struct sn_param w = b->model->params[at.param]; /* a copy: the array may move */
    const struct sn_tensor *t = &w.tensor[at.tensor];
    int stem = stem_of(t->name);
    struct sn_param p = adapter(&w, "", b->train->lora.r);
    (void)snprintf(p.name, sizeof(p.name), "%.*slora_b", stem, t->name);
    sn_model_tensor(b, &p, t->rows, "%s", p.name);
    if (p.n_tensors > 0)
        p.tensor[0].part = t->part;
    int matrix = sn_model_param(b, &p);
    int z = sn_model_value(b, w.rows);
    struct sn_node *n =
        sn_model_node(b, SN_NODE_ADAPT, "l%d.%s.lora_b.%d", b->layer, point, at.tensor);
    n->in[0] = y;
    n->in[1] = u;
    n->out = z;
    n->param[0] = matrix;
    n->adapts = at;
    return z;
}

int sn_lora_build(struct sn_model_builder *b, int weight, int x, int y, const char *point)
{
    if (b->train->lora.r == 0 || b->failed)
        return y;
    const struct sn_param w = b->model->params[weight];
    int a = stacked(b, &w);
    if (a < 0)
        return y;
    int u = reduced(b, a, x, point);
    struct sn_adapts at = {.param = weight};
    for (; at.tensor < w.n_tensors && !b->failed; at.tensor++)
        if (is_target(b->train, w.tensor[at.tensor].name)) {
            y = adapted(b, at, y, u, point);
            at.col += b->train->lora.r;
        }
    return y;
}

void sn_lora_code(struct sn_model *m, const struct sn_train_config *t)
{
    for (int i = 0; i < m->n_nodes && sn_lora_codec(&t->lora); i++) {
        const struct sn_node *n = &m->nodes[i];
        if (n->kind == SN_NODE_LINEAR)
            m->params[n->param[0]].is_coded = !m->params[n->param[0]].trainable;
    }
}

/* --- patterns --------------------------------------------------------------------------------- */

static bool can_adapt(const struct sn_model *m, int param)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == SN_NODE_LINEAR && m->nodes[i].param[0] == param)
            return true;
    return false;
}

/* A matrix that a pattern names, and that can have no adapter; NULL: there is none. Of vectors,
 * biases and norms, which patterns match on the way, nothing is said. */
static const char *misfit(const struct sn_model *m, const char *pattern, int *hits)
{
    for (int i = 0; i < m->n_params; i++)
        for (int k = 0; k < m->params[i].n_tensors; k++) {
            const struct sn_param *p = &m->params[i];
            if (p->is_adapter || p->cols == 1 || !sn_str_glob(pattern, p->tensor[k].name))
                continue;
            if (!can_adapt(m, i))
                return p->tensor[k].name;
            ++*hits;
        }
    return NULL;
}

enum sn_status sn_lora_check(const struct sn_model *m, const struct sn_train_config *t,
                             struct sn_err *err)
{
    for (int i = 0; i < t->lora.n_targets; i++) {
        int hits = 0;
        const char *pattern = t->lora.targets[i], *name = misfit(m, pattern, &hits);
        if (name)
            return sn_fail(
                err, SN_EINPUT,
                "train.lora.targets: '%s' matches %s, and adapters of embeddings, heads, "
                "routers and experts are not built yet; want matrices of attention and "
                "dense feed-forward parts, such as *.attn.q.weight",
                pattern, name);
        if (hits == 0)
            return sn_fail(err, SN_EINPUT,
                           "train.lora.targets: '%s' matches no matrix of this model; names look "
                           "like 'layers.0.attn.q.weight'",
                           pattern);
    }
    return SN_OK;
}
