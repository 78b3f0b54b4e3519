/*
 * learner.h - small models on one rank that train a few steps, and what they hold and say: for
 * tests of sources that change a model.
 */
#ifndef LEARNER_H
#define LEARNER_H

#include "checkpoint/store/source.h"
#include "lib/base/rng.h"
#include "tests/lib/logits.h"
#include "tests/lib/source_test.h"
#include "tests/lib/tap.h"

enum { LAYERS = 4, SEQ = 12, VOCAB = 37, BATCH = 2 };

__attribute__((unused)) static const struct sn_optimizer_config adamw = {
    .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-20, .weight_decay = 0.1};

struct variant {
    const char *name;
    enum sn_family family;
    bool tied;
    int heads, kv_heads, share;
};

__attribute__((unused)) static const struct variant variants[] = {
    {"gpt2, tied", SN_GPT2, true, 2, 2, 1},
    {"gpt2, untied", SN_GPT2, false, 2, 2, 1},
    {"gpt-neox, untied", SN_GPT_NEOX, false, 2, 2, 1},
    {"gpt-neox, tied", SN_GPT_NEOX, true, 2, 2, 2},
    {"llama, untied, 4 heads on 2", SN_LLAMA, false, 4, 2, 1},
    {"qwen2, untied, 4 heads on 2", SN_QWEN2, false, 4, 2, 1},
    {"llama, tied, 3 heads on 1", SN_LLAMA, true, 3, 1, 2},
};
enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

__attribute__((unused)) static struct sn_model_config model_config(const struct variant *v)
{
    return (struct sn_model_config){.family = v->family,
                                    .activation = sn_family_traits(v->family)->activation,
                                    .layers = LAYERS,
                                    .hidden = 8 * v->heads,
                                    .heads = v->heads,
                                    .kv_heads = v->kv_heads,
                                    .ffn = 20,
                                    .vocab = VOCAB,
                                    .seq = SEQ,
                                    .tied_embeddings = v->tied,
                                    .rope_theta = 10000,
                                    .rotary_pct = sn_family_traits(v->family)->rotary_pct,
                                    .parallel_residual = v->family == SN_GPT_NEOX,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.1,
                                    .share_layers = v->share};
}

/* --- one rank that trains --------------------------------------------------------------------- */

__attribute__((unused)) static enum sn_status
learner_create(struct speaker *p, const struct sn_model_config *m, struct sn_err *err)
{
    return speaker_create(p, m, BATCH, &adamw, err);
}

/* Take weights and moments of the source, as a trainer does that resumes from it. */
__attribute__((unused)) static enum sn_status learner_fill(struct speaker *x, struct sn_source *s,
                                                           struct sn_err *err)
{
    for (int i = 0; i < x->state.n_tensors; i++) {
        const struct sn_state_tensor *t = &x->state.tensors[i];
        int from = number_in(s, t);
        struct sn_source_want w = {from, {t->row, t->col, t->n_rows, t->n_cols}};
        if (from < 0 || s->tensors[from].rows != t->rows || s->tensors[from].cols != t->cols)
            return sn_fail(err, SN_EINPUT, "%s %s: not there in this shape", t->group, t->name);
        SN_TRY(s->begin(s->self, &w, 1, 1 << 20, err));
        SN_TRY(s->next(s->self, t->p, t->ld, err));
    }
    sn_exec_scalars(x->exec)->adam_count = s->scalars.adam_count;
    return sn_weights_publish(x->exec, x->job, x->comm, err);
}

/* One step; the tokens depend on `step` alone. */
__attribute__((unused)) static enum sn_status learner_step(struct speaker *p, int64_t step,
                                                           double *loss, struct sn_err *err)
{
    int64_t first[1] = {0};
    struct sn_scalars *s = sn_exec_scalars(p->exec);
    int32_t *ids = sn_exec_address(p->exec, &p->job->train, p->job->ids);
    int32_t *targets = sn_exec_address(p->exec, &p->job->train, p->job->targets);
    for (int i = 0; i < BATCH * SEQ; i++) {
        ids[i] = (int32_t)(sn_rng_bits((uint64_t)step, (uint64_t)i) % VOCAB);
        targets[i] = (int32_t)(sn_rng_bits((uint64_t)step + 1000, (uint64_t)i) % VOCAB);
    }
    s->seed = 5;
    s->step = step;
    s->lr = (float)adamw.lr;
    s->loss_scale = 1;
    s->tokens_in_step = s->targets_in_step = BATCH * SEQ;
    s->loss_sum = s->sq_norm = 0;
    s->nonfinite = 0;
    SN_TRY(sn_exec_run(p->exec, &p->job->train, first, err));
    *loss = s->loss_sum / s->targets_in_step;
    return SN_OK;
}

