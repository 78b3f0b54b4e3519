/*
 * test_shared_experts.c - where the routed experts give nothing, a shared expert is a dense model's
 * feed-forward part: the same logits, loss and gradients as llama's, which are held to PyTorch's
 * (tests/parity). Tolerances as in test_grow_train.c.
 */
#include "tests/lib/learner.h"

enum { EXPERTS = 4, FFN = 20, WIDTH = 32 };

static const char *const kinds[] = {"gate", "up", "down"};

/* The routed part of a layer: gate and up are anything, down is zero. */
static void add_routed(struct fake *f, const char *group, int layer)
{
    char name[96];
    bool weights = strcmp(group, "model") == 0;
    (void)snprintf(name, sizeof(name), "layers.%d.ffn.router.weight", layer);
    float *p = fake_add(f, group, name, EXPERTS, WIDTH);
    if (weights)
        sn_rng_normal(sn_rng_key(7, name), 0, EXPERTS * WIDTH, 0.3f, p);
    for (int e = 0; e < EXPERTS; e++)
        for (int k = 0; k < 3; k++) {
            (void)snprintf(name, sizeof(name), "layers.%d.ffn.experts.%d.%s.weight", layer, e,
                           kinds[k]);
            p = fake_add(f, group, name, k == 2 ? WIDTH : FFN, k == 2 ? FFN : WIDTH);
            if (weights && k < 2)
                sn_rng_normal(sn_rng_key(7, name), 0, FFN * WIDTH, 0.3f, p);
        }
}

/* Everything that the dense model holds, its feed-forward parts as shared experts. */
static void add_shared(struct fake *to, const struct fake *from)
{
    static const char *const groups[] = {"model", "exp_avg", "exp_avg_sq"};
    for (int i = 0; i < from->n; i++) {
        const struct sn_source_tensor *t = &from->tensors[i];
        const char *ffn = strstr(t->name, ".ffn.");
        char name[96];
        (void)snprintf(name, sizeof(name), "%s", t->name);
        if (ffn)
            (void)snprintf(name, sizeof(name), "%.*s.ffn.shared.%s", (int)(ffn - t->name), t->name,
                           ffn + strlen(".ffn."));
        float *p = fake_add(to, t->group, name, t->rows, t->cols);
        memcpy(p, from->values[i], (size_t)(t->rows * t->cols) * sizeof(*p));
    }
    for (int g = 0; g < 3; g++)
        for (int l = 0; l < LAYERS; l++)
            add_routed(to, groups[g], l);
}

static double gradients_apart(const struct speaker *dense, const struct speaker *mixed)
{
    double off = 0;
    for (int l = 0; l < LAYERS; l++)
        for (int k = 0; k < 3; k++) {
            char a[96], b[96];
            (void)snprintf(a, sizeof(a), "layers.%d.ffn.%s.weight", l, kinds[k]);
            (void)snprintf(b, sizeof(b), "layers.%d.ffn.shared.%s.weight", l, kinds[k]);
            const float *x = grad_of(dense, a), *y = grad_of(mixed, b);
            off = x && y ? fmax(off, farthest(x, y, FFN * WIDTH) / largest(x, FFN * WIDTH)) : 1;
        }
    const float *x = grad_of(dense, "embed.weight"), *y = grad_of(mixed, "embed.weight");
    return fmax(off, farthest(x, y, VOCAB * WIDTH) / largest(x, VOCAB * WIDTH));
}

static void a_shared_expert_is_a_dense_layer_s_part(void)
{
    struct speaker dense, mixed = {0};
    struct fake f = {0}, g = {0};
    struct sn_err err = {0};
    struct sn_model_config m = model_config(&variants[4]), n = m;
    char *text = NULL;
    double a = 0, b = 0;
    n.family = SN_MIXTRAL;
    n.experts = (struct sn_experts_config){.count = EXPERTS, .top_k = 2, .every = 1, .shared = 1};
    if (!tap_ok(train(&dense, &m, 3), "a llama trains"))
        return;
    struct sn_source s = snapshot(&f, &dense, &text);
    add_shared(&g, &f);
    struct sn_source t = fake_source(&g, "");
    t.scalars.adam_count = s.scalars.adam_count;
    bool good =
        learner_create(&mixed, &n, &err) == SN_OK && learner_fill(&mixed, &t, &err) == SN_OK;
    good = good && learner_step(&dense, 4, &a, &err) == SN_OK &&
           learner_step(&mixed, 4, &b, &err) == SN_OK;
    if (tap_ok(good, "with its feed-forward parts as shared experts it is a mixtral %s",
               err.text)) {
        tap_close(b, a, 1e-6, 1, "of the same loss");
        double off = gradients_apart(&dense, &mixed);
        tap_ok(off <= 1e-4, "and the same gradients (%.1e)", off);
    }
    speaker_destroy(&mixed);
    speaker_destroy(&dense);
    fake_fini(&f);
    fake_fini(&g);
    sn_free(text);
}

int main(void)
{
    a_shared_expert_is_a_dense_layer_s_part();
    return tap_done();
}
