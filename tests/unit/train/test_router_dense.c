/*
 * test_router_dense.c - what training with all experts for every token sends, learns and leaves
 * behind.
 *
 * Its kernels are held to plain loops by test_kernels_router.c, the whole to PyTorch by
 * tests/parity; equal layouts are lines of tests/equiv/layouts.
 */
#include "lib/base/str.h"
#include "lib/config/hfconfig.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/learner.h"

enum { EXPERTS = 4 };

/* --- bytes ------------------------------------------------------------------------------------ */

/* Of a layer and micro-batch each rank sends its n tokens, and sums of the others', to P - 1
 * others: x and y forward, their gradients backward; and of p and its gradient E numbers. With
 * tensor ranks these have the tokens, and experts are in two slices, which count. */
static void bytes_are_the_formula(int members, int tensor, enum sn_recompute recompute)
{
    enum { RANKS = 4, STEPS = 2 };
    struct sn_config c = layout_config(SN_LLAMA);
    c.model.family = SN_MIXTRAL;
    c.model.experts = (struct sn_experts_config){
        .count = EXPERTS, .top_k = 2, .every = 1, .router = SN_ROUTER_DENSE};
    c.layout.data = RANKS / tensor;
    c.layout.tensor = tensor;
    c.layout.sequence_parallel = true;
    c.layout.expert = tensor > 1 ? members / 2 : members;
    c.layout.expert_tensor = tensor > 1 ? 2 : 0;
    c.layout.expert_buffer = 2;
    c.layout.recompute = recompute;
    struct layout_run r = {.steps = STEPS};
    layout_train(&r, &c);
    int64_t n = c.model.seq * c.layout.micro_batch, again = recompute == SN_RECOMPUTE_FULL;
    int64_t want = (members - 1) * n * ((4 + again) * c.model.hidden + (2 + again) * EXPERTS) *
                   (int64_t)sizeof(float) * c.model.layers *
                   (c.train.global_batch / c.layout.micro_batch) * STEPS;
    tap_ok(!r.fault[0] && r.traffic_is_planned && r.sent[SN_AXIS_EXPERT] == want && r.routed == 0,
           "experts over %d of %d ranks, tensor %d, recompute %s: %lld bytes, the formula %lld%s",
           members, RANKS, tensor, again ? "full" : "none", (long long)r.sent[SN_AXIS_EXPERT],
           (long long)want, r.fault);
}

/* --- what it learns --------------------------------------------------------------------------- */

static struct sn_model_config mixture(enum sn_router router, double weight)
{
    struct sn_model_config m = model_config(&variants[4]);
    m.family = SN_MIXTRAL;
    m.experts = (struct sn_experts_config){
        .count = EXPERTS, .top_k = 2, .every = 1, .router = router, .aux_loss = weight};
    return m;
}

/* Mutual information of tokens and experts, mean of the last of 60 steps;
 * -1 when something failed. */
static double information_with(double weight)
{
    enum { STEPS = 60, LAST = 10 };
    struct speaker x = {0};
    struct sn_err err = {0};
    struct sn_model_config m = mixture(SN_ROUTER_DENSE, weight);
    double loss, before = 0;
    bool good = learner_create(&x, &m, &err) == SN_OK &&
                sn_weights_init(&x.state, x.job, &err) == SN_OK &&
                sn_weights_publish(x.exec, x.job, x.comm, &err) == SN_OK;
    for (int i = 1; i <= STEPS && good; i++) {
        if (i == STEPS - LAST + 1)
            before = sn_exec_scalars(x.exec)->balance_sum;
        good = learner_step(&x, i, &loss, &err) == SN_OK;
    }
    double sum = good ? before - sn_exec_scalars(x.exec)->balance_sum : -1;
    speaker_destroy(&x);
    return good ? sum / (LAST * LAYERS * BATCH * SEQ) : -1;
}

static void the_loss_makes_experts_tell_tokens_apart(void)
{
    double without = information_with(1e-9), with = information_with(0.5);
    tap_ok(without >= 0 && with > 2 * without && with > 0.2 && with < log(EXPERTS),
           "tokens and experts have %.3f of at most %.3f in common with the loss, %.3f without",
           with, log(EXPERTS), without);
}

/* --- what it leaves --------------------------------------------------------------------------- */

static void what_was_trained_dense_goes_on_sparse(void)
{
    struct speaker x = {0}, y = {0};
    struct sn_model_config dense = mixture(SN_ROUTER_DENSE, 0.1);
    struct sn_model_config sparse = mixture(SN_ROUTER_SOFTMAX, 0.1);
    struct sn_model_config drawn = mixture(SN_ROUTER_SPARSEMIXER, 0.1);
    struct fake f = {0};
    struct sn_err err = {0};
    struct sn_str own = {0}, other = {0};
    char *text = NULL;
    double a = 0, b = 0;
    bool good = train(&x, &dense, 3);
    struct sn_source s = snapshot(&f, &x, &text);
    good =
        good && learner_create(&y, &sparse, &err) == SN_OK && learner_fill(&y, &s, &err) == SN_OK;
    sn_config_format_model(&own, &y.config);
    tap_ok(good && text && strcmp(text, own.p) == 0, "a dense router's model is the softmax's%s",
           err.text);
    y.config.model = drawn;
    sn_config_format_model(&other, &y.config);
    tap_ok(strcmp(own.p, other.p) != 0 && strstr(other.p, "router: sparsemixer"),
           "and a sparsemixer's another one");
    good = good && learner_step(&x, 4, &a, &err) == SN_OK && learner_step(&y, 4, &b, &err) == SN_OK;
    tap_ok(good && a > 0 && b > 0 && a != b, "it trains on, two experts for a token (%.4f, %.4f)%s",
           a, b, err.text);
    speaker_destroy(&x);
    speaker_destroy(&y);
    fake_fini(&f);
    sn_str_fini(&own);
    sn_str_fini(&other);
    sn_free(text);
}

/* Evaluated as the field's mixtral is, or not. */
static void files_of_the_field_have_a_softmax_router(void)
{
    struct sn_model_config dense = mixture(SN_ROUTER_DENSE, 0.1);
    struct sn_model_config drawn = mixture(SN_ROUTER_SPARSEMIXER, 0.1);
    struct sn_str text = {0};
    struct sn_err err = {0};
    tap_ok(sn_hfconfig_format(&text, &dense, SN_F32, NULL, &err) == SN_OK &&
               strstr(text.p, "\"num_experts_per_tok\": 2"),
           "a model that is trained dense is the field's mixtral%s", err.text);
    tap_ok(sn_hfconfig_format(&text, &drawn, SN_F32, NULL, &err) == SN_EINPUT &&
               strstr(err.text, "model.experts.router"),
           "a sparsemixer's is not: %s", err.text);
    sn_str_fini(&text);
}

int main(void)
{
    for (int members = 2; members <= 4; members *= 2) {
        bytes_are_the_formula(members, 1, SN_RECOMPUTE_NONE);
        bytes_are_the_formula(members, 1, SN_RECOMPUTE_FULL);
        bytes_are_the_formula(members, 4, SN_RECOMPUTE_FULL);
    }
    the_loss_makes_experts_tell_tokens_apart();
    what_was_trained_dense_goes_on_sparse();
    files_of_the_field_have_a_softmax_router();
    return tap_done();
}
