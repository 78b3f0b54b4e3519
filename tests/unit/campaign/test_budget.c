/*
 * test_budget.c - scaling laws, models of a shape, and what so many node-hours buy.
 */
#include "lib/base/mem.h"
#include "lib/campaign/budget.h"
#include "tests/lib/layout_test.h"
#include "tests/lib/tap.h"

#include <stdlib.h>

static void laws_are_least_where_they_say(void)
{
    for (int i = 0; i < SN_NLAWS; i++) {
        const struct sn_law *l = &sn_laws[i];
        for (double c = 1e19; c < 1e27; c *= 1000) {
            double n = sn_law_parameters(l, c), d = c / 6 / n, best = sn_law_loss(l, n, d);
            tap_close(sn_law_tokens(l, n), d, 1e-9, 0, "tokens of the best size spend the budget");
            if (l->a > 0)
                tap_ok(best < sn_law_loss(l, n * 1.02, d / 1.02) &&
                           best < sn_law_loss(l, n / 1.02, d * 1.02),
                       "%s at %.0e FLOPs: %.3g parameters, loss %.4f, and more elsewhere", l->name,
                       c, n, best);
            else
                tap_close(d / n, 20, 1e-12, 0, "20 tokens a parameter");
        }
    }
}

/* Besiroglu et al. 2024: the fit agrees with 20 tokens a parameter at Chinchilla's 5.76e23 FLOPs, and the
 * published one does not (93). */
static void the_default_agrees_with_the_other_approaches(void)
{
    const struct sn_law *l = NULL;
    struct sn_err err = {0};
    double n = sn_law_parameters(&sn_laws[0], 5.76e23);
    tap_ok(sn_law_tokens(&sn_laws[0], n) / n > 18 && sn_law_tokens(&sn_laws[0], n) / n < 26,
           "%s: %.1f tokens a parameter at Chinchilla's budget", sn_laws[0].name,
           sn_law_tokens(&sn_laws[0], n) / n);
    n = sn_law_parameters(&sn_laws[1], 5.76e23);
    tap_ok(sn_law_tokens(&sn_laws[1], n) / n > 60, "%s: %.1f", sn_laws[1].name,
           sn_law_tokens(&sn_laws[1], n) / n);
    tap_ok(sn_law_find(&l, "20", &err) == SN_OK && l == &sn_laws[2], "laws have names");
    tap_ok(sn_law_find(&l, "kaplan", &err) == SN_EINPUT && strstr(err.text, "want epoch-2024, "),
           "others are refused: %s", err.text);
}

static void models_of_a_shape_keep_it(void)
{
    struct sn_model_config m = {
        .layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672, .vocab = 128256};
    tap_ok(sn_budget_unit(&m) == 8, "heads go in groups of those that share a key-value head");
    tap_ok(sn_budget_scale(&m, 128) && m.layers == 160 && m.hidden == 16384 && m.kv_heads == 16 &&
               m.ffn == 57344 && m.vocab == 128256,
           "twice the heads: twice the layers, hidden size and inner width");
    bool good = sn_budget_scale(&m, 24);
    tap_ok(good && m.layers == 32 && m.hidden == 3072 && m.kv_heads == 3 && m.ffn == 10752,
           "24 of 128: layers by fours, inner width by 256 (%d, %d)", m.layers, m.ffn);
    m.experts.count = 8;
    tap_ok(!sn_budget_scale(&m, 8) && m.heads == 24, "with experts there is no shape to scale");
}

/* 4 devices at 1 TFLOP/s, a node each; nothing fails. */
static struct sn_machine machine(void)
{
    struct sn_machine m = {.name = "four",
                           .devices = 1,
                           .mtbf_hours = 1e9,
                           .n_levels = 1,
                           .storage_write = 1e12,
                           .device = {.memory = 1LL << 34, .bandwidth = 1e12}};
    m.device.gemm[SN_F32] = (struct sn_gemm_rate){.peak = 1e12, .most = 1};
    m.device.attention_forward = m.device.attention_backward = 1;
    for (int i = 0; i < SN_NMOVED; i++)
        m.device.moved[i] = 1;
    m.level[0] = (struct sn_level){.name = "net",
                                   .latency = 1e-6,
                                   .device = 1e11,
                                   .efficiency = 1,
                                   .all_reduce = 1,
                                   .crowd = 1};
    return m;
}

static double notice(double step, double save, double limit)
{
    (void)limit;
    return step + save;
}

static void hours_buy_tokens(void)
{
    struct sn_err err = {0};
    struct sn_machine m = machine();
    struct sn_software software;
    struct sn_config *c = sn_alloc(sizeof(*c));
    struct sn_budget *b = sn_alloc(sizeof(*b)), *more = sn_alloc(sizeof(*more));
    if (!tap_ok(c && b && more, "there is memory"))
        exit(1);
    sn_software_default(&software);
    *c = layout_config(SN_GPT2);
    c->layout_auto = true;
    c->layout.data = 0;
    c->train.global_batch = 8;
    c->checkpoint.every = 0;
    c->checkpoint.keep = 1;
    struct sn_points_want w = {.config = c,
                               .machine = &m,
                               .software = &software,
                               .campaign = {.ops = sn_ops_cpu(), .threads = 1, .notice = notice},
                               .ranks = 4};
    bool good = sn_budget_find(b, &w, 4.0, &sn_laws[2], &err) == SN_OK && b->run.found;
    tap_ok(good, "four node-hours buy something %s%s", err.text, b->run.why);
    const struct sn_campaign *k = &b->run.campaign;
    tap_ok(k->node_hours <= 4.0 && k->node_hours > 3.9, "nearly all of them are spent: %.3f",
           k->node_hours);
    tap_close(k->held.seconds, 3600, 0.01, 0, "an hour of four nodes");
    tap_ok(b->largest.found, "there is a largest model %s", b->largest.why);
    double n = (double)b->largest.campaign.parameters;
    tap_ok(b->largest.campaign.tokens >= 20 * n && n >= (double)k->parameters,
           "which sees 20 tokens a parameter: %.3g of %.3g", b->largest.campaign.tokens, n);
    good = sn_budget_find(more, &w, 64.0, &sn_laws[2], &err) == SN_OK && more->largest.found;
    double ratio = (double)more->largest.campaign.parameters / n;
    tap_ok(good && ratio > 2 && ratio < 8,
           "16 times the hours, some four times the parameters: %.2f %s", ratio, err.text);
    tap_ok(sn_budget_find(b, &w, 1e-9, &sn_laws[2], &err) == SN_EINPUT &&
               strstr(err.text, "in which no step is done"),
           "hours in which nothing is done: %s", err.text);
    sn_free(more);
    sn_free(b);
    sn_free(c);
}

int main(void)
{
    laws_are_least_where_they_say();
    the_default_agrees_with_the_other_approaches();
    models_of_a_shape_keep_it();
    hours_buy_tokens();
    return tap_done();
}
