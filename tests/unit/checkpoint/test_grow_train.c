/*
 * test_grow_train.c - grown and delinked models, run: the same logits, gradients and updates as
 * the small model's say.
 *
 * Tolerances, all fp32: a sum of n x as many terms in another order differs by a few roundings,
 * each 6e-8 of the largest term. Logits may differ by 1e-5 of the largest logit, gradients and
 * updates by 1e-4 of the largest element of their tensor (or of 1e-3 of the largest of all: some
 * gradients, such as that of a key's bias without rotary embedding, are zero but for rounding).
 */
#include "tests/lib/learner.h"

/* The gradients of one step of the small model, put where exp_avg is and their squares where
 * exp_avg_sq is, must grow into the gradients of the same step of the large one. */
static void gradients_agree(const char *name, int n, struct speaker *small, struct speaker *large)
{
    struct fake f = {0};
    struct sn_err err = {0};
    char *text = NULL, worst[96] = "";
    double most = 0, off = 0, off_sq = 0;
    struct sn_source s = snapshot(&f, small, &text), grown = {0};
    for (int i = 0; i < f.n; i++) {
        const float *g = grad_of(small, f.tensors[i].name);
        bool squares = strcmp(f.tensors[i].group, "exp_avg_sq") == 0;
        for (int64_t k = 0; k < f.tensors[i].rows * f.tensors[i].cols; k++)
            f.values[i][k] = squares ? g[k] * g[k] : g[k];
    }
    bool good = sn_source_grow(&grown, &s, n, 0, &err) == SN_OK;
    for (int i = 0; i < large->model->n_params && good; i++)
        most = fmax(most, largest(job_grad(large->exec, large->job, i),
                                  large->model->params[i].rows * large->model->params[i].cols));
    for (int i = 0; i < grown.n_tensors && good; i++) {
        const struct sn_source_tensor *t = &grown.tensors[i];
        int64_t size = t->rows * t->cols;
        if (strcmp(t->group, "exp_avg") != 0)
            continue;
        float *want = source_whole(&grown, "exp_avg", t->name);
        float *want_sq = source_whole(&grown, "exp_avg_sq", t->name);
        const float *got = grad_of(large, t->name);
        double scale = fmax(largest(got, size), 1e-3 * most), here = farthest(want, got, size);
        if (!(here / scale <= off)) {
            off = here / scale;
            (void)snprintf(worst, sizeof(worst), "%s", t->name);
        }
        for (int64_t k = 0; k < size; k++)
            off_sq = fmax(off_sq, fabs((double)want_sq[k] - (double)want[k] * (double)want[k]) /
                                      (scale * scale));
        sn_free(want);
        sn_free(want_sq);
    }
    tap_ok(good && off <= 2e-5, "%s x %d: gradients are those of the small model times s (%.1e)",
           name, n, off);
    if (off > 2e-5)
        printf("# %s\n", worst);
    tap_ok(good && off_sq <= 1e-6, "%s x %d: squares of gradients grow by s s (%.1e)", name, n,
           off_sq);
    sn_source_close(&grown);
    fake_fini(&f);
    sn_free(text);
}

/* What the step added to each weight is the same in all copies, and the same as in the small
 * model, weight decay aside: Adam does not see the scale of gradients, if its moments have it too.
 */
static void updates_agree(const char *name, int n, const struct sn_source *before,
                          const struct speaker *small, struct sn_source *large_before,
                          const struct speaker *large)
{
    double keep = 1 - adamw.lr * adamw.weight_decay, off = 0, most = 0;
    for (int i = 0; i < before->n_tensors; i++) {
        const struct sn_source_tensor *t = &before->tensors[i];
        if (strcmp(t->group, "model") != 0 || strstr(t->name, "attn.k.bias"))
            continue; /* an update out of rounding errors alone (head of this file) */
        float *a = source_whole((struct sn_source *)before, "model", t->name);
        float *b = source_whole(large_before, "model", t->name);
        const float *c = find(small, "model", t->name)->p;
        const struct sn_state_tensor *to = find(large, "model", t->name);
        double decay = t->cols > 1 ? keep : 1;
        for (int64_t e = 0; e < to->rows * to->cols; e++) {
            int64_t from = e / to->cols % t->rows * t->cols + e % to->cols % t->cols;
            double want = (double)c[from] - decay * (double)a[from];
            double got = (double)to->p[e] - decay * (double)b[e];
            most = fmax(most, fabs(want));
            off = fmax(off, fabs(want - got));
        }
        sn_free(a);
        sn_free(b);
    }
    tap_ok(most > 0.5 * adamw.lr && off <= 1e-3 * adamw.lr,
           "%s x %d: the next update is the same for every copy (%.1e of %.1e)", name, n, off,
           adamw.lr);
}

