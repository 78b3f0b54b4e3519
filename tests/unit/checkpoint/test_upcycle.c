/*
 * test_upcycle.c - a dense model made a mixture of experts, run: the same logits and loss, and
 * gradients that sum to the dense ones. Tolerances as in test_grow_train.c.
 */
#include "tests/lib/learner.h"

/* The sum over the E experts of a layer's gradient, less the dense model's, in parts of its largest
 * element. */
static double gradients_apart(const struct speaker *dense, const struct speaker *mixed, int layer,
                              const char *kind, int experts)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "layers.%d.ffn.%s.weight", layer, kind);
    const struct sn_state_tensor *t = find(dense, "model", name);
    const float *want = grad_of(dense, name);
    int64_t n = t ? t->rows * t->cols : 0;
    double off = 0, scale = want ? largest(want, n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int e = 0; e < experts; e++) {
            (void)snprintf(name, sizeof(name), "layers.%d.ffn.experts.%d.%s.weight", layer, e,
                           kind);
            sum += (double)grad_of(mixed, name)[i];
        }
        off = fmax(off, fabs(sum - (double)want[i]));
    }
    return n > 0 ? off / scale : 1;
}

static void an_upcycled_model_does_what_the_dense_one_does(int experts, int top_k)
{
    static const char *const kinds[] = {"gate", "up", "down"};
    struct speaker dense, mixed = {0};
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_source s, up = {0};
    struct sn_model_config m = model_config(&variants[4]), n;
    char *text = NULL;
    double a = 0, b = 0, off = 0;
    if (!tap_ok(train(&dense, &m, 3), "a llama trains"))
        return;
    s = snapshot(&f, &dense, &text);
    struct sn_source view = s;
    bool good = sn_source_upcycle(&up, &s, experts, top_k, &err) == SN_OK &&
                model_of(&n, up.model_text, &err) == SN_OK;
    tap_ok(good && n.family == SN_MIXTRAL && n.experts.count == experts && n.experts.top_k == top_k,
           "it becomes a mixtral %s", err.text);
    n.experts.aux_loss = 0; /* which would add to what comes from above */
    if (good)
        logits_agree("upcycled", experts, &view, &up);
    good = good && learner_create(&mixed, &n, &err) == SN_OK &&
           learner_fill(&mixed, &up, &err) == SN_OK;
    const struct sn_state_tensor *copy =
        good ? find(&mixed, "exp_avg", "layers.2.ffn.experts.1.up.weight") : NULL;
    const struct sn_state_tensor *old = find(&dense, "exp_avg", "layers.2.ffn.up.weight");
    tap_ok(copy && old && copy->p[5] == old->p[5] / (float)experts, "moments are divided");
    good = good && learner_step(&dense, 4, &a, &err) == SN_OK &&
           learner_step(&mixed, 4, &b, &err) == SN_OK;
    if (tap_ok(good, "and trains on %s", err.text)) {
        tap_close(b, a, 1e-6, 1, "its loss is the dense model's");
        for (int l = 0; l < LAYERS; l++)
            for (int k = 0; k < 3; k++)
                off = fmax(off, gradients_apart(&dense, &mixed, l, kinds[k], experts));
        tap_ok(off <= 1e-4, "its experts' gradients sum to the dense model's (%.1e)", off);
    }
    speaker_destroy(&mixed);
    speaker_destroy(&dense);
    sn_source_close(&up);
    fake_fini(&f);
    sn_free(text);
}

static void what_cannot_be_upcycled_is_told(void)
{
    struct speaker gpt;
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_source up;
    struct sn_model_config m = model_config(&variants[0]);
    char *text = NULL;
    (void)train(&gpt, &m, 1);
    struct sn_source s = snapshot(&f, &gpt, &text);
    tap_ok(sn_source_upcycle(&up, &s, 4, 2, &err) == SN_EINPUT && strstr(err.text, "want a dense"),
           "%s", err.text);
    speaker_destroy(&gpt);
    fake_fini(&f);
    sn_free(text);
}

int main(void)
{
    an_upcycled_model_does_what_the_dense_one_does(4, 2);
    an_upcycled_model_does_what_the_dense_one_does(3, 1);
    what_cannot_be_upcycled_is_told();
    return tap_done();
}
