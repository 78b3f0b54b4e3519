/*
 * test_router_bias.c - a bias balances what experts get, and is a part of the model's state.
 *
 * Which experts are chosen, and what a step adds, is held to plain loops by test_kernels_experts.c
 * and to PyTorch by tests/parity; equal layouts are lines of tests/equiv/layouts.
 */
#include "checkpoint/hf/hfnames.h"
#include "lib/base/str.h"
#include "lib/train/imbalance.h"
#include "tests/lib/checkpoint_test.h"
#include "tests/lib/learner.h"

enum { EXPERTS = 4, TOP_K = 1, STEPS = 150, LAST = 50 };

static struct sn_model_config mixture(double rate)
{
    struct sn_model_config m = model_config(&variants[4]);
    m.family = SN_MIXTRAL;
    m.experts = (struct sn_experts_config){
        .count = EXPERTS, .top_k = TOP_K, .every = 1, .bias = SN_BIAS_LOSS_FREE, .bias_rate = rate};
    return m;
}

/* --- balance ---------------------------------------------------------------------------------- */

/* Tokens of the steps so far by layer and expert; and the sum of what each of them reports. */
struct load {
    double got[LAYERS][EXPERTS];
    double reported, worst;
};

/* False when counts are not those of all tokens of the step, or not those that are reported. */
static bool add_counts(struct load *l, const struct speaker *x)
{
    const double *load = sn_exec_load(x->exec);
    struct sn_imbalance report = sn_imbalance_of(load, LAYERS, EXPERTS);
    l->reported += report.mean;
    l->worst += report.worst;
    for (int i = 0; i < LAYERS; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "layers.%d.ffn.router.bias", i);
        const float *counts = grad_of(x, name);
        double all = 0;
        for (int e = 0; e < EXPERTS && counts; e++) {
            all += (double)counts[e];
            l->got[i][e] += (double)counts[e];
            if ((double)counts[e] != load[i * EXPERTS + e])
                return false;
        }
        if (all != BATCH * SEQ * TOP_K)
            return false;
    }
    return true;
}

/* The paper's MaxVio: largest load over the mean, less 1; the mean over layers. */
static double violation_of(const struct load *l)
{
    double sum = 0;
    for (int i = 0; i < LAYERS; i++) {
        double all = 0, most = 0;
        for (int e = 0; e < EXPERTS; e++) {
            all += l->got[i][e];
            most = fmax(most, l->got[i][e]);
        }
        sum += most * EXPERTS / all - 1;
    }
    return sum / LAYERS;
}

/* Of the last steps together, and the mean of what they report; -1 when something failed. */
struct violation {
    double together, reported, worst;
};

static struct violation violation_with(double rate)
{
    struct speaker x = {0};
    struct sn_err err = {0};
    struct sn_model_config m = mixture(rate);
    struct load warm = {0}, last = {0};
    double loss;
    bool good = learner_create(&x, &m, &err) == SN_OK &&
                sn_weights_init(&x.state, x.job, &err) == SN_OK &&
                sn_weights_publish(x.exec, x.job, x.comm, &err) == SN_OK;
    for (int i = 1; i <= STEPS && good; i++)
        good = learner_step(&x, i, &loss, &err) == SN_OK &&
               add_counts(i > STEPS - LAST ? &last : &warm, &x);
    speaker_destroy(&x);
    if (!good)
        return (struct violation){-1, -1, -1};
    return (struct violation){violation_of(&last), last.reported / LAST, last.worst / LAST};
}

static void a_bias_balances(void)
{
    struct violation without = violation_with(0), with = violation_with(0.02);
    tap_ok(without.together > 0 && with.together > 0,
           "counts of every step are those of all tokens, and those that it reports");
    tap_ok(with.together < 0.3 * without.together,
           "the most loaded expert is %.0f %% above the mean with a bias, %.0f %% without",
           100 * with.together, 100 * without.together);
    tap_ok(with.reported < 0.9 * without.reported && with.worst < 0.9 * without.worst,
           "MaxVio of a step falls from %.2f to %.2f, of the worst layer from %.2f to %.2f",
           without.reported, with.reported, without.worst, with.worst);
}

static void violation_is_the_paper_s(void)
{
    static const double counts[] = {1, 2, 3, 2, 8, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0, 0};
    struct sn_imbalance l = sn_imbalance_of(counts, 4, 4);
    tap_ok(l.worst == 3 && l.mean == (0.5 + 3 + 0 + 0) / 4,
           "MaxVio is the largest over the mean, less 1: %.3f, of the worst layer %.3f", l.mean,
           l.worst);
}

/* --- state ------------------------------------------------------------------------------------ */

static void a_bias_has_no_moments(void)
{
    struct speaker x = {0};
    struct sn_model_config m = mixture(0.02);
    if (!tap_ok(train(&x, &m, 3), "a model with biases trains"))
        return;
    const struct sn_state_tensor *b = find(&x, "model", "layers.2.ffn.router.bias");
    tap_ok(b && b->rows == EXPERTS && b->cols == 1, "its biases are tensors of the model");
    double far = 0;
    for (int e = 0; e < EXPERTS && b; e++) /* from values of any size, by three steps at most */
        far = fmax(far, fabs((double)b->p[e]));
    tap_ok(far > 0, "which are not 0 (%.3f)", far);
    tap_ok(!find(&x, "exp_avg", "layers.2.ffn.router.bias") &&
               !find(&x, "exp_avg_sq", "layers.2.ffn.router.bias"),
           "and have no moments");
    speaker_destroy(&x);
}