__attribute__((unused)) static const struct sn_state_tensor *
find(const struct speaker *x, const char *group, const char *name)
{
    for (int i = 0; i < x->state.n_tensors; i++)
        if (!strcmp(x->state.tensors[i].group, group) && !strcmp(x->state.tensors[i].name, name))
            return &x->state.tensors[i];
    return NULL;
}

/* Random values for every tensor, then a few steps, so that moments are what
 * training makes them. */
__attribute__((unused)) static bool train(struct speaker *x, const struct sn_model_config *m,
                                          int steps)
{
    struct sn_err err = {0};
    struct fake f = {0};
    double loss;
    bool good = learner_create(x, m, &err) == SN_OK;
    if (good) {
        fake_add_model(&f, x->model, 3);
        for (int i = 0; i < f.n; i++) /* Adam begins with nothing */
            for (int64_t k = 0; strcmp(f.tensors[i].group, "model") != 0 &&
                                k < f.tensors[i].rows * f.tensors[i].cols;
                 k++)
                f.values[i][k] = 0;
        struct sn_source s = fake_source(&f, "");
        s.scalars.adam_count = 0;
        good = learner_fill(x, &s, &err) == SN_OK;
    }
    for (int i = 1; i <= steps && good; i++)
        good = learner_step(x, i, &loss, &err) == SN_OK;
    if (!good)
        printf("# %s\n", err.text);
    fake_fini(&f);
    return good;
}

/* A copy of everything that the learner's checkpoint would hold; caller frees *model_text. */
__attribute__((unused)) static struct sn_source snapshot(struct fake *f, const struct speaker *x,
                                                         char **model_text)
{
    struct sn_str text = {0};
    for (int i = 0; i < x->state.n_tensors; i++) {
        const struct sn_state_tensor *t = &x->state.tensors[i];
        float *p = fake_add(f, t->group, t->name, t->rows, t->cols);
        for (int64_t r = 0; r < t->rows; r++)
            memcpy(p + r * t->cols, t->p + r * t->ld, (size_t)t->cols * sizeof(*p));
    }
    sn_config_format_model(&text, &x->config);
    *model_text = text.p;
    struct sn_source s = fake_source(f, text.p);
    s.scalars.adam_count = sn_exec_scalars(x->exec)->adam_count;
    return s;
}

/* --- growing ---------------------------------------------------------------------------------- */

__attribute__((unused)) static double largest(const float *p, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)p[i]));
    return most;
}

__attribute__((unused)) static double farthest(const float *a, const float *b, int64_t n)
{
    double off = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        off = d <= off ? off : d; /* NaN stays */
    }
    return off;
}

__attribute__((unused)) static const float *grad_of(const struct speaker *x, const char *name)
{
    const struct sn_model *m = x->model;
    for (int i = 0; i < m->n_params; i++)
        for (int k = 0; k < m->params[i].n_tensors; k++)
            if (strcmp(m->params[i].tensor[k].name, name) == 0)
                return job_grad(x->exec, x->job, i) +
                       m->params[i].tensor[k].row * m->params[i].cols;
    return NULL;
}

__attribute__((unused)) static void logits_agree(const char *name, int n, struct sn_source *small,
                                                 struct sn_source *large)
{
    enum { TOKENS = SEQ };
    struct sn_model_config a, b;
    struct sn_err err = {0};
    int32_t tokens[TOKENS];
    float x[TOKENS * VOCAB], y[TOKENS * VOCAB];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (int32_t)(sn_rng_bits(9, (uint64_t)i) % VOCAB);
    if (model_of(&a, small->model_text, &err) != SN_OK ||
        model_of(&b, large->model_text, &err) != SN_OK ||
        logits_of(x, small, &a, tokens, TOKENS, &err) != SN_OK ||
        logits_of(y, large, &b, tokens, TOKENS, &err) != SN_OK) {
        tap_ok(false, "%s x %d: both speak: %s", name, n, err.text);
        return;
    }
    double most = largest(x, TOKENS * VOCAB), off = farthest(x, y, TOKENS * VOCAB);
    tap_ok(most > 0.1 && off <= 1e-5 * most, "%s x %d: logits are equal (%.1e of %.2f)", name, n,
           off, most);
}

#endif