static void a_grown_model_does_what_the_small_one_does(const struct variant *v, int n)
{
    struct speaker small, large = {0};
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_source s, grown = {0};
    struct sn_model_config m = model_config(v), big;
    char *text = NULL;
    double a = 0, b = 0;
    if (!tap_ok(train(&small, &m, 3), "%s trains", v->name))
        return;
    s = snapshot(&f, &small, &text);
    struct sn_source view = s; /* still readable once grown owns it: a fake's close does nothing */
    bool good = sn_source_grow(&grown, &s, n, 0, &err) == SN_OK &&
                model_of(&big, grown.model_text, &err) == SN_OK &&
                learner_create(&large, &big, &err) == SN_OK &&
                learner_fill(&large, &grown, &err) == SN_OK;
    if (good)
        logits_agree(v->name, n, &view, &grown);
    good = good && learner_step(&small, 4, &a, &err) == SN_OK &&
           learner_step(&large, 4, &b, &err) == SN_OK;
    if (tap_ok(good, "%s x %d: grown, loaded and trained on %s", v->name, n, err.text)) {
        tap_close(b, a, 1e-6, 1, "its loss is the small model's");
        gradients_agree(v->name, n, &small, &large);
        updates_agree(v->name, n, &view, &small, &grown, &large);
    }
    speaker_destroy(&large);
    speaker_destroy(&small);
    sn_source_close(&grown);
    fake_fini(&f);
    sn_free(text);
}

/* Largest difference of any layer's weight or bias from its copy n / 2 on. */
static double asymmetry(const struct speaker *x)
{
    double off = 0;
    for (int i = 0; i < x->state.n_tensors; i++) {
        const struct sn_state_tensor *t = &x->state.tensors[i];
        int64_t half = t->rows / 2;
        if (!strcmp(t->group, "model") && !strncmp(t->name, "layers.", 7))
            for (int64_t k = 0; k < half * t->cols; k++)
                off = fmax(off, fabs((double)t->p[k] - (double)t->p[half * t->cols + k]));
    }
    return off;
}

/* Of the gradients of two models of one shape: how long their difference is, as a part. */
static double part_that_differs(struct speaker *a, struct speaker *b)
{
    double off = 0, all = 0;
    for (int i = 0; i < a->model->n_params; i++) {
        const float *x = job_grad(a->exec, a->job, i), *y = job_grad(b->exec, b->job, i);
        for (int64_t k = 0; k < a->model->params[i].rows * a->model->params[i].cols; k++) {
            off += pow((double)x[k] - (double)y[k], 2);
            all += pow((double)x[k], 2);
        }
    }
    return sqrt(off / all);
}