static void training_goes_on_from_it(void)
{
    struct speaker x = {0}, y = {0};
    struct sn_model_config m = mixture(0.02);
    struct fake f = {0};
    struct sn_err err = {0};
    char *text = NULL;
    double a = 0, b = 1;
    bool good = train(&x, &m, 5);
    struct sn_source s = snapshot(&f, &x, &text);
    good = good && learner_create(&y, &m, &err) == SN_OK && learner_fill(&y, &s, &err) == SN_OK;
    for (int i = 6; i <= 8 && good; i++)
        good = learner_step(&x, i, &a, &err) == SN_OK && learner_step(&y, i, &b, &err) == SN_OK;
    const struct sn_state_tensor *p = find(&x, "model", "layers.1.ffn.router.bias");
    const struct sn_state_tensor *q = find(&y, "model", "layers.1.ffn.router.bias");
    tap_ok(good && a == b && memcmp(p->p, q->p, EXPERTS * sizeof(float)) == 0,
           "another run goes on from its state with the same bits%s", err.text);
    tap_ok(text && strstr(text, "bias: loss-free") && strstr(text, "bias_rate: 0\n"),
           "the model's text names the bias, not its rate");
    speaker_destroy(&x);
    speaker_destroy(&y);
    fake_fini(&f);
    sn_free(text);
}

/* --- where it begins -------------------------------------------------------------------------- */

static void the_field_s_weights_begin_without(void)
{
    struct speaker x = {0};
    struct sn_config c;
    struct sn_err err = {0};
    bool good = sn_config_load(&c, "tests/parity/fixtures/mixtral/run.yaml", NULL, &err) == SN_OK;
    c.model.experts.bias = SN_BIAS_LOSS_FREE;
    good = good && learner_create(&x, &c.model, &err) == SN_OK &&
           sn_init_from(&c, &x.state, &err) == SN_OK;
    tap_ok(good, "a model with biases takes weights of the field%s%s", *err.text ? ": " : "",
           err.text);
    const struct sn_state_tensor *b = find(&x, "model", "layers.1.ffn.router.bias");
    const struct sn_state_tensor *w = find(&x, "model", "layers.1.ffn.router.weight");
    tap_ok(good && largest(b->p, b->rows) == 0 && largest(w->p, w->rows * w->cols) > 0.1,
           "and its biases begin at 0");
    speaker_destroy(&x);
}

static struct sn_state state_of(struct sn_state_tensor *tensors, struct sn_state_shape *all, int n,
                                const char *model)
{
    for (int i = 0; i < n; i++)
        tensors[i] = sn_state_whole(&all[i], tensors[i].p);
    return (struct sn_state){.tensors = tensors,
                             .n_tensors = n,
                             .all = all,
                             .n_all = n,
                             .scalars = {.step = 7, .loss_scale = 1},
                             .model_text = model,
                             .layout_text = "",
                             .ranks = 1};
}

/* A checkpoint with a bias or without one, read into a model that has one. */
static void our_weights_begin_with_what_they_have(bool has_bias)
{
    static struct sn_state_shape all[] = {{"model", "layers.0.ffn.router.weight", 2, 3},
                                          {"model", "layers.0.ffn.router.bias", 2, 1}};
    float from[8] = {1, 2, 3, 4, 5, 6, 0.5f, 0.25f}, to[8] = {0};
    struct sn_state_tensor saved[2] = {{.p = from}, {.p = from + 6}};
    struct sn_state_tensor read[2] = {{.p = to}, {.p = to + 6}};
    struct sn_config theirs = {.model = mixture(0)}, c = theirs;
    struct sn_str model = {0};
    struct bench b;
    setup(&b, 1);
    c.model.experts.bias = SN_BIAS_LOSS_FREE;
    theirs.model.experts.bias = has_bias ? SN_BIAS_LOSS_FREE : SN_BIAS_NONE;
    sn_config_format_model(&model, &theirs);
    (void)snprintf(c.train.init_from, sizeof(c.train.init_from), "%s", b.dir);
    struct sn_state s = state_of(saved, all, has_bias ? 2 : 1, model.p);
    struct sn_state t = state_of(read, all, 2, model.p);
    bool good =
        save_ranks(&b.saver, &s, 1, &b.err) == SN_OK && sn_init_from(&c, &t, &b.err) == SN_OK;
    tap_ok(good && memcmp(to, from, 6 * sizeof(float)) == 0, "a checkpoint %s a bias is taken%s%s",
           has_bias ? "with" : "without", *b.err.text ? ": " : "", b.err.text);
    tap_ok(to[6] == (has_bias ? 0.5f : 0) && to[7] == (has_bias ? 0.25f : 0), "%s",
           has_bias ? "and its bias" : "and the bias begins at 0");
    t.n_tensors = t.n_all = 1;
    if (has_bias)
        tap_ok(sn_init_from(&c, &t, &b.err) == SN_EINPUT &&
                   strstr(b.err.text, "no place for 1 of its tensors: 'layers.0.ffn.router.bias'"),
               "a model without one refuses it");
    c.model.experts.bias = SN_BIAS_NONE;
    if (has_bias)
        tap_ok(sn_init_from(&c, &t, &b.err) == SN_EINPUT &&
                   strstr(b.err.text, "come with 'experts.bias: loss-free', but the run file has "
                                      "'experts.bias: none'"),
               "and by its key");
    sn_str_fini(&model);
    teardown(&b);
}

int main(void)
{
    violation_is_the_paper_s();
    a_bias_balances();
    a_bias_has_no_moments();
    training_goes_on_from_it();
    the_field_s_weights_begin_without();
    our_weights_begin_with_what_they_have(false);
    our_weights_begin_with_what_they_have(true);
    return tap_done();
}