static void noise_lets_copies_part(const struct variant *v)
{
    const double noise[2] = {0, SN_GROW_NOISE};
    struct speaker small, large[2] = {0};
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_model_config m = model_config(v), big;
    char *text = NULL;
    double loss, other = 0;
    bool good = tap_ok(train(&small, &m, 3), "%s trains", v->name);
    struct sn_source s = snapshot(&f, &small, &text);
    for (int i = 0; i < 2 && good; i++) {
        struct sn_source view = s, inner = s, grown = {0};
        good = sn_source_grow(&grown, &inner, 2, noise[i], &err) == SN_OK &&
               model_of(&big, grown.model_text, &err) == SN_OK &&
               learner_create(&large[i], &big, &err) == SN_OK &&
               learner_fill(&large[i], &grown, &err) == SN_OK;
        if (good)
            logits_agree(i ? "with noise, too," : v->name, 2, &view, &grown);
        good = good && learner_step(&large[i], 4, i ? &other : &loss, &err) == SN_OK;
        sn_source_close(&grown);
    }
    if (good) {
        double part = part_that_differs(&large[0], &large[1]);
        tap_close(other, loss, 1e-6, 1, "noise does not change the loss");
        tap_ok(part > 1e-3 && part < SN_GROW_NOISE, "and the gradients by %.3f of their length",
               part);
    }
    for (int i = 5; i < 20 && good; i++)
        good = learner_step(&large[0], i, &loss, &err) == SN_OK &&
               learner_step(&large[1], i, &loss, &err) == SN_OK;
    tap_ok(good && asymmetry(&large[0]) == 0, "without noise copies are equal 16 steps later %s",
           err.text);
    tap_ok(good && asymmetry(&large[1]) > 1e-2, "with it they are not");
    speaker_destroy(&large[0]);
    speaker_destroy(&large[1]);
    speaker_destroy(&small);
    fake_fini(&f);
    sn_free(text);
}

/* --- delinking -------------------------------------------------------------------------------- */

static bool layers_equal(const struct speaker *x, int a, int b)
{
    char one[96], other[96];
    (void)snprintf(one, sizeof(one), "layers.%d.ffn.down.weight", a);
    (void)snprintf(other, sizeof(other), "layers.%d.ffn.down.weight", b);
    const struct sn_state_tensor *p = find(x, "model", one), *q = find(x, "model", other);
    return p && q && farthest(p->p, q->p, p->rows * p->cols) == 0;
}

static void delinked_layers_go_their_own_ways(void)
{
    struct speaker shared, own = {0};
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_source s, delinked = {0};
    struct sn_model_config m = model_config(&variants[VARIANTS - 1]), n;
    char *text = NULL;
    double a = 0, b = 0, then = 0;
    if (!tap_ok(train(&shared, &m, 3), "a model with shared layers trains"))
        return;
    s = snapshot(&f, &shared, &text);
    bool good = sn_source_delink(&delinked, &s, &err) == SN_OK &&
                model_of(&n, delinked.model_text, &err) == SN_OK &&
                learner_create(&own, &n, &err) == SN_OK &&
                learner_fill(&own, &delinked, &err) == SN_OK;
    if (good) {
        tap_ok(n.share_layers == 1 && layers_equal(&own, 0, 1) && layers_equal(&own, 2, 3) &&
                   !layers_equal(&own, 0, 2),
               "after it every layer has weights, a copy of those it used");
        tap_ok(!memcmp(find(&own, "exp_avg", "layers.1.attn.q.weight")->p,
                       find(&shared, "exp_avg", "layers.0.attn.q.weight")->p, 24 * 24 * 4) &&
                   !memcmp(find(&own, "exp_avg_sq", "layers.3.attn.q.weight")->p,
                           find(&shared, "exp_avg_sq", "layers.2.attn.q.weight")->p, 24 * 24 * 4),
               "and Adam's moments");
    }
    good = good && learner_step(&shared, 4, &a, &err) == SN_OK &&
           learner_step(&own, 4, &b, &err) == SN_OK && learner_step(&own, 4, &then, &err) == SN_OK;
    if (tap_ok(good, "the delinked model trains on %s", err.text)) {
        tap_ok(a == b, "its loss is that of the shared one, bit for bit");
        tap_ok(!layers_equal(&own, 0, 1) && !layers_equal(&own, 2, 3),
               "one step later the layers differ");
        tap_ok(then < b, "and the loss has fallen");
    }
    speaker_destroy(&own);
    speaker_destroy(&shared);
    sn_source_close(&delinked);
    fake_fini(&f);
    sn_free(text);
}

int main(void)
{
    for (int i = 0; i < VARIANTS; i++)
        a_grown_model_does_what_the_small_one_does(&variants[i], i % 2 ? 3 : 2);
    a_grown_model_does_what_the_small_one_does(&variants[4], 5);
    noise_lets_copies_part(&variants[0]);
    noise_lets_copies_part(&variants[4]);
    delinked_layers_go_their_own_ways();
    return tap_done();
}
